"""Placement of stages: the loop at which each stage is computed and stored, and the legal ones."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Union

from schedlang.compute.read import reads
from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.errors import explain, subscript
from schedlang.expr.nodes import Axis
from schedlang.state.relations import position
from schedlang.state.serpentine import is_serpentine
from schedlang.state.state import (
    SERPENTINE,
    At,
    Attach,
    Inline,
    Root,
    Stage,
    State,
    participle,
)


@dataclass(frozen=True)
class Problem:
    """An inconsistency of a recorded schedule, raised by build and printed as a note."""

    message: str
    stage: str


@dataclass(frozen=True)
class Placement:
    """The resolved placement of all stages.

    ``at`` lists the stages computed at a loop, producers first. ``inline`` maps inlined tensors
    to the operations to expand. ``store`` maps a stage to the place where it is stored, if that
    is outside the loop that computes it; ``kept`` lists the stages stored at a loop. ``steps`` maps
    the stages between the states of a scan and its updates to the scan's loop over time.
    """

    attach: Mapping[str, Attach]
    at: Mapping[tuple[str, Axis], tuple[Stage, ...]]
    inline: Mapping[Tensor, ComputeOp]
    problems: tuple[Problem, ...]
    store: Mapping[str, Union[At, Root]]
    kept: Mapping[tuple[str, Axis], tuple[Stage, ...]]
    steps: Mapping[str, At]


def place(state: State, given: Container[Tensor] = ()) -> Placement:
    """Resolve the attachment of every stage.

    A stage with an illegal attachment is placed at root and reported. ``given`` are the arguments:
    an inlined stage among them is also stored, at root.
    """
    attach: dict[str, Attach] = {n: s.attach for n, s in state.stages.items()}
    scan_loops = _attach_scans(state, attach)
    readers = effective_readers(state, given)
    problems: list[Problem] = []
    for name in reversed(list(state.stages)):
        stage, loop = state.stages[name], attach[name]
        if isinstance(loop, At):
            why = _refusal(state, attach, readers, stage, loop)
            if why is not None:
                problems.append(Problem(why, name))
                attach[name] = scan_loops.get(name, Root())
    store, stored = _storage_places(state, attach, problems)
    parts = _scan_parts(state)
    at: dict[tuple[str, Axis], list[Stage]] = {}
    inline: dict[Tensor, ComputeOp] = {}
    for name, stage in state.stages.items():
        loop = attach[name]
        if isinstance(loop, At) and name not in parts:
            at.setdefault((loop.stage, loop.axis), []).append(stage)
        elif isinstance(loop, Inline) and isinstance(stage.op, ComputeOp):
            inline.update((t, stage.op) for t in stage.outputs)
    placed = {key: tuple(stages) for key, stages in at.items()}
    return Placement(attach, placed, inline, tuple(problems), store, stored, scan_loops)


Kept = dict[tuple[str, Axis], tuple[Stage, ...]]


def _storage_places(
    state: State, attach: Mapping[str, Attach], problems: list[Problem]
) -> tuple[dict[str, Union[At, Root]], Kept]:
    """Return the places of stages that are stored outside the loop that computes them.

    A stage that cannot be stored there is reported.
    """
    store: dict[str, Union[At, Root]] = {}
    stored: Kept = {}
    for name, stage in state.stages.items():
        loop, storage = attach[name], stage.store
        if storage is None or not isinstance(loop, At) or loop is not stage.attach:
            continue
        if isinstance(storage, At) and storage.stage == loop.stage and storage.axis is loop.axis:
            continue
        why = _store_refusal(state, attach, stage, loop, storage)
        if why is not None:
            problems.append(Problem(why, name))
            continue
        store[name] = storage
        if isinstance(storage, At):
            key = (storage.stage, storage.axis)
            stored[key] = (*stored.get(key, ()), stage)
    return store, stored


def store_refusal(state: State, stage: Stage) -> str | None:
    """Return why ``stage`` cannot be stored at its place, given the present attachments.

    A place that later attachments may make legal is not refused.
    """
    loop, storage = stage.attach, stage.store
    if storage is None or not isinstance(loop, At):
        return None
    if isinstance(storage, At) and encloses(state, storage, loop) is None:
        return None
    if isinstance(storage, At) and storage.stage == loop.stage and storage.axis is loop.axis:
        return None
    attach = {name: other.attach for name, other in state.stages.items()}
    return _store_refusal(state, attach, stage, loop, storage)


def _store_refusal(
    state: State, attach: Mapping[str, Attach], stage: Stage, loop: At, wanted: At | Root
) -> str | None:
    call = "store_root()"
    if isinstance(wanted, At):
        call = f"store_at({wanted.stage}, {wanted.axis.name})"
    asked = f"{call} on stage {stage.name}"
    is_reached = False
    for owner, axis in enclosing(state, attach, loop):
        is_reached = is_reached or (
            isinstance(wanted, At) and wanted.stage == owner and wanted.axis is axis
        )
        kind = state.stages[owner].kinds.get(axis, "")
        if is_reached and stage.scope != "shared":
            return None
        if is_reached and kind.startswith("threadIdx"):
            return explain(
                asked,
                f"{stage.name} has scope shared, but there each thread of {axis.name} "
                f"({kind}) of {owner} would need rows of its own",
                f"Store it outside {axis.name}, or call {subscript(stage.name)}"
                '.set_scope("local").',
            )
        if not is_reached and kind not in ("", "unroll"):
            return explain(
                asked,
                f"{stage.name} is computed inside {axis.name} of {owner}, which is "
                f"{participle(kind)}, so iterations that run at the same time would write the same "
                "storage",
                f"Store it inside {axis.name}, or keep {axis.name} serial.",
            )
        if not is_reached and is_serpentine(state.stages[owner], axis):
            return explain(
                asked,
                f"{stage.name} is computed inside {axis.name} of {owner}, every other run "
                f'of which goes backwards by the pragma "{SERPENTINE}", and rows that are kept '
                "from one iteration to the next need one direction",
                f"Store it inside {axis.name}, or leave out the pragma.",
            )
    if is_reached or isinstance(wanted, Root):
        return None
    return explain(
        asked,
        f"{stage.name} is computed at {loop.axis.name} of {loop.stage}, which is not inside "
        f"{wanted.axis.name} of {wanted.stage}",
        f"Store it at {loop.axis.name} or at a loop around it.",
    )


def enclosing(state: State, attach: Mapping[str, Attach], loop: At) -> Iterator[tuple[str, Axis]]:
    """Yield ``(stage, axis)`` of the loops around a stage computed at ``loop``, inner to outer."""
    current: Attach = loop
    while isinstance(current, At):
        stage = state.stages[current.stage]
        apart = stage.scattered_leaves
        for axis in reversed(stage.leaf[: position(stage.leaf, current.axis) + 1]):
            if axis not in apart:
                yield current.stage, axis
        current = attach[current.stage]


def encloses(state: State, outer: At, inner: At) -> bool | None:
    """Return whether loop ``outer`` is ``inner`` or encloses it.

    Return ``None`` if that depends on where a stage that is still at root will be attached.
    """
    loop = inner
    while loop.stage != outer.stage:
        stage = state.stages[loop.stage]
        if isinstance(stage.attach, At):
            loop = stage.attach
            continue
        fixed = state.is_output(stage) or isinstance(stage.attach, Inline)
        later = not fixed and state.dependences.depends(outer.stage, stage.name)
        return None if later else False
    stage = state.stages[loop.stage]
    if outer.axis in stage.scattered_leaves:
        return outer.axis is loop.axis
    return position(stage.leaf, outer.axis) <= position(stage.leaf, loop.axis)


def _scans(state: State) -> list[Stage]:
    return [state.stages[name] for name in state.dependences.scans]


def _scan_parts(state: State) -> set[str]:
    """Return the stages that are the init or update of a scan, which the scan computes itself."""
    return {
        state.defined[t]
        for s in _scans(state)
        if isinstance(s.op, ScanOp)
        for t in (*s.op.update, *s.op.init)
    }


def _attach_scans(state: State, attach: dict[str, Attach]) -> dict[str, At]:
    """Attach updates, and the stages between states and updates, to their scan's time loop.

    The first rows are computed before it, inside of the data axes around it.
    """
    scan_loops: dict[str, At] = {}
    for stage in _scans(state):
        assert isinstance(stage.op, ScanOp)
        loop = At(stage.name, stage.time)
        first = next(k for k, a in enumerate(stage.leaf) if a.kind == "scan")
        around = At(stage.name, stage.leaf[first - 1]) if first else attach[stage.name]
        attach.update((state.defined[tensor], around) for tensor in stage.op.init)
        for tensor in stage.op.update:
            attach[state.defined[tensor]] = loop
        for name in _scan_steps(state, stage.op):
            scan_loops[name] = loop
            if isinstance(attach[name], Root):
                attach[name] = loop
    return scan_loops


def _scan_steps(state: State, scan: ScanOp) -> list[str]:
    """Return the stages between the states of ``scan`` and its updates."""
    rows = set(scan.state)
    dependent: dict[str, None] = {}
    for name, stage in state.stages.items():
        if isinstance(stage.op, ComputeOp):
            needed = stage.op.input_tensors
            if any(t in rows or state.defined.get(t) in dependent for t in needed):
                dependent[name] = None
    needed_by_updates = {state.defined[t] for t in scan.update}
    updates = set(needed_by_updates)
    for name in reversed(list(dependent)):
        if name in needed_by_updates:
            needed_by_updates.update(
                state.defined.get(t, "") for t in state.stages[name].op.input_tensors
            )
    return [n for n in dependent if n in needed_by_updates and n not in updates]


def effective_readers(state: State, given: Container[Tensor] = ()) -> dict[str, list[str]]:
    """Return the readers of each stage.

    An inlined reader is replaced by its own readers; one that is ``given`` also counts itself.
    """
    direct: dict[str, list[str]] = {n: [] for n in state.stages}
    for name, stage in state.stages.items():
        for tensor in stage.op.input_tensors:
            producer = state.defined.get(tensor)
            if producer is not None and name not in direct[producer]:
                direct[producer].append(name)
    through: dict[str, list[str]] = {}
    for name in reversed(list(state.stages)):
        readers: dict[str, None] = {}
        for reader in direct[name]:
            if isinstance(state.stages[reader].attach, Inline):
                readers.update(dict.fromkeys(through[reader]))
                if any(t in given for t in state.stages[reader].outputs):
                    readers.setdefault(reader)
            else:
                readers.setdefault(reader)
        through[name] = list(readers)
    return through


def inside(state: State, attach: Mapping[str, Attach], reader: str, stage: str, axis: Axis) -> bool:
    """Return whether ``reader`` is computed inside loop ``axis`` of ``stage``."""
    current = reader
    if current == stage:
        return True
    while True:
        loop = attach[current]
        if not isinstance(loop, At):
            return False
        leaf = state.stages[loop.stage].leaf
        if loop.stage == stage:
            return position(leaf, loop.axis) >= position(leaf, axis)
        current = loop.stage


def _refusal(
    state: State,
    attach: Mapping[str, Attach],
    readers: Mapping[str, list[str]],
    stage: Stage,
    loop: At,
) -> str | None:
    asked = f"compute_at({loop.stage}, {loop.axis.name}) on stage {stage.name}"
    parent = state.stages.get(loop.stage)
    if parent is None or not any(a is loop.axis for a in parent.leaf):
        return explain(
            asked,
            f"{loop.axis.name} is no longer a loop of {loop.stage}",
            "Attach it at one of the present loops.",
        )
    misplaced = outside_of_step(state, attach, stage, parent, loop.axis)
    if misplaced is not None:
        return explain(asked, *misplaced)
    around = (loop.stage, loop.axis)
    outside = [r for r in readers[stage.name] if not inside(state, attach, r, *around)]
    if outside:
        places = legal_places(state, attach, readers[stage.name], stage)
        # an inlined stage counts as a reader only if it is an argument
        stored = [r for r in outside if isinstance(state.stages[r].attach, Inline)]
        if stored:
            return explain(
                asked,
                f"{stored[0]} is inlined, but as an argument it is stored too, which reads "
                f"{stage.name} outside that loop",
                f"Leave {stored[0]} out of the arguments, or compute {stage.name} at root.",
            )
        return explain(
            asked,
            f"{' and '.join(outside)} read{'s' if len(outside) == 1 else ''} {stage.name} outside "
            "that loop",
            _with_readers(state, attach, readers, loop, outside, places_text(places)),
        )
    if starts_from(state, parent, stage) and not ahead_of_init(parent, loop.axis):
        late = (*parent.reduce_leaves, *parent.scattered_leaves)
        first = next(a.name for a in parent.leaf if a in late)
        return explain(
            asked,
            f"{parent.name} initializes its reduction from {stage.name} (init=) before the loop "
            f"over {first}",
            f"Attach it outside {first}, or leave it at root.",
        )
    if loop.axis in parent.scattered_leaves:
        return explain(
            asked,
            f"{loop.axis.name} is a loop that initializes {parent.name}, and the updates that read "
            f"{stage.name} are not inside it",
            places_text(legal_places(state, attach, readers[stage.name], stage)),
        )
    kind = parent.kinds.get(loop.axis, "")
    within = parent.leaf[: position(parent.leaf, loop.axis) + 1]
    lanes = next((a for a in within if parent.kinds.get(a) == "vectorize"), None)
    if kind == "vectorize" or lanes is not None:
        name = (loop.axis if lanes is None else lanes).name
        return explain(
            asked,
            f"{name} is vectorized, and a stage has no storage per lane",
            f"Attach it outside {name}, or vectorize a loop of {stage.name} instead.",
        )
    return None


def outside_of_step(
    state: State, attach: Mapping[str, Attach] | None, stage: Stage, parent: Stage, axis: Axis
) -> tuple[str, str] | None:
    """Return why no stage at loop ``axis`` of ``parent`` can compute ``stage``, and advice.

    A stage that reads states of a scan is computed in its steps, and a data axis of a scan inside
    of time has no loop in the nest. Without ``attach``, all stages are where ``state`` has them.
    """
    if axis in parent.in_step:
        why = f"{axis.name} is inside of the time of {parent.name}, whose update has the loop"
        return why, f"Attach it at {parent.time.name}, or reorder {axis.name} outside of it first."
    for scan in _scans(state):
        op = scan.op
        if not isinstance(op, ScanOp) or stage.name not in _scan_steps(state, op):
            continue
        # to place all stages takes long, and few computations have scans
        attach = place(state).attach if attach is None else attach
        within = parent is not scan and inside(state, attach, parent.name, scan.name, scan.time)
        if not within and axis is not scan.time:
            why = f"{stage.name} reads the states of {scan.name}, which computes it in each step"
            return why, f"Attach it at {scan.time.name}, or at a loop of a stage that reads it."
    return None


def starts_from(state: State, reader: Stage, child: Stage) -> bool:
    """Return whether the ``init=`` of ``reader`` reads ``child``, also through inlined stages."""
    op = reader.op
    pending = [] if not isinstance(op, ComputeOp) else [r.tensor for r in reads(op.init or ())]
    visited: set[Tensor] = set()
    while pending:
        tensor = pending.pop()
        producer = state.of(tensor)
        if producer is None or tensor in visited:
            continue
        if producer.name == child.name:
            return True
        visited.add(tensor)
        if isinstance(producer.attach, Inline):
            pending += producer.op.input_tensors
    return False


def ahead_of_init(stage: Stage, axis: Axis) -> bool:
    """Return whether loop ``axis`` of ``stage`` encloses the initialization of its reduction."""
    around, scattered = stage.leaf[: position(stage.leaf, axis) + 1], stage.scattered_leaves
    return not any(a.is_reduce or a in scattered for a in around)


def _with_readers(
    state: State,
    attach: Mapping[str, Attach],
    readers: Mapping[str, list[str]],
    loop: At,
    outside: list[str],
    otherwise: str,
) -> str:
    """Return the advice to compute the readers ``outside`` of ``loop`` in it too.

    It is ``otherwise`` alone unless all of them, and the stages that read them in turn, may be
    computed there.
    """
    joining, waiting = dict.fromkeys(outside), list(outside)
    while waiting:
        name = waiting.pop()
        if not _may_join(state, state.stages[name], loop):
            return otherwise
        others = [r for r in readers[name] if not inside(state, attach, r, loop.stage, loop.axis)]
        waiting += [r for r in others if r not in joining]
        joining.update(dict.fromkeys(others))
    place = f"{subscript(loop.stage)}, {loop.axis.name.replace('.', '_')}"
    calls = ", ".join(f"{subscript(name)}.compute_at({place})" for name in joining)
    otherwise = f"Without this step, {otherwise[0].lower()}{otherwise[1:]}"
    return f"Compute {' and '.join(joining)} in that loop too: {calls}.\n{otherwise}"


def _may_join(state: State, stage: Stage, loop: At) -> bool:
    """Return whether ``loop`` may compute ``stage``, wherever its readers are."""
    depends = state.dependences.depends
    in_scan = stage.is_scan or any(depends(scan, stage.name) for scan in state.dependences.scans)
    at_root = isinstance(stage.attach, Root) and not state.is_output(stage)
    return at_root and not in_scan and depends(loop.stage, stage.name)


def legal_places(
    state: State, attach: Mapping[str, Attach], readers: list[str], child: Stage | None = None
) -> list[tuple[str, str]]:
    """Return the names of :func:`legal_loops`, as pairs ``(stage, axis)``."""
    return [(stage, axis.name) for stage, axis in legal_loops(state, attach, readers, child)]


def legal_loops(
    state: State, attach: Mapping[str, Attach], readers: list[str], child: Stage | None = None
) -> list[tuple[str, Axis]]:
    """Return the loops that enclose all ``readers`` of ``child``, each with the stage it is of.

    The outermost comes first.
    """
    if not readers:
        return []
    chain: list[tuple[str, Axis]] = []
    current, last = readers[0], None
    while True:
        leaf = state.stages[current].leaf
        end = len(leaf) if last is None else position(leaf, last) + 1
        chain = [(current, a) for a in leaf[:end]] + chain
        loop = attach[current]
        if not isinstance(loop, At):
            break
        current, last = loop.stage, loop.axis
    legal = [(s, a) for s, a in chain if all(inside(state, attach, r, s, a) for r in readers)]
    if child is not None:
        started = {s for s, _ in legal if starts_from(state, state.stages[s], child)}
        legal = [(s, a) for s, a in legal if s not in started or ahead_of_init(state.stages[s], a)]
    return [(s, a) for s, a in legal if a not in state.stages[s].scattered_leaves]


def places_text(places: list[tuple[str, str]]) -> str:
    if not places:
        return "No loop encloses all its readers: leave it at root, or inline it."
    listed = ", ".join(f"({stage}, {axis})" for stage, axis in places)
    return f"Legal places, outermost first: root, {listed}."
