"""Reading the data form of a computation, with a check of every item."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schedlang.compute.bounds import check_reads
from schedlang.compute.combiner_laws import exceptions_of
from schedlang.compute.data_fields import as_bounds, as_dtype, as_flag, as_list, as_names, shorten
from schedlang.compute.data_writer import FORMAT, VERSION, expr_to_data
from schedlang.compute.define import check_leaves
from schedlang.compute.extern_data import read_extern
from schedlang.compute.extern_op import ExternFunction, ExternOp
from schedlang.compute.facts import assume
from schedlang.compute.fold import ufunc_of
from schedlang.compute.joint import joint
from schedlang.compute.ragged import check_boxes, with_ranges
from schedlang.compute.read import Read
from schedlang.compute.reduce import Reducer, argmax, argmin, reduce_axis
from schedlang.compute.reducer import Part
from schedlang.compute.scan import scan
from schedlang.compute.tensor import (
    ComputeOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    check_extent,
    check_name,
    check_shape,
    declaration,
    placeholder,
)  # fmt: skip
from schedlang.errors import ComputeError, SchedlangError
from schedlang.expr import dtypes
from schedlang.expr.functions import FUNCTIONS
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Select, Unary, Var
from schedlang.expr.operators import OPERATORS
from schedlang.expr.visit import postorder
from schedlang.language import construct
from schedlang.language.calls import build_call


def rebuild(data: Any, functions: Sequence[ExternFunction] = ()) -> tuple[Tensor, ...]:
    """Return the tensors that ``data`` describes; see :func:`schedlang.compute.data.from_data`."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ComputeError(f"this is not {FORMAT} data: its 'format' must be {FORMAT!r}")
    if data.get("version") != VERSION or isinstance(data["version"], bool):
        raise ComputeError(
            f"{FORMAT} data of version {data.get('version')!r} cannot be read: this version of "
            f"schedlang reads version {VERSION}"
        )
    unknown = set(data) - {"format", "version", "items", "outputs"}
    if unknown:
        raise ComputeError(f"{FORMAT} data has no field {min(unknown, key=str)!r}")
    reader = Reader(GRAPH_KINDS, {}, functions)
    reader.read(data.get("items"))
    outputs = as_list(data.get("outputs"), "'outputs'")
    if not outputs:
        raise ComputeError(f"{FORMAT} data: 'outputs' names no tensor")
    return tuple(reader.tensor(o) for o in outputs)


def rebuild_expr(data: Any, leaves: Mapping[str, Expr]) -> Expr:
    """Return the expression that ``data`` describes over ``leaves``."""
    reader = Reader(_EXPR_KINDS, leaves)
    reader.read(data)
    if not reader.items:
        raise ComputeError("the data of an expression has no items")
    return reader.items[-1]


