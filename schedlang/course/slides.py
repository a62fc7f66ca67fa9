"""A lesson as slides: one page that opens in any browser, without the internet.

Cells have Jupyter's ``slideshow`` metadata: ``slide`` and ``subslide`` begin a slide, ``fragment``
appears at the next key, ``skip`` is left out, ``notes`` are for the teacher, and any other cell
belongs to the slide before it.
"""

from __future__ import annotations

import re
from typing import Any

from schedlang.course.lessons import Notebook, slide_type, source_of, tags_of
from schedlang.course.markdown import highlight_code, html_of
from schedlang.course.outputs import join_printed, output_html
from schedlang.course.slide_page import slide_page

# lines of code on a slide of 900 pixels
MOST_LINES = 26


def slides(notebook: Notebook) -> str:
    """Return an executed notebook as a page of slides.

    Raise :class:`~schedlang.errors.MissingExtraError` without markdown-it-py and latex2mathml.
    """
    pages: list[list[str]] = []
    for cell in notebook["cells"]:
        kind = slide_type(cell)
        if kind == "skip":
            continue
        if kind in ("slide", "subslide") or not pages:
            pages.append([])
        part = _cell(cell)
        if kind == "notes":
            part = f'<aside class="notes">{part}</aside>'
        elif kind == "fragment":
            part = f'<div class="fragment">{part}</div>'
        pages[-1].append(part)
    return slide_page(title_of(notebook), ["\n".join(page) for page in pages])


def title_of(notebook: Notebook) -> str:
    """Return the first heading of a notebook."""
    first = source_of(notebook["cells"][0]).splitlines()[0]
    return first.lstrip("# ").strip()


def _cell(cell: dict[str, Any]) -> str:
    source = source_of(cell)
    if cell["cell_type"] == "markdown":
        return f'<div class="prose">{html_of(source)}</div>'
    code = "".join(
        f'<pre class="code"><code>{highlight_code(part)}</code></pre>'
        for part in code_parts(source)
    )
    # an open exercise only says that it is open
    outputs = [] if "exercise" in tags_of(cell) else join_printed(cell.get("outputs", []))
    return code + "".join(f'<div class="output">{output_html(out)}</div>' for out in outputs)


def code_parts(source: str, most: int = MOST_LINES) -> list[str]:
    """Return the source of a cell in parts that fit a slide: cut at empty lines at the top level.

    >>> code_parts("a\\n\\nb\\n\\nc", most=3)
    ['a\\n\\nb', 'c']
    """
    blocks = re.split(r"\n\n+(?=\S)", source)
    parts = blocks[:1]
    for block in blocks[1:]:
        joined = f"{parts[-1]}\n\n{block}"
        if len(joined.splitlines()) <= most:
            parts[-1] = joined
        else:
            parts.append(block)
    return parts
