"""Placements as a piece of a page: producer above, consumer below, played side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.ir.printer import bytes_text
from schedlang.markup.text import escape
from schedlang.plot.palette import BLACK, EMPTY, GREEN, LINE, ORANGE, RED, SKY
from schedlang.plot.sheet import as_rows
from schedlang.plot.stored_elements import Placed

# pixels of a panel, and of the largest cell
SIDE, CELL = 210, 26
# milliseconds of a step, and dots of an inch of a .gif
PACE, GIF_DOTS = 450, 90
_STYLE = """
.schedlang-placement { font: 14px/1.45 system-ui, sans-serif; }
.schedlang-placement .panels { display: flex; flex-wrap: wrap; gap: 1em 1.4em; }
.schedlang-placement figure { margin: 0; width: SIDEpx; }
.schedlang-placement svg { display: block; margin: .2em 0 .6em; }
.schedlang-placement strong { display: block; min-height: 4.4em; }
.schedlang-placement rect { fill: EMPTY; stroke: LINE; stroke-width: 1; }
.schedlang-placement .k0 { fill: EMPTY; } .schedlang-placement .k1 { fill: SKY; }
.schedlang-placement .k2 { fill: ORANGE; } .schedlang-placement .k3 { fill: RED; }
.schedlang-placement .stored { stroke: GREEN; stroke-width: 3; }
.schedlang-placement circle { fill: BLACK; visibility: hidden; }
.schedlang-placement .read { visibility: visible; }
.schedlang-placement .bar { display: flex; gap: .8em; align-items: center; margin: .7em 0; }
.schedlang-placement input { flex: 1; max-width: 30em; }
.schedlang-placement p { max-width: 60em; }
.schedlang-placement .key span { display: inline-block; width: .9em; height: .9em;
  vertical-align: -.1em; margin: 0 .35em 0 .9em; }
"""
for _name, _value in {
    "SIDE": str(SIDE), "LINE": LINE, "EMPTY": EMPTY, "SKY": SKY, "ORANGE": ORANGE, "RED": RED,
    "GREEN": GREEN, "BLACK": BLACK,
}.items():  # fmt: skip
    _STYLE = _STYLE.replace(_name, _value)
# plays every picture of a page that is not ready yet; a frame has a digit for each cell
_SCRIPT = """
(function () {
  document.querySelectorAll(".schedlang-placement:not([data-ready])").forEach(function (root) {
    root.dataset.ready = "yes";
    var data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    var slider = root.querySelector("input"), button = root.querySelector("button"), timer = null;
    var panels = [...root.querySelectorAll("figure")];
    function paint(svg, kinds, stored, read) {
      var cells = svg.querySelectorAll("rect"), dots = svg.querySelectorAll("circle");
      for (var k = 0; k < cells.length; k += 1) {
        cells[k].setAttribute("class", "k" + kinds[k] + (stored[k] === "1" ? " stored" : ""));
        dots[k].setAttribute("class", read[k] === "1" ? "read" : "");
      }
      // frames of storage stand in front of their neighbours
      svg.querySelectorAll(".stored").forEach(function (cell) { cell.parentNode.append(cell); });
    }
    var orders = panels.map(function (panel) {
      return [...panel.querySelectorAll("svg")].map(function (svg) {
        return [...svg.querySelectorAll("rect")];
      });
    });
    function show(step) {
      panels.forEach(function (panel, n) {
        var frames = data.panels[n], frame = frames[Math.min(step, frames.length - 1)];
        panel.querySelectorAll("svg").forEach(function (svg, k) {
          orders[n][k].forEach(function (cell) { cell.parentNode.append(cell); });
          paint(svg, frame[3 * k], frame[3 * k + 1], frame[3 * k + 2]);
        });
        panel.querySelector("small").textContent = frame[6];
      });
    }
    function stop() { clearInterval(timer); timer = null; button.textContent = "Play"; }
    button.addEventListener("click", function () {
      if (timer) { stop(); return; }
      if (+slider.value >= +slider.max) slider.value = 0;
      show(+slider.value);
      button.textContent = "Pause";
      timer = setInterval(function () {
        slider.value = +slider.value + 1; show(+slider.value);
        if (+slider.value >= +slider.max) stop();
      }, PACE);
    });
    slider.addEventListener("input", function () { stop(); show(+slider.value); });
    show(+slider.value);
  });
})();
""".replace("PACE", str(PACE))
_KEY = (
    (SKY, "computed earlier"), (ORANGE, "computed in this iteration"), (RED, "computed again"),
    (GREEN, "green frame: stored"), (BLACK, "dot: read, and computed, by this step"),
)  # fmt: skip


def kinds_of(earlier: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return 1 for what was computed earlier, 2 for now, 3 for again, and 0 for the rest."""
    kinds = np.zeros(now.shape, int)
    kinds[earlier > 0] = 1
    kinds[now > 0] = 2
    kinds[(now > 1) | ((now > 0) & (earlier > 0))] = 3
    return kinds


