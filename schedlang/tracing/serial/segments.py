"""The stages that an iteration computes between two assignments, lowered to a nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Union

from schedlang.arrays.shapes import at_least_0
from schedlang.compute.extraction import extract
from schedlang.compute.graph import placeholders, variables
from schedlang.compute.tensor import Extent, PlaceholderOp, Tensor
from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.relax import relax
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import Alloc, Buffer, For, Stmt, walk
from schedlang.ir.rewrite import storage, with_buffers
from schedlang.lowering.lower import lower_state
from schedlang.target import Target
from schedlang.tracing.scheduling import schedule_for
from schedlang.tracing.serial.order import Computed, NotInKernel
from schedlang.tracing.spans import of_lengths


@dataclass
class Names:
    """The names of the buffers so far."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, name: str) -> str:
        """Return ``name``, with a number if it is taken."""
        title, count = name, 0
        while title in self.taken:
            count += 1
            title = f"{name}_{count}"
        self.taken.add(title)
        return title


@dataclass(frozen=True)
class Segment:
    """The statements that compute some tensors, and the buffers where these stand after them."""

    stmts: tuple[Stmt, ...]
    buffers: dict[Tensor, Buffer]


@dataclass(frozen=True)
class Maker:
    """Lowers segments for a target; all buffers get different names.

    ``remarks`` say what the loops so far are in the user's source, by their axes.
    """

    target: Target
    compiler: str
    names: Names
    remarks: dict[Union[str, Axis], tuple[str, ...]] = field(default_factory=dict)

    def segment(
        self,
        ops: Sequence[Computed],
        outputs: Sequence[Tensor],
        where: Mapping[Tensor, Buffer],
        ranges: Ranges,
    ) -> Segment:
        """Return the statements of ``ops`` that compute ``outputs``.

        ``where`` has the buffers of what they read, and ``ranges`` the ranges of the loops around.
        """
        computed = {t for op in ops for t in op.outputs}
        read = dict.fromkeys(t for op in ops for t in op.input_tensors if t not in computed)
        stands = {
            t: PlaceholderOp(where[t].name, t.shape, t.dtype).output() for t in read if t in where
        }
        copies = extract([*ops], {}, stands)
        results = [copies[t] for t in outputs]
        inputs = placeholders(results)
        state = schedule_for(results, self.target, self.compiler).state
        nest = lower_state(state, [*inputs, *variables(results), *results])
        given = {stand: where[t] for t, stand in stands.items()}
        new: dict[Buffer, Buffer] = {}
        made: dict[Tensor, Buffer] = {}
        behind = {r: t for r, t in zip(results, outputs)}
        for arg in nest.args:
            if not isinstance(arg, Buffer):
                continue
            assert arg.tensor is not None
            if arg.tensor in given:
                new[arg] = given[arg.tensor]
            else:
                tensor = behind[arg.tensor]
                new[arg] = made[tensor] = self.local(arg, tensor.name, ranges)
        for buffer in storage(nest.body):
            new[buffer] = self.local(buffer, buffer.name, ranges)
        body = with_buffers(nest.body, new)
        for name, texts in nest.remarks.items():
            own = (s for s, _ in walk(body) if isinstance(s, For) and s.stage == name)
            self.remarks.update((loop.axis, texts) for loop in islice(own, 1))
        allocs = tuple(Alloc(buffer) for buffer in made.values())
        return Segment((*allocs, *body.stmts), made)

    def local(self, buffer: Buffer, name: str, ranges: Ranges) -> Buffer:
        """Return storage like ``buffer``, as large as any iteration of a call needs it."""
        shape = []
        for extent in buffer.shape:
            if not isinstance(extent, int) and of_lengths(extent) is None:
                most = _most(to_lin(extent, ranges=ranges), ranges)
                if most is None:
                    raise NotInKernel(f"the size of {buffer.name} has no bound")
                extent = most
            shape.append(extent)
        return replace(buffer, name=self.names.fresh(name), shape=tuple(shape), tensor=None)


def _most(extent: Lin, ranges: Ranges) -> Extent | None:
    """Return the largest value of an extent, at least 0: a number, or one over lengths."""
    most = ranges.interval(extent)[1]
    if most is not None:
        return max(most, 0)
    bound: Lin | None = extent
    for index, (lo, hi) in reversed([*ranges.known.items()]):
        bound = None if bound is None else relax(bound, index, lo, hi, ranges, up=True)
    largest = None if bound is None else at_least_0(to_expr(bound))
    return largest if isinstance(largest, int) or of_lengths(largest) is not None else None
