"""Demands of an exercise on a schedule: its steps, its loop nest, its counts, its speed."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from textwrap import dedent
from typing import Any

from schedlang.compute.graph import operations
from schedlang.compute.tensor import PlaceholderOp, Tensor
from schedlang.course.exercises.answer import Answer, answer_of
from schedlang.course.exercises.differences import Shortfall
from schedlang.course.exercises.inputs import in_order, parameter_names
from schedlang.course.exercises.speed import race
from schedlang.course.exercises.values import asked_for, word_for
from schedlang.errors import CallError, CallTypeError, amount, explain, nearest
from schedlang.expr.functions import FUNCTIONS
from schedlang.hints.explain import explain as advise
from schedlang.runtime.kernel import Kernel
from schedlang.schedule.schedule import Schedule
from schedlang.state.primitives.table import PRIMITIVES

# the most pieces of advice in a message
ADVICE = 2


def lacks_steps(answer: Answer, wanted: str | Sequence[str]) -> Shortfall | None:
    """Return the primitives that the schedule does not use, or not as often as they are named;
    ``None`` if it uses all."""
    asked, used = Counter(primitives(wanted, "has")), _used(answer)
    missing = [
        name if count == 1 else f"{name} {count} times"
        for name, count in asked.items()
        if used.count(name) < count
    ]
    if not missing:
        return None
    steps = f"its steps are {', '.join(used)}" if used else "it has no step"
    return Shortfall(f"the schedule of {answer.name} does not use {' or '.join(missing)}: {steps}")


def other_steps(answer: Answer, allowed: Sequence[str], start: Schedule | None) -> Shortfall | None:
    """Return the primitives that the schedule uses beside the allowed ones and
    the primitives of ``start``; ``None`` if there are none."""
    begun = [] if start is None else [step.primitive for step in start.steps]
    extra = [name for name in dict.fromkeys(_used(answer)) if name not in (*allowed, *begun)]
    if not extra:
        return None
    return Shortfall(
        f"the schedule of {answer.name} uses {' and '.join(extra)}; only {_listed(allowed)} "
        f"{'is' if len(allowed) == 1 else 'are'} allowed"
    )


def other_stages(outputs: Sequence[Tensor], wanted: int) -> Shortfall | None:
    """Return how many stages a computation has, if it should have another number of them."""
    count = sum(not isinstance(op, PlaceholderOp) for op in operations(outputs))
    if count == wanted:
        return None
    return Shortfall(f"{outputs[0].name} has {amount(count, 'stage')}; {asked_for(wanted)}")


def primitives(names: str | Sequence[str], option: str) -> list[str]:
    """Return names of primitives as a list; raise :class:`CallError` for an unknown one."""
    listed = [names] if isinstance(names, str) else list(names)
    for name in listed:
        if name not in PRIMITIVES:
            raise CallError(f"check({option}={name!r}): no primitive{nearest(name, PRIMITIVES)}")
    return listed


def _used(answer: Answer) -> list[str]:
    assert answer.schedule is not None
    return [step.primitive for step in answer.schedule.steps]


def _listed(names: Sequence[str]) -> str:
    """Return names with commas and "and".

    >>> _listed(["split"]), _listed(["split", "tile", "reorder"])
    ('split', 'split, tile and reorder')
    """
    return " and ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])


def other_nest(answer: Answer, wanted: str | Schedule) -> Shortfall | None:
    """Return how the loop nest differs from the wanted one; ``None`` if it is the same."""
    assert answer.kernel is not None
    ours, theirs = _lines(answer.kernel.loop_nest), _lines(wanted)
    if ours == theirs:
        return None
    diff_lines = difflib.unified_diff(theirs, ours, "wanted", "yours", lineterm="", n=2)
    lines = [line for line in diff_lines if not line.startswith("@@")]
    return Shortfall(f"the loop nest of {answer.name} is another one", "\n".join(lines))


def _lines(nest: Any) -> list[str]:
    lines = dedent(str(nest)).strip().splitlines()
    # a nest may be given without its first line, which has the arguments
    return [line.rstrip() for line in (lines[2:] if len(lines) > 1 and not lines[1] else lines)]


def wrong_counts(
    answer: Answer,
    arrays: Sequence[Any],
    exact: Mapping[str, int],
    most: Mapping[str, int],
    caches: Any,
    mistakes: Mapping[Any, str],
) -> tuple[Shortfall | None, list[str]]:
    """Return the first count that is not as demanded, and sentences about those that are."""
    assert answer.kernel is not None
    values = counts_of(answer, arrays, [*exact, *most], caches)
    notes = []
    for name, demanded in exact.items():
        ours = values[name]
        if ours != demanded:
            why = f"{answer.name} has {count_text(name, ours)}, not {demanded:,}"
            return Shortfall(why, word=word_for((ours,), mistakes)), []
        notes.append(count_text(name, ours))
    for name, limit in most.items():
        ours = values[name]
        if ours > limit:
            why = f"{answer.name} has {count_text(name, ours)}; at most {asked_for(limit)}"
            word = word_for((ours,), mistakes)
            return Shortfall(why, "" if word else _reason(answer.kernel, name), word), []
        notes.append(f"{count_text(name, ours)} (at most {limit:,})")
    return None, notes


def counts_of(
    answer: Answer, arrays: Sequence[Any], names: Sequence[str], caches: Any
) -> dict[str, int]:
    """Return the counts of these names for a call of the answer's kernel on ``arrays``."""
    assert answer.kernel is not None
    simulated = any(name[1:].isdigit() for name in names)
    ordered = answer.kernel.target.facts.ordered
    options = {"caches": caches if simulated else False} if ordered else {}
    counters = answer.kernel.counters(*answer.arguments(arrays), **options)
    return {name: count_in(counters, name) for name in names}


