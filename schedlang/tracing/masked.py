"""The elements of an array that a mask selects: ``x[x > 0]``. Only the values tell how many they
are.

Elementwise operations compute all elements of the array; those under the mask count. So ``x[mask] =
x[mask] ** 2`` and ``x[mask].mean()`` can be computed, although the selection itself has no shape
while the function is traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeTypeError, explain
from schedlang.tracing.powers import check_power
from schedlang.tracing.trace import Value

# NumPy's functions on tensors; NumPy's types do not know these calls
numpy: Any = np


class MaskedElements(np.lib.mixins.NDArrayOperatorsMixin):
    """Elements of ``whole`` where ``mask`` holds, in row-major order.

    ``given`` is the mask of the index, which may lack the last dimensions.
    """

    __slots__ = ("whole", "mask", "given", "wrapped")

    def __init__(
        self, whole: Value, mask: Tensor, given: Tensor, wrapped: Callable[[Any], Any]
    ) -> None:
        self.whole = whole
        self.mask = mask
        self.given = given
        self.wrapped = wrapped

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.ndarray

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.whole.dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if kwargs.get("out") == (self,):
            # x[mask] += 1, which x[mask] = ... assigns afterwards
            del kwargs["out"]
        if method != "__call__" or kwargs:
            self.refuse(f"np.{ufunc.__name__}.{method}")
        check_power(ufunc, inputs, kwargs)
        operands = []
        for value in inputs:
            if isinstance(value, MaskedElements):
                if value.given is not self.given:
                    self.refuse(f"np.{ufunc.__name__} of elements under two masks")
                operands.append(value.whole)
                continue
            value = getattr(value, "value", value)
            if np.ndim(value):
                self.refuse(f"np.{ufunc.__name__} with an array of shape {np.shape(value)}")
            operands.append(value)
        return MaskedElements(ufunc(*operands), self.mask, self.given, self.wrapped)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if args and args[0] is self and function in (np.sum, np.mean) and len(args) == 1:
            if not kwargs:
                return self.sum() if function is np.sum else self.mean()
        self.refuse(f"np.{function.__name__}")

    def sum(self) -> Any:
        """Return the sum of the elements."""
        return self.wrapped(numpy.sum(self.whole, where=self.mask))

    def mean(self) -> Any:
        """Return the mean of the elements; NaN if there are none."""
        count = numpy.sum(self.mask)
        total = numpy.sum(self.whole, where=self.mask)
        quotient = total / count
        return self.wrapped(
            quotient if quotient.dtype == self.whole.dtype else quotient.astype(self.dtype)
        )

    def refuse(self, what: str) -> NoReturn:
        """Raise ``ComputeTypeError`` for what needs their number."""
        raise ComputeTypeError(
            explain(
                f"{what} of x[mask]",
                "how many elements a mask selects depends on its values, and shapes must be known "
                "when the function is traced",
                "Keep the shape, with np.where(mask, x, other), or reduce under it, as in "
                "np.sum(x, where=mask); x[mask] = value, x[mask].sum() and .mean() work.",
            )
        )

    def __getattr__(self, name: str) -> Any:
        self.refuse(f".{name}")

    def __iter__(self) -> NoReturn:
        self.refuse("iterating over the elements")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        self.refuse("a NumPy array")
