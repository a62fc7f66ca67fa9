"""The steps that a schedule refuses now, and why, in the words of the refusals themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedlang.autotune.rules import filter_warnings
from schedlang.compute.tensor import ComputeOp
from schedlang.errors import SchedlangError
from schedlang.hints.steps import Steps, of_schedule, step
from schedlang.schedule.schedule import Schedule

KINDS = ("vectorize", "parallel", "unroll")


@dataclass(frozen=True)
class Refused:
    """A refused step: its primitive and stage, and the message of the refusal.

    ``text`` is the first line of the message: what was asked, and why it cannot be.
    """

    primitive: str
    stage: str
    message: str

    @property
    def text(self) -> str:
        return self.message.partition("\n")[0]


def refusals(s: Schedule) -> list[Refused]:
    """Return steps of a schedule on a CPU that are refused, one for each primitive and reason.

    Each is tried on a copy of ``s``. Nothing is lowered: only the primitives are asked.

    >>> import schedlang as sl
    >>> A = sl.placeholder((8, 8), name="A")
    >>> k = sl.reduce_axis(8, name="k")
    >>> B = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    >>> print(refusals(sl.schedule(B))[-1].text)
    compute_inline() on stage B: B is an output and must be stored
    """
    first: dict[tuple[str, str, str], Refused] = {}
    for asked in _plainest_steps(s):
        try:
            with filter_warnings("ignore", Warning):
                asked.take(s.copy())
        except SchedlangError as error:
            refused = Refused(asked.primitive, asked.stage, str(error))
            # the reason, without the call that was refused
            why = refused.text.partition(": ")[2]
            first.setdefault((refused.primitive, refused.stage, why), refused)
    return list(first.values())


def _plainest_steps(s: Schedule) -> Iterator[Steps]:
    """Yield the plainest step of each kind, whether it makes sense or not."""
    for view in s.stages:
        if not isinstance(view.op, ComputeOp):
            continue
        name = view.name
        for kind in KINDS:
            for axis in view.leaf_axes:
                if axis not in s.state.stages[name].kinds:
                    yield step(kind, name, axis)
        yield step("compute_inline", name)
        yield of_schedule("cache_write", name, view.outputs[0], "global")
        for axis in view.op.reduce_axis:
            yield of_schedule("rfactor", name, view.outputs[0], axis)