@dataclass(frozen=True, eq=False)
class PlacementMovie:
    """The steps of the consumer under each schedule; ``drawn`` draws one step of all."""

    steps: Sequence[Sequence[Placed]]
    drawn: Callable[[Sequence[Placed]], Any]

    def gif(self, path: Path) -> None:
        """Write a picture of each step, drawn by ``drawn``."""
        from PIL import Image

        frames = []
        for number in range(max(map(len, self.steps))):
            image = BytesIO()
            moments = [steps[min(number, len(steps) - 1)] for steps in self.steps]
            self.drawn(moments).savefig(image, format="png", dpi=GIF_DOTS)
            frames.append(Image.open(image).convert("RGB"))
        # one palette, so that a frame stores only what changed
        palette = frames[-1].quantize(64)
        flat = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
        flat[0].save(path, save_all=True, append_images=flat[1:], duration=PACE, loop=0)

    def html(self) -> str:
        """Return a piece of a page, which plays all schedules together, step by step."""
        last = max(map(len, self.steps)) - 1
        key = "".join(f'<span style="background:{c}"></span>{escape(text)}' for c, text in _KEY)
        panels = "".join(_figure(steps[0]) for steps in self.steps)
        data = {"panels": [_frames(steps) for steps in self.steps]}
        first = self.steps[0][0]
        what = escape(f"{first.producer} above, {first.consumer} below, at each step")
        # text inside of a script must not end it
        encoded = json.dumps(data).replace("<", "\\u003c")
        return (
            f'<style>{_STYLE}</style><div class="schedlang-placement">'
            f'<div class="bar"><button type="button">Play</button><input type="range" min="0" '
            f'max="{last}" value="{last // 2}" aria-label="the step"/></div>'
            f'<div class="panels">{panels}</div><p class="key">{what}.{key}</p>'
            f'<script type="application/json">{encoded}</script></div><script>{_SCRIPT}</script>'
        )


def _figure(one: Placed) -> str:
    producer, consumer = as_rows(one.now), as_rows(one.consumer_now)
    cell = min(CELL, SIDE // max(*producer.shape, *consumer.shape))
    title = one.title if one.title == one.where else f"{one.title}: {one.where}"
    return (
        f"<figure><strong>{escape(title)}</strong>"
        f"{_grid(producer.shape, cell, one.producer)}{_grid(consumer.shape, cell, one.consumer)}"
        "<figcaption><small></small></figcaption></figure>"
    )


def _grid(shape: tuple[int, ...], cell: int, name: str) -> str:
    rows, columns = shape
    cells = [(row, column) for row in range(rows) for column in range(columns)]
    boxes = "".join(
        f'<rect x="{column * cell + 2}" y="{row * cell + 2}" width="{cell}" height="{cell}"/>'
        for row, column in cells
    )
    radius, middle = f"{cell / 6:.1f}", cell / 2 + 2
    dots = "".join(
        f'<circle cx="{column * cell + middle}" cy="{row * cell + middle}" r="{radius}"/>'
        for row, column in cells
    )
    return (
        f'<svg width="{columns * cell + 4}" height="{rows * cell + 4}" role="img" '
        f'aria-label="elements of {escape(name)}"><g>{boxes}</g><g>{dots}</g></svg>'
    )


def _frames(steps: Sequence[Placed]) -> list[list[str]]:
    """Return for each step the cells of both stages: kinds, storage, dots; and a sentence."""
    frames = []
    for one in steps:
        done = np.zeros(one.consumer_now.shape, int)
        done[one.consumer_earlier] = 1
        done[one.consumer_earlier & one.consumer_iteration] = 2
        so_far = int((one.earlier + one.now).sum())
        kept = bytes_text(one.bytes) if one.bytes else "nothing"
        said = f"{so_far} of {one.computed} computed so far; stores {kept}"
        frames.append(
            [
                _digits(kinds_of(one.earlier, one.now)),
                _digits(one.stored),
                _digits(one.read),
                _digits(done),
                _digits(np.zeros_like(done)),
                _digits(one.consumer_now),
                said,
            ]  # fmt: skip
        )
    return frames


def _digits(values: Any) -> str:
    """Return a digit for each element.

    >>> _digits(np.array([[0, 3], [1, 2]])), _digits(np.array([True, False]))
    ('0312', '10')
    """
    return "".join(str(int(value)) for value in np.ravel(values))
