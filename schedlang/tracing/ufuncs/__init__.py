"""``sl.ufunc``: a function over numbers, or over small arrays, as a ufunc of NumPy.

``definition.py`` has the public function, which checks its arguments. ``elements.py`` traces the
function on elements, for each combination of dtypes, and makes the machine nest of a loop.
``cores.py`` does so for a generalized ufunc, whose signature ``signature.py`` reads. A loop
(``loop.py``) is compiled when NumPy first calls it; ``runtime/llvm/ufunc_loop.py`` and
``runtime/llvm/gufunc_loop.py`` print what NumPy calls. ``identity.py`` says where a reduction
starts, ``numpy_api.py`` makes the ufunc by NumPy's C API, and ``pickling.py`` pickles it by value.
``wording.py`` words the errors of the function for a user who sees neither axes nor stages.
"""
