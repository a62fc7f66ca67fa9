"""The space of a knob: the values that ``cfg.define_split`` and its like list, by their policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any

from schedlang.autotune.knobs import MOST_WAYS, divisors
from schedlang.autotune.text import whole
from schedlang.errors import TuningError, explain, nearest
from schedlang.expr.nodes import Axis
from schedlang.tvm.autotvm.entities import (
    ANNOTATIONS,
    AnnotateEntity,
    Entity,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
)

SPLITS = ("factors", "power2", "verbose", "candidate")
ORDERS = ("identity", "all", "interval_all", "candidate", "interleave", "interleave_cuda")
BINDS = {
    "bind_gpu": (
        (6, ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y",
             "threadIdx.x")),
        (4, ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")),
        (2, ("blockIdx.x", "threadIdx.x")),
    ),
    "bind_gpu_virtual": (
        (9, ("blockIdx.z", "blockIdx.y", "blockIdx.x", "vthread", "vthread", "vthread",
             "threadIdx.z", "threadIdx.y", "threadIdx.x")),
        (6, ("blockIdx.y", "blockIdx.x", "vthread", "vthread", "threadIdx.y", "threadIdx.x")),
        (3, ("blockIdx.x", "vthread", "threadIdx.x")),
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class VirtualAxis:
    """An axis of a space: one of ``cfg.axis``, or one that a split will make.

    ``length`` is ``None`` if it depends on the value of a knob.
    """

    name: str
    length: int | None

    def __repr__(self) -> str:
        return f"vaxis({self.name})"


@dataclass(frozen=True)
class KnobSpace:
    """The values that a knob may take, as plain data, and the class of its values.

    ``product`` is the length of the axis of a split, if it is known.
    """

    kind: type[Any]
    text: str
    options: tuple[Any, ...]
    product: int | None = None

    def __len__(self) -> int:
        return len(self.options)

    def __getitem__(self, index: int) -> Entity:
        return self.entity(self.options[index])

    def entity(self, option: Any) -> Entity:
        """Return the value that an option stands for."""
        plain = option if self.kind is OtherOptionEntity else list(option)
        value: Entity = self.kind(plain)
        return value

    def __repr__(self) -> str:
        return f"{self.text} len={len(self)}"


def virtual_axis(axis: Any) -> VirtualAxis:
    """Return the axis of a space for an extent, an axis of a stage, or a virtual axis."""
    if isinstance(axis, VirtualAxis):
        return axis
    extent = whole(axis.extent if isinstance(axis, Axis) else axis)
    if extent is None or extent < 1:
        raise TuningError(
            explain(
                f"cfg.axis({axis})",
                "its number of iterations is not known now",
                "Give an axis of constant extent, or a number of iterations.",
            )
        )
    return VirtualAxis(axis.name if isinstance(axis, Axis) else f"axis_{extent}", extent)


def split_space(
    name: str, axis: Any, policy: str, num_outputs: int | None = None,
    max_factor: int | None = None, filter: Callable[[SplitEntity], bool] | None = None,  # noqa: A002
    no_tail: bool | None = None, candidate: Sequence[Sequence[int]] | None = None,
) -> KnobSpace:  # fmt: skip
    """Return the space of ``cfg.define_split``.

    Raise :class:`~schedlang.errors.TuningError` for an unknown policy or a space without values.
    """
    call, given = f"cfg.define_split({name!r}, ..., policy={policy!r})", virtual_axis(axis)
    _check_policy(call, policy, SPLITS)
    if policy == "candidate":
        options = _listed(call, candidate)
        sizes = {len(option) for option in options}
        if len(sizes) != 1 or (num_outputs is not None and sizes != {num_outputs}):
            raise TuningError(
                f"{call}: each candidate lists the sizes of the same number of axes, num_outputs"
            )
    else:
        parts = whole(num_outputs)
        if parts is None or parts < 2:
            raise TuningError(f"{call}: give num_outputs, an integer of 2 or more")
        if given.length is None:
            raise TuningError(
                f"{call}: the length of {given.name} depends on another knob; split the axis of "
                "the stage into more parts instead, by num_outputs"
            )
        tails = policy != "factors" if no_tail is None else not no_tail
        most = given.length if max_factor is None else max_factor
        options = _splits(given.length, parts, policy, most, tails)
    kept = tuple(o for o in options if filter is None or filter(SplitEntity(list(o))))
    parts = len(options[0]) if options else 0
    return _space(
        call, SplitEntity, f"Split(policy={policy}, product={given.length}, num_outputs={parts})",
        kept, given.length,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _splits(
    length: int, parts: int, policy: str, most: int, tails: bool
) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of each split, in TVM's order: the innermost size changes last."""
    powers = tuple(1 << n for n in range(length.bit_length()))
    factors = {
        "factors": divisors(length),
        "power2": powers,
        "verbose": tuple(sorted({*divisors(length), *powers})),
    }[policy]
    usable = tuple(factor for factor in factors if factor <= most)
    known: list[tuple[int, ...]] = [()]
    for _ in range(parts - 1):
        # the outermost of the sizes so far comes first
        known = [
            (factor, *inner)
            for inner in known
            for factor in usable
            if factor * math.prod(inner) <= length
        ]
        if len(known) > MOST_WAYS:
            raise TuningError(
                f"cfg.define_split: there are over {MOST_WAYS} ways to split {length} into {parts} "
                "parts; give max_factor, or candidates"
            )
    return tuple(
        (-1, *inner)
        for inner in known
        if length % math.prod(inner) == 0 or (tails and math.prod(inner) < length)
    )


