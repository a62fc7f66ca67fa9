"""Arrays in the manner of NumPy: operators, methods and functions of whole tensors.

Each makes a stage, like ``sl.compute``. Importing the package gives them to
:class:`~schedlang.compute.tensor.Tensor`, since ``compute`` lies to its left (``methods.py``).

``functions.py`` is the table of NumPy's functions that have a form, with NumPy's parameters; each
function is in the file of its family. ``calls.py`` matches arguments. ``keywords.py`` and
``refused.py`` say what has no form, and what to write instead. A stage is made in ``stages.py``,
with a name from ``naming.py``, and reads its operands through views (``operands.py``).
``shapes.py`` broadcasts, and knows symbolic extents. What NumPy computes as a whole, such as a
sort, is a stage that calls it (``host/``).
"""

import schedlang.arrays.methods  # noqa: F401 - gives tensors their operators and methods
from schedlang.arrays.einsum import einsum
from schedlang.arrays.naming import named, rename

__all__ = ["einsum", "named", "rename"]
