"""The table of primitives, by the names under which steps record them: the rows of all families."""

from __future__ import annotations

from collections.abc import Mapping

from schedlang.state.primitives import (
    annotate,
    argument_layout,
    dataflow,
    loops,
    placement,
    products,
    storage,
    tensorize,
)
from schedlang.state.primitives.primitive import Primitive

PRIMITIVES: Mapping[str, Primitive] = {
    **loops.PRIMITIVES,
    **annotate.PRIMITIVES,
    **tensorize.PRIMITIVES,
    **placement.PRIMITIVES,
    **storage.PRIMITIVES,
    **argument_layout.PRIMITIVES,
    **dataflow.PRIMITIVES,
    **products.PRIMITIVES,
}
