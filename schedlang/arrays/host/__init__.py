"""Functions of NumPy that are called as they are, on the host: sorts, solvers, transforms.

Each is a row of a table: NumPy's parameters, which of them are arrays, and the shape of the result.
``calls.py`` makes a stage of a call, whose dtypes are what NumPy returns for arrays of one element.
``row.py`` says what a row and a call are. ``shapes.py`` has the rules of shapes, and the families
are ``sorting.py``, ``linear.py``, ``fourier.py`` and ``counting.py``. ``unsized.py`` has the
functions whose results have a length that only the elements tell, for traced functions alone.

A further function is a row, with the rule of its shape, and a case in ``tests/host_calls.py``.
"""
