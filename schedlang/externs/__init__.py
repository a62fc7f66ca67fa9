"""Functions of users as stages: ``sl.extern``.

``definition.py`` makes the operation, ``functions.py`` says how a function is called, ``boxes.py``
reads ``reads=`` and ``writes=``, and ``check.py`` calls a function with poison around its boxes.
``loops.py`` makes functions of loops written by hand, which become a part of the kernel.
``python_text.py`` writes the source of a function of Python with all that it needs, and
``shared.py`` makes functions in other processes. ``lowering/extern.py`` makes one statement of a
call, and ``runtime/extern_table.py`` gives kernels the addresses.
"""

# functions are pickled by it
from schedlang.externs import shared

__all__ = ["shared"]
