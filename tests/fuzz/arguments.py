"""Intermediate tensors as arguments of a case."""

from __future__ import annotations

from random import Random
from typing import Any

from schedlang.compute.reference import reference
from schedlang.errors import ComputeError, LoweringError
from schedlang.lowering.lower import default_args, lower_state
from schedlang.state.state import At, Inline
from tests.fuzz.record import Case

SHARE = 0.3
# parts of the messages that refuse an intermediate as an argument; all elements of an argument are
# computed, so that it may have loops, and prefetches and instructions, which it did not need before
REFUSALS = (
    "is an argument", "as an argument", "the argument ", "among the arguments", "tail='cut'",
    "exist only inside scan", "Prefetch at another loop.", "tensorize(",
)  # fmt: skip


def arguments(case: Case, s: Any) -> list[Any] | None:
    """Return arguments with some intermediates among them, or ``None`` for the default arguments.

    A generator of its own draws them, so that they change nothing else in the case.
    """
    rng = Random(f"arguments:{case.key}")
    usual = default_args(s.state)
    names = [getattr(a, "name", "") for a in usual]
    found = [t for t in s.state.defined if t not in s.state.outputs and t.name not in names]
    if not found or rng.random() >= SHARE:
        return None
    chosen = rng.sample(found, min(len(found), rng.choice((1, 1, 2, 3))))
    if len({t.name for t in chosen}) < len(chosen):
        return None
    first = len(usual) - len(s.state.outputs)
    args = [*usual[:first], *chosen, *usual[first:]]
    try:
        lower_state(s.state, args)
        # of a row that exists only inside a scan, even the empty one
        reference([*chosen, *s.state.outputs])
    except (LoweringError, ComputeError) as error:
        # the steps of an inlined stage had no effect until it became an argument
        inlined = any(isinstance(s.state.of(t).attach, Inline) for t in chosen)
        if not inlined and not any(text in str(error) for text in REFUSALS):
            raise
        case.counts["intermediates refused"] += 1
        return None
    case.features.add("intermediate argument")
    if any(isinstance(s.state.of(t).attach, At) for t in chosen):
        case.features.add("attached argument")
    return args


__all__ = ["arguments"]
