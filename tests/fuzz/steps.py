"""Random steps of every primitive, most of them legal."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import schedlang as sl
from schedlang.compute.graph import placeholders
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp
from schedlang.state.placement import effective_readers, legal_places, place
from schedlang.state.primitives.products import OTHER_SIGN
from schedlang.state.state import At, Inline, Root
from tests.fuzz.derived import derived_instruction, is_lane

FACTORS = (1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 16)
THREADS = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread")


class Impossible(Exception):
    """Raised when a schedule has nothing to apply a primitive to."""


def pick(rng: Random, items: Any) -> Any:
    listed = list(items)
    if not listed:
        raise Impossible
    return rng.choice(listed)


def _stage(rng: Random, s: Any) -> Any:
    """Pick a stage, later ones more often."""
    stages = [v for v in s.stages if s.state.stages[v.name].leaf]
    return pick(rng, stages + stages[-2:])


def _axis(rng: Random, view: Any, reduce: bool | None = None) -> Any:
    return pick(rng, [a for a in view.leaf_axes if reduce is None or a.is_reduce == reduce])


def _split(rng: Random, s: Any) -> None:
    view = _stage(rng, s)
    tail = rng.choice(("auto", "auto", "auto", "guard", "cut", "cut"))
    how = {rng.choice(("factor", "factor", "nparts")): rng.choice(FACTORS)}
    view.split(_axis(rng, view), tail=tail, **how)


def _fuse(rng: Random, s: Any) -> None:
    view = _stage(rng, s)
    leaf = view.leaf_axes
    if rng.random() < 0.04:
        view.fuse(*leaf[: rng.choice((0, 1))])
        return
    pairs = [k for k in range(len(leaf) - 1) if leaf[k].is_reduce == leaf[k + 1].is_reduce]
    k = pick(rng, pairs)
    view.fuse(*leaf[k : k + rng.choice((2, 2, 2, 3))])


def _reorder(rng: Random, s: Any) -> None:
    view = _stage(rng, s)
    leaf = view.leaf_axes
    if len(leaf) < 2:
        raise Impossible
    view.reorder(*rng.sample(leaf, rng.randrange(2, len(leaf) + 1)))


def _tile(rng: Random, s: Any) -> None:
    view = _stage(rng, s)
    leaf = [a for a in view.leaf_axes]
    if len(leaf) < 2:
        raise Impossible
    x, y = rng.sample(leaf, 2)
    view.tile(
        x,
        y,
        rng.choice(FACTORS),
        rng.choice(FACTORS),
        tail=rng.choice(("auto", "auto", "guard", "cut")),
    )


def _vectorize(rng: Random, s: Any) -> None:
    view = _stage(rng, s)
    data = [a for a in view.leaf_axes if not a.is_reduce or _scatters(view)]
    if "vectorize" in s.state.stages[view.name].kinds.values() and rng.random() < 0.9:
        raise Impossible
    view.vectorize(pick(rng, data[-1:] * 4 + data))


def _unroll(rng: Random, s: Any) -> None:
    view = _stage(rng, s)
    view.unroll(_axis(rng, view))


def _parallel(rng: Random, s: Any) -> None:
    view = _stage(rng, s)
    data = [a for a in view.leaf_axes if not a.is_reduce or _scatters(view)]
    view.parallel(pick(rng, data[:1] * 3 + data))


def _bind(rng: Random, s: Any) -> None:
    view = _stage(rng, s)
    view.bind(_axis(rng, view, None if _scatters(view) else False), rng.choice(THREADS))


def _scatters(view: Any) -> bool:
    """Return whether concurrent iterations over the domain of a stage may be legal."""
    return isinstance(view.op, ComputeOp) and view.op.destination is not None


def _producers(s: Any) -> list[Any]:
    return [v for v in s.stages if not any(t in s.outputs for t in v.outputs)]


def _compute_at(rng: Random, s: Any) -> None:
    view = pick(rng, _producers(s))
    state = s.state
    if rng.random() < 0.9:
        stage = state.stages[view.name]
        placement = place(state.updated(stage.with_(attach=Root())))
        readers = effective_readers(state)[view.name]
        name, axis = pick(rng, legal_places(state, placement.attach, readers, stage))
        view.compute_at(s[name], pick(rng, [a for a in s[name].leaf_axes if a.name == axis]))
        return
    other = _stage(rng, s)
    view.compute_at(other, _axis(rng, other))


def _compute_inline(rng: Random, s: Any) -> None:
    found = [v for v in _producers(s) if isinstance(v.op, ComputeOp) and v.op.reducer is None]
    pick(rng, found).compute_inline()


def _compute_root(rng: Random, s: Any) -> None:
    pick(rng, s.stages).compute_root()


def _store_at(rng: Random, s: Any) -> None:
    state = s.state
    found = [v for v in s.stages if isinstance(state.stages[v.name].attach, At)]
    view = pick(rng, found)
    spot = state.stages[view.name].attach
    parent = s[spot.stage]
    leaf = parent.leaf_axes
    depth = next(k for k, a in enumerate(leaf) if a is spot.axis)
    # mostly not at its own loop, which would change nothing
    view.store_at(
        parent, pick(rng, leaf[: max(depth, 1)] if rng.random() < 0.9 else leaf[: depth + 1])
    )


def _store_root(rng: Random, s: Any) -> None:
    found = [v for v in s.stages if isinstance(s.state.stages[v.name].attach, At)]
    pick(rng, found).store_root()


def _cache_read(rng: Random, s: Any) -> None:
    stages = list(s.state.stages.values())
    tensors = list(
        {t: None for st in stages for t in st.op.input_tensors if isinstance(st.op, ComputeOp)}
    )
    tensor = pick(rng, tensors)
    readers = [
        st.name for st in stages if isinstance(st.op, ComputeOp) and tensor in st.op.input_tensors
    ]
    chosen = rng.sample(readers, rng.randrange(1, len(readers) + 1))
    s.cache_read(tensor, rng.choice(("local", "global", "shared")), [s[r] for r in chosen])


def _cache_write(rng: Random, s: Any) -> None:
    fresh = [
        v for v in s.stages if (st := s.state.stages[v.name]).leaf == st.roots and not st.kinds
    ]
    view = pick(rng, fresh)
    tensor = list(view.outputs) if len(view.outputs) > 1 and rng.random() < 0.5 else view.outputs[0]
    s.cache_write(tensor, rng.choice(("local", "global", "shared")))


def _rfactor(rng: Random, s: Any) -> None:
    found = [v for v in s.stages if any(a.is_reduce for a in v.leaf_axes)]
    view = pick(rng, found)
    s.rfactor(
        view.outputs[0], _axis(rng, view, reduce=True), rng.choice((0, 0, -1, len(view.op.axis)))
    )


def _pad_einsum(rng: Random, s: Any) -> None:
    view = pick(rng, _sums(s))
    s.pad_einsum(view.outputs[0], [rng.choice((1, 1, 2, 3, 4, 16)) for _ in view.leaf_axes])


def _shift_operand(rng: Random, s: Any) -> None:
    view = pick(rng, _sums(s))
    tensor = pick(rng, [t for t in view.op.input_tensors if t.dtype in OTHER_SIGN])
    s.shift_operand(view.outputs[0], tensor, OTHER_SIGN[tensor.dtype])


def _sums(s: Any) -> list[Any]:
    return [v for v in s.stages if isinstance(v.op, ComputeOp) and v.op.reducer is not None]


def _set_scope(rng: Random, s: Any) -> None:
    pick(rng, _producers(s)).set_scope(rng.choice(("global", "local", "shared")))


def _storage_align(rng: Random, s: Any) -> None:
    view = pick(rng, _producers(s))
    factor = rng.choice((2, 4, 8, 16))
    view.storage_align(pick(rng, view.op.axis), factor, rng.randrange(factor))


def _transform_layout(rng: Random, s: Any) -> None:
    view = pick(rng, _producers(s))
    axes = list(view.op.axis)
    rng.shuffle(axes)
    places: list[Any] = []
    for axis in axes:
        factor = rng.choice((1, 2, 4, 5))
        places += [axis] if factor == 1 else [axis // factor, axis % factor]
    if axes and places[0] is axes[0] and factor in (2, 4) and len(axes) > 1 and rng.random() < 0.7:
        # an axis that is whole tells its parts
        places[-1] ^= axes[0] // rng.choice((1, 3)) % factor
    rng.shuffle(places)
    view.transform_layout(lambda *_: tuple(places))


def _transform_argument(rng: Random, s: Any) -> None:
    """Divide dimensions and join their parts again, since the arrays have the tensor's shape."""
    tensor = pick(rng, [*placeholders(s.outputs), *s.outputs])
    factors = [rng.choice((1, 2, 4, 5)) for _ in tensor.shape]
    s.transform_argument(tensor, lambda *at: [a // f * f + a % f for a, f in zip(at, factors)])


def _double_buffer(rng: Random, s: Any) -> None:
    found = [v for v in _producers(s) if isinstance(s.state.stages[v.name].attach, At)]
    pick(rng, found or _producers(s)).double_buffer()


def _pipeline(rng: Random, s: Any) -> None:
    copies = [v for v in _producers(s) if isinstance(v.op, ComputeOp)]
    copies = [v for v in copies if all(isinstance(value, Read) for value in v.op.body)]
    pick(rng, copies).pipeline(rng.randint(2, 5))


def _prefetch(rng: Random, s: Any) -> None:
    view = _stage(rng, s)
    if not isinstance(view.op, ComputeOp):
        raise Impossible
    behind = [t for stage in s.stages for t in (*stage.op.input_tensors, *stage.op.outputs)]
    tensors = behind if rng.random() < 0.3 else [*view.op.input_tensors, *view.op.outputs]
    at = _axis(rng, view) if rng.random() < 0.4 else None
    view.prefetch(pick(rng, tensors), _axis(rng, view), rng.randrange(0, 4), at)


def _pragma(rng: Random, s: Any) -> None:
    view = _stage(rng, s)
    if rng.random() < 0.6:
        # a loop that turns around needs a serial one around it
        axis, stage = _axis(rng, view), s.state.stages[view.name]
        outer = stage.leaf[: stage.leaf.index(axis)] if axis in stage.leaf else ()
        if all(a in stage.kinds for a in outer):
            raise Impossible
        view.pragma(axis, "serpentine")
        return
    view.pragma(
        _axis(rng, view),
        rng.choice(("a.note", "unroll_explicit", "unroll_hint")),
        rng.choice((None, 1, "x")),
    )


def _tensorize(rng: Random, s: Any) -> None:
    """Replace an inner data axis by an instruction that computes what the stage does."""
    choices = []
    for stage in s.state.stages.values():
        axis = stage.leaf[-1] if stage.leaf else None
        if axis is None or not is_lane(axis) or (axis in stage.kinds and rng.random() < 0.95):
            continue
        if chosen := derived_instruction(f"op{len(s.steps)}", stage.op, axis):
            choices.append((stage, axis, chosen))
    stage, axis, chosen = pick(rng, choices)
    s[stage.name].tensorize(axis, chosen)


def _set_store_predicate(rng: Random, s: Any) -> None:
    """Set a predicate that always holds: any other would change the result."""
    view = _stage(rng, s)
    if not isinstance(view.op, ComputeOp):
        raise Impossible
    axis = pick(rng, [*view.op.axis, *view.leaf_axes])
    view.set_store_predicate(rng.choice((axis >= 0, (axis >= 0) & (axis < axis.extent + 1))))


PRIMITIVES: dict[str, Callable[[Random, Any], None]] = {
    "split": _split, "fuse": _fuse, "reorder": _reorder, "tile": _tile, "vectorize": _vectorize,
    "unroll": _unroll, "parallel": _parallel, "bind": _bind, "compute_at": _compute_at,
    "compute_inline": _compute_inline, "compute_root": _compute_root, "store_at": _store_at,
    "store_root": _store_root, "cache_read": _cache_read, "cache_write": _cache_write,
    "rfactor": _rfactor, "pad_einsum": _pad_einsum, "shift_operand": _shift_operand,
    "set_scope": _set_scope, "storage_align": _storage_align,
    "transform_layout": _transform_layout, "transform_argument": _transform_argument,
    "double_buffer": _double_buffer, "pipeline": _pipeline, "prefetch": _prefetch,
    "pragma": _pragma,
    "set_store_predicate": _set_store_predicate, "tensorize": _tensorize,
}  # fmt: skip
WEIGHTS = {
    "split": 5, "compute_at": 6, "reorder": 3, "fuse": 2, "tile": 2, "vectorize": 3,
    "cache_read": 2, "cache_write": 2, "rfactor": 3, "store_at": 4, "store_root": 3,
    "parallel": 2, "unroll": 2, "compute_inline": 2, "bind": 0, "tensorize": 3,
}  # fmt: skip


def weights(rng: Random, slides: bool = False) -> dict[str, int]:
    """Return how often each primitive is tried in one case; threads only in some cases.

    ``slides`` says that a stage reads neighbours, which storage outside of a loop can keep.
    """
    found = {p: WEIGHTS.get(p, 1) for p in PRIMITIVES}
    if rng.random() < 0.1:
        found["bind"] = 4
    if slides and rng.random() < 0.7:
        found.update(compute_at=16, store_at=8, store_root=12, compute_root=0, cache_read=1)
    elif rng.random() < 0.12:
        # tails within tails
        found.update(split=24, tile=6, compute_at=3, cache_read=1, cache_write=1)
    elif rng.random() < 0.25:
        # many attached stages, each with tails of its own
        found.update(compute_at=20, compute_root=0, store_at=2, split=12, cache_read=1)
    return found


def attempt(rng: Random, s: Any, primitive: str) -> None:
    """Apply ``primitive`` once.

    Raise :class:`Impossible` if there is nothing to apply it to, or the error of the schedule.
    """
    PRIMITIVES[primitive](rng, s)


def bound(s: Any) -> bool:
    """Return whether some loop is bound to a thread."""
    return any(k in THREADS for st in s.state.stages.values() for k in st.kinds.values())


__all__ = ["Impossible", "Inline", "PRIMITIVES", "attempt", "bound", "sl", "weights"]
