"""``sl.explain``: what holds a kernel back, and the steps that help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.compute.graph import functions_of
from schedlang.errors import CallTypeError, names_text
from schedlang.errors import explain as message
from schedlang.hints.dot_products import beyond_steps
from schedlang.hints.findings import Finding, fences, findings, loops_kept
from schedlang.hints.next_steps import (
    NextStep,
    check_instructions,
    lower_quietly,
    next_steps,
    predict_here,
)
from schedlang.hints.predicted import Prediction
from schedlang.markup.elements import facts, listing
from schedlang.markup.fragment import fragment
from schedlang.markup.text import escape
from schedlang.runtime.evaluate import Evaluation, evaluate
from schedlang.runtime.kernel import Kernel
from schedlang.schedule.schedule import Schedule
from schedlang.signatures import public
from schedlang.state.state import TENSORIZE
from schedlang.target import Target

# a step must promise this factor to be advice
WORTH = 1.05
# steps that promise at least this part of the best are about as good
ALIKE = 0.7
# a kernel that waits for memory for this part of its time is bound by it
BOUND = 0.5


@dataclass(frozen=True)
class Advice:
    """A reason that holds a kernel back, with its evidence, and the ``step`` that helps.

    ``primitives`` are all those that may help against it.
    """

    text: str
    step: NextStep
    primitives: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"    {line}" for line in self.code.splitlines())])

    @property
    def sentence(self) -> str:
        """The reason and the effect of the step."""
        return f"{self.text}. By the estimate, this makes it {self.step.speedup:.2g} times as fast:"

    @property
    def code(self) -> str:
        """The statements that take the step, to be pasted."""
        return self.step.code


@dataclass(frozen=True)
class Explanation:
    """The advice for a schedule, the most helpful first.

    ``measured`` is the time of the kernel, if arrays were given. ``bound`` says that memory bounds
    the kernel, if it does. ``unknown`` are the names of functions of :func:`~schedlang.extern`,
    whose time the estimate leaves out. ``scope`` says what kind of advice there is for a GPU.
    ``loops`` are sentences on short sums that stay loops, whose copies the registers cannot hold,
    on parallel loops whose iterations wait for the memory after few bytes, and on products whose
    loops are too split for the instruction that computes them.

    The effects are predictions of the estimate by which the tuner ranks candidates, with four facts
    added that matter to a schedule that is not tuned. LLVM vectorizes plain innermost loops of
    adjacent elements by itself, also around a filter that is small enough to be unrolled, but does
    not reorder a sum of floats. The reads of a stencil, such as ``H[i]`` and ``H[i + 1]``, find
    most of their lines in the cache. A parallel loop has the threads of numba, or for C the threads
    of OpenMP (``OMP_NUM_THREADS``). It never promises more than the cores that the threads have to
    themselves: two hardware threads of one core count once, and the limit of a container counts.
    And all cores share one memory: for a kernel that waits for it, ``parallel`` promises at most
    the square root of the number of threads.
    """

    name: str
    advice: tuple[Advice, ...]
    measured: Evaluation | None = None
    bound: str = ""
    unknown: tuple[str, ...] = ()
    scope: str = ""
    loops: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = self.name if self.measured is None else f"{self.name}: {self.measured}"
        listed = [f"{n}. {one}" for n, one in enumerate(self.advice, 1)] or [NOTHING]
        notes = filter(None, [*self.loops, self.bound, self._left_out, self.scope])
        return "\n".join([head, *listed, *notes])

    @property
    def _left_out(self) -> str:
        """A sentence about the functions of users."""
        if not self.unknown:
            return ""
        names, them = names_text(self.unknown), "them" if len(self.unknown) > 1 else "it"
        return f"The estimate leaves out {names}: schedlang cannot look into {them}."

    def _repr_html_(self) -> str:
        listed = "".join(
            f'<div class="head">{n}. {escape(one.sentence)}</div>{listing(one.code, f"step {n}")}'
            for n, one in enumerate(self.advice, 1)
        )
        others = [] if self.advice else [(self.name, NOTHING)]
        others += [("loops", text) for text in self.loops]
        others += [("bound", self.bound)] if self.bound else []
        others += [("unknown", self._left_out)] if self.unknown else []
        others += [("scope", self.scope)] if self.scope else []
        return fragment(listed + (facts(others) if others else ""))


ON_GPUS = (
    "On a GPU, explain looks only for products that lack an instruction such as dp4a: "
    "sl.autoschedule(C, target) and sl.autotune(C, target) choose all other steps."
)
NOTHING = "No single step helps by the estimate. sl.autotune tries many together, and times them."


@public
def explain(what: Any, *arrays: Any, target: Any = None) -> Explanation:
    """Return what holds a kernel back, and for each reason the step that helps most.

    ``what`` is a schedule or a kernel. On a GPU, the only reasons are products that lack an
    instruction, such as ``dp4a``. Each reason comes from the loop nest and names
    its evidence. Its step has been tried on a copy of the schedule, and is listed only if the
    estimate promises at least 5 percent (see :func:`~schedlang.next_steps`): measure the result.
    With ``arrays``, the arguments of a call, the kernel is timed by :func:`~schedlang.evaluate`.

    Raise :class:`~schedlang.errors.CallTypeError` for anything else, for a GPU of which no
    instructions are known, and for arrays without a kernel,
    :class:`~schedlang.errors.LoweringError` for a schedule that cannot be lowered, and
    :class:`~schedlang.errors.BuildError` for a target whose tactics are not a registry, and for a
    schedule that a GPU cannot run.

    >>> import schedlang as sl
    >>> A, B = (sl.placeholder((256, 256), name=n) for n in "AB")
    >>> k = sl.reduce_axis(256, name="k")
    >>> C = sl.compute((256, 256), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> explanation = sl.explain(sl.schedule(C), target=sl.Target("cpu", vector_bytes=32))
    >>> advice = next(a for a in explanation.advice if "stride" in a.text)
    >>> print(advice.text)
    the inner loop k accesses B[k, j] with a stride of 1,024 B: each access is in a cache line of \
its own
    >>> print(advice.code.splitlines()[-1])
    s[C].vectorize(j_inner)
    """
    kernel = what if isinstance(what, Kernel) else None
    s = what if isinstance(what, Schedule) else None if kernel is None else kernel.schedule
    where = Target.of(target) if kernel is None else kernel.target
    if s is not None:
        check_instructions("explain", where)
    gpu = where.facts.binds_threads
    if s is None or not (gpu or where.facts.ordered):
        raise CallTypeError(
            message(
                f"explain({type(what).__name__})",
                "it explains schedules and kernels",
                "Give the schedule of one of its kernels: net.kernels[0].schedule."
                if hasattr(what, "kernels") and hasattr(what, "partition")
                else "Give a schedule, or a kernel that sl.build made from one.",
            )
        )
    if arrays and kernel is None:
        raise CallTypeError(
            message(
                "explain(schedule, arrays)",
                "a schedule is not called",
                "Give the kernel: explain(sl.build(s), *arrays).",
            )
        )
    measured = evaluate(kernel, *arrays) if kernel is not None and arrays else None
    steps = next_steps(s, where)
    nest = lower_quietly(s)
    reasons = list(findings(nest, where))
    advice = [_advice(finding, steps) for finding in reasons]
    ranked = _rank([one for one in advice if one is not None])
    bound, unknown = "" if gpu else _bound(predict_here(nest, where)), functions_of(s.outputs)
    names = tuple(dict.fromkeys(function.name for function in unknown))
    scope = ON_GPUS if gpu else ""
    late = _without_a_step(reasons, s, where)
    loops = (*loops_kept(nest, where), *fences(nest, where), *late)
    return Explanation(s.outputs[0].op.name, ranked, measured, bound, names, scope, loops)


def _bound(now: Prediction) -> str:
    """Return that memory bounds a kernel and what helps then; "" if it does not."""
    if now.memory < BOUND * now.seconds or not now.seconds:
        return ""
    return (
        f"By the estimate, {now.memory / now.seconds:.0%} of the time is spent on reading and "
        "writing memory, which all cores share. What moves fewer bytes helps: stages computed "
        "where they are read, smaller dtypes."
    )


def _advice(finding: Finding, steps: Sequence[NextStep]) -> Advice | None:
    """Return the finding with the best of the steps that fit it, if that is worth it.

    Vectors that the schedule asks for come before an order in which LLVM may find them itself.
    """
    fit = [
        step
        for step in steps
        if step.primitive in finding.primitives and finding.stage in ("", step.stage)
    ]
    if not fit or fit[0].speedup < WORTH:
        return None
    about_as_good = [step for step in fit if step.speedup >= ALIKE * fit[0].speedup]
    vectors = [step for step in about_as_good if step.primitive == "vectorize"]
    return Advice(finding.text, (vectors or about_as_good)[0], finding.primitives)


def _without_a_step(reasons: Sequence[Finding], s: Schedule, target: Target) -> list[str]:
    """Return a sentence for each product whose loops are too split for its instruction's step."""
    late = [reason for reason in reasons if TENSORIZE in reason.primitives]
    stages = set(beyond_steps(s, target)) if late else set()
    return [
        f"{reason.text[0].upper()}{reason.text[1:]}. Its loops are split or annotated already, and "
        f"the step for it takes whole ones: begin with that step (sl.next_steps of the schedule "
        "without these), or let sl.autoschedule choose all steps."
        for reason in late
        if reason.stage in stages
    ]


def _rank(advice: Sequence[Advice]) -> tuple[Advice, ...]:
    """Return the advice by its effect; of several with one step, only the first."""
    best: dict[str, Advice] = {}
    for one in sorted(advice, key=lambda a: -a.step.speedup):
        best.setdefault(one.step.code, one)
    return tuple(best.values())


__all__ = ["Advice", "Explanation", "explain"]
