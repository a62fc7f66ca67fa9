"""Functions of users as stages: ``sl.extern``.

``definition.py`` makes the operation, ``functions.py`` says how a function is called, ``boxes.py``
reads ``reads=`` and ``writes=``, and ``check.py`` calls a function with poison around its boxes.
``lowering/extern.py`` makes one statement of a call, and ``runtime/extern_table.py`` gives kernels
the addresses.
"""
