"""The registries of tactics, in the order in which their options are drawn."""

from __future__ import annotations

from schedlang.autotune.tactics.cpu import (
    blocked_product,
    blocked_reduction,
    elementwise,
    gram_product,
    parallel_reduction,
    ragged_rows,
    register_tile,
    scan_rows,
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
    warp_tile,
)
from schedlang.autotune.tactics.cuda import fused_tile as cuda_fused_tile
from schedlang.autotune.tactics.tactic import Registry
from schedlang.errors import BuildError, explain
from schedlang.target import Target
from schedlang.target_kinds import installed_object

CPU = Registry(
    "cpu",
    (
        register_tile.TACTIC,
        blocked_product.TACTIC,
        gram_product.TACTIC,
        blocked_reduction.TACTIC,
        vectorized_reduction.TACTIC,
        parallel_reduction.TACTIC,
        ragged_rows.TACTIC,
        elementwise.TACTIC,
        scan_rows.TACTIC,
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
        warp_tile.TACTIC,
    ),
    cuda_fused_tile.FUSION,
)
REGISTRIES = {registry.kind: registry for registry in (CPU, CUDA)}
# where packages name their registries
GROUP = "schedlang.tactics"


def registry_for(target: Target) -> Registry:
    """Return the tactics for a target, which its facts have or name.

    Raise :class:`~schedlang.errors.BuildError` if they name none, or something else.
    """
    given, asked = target.facts.tactics, f"the tactics of the target {str(target.kind)!r}"
    if not isinstance(given, str):
        return _checked(given, asked)
    if given in REGISTRIES:
        return REGISTRIES[given]
    entry = installed_object(GROUP, "tactics", given)
    if entry is None:
        names = " and ".join(map(repr, REGISTRIES))
        why = f"schedlang has {names}, and no installed package has {given!r}"
        fix = f"Install the package with the entry point {given} in {GROUP}."
        raise BuildError(explain(asked, why, fix))
    return _checked(*entry)


def _checked(registry: object, asked: str) -> Registry:
    if not isinstance(registry, Registry):
        why = f"tactics are a registry or the name of one, not {type(registry).__name__}"
        fix = "Give a schedlang.autotune.tactics.Registry, such as replace(CPU, tactics=(...))."
        raise BuildError(explain(asked, why, fix))
    return registry
