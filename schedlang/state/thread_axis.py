"""GPU thread axes, to bind loops to."""

from __future__ import annotations

from typing import Any

from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr.nodes import Axis, Const, Expr
from schedlang.signatures import public
from schedlang.state.state import THREADS


@public
def thread_axis(dom: Any = None, tag: Any = "", name: str = "") -> Axis:
    """Return a GPU thread axis to bind loops to, such as ``thread_axis("threadIdx.x")``.

    To have the number of threads checked, give it after the tag or, as in te, before it:
    ``("threadIdx.x", 64)``, ``(64, "threadIdx.x")`` or ``((0, 64), "threadIdx.x")``. ``name`` has
    no effect: a thread axis is printed by its tag.

    >>> thread_axis((0, 64), "threadIdx.x").extent
    64
    """
    if isinstance(dom, str):
        dom, tag = (None if tag == "" else tag), dom
    if not isinstance(tag, str) or tag not in (*THREADS, "vthread"):
        raise ComputeError(
            f"thread_axis: {tag!r} is not a thread; choose one of {', '.join(THREADS)}, vthread"
        )
    if dom is None:
        return Axis(tag, 0, "thread", tag=tag)
    span: tuple[Any, ...] = tuple(dom) if isinstance(dom, (tuple, list)) else (0, dom)
    whole = len(span) == 2 and all(_whole(v) for v in span)
    if not whole or int(span[0]) != 0 or int(span[1]) < 1:
        raise ComputeTypeError(
            f"thread_axis({dom!r}, {tag!r}): {dom!r} is not a range of threads; give "
            "(0, extent) or an extent, where the extent is a constant of 1 or more"
        )
    return Axis(tag, int(span[1]), "thread", tag=tag)


def _whole(value: Any) -> bool:
    if isinstance(value, Expr):
        return isinstance(value, Const) and type(value.value) is int
    return hasattr(value, "__index__") and not isinstance(value, bool)
