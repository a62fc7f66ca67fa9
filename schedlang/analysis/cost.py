"""``sl.cost``: the operations and bytes of a computation, the loads and stores of a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import prod
from typing import TYPE_CHECKING, Any, Union

from schedlang.analysis.closed_forms import bytes_of, length_of
from schedlang.analysis.points import Counter
from schedlang.analysis.points_of_stage import stage_flops
from schedlang.analysis.subject import subject_of
from schedlang.analysis.traffic import Traffic, storage_bytes, traffic
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import first_computed_rows, operations, placeholders, variables
from schedlang.compute.tensor import Tensor
from schedlang.compute.work import compute_operations, uncounted
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Expr, Var
from schedlang.expr.symbolic import symbol
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.ir.specialize import at_sizes
from schedlang.lowering.lower import lower_state
from schedlang.signatures import public

if TYPE_CHECKING:
    import sympy

Size = Union[str, Var, "sympy.Symbol"]


@dataclass(frozen=True)
class Cost:
    """The operations of a computation and the bytes it must move, as sympy expressions.

    ``flops`` counts each stage once and whole, independently of the schedule. It counts one for
    each arithmetic operation on elements (two for a multiply-add), each comparison of elements,
    each ``min``, ``max`` and math function, and each value that a reduction combines. Index
    arithmetic, conversions, selects and logic on bools are free, and both branches of a select
    count. ``sl.evaluate`` uses this number for its GFLOP/s. ``bytes`` counts one read of each input
    and one write of each output. ``symbols`` are the sizes, as positive integers of the same name;
    ``subs`` takes a size made by ``sl.var`` for its symbol. ``notes`` states which counts are upper
    bounds, and why; without notes all counts are exact.

    A function of :func:`~schedlang.extern` counts as many operations as its ``flops=`` says.
    ``unknown`` has the names of the functions without one, whose operations are left out, so that
    ``flops`` are at least so many.
    """

    name: str
    flops: sympy.Expr
    bytes: sympy.Expr
    symbols: tuple[sympy.Symbol, ...]
    notes: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    @property
    def intensity(self) -> sympy.Expr:
        """The flops per byte moved; sympy's ``nan`` if no byte is moved."""
        import sympy

        return self.flops / self.bytes if self.bytes != 0 else sympy.nan

    def at(self, sizes: Mapping[Size, Any] | None = None, **named: Any) -> Any:
        """Return this record with sizes replaced; a key is an ``sl.var``, a symbol or a name.

        Raise :class:`~schedlang.errors.ComputeError` if a name is not a size of the computation, or
        if a value is 0: the formulas hold for positive sizes, and ``sl.cost(..., sizes={n: 0})``
        counts for 0. Raise :class:`~schedlang.errors.ComputeTypeError` if ``sizes`` is not a
        mapping.

        >>> import schedlang as sl
        >>> n = sl.var("n")
        >>> A = sl.placeholder((n,), name="A")
        >>> sl.cost(sl.compute((n,), lambda i: A[i] * 2, name="B")).at(n=1000).bytes
        8000
        """
        symbols = {s.name: s for s in self.symbols}
        values: dict[Any, Any] = {}
        numbers = _mapping(sizes, "at({})" + f" of the cost of {self.name}", "at({})", symbols)
        for size, value in [*numbers.items(), *named.items()]:
            name = str(size)
            if name not in symbols:
                listed = f"its sizes are {', '.join(symbols)}" if symbols else "it has no sizes"
                raise ComputeError(f"at({name}={value}) of the cost of {self.name}: {listed}")
            values[symbols[name]] = _size(name, value, self.name)
        rest = tuple(s for s in self.symbols if s not in values)

        def put(value: Any) -> Any:
            return value.subs(values) if hasattr(value, "subs") else value

        changes: dict[str, Any] = {
            f.name: put(getattr(self, f.name)) for f in fields(self) if f.name not in _PLAIN
        }
        if "buffers" in changes:
            changes["buffers"] = tuple(
                replace(b, bytes=put(b.bytes), loads=put(b.loads), stores=put(b.stores))
                for b in changes["buffers"]
            )
        return replace(self, symbols=rest, **changes)

    def _rows(self) -> list[tuple[str, Any]]:
        return [("flops", self.flops), ("bytes", self.bytes), ("intensity", self.intensity)]

    def __str__(self) -> str:
        rows = [(what, number_text(value)) for what, value in self._rows()]
        width = max(len(what) for what, _ in rows)
        lines = [f"cost of {self.name}"]
        lines += [f"  {what:<{width}}  {value}" for what, value in rows]
        lines += [f"  an upper bound: {note}" for note in self.notes]
        lines += [
            f"  without the operations of {name}: sl.extern(..., flops=) takes their number"
            for name in self.unknown
        ]
        return "\n".join(lines)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/latex": self._repr_latex_()}

    def _repr_latex_(self) -> str:
        import sympy

        rows = [
            rf"\text{{{what.replace('_', ' ')}}} &= {sympy.latex(value)}"
            for what, value in self._rows()
        ]
        return "$$\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}$$"


