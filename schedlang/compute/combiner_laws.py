"""Tests that a combiner is commutative and associative, on states that the reduction can have.

A state is a fold of a few elements from the identity. The elements are values of the reduced
expressions, evaluated at sampled axes and inputs. So a state such as (count, mean, sum of squares)
is always one that occurs, which independent random numbers would not be. The elements themselves
are combined too, since a schedule may combine them before or after the identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from schedlang.compute.read import Read
from schedlang.compute.reducer import Reducer
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.bfloat import convert_values, holding_dtype
from schedlang.expr.evaluate import plan
from schedlang.expr.nodes import Axis, Binary, Const, Expr, Var
from schedlang.expr.operators import COMPARISONS
from schedlang.expr.visit import postorder, rewrite
from schedlang.language.construct import const

# the number of tested triples of states, and the most elements in a state
TRIPLES, LONGEST = 96, 3
# extent of sampled axes whose own is symbolic
REACH = 16

NOT_NEUTRAL = "fidentity is not a neutral element of fcombine"

Parts = tuple[np.ndarray, ...]


class Exceptions(NamedTuple):
    """Examples of what makes a result depend on the schedule, each ``""`` if there is none.

    See :class:`Reducer`, which has fields of the same names.
    """

    ties: str = ""
    identity_ties: str = ""
    restarts: str = ""


def exceptions_of(
    reducer: Reducer,
    sources: Sequence[Expr],
    where: Expr | None,
    init: Sequence[Expr] | None,
    samples: Any = None,
) -> Exceptions:
    """Test that ``reducer`` is commutative and associative and that its identity is neutral.

    It reduces ``sources`` where ``where`` holds, from ``init``; ``samples`` are elements to use in
    their place. Return examples of where the laws fail only for ties, or only from ``init``.

    Raises :class:`ComputeError` for a combiner that fails otherwise.
    """
    rng = np.random.default_rng(0)
    if samples is None:
        elements = _elements(sources, where, rng)
        extreme = _elements(sources, where, rng, _around(reducer.identity), finite=False)
    else:
        elements = extreme = _drawn(reducer, samples, rng)
    reducer = _in_float32(reducer)
    unit = tuple(np.full(TRIPLES, c.value, c.dtype) for c in reducer.identity)
    starts = []
    if init is not None:
        samples_of_init = elements if samples is not None else _elements(init, None, rng)
        fixed = [
            np.full(TRIPLES, v.value, holding_dtype(v.dtype)) if isinstance(v, Const) else g[-1]
            for v, g in zip(init, samples_of_init)
        ]
        starts = [tuple(fixed)]
    with np.errstate(all="ignore"):
        ties = _check_states(reducer, unit, elements)
        _check_elements(reducer, unit, elements)
        states = [_state(reducer, unit, extreme, 0), *starts]
        identity_ties = next(filter(None, (_replaced(reducer, s, unit) for s in states)), "")
        starts += [_combine(reducer, s, _row(elements, 0)) for s in starts]
        restarts = next(
            filter(
                None, (_restarted(reducer, s, unit, _finite(extreme, elements)) for s in starts)
            ),
            "",
        )
    return Exceptions(ties or identity_ties, identity_ties, restarts)


def _in_float32(reducer: Reducer) -> Reducer:
    """Return ``reducer`` with bfloat16 as float32, so that rounding does not hide the laws."""

    def wider(node: Expr) -> Expr | None:
        return replace(node, dtype="float32") if node.dtype == "bfloat16" else None  # type: ignore[type-var]

    memo: dict[int, Expr] = {}
    parts = (reducer.lhs, reducer.rhs, reducer.result, reducer.identity)
    lhs, rhs, result, identity = (tuple(rewrite(v, wider, memo) for v in part) for part in parts)
    return replace(reducer, lhs=lhs, rhs=rhs, result=result, identity=identity)  # type: ignore[arg-type]


def _check_states(reducer: Reducer, unit: Parts, elements: Parts) -> str:
    """Test the laws on states; return an example of two that do not commute because they tie."""
    a, b, c = (_state(reducer, unit, elements, k) for k in range(3))
    ab, ba = _combine(reducer, a, b), _combine(reducer, b, a)
    tied = _tied(reducer, a, b)
    untied = tuple(np.where(tied, x, y) for x, y in zip(ab, ba))
    _refuse(reducer, "fcombine is not commutative", (a, b), ab, untied)
    nested = _combine(reducer, a, _combine(reducer, b, c))
    _refuse(reducer, "fcombine is not associative", (a, b, c), _combine(reducer, ab, c), nested)
    _refuse(reducer, NOT_NEUTRAL, (a,), _combine(reducer, unit, a), a)
    wrong = np.flatnonzero(~_equal(ab, ba, (a, b)))
    if not wrong.size:
        return ""
    k = int(wrong[0])
    first, second, one, other = (_shown(s, k) for s in (a, b, ab, ba))
    return f"{first} with {second} gives {one}, but in the other order {other}"


def _check_elements(reducer: Reducer, unit: Parts, elements: Parts) -> None:
    """Test the laws on elements that are not yet combined with the identity."""
    state = _state(reducer, unit, elements, 0)
    a, b, c, d = (_row(elements, LONGEST + k) for k in range(4))
    _refuse_absorbing(reducer, unit, elements)
    started = _combine(reducer, unit, a)
    by_steps, by_start = _combine(reducer, state, a), _combine(reducer, state, started)
    # the identity may win a tie with the state
    tied = _tied(reducer, state, started)
    untied = tuple(np.where(tied, x, y) for x, y in zip(by_steps, by_start))
    _refuse(reducer, "fcombine is not associative", (state, unit, a), by_steps, untied)
    in_order = _combine(reducer, _combine(reducer, _combine(reducer, started, b), c), d)
    tree = _combine(reducer, _combine(reducer, a, b), _combine(reducer, c, d))
    _refuse(
        reducer,
        "fcombine is not associative",
        (unit, a, b, c, d),
        in_order,
        _combine(reducer, unit, tree),
    )


def _refuse_absorbing(reducer: Reducer, unit: Parts, elements: Parts) -> None:
    """Raise for an identity that has a part which absorbs the same part of every element: 0 * x."""
    rows = [_row(elements, k) for k in range(len(elements[0]))]
    combined = [_combine(reducer, unit, row) for row in rows]
    for part, neutral in enumerate(unit):
        unchanged = [_equal((c[part],), (neutral,), ()) for c in combined]
        changed = ~np.stack([_equal((r[part],), (neutral,), ()) for r in rows])
        if np.all(unchanged) and changed.any():
            row, k = np.argwhere(changed)[0]
            _fail(reducer, NOT_NEUTRAL, k, (unit, rows[row]), combined[row], rows[row])


def _replaced(reducer: Reducer, state: Parts, unit: Parts) -> str:
    """Return an example of a state that the identity replaces because the two tie, or ``""``."""
    combined = _combine(reducer, state, unit)
    same = [
        np.logical_and.reduce([(x == y) | ((x != x) & (y != y)) for x, y in zip(combined, side)])
        for side in (state, unit)
    ]
    lost = np.flatnonzero(_tied(reducer, state, unit) & same[1] & ~same[0])
    if not lost.size:
        return ""
    k = int(lost[0])
    return f"{_shown(state, k)} with the identity {_shown(unit, k)} gives {_shown(combined, k)}"


def _restarted(reducer: Reducer, start: Parts, unit: Parts, elements: Parts) -> str:
    """Return an element that gives another result if the identity is combined with it first."""
    for k in range(len(elements[0])):
        element = _row(elements, k)
        alone = _combine(reducer, unit, element)
        one, other = _combine(reducer, start, element), _combine(reducer, start, alone)
        wrong = np.flatnonzero(~_equal(one, other, (start, element)))
        if wrong.size:
            s, e, u, a, x, y = (
                _shown(v, int(wrong[0])) for v in (start, element, unit, alone, one, other)
            )
            return (
                f"{s} with {e} gives {x}, but the identity {u} with {e} gives {a}, and "
                f"{s} with that gives {y}"
            )
    return ""


def _row(elements: Parts, k: int) -> Parts:
    return tuple(e[k] for e in elements)


def _finite(elements: Parts, others: Parts) -> Parts:
    """Return ``elements``, with ``others`` in place of those that are not finite."""
    good = np.ones(elements[0].shape, bool)
    for part in elements:
        good &= np.isfinite(part) if part.dtype.kind == "f" else True
    return tuple(np.where(good, x, y) for x, y in zip(elements, others))


def _combine(reducer: Reducer, left: Parts, right: Parts) -> Parts:
    values = {**dict(zip(reducer.lhs, left)), **dict(zip(reducer.rhs, right))}
    return tuple(np.broadcast_to(r, left[0].shape) for r in plan(reducer.result).run(values))


def _state(reducer: Reducer, unit: Parts, elements: Parts, position: int) -> Parts:
    """Fold one to three elements from the identity.

    The states at the three positions of a triple fold different elements.
    """
    state = unit
    length = 1 + np.arange(TRIPLES) // LONGEST**position % LONGEST
    for k in range(LONGEST):
        row = tuple(e[position * LONGEST + k] for e in elements)
        longer = _combine(reducer, state, row)
        state = tuple(np.where(k < length, x, y) for x, y in zip(longer, state))
    return state


def _pool(dtype: str, more: Sequence[float] = ()) -> np.ndarray:
    if dtype == "bool":
        return np.array([False, True])
    if dtypes.is_complex(dtype):
        return np.array([complex(a, b) for a in (-2, 0, 1, 3) for b in (-1, 0, 2)], dtype)
    pool: list[float] = [0, 1, 2, 3, 5] if dtype[0] == "u" else [-3, -2, 0, 1, 2, 3, 5]
    if dtypes.is_float(dtype):
        extra = [v for v in more if np.isinf(v) or abs(v) <= dtypes.largest(dtype)]
    else:
        low, high = dtypes.limits(dtype)
        extra = [int(v) for v in more if np.isfinite(v) and low <= int(v) <= high]
    return np.asarray(convert_values(np.array([*pool, *extra], holding_dtype(dtype)), dtype))


def _around(identity: Sequence[Const]) -> list[float]:
    """Return the values of the identity and values around them, to tie with it or to pass it."""
    values: list[float] = []
    for value in dict.fromkeys(c.value for c in identity if c.value == c.value):
        values += [value] * 4
        if np.isfinite(value):
            values += [value - 1, value + 1, 2 * value - 1, 2 * value + 1]
    return values


def _elements(
    sources: Sequence[Expr],
    where: Expr | None,
    rng: np.random.Generator,
    more: Sequence[float] = (),
    finite: bool = True,
) -> Parts:
    """Return sampled values of ``sources``; a column has elements of one output element.

    Inputs are drawn from small numbers and ``more``. Elements are not NaN, and ``finite`` if asked.
    """
    shape = (3 * LONGEST, TRIPLES)
    roots = [*sources, *(() if where is None else (where,))]
    order = postorder(roots)
    values: dict[Any, Any] = {}
    for leaf in order:
        if isinstance(leaf, Axis):
            extent = leaf.extent if isinstance(leaf.extent, int) else REACH
            rows = np.arange(shape[0])[:, None] if leaf.is_reduce else 0
            start = rng.integers(0, max(extent, 1), shape[1])
            at = np.broadcast_to((rows + start) % max(extent, 1), shape)
            values[leaf] = rng.permuted(at, axis=0) + (leaf.lo if isinstance(leaf.lo, int) else 0)
        elif isinstance(leaf, Var):
            values[leaf] = REACH if leaf.weak else _pool(leaf.dtype)[-1]
    samples: dict[Any, np.ndarray] = {}

    def read(node: Read, _: Any) -> np.ndarray:
        key = (node.tensor, tuple(map(str, node.indices)))
        if key not in samples:
            leaves = postorder(node.indices)
            varies = any(
                isinstance(n, Read) or (isinstance(n, Axis) and n.is_reduce) for n in leaves
            )
            drawn = rng.choice(_pool(node.dtype, more), shape if varies else (1, shape[1]))
            samples[key] = np.broadcast_to(drawn, shape)
        return samples[key]

    with np.errstate(all="ignore"):
        results = plan(roots, lambda n: isinstance(n, Read)).run(values, read)
    parts = tuple(np.broadcast_to(v, shape) for v in results[: len(sources)])
    good = np.broadcast_to(True if where is None else results[-1], shape).astype(bool)
    for part in parts:
        if part.dtype.kind in "fc":
            good = good & (np.isfinite(part) if finite else ~np.isnan(part))
    if not good.any():
        return tuple(rng.choice(_pool(s.dtype), shape) for s in sources)
    # replace elements that are masked out or not allowed by others
    chosen = rng.choice(np.flatnonzero(good), shape)
    return tuple(np.where(good, part, part.ravel()[chosen]) for part in parts)


def _drawn(reducer: Reducer, samples: Any, rng: np.random.Generator) -> Parts:
    """Return elements drawn from the user's ``samples``."""
    asked = f"sl.comm_reducer(..., samples=...) of {reducer.name}"
    count = len(reducer.lhs)
    if not isinstance(samples, (list, tuple)) or not samples:
        raise ComputeTypeError(f"{asked}: samples must be a list of one element or more")
    rows = [s if isinstance(s, (list, tuple)) else (s,) for s in samples]
    for row in rows:
        if len(row) != count:
            raise ComputeError(
                f"{asked}: an element has {count} part{'s' * (count != 1)}, but {row!r} has "
                f"{len(row)}"
            )
    drawn = rng.integers(0, len(rows), (3 * LONGEST, TRIPLES))
    try:
        columns = [[const(r[k], v.dtype).value for r in rows] for k, v in enumerate(reducer.lhs)]
    except ComputeTypeError as error:
        kinds = ", ".join(v.dtype for v in reducer.lhs)
        raise ComputeTypeError(f"{asked}: {error}; an element is of {kinds}") from None
    return tuple(np.array(c, holding_dtype(v.dtype))[drawn] for c, v in zip(columns, reducer.lhs))


