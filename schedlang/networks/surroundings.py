"""The caches and threads of a CPU when a kernel of a network starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from schedlang.autotune.model.parallel_loops import worth_threads
from schedlang.compute.tensor import PlaceholderOp, Tensor
from schedlang.expr.dtypes import itemsize
from schedlang.networks.partition import Part
from schedlang.target import Target


@dataclass(frozen=True)
class Surroundings:
    """The state of caches and threads when a kernel of a network starts.

    If ``streams``, weights come from memory in each call, as the caches do not hold all of them. If
    ``team``, other threads wait for work, as the network is long enough to start them.
    """

    streams: bool = False
    team: bool = False

    def cold(self, part: Part) -> tuple[str, ...]:
        """Return the names of the inputs of a part that come from memory in each call."""
        return tuple(_weights(part)) if self.streams else ()


def surroundings(parts: Sequence[Part], target: Target) -> Surroundings:
    """Return the state of caches and threads in which kernels of a network of ``parts`` start.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> from schedlang.networks.partition import partition
    >>> from schedlang.host import USUAL_CACHES
    >>> X, W = sl.placeholder((4, 4096), name="X"), sl.placeholder((4096, 4096), name="W")
    >>> parts = partition(topi.nn.dense(X, W)).parts
    >>> found = surroundings(parts, sl.Target("cpu", caches=USUAL_CACHES))
    >>> found, found.cold(parts[0])
    (Surroundings(streams=True, team=True), ('X', 'W'))
    """
    if not target.facts.host_arrays:
        return Surroundings()
    weights = {tensor for part in parts for tensor in _weights(part).values()}
    held = sum(itemsize(t.dtype) * prod(int(n) for n in t.shape) for t in weights)
    moved = sum(part.read_bytes + part.written_bytes for part in parts)
    team = worth_threads(sum(part.flops for part in parts), moved)
    return Surroundings(held > target.caches[-1].size, team)


def _weights(part: Part) -> dict[str, Tensor]:
    """Return the placeholders of fixed sizes that a part reads, by their names in its group."""
    return {
        own.name: tensor
        for own, tensor in zip(part.group.inputs, part.reads)
        if isinstance(tensor.op, PlaceholderOp) and all(isinstance(n, int) for n in tensor.shape)
    }
