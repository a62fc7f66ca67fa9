"""Counts of the features that the cases of a run cover, and those that no case covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from schedlang.ir.accesses import stores
from schedlang.ir.extern_call import Extern
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import For, If, walk
from tests.fuzz.record import Case
from tests.fuzz.values import COMPLEX, DTYPES

LOOPS = ("parallel", "vectorize", "unroll", "vthread", "thread")
EXPECTED = (
    "select", "if_then_else", "gather", "stencil", "tuple", "padding by a condition",
    "pad constant", "pad edge", "pad reflect", "pad wrap", "sum", "prod", "max", "min", "argmax",
    "argmin", "custom", "pair reducer", "reductions together", "ties", "where=", "init=",
    "init= of a tensor", "triangular range", "range of lengths", "range of starts and stops",
    "scan", "scan of two states", "scan of other earlier rows",
    "scatter", "scatter by sum", "scatter by max", "scatter by last", "scatter by argmax",
    "init= of a scatter", "dropped updates",
    "symbolic size", "several sizes", "size 0", "size 1", "size 0 at the call",
    "size 1 at the call", "NaN and infinities", "integer limits", "scalar argument",
    "special operation",
    "several outputs", "guard", "cut tail", "sliding window", "masked lanes", "attached stage",
    "unfit on the way", "intermediate argument", "attached argument", "attached in another order",
    *LOOPS, *sorted({*DTYPES, *COMPLEX}),
)  # fmt: skip

EXTERNS = (
    "extern", "extern by numba", "extern by C", "extern by numpy", "extern of whole arrays",
    "extern at a loop",
    "extern: same", "extern: near", "extern: sum", "extern: scan",
)  # fmt: skip


SCANS = ("data axis around time", "scan at a loop", "blocks of time", "blocks of time and data")


def note_graph(case: Case) -> None:
    g = case.graph
    sizes = [n for t in g.tensors for n in t.size]
    case.features |= g.kinds | {t.dtype for t in g.tensors}
    found = {
        "symbolic size": bool(g.sizes), "size 0": 0 in sizes, "size 1": 1 in sizes,
        g.special: bool(g.special), "scalar argument": bool(g.scalars),
        "several outputs": len(g.outputs) > 1,
    }  # fmt: skip
    case.features |= {name for name, holds in found.items() if holds}


def note_nest(case: Case, nest: Nest, source: str) -> None:
    stmts = [s for s, _ in walk(nest.body)]
    case.features |= {s.kind for s in stmts if isinstance(s, For)} & set(LOOPS)
    found = {
        "guard": any(isinstance(s, If) for s in stmts),
        "sliding window": any(isinstance(s, If) and s.slides for s in stmts),
        "cut tail": 'tail="cut"' in source,
        "attached stage": "compute_at(" in source,
        "extern at a loop": any(isinstance(s, Extern) and path for s, path in walk(nest.body)),
    }
    case.features |= {name for name, holds in found.items() if holds}
    for site in stores(nest.body):
        for k, loop in enumerate(site.loops):
            if loop.axis.kind == "scan":
                case.features |= _forms_of_scan(loop, site.loops[:k])


def _forms_of_scan(loop: For, around: Sequence[For]) -> set[str]:
    """Return how the loop over time is placed among the loops ``around`` it."""
    own = [f.axis.kind for f in around if f.stage == loop.stage]
    found = {
        "data axis around time": "data" in own, "scan at a loop": len(own) < len(around),
        "blocks of time": "scan" in own,
        "blocks of time and data": "scan" in own and "data" in own,
    }  # fmt: skip
    return {name for name, holds in found.items() if holds}


def note_kernel(case: Case, source: str) -> None:
    if "_masked(" in source:
        case.features.add("masked lanes")


def report(features: Counter[str], expected: Sequence[str] = EXPECTED) -> str:
    """Return two lines: the number of cases with each feature, and the features never seen."""
    missing = [name for name in expected if not features[name]]
    listed = ", ".join(f"{name} {features[name]}" for name in expected if features[name])
    return f"cases with: {listed}\nnever seen: {', '.join(missing) or 'nothing'}"


__all__ = ["EXPECTED", "EXTERNS", "note_graph", "note_kernel", "note_nest", "report"]
