"""Write the pictures of pages and screens in docs/: ``python -m tests.screenshots``.

It needs Chromium, Pillow and the extras ``live`` and ``docs``. The argument ``notebooks``,
``live`` or ``start`` writes those alone.
"""

from __future__ import annotations

import html
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.docs_command import build
from schedlang.live.session import Session
from tests.browser import BROWSER, DARK, FLAGS
from tests.chromium import Browser, Tab, chromium
from tests.live_background import Background

IMAGES = Path(__file__).parent.parent / "docs" / "images"
COLOURS = 256
BODY = '<!doctype html><meta charset="utf-8"><body style="margin: 0">{}{}</body>'
TERMINAL = (
    "margin: 0; padding: 13px 16px; background: #1b1f27; color: #e6e9ef; "
    "font: 13px/18px ui-monospace, Menlo, Consolas, monospace"
)
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
    page = shown._repr_html_().replace(":is(:hover, :focus)", ".pointer")
    page = page.replace(":hover)", ".pointer)")
    script = "" if pointer is None else POINTER.format(*pointer)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        file.write_text(BODY.format(page, script), "utf-8")
        picture_of(file, name, size, *flags)


def picture_of(file: Path, name: str, size: tuple[int, int], *flags: str) -> None:
    """Write what Chromium shows of a file as a PNG of few colours."""
    assert BROWSER is not None, "no browser on the PATH"
    target = IMAGES / f"{name}.png"
    with tempfile.TemporaryDirectory() as folder:
        options = [f for f in FLAGS if f != "--dump-dom"]
        options += ["--hide-scrollbars", f"--window-size={size[0]},{size[1]}"]
        options += [f"--screenshot={target}", f"--user-data-dir={folder}/profile", *flags]
        subprocess.run([BROWSER, *options, file.as_uri()], check=True, capture_output=True)
    fewer_colours(target)


def fewer_colours(path: Path) -> None:
    """Make a PNG smaller."""
    from PIL import Image

    with Image.open(path) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


MEASURED = "[...document.querySelectorAll('.state')].every((s) => /s$/.test(s.innerText))"
LISTED = "!!document.querySelector('.step')"


def live_product() -> None:
    """Click through the first lesson of docs/guides/live.md: a product of matrices."""
    A = sl.placeholder((512, 512), name="A")
    B = sl.placeholder((512, 512), name="B")
    k = sl.reduce_axis(512, name="k")
    C = sl.compute((512, 512), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    page = Background(Session(sl.schedule(C), "s of product.py"))
    with chromium() as browser:
        tab = opened(browser, page)
        tab.wait(MEASURED, 120)
        shoot(tab, "live-start", 1240, 1000)
        for number in (1, 2):
            tab.click(".steps > .list > .step")
            at_state(tab, number)
            # each alone, since a kernel is timed on all cores
            tab.wait(MEASURED, 120)
            if number == 1:
                # the next step, under the pointer
                tab.point("h1")
                tab.point(".step")
                tab.wait("document.querySelector('.preview')")
                shoot(tab, "live-tile", 1240, 900)
        # a branch by a line of one's own
        tab.click("[data-key='state 1']")
        at_state(tab, 1)
        tab.value("(() => { const e = document.querySelector('.editor'); "
                  "e.value += '\\ns[C].parallel(j_outer)'; "
                  "e.dispatchEvent(new Event('input')); })()")  # fmt: skip
        tab.click("[data-key=run]")
        at_state(tab, 3)
        tab.wait(MEASURED, 120)
        tab.click("[data-key='state 2']")
        at_state(tab, 2)
        tab.click("[data-key='with 0']")
        tab.wait("!!document.querySelector('.side .added')")
        shoot(tab, "live-product", 1240, 1240)
    page.close()
    page.session.close()


def live_blur() -> None:
    """Click through the second lesson: a blur by the map of its places."""
    X = sl.placeholder((1026, 1026), name="X")
    H = sl.compute((1026, 1024), lambda i, j: X[i, j] + X[i, j + 1] + X[i, j + 2], name="H")
    V = sl.compute((1024, 1024), lambda i, j: H[i, j] + H[i + 1, j] + H[i + 2, j], name="V")
    page = Background(Session(sl.schedule(V), "s of blur.py", measure=False))
    with chromium() as browser:
        tab = opened(browser, page)
        tab.wait("document.querySelector('.place')", 60)
        tab.value("[...document.querySelectorAll('.place')].find((place) => "
                  "place.innerText.includes('outside all loops')).click()")  # fmt: skip
        at_state(tab, 1)
        tab.wait("document.querySelector('.place')", 60)
        shoot(tab, "live-map", 1240, 900)
    page.close()
    page.session.close()


def opened(browser: Browser, page: Background) -> Tab:
    tab = browser.tab()
    tab.send("Emulation.setFocusEmulationEnabled", enabled=True)
    tab.open(page.url)
    tab.wait(LISTED, 60)
    return tab


def at_state(tab: Tab, number: int) -> None:
    tab.wait(f"document.querySelector('.current .name').textContent.startsWith('{number}:')")
    tab.wait(LISTED, 60)


def shoot(tab: Tab, name: str, width: int, height: int, below: str = ".schedlang-live") -> None:
    """Write what a page shows from the top of an element as a PNG of few colours."""
    tab.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
             deviceScaleFactor=1, mobile=False)  # fmt: skip
    tab.value(f"document.querySelector({below!r}).scrollIntoView()")
    tab.screenshot(IMAGES / f"{name}.png", width, height)
    fewer_colours(IMAGES / f"{name}.png")


def notebooks() -> None:
    s = documented()
    picture("notebook-nest", s, (1090, 372), pointer=(".nest .def", 2))
    kernel = sl.build(s, target=sl.Target("cpu", vector_bytes=64))
    picture("notebook-kernel", kernel, (1340, 664), pointer=(".leaf.n8", 0))
    picture("notebook-diff", s.diff(2), (1200, 291), *DARK)
    picture("notebook-steps", s.steps, (1280, 342))


def start() -> None:
    """Write the end of the demo, as a terminal shows it, and the first page of the site."""
    command = [sys.executable, "-m", "schedlang", "demo"]
    plain = {name: value for name, value in os.environ.items() if name != "SCHEDLANG_CACHE"}
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=plain)
    printed = run.stdout.replace(str(Path.home()), "~")
    last = printed[printed.index("3. A schedule") :].rstrip()
    text = html.escape(f"$ python -m schedlang demo\n...\n{last}")
    screen = f'<pre style="{TERMINAL}">{text}</pre>'
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "demo.html")
        file.write_text(BODY.format(screen, ""), "utf-8")
        picture_of(file, "demo", (1000, 26 + 18 * (text.count("\n") + 1)))
        build(IMAGES.parent.parent, Path(folder, "site"))
        picture_of(Path(folder, "site", "index.html"), "site-start", (1240, 800))


def main() -> None:
    chosen = sys.argv[1:] or ["notebooks", "live", "start"]
    if "start" in chosen:
        start()
    if "notebooks" in chosen:
        notebooks()
    if "live" in chosen:
        live_product()
        live_blur()


if __name__ == "__main__":
    main()