@dataclass(frozen=True)
class BufferCost:
    """The cost of one buffer of a nest: elements loaded and stored, and bytes of one copy."""

    name: str
    scope: str
    dtype: str
    bytes: sympy.Expr
    loads: sympy.Expr
    stores: sympy.Expr


@dataclass(frozen=True)
class ScheduleCost(Cost):
    """The :class:`Cost` of a computation, with the work of its loop nest as scheduled.

    ``loads`` and ``stores`` count elements of inputs, outputs and intermediate storage, for each
    access in the printed nest: ``C[i] += A[i]`` loads two elements and stores one. An element that
    one statement names several times is loaded once. Guarded statements count at the points where
    their guards hold. A stage that is recomputed counts each time.

    ``executed`` is the number of flops that the nest executes, so that ``executed/flops`` measures
    recomputation. ``allocated`` is the peak of intermediate storage in bytes, with one copy of
    storage made inside a loop (each thread of a parallel loop has its own). ``buffers`` holds the
    accesses to each buffer: its ``bytes`` are the size of an argument, or of the storage that the
    nest allocates, and not the memory traffic.

    Loops are summed exactly, with guards, tails, triangles and padding, and for all sizes of 1 or
    more. A count is an upper bound, as ``notes`` say, for three reasons: a condition depends on
    elements or scalar arguments and counts as always true; a guard on symbolic sizes has no known
    formula (``sl.cost(s, sizes={n: 1000})`` is exact); or a guard on numbers has none, and
    evaluating it would take more than 16 million points. For a GPU, the counts cover all threads.

    A call of a function of the user's loads and stores each element of its boxes once, and executes
    the share of its ``flops`` that the box has of the whole output.
    """

    loads: sympy.Expr = field(kw_only=True)
    stores: sympy.Expr = field(kw_only=True)
    allocated: sympy.Expr = field(kw_only=True)
    executed: sympy.Expr = field(kw_only=True)
    buffers: tuple[BufferCost, ...] = field(kw_only=True)

    def _rows(self) -> list[tuple[str, Any]]:
        return [
            *super()._rows(),
            ("loads", self.loads),
            ("stores", self.stores),
            ("allocated", self.allocated),
            ("executed", self.executed),
        ]

    def __str__(self) -> str:
        cells = [("", "loads", "stores", "bytes")]
        cells += [
            (b.name, number_text(b.loads), number_text(b.stores), number_text(b.bytes))
            for b in self.buffers
        ]
        widths = [max(len(row[k]) for row in cells) for k in range(4)]
        table = ["  ".join(f"{c:<{w}}" for c, w in zip(row, widths)).rstrip() for row in cells]
        return "\n".join([super().__str__(), *(f"  {line}" for line in table)])


_PLAIN = ("name", "symbols", "notes", "unknown")


def number_text(value: Any) -> str:
    """Return a number with separators, a fraction as a decimal, anything else as sympy prints it.

    >>> import sympy
    >>> number_text(sympy.Integer(2147483648)), number_text(sympy.Rational(512, 3))
    ('2,147,483,648', '170.7')
    """
    if value.is_Integer:
        return f"{int(value):,}"
    return f"{float(value):.4g}" if value.is_Rational else str(value)


@public
def cost(what: Any, sizes: Mapping[Size, Any] | None = None) -> Cost:
    """Return the cost of a computation or of a schedule.

    For a tensor or a list of outputs, return a :class:`Cost` with ``flops``, ``bytes`` and
    ``intensity``. For a schedule, or a kernel made from one, return a :class:`ScheduleCost`, which
    also has ``loads``, ``stores``, ``allocated``, ``executed`` and ``buffers``. All are sympy
    expressions in the symbolic sizes. ``sizes`` replaces some sizes by numbers before counting.
    Counts with numbers are exact even if a guard on symbolic sizes has no formula.

    Raise :class:`~schedlang.errors.ComputeTypeError` for any other argument,
    :class:`~schedlang.errors.ComputeError` for a name that is not a size, and
    :class:`~schedlang.errors.LoweringError` for a schedule that cannot be lowered.

    >>> import schedlang as sl
    >>> M, N, K = (sl.var(name) for name in "MNK")
    >>> A, B = sl.placeholder((M, K), name="A"), sl.placeholder((K, N), name="B")
    >>> k = sl.reduce_axis(K, name="k")
    >>> C = sl.compute((M, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> print(sl.cost(C).flops)
    2*K*M*N
    >>> sl.cost(sl.schedule(C)).loads.subs({M: 8, N: 8, K: 8})
    1536
    """
    subject = subject_of(what, "sl.cost")
    numbers = _sizes(subject.outputs, sizes)
    counts = _of_outputs(subject.outputs, numbers)
    if subject.state is None:
        return counts
    nest = lower_state(subject.state)
    if numbers:
        nest = at_sizes(nest, {v.name: n for v, n in numbers.items()})
    ops = [op for op in operations(subject.outputs) if isinstance(op, ExternOp)]
    moved = traffic(nest)
    moved.operations += _of_calls(moved, ops, numbers)
    return _of_nest(counts, moved)


