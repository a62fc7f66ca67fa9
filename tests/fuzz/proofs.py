"""Checks that the verifier proves what it promises."""

from __future__ import annotations

from collections.abc import Mapping

from schedlang.ir.nest import Nest
from schedlang.ir.specialize import at_sizes
from schedlang.ir.verify import report, verify
from tests.fuzz.record import Case, Mismatch


def check_proofs(case: Case, nest: Nest) -> None:
    """Check that only accesses that depend on data or on sizes are left unproven; count those."""
    found = report(nest)
    case.counts["nests verified"] += 1
    case.counts["nests not proven"] += bool(found.open)
    for open_ in found.accesses:
        # prefetches, which need no bounds, and reads under conditions on data are not exact
        what = "the sizes of a call" if open_.needs_sizes else "the run"
        case.counts[f"accesses left to {what}"] += 1
        if open_.exact and not open_.needs_sizes:
            raise Mismatch(f"not proven: {open_.index} of {open_.buffer.name} in {open_.stage}")


def check_proofs_at(case: Case, nest: Nest, sizes: Mapping[str, int]) -> None:
    """Check that no access stays unproven once the sizes are known."""
    case.counts["nests verified at sizes"] += 1
    for open_ in verify(at_sizes(nest, sizes)):
        if open_.exact:
            raise Mismatch(
                f"not proven where {dict(sizes)}: {open_.index} of {open_.buffer.name} in "
                f"{open_.stage}"
            )


__all__ = ["check_proofs", "check_proofs_at"]
