"""Rewrites of statements under construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from schedlang.ir.nodes import Block, For, If
from schedlang.lowering.puts import Put


def map_puts(drafts: Sequence[Any], stage: str, fn: Callable[[Any], Any]) -> list[Any]:
    """``drafts`` with ``fn`` applied to every store of ``stage``."""
    made: list[Any] = []
    for draft in drafts:
        if isinstance(draft, Put) and draft.stage == stage:
            made.append(fn(draft))
        elif isinstance(draft, (For, If)):
            made.append(replace(draft, body=Block(tuple(map_puts(draft.body.stmts, stage, fn)))))
        else:
            made.append(draft)
    return made
