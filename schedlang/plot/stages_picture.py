"""``stages``: the graph of stages, with shapes, bytes, and where each is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.analysis.graph import graph
from schedlang.analysis.subject import subject_of
from schedlang.errors import PlotError, explain
from schedlang.lowering.lower import lower_state
from schedlang.markup.sizes import bytes_text
from schedlang.plot.palette import BLACK, EMPTY, ORANGE, SKY, SOFT
from schedlang.plot.picture import Picture
from schedlang.plot.sheet import WIDTH, sheet
from schedlang.signatures import public

# the most stages of a picture, and boxes beside each other
MOST_STAGES, MOST_WIDE = 40, 6
# inches of a layer, and the largest size of a box
LAYER, BOX_WIDE, BOX_HIGH = 0.98, 1.75, 0.62
COLOURS = {"input": EMPTY, "root": SKY, "at": ORANGE, "inline": "#f6d8e8", "": SKY}


@dataclass(frozen=True)
class StageBox:
    """A stage in a picture of a graph: its text, and its place from left to right and down."""

    name: str
    lines: tuple[str, ...]
    computed: str
    output: bool
    x: float
    layer: int


@public
def stages(what: Any) -> Picture:
    """Return a picture of the stage graph, edges from producer to consumer.

    ``what`` is a schedule, a tensor or a kernel. A box has the name, shape, dtype and bytes of a
    stage. For a schedule it also says where the stage is computed, which its colour shows, its
    scope, and how many bytes are stored at a time. Edges have the bytes of the elements that are
    read. ``data`` is a list of :class:`StageBox`.

    Raise :class:`~schedlang.errors.PlotError` for a graph of more than 40 stages.

    >>> import schedlang as sl
    >>> A = sl.placeholder((8, 8), name="A")
    >>> B = sl.compute((8, 8), lambda i, j: A[i, j] * 2, name="B")
    >>> C = sl.compute((8, 8), lambda i, j: B[i, j] + 1, name="C")
    >>> s = sl.schedule(C)
    >>> s[B].compute_at(s[C], C.op.axis[0])
    >>> [(box.name, box.lines[-1], box.layer) for box in sl.plot.stages(s).data]
    [('A', 'input', 0), ('B', 'at i of C', 1), ('C', 'root', 2)]
    """
    stage_graph = graph(what)
    if len(stage_graph.nodes) > MOST_STAGES:
        raise PlotError(
            explain(
                "stages(...)",
                f"the graph has {len(stage_graph.nodes)} stages, and a picture {MOST_STAGES}",
                "Draw one of its outputs, or look at sl.graph(...), which networkx can cut.",
            )
        )
    boxes = _boxes(stage_graph, _stored(what))
    title = f"Stages of {', '.join(stage_graph.graph['outputs'])}"
    caption = _caption(boxes)
    return Picture(title, caption, boxes, lambda: draw_graph(stage_graph, boxes, title, caption))


def _caption(boxes: Sequence[StageBox]) -> str:
    text = "Arrows go from producer to consumer, with the bytes that are read. "
    if any(box.computed not in ("", "input") for box in boxes):
        kinds = {
            "root": "blue is computed whole (root)",
            "at": "orange at a loop of its consumer, which stores a part at a time",
            "inline": "pink is inlined: computed where it is read, and not stored",
            "input": "grey is an input",
        }
        said = [kinds[kind] for kind in kinds if any(box.computed == kind for box in boxes)]
        text += f"{'; '.join(said)}. ".capitalize()
    return text + "Thick frames are outputs."


def _stored(what: Any) -> dict[Any, str]:
    """Return the bytes that each tensor of a schedule has in its nest, as text."""
    state = subject_of(what, "stages").state
    if state is None:
        return {}
    nest = lower_state(state, strict=False)
    return {b.tensor: bytes_text(b.bytes) for b in nest.buffers if b.bytes is not None}


def _boxes(graph: Any, stored: Mapping[Any, str]) -> list[StageBox]:
    return layered_boxes(graph, lambda name, x, k: _box(graph.nodes[name], name, stored, x, k))


def layered_boxes(stage_graph: Any, box: Callable[[str, float, int], StageBox]) -> list[StageBox]:
    """Return the boxes of a graph in layers: a node stands below all that it reads.

    ``box`` makes the box of a node at a place from left (0) to right (1) in a layer.
    """
    import networkx as nx

    layers = [list(layer) for layer in nx.topological_generations(stage_graph)]
    # inputs stand right above their first reader
    level = {name: k for k, layer in enumerate(layers) for name in layer}
    for name in layers[0] if layers else []:
        below = [level[reader] for reader in stage_graph.successors(name)]
        level[name] = max(0, min(below, default=1) - 1)
    rows: dict[int, list[str]] = {}
    for name in stage_graph.nodes:
        rows.setdefault(level[name], []).append(name)
    boxes: dict[str, StageBox] = {}
    for number, layer in sorted(rows.items()):
        # below the middle of what it reads
        def middle(name: str) -> float:
            above = [
                boxes[source].x for source in stage_graph.predecessors(name) if source in boxes
            ]
            return sum(above) / len(above) if above else 0.5

        ordered = sorted(layer, key=lambda name: (middle(name), layer.index(name)))
        for k, name in enumerate(ordered):
            boxes[name] = box(name, (k + 0.5) / len(ordered), number)
    return [boxes[name] for name in stage_graph.nodes]


def _box(node: Any, name: str, stored: Mapping[Any, str], x: float, layer: int) -> StageBox:
    shape = ", ".join(map(str, node["shape"]))
    size = bytes_text(node["bytes"]) if isinstance(node["bytes"], int) else f"{node['bytes']} B"
    scope = f", {node['scope']}" if node.get("scope") not in (None, "", "global") else ""
    lines = [f"{node['dtype']}[{shape}]", f"{size}{scope}"]
    computed = node.get("computed", "input" if node["kind"] == "placeholder" else "")
    if computed == "at":
        stage, axis = node["at"]
        stored_size = stored.get(node["tensor"], size)
        lines[-1] = f"{stored_size} of {size}{scope}"
        lines.append(f"at {axis} of {stage}")
    elif computed:
        lines.append(computed)
    return StageBox(name, tuple(lines), computed, bool(node["output"]), x, layer)


def draw_graph(
    stage_graph: Any,
    boxes: Sequence[StageBox],
    title: str,
    caption: str,
    colours: Mapping[str, str] = COLOURS,
) -> Any:
    """Return the figure of a graph whose edges have ``bytes``; what boxes are has a colour."""
    from matplotlib.patches import FancyBboxPatch

    layers = max(box.layer for box in boxes) + 1
    widest = max(sum(box.layer == k for box in boxes) for k in range(layers))
    figure = sheet(LAYER * layers + 0.1, title, caption)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(LAYER * layers, 0)
    wide = min(BOX_WIDE, WIDTH / widest - 0.15)
    small = 7 if widest <= MOST_WIDE else 5.5
    place = {box.name: (box.x * WIDTH, (box.layer + 0.45) * LAYER) for box in boxes}
    for source, reader, data in stage_graph.edges(data=True):
        _arrow(axes, place[source], place[reader], data, place, wide)
    for box in boxes:
        x, y = place[box.name]
        axes.add_patch(
            FancyBboxPatch(
                (x - wide / 2, y - BOX_HIGH / 2),
                wide,
                BOX_HIGH,
                boxstyle="round,pad=0,rounding_size=0.08",
                facecolor=colours[box.computed],
                edgecolor=BLACK if box.output else SOFT,
                linewidth=1.8 if box.output else 0.8,
                zorder=3,
            )
        )
        most = int(wide * 15 * 7 / small)
        axes.text(
            x,
            y - 0.2,
            _short(box.name, most * 6 // 7),
            ha="center",
            va="center",
            fontsize=small + 1.5,
            fontweight="bold",
            zorder=4,
        )
        for k, line in enumerate(box.lines):
            short = _short(line, most)
            axes.text(
                x, y - 0.045 + 0.125 * k, short, ha="center", va="center", fontsize=small, zorder=4
            )
    return figure


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 2]}.."


def _arrow(
    axes: Any,
    start: tuple[float, float],
    end: tuple[float, float],
    data: Any,
    place: dict[str, tuple[float, float]],
    wide: float,
) -> None:
    from matplotlib.patches import FancyArrowPatch

    (x, y), (u, v) = start, end
    # an arrow past other boxes bends around them
    crossed = [
        a
        for a, b in place.values()
        if y < b < v and abs(a - (x + (u - x) * (b - y) / (v - y))) < wide / 2 + 0.1
    ]
    bend = 0.0
    if crossed:
        side = 1 if crossed[0] <= x + 0.01 or crossed[0] > WIDTH / 2 else -1
        # the middle of the arc is half its bend away from the straight line, in lengths of it
        length = math.hypot(u - x, v - y - BOX_HIGH)
        bend = -side * min(1.7, (wide + 0.5) / length)
    axes.add_patch(
        FancyArrowPatch(
            (x, y + BOX_HIGH / 2),
            (u, v - BOX_HIGH / 2),
            arrowstyle="-|>",
            mutation_scale=9,
            color=SOFT,
            linewidth=0.9,
            connectionstyle=f"arc3,rad={bend}",
            zorder=2,
            shrinkA=0,
            shrinkB=0,
        )
    )
    moved = data["bytes"]
    if isinstance(moved, int) and moved:
        tall = v - y - BOX_HIGH
        at = 0.5
        cx = x + (u - x) * at - bend * (v - y - BOX_HIGH) / 2
        cy = y + BOX_HIGH / 2 + tall * at + bend * (u - x) / 2
        around = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axes.text(
            cx,
            cy,
            bytes_text(moved),
            fontsize=6.5,
            color=SOFT,
            ha="center",
            va="center",
            zorder=5,
            bbox=around,
        )
