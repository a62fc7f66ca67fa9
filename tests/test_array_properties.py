"""Random array expressions mean what they mean in NumPy, or both refuse them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.errors import SchedlangError

DTYPES = ("float32", "float64", "int8", "int32", "uint8", "bool")
SHAPES = ((3,), (1,), (4, 3), (1, 3), (4, 1), (2, 4, 3), (), (0, 3))


# limits of integers, too, of which NumPy's and the language's operations wrap
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0)


class Pair(NamedTuple):
    """A value of NumPy, and the tensor or expression of the same meaning.

    ``function`` made both, of ``operands``; inputs have none. ``signs`` says whether zeros have the
    same signs: those of sums may differ, and NumPy's own maximum of zeros is either.
    """

    array: Any
    made: Any
    function: Any = None
    operands: tuple[Any, ...] = ()
    signs: bool = True


Draw = Callable[[st.SearchStrategy[Any]], Any]
# a function, and whether it keeps the signs of zeros
Drawn = tuple[Callable[..., Any], bool]
AXES = st.sampled_from([None, 0, -1, 1])
BOUNDS = st.one_of(st.none(), st.integers(-4, 4))


def one_of(draw: Draw, keeping: Sequence[Any], others: Sequence[Any]) -> Drawn:
    listed = [*((f, True) for f in keeping), *((f, False) for f in others)]
    return draw(st.sampled_from(listed))  # type: ignore[no-any-return]


def unary(draw: Draw) -> Drawn:
    """Return a random function of one array."""
    axis, keep = draw(AXES), draw(st.booleans())
    key = draw(indices())
    order = draw(st.permutations(range(3)))

    def indexed(x: Any) -> Any:
        # an element of a tensor has no index, unlike NumPy's scalars
        return x[key] if np.ndim(x) else x

    return one_of(draw, [
        lambda x: -x, abs, lambda x: x * 2, lambda x: x > 1, lambda x: x / 4,
        lambda x: x // 3, lambda x: x % 3, lambda x: x.astype("float32"), np.square, np.sign,
        lambda x: np.argmin(x, axis=axis), lambda x: np.argmax(x, axis=axis),
        lambda x: np.any(x, axis=axis), indexed, indexed, indexed,
        np.transpose, lambda x: np.flip(x, axis), lambda x: np.roll(x, 2, axis),
        lambda x: np.transpose(x, order), lambda x: np.reshape(x, -1),
        lambda x: np.reshape(x, (3, -1)), lambda x: np.reshape(x, (-1, 2)),
        lambda x: np.expand_dims(x, 0), np.squeeze,
        lambda x: np.repeat(x, 2, axis), lambda x: np.tile(x, 2), lambda x: np.tril(x),
        lambda x: np.broadcast_to(x, (2, 4, 3)), lambda x: np.take(x, [0, 2, 1], axis=axis or 0),
        lambda x: np.pad(x, 1), np.signbit, np.isfinite, np.trunc,
        lambda x: np.copysign(x, -1.0), lambda x: np.nan_to_num(x, posinf=2.0, neginf=-2.0),
        lambda x: np.fmod(x, 2), lambda x: x ** 0.5 if np.ndim(x) else x,
    ], [
        lambda x: 3 - x, lambda x: np.sum(x, axis=axis, keepdims=keep),
        lambda x: np.max(x, axis=axis, keepdims=keep),
        lambda x: np.mean(x, axis=axis if np.ndim(x) else None), lambda x: np.prod(x, axis=axis),
        lambda x: np.var(x, axis=axis if np.ndim(x) else None),
        lambda x: np.cumsum(x, axis=axis), lambda x: np.diff(x, axis=-1),
        lambda x: np.clip(x, 1, 2), lambda x: np.clip(x, 0, 1),
    ])  # fmt: skip


def binary(draw: Draw) -> Drawn:
    """Return a random function of two arrays."""
    axis = draw(st.sampled_from([0, -1]))
    return one_of(draw, [
        lambda x, y: x * y, lambda x, y: x < y,
        lambda x, y: np.where(x > 0, x, y), np.equal,
        lambda x, y: np.concatenate([x, y], axis), lambda x, y: np.stack([x, y], axis), np.outer,
        lambda x, y: np.append(x, y), np.kron,
        lambda x, y: x[wrapped(x, y, 0)] if np.ndim(x) else x,
        lambda x, y: x[..., wrapped(x, y, -1), None] if np.ndim(x) else x,
        lambda x, y: x[wrapped(x, y, 0), :, wrapped(x, y, -1)] if np.ndim(x) > 2 else x,
        np.fmod, np.copysign, np.heaviside, np.logical_and, lambda x, y: x // y,
        lambda x, y: x % y, lambda x, y: x << y, lambda x, y: x >> y,
    ], [
        lambda x, y: x + y, lambda x, y: x - y, np.maximum, np.minimum, np.fmax, np.fmin,
        lambda x, y: x @ y, np.dot, lambda x, y: np.tensordot(x, y, 1),
        lambda x, y: np.einsum("...i,...i->...", x, y), lambda x, y: np.subtract.outer(x, y),
        np.inner,
    ])  # fmt: skip


def wrapped(x: Any, y: Any, dimension: int) -> Any:
    """Return ``y`` as indices of a dimension of ``x``, some of which count from the end."""
    length = max(x.shape[dimension], 1)
    return y.astype("int32") % (2 * length) - length if np.ndim(y) else 0


@st.composite
def indices(draw: Draw) -> Any:
    """Draw a basic index: integers, slices, new dimensions and an ellipsis."""
    step = st.one_of(st.none(), st.sampled_from([-2, -1, 1, 2]))
    item = st.one_of(
        st.integers(-3, 2), st.builds(slice, BOUNDS, BOUNDS, step), st.just(None), st.just(...)
    )
    items = draw(st.lists(item, min_size=1, max_size=3))
    return tuple(items) if len(items) > 1 else items[0]


def applied(drawn: Drawn, *pairs: Pair) -> Pair | None:
    """Return the pair of results, or ``None`` if both refuse."""
    function, keeps = drawn
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wanted = function(*(p.array for p in pairs))
        except (TypeError, ValueError, IndexError, np.exceptions.AxisError):
            with pytest.raises((SchedlangError, TypeError)):
                # the index of an element is checked by the stage that reads it
                sl.named("refused", function(*(p.made for p in pairs)))
            return None
    made = function(*(p.made for p in pairs))
    shape = made.shape if isinstance(made, sl.Tensor) else ()
    assert shape == np.shape(wanted), (shape, np.shape(wanted))
    return Pair(wanted, made, function, pairs, keeps and all(p.signs for p in pairs))


def leaf(draw: Draw, name: str) -> Pair:
    shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(DTYPES))
    seed = draw(st.integers(0, 9))
    values = np.random.default_rng(seed).integers(-3 if dtype[0] in "if" else 0, 4, size=shape)
    array = values.astype(dtype)
    if draw(st.booleans()):
        kind = array.dtype.kind
        limits = () if kind in "fb" else (np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1)
        special = np.array(SPECIAL if kind == "f" else (0, 1) if kind == "b" else limits, dtype)
        rng = np.random.default_rng(seed)
        array = np.where(rng.random(shape) < 0.3, rng.choice(special, shape), array)
    return Pair(array, sl.placeholder(shape, dtype, name=name))


def expression(draw: Draw) -> tuple[list[Pair], Pair]:
    """Return inputs, and a random expression of them."""
    inputs = [leaf(draw, name) for name in "AB"]
    pool = list(inputs)
    for _ in range(draw(st.integers(1, 5))):
        chosen = [draw(st.sampled_from(pool)) for _ in range(2)]
        if draw(st.booleans()):
            found = applied(unary(draw), chosen[0])
        else:
            found = applied(binary(draw), *chosen)
        if found is not None and np.size(found.array) <= 500:
            pool.append(found)
    return inputs, pool[-1]


def replayed(found: Pair, inputs: list[Pair], arrays: Sequence[Any]) -> Any:
    """Return what ``found`` is for other ``arrays`` in place of the inputs."""
    for given_, array in zip(inputs, arrays):
        if given_ is found:
            return array
    return found.function(*(replayed(p, inputs, arrays) for p in found.operands))


def check(inputs: list[Pair], found: Pair, target: str | None) -> None:
    made = found.made if isinstance(found.made, sl.Tensor) else sl.named("result", found.made)
    oracle = sl.reference(made)
    given_arrays = [next(p.array for p in inputs if p.made is t) for t in oracle.inputs]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        run = oracle
        if target is not None and not any(p.made is made for p in inputs):
            run = sl.build(sl.schedule(made), target=target)
        got = np.asarray(run(*given_arrays))
    assert got.dtype == np.asarray(found.array).dtype, (got.dtype, np.asarray(found.array).dtype)
    assert_same(got, found)


def assert_same(got: np.ndarray, found: Pair) -> None:
    """Check that values are near, and NaN, infinities and promised signs of zeros the same."""
    np.testing.assert_allclose(got, found.array, rtol=1e-4, atol=1e-4)
    if found.signs and got.dtype.kind == "f":
        zero = (got == 0) & (np.asarray(found.array) == 0)
        np.testing.assert_array_equal(np.signbit(got)[zero], np.signbit(found.array)[zero])


COMMON = {"deadline": None, "derandomize": True,
          "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}  # fmt: skip


@settings(max_examples=40, **COMMON)
@given(st.data())
def test_random_expressions(data: st.DataObject) -> None:
    inputs, found = expression(data.draw)
    check(inputs, found, None)


@settings(max_examples=3, **COMMON)
@given(st.data())
def test_random_expressions_as_kernels(data: st.DataObject) -> None:
    inputs, found = expression(data.draw)
    check(inputs, found, "python")


@pytest.mark.slow
@settings(max_examples=1000, **COMMON)
@given(st.data())
def test_many_random_expressions(data: st.DataObject) -> None:
    inputs, found = expression(data.draw)
    check(inputs, found, None)


@pytest.mark.slow
@settings(max_examples=100, **COMMON)
@given(st.data())
def test_many_random_expressions_as_kernels(data: st.DataObject) -> None:
    inputs, found = expression(data.draw)
    check(inputs, found, "python")
