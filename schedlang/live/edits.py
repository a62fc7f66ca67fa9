"""The edited code of a schedule, run by an interpreter of its own.

It knows calls of primitives, ``s[T]``, axes, numbers and assignments, and nothing else. So the text
of a page can change a schedule, and do nothing beside that: no name, attribute or call of Python is
within its reach.
"""

from __future__ import annotations

import ast
import inspect
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.tensor import ComputeOp, PlaceholderOp, ScanOp, Tensor
from schedlang.errors import LiveError, SchedlangError, first_line, nearest
from schedlang.expr.nodes import Axis, Expr
from schedlang.parsing import parse_source
from schedlang.schedule.schedule import Schedule, empty_schedule
from schedlang.schedule.stage import StageView
from schedlang.schedule.trace import variables_of
from schedlang.state.primitives.table import PRIMITIVES
from schedlang.state.thread_axis import thread_axis

# limits on what a text may ask for: characters, nested parts, bits of a number, items of a list,
# and the lists in it
LONGEST, DEEPEST, BITS, ITEMS = 50_000, 40, 64, 5000
_OF_SCHEDULE = {n for n, p in PRIMITIVES.items() if p.makes_tensors or p.on_schedule}
_SCHEDULE = frozenset({"tensor", "expr", "normalize"} | _OF_SCHEDULE)
_STAGE = frozenset(PRIMITIVES.keys() - _OF_SCHEDULE)
# the attributes that a text may read, by the type of the object
_READ: Mapping[type, frozenset[str]] = {
    StageView: frozenset({"op", "leaf_axes", "leaf_iter_vars", "outputs"}),
    Tensor: frozenset({"op"}),
    ComputeOp: frozenset({"axis", "reduce_axis", "input_tensors"}),
    ScanOp: frozenset({"axis", "reduce_axis", "scan_axis", "input_tensors"}),
    PlaceholderOp: frozenset({"axis"}),
    Schedule: frozenset({"outputs"}),
    Axis: frozenset({"var"}),
}
_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Div: operator.truediv,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
}  # fmt: skip
_UNARY: Mapping[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_COMPARE: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
WHAT = (
    "Write steps of the schedule: calls of s and s[T], such as s[C].split(i, factor=8), with axes, "
    "tensors and numbers."
)


@dataclass(frozen=True)
class Edited:
    """The schedule of an edited text, and the warnings that its steps gave."""

    schedule: Schedule
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Method:
    """A method that a text may call, and only call."""

    name: str
    call: Callable[..., Any]


class _Module:
    """The object behind the name ``sl``."""


def edit(text: str, start: Schedule) -> Edited:
    """Return the schedule that ``text`` makes of the computation of ``start``.

    The tensors have the variables of :meth:`~schedlang.Schedule.as_python`, and ``s`` is the
    schedule, also without the line that makes it. Raise :class:`~schedlang.errors.LiveError` with
    the number of the wrong line.

    >>> import schedlang as sl
    >>> A = sl.placeholder((8,), name="A")
    >>> C = sl.compute((8,), lambda i: A[i] + 1, name="C")
    >>> edited = edit("o, i = s[C].split(C.op.axis[0], factor=4)\\ns[C].unroll(i)", sl.schedule(C))
    >>> [step.primitive for step in edited.schedule.steps]
    ['split', 'unroll']
    >>> edit("s[C].unroll(C.op.axis[0])\\nopen('x')", sl.schedule(C))
    Traceback (most recent call last):
    schedlang.errors.LiveError: line 2: there is no variable open
    """
    if len(text) > LONGEST:
        raise LiveError(f"the code has {len(text):,} characters; the most are {LONGEST:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parse_source(text)
    except SyntaxError as error:
        line = error.lineno or 0
        raise LiveError(f"line {line}: {error.msg}", line) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise LiveError(f"the code cannot be read: {first_line(error)}") from None
    interpreter = _Interpreter(start)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for stmt in tree.body:
            interpreter.run(stmt)
    return Edited(interpreter.schedule, tuple(dict.fromkeys(str(w.message) for w in caught)))


class _Interpreter:
    """The variables of a text, and the schedule that its statements change."""

    def __init__(self, start: Schedule) -> None:
        self.schedule = empty_schedule(list(start.outputs))
        tensors = {name: t for t, name in variables_of(self.schedule.state).items()}
        self._names: dict[str, Any] = {**tensors, "sl": _Module()}
        self._names.setdefault("s", self.schedule)
        self._depth = 0
        self._maps = False

    def run(self, stmt: ast.stmt) -> None:
        """Run a statement; what goes wrong in it is an error about its line."""
        line = stmt.lineno
        try:
            self._run(stmt)
        except LiveError as error:
            raise LiveError(f"line {error.line or line}: {error}", error.line or line) from None
        except SchedlangError as error:
            raise LiveError(f"line {line}: {error}", line) from None
        except Exception as error:
            # a primitive that was called with other arguments than it takes
            what = f"{type(error).__name__}: {first_line(error)}"
            raise LiveError(f"line {line}: {what}", line) from None

    def _run(self, stmt: ast.stmt) -> None:
        if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1:
            self._assign(stmt.targets[0], self._value(stmt.value))
        elif isinstance(stmt, ast.Expr):
            self._value(stmt.value)
        elif not isinstance(stmt, ast.Pass):
            raise LiveError(f"this page does not run {_kind(stmt)}. {WHAT}")

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            if target.id == "sl":
                raise LiveError("sl is schedlang; choose another variable")
            self._names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            values = list(value) if isinstance(value, (tuple, list)) else None
            if values is None or len(values) != len(target.elts):
                count_text = "one value" if values is None else f"{len(values)} values"
                raise LiveError(f"{len(target.elts)} variables are given {count_text}")
            for inner, one in zip(target.elts, values):
                self._assign(inner, one)
        else:
            raise LiveError("assign to variables only, as in i_outer, i_inner = ...")

    def _value(self, node: ast.expr) -> Any:
        self._depth += 1
        try:
            if self._depth > DEEPEST:
                raise LiveError(f"this is nested more than {DEEPEST} deep", node.lineno)
            evaluate = _VALUES.get(type(node))
            if evaluate is None:
                raise LiveError(f"this page does not run {_kind(node)}. {WHAT}", node.lineno)
            return evaluate(self, node)
        finally:
            self._depth -= 1

    def _constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, (bytes, complex)) or node.value is ...:
            raise LiveError(f"{node.value!r} cannot be an argument of a step")
        return _limited(node.value)

    def _name(self, node: ast.Name) -> Any:
        if node.id not in self._names:
            raise LiveError(
                f"there is no variable {node.id}{nearest(node.id, self._names)}", node.lineno
            )
        return self._names[node.id]

    def _sequence(self, node: ast.Tuple | ast.List) -> Any:
        items = self._items(node.elts)
        return tuple(items) if isinstance(node, ast.Tuple) else items

    def _items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        items: list[Any] = []
        size = 0
        for node in nodes:
            one = self._value(node.value if isinstance(node, ast.Starred) else node)
            if not isinstance(node, ast.Starred):
                items.append(one)
            elif isinstance(one, (tuple, list)):
                items += one
            else:
                raise LiveError("only axes and other lists follow a *", node.lineno)
            # a list of lists of lists would be long where a message prints it
            size += _size(one)
            if size > ITEMS:
                raise LiveError(f"a list has more than {ITEMS:,} items", node.lineno)
        return items

    def _unary(self, node: ast.UnaryOp) -> Any:
        operation, value = _UNARY.get(type(node.op)), self._value(node.operand)
        if operation is None or not _is_number(value):
            raise LiveError(f"this page does not run {_kind(node)}", node.lineno)
        return operation(value)

    def _binary(self, node: ast.BinOp) -> Any:
        operation = _BINARY.get(type(node.op))
        values = [self._value(node.left), self._value(node.right)]
        if operation is None or not all(map(_is_number, values)):
            raise LiveError("arithmetic takes numbers and axes, and + - * / // % & |", node.lineno)
        return _limited(operation(*values))

    def _compare(self, node: ast.Compare) -> Any:
        operation = _COMPARE.get(type(node.ops[0]))
        values = [self._value(node.left), self._value(node.comparators[0])]
        if operation is None or len(node.ops) > 1 or not all(map(_is_number, values)):
            raise LiveError("compare two numbers or axes; combine comparisons by &", node.lineno)
        return operation(*values)

    def _subscript(self, node: ast.Subscript) -> Any:
        value = self._value(node.value)
        if isinstance(value, Schedule):
            return value[self._value(node.slice)]
        if not isinstance(value, (tuple, list)):
            raise LiveError(f"{_described(value)} has no elements here", node.lineno)
        if isinstance(node.slice, ast.Slice):
            parts = [node.slice.lower, node.slice.upper, node.slice.step]
            return value[slice(*(None if p is None else self._whole(p) for p in parts))]
        at = self._whole(node.slice)
        if not -len(value) <= at < len(value):
            raise LiveError(f"there are {len(value)} elements, and none has number {at}")
        return value[at]

    def _whole(self, node: ast.expr) -> int:
        number = self._value(node)
        if type(number) is not int:
            raise LiveError(f"the number of an element is an integer, not {_described(number)}")
        return number

    def _attribute(self, node: ast.Attribute) -> Any:
        value, name = self._value(node.value), node.attr
        if isinstance(value, _Module):
            if name in ("schedule", "create_schedule"):
                return _Method(name, self._schedule)
            if name == "thread_axis":
                return _Method(name, thread_axis)
            raise LiveError(f"sl.{name} is not a step of a schedule. {WHAT}", node.lineno)
        methods = {Schedule: _SCHEDULE, StageView: _STAGE}.get(type(value), frozenset())
        if name in methods:
            return _Method(name, getattr(value, name))
        if name in _READ.get(type(value), ()):
            return getattr(value, name)
        if isinstance(value, (Schedule, StageView)):
            steps = sorted(methods | _READ[type(value)])
            raise LiveError(f"{_described(value)} has no step {name}{nearest(name, steps)}")
        raise LiveError(f"{_described(value)} has no attribute {name} here", node.lineno)

    def _call(self, node: ast.Call) -> Any:
        called = self._value(node.func)
        if not isinstance(called, _Method):
            raise LiveError(f"{_described(called)} cannot be called", node.lineno)
        if self._maps:
            raise LiveError("an index map computes indices: it takes no step", node.lineno)
        named = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise LiveError("write the arguments out, without **", node.lineno)
            named[keyword.arg] = self._value(keyword.value)
        return called.call(*self._items(node.args), **named)

    def _schedule(self, outputs: Any) -> Schedule:
        """Return the schedule for the call that makes it."""
        items = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        if [getattr(t, "op", t) for t in items] != [t.op for t in self.schedule.outputs]:
            names = variables_of(self.schedule.state)
            listed = ", ".join(names.get(t, t.name) for t in self.schedule.outputs)
            raise LiveError(f"the schedule of this page computes {listed}")
        if self.schedule.steps:
            raise LiveError("the schedule has steps already: make it once, on the first line")
        return self.schedule

    def _lambda(self, node: ast.Lambda) -> Callable[..., Any]:
        """Return an index map, whose parameters are axes."""
        parameters_ = node.args
        if (
            parameters_.vararg
            or parameters_.kwarg
            or parameters_.kwonlyargs
            or parameters_.defaults
        ):
            raise LiveError("an index map takes one parameter for each dimension", node.lineno)
        parameters = [a.arg for a in (*parameters_.posonlyargs, *parameters_.args)]
        if "sl" in parameters:
            raise LiveError("sl is schedlang; choose another parameter", node.lineno)

        def index_map(*axes: Any) -> Any:
            outside = self._names
            self._names, self._maps = {**outside, **dict(zip(parameters, axes))}, True
            try:
                return self._value(node.body)
            finally:
                self._names, self._maps = outside, False

        kind = inspect.Parameter.POSITIONAL_ONLY
        signature = inspect.Signature([inspect.Parameter(p, kind) for p in parameters])
        index_map.__signature__ = signature  # type: ignore[attr-defined]
        return index_map


_VALUES: Mapping[type, Callable[[_Interpreter, Any], Any]] = {
    ast.Constant: _Interpreter._constant, ast.Name: _Interpreter._name,
    ast.Tuple: _Interpreter._sequence, ast.List: _Interpreter._sequence,
    ast.UnaryOp: _Interpreter._unary, ast.BinOp: _Interpreter._binary,
    ast.Compare: _Interpreter._compare, ast.Subscript: _Interpreter._subscript,
    ast.Attribute: _Interpreter._attribute, ast.Call: _Interpreter._call,
    ast.Lambda: _Interpreter._lambda,
}  # fmt: skip
_KINDS = {
    "Import": "imports", "ImportFrom": "imports", "FunctionDef": "functions", "For": "loops",
    "While": "loops", "If": "if", "IfExp": "if", "ListComp": "comprehensions",
    "JoinedStr": "formatted text", "BoolOp": "and, or", "Delete": "del", "With": "with",
    "AugAssign": "assignments with an operator", "Assign": "chained assignments",
}  # fmt: skip


def _kind(node: ast.AST) -> str:
    name = type(node).__name__
    return _KINDS.get(name, f"code of the kind {name}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, Expr))


def _size(value: Any) -> int:
    """Return the items of a list, and of the lists in it; 1 for anything else."""
    waiting, size = [value], 0
    while waiting:
        one = waiting.pop()
        size += 1
        if isinstance(one, (tuple, list)):
            waiting += one
    return size


def _limited(value: Any) -> Any:
    """Return a value, unless it is a number too large for a schedule."""
    if isinstance(value, int) and value.bit_length() > BITS:
        raise LiveError(f"a number has more than {BITS} bits")
    return value


def _described(value: Any) -> str:
    operations = (ComputeOp, ScanOp, ExternOp, PlaceholderOp)
    if isinstance(value, (StageView, Tensor, Axis, *operations)):
        kind = {StageView: "stage", Tensor: "tensor", Axis: "axis"}.get(type(value), "operation")
        return f"the {kind} {value.name}"
    kinds = {Schedule: "the schedule", _Module: "sl", _Method: "a method"}
    return kinds.get(type(value), f"a value of type {type(value).__name__}")