class Reader:
    """Reader of items; ``made`` holds the object of each item read so far."""

    def __init__(
        self, kinds: Mapping[str, Callable[..., Any]], leaves: Mapping[str, Expr],
        functions: Sequence[ExternFunction] = (),
    ) -> None:  # fmt: skip
        self.kinds, self.leaves, self.functions = kinds, leaves, functions
        self.items, self.inputs = list[Any](), dict[Operation, Tensor]()

    def read(self, items: Any) -> None:
        for position, item in enumerate(as_list(items, "'items'")):
            kind = item[0] if isinstance(item, list) and item else None
            make = self.kinds.get(kind) if isinstance(kind, str) else None
            if make is None:
                raise ComputeError(
                    f"item {position} of the data has the unknown kind {shorten(kind)}; the "
                    f"kinds are {', '.join(self.kinds)}"
                )
            fields = item[1:]
            most = make.__code__.co_argcount - 1
            least = most - len(make.__defaults__ or ())
            if not least <= len(fields) <= most:
                raise ComputeError(
                    f"item {position} of the data ({kind}) has {len(fields)} fields, not {least}"
                )
            try:
                self.items.append(make(self, *fields))
            except (SchedlangError, OverflowError) as error:
                raise ComputeError(f"item {position} of the data ({kind}): {error}") from None

    def ref(self, place: Any, kind: type | tuple[type, ...], what: str) -> Any:
        if isinstance(place, bool) or not isinstance(place, int):
            raise ComputeError(
                f"{what} is {shorten(place)}, but must be the number of an earlier item"
            )
        if not 0 <= place < len(self.items):
            raise ComputeError(f"{what} is item {place}, which is not an earlier item")
        item = self.items[place]
        if not isinstance(item, kind):
            raise ComputeError(
                f"{what} cannot be item {place}, which is of kind {type(item).__name__.lower()}"
            )
        return item

    def expr(self, place: Any, what: str = "an operand") -> Expr:
        return self.ref(place, Expr, what)

    def exprs(self, places: Any, what: str) -> tuple[Any, ...]:
        return tuple(self.expr(p, what) for p in as_list(places, what))

    def axes(self, places: Any, kind: str) -> tuple[Axis, ...]:
        axes = tuple(self.ref(p, Axis, f"a {kind} axis") for p in as_list(places, f"{kind} axes"))
        for axis in axes:
            if axis.kind != kind:
                raise ComputeError(f"axis {axis.name} is a {axis.kind} axis, not a {kind} axis")
        if len(set(axes)) != len(axes):
            raise ComputeError(f"a {kind} axis is given twice")
        return axes

    def extent(self, value: Any) -> Any:
        if isinstance(value, list) and len(value) == 1:
            return self.expr(value[0], "an extent")
        if isinstance(value, bool) or not isinstance(value, int):
            raise ComputeError(f"an extent is {shorten(value)}, but must be an integer or [item]")
        return value

    def tensor(self, value: Any) -> Tensor:
        if not isinstance(value, list) or len(value) != 2:
            raise ComputeError(f"a tensor is {shorten(value)}, but must be [item, output number]")
        op = self.ref(value[0], (PlaceholderOp, ComputeOp, ScanOp, ExternOp), "the operation")
        outputs = (self.inputs[op],) if isinstance(op, PlaceholderOp) else op.outputs
        number = value[1]
        if isinstance(number, bool) or not isinstance(number, int):
            raise ComputeError(
                f"the output number of {op.name} is {shorten(number)}, but must be an integer"
            )
        if not 0 <= number < len(outputs):
            raise ComputeError(
                f"{op.name} has no output {number}: it has {len(outputs)}, counted from 0"
            )
        return outputs[number]

    def tensors(self, values: Any, what: str) -> list[Tensor]:
        return [self.tensor(v) for v in as_list(values, what)]


def _axis(
    reader: Reader, name: Any, extent: Any, kind: Any, lo: Any, tag: Any, bounds: Any = None
) -> Axis:
    check_name(name, "an axis")
    if kind not in ("data", "reduce") or tag != "":
        raise ComputeError(
            f"axis {name} is of kind {shorten(kind)}, but must be of kind data or reduce"
        )
    start, length = reader.extent(lo), check_extent(reader.extent(extent), f"axis {name}")
    if kind == "reduce":
        first = reduce_axis((start, start + length), name).lo
        if bounds is None:
            return Axis(name, length, kind, first)
        ends = tuple(map(reader.extent, as_list(bounds, "the range of an axis")))
        if len(ends) != 2:
            raise ComputeError(f"axis {name}: its range has {len(ends)} ends, not 2")
        range_of_axis = reduce_axis(ends, name).bounds
        if range_of_axis is None or any(
            a is not b for a, b in zip(range_of_axis, ends) if isinstance(b, Expr)
        ):
            raise ComputeError(f"axis {name}: its range is not ragged")
        return Axis(name, length, kind, first, bounds=range_of_axis)
    if start != 0 or isinstance(start, Expr):
        raise ComputeError(f"data axis {name} starts at {start}, not at 0")
    return Axis(name, length)


def _var(_: Reader, name: Any, dtype: Any, weak: Any, least: Any = 0, most: Any = None) -> Var:
    check_name(name, "a variable")
    if as_flag(weak) and dtype != dtypes.INDEX:
        raise ComputeError(f"size {name} is {shorten(dtype)}, not int64")
    return Var(name, as_dtype(dtype), weak, *as_bounds(least, most))


def _const(reader: Reader, dtype: Any, value: Any, weak: Any) -> Const:
    kind = as_dtype(dtype)
    if dtypes.is_complex(kind):
        pair = as_list(value, "a complex constant")
        if len(pair) != 2:
            raise ComputeError(f"a complex constant has {len(pair)} parts, not 2")
        parts = (_const(reader, dtypes.part_of(kind), part, False).value for part in pair)
        if as_flag(weak) and kind != "complex128":
            raise ComputeError(f"a weak constant is complex128, not {kind}")
        return Const(complex(*parts), kind, weak)
    if dtypes.is_float(kind) and isinstance(value, str):
        if value not in ("inf", "-inf", "nan"):
            raise ComputeError(
                f"a constant is {shorten(value)}, but must be a number, inf, -inf or nan"
            )
        value = float(value)
    python_type = bool if kind == "bool" else float if dtypes.is_float(kind) else int
    number = isinstance(value, python_type) and not (python_type is int and isinstance(value, bool))
    if not number and not (python_type is float and type(value) is int):
        raise ComputeError(f"a constant of {kind} cannot be {shorten(value)}")
    if python_type is int:
        construct.const(value, kind)
    if as_flag(weak) and kind not in ("int64", "float64"):
        raise ComputeError(f"a weak constant is int64 or float64, not {kind}")
    return Const(python_type(value), kind, weak)


