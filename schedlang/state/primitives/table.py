"""The table of primitives, by the names under which steps record them."""

from __future__ import annotations

from collections.abc import Callable

from schedlang.state.primitives import annotate, dataflow, loops, placement, storage
from schedlang.state.state import Result

PRIMITIVES: dict[str, Callable[..., Result]] = {
    "split": loops.split, "fuse": loops.fuse, "reorder": loops.reorder, "tile": loops.tile,
    "vectorize": annotate.vectorize, "unroll": annotate.unroll,
    "parallel": annotate.parallel, "bind": annotate.bind, "pragma": annotate.pragma,
    "prefetch": annotate.prefetch,
    "compute_at": placement.compute_at, "compute_inline": placement.compute_inline,
    "compute_root": placement.compute_root, "store_at": placement.store_at,
    "store_root": placement.store_root, "set_scope": storage.set_scope,
    "storage_align": storage.storage_align, "transform_layout": storage.transform_layout,
    "double_buffer": storage.double_buffer,
    "set_store_predicate": storage.set_store_predicate, "cache_read": dataflow.cache_read,
    "cache_write": dataflow.cache_write, "rfactor": dataflow.rfactor,
}  # fmt: skip
# those that take the whole schedule, not a stage of it
ON_SCHEDULE = ("cache_read",)
