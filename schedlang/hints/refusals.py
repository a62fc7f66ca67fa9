"""The steps that a schedule refuses now, and why, in the words of the refusals themselves."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import SchedlangError
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule
from schedlang.schedule.stage import StageView

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

    Each is tried on a copy of ``s``.

    >>> import schedlang as sl
    >>> A = sl.placeholder((8, 8), name="A")
    >>> k = sl.reduce_axis(8, name="k")
    >>> B = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    >>> print(refusals(sl.schedule(B))[-1].text)
    compute_inline() on stage B: B is an output and must be stored
    """
    found: dict[tuple[str, str, str], Refused] = {}
    for primitive, stage, take in _asked(s):
        copy = s.copy()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                take(copy)
        except SchedlangError as error:
            made = Refused(primitive, stage, str(error))
            # the reason, without the call that was refused
            why = made.text.partition(": ")[2]
            found.setdefault((primitive, stage, why), made)
    return list(found.values())


def _asked(s: Schedule) -> Iterator[tuple[str, str, Callable[[Schedule], object]]]:
    for view in s.stages:
        if not isinstance(view.op, ComputeOp):
            continue
        name = view.name
        for kind in KINDS:
            for axis in view.leaf_axes:
                if axis not in s.state.stages[name].kinds:
                    yield kind, name, _annotated(name, kind, axis)
        yield "compute_inline", name, _inlined(name)
        yield from _new_stages(view)


def _new_stages(view: StageView) -> Iterator[tuple[str, str, Callable[[Schedule], object]]]:
    name, tensor = view.name, view.outputs[0]
    yield "cache_write", name, lambda s: s.cache_write(tensor, "global")
    for axis in view.op.reduce_axis:
        yield "rfactor", name, _factored(tensor, axis)


def _inlined(name: str) -> Callable[[Schedule], object]:
    return lambda s: s[name].compute_inline()


def _factored(tensor: Tensor, axis: Axis) -> Callable[[Schedule], object]:
    return lambda s: s.rfactor(tensor, axis)


def _annotated(name: str, kind: str, axis: Axis) -> Callable[[Schedule], object]:
    return lambda s: getattr(s[name], kind)(axis)


__all__ = ["Refused", "refusals"]
