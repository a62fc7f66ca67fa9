"""The registries of tactics. The order of tactics is that of the options that are drawn."""

from __future__ import annotations

from schedlang.autotune.tactics.cpu import (
    blocked_reduction,
    elementwise,
    parallel_reduction,
    ragged_rows,
    register_tile,
    scatter_copies,
    scatter_updates,
    vectorized_reduction,
)
from schedlang.autotune.tactics.cpu import fused_tile as cpu_fused_tile
from schedlang.autotune.tactics.cuda import (
    atomics,
    block_tile,
    cross_thread,
    elements,
    split_reduction,
    thread_reduction,
)
from schedlang.autotune.tactics.cuda import fused_tile as cuda_fused_tile
from schedlang.autotune.tactics.tactic import Registry
from schedlang.target import Target

CPU = Registry(
    "cpu",
    (
        register_tile.TACTIC,
        blocked_reduction.TACTIC,
        vectorized_reduction.TACTIC,
        parallel_reduction.TACTIC,
        ragged_rows.TACTIC,
        elementwise.TACTIC,
        scatter_copies.TACTIC,
        scatter_updates.TACTIC,
    ),
    cpu_fused_tile.FUSION,
)
CUDA = Registry(
    "cuda",
    (
        block_tile.TACTIC,
        cross_thread.TACTIC,
        thread_reduction.TACTIC,
        split_reduction.TACTIC,
        elements.TACTIC,
        atomics.TACTIC,
    ),
    cuda_fused_tile.FUSION,
)
REGISTRIES = {registry.kind: registry for registry in (CPU, CUDA)}


def registry_for(target: Target) -> Registry:
    """Return the tactics for a target."""
    return REGISTRIES[target.facts.tactics]