def _of_calls(moved: Traffic, ops: Sequence[ExternOp], known: Mapping[Var, int]) -> Any:
    """Return the operations of calls, each with the share that it writes of the whole output."""
    import sympy

    values = {v: Lin.of(n) for v, n in known.items()}
    flops_of = {op.outputs[0]: op.flops for op in ops if op.flops is not None}
    total: Any = 0
    for buffer in moved.buffers.values():
        if buffer.tensor in flops_of:
            whole = prod(length_of(to_lin(e, values)) for e in buffer.tensor.shape)
            written = sympy.sympify(moved.stores.get(buffer.name, 0))
            flops = length_of(to_lin(flops_of[buffer.tensor], values))
            total += flops * written / whole if whole != 0 else 0
    return total


def _of_outputs(outputs: Sequence[Tensor], known: Mapping[Var, int]) -> Cost:
    import sympy

    counter = Counter()
    values = {v: Lin.of(n) for v, n in known.items()}
    rows = first_computed_rows(operations(outputs), outputs)
    total: Any = 0
    for op in compute_operations(outputs):
        total = total + stage_flops(op, counter, rows.get(op, 0), values)
    for call in operations(outputs):
        if isinstance(call, ExternOp) and call.flops is not None:
            total = total + length_of(to_lin(call.flops, values))
    tensors = dict.fromkeys((*placeholders(outputs), *outputs))
    sizes_of = {t: [to_lin(extent, values) for extent in t.shape] for t in tensors}
    moved = sympy.sympify(sum(bytes_of(shape, t.dtype) for t, shape in sizes_of.items()))
    symbols = tuple(dict.fromkeys(symbol(v) for v in variables(outputs) if v.is_size))
    left = tuple(s for s in symbols if s.name not in {v.name for v in known})
    name = ", ".join(dict.fromkeys(t.op.name for t in outputs))
    notes = tuple(counter.bounds)
    return Cost(name, sympy.sympify(total), moved, left, notes, uncounted(outputs))


def _of_nest(cost: Cost, counts: Traffic) -> ScheduleCost:
    import sympy

    buffers = tuple(
        BufferCost(
            b.name,
            b.scope,
            b.dtype,
            sympy.sympify(storage_bytes(b)),
            sympy.sympify(counts.loads.get(b.name, 0)),
            sympy.sympify(counts.stores.get(b.name, 0)),
        )
        for b in counts.buffers.values()
    )
    zero = sympy.Integer(0)
    return ScheduleCost(
        cost.name,
        cost.flops,
        cost.bytes,
        cost.symbols,
        tuple(dict.fromkeys((*cost.notes, *counts.bounds))),
        cost.unknown,
        loads=sum((b.loads for b in buffers), zero),
        stores=sum((b.stores for b in buffers), zero),
        allocated=sympy.sympify(counts.allocated),
        executed=sympy.sympify(counts.operations),
        buffers=buffers,
    )


def _size(name: str, value: Any, cost_of: str = "") -> Any:
    """Return the checked value of a size: an integer, or for ``at`` also a sympy expression.

    ``cost_of`` is given for ``at``, and names the computation.
    """
    if hasattr(value, "__index__") and not isinstance(value, (bool, Expr)):
        if int(value) > 0 or (int(value) == 0 and not cost_of):
            return int(value)
        if int(value) == 0:
            raise ComputeError(
                explain(
                    f"at({name}=0) of the cost of {cost_of}",
                    "its formulas hold for sizes above 0",
                    f"Call sl.cost(..., sizes={{{name}: 0}}), which counts at that size.",
                )
            )
    elif cost_of and hasattr(value, "subs"):
        return value
    raise ComputeError(f"{name} = {value!r}: a size must be an integer, 0 or more")


def _mapping(sizes: Any, asked: str, call: str, known: Mapping[str, Any]) -> Mapping[Size, Any]:
    """Return ``sizes`` if it is a mapping; ``asked`` and ``call`` have a place for the argument."""
    if sizes is None or isinstance(sizes, Mapping):
        return sizes or {}
    example = ", ".join(f"{name}: 8" for name in known) or "n: 8"
    raise ComputeTypeError(
        explain(
            asked.format(repr(sizes)[:100]),
            "the sizes are not a mapping from size to number",
            f"Call {call.format('{' + example + '}')}.",
        )
    )


def _sizes(outputs: Sequence[Tensor], sizes: Mapping[Size, Any] | None) -> dict[Var, int]:
    """Return ``sizes`` with the computation's own variables as keys."""
    own = {v.name: v for v in variables(outputs) if v.is_size}
    numbers: dict[Var, int] = {}
    named = _mapping(sizes, "sl.cost(..., sizes={})", "sl.cost(..., sizes={})", own)
    for size, value in named.items():
        name = str(size)
        if name not in own:
            listed = f"its sizes are {', '.join(own)}" if own else "it has no symbolic sizes"
            raise ComputeError(f"sl.cost(..., sizes={{{name}: {value}}}): {listed}")
        numbers[own[name]] = int(_size(name, value))
    return numbers


__all__ = ["BufferCost", "Cost", "ScheduleCost", "cost"]
