"""Write the pictures of notebooks and the live page in docs/: ``python -m tests.screenshots``.

It needs Chromium, Pillow and the extra ``live``. The argument ``notebooks`` or ``live`` writes
those alone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.live.session import Session
from tests.browser import BROWSER, DARK, FLAGS
from tests.chromium import Tab, chromium
from tests.live_background import Background

IMAGES = Path(__file__).parent.parent / "docs" / "images"
COLOURS = 256
BODY = '<!doctype html><meta charset="utf-8"><body style="margin: 0">{}{}</body>'
# a name or a line as it is under the pointer, which the pictures cannot have
POINTER = "<script>document.querySelectorAll('{}')[{}].classList.add('pointer')</script>"


def documented() -> sl.Schedule:
    """Return the schedule of the document."""
    A = sl.placeholder((300, 400), name="A")
    B = sl.placeholder((400, 1000), name="B")
    k = sl.reduce_axis(400, name="k")
    C = sl.compute((300, 1000), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    rows, columns, row, column = s[C].tile(*s[C].op.axis, 4, 32)
    s[C].reorder(rows, columns, k, row, column)
    s[C].unroll(row)
    s[C].vectorize(column)
    s[C].parallel(rows)
    return s


def picture(
    name: str, shown: Any, size: tuple[int, int], *flags: str,
    pointer: tuple[str, int] | None = None,
) -> None:  # fmt: skip
    """Write what a notebook shows of an object as a PNG of few colours."""
    assert BROWSER is not None, "no browser on the PATH"
    page = shown._repr_html_().replace(":is(:hover, :focus)", ".pointer")
    page = page.replace(":hover)", ".pointer)")
    script = "" if pointer is None else POINTER.format(*pointer)
    with tempfile.TemporaryDirectory() as folder:
        made, target = Path(folder, "page.html"), IMAGES / f"{name}.png"
        made.write_text(BODY.format(page, script), "utf-8")
        options = [f for f in FLAGS if f != "--dump-dom"]
        options += ["--hide-scrollbars", f"--window-size={size[0]},{size[1]}"]
        options += [f"--screenshot={target}", f"--user-data-dir={folder}/profile", *flags]
        subprocess.run([BROWSER, *options, made.as_uri()], check=True, capture_output=True)
    fewer_colours(target)


def fewer_colours(path: Path) -> None:
    """Make a PNG smaller."""
    from PIL import Image

    with Image.open(path) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def live_product() -> None:
    """Click through the lesson of docs/guides/live.md: a product of 512 by 512 matrices."""
    A = sl.placeholder((512, 512), name="A")
    B = sl.placeholder((512, 512), name="B")
    k = sl.reduce_axis(512, name="k")
    C = sl.compute((512, 512), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    page = Background(Session(sl.schedule(C), "s of product.py"))
    measured = "[...document.querySelectorAll('.state')].every((s) => /s$/.test(s.innerText))"
    listed = "!!document.querySelector('.step')"
    with chromium() as browser:
        tab = browser.tab()
        tab.open(page.url)
        tab.wait(listed)
        tab.wait(measured, 120)
        shoot(tab, "live-start", 1240, 1090)
        for number in (1, 2, 3):
            name = "vectorize C" if number == 1 else ""
            tab.value("[...document.querySelectorAll('.steps > .list > .step')].find((s) => "
                      f"s.innerText.includes('{name}')).click()")  # fmt: skip
            tab.wait(f"document.querySelectorAll('.state').length === {number + 1}")
            tab.wait(listed)
            # each alone, since a kernel is timed on all cores
            tab.wait(measured, 120)
            if number == 1:
                shoot(tab, "live-vectors", 1240, 1130)
        # a branch that packs the second matrix
        tab.click("[data-key='state 2']")
        tab.wait("document.querySelector('.current .name').textContent.startsWith('2:')")
        tab.wait(listed)
        tab.value("document.querySelector('[data-key=others]').open = true")
        tab.value("[...document.querySelectorAll('.step')].find((s) => "
                  "s.innerText.includes('pack C')).click()")  # fmt: skip
        tab.wait("document.querySelectorAll('.state').length === 5")
        tab.wait(listed)
        tab.wait(measured, 120)
        tab.click("[data-key='state 3']")
        tab.wait("document.querySelector('.current .name').textContent.startsWith('3:')")
        tab.wait(listed)
        tab.click("[data-key='with 0']")
        tab.wait("!!document.querySelector('.side .added')")
        shoot(tab, "live-product", 1240, 1240)
    page.close()
    page.session.close()


def shoot(tab: Tab, name: str, width: int, height: int) -> None:
    """Write what a page shows from its top as a PNG of few colours."""
    tab.value("window.scrollTo(0, 0)")
    tab.screenshot(IMAGES / f"{name}.png", width, height)
    fewer_colours(IMAGES / f"{name}.png")


def notebooks() -> None:
    s = documented()
    picture("notebook-nest", s, (1090, 372), pointer=(".nest .def", 2))
    kernel = sl.build(s, target=sl.Target("cpu", vector_bytes=64))
    picture("notebook-kernel", kernel, (1340, 664), pointer=(".leaf.n8", 0))
    picture("notebook-diff", s.diff(2), (1200, 291), *DARK)
    picture("notebook-steps", s.steps, (1280, 342))


def main() -> None:
    chosen = sys.argv[1:] or ["notebooks", "live"]
    if "notebooks" in chosen:
        notebooks()
    if "live" in chosen:
        live_product()


if __name__ == "__main__":
    main()
