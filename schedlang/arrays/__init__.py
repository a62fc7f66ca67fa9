"""Arrays in the manner of NumPy: operators, methods and functions of whole tensors.

Each makes a stage as ``sl.compute`` does. Importing the package gives them to
:class:`~schedlang.compute.tensor.Tensor`, since ``compute`` lies to its left.
"""

import schedlang.arrays.methods  # noqa: F401 - gives tensors their operators and methods
from schedlang.arrays.einsum import einsum
from schedlang.arrays.naming import named, rename

__all__ = ["einsum", "named", "rename"]
