"""The page as one file that needs nothing else: the whole history, to look at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from schedlang.markup.fragment import style, theme
from schedlang.markup.text import escape

# nothing is loaded, also if the history has a mistake
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
# the files of the script, each after those whose constants it uses
SCRIPTS = ("elements", "words", "steps", "map", "picture", "states", "code", "page", "transports")
PAGE_STYLE = "html { color-scheme: light dark; } body { margin: 0; }\n"


@cache
def script() -> str:
    """Return the script of the page: all its files, as one module."""
    folder = files("schedlang.live").joinpath("static")
    return "\n".join(folder.joinpath(f"{name}.js").read_text("utf-8") for name in SCRIPTS)


@cache
def css() -> str:
    """Return the style of the page, including the style of nests."""
    own = files("schedlang.live").joinpath("static/live.css").read_text("utf-8")
    return f"{theme('.schedlang-live')}\n{own}\n{style(0)}"


def shared_page(title: str, messages: Sequence[dict[str, Any]]) -> str:
    """Return a page that shows the history of these messages, offline and without a server."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{PAGE_STYLE}{css()}</style></head>"
        '<body><div id="live"></div><script type="application/json" id="messages">'
        f"{embed(messages)}</script>"
        f'<script type="module">{script()}\nshared();</script></body></html>\n'
    )


def embed(messages: Sequence[dict[str, Any]]) -> str:
    """Return messages as JSON that can stand in a script element."""
    text = json.dumps(list(messages), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