def _binary(reader: Reader, op: Any, a: Any, b: Any, dtype: Any, weak: Any) -> Expr:
    if not isinstance(op, str) or op not in OPERATORS:
        raise ComputeError(f"there is no operator {shorten(op)}")
    x, y = reader.expr(a), reader.expr(b)
    fresh = construct.binary(op, x, y)
    node = Binary(op, x, y, as_dtype(dtype), as_flag(weak))
    _check_node(node, fresh, folded=Const)
    return node


def _unary(reader: Reader, op: Any, a: Any, dtype: Any, weak: Any) -> Expr:
    if op not in ("-", "~"):
        raise ComputeError(f"there is no operator {shorten(op)}")
    x = reader.expr(a)
    node = Unary(op, x, as_dtype(dtype), as_flag(weak))
    _check_node(node, construct.unary(op, x), folded=Const)
    return node


def _cast(reader: Reader, a: Any, dtype: Any, weak: Any) -> Cast:
    x, kind = reader.expr(a), as_dtype(dtype)
    if as_flag(weak) and not (x.weak and kind in ("float64", "complex128")):
        raise ComputeError(f"a weak conversion goes from sizes to float64, not to {kind}")
    if dtypes.is_complex(x.dtype) and not dtypes.is_complex(kind):
        raise ComputeError(f"{x} is {x.dtype}, and a conversion to {kind} would drop a part")
    return Cast(x, kind, weak)


def _call(reader: Reader, fn: Any, args: Any, dtype: Any, weak: Any) -> Call:
    if not isinstance(fn, str) or fn not in FUNCTIONS:
        raise ComputeError(f"there is no function {shorten(fn)}")
    operands = reader.exprs(args, "the operands")
    node = Call(fn, operands, as_dtype(dtype), as_flag(weak))
    _check_node(node, build_call(fn, operands))
    return node


def _select(reader: Reader, cond: Any, a: Any, b: Any, dtype: Any, lazy: Any, weak: Any) -> Select:
    c, x, y = reader.expr(cond), reader.expr(a), reader.expr(b)
    node = Select(c, x, y, as_dtype(dtype), as_flag(lazy), as_flag(weak))
    _check_node(node, construct.select(c, x, y, lazy))
    return node


def _check_node(kept: Expr, fresh: Expr, folded: type | None = None) -> None:
    """Raise ``ComputeError`` unless the language builds the recorded node from its operands."""
    same = fresh.dtype == kept.dtype and fresh.weak == kept.weak
    if same and folded is not None and isinstance(fresh, folded):
        return
    pairs = zip(kept.children, fresh.children)
    if same and isinstance(fresh, type(kept)) and all(a.dtype == b.dtype for a, b in pairs):
        return
    raise ComputeError(
        f"{kept} is recorded as {_typed(kept)}, but the language gives {_typed(fresh)}: {fresh}"
    )


def _typed(value: Expr) -> str:
    return f"weak {value.dtype}" if value.weak else value.dtype


def _read(reader: Reader, op: Any, number: Any, indices: Any) -> Read:
    tensor = reader.tensor([op, number])
    places = reader.exprs(indices, "the indices")
    element = tensor[places]
    if not isinstance(element, Read):
        raise ComputeError(f"{len(places)} indices do not give an element of {declaration(tensor)}")
    if any(a is not b for a, b in zip(element.indices, places)):
        raise ComputeError(f"an index of {element} is not int64")
    return element


def _leaf(reader: Reader, name: Any) -> Expr:
    if not isinstance(name, str) or name not in reader.leaves:
        raise ComputeError(
            f"there is no leaf {shorten(name)}; the leaves are {', '.join(reader.leaves)}"
        )
    return reader.leaves[name]


