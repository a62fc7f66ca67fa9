"""``partition``: the parts of a network, with what they compute and what they pass on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlang.errors import ComputeTypeError, PlotError, explain, text_of
from schedlang.markup.sizes import bytes_text
from schedlang.plot.palette import EMPTY, ORANGE, SKY
from schedlang.plot.picture import Picture
from schedlang.plot.stages_picture import StageBox, draw_graph, layered_boxes
from schedlang.signatures import public

if TYPE_CHECKING:
    from schedlang.networks.partition import Part, Partition

# the most parts of a picture
MOST_PARTS = 120
COLOURS = {"product": SKY, "reduction": ORANGE, "scan": "#8fd3bf", "scatter": "#e9c3d8",
           "elementwise": "#f5efa6", "copy": EMPTY, "extern": "#c9b8e8"}  # fmt: skip
_WORDS = {"product": "blue are convolutions and products", "reduction": "orange reductions",
          "scan": "green scans", "scatter": "pink scatters", "elementwise": "yellow other stages",
          "copy": "grey stages that only move elements",
          "extern": "violet functions of yours"}  # fmt: skip


@public
def partition(parts: Partition) -> Picture:
    """Return a picture of a partition; a part stands below all that it reads.

    A box has the name of a part, the shape of its result, its operations and the number of its
    stages; its colour shows its kind. Arrows have the bytes of the results that are passed on.
    Thick frames are outputs. ``data`` is a list of :class:`StageBox`.

    Raise :class:`~schedlang.errors.PlotError` for more than 120 parts, and
    :class:`~schedlang.errors.ComputeTypeError` for anything but a partition.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> from schedlang.networks.partition import partition as parts_of
    >>> X, W = sl.placeholder((4, 8), name="X"), sl.placeholder((8, 8), name="W")
    >>> picture = partition(parts_of(topi.nn.softmax(topi.nn.relu(topi.nn.dense(X, W)))))
    >>> [(box.name, box.lines, box.layer) for box in picture.data][0]
    ('dense', ('float32[4, 8]', '544 FLOP', '2 stages'), 0)
    """
    # other pictures do not need the packages behind it
    from schedlang.networks.partition import Partition

    if not isinstance(parts, Partition):
        raise ComputeTypeError(
            f"sl.plot.partition({text_of(parts)}): give a partition, such as net.partition"
        )
    if not 0 < len(parts) <= MOST_PARTS:
        raise PlotError(
            explain(
                "partition(...)",
                f"the network has {len(parts)} parts, and a picture 1 to {MOST_PARTS}",
                "Print it, or look at its graph(), which networkx can cut.",
            )
        )
    graph = parts.graph()
    boxes = layered_boxes(graph, lambda name, x, layer: _box(parts, parts[name], x, layer))
    kinds = [_WORDS[kind] for kind in COLOURS if any(part.kind == kind for part in parts)]
    title = f"Parts of {', '.join(t.name for t in parts.outputs)}"
    caption = (
        "Each box is one kernel. Arrows go from producer to consumer, with the bytes that are "
        f"passed on. {'; '.join(kinds).capitalize()}. Thick frames are outputs."
    )
    return Picture(title, caption, boxes, lambda: draw_graph(graph, boxes, title, caption, COLOURS))


def _box(parts: Partition, part: Part, x: float, layer: int) -> StageBox:
    shapes = [f"{t.dtype}[{', '.join(map(str, t.shape))}]" for t in part.writes]
    more = f", and {len(shapes) - 1} more" if len(shapes) > 1 else ""
    count = len(part.stages)
    lines = (shapes[0] + more, _work(part), f"{count} stage{'s' * (count != 1)}")
    output = any(t in parts.outputs for t in part.writes)
    return StageBox(part.name, lines, part.kind, output, x, layer)


def _work(part: Part) -> str:
    """Return the operations of a part; of one without any, the bytes that it moves."""
    if part.unknown:
        return ", ".join(part.unknown)
    for scale, unit in ((1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP")):
        if part.flops >= scale:
            return f"{part.flops / scale:.3g} {unit}"
    if part.flops:
        return f"{part.flops} FLOP"
    return f"moves {bytes_text(part.read_bytes + part.written_bytes)}"
