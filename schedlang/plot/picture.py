"""A picture: a figure with its caption, the numbers behind it, and the ways to show and keep it."""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from schedlang.errors import PlotError, explain
from schedlang.markup.page import page
from schedlang.markup.text import escape
from schedlang.plot.sheet import style

STILL = (".png", ".svg", ".pdf")

# what an SVG file has and one inside a page does not need: its head, facts, spaces between tags
_HEAD = re.compile(r"^.*?(?=<svg)", re.S)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.S)
_SPACES = re.compile(r">\s+<")
_NAMESPACES = re.compile(r'\s(xmlns(:\w+)?|version)="[^"]*"')


class Movie(Protocol):
    """A picture in frames, as a file or as a piece of a page."""

    def gif(self, path: Path) -> None: ...

    def html(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture that shows in a notebook, and that :meth:`save` writes to a file.

    ``caption`` says what to see, and stands in the figure, too. ``data`` are the numbers behind the
    picture. ``figure`` is the matplotlib figure, drawn when first asked for.
    """

    title: str
    caption: str
    data: Any
    draw: Callable[[], Any] = field(repr=False)
    movie: Movie | None = field(default=None, repr=False)

    @cached_property
    def figure(self) -> Any:
        """The matplotlib figure, to be changed or to be put on a canvas."""
        with style():
            return self.draw()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to ``path``, and return it.

        The ending decides the format: ``.png``, ``.svg`` or ``.pdf`` hold the figure, ``.html`` a
        page that opens offline. A picture of iteration order moves as ``.gif`` and ``.html``.
        Raise :class:`~schedlang.errors.PlotError` for another ending or a folder that is not there.

        >>> import schedlang as sl
        >>> A = sl.placeholder((8, 8), name="A")
        >>> B = sl.compute((8, 8), lambda i, j: A[j, i], name="B")
        >>> sl.plot.iteration_order(B).save("order.jpeg")
        Traceback (most recent call last):
        ...
        schedlang.errors.PlotError: save('order.jpeg'): '.jpeg' is not a format of this picture
          End the name in .png, .svg, .pdf, .html or .gif.
        """
        target = Path(path)
        kinds = [*STILL, ".html", *([".gif"] if self.movie is not None else [])]
        if target.suffix.lower() not in kinds:
            raise PlotError(
                explain(
                    f"save({str(path)!r})",
                    f"{target.suffix!r} is not a format of this picture",
                    f"End the name in {', '.join(kinds[:-1])} or {kinds[-1]}.",
                )
            )
        try:
            self._write(target)
        except OSError as error:
            raise PlotError(f"save({str(path)!r}): {error.strerror or error}") from None
        return target

    def _write(self, target: Path) -> None:
        kind = target.suffix.lower()
        if kind == ".html":
            # the figure has the title; a movie has none
            target.write_text(page(self.title, self._repr_html_(), self.movie is not None), "utf-8")
        elif kind == ".gif" and self.movie is not None:
            with style():
                self.movie.gif(target)
        else:
            target.write_bytes(self._image(kind[1:]))

    def _image(self, kind: str) -> bytes:
        image = io.BytesIO()
        # without the time of the run, so that two runs write the same file
        facts = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
        with style():
            self.figure.savefig(image, format=kind, metadata=facts[kind])
        return image.getvalue()

    def _repr_png_(self) -> str:
        return base64.b64encode(self._image("png")).decode("ascii")

    def _repr_html_(self) -> str:
        if self.movie is not None:
            return self.movie.html()
        text = _METADATA.sub("", _HEAD.sub("", self._image("svg").decode("utf-8")))
        start, end = _SPACES.sub("><", text.strip()).split(">", 1)
        label = f'<svg role="img" aria-label="{escape(self.caption)}" style="max-width:100%"'
        return f"{_NAMESPACES.sub('', start).replace('<svg', label, 1)}>{end}"

    def __repr__(self) -> str:
        return f"<Picture: {self.title}>"
