"""Primitives that annotate loops: vectorize, unroll, parallel, bind, pragma, prefetch."""

from __future__ import annotations

import difflib
import math
import re
from textwrap import indent
from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.errors import subscript
from schedlang.expr.nodes import Axis, Expr
from schedlang.state.atomics import DTYPES, meets_across_threads, operation
from schedlang.state.prefetches import concurrent_loop, is_inside
from schedlang.state.primitives.arguments import (
    check_unannotated,
    count,
    leaf_position,
    names,
    shown_thread,
    text_of,
)
from schedlang.state.primitives.conflicts import without_conflict
from schedlang.state.primitives.primitive import Primitive
from schedlang.state.primitives.refusal import refuse
from schedlang.state.primitives.scan_loops import check_around_time, computes_box, refuse_time
from schedlang.state.relations import Relation, Split, parts, sources
from schedlang.state.scattered import apart, overwrites, scatters, update_loops
from schedlang.state.serpentine import is_serpentine
from schedlang.state.state import (
    EFFECTIVE,
    IMPORTS,
    NONTEMPORAL,
    REFUSED_PRAGMAS,
    SERPENTINE,
    TE_PRAGMAS,
    TENSORIZE,
    THREADS,
    Inline,
    Prefetch,
    Result,
    Stage,
    State,
    participle,
)

MOST_UNROLLED = 1024
# partial results that a message proposes: a vector of float32 with AVX-512, or parts for threads
MOST_PARTS = 16
VALUES = "Give a finite number, one line of text, or no value."
_PRAGMA = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*", re.ASCII)


def _extent_hint(stage: Stage, axis: Axis, threads: int) -> str:
    """Return a hint for a loop whose extent is not ``threads``.

    It shows the split to make, or why a split with that factor made a shorter loop.
    """
    for relation in stage.relations:
        if isinstance(relation, Split) and any(a is axis for a in (relation.outer, relation.inner)):
            asked = relation.nparts if axis is relation.outer else relation.factor
            if asked == threads:
                parent = relation.parent
                return (
                    f"It comes from a split of {parent.name}, which has only {parent.extent} "
                    f"iterations: use a thread axis of extent {axis.extent}."
                )
    return f"Split it with nparts={threads} or factor={threads}."


def with_kind(state: State, stage: Stage, axis: Axis, kind: str) -> Result:
    if stage.kinds.get(axis) == kind and kind != TENSORIZE:
        # te programs annotate a loop twice
        return state, None
    if stage.is_scan and axis.kind != "scan":
        check_around_time(state, stage, axis, kind)
    check_unannotated(state, stage, axis)
    _refuse_mixed_targets(state, stage, axis, kind)
    after = state.updated(stage.with_(kinds={**stage.kinds, axis: kind}))
    return without_conflict(after, state, stage.name, axis), None


def _refuse_mixed_targets(state: State, stage: Stage, axis: Axis, kind: str) -> None:
    """Refuse a schedule with both CPU threads and GPU threads, which no target has."""
    if kind in ("vectorize", "unroll", TENSORIZE):
        return
    for other in state.stages.values():
        for own, other_kind in other.kinds.items():
            if other_kind in ("vectorize", "unroll", TENSORIZE) or (other_kind == "parallel") == (
                kind == "parallel"
            ):
                continue
            mine, theirs = ("CPU", "GPU") if kind == "parallel" else ("GPU", "CPU")
            refuse(
                f"{axis.name} would run on the threads of a {mine}, and {own.name} of "
                f"{other.name} runs on the threads of a {theirs}; no target has both",
                "Use parallel for a CPU, bind for a GPU.",
                state,
                axis,
            )


def _refuse_reduction(state: State, stage: Stage, axis: Axis, what: str) -> None:
    if axis.kind == "scan":
        refuse_time(stage, axis, what)
    if not axis.is_reduce:
        return
    if scatters(stage.op):
        refuse_meeting_updates(state, stage, axis, what)
        return
    data = names(a for a in stage.leaf if not a.is_reduce and a not in stage.kinds)
    instead = f"Use a data axis instead ({data}), or make" if data else "Make"
    refuse(
        f"{axis.name} is a reduction axis, so all its {what} would add into the same element.",
        f"{instead} partial sums before any other step on {stage.name}:\n"
        f"{indent(_partial_sums(stage, axis, _pieces(axis, what)), '    ')}",
        state,
        axis,
    )


