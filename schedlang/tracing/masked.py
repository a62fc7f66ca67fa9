"""The elements of an array that a mask selects: ``x[x > 0]``. Only the values tell how many they
are.

Elementwise operations compute all elements of the array; those under the mask count. So ``x[mask] =
x[mask] ** 2`` and ``x[mask].mean()`` run inside a kernel. Anything else takes the selection as an
array, whose length is known between the kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from schedlang.arrays.operands import shape_of
from schedlang.arrays.shapes import same_shape
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeTypeError, explain
from schedlang.tracing.leaves import flatten, rebuilt
from schedlang.tracing.outputs import check_in_place
from schedlang.tracing.powers import check_power
from schedlang.tracing.trace import Value
from schedlang.tracing.unsized import extracted

# NumPy's functions on tensors; NumPy's types do not know these calls
numpy: Any = np


class MaskedElements(np.lib.mixins.NDArrayOperatorsMixin):
    """Elements of ``whole`` where ``mask`` holds, in row-major order.

    ``given`` is the mask of the index, which may lack the last dimensions; ``mask`` has them all.
    What needs the number of elements works on an array of them, and so does all that comes after.
    """

    __slots__ = ("whole", "mask", "given", "wrapped", "_array")

    def __init__(
        self, whole: Value, mask: Tensor, given: Tensor, wrapped: Callable[[Any], Any]
    ) -> None:
        self.whole = whole
        self.mask = mask
        self.given = given
        self.wrapped = wrapped
        self._array: Any = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.ndarray

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.whole.dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        in_place = kwargs.get("out", ())
        options = {k: v for k, v in kwargs.items() if k != "out"}
        fits = all(
            v.whole_under(self.given, shape_of(self.whole))
            if isinstance(v, MaskedElements)
            else not np.ndim(v)
            for v in (*inputs, *in_place)
        )
        if method != "__call__" or options or not fits:
            if in_place:
                options["out"] = tuple(map(_array_of, in_place))
            return getattr(ufunc, method)(*map(_array_of, inputs), **options)
        check_power(ufunc, inputs, kwargs)
        result = ufunc(*map(_whole_of, inputs))
        for target in in_place:
            check_in_place(np.dtype(result.dtype), target.dtype)
            target.whole = result.astype(target.dtype)
            return target
        return MaskedElements(result, self.mask, self.given, self.wrapped)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if args and args[0] is self and function in (np.sum, np.mean) and len(args) == 1:
            if not kwargs:
                return self.sum() if function is np.sum else self.mean()
        given, form = flatten([list(args), dict(kwargs)])
        positional, named = rebuilt(form, [*map(_array_of, given)])
        return function(*positional, **named)

    def whole_under(self, mask: Any, shape: Any) -> bool:
        """Return whether ``whole``, of this ``shape``, has these elements where ``mask`` holds."""
        if mask is not self.given or self._array is not None:
            return False
        return same_shape(shape_of(self.whole), shape)

    def as_array(self) -> Any:
        """Return the elements as an array of the trace, whose length the kernels do not know."""
        if self._array is None:
            self._array = self.wrapped(extracted("x[mask]", self.given, self.whole))
        return self._array

    def sum(self, *args: Any, **kwargs: Any) -> Any:
        """Return the sum of the elements, or ``np.sum`` of them along an axis."""
        if self._array is not None or args or kwargs:
            return self.as_array().sum(*args, **kwargs)
        return self.wrapped(numpy.sum(self.whole, where=self.mask))

    def mean(self, *args: Any, **kwargs: Any) -> Any:
        """Return the mean of the elements, or along an axis; NaN if there are none."""
        if self._array is not None or args or kwargs:
            return self.as_array().mean(*args, **kwargs)
        count = numpy.sum(self.mask)
        total = numpy.sum(self.whole, where=self.mask)
        quotient = total / count
        inexact = np.issubdtype(self.dtype, np.inexact)
        return self.wrapped(quotient.astype(self.dtype) if inexact else quotient)

    def refuse(self, what: str) -> NoReturn:
        """Raise ``ComputeTypeError`` for what needs their number while the function is traced."""
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
        return getattr(self.as_array(), name)

    def __getitem__(self, item: Any) -> Any:
        return self.as_array()[item]

    def __setitem__(self, item: Any, value: Any) -> None:
        self.as_array()[item] = value

    def __str__(self) -> str:
        return str(self.as_array())

    def __format__(self, spec: str) -> str:
        return format(self.as_array(), spec)

    def __len__(self) -> NoReturn:
        self.refuse("len()")

    def __iter__(self) -> NoReturn:
        self.refuse("iterating over the elements")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        self.refuse("a NumPy array")


def _whole_of(value: Any) -> Any:
    return value.whole if isinstance(value, MaskedElements) else getattr(value, "value", value)


def _array_of(value: Any) -> Any:
    return value.as_array() if isinstance(value, MaskedElements) else value