def _reducer(
    reader: Reader, name: Any, lhs: Any, rhs: Any, result: Any, identity: Any, ties: Any = None,
    identity_ties: Any = "", restarts: Any = "", gradient: Any = "",
) -> Reducer:  # fmt: skip
    check_name(name, "a reducer")
    left, right = (
        tuple(reader.ref(p, Var, "an operand of the combiner") for p in as_list(side, "an operand"))
        for side in (lhs, rhs)
    )
    results = reader.exprs(result, "result")
    units = tuple(reader.ref(p, Const, "the identity") for p in as_list(identity, "identity"))
    kinds = [v.dtype for v in left]
    if len({*left, *right}) != 2 * len(left) or any(v.weak for v in left + right):
        raise ComputeError(f"reducer {name}: its operands are not distinct scalars")
    for side in (right, results, units):
        if [v.dtype for v in side] != kinds or any(v.weak for v in side):
            raise ComputeError(f"reducer {name}: its parts differ in number or dtype from {kinds}")
    operands = set(left + right)
    for node in postorder(results):
        if isinstance(node, (Axis, Read)) or (isinstance(node, Var) and node not in operands):
            raise ComputeError(
                f"reducer {name}: its combiner uses {node}, which is not one of its operands"
            )
    if not left:
        raise ComputeError(f"reducer {name} has no operands")
    examples = ("" if ties is None else ties, identity_ties, restarts)
    for text in examples:
        if not isinstance(text, str):
            raise ComputeError(f"reducer {name}: an example of ties is {shorten(text)}, not text")
    if gradient not in ("", "fold"):
        raise ComputeError(f"reducer {name}: gradient is {shorten(gradient)}, not 'fold'")
    return Reducer(
        name, left, right, results, units, ties is not None, *examples, gradient=gradient
    )  # fmt: skip


def is_arg(reducer: Reducer) -> bool:
    """Return whether this is the combiner of ``argmax`` or ``argmin``.

    It is valid only for indices of 0 or more, so the tests of other combiners could refuse it.
    """
    if [v.dtype for v in reducer.lhs[:1]] != ["int64"] or len(reducer.lhs) != 2:
        return False
    value = Cast(Const(0, "int64"), reducer.lhs[1].dtype)
    built_in = (make(value, reduce_axis(1)).reducer for make in (argmax, argmin))
    return any(_same_reducer(reducer, other) for other in built_in)


def _same_reducer(a: Reducer, b: Reducer) -> bool:
    forms = []
    for reducer in (a, b):
        formals = (*reducer.lhs, *reducer.rhs)
        names = {v: str(k) for k, v in enumerate(formals)}
        parts = (*reducer.result, *reducer.identity)
        forms.append([expr_to_data(part, names) for part in parts])
    return forms[0] == forms[1]


def _placeholder(
    reader: Reader, name: Any, shape: Any, dtype: Any, monotonic: Any = False, within: Any = None
) -> Operation:
    extents = tuple(reader.extent(e) for e in as_list(shape, "the shape"))
    tensor = placeholder(extents, as_dtype(dtype), name)
    if monotonic or within is not None:
        ends = None if within is None else [reader.extent(e) for e in as_list(within, "within")]
        assume(tensor, monotonic=as_flag(monotonic), within=ends)
    reader.inputs[tensor.op] = tensor
    return tensor.op


def _compute(
    reader: Reader, name: Any, axis: Any, body: Any, reduced: Any, reducer: Any, where: Any,
    init: Any, names: Any, places: Any = None,
) -> ComputeOp:  # fmt: skip
    check_name(name, "a tensor")
    axes, folded = reader.axes(axis, "data"), reader.axes(reduced, "reduce")
    values = reader.exprs(body, "the body")
    fold = None if reducer is None else reader.ref(reducer, Reducer, "the reducer")
    cond = None if where is None else reader.expr(where, "where")
    start = None if init is None else reader.exprs(init, "init")
    kinds = [v.dtype for v in values]
    if not values or any(v.weak for v in values):
        raise ComputeError(f"{name}: its body has no values, or a value without a dtype")
    index = None if places is None else reader.exprs(places, "the destination")
    if index is not None:
        _check_destination(name, axes, index, fold)
    elif (fold is None) != (not folded) or (fold is None and (cond is not None or start)):
        raise ComputeError(
            f"{name}: a reducer needs reduction axes, and axes, where and init need a reducer"
        )
    if fold is not None and [v.dtype for v in fold.lhs] != kinds:
        raise ComputeError(f"{name}: reducer {fold.name} does not combine {', '.join(kinds)}")
    if cond is not None and cond.dtype != "bool":
        raise ComputeError(f"{name}: where is {cond.dtype}, not bool")
    if start is not None and [v.dtype for v in start] != kinds:
        raise ComputeError(f"{name}: the dtypes of init must be {', '.join(kinds)}")
    if fold is not None and fold.overwrites and (index is None or not fold.vouched):
        raise ComputeError(f"{name}: a reducer that overwrites is for scatters alone")
    if fold is not None and fold.parts:
        if index is not None:
            raise ComputeError(f"{name}: a scatter has one reducer")
        tested = []
        for part in fold.parts:
            own = [values[k] for k in part.places]
            begin = None if start is None else [start[k] for k in part.places]
            tested.append(replace(part, reducer=_tested(part.reducer, own, cond, begin)))
        fold = joint(tested)
    elif fold is not None:
        fold = _tested(fold, values, cond, start)
    check_boxes(name, folded, (*values, *(() if cond is None else (cond,))))
    cond, limits = with_ranges(folded, cond)
    op = ComputeOp(name, axes, values, folded, fold, cond, start, index, limits=limits)
    shape = check_shape(op.shape, name)
    labels = as_names(names, len(values))
    outputs = tuple(Tensor(n, shape, k, op, p) for p, (n, k) in enumerate(zip(labels, kinds)))
    op.outputs = outputs
    check_leaves(op)
    check_reads(op)
    return op


