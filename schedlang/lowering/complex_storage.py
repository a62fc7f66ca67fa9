"""Complex buffers as pairs of real ones, after lowering and before the passes of a target.

An argument is an array of NumPy, in which real and imaginary parts alternate: its parts are two
views of one array of floats, and so are the parts of storage that a function of the user's takes.
Other storage has an array for each part, so that vectors of lanes are adjacent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Union

import numpy as np

from schedlang.compute.reducer import Reducer
from schedlang.expr.complex_parts import Parts, Value, split, whole
from schedlang.expr.dtypes import is_complex, part_of
from schedlang.expr.nodes import ArrayRead, Const, Expr, Var
from schedlang.expr.visit import preorder
from schedlang.ir.extern_call import Extern, Touch
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Buffer, Exchange, Fetch, Load, Stmt, Store, expressions
from schedlang.ir.rewrite import replace_statements, with_each, with_expressions
from schedlang.ir.trimmed import running
from schedlang.language.construct import as_expr

Pair = tuple[Buffer, Buffer]


def split_complex(nest: Nest) -> Nest:
    """Return ``nest`` with real buffers and values; the same nest if none is complex.

    A complex argument becomes one of floats, with a last dimension of 2.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), "complex64", name="A")
    >>> C = sl.compute((4,), lambda i: A[i] * 2 + 1j, name="C")
    >>> print(split_complex(sl.lower(sl.schedule(C))))
    C(A: float32[4, 2]) -> C: float32[4, 2]
    <BLANKLINE>
    for i in 0..4:
      C.re[i], C.im[i] = A.re[i] * 2, A.im[i] * 2 + 1
    """
    if not any(is_complex(b.dtype) for b in nest.buffers) and not computes_complex(nest.body):
        return nest
    return split_with(Splitter(), nest)


def computes_complex(body: Stmt) -> bool:
    """Return whether an expression has complex parts, such as the comparison of a root to 1j."""
    values = (e for stmt in running(body) for e in expressions(stmt))
    return any(is_complex(e.dtype) for e in preorder(values))


def split_with(splitter: Splitter, nest: Nest) -> Nest:
    """Return ``nest`` with the buffers that ``made`` makes."""
    for stmt in running(nest.body):
        if isinstance(stmt, Extern):
            splitter.alternating.update((*stmt.inputs, *stmt.outputs))
    args = tuple(splitter.argument(a) for a in nest.args)
    arg_for = dict(zip(nest.args, args))
    outputs: Any = tuple(arg_for[b] for b in nest.outputs)
    return replace(
        nest, args=args, outputs=outputs, body=replace_statements(nest.body, splitter.statement)
    )


class Splitter:
    """The parts of the buffers seen so far; they are made where they are first seen."""

    def __init__(self) -> None:
        self.pairs: dict[Buffer, Pair] = {}
        self.alternating: set[Buffer] = set()
        self.floats: dict[Buffer, Buffer] = {}

    def argument(self, arg: Union[Buffer, Var]) -> Union[Buffer, Var]:
        if isinstance(arg, Var) or not is_complex(arg.dtype):
            return arg
        return self.alternated(arg)

    def alternated(self, arg: Buffer) -> Buffer:
        """Return the array of floats in which the parts of a complex buffer alternate."""
        if arg in self.floats:
            return self.floats[arg]
        floats = replace(arg, dtype=part_of(arg.dtype), shape=(*arg.shape, 2))
        views = (
            replace(floats, name=f"{arg.name}.{name}", shape=arg.shape, whole=floats, part=k)
            for k, name in enumerate(("re", "im"))
        )
        self.pairs[arg] = next(views), next(views)
        self.floats[arg] = floats
        return floats

    def storage(self, buffer: Buffer) -> tuple[Buffer, ...]:
        """Return the buffers that hold ``buffer``."""
        if not is_complex(buffer.dtype):
            return (buffer,)
        if buffer in self.alternating:
            self.alternated(buffer)
        if buffer not in self.pairs:
            dtype = part_of(buffer.dtype)
            re, im = (replace(buffer, name=f"{buffer.name}.{p}", dtype=dtype) for p in ("re", "im"))
            self.pairs[buffer] = re, im
        return self.pairs[buffer]

    def statement(self, stmt: Stmt) -> list[Stmt]:
        if isinstance(stmt, Extern):
            return [with_each(self.call(stmt), self.statement)]
        if isinstance(stmt, Touch):
            (read,) = split([stmt.value], self.load)
            values = whole(read, stmt.value.dtype) if isinstance(read, Parts) else (read,)
            return [replace(stmt, value=v) for v in values]
        if isinstance(stmt, Alloc):
            if is_complex(stmt.buffer.dtype) and stmt.buffer in self.alternating:
                return [replace(stmt, buffer=self.alternated(stmt.buffer))]
            return [replace(stmt, buffer=b) for b in self.storage(stmt.buffer)]
        if isinstance(stmt, Store):
            return [self.store(stmt)]
        real = with_expressions(stmt, self.real)
        if isinstance(real, Fetch):
            return [replace(real, buffer=b) for b in self.storage(real.buffer)]
        if isinstance(real, Exchange):
            into, source = (
                tuple(part for b in buffers for part in self.storage(b))
                for buffers in (real.into, real.source)
            )
            return [replace(real, into=into, source=source)]
        return [with_each(real, self.statement)]

    def call(self, stmt: Extern) -> Extern:
        """Return a call that gets the parts of complex numbers in a last dimension of 2."""
        arrays = (*stmt.inputs, *stmt.outputs)
        kinds = [b.dtype for b in arrays]
        if not any(map(is_complex, kinds)):
            return stmt
        boxes = [
            (self.alternated(b), (*starts, as_expr(0)), (*extents, as_expr(2)))
            if is_complex(b.dtype)
            else (b, starts, extents)
            for b, starts, extents in stmt.boxes
        ]
        given, count = [b for b, _, _ in boxes], len(stmt.inputs)
        return replace(
            stmt,
            function=replace(
                stmt.function, run=partial(run_with_complex, stmt.function.run, kinds)
            ),
            inputs=tuple(given[:count]),
            outputs=tuple(given[count:]),
            starts=tuple(e for _, starts, _ in boxes for e in starts),
            extents=tuple(e for _, _, extents in boxes for e in extents),
        )

    def real(self, value: Expr) -> Expr:
        (value_,) = split([value], self.load)
        assert not isinstance(value_, Parts)
        return value_

    def load(self, node: ArrayRead, indices: tuple[Expr, ...]) -> Parts:
        assert isinstance(node, Load)
        re, im = self.storage(node.buffer)
        return Parts(Load(re, indices, re.dtype), Load(im, indices, im.dtype))

    def store(self, store: Store) -> Store:
        buffers = tuple(part for b in store.buffers for part in self.storage(b))
        kinds = [b.dtype for b in store.buffers]
        parts = split((*store.indices, *store.values), self.load)
        count = len(store.indices)
        indices: Any = parts[:count]
        reducer = None if store.reducer is None else _reducer(store.reducer)
        values = _flat(parts[count:], kinds)
        return replace(store, buffers=buffers, indices=indices, values=values, reducer=reducer)


def run_with_complex(run: Any, kinds: Sequence[str], *arrays: np.ndarray) -> None:
    """Call a user's function with complex arrays in place of their parts, by ``kinds``."""
    given = []
    for array, kind in zip(arrays, kinds):
        if is_complex(kind):
            # the last dimension is packed, and one pair of parts is one number
            array = array.view(kind)[..., 0] if array.size else np.empty(array.shape[:-1], kind)
        given.append(array)
    run(*given)


