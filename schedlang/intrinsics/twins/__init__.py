"""The intrinsics of `schedlang.intrinsics.cpu` in NumPy, for kernels that run uncompiled.

They have the same names and the same meaning.  A scalar is a NumPy scalar, a vector a small array.
Every access is checked and may raise IndexError.  Scratch arrays are first filled with NaN or an
odd number, so that a read before the first write shows.  Run a kernel under
`numpy.errstate(all="ignore")`: its plain operators are NumPy's own and warn of overflow.
"""

from __future__ import annotations

from schedlang.intrinsics.dialect import NAMES
from schedlang.intrinsics.twins.arithmetic import *
from schedlang.intrinsics.twins.clock import *
from schedlang.intrinsics.twins.denormals import *
from schedlang.intrinsics.twins.extern import *
from schedlang.intrinsics.twins.hints import *
from schedlang.intrinsics.twins.instructions import *
from schedlang.intrinsics.twins.math import *
from schedlang.intrinsics.twins.memory import *
from schedlang.intrinsics.twins.vectors import *

__all__ = list(NAMES)
