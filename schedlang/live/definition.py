"""A computation as Python: the statements that define its tensors, so that a script can paste them.

The text is run and compared with the computation before it is shown. A computation that the writer
has no words for, such as one with a reducer of the user's own, is written as data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import schedlang as sl
from schedlang.compute.data import dumps, structure
from schedlang.compute.data_writer import everything
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import variables
from schedlang.compute.joint import alone, shown_outputs
from schedlang.compute.ragged import without_ranges
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor
from schedlang.errors import SchedlangError
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Select, Unary, Var
from schedlang.expr.printer import ATOM, UNARY, binary_text, number, paren
from schedlang.expr.visit import postorder

HEAD = "import schedlang as sl"
# reductions with a function of their name; the longest text of one operation
REDUCERS = ("sum", "prod", "min", "max", "argmin", "argmax")
LONGEST = 2000


class _Unwritten(Exception):
    """Raised for what the writer has no words for."""


def definition(outputs: Sequence[Tensor], names: Mapping[Tensor, str]) -> str:
    """Return Python statements that define ``outputs``, from the import of schedlang on.

    ``names`` has the variables of some tensors; the others get one of their own.

    >>> A = sl.placeholder((4, 8), name="A")
    >>> k = sl.reduce_axis(8, name="k")
    >>> B = sl.compute((4,), lambda i: sl.sum(A[i, k] * 2, axis=k), name="B")
    >>> print(definition([B], {A: "A", B: "B"}))
    import schedlang as sl
    <BLANKLINE>
    A = sl.placeholder((4, 8), name="A")
    k = sl.reduce_axis(8, name="k")
    B = sl.compute((4,), lambda i: sl.sum(A[i, k] * 2, axis=k), name="B")
    """
    # numbers as one writes them, then with their types, then as data
    for typed in (False, True):
        try:
            text = "\n".join(_Writer(names, typed).lines(outputs))
        except _Unwritten:
            break
        if _same(text, outputs, names):
            return f"{HEAD}\n\n{text}"
    return _as_data(outputs, names)


def _as_data(outputs: Sequence[Tensor], names: Mapping[Tensor, str]) -> str:
    """Return statements that read the computation from its data form."""
    tensors = list(dict.fromkeys([*names, *outputs]))
    bound = ", ".join(names.get(t, "_") for t in tensors)
    comma = "," if len(tensors) == 1 else ""
    return (
        f"{HEAD}\nfrom schedlang.compute.data import loads\n\n"
        f"{bound}{comma} = loads({dumps(tensors)!r})"
    )


def _same(text: str, outputs: Sequence[Tensor], names: Mapping[Tensor, str]) -> bool:
    """Return whether ``text``, which this module wrote, defines an equal computation."""
    space: dict[str, Any] = {"__builtins__": {"float": float}, "sl": sl}
    try:
        exec(text, space)
        tensors = list(dict.fromkeys([*outputs, *names]))
        replayed = [space[names[t]] for t in tensors]
        alike = structure(replayed) == structure(tensors)
    except (SchedlangError, SyntaxError, KeyError, NameError, TypeError):
        return False
    return alike and _names(replayed) == _names(tensors)


def _names(tensors: Sequence[Tensor]) -> list[Any]:
    names: list[Any] = []
    for op in everything(tensors):
        outputs = [t.name for t in getattr(op, "outputs", ())]
        names.append((op.name, outputs, [a.name for a in (*op.axis, *op.reduce_axis)]))
    return names


class _Writer:
    """The statements of a computation, and the variables that they bind.

    If ``typed``, each number is written with its type.
    """

    def __init__(self, names: Mapping[Tensor, str], typed: bool) -> None:
        self._typed = typed
        self._tensors = {(t.op, t.value_index): name for t, name in names.items()}
        self._taken = {*names.values(), "s", "sl", "f", "float"}
        self._others: dict[Expr, str] = {}

    def lines(self, outputs: Sequence[Tensor]) -> Iterator[str]:
        for size in variables(outputs):
            dtype = "" if size.is_size else f', dtype="{size.dtype}"'
            self._others[size] = self._fresh(size.name)
            yield f'{self._others[size]} = sl.var("{size.name}"{dtype})'
        for op in everything(outputs):
            if isinstance(op, PlaceholderOp):
                dtype = "" if op.dtype == "float32" else f'"{op.dtype}", '
                shape = self._shape(op.shape)
                name = self._tensor(op.output())
                yield f'{name} = sl.placeholder({shape}, {dtype}name="{op.name}")'
                yield from self._facts(name, op)
            elif isinstance(op, ExternOp):
                raise _Unwritten
            elif isinstance(op, ScanOp):
                yield self._scan(op)
            else:
                yield from self._compute(op)

    def _fresh(self, name: str) -> str:
        if not name.isidentifier():
            raise _Unwritten
        candidate, number_ = name, 1
        while candidate in self._taken:
            candidate, number_ = f"{name}_{number_}", number_ + 1
        self._taken.add(candidate)
        return candidate

    def _tensor(self, tensor: Tensor) -> str:
        key = tensor.op, tensor.value_index
        if key not in self._tensors:
            self._tensors[key] = self._fresh(tensor.name.replace(".", "_"))
        return self._tensors[key]

    def _shape(self, shape: Sequence[Any]) -> str:
        return _tuple([self._extent(e) for e in shape])

    def _extent(self, extent: Any) -> str:
        return self._text(extent) if isinstance(extent, Expr) else str(extent)

    def _bound(self, op: Operation) -> str:
        """Return the variables of all outputs of an operation."""
        return ", ".join(self._tensor(t) for t in op.outputs)  # type: ignore[union-attr]

    def _scan(self, op: ScanOp) -> str:
        parts = [
            [self._tensor(t) for t in part] for part in (op.init, op.update, op.state, op.inputs)
        ]
        several = len(op.outputs) > 1
        operands = [f"[{', '.join(p)}]" if several else p[0] for p in parts[:3]]
        inputs = f", inputs=[{', '.join(parts[3])}]" if parts[3] else ""
        return f'{self._bound(op)} = sl.scan({", ".join(operands)}{inputs}, name="{op.name}")'

    def _facts(self, name: str, op: PlaceholderOp) -> Iterator[str]:
        if op.facts is None:
            return
        options = ["monotonic=True"] if op.facts.monotonic else []
        if op.facts.within is not None:
            options.append(f"within={self._shape(op.facts.within)}")
        yield f"sl.assume({', '.join([name, *options])})"

    def _compute(self, op: ComputeOp) -> Iterator[str]:
        ragged = any(axis.bounds is not None for axis in op.reduce_axis)
        for axis in () if ragged else op.reduce_axis:
            if axis in self._others:
                continue
            length = self._extent(axis.extent)
            if not (isinstance(axis.lo, int) and axis.lo == 0):
                end = axis.lo + axis.extent
                length = f"({self._extent(axis.lo)}, {self._extent(end)})"
            self._others[axis] = self._fresh(axis.name)
            yield f'{self._others[axis]} = sl.reduce_axis({length}, name="{axis.name}")'
        for axis in op.axis:
            if not axis.name.isidentifier():
                raise _Unwritten
            self._others[axis] = axis.name
        inside = list(self._ragged_axes(op)) if ragged else []
        values = [self._text(v) for v in op.body]
        body = values[0] if len(values) == 1 else f"({', '.join(values)})"
        if op.reducer is not None:
            body = self._reductions(op, values)
        bound = ", ".join(self._tensor(t) for t in shown_outputs(op))
        parameters = ", ".join(a.name for a in op.axis)
        if ragged:
            function = self._fresh(f"{op.name.replace('.', '_')}_element")
            yield "\n".join([f"def {function}({parameters}):", *inside, f"    return {body}"])
            yield f'{bound} = sl.compute({self._shape(op.shape)}, {function}, name="{op.name}")'
            return
        text_of_lambda = f"lambda {parameters}: {body}" if parameters else f"lambda: {body}"
        yield f'{bound} = sl.compute({self._shape(op.shape)}, {text_of_lambda}, name="{op.name}")'

    def _reductions(self, op: ComputeOp, values: Sequence[str]) -> str:
        if op.reducer is None or not op.reducer.parts:
            return self._reduction(op, values)
        each = [
            self._reduction(alone(op, part), [values[k] for k in part.places])
            for part in op.reducer.parts
        ]
        return _tuple(each)

    def _ragged_axes(self, op: ComputeOp) -> Iterator[str]:
        """Yield the statements that make the reduction axes in the function of an element."""
        for axis in op.reduce_axis:
            ends = axis.bounds
            if ends is None:
                ends = axis.lo, axis.lo + axis.extent
            length = f"({self._extent(ends[0])}, {self._extent(ends[1])})"
            if isinstance(ends[0], int) and ends[0] == 0 and axis.bounds is None:
                length = self._extent(axis.extent)
            self._others[axis] = self._fresh(axis.name)
            yield f'    {self._others[axis]} = sl.reduce_axis({length}, name="{axis.name}")'

    def _reduction(self, op: ComputeOp, values: Sequence[str]) -> str:
        reducer = op.reducer
        if reducer is None or reducer.name not in REDUCERS:
            raise _Unwritten
        axes = [self._others[a] for a in op.reduce_axis]
        operands = [
            values[-1],
            f"axis={axes[0]}" if len(axes) == 1 else f"axis=[{', '.join(axes)}]",
        ]
        where = without_ranges(op.where, len(op.limits))
        if where is not None:
            operands.append(f"where={self._text(where)}")
        if op.init is not None:
            start = [self._text(v) for v in op.init]
            operands.append(f"init={start[0] if len(start) == 1 else _tuple(start)}")
        return f"sl.{reducer.name}({', '.join(operands)})"

    def _text(self, root: Expr) -> str:
        pieces: dict[int, tuple[str, int]] = {}
        for node in postorder([root]):
            pieces[id(node)] = self._node(node, pieces)
            # a shared part is written at each of its uses
            if len(pieces[id(node)][0]) > LONGEST:
                raise _Unwritten
        return pieces[id(root)][0]

    def _node(self, node: Expr, done: Mapping[int, tuple[str, int]]) -> tuple[str, int]:
        parts = [done[id(child)][0] for child in node.children]
        if isinstance(node, (Axis, Var)):
            if node not in self._others:
                raise _Unwritten
            return self._others[node], ATOM
        if isinstance(node, Const):
            return self._const(node)
        if isinstance(node, Binary):
            return binary_text(node.op, done[id(node.a)], done[id(node.b)])
        if isinstance(node, Unary):
            return f"{node.op}{paren(*done[id(node.a)], UNARY)}", UNARY
        if isinstance(node, Cast):
            return f'sl.cast({parts[0]}, "{node.dtype}")', ATOM
        if isinstance(node, Call) and hasattr(sl, node.fn):
            return f"sl.{node.fn}({', '.join(parts)})", ATOM
        if isinstance(node, Select):
            return f"sl.{'if_then_else' if node.lazy else 'select'}({', '.join(parts)})", ATOM
        if isinstance(node, Read):
            return f"{self._tensor(node.tensor)}[{', '.join(parts) or '()'}]", ATOM
        raise _Unwritten

    def _const(self, node: Const) -> tuple[str, int]:
        literal = number(node.value)
        if literal.lstrip("-") in ("inf", "nan"):
            literal = f'float("{literal}")'
        if self._typed and not node.weak:
            return f'sl.const({literal}, "{node.dtype}")', ATOM
        return literal, UNARY if literal.startswith("-") else ATOM


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' * (len(items) == 1)})"
