"""The text of a primitive's call in messages, such as ``split(i, factor=4) on stage C``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from schedlang.state.primitives.arguments import names, shown_thread, text_of
from schedlang.state.primitives.table import PRIMITIVES, Primitive

Args = Mapping[str, Any]


def call_text(primitive: str, stage: str, args: Args) -> str:
    """Return the text of a call; methods of the schedule name their stage as an argument."""
    if primitive == "cache_read":
        return f"cache_read({args['tensor'].name}, {args['scope']!r}, [{names(args['readers'])}])"
    if primitive == "cache_write":
        return f"cache_write({stage}, {args['scope']!r})"
    if primitive == "rfactor":
        return f"rfactor({stage}, {text_of(args['axis'])})"
    if PRIMITIVES[primitive].changes_operands:
        return f"{primitive}({', '.join([stage, *map(_text, args.values())])})"
    own = _LISTED.get(primitive)
    listed = _plain(PRIMITIVES[primitive], args) if own is None else own(args)
    return f"{primitive}({listed})" + f" on stage {stage}" * (stage != "")


def _text(value: Any) -> str:
    return f"[{names(value)}]" if isinstance(value, (list, tuple)) else text_of(value)


def _plain(primitive: Primitive, args: Args) -> str:
    """Return the arguments in order, without those that a call may leave out."""
    parts = []
    for name, value in args.items():
        default = primitive.defaults.get(name)
        if name in primitive.defaults and type(value) is type(default) and value == default:
            continue
        text = names(value) if isinstance(value, (list, tuple)) else text_of(value)
        parts.append(f"{name}={text}" if name in primitive.keywords else text)
    return ", ".join(parts)


def _split(args: Args) -> str:
    sizes = ((what, args.get(what)) for what in ("factor", "nparts"))
    parts = [text_of(args["axis"]), *(f"{w}={text_of(v)}" for w, v in sizes if v is not None)]
    tail = args.get("tail", "auto")
    return ", ".join(parts if tail == "auto" else [*parts, f"tail={text_of(tail)}"])


def _layout(args: Args) -> str:
    indices = args["indices"]
    if not isinstance(indices, tuple):
        return f"({text_of(indices)})"
    return f"({names(indices)}{',' * (len(indices) == 1)})"


_LISTED: dict[str, Callable[[Args], str]] = {
    "split": _split,
    "bind": lambda args: f"{text_of(args['axis'])}, {shown_thread(args['thread'])}",
    "pragma": lambda args: f"{text_of(args['axis'])}, {text_of(args['name'])}",
    "set_scope": lambda args: repr(args["scope"]),
    "storage_align": lambda args: names((args["axis"], args["factor"], args.get("offset", 0))),
    "transform_layout": _layout,
    "transform_argument": lambda args: f"{text_of(args['tensor'])}, index_map",
}
