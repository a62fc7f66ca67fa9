"""Tensors and the operations that define them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, NoReturn, Union

from schedlang.compute.element_extents import refuse_elements
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.operations import ComputeOp, ScanOp
from schedlang.compute.partial_index import Row, wrong_count
from schedlang.compute.read import Read
from schedlang.errors import (
    BoundsError,
    ComputeError,
    ComputeTypeError,
    MissingNameError,
    explain,
    nearest,
)
from schedlang.expr import dtypes
from schedlang.expr.names import check_name
from schedlang.expr.nodes import LONGEST_QUOTED, Axis, Binary, Cast, Const, Expr, Var
from schedlang.expr.number_refusals import number_function, refuse_number
from schedlang.expr.visit import postorder
from schedlang.language.construct import as_expr, binary, const
from schedlang.signatures import public

if TYPE_CHECKING:
    from schedlang.compute.array_methods import ArrayMethods as _Methods
    from schedlang.compute.facts import Facts
else:
    _Methods = object

Extent = Union[int, Expr]
Shape = tuple[Extent, ...]

# functions of schedlang that take a tensor
FUNCTIONS = ("autoschedule", "autotune", "best", "cost", "graph", "reference", "schedule")
# methods of NumPy's arrays that tensors lack, and what to write instead
_NO_VALUES = "a tensor has no values yet; call a kernel and use the array that it returns"
_NOT_WRITTEN = "a tensor is not written to; make a new one, np.where(cond, value, A)"
_DATA_SHAPE = "the shape of the result would depend on data; choose with np.where(cond, A, 0)"
NUMPY_METHODS = {
    **dict.fromkeys(("item", "tolist", "tobytes", "dump", "dumps", "tofile", "data", "flat",
                     "strides", "ctypes", "flags", "base"), _NO_VALUES),
    **dict.fromkeys(("fill", "put", "itemset", "setfield", "resize"), _NOT_WRITTEN),
    "sort": "a tensor is not written to; make a sorted one, np.sort(A)",
    "partition": "a tensor is not written to; make a new one, np.partition(A, kth)",
    **dict.fromkeys(("nonzero", "compress"), _DATA_SHAPE),
    "view": "to reinterpret bits is not supported; convert with .astype(dtype)",
    "ptp": "write np.ptp(A)",
    "choose": "write np.select(conditions, values), or np.where(cond, a, b)",
    "byteswap": "arrays have the byte order of the machine",
}  # fmt: skip


@dataclass(eq=False)
class PlaceholderOp:
    """An input, whose elements the caller passes; ``facts`` are what ``sl.assume`` declared."""

    name: str
    shape: Shape
    dtype: str
    axis: tuple[Axis, ...] = ()
    reduce_axis: tuple[Axis, ...] = ()
    facts: Facts | None = None
    tag: str = ""

    @property
    def input_tensors(self) -> list[Tensor]:
        return []

    def output(self, index: int = 0) -> Tensor:
        return Tensor(self.name, self.shape, self.dtype, self, index)


Operation = Union[PlaceholderOp, ComputeOp, ScanOp, ExternOp]


class Tensor(_Methods):
    """A named array of ``shape`` and ``dtype``; ``T[i, j]`` reads one element of it.

    Tensors are compared and hashed by identity. :mod:`schedlang.arrays` gives them the operators,
    methods and functions of NumPy's arrays, and :mod:`schedlang.compute.latex` their formulas.
    """

    __slots__ = ("name", "shape", "dtype", "op", "value_index", "__weakref__")

    def __init__(self, name: str, shape: Shape, dtype: str, op: Any, value_index: int = 0) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.op: Operation = op
        self.value_index = value_index

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def element(self, items: tuple[Any, ...]) -> Any:
        """Return the read of the element at ``items``; for too few of them a :class:`Row`."""
        if 0 < len(items) < self.ndim:
            for k, v in enumerate(items):
                self.checked_index(k, v)
            return Row(self, items)
        if len(items) != self.ndim:
            raise BoundsError(wrong_count(self, items))
        indices = tuple(self.checked_index(k, v) for k, v in enumerate(items))
        for position, index in enumerate(indices):
            if isinstance(index, Const) and index.value < 0:
                self._refuse_negative(items, position, index.value)
        return Read(self, indices, self.dtype)

    def _refuse_negative(self, items: tuple[Any, ...], position: int, value: Any) -> NoReturn:
        extent = self.shape[position]
        last = extent - -value
        if isinstance(last, int) and last < 0:
            hint = f"dimension {position} has the indices 0..{extent}, {extent} excluded"
        else:
            written = [*map(str, items[:position]), str(last), *map(str, items[position + 1 :])]
            hint = f"write {self.name}[{', '.join(written)}]"
        asked = f"{self.name}[{', '.join(map(str, items))}]"
        raise BoundsError(f"{asked}: negative indices do not count from the end: {hint}")

    def __call__(self, *indices: Any) -> Expr:
        """Return ``T[indices]``; te programs write a call."""
        return self[indices]

    def as_scalar(self) -> Expr:
        """Return the element of a 0-d tensor, for use in arithmetic."""
        if self.ndim and isinstance(self.op, ComputeOp) and self.op.automatic:
            written = "" if self.op.reducer else f", as in {short_text(self.op.body[0])}"
            raise ComputeTypeError(
                f"the array {self.name} of shape {shape_text(self.shape)} is used where an element "
                f"is needed: index it, or its operands{written}"
            )
        if self.ndim:
            raise ComputeTypeError(
                f"tensor {self.name} of shape {shape_text(self.shape)} is used where an element is "
                f"needed: index it, e.g. {self._element()}; {self._per_element()}"
            )
        return self[()]

    def _axes(self) -> str:
        return ", ".join("ijklmn"[: self.ndim] if self.ndim <= 6 else ["*idx"])

    def _element(self) -> str:
        return f"{self.name}[{self._axes()}]"

    def _per_element(self) -> str:
        call = f"sl.compute({shape_text(self.shape)}, lambda {self._axes()}: {self._element()} * 2)"
        return f"write arithmetic per element inside sl.compute, as in {call}"

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise ComputeTypeError(
            f"tensor {self.name} as a NumPy array: a tensor describes a computation and has no "
            f"values; pass arrays to a kernel, and {self._per_element()}"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            message = f"tensor {self.name} has no attribute {name!r}"
            if name in NUMPY_METHODS:
                raise MissingNameError(f"{message}, unlike NumPy's arrays: {NUMPY_METHODS[name]}")
            if name in FUNCTIONS:
                raise MissingNameError(f"{message}: write sl.{name}({self.name})")
            if name.startswith("_") or name == "op":
                raise MissingNameError(message)
            if hasattr(self.op, name):
                raise MissingNameError(f"{message}, its operation has: {self.name}.op.{name}")
            close = nearest(name, (n for n in dir(Tensor) if not n.startswith("_")))
            raise MissingNameError(
                f"{message}{close}; steps of a schedule are methods of s[{self.name}], where "
                f"s = sl.schedule({self.name})"
            )

    def checked_index(self, position: int, value: Any) -> Expr:
        """Return ``value`` as an index of dimension ``position``; raise if it is not an integer."""
        where = f"index {position} of {self.name}"
        if isinstance(value, slice) or value is Ellipsis or value is None:
            raise ComputeTypeError(
                f"{where}: slices are not supported; read single elements and write loops as axes "
                "of sl.compute"
            )
        if not isinstance(value, (bool, Expr, Tensor)) and hasattr(value, "__index__"):
            value = int(value)
        index = as_expr(value)
        if index.dtype == "bool" and isinstance(index, Const):
            raise ComputeTypeError(
                f"{where} is {bool(index.value)}, but must be an integer; sl.select and np.where "
                "choose by a condition"
            )
        if index.dtype == "bool" or not dtypes.is_integer(index.dtype):
            whole = _floored(index)
            if whole is not None and (isinstance(index, Const) or _divides(index)):
                raise ComputeTypeError(
                    f"{where} is {index.dtype}, but must be an integer, and / gives a float; "
                    f"divide with //, which gives {whole}"
                )
            raise ComputeTypeError(
                f"{where} is {index.dtype} ({index}), but must be an integer; "
                f"convert it with sl.cast({index}, 'int64')"
            )
        return index if index.weak or index.dtype == dtypes.INDEX else Cast(index, dtypes.INDEX)

    def __iter__(self) -> Any:
        raise ComputeTypeError(
            explain(
                f"tensor {self.name} cannot be iterated over",
                "a loop in Python would unroll it",
                f"Work on the whole tensor: {self.name}.sum(), np.exp({self.name}); take rows by "
                f"index, {self.name}[0]; or inside of sl.compute, reduce with sl.sum(..., axis=k), "
                "where k = sl.reduce_axis(extent).",
            )
        )

    def __bool__(self) -> bool:
        test = "" if self.dtype == "bool" else " > 0"
        raise ComputeTypeError(
            f"tensor {self.name} has no truth value: choose per element, "
            f"np.where({self.name}{test}, a, b), or sl.select({self._element()}{test}, ...) inside "
            "sl.compute; to test for a missing "
            f"tensor, write {self.name} is None"
        )

    def __setitem__(self, indices: Any, value: Any) -> NoReturn:
        raise ComputeTypeError(
            explain(
                f"{self.name}[...] = ...",
                "a tensor describes a computation and is not written to",
                f"Make a new tensor: np.where(cond, value, {self.name}), or np.concatenate of its "
                "parts. Inside a function under @sl.jit, slice writes work. To update elements at "
                "computed places, as a histogram does, write sl.scatter(shape, domain, lambda k: "
                "(index, value)).",
            )
        )

    def _refuse_number(self, *_: Any) -> NoReturn:
        if self.ndim and not number_function():
            self.as_scalar()
        refuse_number(f"tensor {self.name}", "a tensor describes a computation, without values")

    __float__ = __complex__ = __trunc__ = __round__ = _refuse_number

    def __int__(self) -> int:
        return int(self.as_scalar())

    def __len__(self) -> int:
        if not self.shape:
            raise ComputeTypeError(f"tensor {self.name} is 0-d and has no length")
        length = self.shape[0]
        if isinstance(length, Expr) and not isinstance(length, Const):
            raise ComputeTypeError(
                f"len({self.name}): the length is {length}, which is known only at the call; "
                f"write {self.name}.shape[0]"
            )
        return length.__index__()

    def __repr__(self) -> str:
        return f"Tensor({declaration(self)})"


def _divides(value: Expr) -> bool:
    return any(isinstance(node, Binary) and node.op == "/" for node in postorder([value]))


def _floored(value: Expr) -> Expr | None:
    """Return float arithmetic on integers with // in place of /; ``None`` for any other value."""
    if isinstance(value, Cast) and dtypes.is_integer(value.a.dtype):
        return value.a
    if isinstance(value, Const) and float(value.value).is_integer():
        return const(int(value.value))
    if not isinstance(value, Binary) or value.op not in ("+", "-", "*", "/"):
        return None
    left, right = _floored(value.a), _floored(value.b)
    if left is None or right is None:
        return None
    return binary("//" if value.op == "/" else value.op, left, right)


