"""te's ``tvm.tir.ir_builder``: loops written by hand, for ``te.extern``.

A program becomes a loop nest over flat arrays, which the verifier checks, and which is a part of
the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from schedlang.compute.extern_op import ExternFunction
from schedlang.errors import ComputeError, ComputeTypeError, SchedlangError, explain, nearest
from schedlang.expr.dtypes import INDEX, is_integer
from schedlang.expr.nodes import Axis, Cast, Const, Expr
from schedlang.expr.visit import postorder
from schedlang.externs.loops import of_loops
from schedlang.index.linear import number_or_expr
from schedlang.index.simplify import to_lin
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Load,
    Stmt,
    Store,
    block_of,
    walk,
    with_fields,
    with_held,
    written_by,
)
from schedlang.ir.verify import verify
from schedlang.language.construct import as_expr, convert
from schedlang.lowering.loop_names import loop_names
from schedlang.tvm.extern_calls import ExternCall
from schedlang.tvm.matrix_intrinsics import MatrixCall
from schedlang.tvm.packed import Handle
from schedlang.tvm.te_dtypes import te_dtype

KINDS = ("serial", "parallel", "vectorize", "unroll")
# methods of TVM's builder, why they are not here, and what to write instead
_REFUSED = {
    "let": ("an expression needs no name in the program", "Use a variable of Python."),
    "new_scope": ("storage lives to the end of its loop", "Allocate it in the loop that uses it."),
    "pointer": ("arrays come from te.extern or from the builder", "Use ib.buffer_ptr(ins[k])."),
    "scope_attr": ("loops have no attributes", 'Use ib.for_range(..., kind="parallel").'),
    "while_loop": (
        "the number of iterations must be known before a loop",
        "Use ib.for_range, with ib.if_scope inside, or sl.extern with a function of numba.",
    ),
}


class BufferVar:
    """An array in a program: ``A[i]`` reads an element, ``A[i] = value`` writes one.

    An index is one integer, which counts elements from the first, or one for each dimension.
    """

    def __init__(self, builder: IRBuilder, buffer: Buffer, shape: Sequence[int]) -> None:
        self._builder, self._buffer, self._shape = builder, buffer, tuple(shape)

    @property
    def dtype(self) -> str:
        return self._buffer.dtype

    def _index(self, index: Any) -> Expr:
        items = index if isinstance(index, tuple) else (index,)
        if len(items) not in (1, len(self._shape)):
            raise ComputeError(
                explain(
                    f"{self._buffer.name}[{', '.join(map(str, items))}]",
                    f"it has {len(items)} indices, and {self._buffer.name} has "
                    f"{len(self._shape)} dimensions",
                    "Give one for each dimension, or one that counts all elements.",
                )
            )
        flat: Expr = Const(0, INDEX, True)
        for item, extent in zip(items, self._shape if len(items) > 1 else (0,)):
            flat = flat * extent + _whole(item, f"an index of {self._buffer.name}")
        return number_of(flat)

    def __getitem__(self, index: Any) -> Expr:
        return Load(self._buffer, (self._index(index),), self._buffer.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        at, expr = self._index(index), as_expr(value)
        if not expr.weak and expr.dtype != self.dtype:
            raise ComputeTypeError(
                explain(
                    f"{self._buffer.name}[{at}] = {expr}",
                    f"the value is {expr.dtype}, and {self._buffer.name} holds {self.dtype}",
                    f'Convert it: tvm.tir.Cast("{self.dtype}", value).',
                )
            )
        self._builder.add(Store((self._buffer,), (at,), (convert(expr, self.dtype),)))


def number_of(index: Expr) -> Expr:
    """Return an index in its simplest form."""
    value = number_or_expr(to_lin(index))
    return as_expr(value)


def _whole(value: Any, what: str) -> Expr:
    expr = as_expr(value)
    if not is_integer(expr.dtype):
        raise ComputeTypeError(f"tvm.tir.ir_builder: {what} is {expr} ({expr.dtype}); use integers")
    return expr if expr.dtype == INDEX else Cast(expr, INDEX)


@dataclass(frozen=True, eq=False)
class Program:
    """Statements written by hand, and the arrays of ``te.extern`` that they use.

    One for ``te.decl_tensor_intrin`` has ``calls`` of functions of C, or of matrix units, in their
    place.
    """

    body: Block
    buffers: tuple[tuple[Handle, Buffer], ...]
    calls: tuple[ExternCall | MatrixCall, ...] = ()

    def function(
        self, inputs: Sequence[Handle], outputs: Sequence[Handle], name: str
    ) -> ExternFunction:
        """Return the program as a function of the arrays of ``inputs``, then of ``outputs``.

        Raise :class:`~schedlang.errors.ComputeError` for an input that it writes, for an index
        outside of an array, and for iterations of a parallel loop that race.
        """
        handles = [*inputs, *outputs]
        known = dict(self.buffers)
        stray = next((h for h in known if not any(h is given for given in handles)), None)
        if stray is not None:
            raise ComputeError(
                f"te.extern for {name}: the program uses {stray.name} of another te.extern; use "
                "the arrays that this one passes"
            )
        written = {buffer for stmt, _ in walk(self.body) for buffer in written_by(stmt)}
        changed = next((h for h in inputs if known.get(h) in written), None)
        if changed is not None:
            raise ComputeError(
                explain(
                    f"te.extern for {name}",
                    f"the program writes {changed.name}, which is an input",
                    "Write outs, or storage of ib.allocate.",
                )
            )
        used = [(k, known[h]) for k, h in enumerate(handles) if h in known]
        arguments = tuple(buffer for _, buffer in used)
        body = block_of(_of_stage(self.body, name))
        names = loop_names(body, {b.name for b in arguments})
        nest = Nest(name, arguments, (), body, (), names)
        dtypes = tuple(h.dtype for h in inputs), tuple(h.dtype for h in outputs)
        try:
            verify(nest)
            return of_loops(nest, [k for k, _ in used], f"{name}_program", dtypes)
        except SchedlangError as error:
            raise ComputeError(
                explain(
                    f"te.extern for {name}",
                    "the program of tvm.tir.ir_builder breaks a rule",
                    str(error),
                )
            ) from None


def _of_stage(stmt: Stmt, name: str) -> Stmt:
    """Return ``stmt`` with the stage ``name``, which messages of the verifier show."""
    stmt = with_held(stmt, lambda inner: _of_stage(inner, name))
    return with_fields(stmt, stage=name) if isinstance(stmt, (For, Store)) else stmt


class IRBuilder:
    """A builder of statements; :meth:`get` returns the program.

    >>> import numpy as np, schedlang as tvm
    >>> from schedlang import te
    >>> A = te.placeholder((4,), name="A")
    >>> def twice(ins, outs):
    ...     ib = tvm.tir.ir_builder.create()
    ...     source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    ...     with ib.for_range(0, 4, name="i") as i:
    ...         result[i] = source[i] * 2.0
    ...     return ib.get()
    >>> B = te.extern((4,), [A], twice, name="B")
    >>> tvm.build(te.create_schedule(B.op), [A, B])(np.ones(4, "float32"))
    array([2., 2., 2., 2.], dtype=float32)
    """

    def __init__(self) -> None:
        self._blocks: list[list[Stmt]] = [[]]
        self._buffers: dict[Handle, Buffer] = {}
        self._names: set[str] = set()
        self._calls: list[ExternCall | MatrixCall] = []
        self._condition: If | None = None
        self._loops: list[tuple[str, Axis]] = []

    def __getattr__(self, name: str) -> Any:
        if name not in _REFUSED:
            close = nearest(name, [n for n in vars(IRBuilder) if not n.startswith("_")])
            raise AttributeError(f"tvm.tir.ir_builder has no {name}{close}")
        raise ComputeError(explain(f"ib.{name}", *_REFUSED[name]))

    def likely(self, cond: Any) -> Any:
        """Return ``cond``: te's hint for a branch has no effect."""
        return cond

    def add(self, stmt: Stmt) -> None:
        """Append a statement to the block that is open."""
        self._blocks[-1].append(stmt)

    def buffer_ptr(self, buffer: Any, shape: Any = None) -> BufferVar:
        """Return an array that ``te.extern`` passes, to read and write."""
        if not isinstance(buffer, Handle):
            raise ComputeTypeError(
                explain(
                    f"ib.buffer_ptr({type(buffer).__name__})",
                    "it takes an array that te.extern passes to its function",
                    "Pass ins[k] or outs[k].",
                )
            )
        if not all(isinstance(e, int) for e in buffer.shape):
            raise ComputeError(
                explain(
                    f"ib.buffer_ptr({buffer.name})",
                    f"its shape depends on {', '.join(map(str, buffer.shape))}, and loops written "
                    "by hand need numbers",
                    "Use numbers for the shape, or write the stage with te.compute.",
                )
            )
        known = self._buffers.get(buffer)
        if known is None:
            name = self._fresh(buffer.name)
            known = self._buffers[buffer] = Buffer(name, buffer.dtype, (prod(buffer.shape),))
        return BufferVar(self, known, buffer.shape)

    def allocate(
        self, dtype: Any, shape: Any, name: str = "buf", scope: str = "global"
    ) -> BufferVar:
        """Return new storage of a constant ``shape``, which lives to the end of the open block."""
        extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        values = [e.value if isinstance(e, Const) else e for e in extents]
        if not all(isinstance(e, int) and e > 0 for e in values):
            raise ComputeError(
                f"ib.allocate of {name}: the shape is {values}, and must be of positive integers"
            )
        if scope not in ("global", "local"):
            raise ComputeError(
                f'ib.allocate of {name}: the scope is {scope!r}; choose "global" or "local"'
            )
        lanes = self._lanes()
        if lanes is not None:
            raise ComputeError(
                explain(
                    f"ib.allocate of {name}",
                    f"the loop {lanes.name} around it is vectorized, and all lanes would share it",
                    f"Leave out kind= of {lanes.name}, or allocate an element for each lane before "
                    "it.",
                )
            )
        buffer = Buffer(self._fresh(name), te_dtype(dtype), (prod(values),), scope)
        self.add(Alloc(buffer))
        return BufferVar(self, buffer, values)

    def _fresh(self, name: str) -> str:
        title, count = name, 0
        while title in self._names:
            count += 1
            title = f"{name}_{count}"
        self._names.add(title)
        return title

    @contextmanager
    def for_range(
        self, begin: Any, end: Any, name: str = "i", dtype: Any = None, kind: str = "serial",
        for_type: str = "",
    ) -> Iterator[Expr]:  # fmt: skip
        """Open a loop over ``begin .. end``, ``end`` excluded, and return its variable.

        ``kind``, or ``for_type`` of older programs, is ``"serial"``, ``"parallel"``,
        ``"vectorize"`` or ``"unroll"``. ``dtype`` has no effect: indices are int64.
        """
        chosen = for_type or kind
        if chosen not in KINDS:
            raise ComputeError(
                f"ib.for_range(..., kind={chosen!r}): choose one of {', '.join(KINDS)}"
            )
        first, last = (_whole(e, f"an end of {name}") for e in (begin, end))
        extent = number_or_expr(to_lin(last) - to_lin(first))
        if isinstance(extent, int):
            extent = max(extent, 0)
        axis = Axis(name, extent)
        self._check_lanes(chosen, axis)
        self._loops.append((chosen, axis))
        self._blocks.append([])
        yield number_of(first + axis)
        self._loops.pop()
        body = Block(tuple(self._blocks.pop()))
        self.add(For(axis, extent, chosen, body, name))

    def _check_lanes(self, kind: str, axis: Axis) -> None:
        """Refuse a loop that is not of one length in all lanes of a vector."""
        asked, around = f"ib.for_range(..., name={axis.name!r})", self._lanes()
        if kind == "vectorize" and not isinstance(axis.extent, int):
            why = f"a vectorized loop has a number of iterations, and this one has {axis.extent}"
            raise ComputeError(explain(asked, why, 'Leave out kind="vectorize".'))
        if around is None:
            return
        if kind == "vectorize":
            why = f"both it and {around.name}, which is around it, are vectorized"
            raise ComputeError(explain(asked, why, "Vectorize one of them."))
        if any(node is around for node in postorder([as_expr(axis.extent)])):
            why = f"its iterations, {axis.extent}, differ between the lanes of {around.name}"
            hint = (
                f"Let it run over all of them, with ib.if_scope inside, or serialize {around.name}."
            )
            raise ComputeError(explain(asked, why, hint))

    def _lanes(self) -> Axis | None:
        """Return the vectorized loop that is open."""
        return next((axis for kind, axis in self._loops if kind == "vectorize"), None)

    @contextmanager
    def if_scope(self, cond: Any) -> Iterator[None]:
        """Open statements that run if ``cond`` holds."""
        test = as_expr(cond)
        if test.dtype != "bool":
            raise ComputeTypeError(f"ib.if_scope({test}): the condition is {test.dtype}, not bool")
        self._blocks.append([])
        yield
        self._condition = If(test, Block(tuple(self._blocks.pop())))
        self.add(self._condition)

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """Open statements that run if the condition of the ``if_scope`` just before does not."""
        block = self._blocks[-1]
        before = block[-1] if block else None
        if not isinstance(before, If) or before is not self._condition:
            raise ComputeError("ib.else_scope(): there is no ib.if_scope just before it")
        cond = before.cond
        written = {buffer for stmt, _ in walk(before.body) for buffer in written_by(stmt)}
        if any(isinstance(n, Load) and n.buffer in written for n in postorder([cond])):
            lanes = self._lanes()
            if lanes is not None:
                raise ComputeError(
                    explain(
                        f"ib.else_scope() of {cond}",
                        f"the statements of ib.if_scope change what it reads, in the lanes of "
                        f"{lanes.name}",
                        "Assign te.if_then_else(...), or leave out kind= of the loop.",
                    )
                )
            # the statements change what the condition reads, so that its value is kept
            kept, at = Buffer(self._fresh("holds"), "bool", (1,), "local"), (Const(0, INDEX, True),)
            holds = Load(kept, at, "bool")
            block[-1:] = [Alloc(kept), Store((kept,), at, (cond,)), If(holds, before.body)]
            cond = holds
        self._blocks.append([])
        yield
        self.add(If(~cond, Block(tuple(self._blocks.pop()))))

    def emit(self, stmt: Any) -> None:
        """Append a call of ``tvm.tir.call_extern``, or of matrix units by ``call_intrin``.

        Refuse a statement from elsewhere: elements are assigned.
        """
        if isinstance(stmt, (ExternCall, MatrixCall)):
            if len(self._blocks) > 1:
                raise ComputeError(
                    f"ib.emit of {stmt.name}: a loop or a condition is around the call; "
                    f"{_alone(stmt)}"
                )
            self._calls.append(stmt)
            return
        raise ComputeError(
            explain(
                f"ib.emit({type(stmt).__name__})",
                "statements are written by the builder itself",
                "Assign elements, A[i] = value, or return tvm.tir.call_packed(...) alone.",
            )
        )

    def get(self) -> Program:
        """Return the program."""
        if len(self._blocks) > 1:
            raise ComputeError("ib.get(): a loop or a condition is still open; leave it first")
        if self._calls and self._blocks[0]:
            raise ComputeError(
                f"ib.get(): it has a call of {self._calls[0].name} and statements; "
                f"{_alone(self._calls[0])}"
            )
        body = Block(tuple(self._blocks[0]))
        return Program(body, tuple(self._buffers.items()), tuple(self._calls))


def _alone(call: ExternCall | MatrixCall) -> str:
    """Return what to do with statements beside a call, which stands alone in an intrinsic."""
    if isinstance(call, MatrixCall):
        return "emit the call alone, which computes a whole tile"
    return "write all of it in the function of C"


def create() -> IRBuilder:
    """Return a builder of a new program."""
    return IRBuilder()


__all__ = ["BufferVar", "IRBuilder", "create"]
