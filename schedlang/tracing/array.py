"""The arrays that a traced function sees: NumPy's operations on them make stages.

A traced array is a name for storage, or a view of one, as in NumPy: assignments to its elements
replace the value of the storage, and every view sees the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from schedlang.arrays.functions import ELEMENTWISE
from schedlang.arrays.shapes import size_of
from schedlang.arrays.ufuncs import apply, takes_arrays
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeTypeError
from schedlang.expr.dtypes import is_complex
from schedlang.expr.nodes import Expr
from schedlang.index.simplify import to_lin
from schedlang.language.foreign import NUMBA_TYPE, check_ufunc, refuse_if_compiled
from schedlang.language.numpy_functions import name_of
from schedlang.language.torch_functions import refuse_torch
from schedlang.tracing.calls import compute_once, key_of
from schedlang.tracing.creation import CREATED, LIKE, create
from schedlang.tracing.flat import FlatElements
from schedlang.tracing.forms import check_form, check_known
from schedlang.tracing.indexing import assign_elements, assign_under, check_mask, select
from schedlang.tracing.items import (
    copies,
    has_ellipsis,
    in_order,
    index_of,
    plain,
    refuse_axes,
    unknown_places,
    with_all,
)
from schedlang.tracing.leaves import flatten, is_traced, sequence_of
from schedlang.tracing.listed import operand, with_operands
from schedlang.tracing.masked import MaskedElements
from schedlang.tracing.memory import Read, View, Write, part_of
from schedlang.tracing.methods import add_methods
from schedlang.tracing.outputs import copy_to, for_out, into, update_in_place
from schedlang.tracing.placed import PLACED
from schedlang.tracing.powers import check_power, to_the_power
from schedlang.tracing.python_numbers import (
    add_operators,
    are_of_python,
    class_of,
    of_numpy,
    result_of,
)
from schedlang.tracing.ranged import ranged
from schedlang.tracing.scalars import settle_beside_arrays
from schedlang.tracing.spans import of_lengths, truth_of
from schedlang.tracing.stores import stored_value
from schedlang.tracing.trace import Storage, Value, current
from schedlang.tracing.unknown import (
    UNKNOWN,
    missing_attribute,
    refuse_element,
    refuse_format,
    refuse_length,
    refuse_outside,
)
from schedlang.tracing.unsized import unsized
from schedlang.tracing.views import in_one_row, refuse_imaginary, reshaped_in_place, shared_result

# NumPy's functions on tensors; NumPy's types do not know these calls
numpy: Any = np


class TracedArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of a traced function, of known shape and dtype, whose elements are unknown.

    Its ``kind`` is the class that ``isinstance`` sees: NumPy's array, or the class of a scalar,
    which never changes, unlike a 0-d array.
    """

    __slots__ = ("_view", "_kind")
    __pow__ = to_the_power

    def __init__(self, storage: Storage, kind: type = np.ndarray) -> None:
        self._view = View(storage)
        self._kind = kind

    @property
    def storage(self) -> Storage:
        return self._view.storage

    @property
    def is_view(self) -> bool:
        return self._view.base is not None

    @property
    def is_scalar(self) -> bool:
        return self._kind is not np.ndarray

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self._kind

    @property
    def value(self) -> Value:
        """The present value, a tensor or, of a 0-d array, an expression."""
        return self._view.value

    def assign(self, value: Value) -> None:
        """Replace the value; if this is a view, replace the value of its array, too."""
        self._view.assign(value)

    def view_by(
        self,
        read: Read,
        write: Write | None = None,
        others: Sequence[TracedArray] = (),
        **options: Any,
    ) -> TracedArray:
        """Return a :class:`~schedlang.tracing.memory.View` of this array, and of ``others``."""
        view = TracedArray(self.storage)
        below = tuple(other._view for other in others)
        view._view = View(self.storage, self._view, read, write, others=below, **options)
        return view

    @property
    def in_order(self) -> bool:
        """True if NumPy puts the elements of a result in the order of this array row by row."""
        return self._view.in_order

    @property
    def layout(self) -> np.ndarray | None:
        """An array of NumPy with the same shape and strides; ``None`` if they are unknown."""
        return self._view.layout

    @property
    def extents(self) -> tuple[Any, ...]:
        """The shape of the value, with symbolic extents as expressions."""
        value = self.value
        return value.shape if isinstance(value, Tensor) else ()

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(map(number_of, self.extents))

    @shape.setter
    def shape(self, shape: Any) -> None:
        reshaped = reshaped_in_place(self, shape)
        self._view = reshaped._view

    @property
    def flat(self) -> FlatElements:
        """The elements in row-major order: an element, a copy of some, or an assignment."""
        return FlatElements(in_one_row(self))

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[:] = value

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.value.dtype)

    @property
    def ndim(self) -> int:
        return len(self.extents)

    @property
    def size(self) -> Any:
        return number_of(size_of(self.extents))

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def T(self) -> TracedArray:  # noqa: N802
        return self.transpose()

    @property
    def mT(self) -> TracedArray:  # noqa: N802
        return numpy.matrix_transpose(self)

    @property
    def real(self) -> TracedArray:
        """The real parts, a view; of real numbers, the array itself."""
        if not is_complex(self.value.dtype):
            return self
        return self._part("real", lambda base, value: value + 1j * numpy.imag(base))

    @real.setter
    def real(self, value: Any) -> None:
        self.real._assign_part(self, "real", value)

    @property
    def imag(self) -> TracedArray:
        """The imaginary parts, a view. For real numbers they are 0 and never change."""
        if not is_complex(self.value.dtype):
            return self._part("imag", refuse_imaginary)
        return self._part("imag", lambda base, value: numpy.real(base) + 1j * value)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag._assign_part(self, "imag", value)

    def _part(self, name: str, write: Write) -> Any:
        function = getattr(np, name)
        if self.is_scalar:
            return wrap(function(self.value))
        return self.view_by(
            lambda base: compute_once(function, (base,), {}),
            write,
            item=name,
            ordered=is_complex(self.value.dtype),
            mirrored=part_of if is_complex(self.value.dtype) else None,
        )

    def _assign_part(self, whole: TracedArray, name: str, value: Any) -> None:
        """Assign to a part of ``whole``; ``z.real += x`` has done so already."""
        is_assigned = (
            isinstance(value, TracedArray)
            and value._view.base is whole._view
            and value._view.item == name
        )
        if not is_assigned:
            self[...] = value

    def conj(self) -> TracedArray:
        """Return the complex conjugate as a new array, or this array if its numbers are real."""
        return numpy.conj(self) if is_complex(self.value.dtype) else self

    conjugate = conj

    def transpose(self, *axes: Any) -> TracedArray:
        """Return a view with permuted axes, all of them reversed by default."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return numpy.transpose(self, order)

    def __getitem__(self, item: Any) -> Any:
        refuse_axes(self, item)
        elements = ranged(self, item, wrap)
        if elements is not None:
            return elements
        picked = index_of(item)
        if isinstance(picked, tuple) and not picked and self.ndim:
            picked = Ellipsis
        if not self.ndim and picked is Ellipsis:
            return self.view_by(
                lambda base: base, lambda _, value: value, ordered=True, mirrored=lambda a: a
            )
        if isinstance(picked, Tensor) and picked.dtype == "bool":
            return MaskedElements(self.value, check_mask(self.value, picked), picked, wrap)
        tests, made_in = current().all_conditions(), current()

        def place() -> Any:
            # the body of a loop has values of its own for scalars from around it
            return picked if current() is made_in else index_of(item)

        def read(base: Value) -> Any:
            under = tuple(test.value for test in tests)
            return compute_once(select, (base, place(), under), {})

        view = self.view_by(
            read,
            lambda base, value: assign_elements(base, place(), value),
            ordered=in_order(picked),
            item=key_of(picked),
            mirrored=None if unknown_places(picked) else lambda layout: layout[with_all(picked)],
        )
        if copies(item) or (not view.ndim and not has_ellipsis(picked)):
            # NumPy copies what arrays of indices choose, and single elements
            return wrap(view.value)
        return view

    def __setitem__(self, item: Any, value: Any) -> None:
        if isinstance(value, TracedArray) and value._view.base is self._view:
            if value._view.item == key_of(index_of(item)):
                # x[i] += y assigns to the view x[i], then that view to x[i]
                return
        self.check_written()
        picked = index_of(item)
        if isinstance(value, MaskedElements) and value.whole_under(picked, self.extents):
            self.assign(assign_under(self.value, picked, value.whole))
            return
        self.assign(assign_elements(self.value, picked, stored_value(value, self.dtype)))

    def check_written(self) -> None:
        """Raise for a scalar, which is not assigned to."""
        if self.is_scalar:
            raise ComputeTypeError(
                "an assignment into a scalar: it is a number, not an array, and never changes; "
                "write s = ..."
            )

    def __len__(self) -> int:
        if not self.ndim:
            raise ComputeTypeError("len() of a 0-d array: it has one element and no length")
        if not isinstance(self.extents[0], int):
            refuse_length(self)
        return self.extents[0]

    def __bool__(self) -> bool:
        known = None if (value := of_lengths(self)) is None else truth_of(value)
        return UNKNOWN["__bool__"](self) if known is None else known

    def __iter__(self) -> Iterator[TracedArray]:
        return (self[k] for k in range(len(self)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        inputs = tuple(map(operand, inputs)) if method != "at" else inputs
        whole = method == "__call__" and takes_arrays(ufunc, inputs) and not {*kwargs} - {"out"}
        if not whole:
            check_ufunc(ufunc, f"an array of {current().title}")
        if method == "at":
            return update_in_place(ufunc, *inputs)
        out = kwargs.pop("out", None)
        where = True if out is None or method != "__call__" else kwargs.pop("where", True)
        settle_beside_arrays(inputs)
        operands = tuple(map(plain, inputs))
        if whole:
            result = compute_once(apply, (ufunc, method, operands, ()), {})
        else:
            check_form(ufunc, method)
            check_power(ufunc, inputs, kwargs)
            options = plain(for_out(ufunc, method, inputs[0], out, kwargs))
            result = compute_once(getattr(ufunc, method), operands, options)
        if out is not None:
            return into(out, result, ufunc, method, where)
        if are_of_python(inputs):
            return wrap(of_numpy(result))
        return wrap(result, method == "__call__" and _rows(inputs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in CREATED:
            options = {k: v for k, v in kwargs.items() if k != "like"}
            check_known(function, args, options)
            if current().closed or any(map(is_traced, flatten((args, options))[0])):
                args, options = plain(tuple(args)), plain(options)
            return array_of(create(function, *args, **options), rows=True)
        late = unsized(function, args, kwargs)
        if late is not NotImplemented:
            return wrap(late, True)
        check_known(function, args, kwargs)
        if function in _ATTRIBUTES:
            return _ATTRIBUTES[function](*args, **kwargs)
        check_form(function)
        args, options = with_operands(function, args, kwargs)
        result = shared_result(function, args, options)
        if result is not NotImplemented:
            return result
        out = options.pop("out", None)
        settle_beside_arrays(args)
        options = for_out(function, "", args[0] if args else None, out, options)
        result = compute_once(function, plain(args), plain(options))
        result = result_of(function, args, result)
        if out is not None:
            return into(out, result, function)
        if function in LIKE:
            return array_of(result, _rows(args[:1]))
        rows = name_of(function) in ELEMENTWISE and _rows(flatten(args)[0])
        return array_of(result, rows) if function in _ARRAYS else wrap(result, rows)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), named: Any = None
    ) -> NoReturn:
        what = f"an array of {current().title}"
        refuse_torch(function, args, named or {}, what, "x")

    @staticmethod
    def apply_traced(function: Any, args: Any, named: Any) -> Any:
        """Return a function of the language, such as ``sl.exp``, of arrays of the trace."""
        return wrap(compute_once(function, plain(args), plain(named)))

    # functions that take tensors, and expressions over axes
    refuse_outside = refuse_outside
    as_scalar = refuse_element

    def copy(self, order: str = "C") -> TracedArray:
        """Return an array of its own with this value."""
        if self.is_scalar:
            return wrap(self.value)
        return array_of(self.value, order == "C" or (order in "KA" and self.in_order))

    def __copy__(self) -> TracedArray:
        return self.copy("K")

    def __deepcopy__(self, memo: Any) -> TracedArray:
        return self.copy("K")

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: Any = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> TracedArray:
        """Return the elements converted to ``dtype``; without ``copy``, this array if it may.

        Raises ``ComputeTypeError`` for a conversion that ``casting`` excludes.
        """
        kind = np.dtype(dtype)
        if not np.can_cast(self.dtype, kind, casting):
            raise ComputeTypeError(
                f".astype({str(kind)!r}, casting={casting!r}) of an array of {self.dtype}: this "
                "rule excludes the conversion; leave casting= out"
            )
        if not copy and self.dtype == kind:
            return self
        converted = self.value.astype(dtype)
        return wrap(converted) if self.is_scalar else array_of(converted, self.in_order)

    def flatten(self, order: str = "C") -> TracedArray:
        """Return a 1-d copy."""
        return numpy.ravel(self, order=order).copy()

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """Return the elements in row-major order in another shape."""
        dimensions = shape[0] if len(shape) == 1 else shape
        return numpy.reshape(self, dimensions, order=order, copy=copy)

    def fill(self, value: Any) -> None:
        """Assign ``value`` to every element."""
        self[...] = value

    def __repr__(self) -> str:
        return f"TracedArray(shape={self.extents}, dtype={self.dtype})"

    def __format__(self, spec: str) -> str:
        refuse_format(self)

    __str__ = refuse_format

    def __getattr__(self, name: str) -> Any:
        # numba takes it for an array of NumPy
        refuse_if_compiled(self)
        raise missing_attribute(type(self), name)


def wrap(value: Any, rows: bool = False) -> Any:
    """Return values as new arrays of the trace, those without dimensions as scalars.

    Containers are taken element by element. ``rows`` says that arrays lie row by row in memory.
    """
    if isinstance(value, (Tensor, Expr)):
        return TracedArray(current().new(value, rows), class_of(value))
    if isinstance(value, (tuple, list)):
        return sequence_of(type(value), (wrap(v, rows) for v in value))
    return value


def number_of(extent: Any) -> Any:
    """Return an extent as users see it: one over symbolic lengths is a number of the trace."""
    if isinstance(extent, int) or of_lengths(extent) is None:
        return extent
    outermost = current().outermost
    key = (number_of, to_lin(extent))
    number = outermost.computed.setdefault(key, TracedArray(Storage(outermost, ""), int))
    outermost.values.setdefault(number.storage, extent)
    return number


def array_of(value: Value, rows: bool = False) -> TracedArray:
    """Return a new array of the trace, a 0-d one if ``value`` has no dimensions."""
    return TracedArray(current().new(of_numpy(value), rows))


def _rows(values: Sequence[Any]) -> bool:
    """Return whether NumPy puts a result of operands element by element row by row in memory."""
    arrays = (v for v in values if isinstance(v, (TracedArray, np.ndarray)))
    return all(v.in_order if isinstance(v, TracedArray) else v.flags.c_contiguous for v in arrays)


# the results of other functions without dimensions are scalars
_ARRAYS = {np.where, np.select, np.pad, np.roll, np.tile, np.tensordot, np.linalg.tensordot}
_ATTRIBUTES: dict[Any, Callable[..., Any]] = {
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.copy: lambda a, order="K", subok=False: array_of(a.copy(order).value, _rows([a])),
    np.real: lambda val: val.real,
    np.imag: lambda val: val.imag,
    np.copyto: copy_to,
    **PLACED,
}

add_methods(TracedArray)
add_operators(TracedArray, wrap)
for _name, _refused in UNKNOWN.items():
    if _name not in vars(TracedArray):
        setattr(TracedArray, _name, _refused)
TracedArray._numba_type_ = NUMBA_TYPE  # type: ignore[attr-defined]

__all__ = ["TracedArray", "array_of", "number_of", "plain", "wrap"]