def short_text(value: Expr) -> str:
    """Return an expression as text, or ``...`` if it is too long for a message."""
    text = str(value)
    return text if len(text) <= LONGEST_QUOTED else "..."


def shape_text(shape: Iterable[Extent]) -> str:
    """Return a shape in Python's syntax for tuples."""
    items = [str(s) for s in shape]
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def declaration(tensor: Tensor) -> str:
    """Return a tensor's name, dtype and shape as in the header of a nest."""
    return f"{tensor.name}: {tensor.dtype}[{', '.join(str(s) for s in tensor.shape)}]"


def divide_whole(value: object) -> str:
    """Return a hint to use //, if ``value`` is a float with an integer value; else ``""``."""
    return "; use // to divide" if isinstance(value, float) and value.is_integer() else ""


def check_extent(value: Any, what: str) -> Extent:
    """Return ``value`` as an extent: an integer of 0 or more, or a size expression."""
    if isinstance(value, Const) and isinstance(value.value, int):
        value = value.value
    if isinstance(value, float) and value.is_integer():
        # te programs divide sizes by /
        value = int(value)
    if isinstance(value, Expr):
        refuse_elements(value, what)
        if value.dtype != dtypes.INDEX or not value.weak:
            whole = _floored(value) if _divides(value) else None
            hint = f"; divide with //, which gives {whole}" if whole is not None else ""
            raise ComputeTypeError(
                f"{what} is {value} ({value.dtype}), but an extent must be an integer or an "
                f'expression over sizes made by sl.var("n"){hint}'
            )
        for leaf in postorder([value]):
            if isinstance(leaf, Axis):
                raise ComputeError(
                    f"{what} is {value}: an extent cannot depend on axis {leaf.name}"
                )
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ComputeTypeError(
            f"{what} is {value!r}, but an extent must be an integer or a size made by "
            f'sl.var("n"){divide_whole(value)}'
        )
    extent = int(value)
    if extent < 0:
        raise ComputeError(
            f"{what} is {extent}, but an extent must be 0 or more; write max(extent, 0) "
            "where the dimension may be empty"
        )
    if extent >= 2**62:
        raise ComputeError(
            f"{what} is {extent}: offsets would overflow 64-bit integers; give less than 2**62"
        )
    return extent


