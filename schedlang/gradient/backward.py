"""The walk from the result of a computation back to its inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from schedlang.compute.read import reads
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from schedlang.expr.nodes import Axis, Var
from schedlang.gradient.adjoint import Adjoint
from schedlang.gradient.derivative import TRACED, Traced
from schedlang.gradient.gather import gather
from schedlang.gradient.site import Site, is_injective, through
from schedlang.gradient.stage_sites import Found, Head, Walk, sites

# the most reads of copies through which a stage is differentiated, in place of the copy
_MOST_COPIES = 16

SitesOf = Callable[[Walk, Operation, Sequence[Head]], Found]


class Backward:
    """The adjoints of tensors, from what flows back to them; consumers come before producers.

    ``kept`` are tensors whose adjoint is asked for. ``sites_of`` returns what flows back from the
    outputs of an operation to what it reads.
    """

    def __init__(
        self,
        walk: Walk,
        seeds: Mapping[Tensor, Adjoint],
        sites_of: SitesOf,
        kept: Collection[Tensor] = (),
    ) -> None:
        self.walk = walk
        self.kept = kept
        self._sites_of = sites_of
        self._seeds = seeds
        self._adjoints: dict[Tensor, Head] = {}
        self._found: dict[Tensor, list[Site]] = {}
        self._traced: set[Tensor] = set()

    def run(self, order: Sequence[Operation]) -> None:
        """Go back through ``order``, where producers come before their consumers."""
        for op in reversed(order):
            if isinstance(op, PlaceholderOp):
                continue
            if self._pass_through(op):
                continue
            heads = [self.adjoint(tensor) for tensor in op.outputs]
            if any(head is not None for head in heads):
                self.add(self._sites_of(self.walk, op, heads))

    def add(self, sites: Found) -> None:
        """Note reads, each with its site, except reads of tensors that need no adjoint."""
        for tensor, site in sites:
            if isinstance(site, Traced):
                self._traced.add(tensor)
            else:
                self._found.setdefault(tensor, []).append(site)

    def sites(self, tensor: Tensor) -> list[Site]:
        """Return the sites of a tensor that are known so far."""
        return self._found.get(tensor, [])

    def sources(self) -> list[Tensor]:
        """Return the tensors to which something flows back."""
        return [*self._found, *(t for t in self._traced if t not in self._found)]

    def adjoint(self, tensor: Tensor) -> Head:
        """Return the adjoint of a tensor whose readers have all been visited."""
        if tensor not in self._adjoints:
            sites = self._found.get(tensor, [])
            head: Head = TRACED if tensor in self._traced else None
            seed = self._seeds.get(tensor)
            if sites:
                own = [] if seed is None else [_seed_site(self.walk, tensor, seed)]
                # with batch axes, the last stage of a gradient puts these first
                name = f"{tensor.name}_{'adjoint' if self.walk.batch else 'grad'}"
                head = gather(self.walk, tensor, [*own, *sites], name)
            self._adjoints[tensor] = head if seed is None or sites else seed
        return self._adjoints[tensor]

    def _pass_through(self, op: Operation) -> bool:
        """Move the sites of a copy to what it reads, if it needs no gradient of its own."""
        if not isinstance(op, ComputeOp) or op.reducer is not None or len(op.outputs) > 1:
            return False
        (tensor,) = op.outputs
        if tensor in self.kept or tensor in self._seeds or tensor in self._traced:
            return False
        readers = self.sites(tensor)
        copies = copy_reads(self.walk, op) if readers else None
        if not copies or len(copies) * len(readers) > _MOST_COPIES:
            return False
        axes = (*op.axis, *self.walk.batch)
        for source, copy in copies:
            for site in readers:
                self.add([(source, through(site, axes, copy))])
        del self._found[tensor]
        self._adjoints[tensor] = None
        return True


def _seed_site(walk: Walk, tensor: Tensor, seed: Adjoint) -> Site:
    """Return the site of a seed, which adds to each element what flows back to it from outside."""
    names = [axis.name for axis in getattr(tensor.op, "axis", ())]
    names = names if len(names) == tensor.ndim else [f"i{k}" for k in range(tensor.ndim)]
    axes = (*(Axis(name, n) for name, n in zip(names, tensor.shape)), *walk.batch)
    return Site(tensor.name, tensor.name, axes, axes, (), seed.at(axes))


def copy_reads(walk: Walk, op: ComputeOp) -> list[tuple[Tensor, Site]] | None:
    """Return the reads of a stage that copies elements, each at one place; else ``None``.

    Padding, slicing, transposing, reshaping and joining are such copies.
    """
    marker = Var("adjoint", op.outputs[0].dtype, weak=False)
    reads_of_sources = []
    for source, site in sites(walk, op, [(op.body[0], marker)], (), (), ()):
        if isinstance(site, Traced) or site.value is not marker:
            return None
        on_data = any(True for _ in reads([*site.held, *site.indices]))
        if on_data or not is_injective(site):
            return None
        reads_of_sources.append((source, site))
    return reads_of_sources
