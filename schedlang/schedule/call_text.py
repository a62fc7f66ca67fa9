"""The text of a primitive's call in messages, such as ``split(i, factor=4) on stage C``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from schedlang.state.primitives.arguments import names, shown, shown_thread

Args = Mapping[str, Any]


def call_text(primitive: str, stage: str, args: Args) -> str:
    """Return the text of a call; methods of the schedule name their stage as an argument."""
    if primitive == "cache_read":
        return f"cache_read({args['tensor'].name}, {args['scope']!r}, [{names(args['readers'])}])"
    if primitive == "cache_write":
        return f"cache_write({stage}, {args['scope']!r})"
    if primitive == "rfactor":
        return f"rfactor({stage}, {shown(args['axis'])})"
    listed = _LISTED.get(primitive, lambda args: names(args.values()))(args)
    return f"{primitive}({listed}) on stage {stage}"


def _split(args: Args) -> str:
    sizes = ((what, args.get(what)) for what in ("factor", "nparts"))
    return ", ".join([shown(args["axis"]), *(f"{w}={shown(v)}" for w, v in sizes if v is not None)])


def _layout(args: Args) -> str:
    indices = args["indices"]
    if not isinstance(indices, tuple):
        return f"({shown(indices)})"
    return f"({names(indices)}{',' * (len(indices) == 1)})"


_LISTED: dict[str, Callable[[Args], str]] = {
    "split": _split,
    "fuse": lambda args: names(args["axes"]),
    "reorder": lambda args: names(args["axes"]),
    "tile": lambda args: names(args[k] for k in ("x", "y", "x_factor", "y_factor")),
    "bind": lambda args: f"{shown(args['axis'])}, {shown_thread(args['thread'])}",
    "pragma": lambda args: f"{shown(args['axis'])}, {shown(args['name'])}",
    "set_scope": lambda args: repr(args["scope"]),
    "storage_align": lambda args: names((args["axis"], args["factor"], args.get("offset", 0))),
    "transform_layout": _layout,
}