def _flat(values: tuple[Value, ...], kinds: list[str]) -> tuple[Expr, ...]:
    """Return the values of all buffers; the parts of a complex one stand side by side."""
    flat: list[Expr] = []
    for value, kind in zip(values, kinds):
        if is_complex(kind):
            flat += whole(value if isinstance(value, Parts) else Parts(value, None), kind)
        else:
            assert not isinstance(value, Parts)
            flat.append(value)
    return tuple(flat)


def _reducer(reducer: Reducer) -> Reducer:
    """Return ``reducer`` over the parts of its complex operands."""
    kinds = [v.dtype for v in reducer.lhs]
    if not any(map(is_complex, kinds)):
        return reducer
    operand_parts: dict[Expr, Parts] = {}
    for operand in (*reducer.lhs, *reducer.rhs):
        if is_complex(operand.dtype):
            dtype = part_of(operand.dtype)
            operand_parts[operand] = Parts(
                *(Var(f"{operand.name}_{p}", dtype, weak=False) for p in ("re", "im"))
            )
    sides = (tuple(operand_parts.get(v, v) for v in side) for side in (reducer.lhs, reducer.rhs))
    lhs, rhs = (_flat(side, kinds) for side in sides)
    result = _flat(split(reducer.result, _no_element, operand_parts), kinds)
    identity = _flat(split(reducer.identity, _no_element), kinds)
    assert all(isinstance(v, Var) for v in (*lhs, *rhs))
    assert all(isinstance(v, Const) for v in identity)
    return replace(
        reducer,
        lhs=lhs,  # type: ignore[arg-type]
        rhs=rhs,  # type: ignore[arg-type]
        result=result,
        identity=identity,  # type: ignore[arg-type]
        parts=(),
    )


def _no_element(node: ArrayRead, _: tuple[Expr, ...]) -> Parts:
    raise AssertionError(f"a reducer reads {node}")