def reorder_space(
    name: str, axes: Sequence[Any], policy: str, interval: tuple[int, int] | None = None,
    candidate: Sequence[Sequence[Any]] | None = None, spatial: Sequence[Sequence[Any]] = (),
    reduce: Sequence[Sequence[Any]] = (),
) -> KnobSpace:  # fmt: skip
    """Return the space of ``cfg.define_reorder``; raise the errors of :func:`split_space`."""
    call, count = f"cfg.define_reorder({name!r}, ..., policy={policy!r})", len(axes)
    _check_policy(call, policy, ORDERS)

    def positions(chain: Sequence[Any]) -> list[int]:
        places = [next((n for n, axis in enumerate(axes) if axis is item), None) for item in chain]
        if None in places:
            raise TuningError(f"{call}: {chain[places.index(None)]} is not one of its axes")
        return [place for place in places if place is not None]

    if policy == "identity":
        options = [tuple(range(count))]
    elif policy in ("all", "interval_all"):
        begin, end = (0, count) if policy == "all" else _interval(call, interval, count)
        if math.factorial(end - begin) > MOST_WAYS:
            raise TuningError(
                f"{call}: {end - begin} axes have over {MOST_WAYS} orders; give fewer"
            )
        head, tail = tuple(range(begin)), tuple(range(end, count))
        options = [(*head, *order, *tail) for order in permutations(range(begin, end))]
    elif policy == "candidate":
        options = [tuple(positions(order)) for order in _listed(call, candidate)]
    else:
        chains, inner = [positions(c) for c in spatial], [positions(c) for c in reduce]
        outer = _merged([chain[:-1] for chain in chains])
        last = [chain[-1:] for chain in chains]
        within = (
            _merged([*last, *inner])
            if policy == "interleave"
            else [*_merged(inner), *(place for chain in last for place in chain)]
        )
        options = [(*outer, *within)]
    return _space(call, ReorderEntity, f"Reorder(policy={policy})", tuple(options))


def annotate_space(
    name: str, axes: Sequence[Any], policy: str, num_anchor: int | None = None
) -> KnobSpace:
    """Return the space of ``cfg.define_annotate``; raise the errors of :func:`split_space`."""
    call, count = f"cfg.define_annotate({name!r}, ..., policy={policy!r})", len(axes)
    options: list[tuple[Any, ...]]
    if policy in BINDS:
        threads = next((names for least, names in BINDS[policy] if count >= least), None)
        if threads is None:
            raise TuningError(f"{call}: {count} axes are too few; give {BINDS[policy][-1][0]}")
        options = [(*["fuse"] * (count - len(threads)), *threads)]
    elif policy == "locate_cache":
        if num_anchor is None or not 0 < num_anchor <= count:
            raise TuningError(f"{call}: give num_anchor, from 1 to {count}")
        options = list(combinations(range(count), num_anchor))
    else:
        words = policy.replace("try", "none").split("_")
        for word in words:
            if word not in ANNOTATIONS[:3]:
                known = [*BINDS, "locate_cache", "try_unroll", "try_vec", "try_unroll_vec"]
                raise TuningError(
                    f"{call}: the policy is unknown{nearest(policy, known)}; give "
                    f"{', '.join(map(repr, known))}, or words of 'none', 'unroll' and 'vec'"
                )
        options = [()]
        for _ in range(count):
            options = [(*known, word) for known in options for word in words]
            options = [option for option in options if option.count("vec") <= 1]
    return _space(call, AnnotateEntity, f"Annotate(policy={policy})", tuple(options))


def option_space(name: str, candidate: Sequence[Any]) -> KnobSpace:
    """Return the space of ``cfg.define_knob``; raise the errors of :func:`split_space`."""
    call = f"cfg.define_knob({name!r}, ...)"
    options = _listed(call, candidate)
    return _space(call, OtherOptionEntity, f"OtherOption({list(options)})", options)


def _merged(chains: Sequence[Sequence[int]]) -> list[int]:
    """Return the items of chains, taken one by one from the first chain with the most left."""
    left, merged = [list(chain) for chain in chains], []
    while any(left):
        merged.append(max(left, key=len).pop(0))
    return merged


def _interval(call: str, interval: Any, count: int) -> tuple[int, int]:
    try:
        begin, end = interval
        if 0 <= begin <= end <= count:
            return begin, end
    except (TypeError, ValueError):
        pass
    raise TuningError(f"{call}: give interval=(begin, end), positions from 0 to {count}")


def _listed(call: str, candidate: Any) -> tuple[Any, ...]:
    if not isinstance(candidate, (list, tuple, range)) or not candidate:
        raise TuningError(f"{call}: give candidates, a list of at least one")
    return tuple(candidate)


def _check_policy(call: str, policy: Any, known: Sequence[str]) -> None:
    if policy not in known:
        raise TuningError(
            f"{call}: the policy is unknown{nearest(str(policy), known)}; give one of "
            f"{', '.join(map(repr, known))}"
        )


def _space(
    call: str, kind: type[Any], text: str, options: tuple[Any, ...], product: int | None = None
) -> KnobSpace:
    if not options:
        raise TuningError(f"{call}: no value is left; allow more by its filter or its candidates")
    return KnobSpace(kind, text, options, product)


__all__ = ["VirtualAxis"]
