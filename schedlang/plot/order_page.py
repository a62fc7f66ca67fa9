"""The iteration order as a piece of a page: canvases that play, with a slider."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence

import numpy as np

from schedlang.markup.text import escape
from schedlang.plot.borders import LINES, lines_of, runs, shares
from schedlang.plot.palette import TIMES
from schedlang.plot.sheet import as_rows, matplotlib
from schedlang.plot.touches import Touches

# pixels of the longer side of a canvas, and of one of several buffers
SIDE, SMALL = 300, 240
# frames of a page, and the bytes that the frames of one panel should take
MOST_FRAMES, FEWEST_FRAMES, FRAME_BYTES = 120, 24, 60_000
_STYLE = """
.schedlang-order { font: 14px/1.45 system-ui, sans-serif; }
.schedlang-order .panels { display: flex; flex-wrap: wrap; gap: 1.2em; margin-bottom: 1em; }
.schedlang-order .grid { position: relative; }
.schedlang-order .grid svg { position: absolute; inset: 0; width: 100%; height: 100%; }
.schedlang-order path { fill: none; stroke: #000; vector-effect: non-scaling-stroke; }
.schedlang-order .edge { stroke: #fff; }
.schedlang-order figure { margin: 0; } .schedlang-order canvas { image-rendering: pixelated;
  display: block; border: 1px solid #8a919c; background: #eceff3; }
.schedlang-order figcaption { max-width: 240px; } .schedlang-order small { opacity: .75; }
.schedlang-order .bar { display: flex; gap: .8em; align-items: center; margin: .7em 0; }
.schedlang-order input { flex: 1; max-width: 40em; } .schedlang-order p { max-width: 60em; }
"""
# plays every picture of a page that is not ready yet; a bit of `now` is an element touched now
_SCRIPT = """
(function () {
  function bytes(text) { return Uint8Array.from(atob(text), function (c) {
    return c.charCodeAt(0); }); }
  document.querySelectorAll(".schedlang-order:not([data-ready])").forEach(function (root) {
    root.dataset.ready = "yes";
    var data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    var colours = bytes(data.colours), slider = root.querySelector("input");
    var button = root.querySelector("button"), timer = null;
    var panels = data.panels.map(function (panel, k) {
      return {first: bytes(panel.first), colour: bytes(panel.colour), now: bytes(panel.now),
        rows: panel.rows, columns: panel.columns, steps: panel.steps,
        canvas: root.querySelectorAll("canvas")[k], label: root.querySelectorAll("small")[k]};
    });
    function show(frame) {
      panels.forEach(function (panel) {
        var count = panel.rows * panel.columns, wide = Math.ceil(count / 8);
        var context = panel.canvas.getContext("2d");
        var image = context.createImageData(panel.columns, panel.rows);
        for (var k = 0; k < count; k += 1) {
          var at = panel.first[k], lit = frame < data.frames &&
            (panel.now[frame * wide + (k >> 3)] >> (7 - (k & 7))) & 1;
          var colour = lit ? [213, 94, 0] : at > 0 && at - 1 <= frame ?
            colours.subarray(3 * panel.colour[k], 3 * panel.colour[k] + 3) : [236, 239, 243];
          image.data.set(colour, 4 * k); image.data[4 * k + 3] = 255;
        }
        context.putImageData(image, 0, 0);
        var step = Math.min(panel.steps, Math.ceil((frame + 1) * panel.steps / data.frames));
        panel.label.textContent = "step " + step.toLocaleString("en") + " of " +
          panel.steps.toLocaleString("en");
      });
    }
    function stop() { clearInterval(timer); timer = null; button.textContent = "Play"; }
    button.addEventListener("click", function () {
      if (timer) { stop(); return; }
      if (+slider.value >= data.frames) slider.value = 0;
      button.textContent = "Pause";
      timer = setInterval(function () {
        slider.value = +slider.value + 1; show(+slider.value);
        if (+slider.value >= data.frames) stop();
      }, 60);
    });
    slider.addEventListener("input", function () { stop(); show(+slider.value); });
    show(+slider.value);
  });
})();
"""


def order_page(
    rows: Sequence[Sequence[Touches]], caption: str, coloured: Callable[[Touches], tuple[int, int]]
) -> str:
    """Return the pictures as HTML that plays them together: a row for each schedule.

    ``coloured`` returns the steps with the first and the last colour.

    Each plays in its own time from its first to its last step. The schedules stand beside each
    other if there is one buffer.
    """
    every = [one for row in rows for one in row]
    largest = max(as_rows(one.first).size for one in every)
    frames = max(FEWEST_FRAMES, min(MOST_FRAMES, 8 * FRAME_BYTES // largest))
    data = {
        "frames": frames,
        "colours": _text(_colours()),
        "panels": [_panel(one, frames, *coloured(one)) for one in every],
    }
    lines = rows if len(rows[0]) > 1 else [every]
    side = SMALL if len(rows[0]) > 1 else SIDE
    panels = "".join(
        f'<div class="panels">{"".join(_figure(one, side) for one in line)}</div>' for line in lines
    )
    return (
        f'<style>{_STYLE}</style><div class="schedlang-order">'
        f'<div class="bar"><button type="button">Play</button><input type="range" min="0" '
        f'max="{frames}" value="{frames}" aria-label="the step"/></div>'
        f"{panels}<p>{escape(caption)} Red: touched now.</p>"
        # numbers and base64 alone: nothing in it ends the script
        f'<script type="application/json">{json.dumps(data)}</script></div>'
        f"<script>{_SCRIPT}</script>"
    )


def _figure(one: Touches, side: int) -> str:
    rows, columns = as_rows(one.first).shape
    scale = side / max(rows, columns)
    wide, high = max(1, round(columns * scale)), max(1, round(rows * scale))
    name = f"{one.title}: {one.buffer}"
    named: dict[int, list[str]] = {}
    paths = ""
    for level, number in reversed(lines_of(one)):
        named.setdefault(number, []).insert(0, level.loop)
        grid = as_rows(level.iteration)
        # a line takes at most a sixth of a tile
        width = min(LINES[number][0], side / max(rows, columns) / max(shares(grid)) / 6)
        path = "".join(f"M{at + 1} {a}V{b}" for at, a, b in runs(grid))
        path += "".join(f"M{a} {at + 1}H{b}" for at, a, b in runs(grid.T))
        paths += f'<path class="edge" stroke-width="{width + 0.8:.2g}" d="{path}"/>'
        paths += f'<path stroke-width="{width:.2g}" d="{path}"/>'
    lines = "".join(
        f"<br>{LINES[number][1]} line: {escape(', '.join(loops))}"
        for number, loops in sorted(named.items())
    )
    overlay = (
        f'<svg viewBox="0 0 {columns} {rows}" preserveAspectRatio="none" aria-hidden="true">'
        f"{paths}</svg>"
        if paths
        else ""
    )
    return (
        f'<figure><div class="grid" style="width:{wide}px;height:{high}px">'
        f'<canvas width="{columns}" height="{rows}" role="img" aria-label="iteration order of '
        f'{escape(name)}" style="width:100%;height:100%"></canvas>{overlay}</div>'
        f"<figcaption>{escape(name)}<br><small></small>{lines}</figcaption></figure>"
    )


def _panel(one: Touches, frames: int, low: int, high: int) -> dict[str, object]:
    first = as_rows(one.first)
    # 0 for an element that is never touched, else one more than the frame of its first touch
    frame_of = np.where(first < 0, 0, first * frames // max(one.steps, 1) + 1).astype(np.uint8)
    colour = (255 * np.clip(first - low, 0, high - low) // max(high - low, 1)).astype(np.uint8)
    now = np.stack([as_rows(part).ravel() for part in one.frames(frames)])
    return {
        "rows": first.shape[0], "columns": first.shape[1], "steps": one.steps,
        "first": _text(frame_of), "colour": _text(colour), "now": _text(np.packbits(now, axis=1)),
    }  # fmt: skip


def _colours() -> np.ndarray:
    matplotlib("a picture that plays")
    from matplotlib import colormaps

    colours = colormaps[TIMES](np.linspace(0, 1, 256))[:, :3]
    return (255 * colours).round().astype(np.uint8)


def _text(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")
