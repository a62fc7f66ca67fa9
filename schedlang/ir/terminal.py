"""The printer of loop nests for terminals, in colours by the kind of loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from schedlang.errors import missing_extra
from schedlang.ir.html import KEYWORDS
from schedlang.ir.printer import printed_names
from schedlang.markup.code import tokens

if TYPE_CHECKING:
    from schedlang.ir.nest import Nest

# a line that is too long continues this many columns further to the right
HANG = 4
# columns that a line has at least, however deep it is
SHORTEST = 20
# colours of the keyword that begins a line; all of them are told apart by any colour vision
STYLES = {
    "parallel": "bold bright_blue", "vectorize": "bold yellow", "unroll": "bold green",
    "vthread": "bold magenta", "if": "bold cyan", "for": "bold",
}  # fmt: skip


def show_nest(nest: Nest) -> None:
    """Print ``nest``, in colours if the terminal has them and ``NO_COLOR`` is not set.

    A line that is too long for the terminal goes on below, further to the right. Raise
    :class:`~schedlang.errors.MissingExtraError` if rich is not installed.
    """
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        raise missing_extra("rich", "viz", "show()") from None
    console = Console(highlight=False)
    names = printed_names(nest)
    for line in str(nest).splitlines():
        text = Text()
        for part, style in _styled(line.lstrip(), names):
            text.append(part, style)
        depth = len(line) - len(line.lstrip())
        below = depth + HANG
        pieces = text.wrap(console, max(console.width - below, SHORTEST))
        for number, piece in enumerate(pieces):
            piece.rstrip()
            console.print(Text(" " * (below if number else depth)).append_text(piece))


def _styled(line: str, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a line, each with its style."""
    for kind, text in tokens(line, names, KEYWORDS):
        if kind == "keyword":
            yield text, STYLES.get(text, "bold")
        else:
            yield text, "dim" if kind == "note" else ""
