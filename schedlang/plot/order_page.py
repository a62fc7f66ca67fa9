"""The iteration order as a piece of a page: canvases that play, with a slider."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence

import numpy as np

from schedlang.markup.text import escape
from schedlang.plot.touches import Touches

# pixels of the longer side of a canvas
SIDE = 300
# frames of a page, and the bytes that those of one panel should take
MOST_FRAMES, FEWEST_FRAMES, FRAME_BYTES = 120, 24, 60_000
_STYLE = """
.schedlang-order { font: 14px/1.45 system-ui, sans-serif; }
.schedlang-order .panels { display: flex; flex-wrap: wrap; gap: 1.2em; }
.schedlang-order figure { margin: 0; } .schedlang-order canvas { image-rendering: pixelated;
  display: block; border: 1px solid #8a919c; background: #eceff3; }
.schedlang-order figcaption { max-width: 300px; } .schedlang-order small { opacity: .75; }
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
    found: Sequence[Touches], title: str, caption: str,
    cropped: Callable[[Touches, np.ndarray], np.ndarray],
) -> str:  # fmt: skip
    """Return the pictures of ``found`` as HTML that plays them together.

    Each plays in its own time from its first to its last step. ``cropped`` returns the part of
    values that is drawn, as rows.
    """
    largest = max(cropped(one, one.first).size for one in found)
    frames = max(FEWEST_FRAMES, min(MOST_FRAMES, 8 * FRAME_BYTES // largest))
    panels = [_panel(one, frames, cropped) for one in found]
    data = {"frames": frames, "colours": _text(_colours()), "panels": panels}
    shown = "".join(
        _figure(one, panel["rows"], panel["columns"]) for one, panel in zip(found, panels)
    )
    return (
        f'<style>{_STYLE}</style><div class="schedlang-order"><b>{escape(title)}</b>'
        f'<div class="bar"><button type="button">Play</button><input type="range" min="0" '
        f'max="{frames}" value="{frames}" aria-label="the step"></div>'
        f'<div class="panels">{shown}</div><p>{escape(caption)} Red: touched now.</p>'
        # numbers and base64 alone: nothing in it ends the script
        f'<script type="application/json">{json.dumps(data)}</script></div>'
        f"<script>{_SCRIPT}</script>"
    )


def _figure(one: Touches, rows: int, columns: int) -> str:
    scale = SIDE / max(rows, columns)
    wide, high = max(1, round(columns * scale)), max(1, round(rows * scale))
    name = f"{one.title}: {one.buffer}"
    return (
        f'<figure><canvas width="{columns}" height="{rows}" role="img" '
        f'aria-label="iteration order of {escape(name)}" style="width:{wide}px;height:{high}px">'
        f"</canvas><figcaption>{escape(name)}<br><small></small></figcaption></figure>"
    )


def _panel(
    one: Touches, frames: int, cropped: Callable[[Touches, np.ndarray], np.ndarray]
) -> dict[str, object]:
    first = cropped(one, one.first)
    low, high = int(first[first >= 0].min(initial=one.steps)), int(first.max(initial=0))
    # 0 for an element that is never touched, else one more than the frame of its first touch
    frame_of = np.where(first < 0, 0, first * frames // max(one.steps, 1) + 1).astype(np.uint8)
    colour = (255 * np.clip(first - low, 0, None) // max(high - low, 1)).astype(np.uint8)
    now = np.stack([cropped(one, part).ravel() for part in one.frames(frames)])
    return {
        "rows": first.shape[0], "columns": first.shape[1], "steps": one.steps,
        "first": _text(frame_of), "colour": _text(colour), "now": _text(np.packbits(now, axis=1)),
    }  # fmt: skip


def _colours() -> np.ndarray:
    from matplotlib import colormaps

    from schedlang.plot.palette import TIMES

    shown = colormaps[TIMES](np.linspace(0, 1, 256))[:, :3]
    return (255 * shown).round().astype(np.uint8)


def _text(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")


__all__ = ["order_page"]