def _tied(reducer: Reducer, left: Parts, right: Parts) -> np.ndarray:
    """Return where the combiner compares equal values of its two sides."""
    values = {**dict(zip(reducer.lhs, left)), **dict(zip(reducer.rhs, right))}
    tied = np.zeros(left[0].shape, bool)
    for node in postorder(reducer.result):
        if isinstance(node, Binary) and node.op in COMPARISONS:
            sides = [_sides(reducer, operand) for operand in node.children]
            if sorted(sides) == ["left", "right"]:
                x, y = plan(node.children).run(values)
                tied |= np.equal(x, y)
    return tied


def _sides(reducer: Reducer, value: Expr) -> str:
    """Return the side of the combiner that ``value`` uses: ``"left"``, ``"right"``, or ``""``.

    The empty string stands for both sides or none.
    """
    used = {n for n in postorder([value]) if isinstance(n, Var)}
    left, right = bool(used & {*reducer.lhs}), bool(used & {*reducer.rhs})
    return "" if left == right else "left" if left else "right"


def _equal(left: Parts, right: Parts, given: Sequence[Parts]) -> np.ndarray:
    """Return where two results are equal; floats may differ by rounding."""
    same = np.ones(left[0].shape, bool)
    for k, (x, y) in enumerate(zip(left, right)):
        if x.dtype.kind != "f":
            same &= x == y
            continue
        size = np.ones(x.shape)
        for state in given:
            size = np.maximum(size, np.where(np.isfinite(state[k]), np.abs(state[k]), 0))
        a, b = x.astype(np.float64), y.astype(np.float64)
        same &= np.isclose(a, b, rtol=1e-3, atol=0, equal_nan=True) | (np.abs(a - b) <= 1e-5 * size)
    return same


def _shown(state: Parts, k: int) -> str:
    items = [str(part[k].item()) for part in state]
    return items[0] if len(items) == 1 else f"({', '.join(items)})"


def _refuse(
    reducer: Reducer, broken: str, given: tuple[Parts, ...], left: Parts, right: Parts
) -> None:
    wrong = np.flatnonzero(~_equal(left, right, given))
    if wrong.size:
        _fail(reducer, broken, int(wrong[0]), given, left, right)


def _fail(
    reducer: Reducer, broken: str, k: int, given: tuple[Parts, ...], left: Parts, right: Parts
) -> NoReturn:
    listed = ", ".join(_shown(state, k) for state in given)
    raise ComputeError(
        explain(
            f"reducer {reducer.name}",
            f"{broken}: on {listed} it gives {_shown(left, k)} and {_shown(right, k)}",
            "A schedule may combine elements in any order, so fcombine must be commutative and "
            "associative, and fidentity must be its neutral element.\n"
            "If such values never occur, pass sl.comm_reducer typical elements, samples=[...], or "
            "trusted=True to skip this check.",
        )
    )