def _tested(
    fold: Reducer, values: Sequence[Expr], cond: Expr | None, start: Sequence[Expr] | None
) -> Reducer:
    """Return ``fold`` with the examples that tests find, unless it is built in or vouched for."""
    if fold.vouched or ufunc_of(fold) is not None or is_arg(fold):
        return fold
    return replace(fold, **exceptions_of(fold, values, cond, start)._asdict())


def _joint(reader: Reader, parts: Any) -> Reducer:
    members: list[Part] = []
    positions: list[Any] = []
    for item in as_list(parts, "the reductions"):
        place, places, visible = (*as_list(item, "a reduction"), None, None, None)[:3]
        reducer = reader.ref(place, Reducer, "a reduction")
        if reducer.parts:
            raise ComputeError("a reduction of several is itself of several")
        own = tuple(as_list(places, "the positions of a reduction"))
        positions += own
        if len(own) != len(reducer.lhs) or type(visible) is not int or not 1 <= visible <= len(own):
            raise ComputeError(
                f"{reducer.name} combines {len(reducer.lhs)} values, not {len(own)}, of which "
                f"{shorten(visible)} are outputs"
            )
        members.append(Part(reducer, own, visible))
    whole = all(type(k) is int for k in positions) and sorted(positions) == list(
        range(len(positions))
    )
    if len(members) < 2 or not whole:
        raise ComputeError("the positions of several reductions do not number their values")
    return joint(members)


def _scatter(
    reader: Reader, name: Any, axis: Any, places: Any, body: Any, reduced: Any, reducer: Any,
    where: Any, init: Any, names: Any,
) -> ComputeOp:  # fmt: skip
    return _compute(reader, name, axis, body, reduced, reducer, where, init, names, places)


def _check_destination(
    name: str, axes: Sequence[Axis], index: Sequence[Expr], fold: Reducer | None
) -> None:
    if fold is None:
        raise ComputeError(f"{name}: a scatter needs a reducer")
    if len(index) != len(axes):
        raise ComputeError(f"{name}: it has {len(axes)} axes, but {len(index)} indices of a place")
    if any(i.dtype != dtypes.INDEX for i in index):
        raise ComputeError(f"{name}: the index of a place must be int64")
    if any(isinstance(i, Axis) and i in axes and i is not a for i, a in zip(index, axes)):
        raise ComputeError(f"{name}: a data axis is the index of another dimension")


def _scan(
    reader: Reader, name: Any, init: Any, update: Any, state: Any, inputs: Any, names: Any
) -> ScanOp:  # fmt: skip
    first, step, states = (reader.tensors(v, w) for v, w in
                           ((init, "init"), (update, "update"), (state, "state")))  # fmt: skip
    if not first:
        raise ComputeError("a scan has no state")
    result = scan(first, step, states, reader.tensors(inputs, "inputs"), name=name)
    op = (result[0] if isinstance(result, list) else result).op
    for tensor, label in zip(op.outputs, as_names(names, len(op.outputs))):
        tensor.name = label
    return op


_NODES: dict[str, Callable[..., Any]] = {
    "const": _const, "binary": _binary, "unary": _unary, "cast": _cast, "call": _call,
    "select": _select,
}  # fmt: skip
_EXPR_KINDS: dict[str, Callable[..., Any]] = {"leaf": _leaf, **_NODES}
GRAPH_KINDS: dict[str, Callable[..., Any]] = {
    "axis": _axis, "var": _var, **_NODES, "read": _read, "reducer": _reducer, "joint": _joint,
    "placeholder": _placeholder, "compute": _compute, "scan": _scan, "scatter": _scatter,
    "extern": read_extern,
}  # fmt: skip