def count_text(name: str, count: int) -> str:
    """Return a count as text.

    >>> count_text("global_loads", 1), count_text("most_shared_reads", 1200), count_text("sin", 4)
    ('1 global load', '1,200 shared reads in one thread', '4 calls of sin')
    >>> count_text("vector", 12)
    '12 vector operations'
    """
    end = ""
    if name in FUNCTIONS:
        noun, end = "calls", f" of {name}"
    elif name[1:].isdigit():
        noun = f"{name} lines"
    elif name in ("scalar", "vector"):
        noun = f"{name} operations"
    else:
        noun = name.replace("_", " ")
        if noun.startswith("most "):
            noun, end = noun[len("most ") :], " in one thread"
    return f"{count:,} {noun[:-1] if count == 1 else noun}{end}"


def count_in(counters: Mapping[str, Any], name: str) -> int:
    """Return a count of the whole kernel: a field, ``L1`` to ``L3``, or a function as ``sin``."""
    total = getattr(counters, "total", None)
    if total is None:
        # of a GPU: by kernel; the busiest thread is one of some kernel
        join = max if name.startswith("most_") else sum
        kernels = list(counters.values())
        if not kernels or not hasattr(kernels[0], name):
            raise CallError(_unknown(name, vars(kernels[0]) if kernels else ()))
        return int(join(getattr(kernel, name) for kernel in kernels))
    if name[:1] == "L" and name[1:].isdigit():
        level = int(name[1:])
        if not 1 <= level <= len(total.lines):
            raise CallError(
                f"check(counts): {name} is not one of the {len(total.lines)} simulated caches"
            )
        return int(total.lines[level - 1])
    value = getattr(total, name, None)
    if isinstance(value, int):
        return value
    if value is not None:
        raise CallError(_unknown(name, vars(total)))
    # a function that is never called is counted 0 times
    if name not in FUNCTIONS:
        raise CallError(_unknown(name, vars(total)))
    return int(total.calls.get(name, 0))


def _unknown(name: str, known: Any) -> str:
    return explain(
        f"check(counts or most, {name!r})",
        f"no such count{nearest(name, known)}",
        "Counts are the fields of f.counters(...).total, L1 to L3, and functions such as sin.",
    )


def too_slow(
    answer: Answer, arrays: Sequence[Any], other: Any, times: float, topic: Sequence[str]
) -> tuple[Shortfall | None, list[str]]:
    """Return by how much the answer is too slow, or a sentence about its speed.

    Advice is about the primitives of ``topic``, or about all of them if it is empty.
    """
    assert answer.kernel is not None
    if answer.kernel.target.facts.timing != "host":
        raise CallError(
            explain(
                "check(faster_than=...)",
                "a CPU emulates the GPU, and its times say nothing",
                "Demand counts instead, as in most={'global_loads': 64}.",
            )
        )
    race_result = race(answer.call(arrays), rival_call(other, answer, arrays), times)
    if race_result.speedup >= times:
        return None, [str(race_result)]
    demand = "faster is" if times == 1 else f"{times:g} times is"
    return Shortfall(
        f"{answer.name} is {race_result}; {demand} asked for", _advice(answer.kernel, topic)
    ), []


def rival_call(other: Any, answer: Answer, arrays: Sequence[Any]) -> Callable[[], Any]:
    """Return the call of ``other`` with ``arrays``, which are in the order of the answer."""
    assert answer.kernel is not None
    rival = answer_of(other, answer.kernel.target)
    if rival is not None and rival.kernel is not None:
        return rival.call(in_order(arrays, answer.inputs, rival.inputs))
    if callable(other):
        ordered = in_order(arrays, answer.inputs, parameter_names(other))
        return lambda: other(*ordered)
    raise CallTypeError(
        f"check(faster_than={type(other).__name__}): give a schedule, a kernel or a function of "
        "the arrays"
    )


def _reason(kernel: Kernel, count: str) -> str:
    """Return the first advice of ``sl.explain`` that is about a count; "" if there is none."""
    if not kernel.target.facts.ordered:
        return ""
    if count[1:].isdigit():
        about = "cache"
    elif "load" in count:
        about = "load"
    elif "store" in count or count == "evaluations" or count in FUNCTIONS:
        # a stage that is computed again and again stores more values than it has elements
        about = "store"
    else:
        return ""
    return next((one.text for one in advise(kernel).advice if about in one.text), "")


def _advice(kernel: Kernel, topic: Sequence[str]) -> str:
    """Return what ``sl.explain`` says, without the code of its steps, which is the solution."""
    all_advice = advise(kernel).advice
    advice = [one for one in all_advice if not topic or one.primitives & set(topic)][:ADVICE]
    if not advice:
        return ""
    if topic:
        # neither the steps nor the page of sl.explain keep to the topic
        return "\n".join(one.text for one in advice)
    lines = [f"{one.text} (try {one.step.primitive})" for one in advice]
    return "\n".join([*lines, "print(sl.explain(s)) shows the steps."])