def check_shape(shape: Any, what: str) -> Shape:
    """Return ``shape`` as a tuple of extents; a single extent stands for a 1-d shape."""
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    checked = tuple(check_extent(v, f"dimension {k} of {what}") for k, v in enumerate(items))
    size = 1
    for extent in checked:
        size *= extent if isinstance(extent, int) else 1
    if size >= 2**60:
        raise ComputeError(
            f"{what} of shape {shape_text(checked)} has {size} elements: offsets would overflow "
            "64-bit integers; give a shape of less than 2**60 elements"
        )
    return checked


@public
def placeholder(shape: Any, dtype: object = "float32", name: str = "placeholder") -> Tensor:
    """Return an input tensor.

    ``shape`` is a tuple of integers and sizes (``sl.var("n")``), or one of them for a 1-d tensor.
    ``dtype`` is one of bool, int8–64, uint8–64, float16/32/64, bfloat16 and complex64/128.

    Raises :class:`~schedlang.errors.ComputeError` for a negative extent or a name that is not an
    identifier, :class:`~schedlang.errors.ComputeTypeError` for an extent or dtype of a wrong type.

    >>> placeholder((3, 4), name="A")
    Tensor(A: float32[3, 4])
    """
    if isinstance(shape, str) and isinstance(dtype, (tuple, list, int)):
        shown_shape = shape_text(dtype if isinstance(dtype, (tuple, list)) else (dtype,))
        raise ComputeTypeError(
            f"sl.placeholder({shape!r}, {dtype}): the shape must come first; write "
            f"sl.placeholder({shown_shape}, name={shape!r})"
        )
    if isinstance(dtype, (Integral, Expr)) and not isinstance(shape, (tuple, list)):
        raise ComputeTypeError(
            f"sl.placeholder({shape}, {dtype}, ...): the shape must be one tuple; write "
            f"sl.placeholder(({shape}, {dtype}), ...)"
        )
    check_name(name, "a placeholder")
    checked = check_shape(shape, f"placeholder {name}")
    return PlaceholderOp(name, checked, dtypes.canonical(dtype)).output(0)


@public
def var(name: str = "n", dtype: object = "int64") -> Var:
    """Return a symbolic size, or a scalar argument if ``dtype`` is neither int64 nor int32.

    A size is 0 or more, and its value comes from the shapes of the arguments. It has no dtype of
    its own: in arithmetic it takes the other operand's. te's default ``"int32"`` makes a size, too.

    >>> n = var("n"); alpha = var("alpha", dtype="float32")
    >>> (n + 1).dtype, (alpha * 2).dtype
    ('int64', 'float32')
    """
    check_name(name, "a variable")
    kind = dtypes.canonical(dtype)
    if kind in ("int32", "int64"):
        return Var(name)
    if dtypes.is_complex(kind):
        raise ComputeTypeError(
            f"sl.var({name!r}, {kind!r}): a scalar argument is real; pass a 0-d array: "
            f"{name} = sl.placeholder((), {kind!r}, name={name!r}), read as {name}[()]"
        )
    return Var(name, kind, weak=False)
