"""Functions of ``scipy.special`` that the language has, on whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from schedlang.arrays.elementwise import array
from schedlang.arrays.operands import operand
from schedlang.compute.tensor import Tensor
from schedlang.language.calls import call
from schedlang.language.construct import cast, settle
from schedlang.language.foreign import is_of_scipy

# SciPy's name of a function, and the language's
_NAMES = {"erf": "erf", "erfc": "erfc", "expit": "sigmoid"}


def has_special(ufunc: Any) -> bool:
    """Return whether the language has this function of ``scipy.special``."""
    return ufunc.__name__ in _NAMES and is_of_scipy(ufunc)


def special(ufunc: Any, inputs: Sequence[Any]) -> Tensor:
    """Return a function of ``scipy.special``, in SciPy's dtype."""
    asked = f"scipy.special.{ufunc.__name__}"
    value = operand(inputs[0], asked)
    given = value.dtype if isinstance(value, Tensor) else settle(value, "float64").dtype
    kind = ufunc(np.zeros((), given)).dtype.name
    function = _NAMES[ufunc.__name__]
    return array(ufunc.__name__, lambda v: call(function, cast(v, kind)), value, asked=asked)
