"""Write the pictures of docs/notebooks.md: ``python -m tests.screenshots`` (Chromium, Pillow)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import schedlang as sl
from tests.browser import BROWSER, DARK, FLAGS

DOCS = Path(__file__).parent.parent / "docs"
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
    from PIL import Image

    assert BROWSER is not None, "no browser on the PATH"
    page = shown._repr_html_().replace(":is(:hover, :focus)", ".pointer")
    page = page.replace(":hover)", ".pointer)")
    script = "" if pointer is None else POINTER.format(*pointer)
    with tempfile.TemporaryDirectory() as folder:
        made, target = Path(folder, "page.html"), DOCS / f"{name}.png"
        made.write_text(BODY.format(page, script), "utf-8")
        options = [f for f in FLAGS if f != "--dump-dom"]
        options += ["--hide-scrollbars", f"--window-size={size[0]},{size[1]}"]
        options += [f"--screenshot={target}", f"--user-data-dir={folder}/profile", *flags]
        subprocess.run([BROWSER, *options, made.as_uri()], check=True, capture_output=True)
    with Image.open(target) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(target, optimize=True)


def main() -> None:
    s = documented()
    picture("notebook-nest", s, (1090, 372), pointer=(".nest .def", 2))
    kernel = sl.build(s, target=sl.Target("cpu", vector_bytes=64))
    picture("notebook-kernel", kernel, (1340, 664), pointer=(".leaf.n8", 0))
    picture("notebook-diff", s.diff(2), (1200, 291), *DARK)
    picture("notebook-steps", s.steps, (1280, 342))


if __name__ == "__main__":
    main()