def _pieces(axis: Axis, what: str) -> str:
    """Return the argument of a split that leaves an axis in the form of partial results.

    These are as many as the lanes of a vector, or as the parts of a loop for threads.
    """
    extent = axis.extent if isinstance(axis.extent, int) else MOST_PARTS**2
    count = next((n for n in (MOST_PARTS, MOST_PARTS // 2, 4) if n * n <= extent), 2)
    return f"factor={count}" if what == "lanes" else f"nparts={count}"


def _refuse_symbolic(state: State, stage: Stage, axis: Axis, does: str) -> None:
    if computes_box(state, stage):
        # the region computed there may have a constant size, which lowering checks
        return
    if isinstance(axis.extent, Expr):
        refuse(
            f"the extent of {axis.name}, {axis.extent}, is known only at run time, {does}",
            f"Split it first: outer, inner = {subscript(stage.name)}"
            f".split({axis.name}, factor=8).\n"
            "Or first attach the stage at a loop where it computes a region of fixed size.",
            state,
            axis,
        )


def vectorize(state: State, stage: Stage, axis: Axis) -> Result:
    leaf_position(state, stage, axis)
    _refuse_reduction(state, stage, axis, "lanes")
    _refuse_symbolic(state, stage, axis, "and a vector has a fixed number of lanes")
    return with_kind(state, stage, axis, "vectorize")


def unroll(state: State, stage: Stage, axis: Axis) -> Result:
    leaf_position(state, stage, axis)
    _refuse_symbolic(state, stage, axis, "and an unrolled loop is written out")
    declared = axis.extent if not computes_box(state, stage) else 0
    if isinstance(declared, int) and declared > MOST_UNROLLED:
        refuse(
            f"{axis.extent} copies of the body would not compile in reasonable time",
            "Split it and unroll the inner loop.",
            state,
            axis,
        )
    return with_kind(state, stage, axis, "unroll")


def parallel(state: State, stage: Stage, axis: Axis) -> Result:
    leaf_position(state, stage, axis)
    _refuse_reduction(state, stage, axis, "iterations")
    return with_kind(state, stage, axis, "parallel")


def bind(state: State, stage: Stage, axis: Axis, thread: Any) -> Result:
    tag = thread.tag if isinstance(thread, Axis) else thread
    leaf_position(state, stage, axis)
    if not isinstance(tag, str) or tag not in (*THREADS, "vthread"):
        hint = f"Choose one of {', '.join(THREADS)}, vthread."
        refuse(f"{shown_thread(thread)} is not a thread", hint)
    if axis.kind == "scan":
        refuse_time(stage, axis, "iterations")
    if tag.startswith("threadIdx"):
        _refuse_symbolic(state, stage, axis, "and the size of a block is fixed")
    elif not _updates_atomically(stage, axis, tag):
        _refuse_reduction(state, stage, axis, "iterations")
    if _updates_atomically(stage, axis, tag):
        _refuse_atomic(state, stage.with_(kinds={**stage.kinds, axis: tag}), axis)
    if stage.kinds.get(axis) != tag:
        check_unannotated(state, stage, axis)
    bound = (a for a, k in stage.kinds.items() if k == tag and tag != "vthread")
    other = next((a for a in bound if not _in_other_nest(stage, a, axis)), None)
    if other is not None and other is not axis:
        refuse(
            f"{other.name} of this stage is already bound to {tag}",
            f"Bind {axis.name} to another thread, or fuse the two loops and bind the result.",
            state,
            axis,
        )
    if isinstance(thread, Axis) and isinstance(thread.extent, int) and thread.extent > 0:
        if isinstance(axis.extent, int) and axis.extent != thread.extent:
            refuse(
                f"{axis.name} has {axis.extent} iterations, but {tag} has {thread.extent} threads",
                _extent_hint(stage, axis, thread.extent),
                state,
                axis,
            )
    return with_kind(state, stage, axis, str(tag))


def _updates_atomically(stage: Stage, axis: Axis, tag: str) -> bool:
    """Return whether the threads of ``axis`` may update one element, by atomic operations."""
    return tag in THREADS and axis.is_reduce and scatters(stage.op)


def _refuse_atomic(state: State, stage: Stage, axis: Axis) -> None:
    """Refuse threads that update one element by a combiner that has no atomic operation."""
    op = stage.op
    if not scatters(op) or op.reducer is None or not meets_across_threads(stage, axis):
        return
    if overwrites(stage):
        refuse(
            f"several threads of {axis.name} may update the same element, and the last update in "
            "the order of the domain must remain",
            f"Keep {axis.name} serial.",
            state,
            axis,
        )
    if operation(op.reducer) is None:
        kinds = ", ".join(v.dtype for v in op.reducer.lhs)
        copies = indent(_private_copies(stage, axis, "threads"), "    ")
        refuse(
            f"several threads of {axis.name} may update the same element, and no atomic operation "
            f"combines by {op.reducer.name} in {kinds}",
            f"Atomic are sum, prod, min and max of {', '.join(DTYPES)}. Cast the value, or give "
            f"each part of the domain a copy of its own:\n{copies}",
            state,
            axis,
        )


def _in_other_nest(stage: Stage, a: Axis, b: Axis) -> bool:
    """Return whether one loop only initializes a scatter, and the other only updates it."""
    own = stage.scattered_leaves
    return (a in own and b.is_reduce) or (b in own and a.is_reduce)


def pragma(state: State, stage: Stage, axis: Axis, name: str, value: Any = None) -> Result:
    leaf_position(state, stage, axis)
    if not isinstance(name, str) or not _PRAGMA.fullmatch(name):
        refuse("the name of a pragma may contain only letters, digits, _ and dots")
    if name in REFUSED_PRAGMAS:
        refuse(
            "te leaves out the loops with this pragma, and here they would run",
            "Leave the pragma out, or write a computation without these loops.",
        )
    if name in IMPORTS:
        if not isinstance(value, str) or not value.strip():
            refuse(
                f"{name!r} brings code, and the value is {text_of(value)}",
                "Give the text of C source for 'import_c', of LLVM's code for 'import_llvm'.",
            )
        return state.updated(stage.with_(pragmas=(*stage.pragmas, (axis, name, value)))), None
    if name not in (*EFFECTIVE, *TE_PRAGMAS) and "." not in name:
        refuse(
            f"no target knows {name!r}{_pragma_hint(name)}",
            f"{NONTEMPORAL!r} and {SERPENTINE!r} have an effect; te's "
            f"{', '.join(TE_PRAGMAS[:3])}, ... are accepted without effect.\n"
            f"The name of a pragma of your own contains a dot: 'my.{name}'.",
        )
    if hasattr(value, "__index__") and not isinstance(value, (bool, Expr)):
        value = int(value)
    if not isinstance(value, (type(None), bool, int, float, str)):
        refuse(f"the value {text_of(value)} is neither a number nor a string", VALUES)
    if isinstance(value, float) and not math.isfinite(value):
        refuse(f"the value {value} is not finite", VALUES)
    if isinstance(value, str) and not value.isprintable():
        refuse(f"the value {text_of(value)} is not one line of printable text", VALUES)
    if name in EFFECTIVE and value is not None:
        refuse(f"{name!r} takes no value", f"Leave out {text_of(value)}.")
    if name in EFFECTIVE and isinstance(stage.attach, Inline):
        lacks = "stores nothing" if name == NONTEMPORAL else "has no loops"
        refuse(
            f"{stage.name} is inlined and {lacks}",
            f"Call {subscript(stage.name)}.compute_root() first.",
        )
    if name == NONTEMPORAL and (stage.reduce_leaves or scatters(stage.op)):
        refuse(
            f"{stage.name} adds to what it stored before, which must stay in cache",
            f"Accumulate elsewhere and store once: s.cache_write({stage.name}, 'local').",
        )
    if name == SERPENTINE:
        return _serpentine(state, stage, axis)
    return state.updated(stage.with_(pragmas=(*stage.pragmas, (axis, name, value)))), None


def _serpentine(state: State, stage: Stage, axis: Axis) -> Result:
    if is_serpentine(stage, axis):
        refuse(f"{axis.name} has this pragma already", "Leave it out.", state, axis)
    if scatters(stage.op):
        refuse(
            f"{stage.name} is a scatter, whose updates keep their order",
            "Leave out the pragma: no loop of a scatter can go back and forth.",
            state,
            axis,
        )
    if axis.is_reduce or stage.is_scan:
        what = "steps of a scan" if stage.is_scan else "terms of a reduction"
        refuse(
            f"the iterations of {axis.name} are the {what}, which keep their order",
            "Give a loop over elements that are computed independently.",
            state,
            axis,
        )
    after = state.updated(stage.with_(pragmas=(*stage.pragmas, (axis, SERPENTINE, None))))
    return without_conflict(after, state, stage.name, axis), None


def _pragma_hint(name: str) -> str:
    names = {n: n for n in (*EFFECTIVE, *TE_PRAGMAS)}
    # names that other systems give to stores that bypass the cache, and to loops that turn around
    names |= dict.fromkeys(("stream", "streaming", "non_temporal", "nt"), NONTEMPORAL)
    names |= dict.fromkeys(("boustrophedon", "zigzag", "snake"), SERPENTINE)
    close = difflib.get_close_matches(name.lower(), names, 3)
    suggestions = list(dict.fromkeys(names[n] for n in close))
    return f"; did you mean {' or '.join(map(repr, suggestions))}?" if suggestions else ""


def prefetch(
    state: State, stage: Stage, tensor: Tensor, axis: Axis, offset: Any, at: Axis | None = None
) -> Result:
    leaf_position(state, stage, axis)
    if stage.is_scan:
        refuse(
            f"{stage.name} is a scan, which reads nothing itself",
            "Prefetch in the stage of its update.",
        )
    behind = (s for s in state.stages.values() if state.dependences.depends(stage.name, s.name))
    touched = (t for s in (stage, *behind) for t in (*s.op.input_tensors, *s.outputs))
    if not any(t is tensor for t in touched):
        read = names(stage.op.input_tensors) or "nothing"
        why = f"neither {stage.name} nor the stages it reads use {text_of(tensor)}"
        refuse(why, f"It reads {read} and writes {names(stage.outputs)}.")
    producer = state.of(tensor)
    if producer is not None and isinstance(producer.attach, Inline):
        refuse(
            f"{text_of(tensor)} is inlined, so nothing is stored to prefetch",
            f"Prefetch what it reads: {names(producer.op.input_tensors)}.",
        )
    ahead = count(offset, "offset", 0)
    hint = Prefetch(tensor, axis, ahead, axis if at is None else at)
    if at is not None:
        _check_shared(state, stage, hint)
    after = state.updated(stage.with_(prefetches=(*stage.prefetches, hint)))
    return without_conflict(after, state, stage.name, axis), None


def _check_shared(state: State, stage: Stage, hint: Prefetch) -> None:
    """Refuse loops whose iterations cannot share a prefetch."""
    axis, at = hint.axis, hint.at
    leaf_position(state, stage, at)
    if not is_inside(stage, hint):
        refuse(
            f"at={at.name} is a loop outside of {axis.name}, so it has one iteration for each "
            f"run of {axis.name}",
            f"Give a loop inside of {axis.name}, or leave out `at`.",
            state,
            axis,
        )
    scattered = next((a for a in hint.loops if any(a is x for x in stage.scattered_leaves)), None)
    if scattered is not None:
        refuse(
            f"{scattered.name} only initializes the scatter {stage.name}: its updates have no such "
            "loop",
            "Give loops of the updates, or leave out `at`.",
            state,
            scattered,
        )
    loop = concurrent_loop(stage, hint)
    if loop is not None:
        refuse(
            f"{loop.name} is {participle(stage.kinds[loop])}: its iterations run at once, and "
            "cannot take the lines in order",
            "Give a loop around it, or an `axis` inside of it.",
            state,
            loop,
        )


def refuse_meeting_updates(state: State, stage: Stage, axis: Axis, what: str) -> None:
    """Refuse concurrent iterations of a scatter's loop that may update the same element."""
    if apart(stage, axis):
        return
    free = names(a for a in update_loops(stage) if not a.is_reduce)
    hint = f"Use a loop whose iterations update different elements ({free})" if free else ""
    rest = tuple(a for a in stage.leaf if a is not axis)
    if apart(stage.with_(leaf=(*rest, axis)), axis):
        inside = names(a for a in rest[stage.leaf.index(axis) :] if a.is_reduce)
        hint = f"Call reorder first, so that {axis.name} is inside of {inside}"
    if overwrites(stage):
        refuse(
            f"several {what} of {axis.name} may update the same element, and the last update in "
            "the order of the domain must remain",
            f"{hint}, or keep {axis.name} serial." if hint else f"Keep {axis.name} serial.",
            state,
            axis,
        )
    copies = indent(_private_copies(stage, axis, what), "    ")
    refuse(
        f"several {what} of {axis.name} may update the same element of {stage.name} at once",
        f"{hint + ', or give' if hint else 'Give'} each part of the domain a copy of its own "
        f"before any other step on {stage.name}:\n{copies}",
        state,
        axis,
    )


def _private_copies(stage: Stage, axis: Axis, what: str) -> str:
    """Return statements that make private copies of a scatter, and update them in parallel."""
    steps = _partial_sums(stage, axis).splitlines()
    tensor = _identifier(stage.outputs[0].name)
    number = next((n for n, a in enumerate(stage.op.reduce_axis) if a is axis), None)
    if number is not None:
        part = f"s[{tensor}].op.reduce_axis[{number}]"
        steps[:-1] = [f"outer, inner = s[{tensor}].split({part}, nparts=16)"]
        steps[-1] = steps[-1].replace(part, "outer")
    copy = steps[-1].split(" = ")[0].split(", ")[0]
    parallel = [f"s[{copy}].parallel(s[{copy}].op.axis[0])"] if what == "iterations" else []
    return "\n".join([*steps, *parallel])


def _partial_sums(stage: Stage, axis: Axis, pieces: str = "") -> str:
    """Return statements that factor ``stage`` into partial results along reduction ``axis``.

    An axis that is not part of another one is split by ``pieces`` first: a partial result for each
    of its iterations would be a copy of what is reduced.
    """
    names = [_identifier(t.name) for t in stage.outputs]
    several = len(names) > 1 and stage.op.name != stage.outputs[0].name
    tensor = f"[{', '.join(names)}]" if several else _identifier(stage.name)
    own = f"s[{names[0] if several else tensor}]"
    spelling = {a: f"{own}.op.reduce_axis[{n}]" for n, a in enumerate(stage.op.reduce_axis)}
    needed, chain = {axis}, list[Relation]()
    for relation in reversed(stage.relations):
        if needed & set(parts(relation)):
            needed |= set(sources(relation))
            chain.insert(0, relation)
    lines = []
    for relation in chain:
        operands = [spelling[a] for a in sources(relation)]
        call = "fuse"
        if isinstance(relation, Split):
            call, how = "split", "factor" if relation.factor is not None else "nparts"
            operands.append(f"{how}={relation.factor or relation.nparts}")
        results = {a: _identifier(a.name) for a in parts(relation)}
        spelling |= results
        lines.append(f"{', '.join(results.values())} = {own}.{call}({', '.join(operands)})")
    factored = spelling[axis]
    if pieces and not any(isinstance(r, Split) and axis in parts(r) for r in chain):
        outer, inner = f"{_identifier(axis.name)}_outer", f"{_identifier(axis.name)}_inner"
        lines.append(f"{outer}, {inner} = {own}.split({factored}, {pieces})")
        factored = inner if pieces.startswith("factor") else outer
    made_tensor = ", ".join(f"{n}F" for n in names) if several else f"{tensor}F"
    return "\n".join([*lines, f"{made_tensor} = s.rfactor({tensor}, {factored})"])


def _identifier(name: str) -> str:
    return name.replace(".", "_")


PRIMITIVES = {
    "vectorize": Primitive(vectorize),
    "unroll": Primitive(unroll),
    "parallel": Primitive(parallel),
    "bind": Primitive(bind),
    "pragma": Primitive(pragma, keeps_loops=True),
    "prefetch": Primitive(prefetch, ("at",), keeps_loops=True),
}
