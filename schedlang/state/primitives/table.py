"""The table of primitives, by the names under which steps record them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schedlang.state.primitives import annotate, dataflow, loops, placement, storage
from schedlang.state.state import Result


@dataclass(frozen=True)
class Primitive:
    """A primitive and what the recording, the printing and the checks of its calls need.

    ``apply`` is the function of a state. ``keywords`` are the arguments that a call names. A step
    that ``keeps_loops`` cannot make an earlier request for a cut impossible. ``makes_tensors`` says
    that the step adds a stage, and ``on_schedule`` that it takes the whole schedule, not a stage.
    """

    apply: Callable[..., Result]
    keywords: tuple[str, ...] = ()
    keeps_loops: bool = False
    makes_tensors: bool = False
    on_schedule: bool = False

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The arguments that a call may leave out, with their values."""
        parameters = inspect.signature(self.apply).parameters.values()
        return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The arguments of a step that have no default."""
        own = () if self.on_schedule else ("stage",)
        parameters = inspect.signature(self.apply).parameters.values()
        return tuple(
            p.name for p in parameters
            if p.default is inspect.Parameter.empty and p.name not in ("state", *own)
        )  # fmt: skip


PRIMITIVES: dict[str, Primitive] = {
    "split": Primitive(loops.split, ("factor", "nparts", "tail")),
    "fuse": Primitive(loops.fuse),
    "reorder": Primitive(loops.reorder),
    "tile": Primitive(loops.tile, ("tail",)),
    "vectorize": Primitive(annotate.vectorize),
    "unroll": Primitive(annotate.unroll),
    "parallel": Primitive(annotate.parallel),
    "bind": Primitive(annotate.bind),
    "pragma": Primitive(annotate.pragma, keeps_loops=True),
    "prefetch": Primitive(annotate.prefetch, ("at",), keeps_loops=True),
    # a placement may come before those of the other stages that a cut needs
    "compute_at": Primitive(placement.compute_at, keeps_loops=True),
    "compute_inline": Primitive(placement.compute_inline, keeps_loops=True),
    "compute_root": Primitive(placement.compute_root, keeps_loops=True),
    "store_at": Primitive(placement.store_at),
    "store_root": Primitive(placement.store_root),
    "set_scope": Primitive(storage.set_scope, keeps_loops=True),
    "storage_align": Primitive(storage.storage_align, keeps_loops=True),
    "transform_layout": Primitive(storage.transform_layout, keeps_loops=True),
    "double_buffer": Primitive(storage.double_buffer, keeps_loops=True),
    "set_store_predicate": Primitive(storage.set_store_predicate, keeps_loops=True),
    "cache_read": Primitive(
        dataflow.cache_read, keeps_loops=True, makes_tensors=True, on_schedule=True
    ),
    "cache_write": Primitive(dataflow.cache_write, keeps_loops=True, makes_tensors=True),
    "rfactor": Primitive(
        dataflow.rfactor, ("factor_axis",), keeps_loops=True, makes_tensors=True
    ),
}
