"""Random programs that write through views and read after writes, under ``sl.jit`` beside NumPy.

A step that the trace refuses is left out of NumPy's run, so that what follows is compared, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import schedlang as sl
from schedlang.errors import CallError, SchedlangError

Draw = Callable[[st.SearchStrategy[Any]], Any]
SHAPES = ((4, 3), (3, 3), (1, 4), (6,), (1,), (2, 1, 3), (2, 2, 2), ())
ORDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "reversed": lambda a: np.flip(np.flip(a).copy()) if a.ndim else a,
    "apart": lambda a: np.repeat(a, 2, -1)[..., ::2] if a.ndim else a,
}
# results that may share memory with their argument, and some that do not
RESULTS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x[1:], lambda x: x[::-1], lambda x: x[..., 0], lambda x: x[None], lambda x: x[...],
    lambda x: x[:, ::2], lambda x: x[[0, -1]], lambda x: x.T, lambda x: x.mT, np.transpose,
    lambda x: np.swapaxes(x, 0, -1), lambda x: np.moveaxis(x, 0, -1), lambda x: np.rollaxis(x, -1),
    np.matrix_transpose, lambda x: np.reshape(x, -1), lambda x: x.reshape(2, -1), np.ravel,
    lambda x: x.reshape(x.shape), lambda x: np.reshape(x, -1, copy=True), np.squeeze,
    lambda x: np.expand_dims(x, 0), np.atleast_1d, np.atleast_2d, np.atleast_3d, np.flip,
    lambda x: np.flip(x, 0), np.fliplr, np.rot90, lambda x: np.rot90(x, -1), np.diagonal,
    np.diag, lambda x: np.broadcast_to(x, (2, *x.shape)), lambda x: np.broadcast_arrays(x, x)[0],
    lambda x: np.broadcast_arrays(x, np.zeros((2, 1, 1)))[0], lambda x: np.split(x, [1])[1],
    lambda x: np.array_split(x, 2)[0], lambda x: np.unstack(x)[-1], lambda x: list(x)[0],
    lambda x: np.einsum("...i->i...", x), lambda x: np.einsum("ii->i", x),
    lambda x: np.einsum("ij->j", x), lambda x: x.astype(x.dtype, copy=False),
    lambda x: np.nan_to_num(x, copy=False), lambda x: x.conj(), lambda x: x.real,
    lambda x: x.copy(), np.copy, lambda x: x.flatten(), lambda x: x + 1, lambda x: -x,
    lambda x: np.zeros_like(x), lambda x: np.where(x > 2, x, 2), lambda x: np.diff(x, 0),
    lambda x: np.meshgrid(x, x, copy=False)[0], lambda x: x.sum(axis=0), lambda x: np.maximum(x, 3),
    lambda x: np.linalg.matrix_power(x, 1), lambda x: np.pad(x, 1), lambda x: np.cumsum(x),
    lambda x: x[()], lambda x: x[None, ..., None], lambda x: x[1:2, ..., ::-1],
    lambda x: x.flat[:3], lambda x: np.einsum("iji->ij", x), lambda x: np.einsum("iij->ji", x),
    lambda x: np.hsplit(x, 2)[1], lambda x: np.vsplit(x, 2)[0], lambda x: np.dsplit(x, [1])[-1],
    lambda x: x.reshape(-1, 1), lambda x: x[::2].reshape(-1), lambda x: x.T.reshape(x.shape),
    lambda x: x[..., :2].ravel(), lambda x: x.reshape(x.shape[::-1]),
    lambda x: np.linalg.matrix_transpose(x), lambda x: x.imag,
)  # fmt: skip


def _filled(x: Any, value: float) -> None:
    x[...] = value


def _first(x: Any, value: float) -> None:
    x[0] = value


def _increased(x: Any, value: float) -> None:
    x += value


def _last(x: Any, value: float) -> None:
    x[..., -1] *= value


def _under(x: Any, value: float) -> None:
    x[x > 4] = value


def _scaled(x: Any, value: float) -> None:
    np.multiply(x, value, out=x)


def _rotated(x: Any, value: float) -> None:
    x[...] = x[::-1] + value


def _at(x: Any, value: float) -> None:
    np.add.at(x, np.array([0, 0]), value)


def _flat(x: Any, value: float) -> None:
    x.flat[1::2] = value


def _all_flat(x: Any, value: float) -> None:
    x.flat = value


def _shaped(x: Any, value: float) -> None:
    x.shape = (-1, 1, *x.shape[:1])


def _rows_under(x: Any, value: float) -> None:
    x[np.asarray([True, False] * 8)[: len(x)]] = value


def _under_rows(x: Any, value: float) -> None:
    x[x[(slice(None), *[0] * (x.ndim - 1))] > 3] *= value


def _added(x: Any, value: float) -> None:
    x[None, ..., None][0] = value


def _diagonal(x: Any, value: float) -> None:
    np.einsum("ii->i", x)[...] += value


def _parts(x: Any, value: float) -> None:
    for k, part in enumerate(np.array_split(x, 2)):
        part += value * k


WRITES = (
    _filled, _first, _increased, _last, _under, _scaled, _rotated, _at, _flat, _all_flat, _shaped,
    _rows_under, _under_rows, _added, _diagonal, _parts,
)  # fmt: skip


class Step(NamedTuple):
    """``function`` of an array of the program: a result, or a write of ``value`` into it."""

    function: Callable[..., Any]
    of: int
    value: float | None


def steps(draw: Draw) -> list[Step]:
    """Draw a program; the place of an array counts from the last one, so that chains are likely."""
    made = []
    for _ in range(draw(st.integers(2, 7))):
        of = draw(st.integers(0, 3))
        if draw(st.booleans()):
            made.append(Step(draw(st.sampled_from(RESULTS)), of, None))
        else:
            value = draw(st.integers(1, 9))
            made.append(Step(draw(st.sampled_from(WRITES)), of, float(value)))
    return made


def run(program: list[Step], x: Any, left_out: set[int], traced: bool) -> list[Any]:
    """Return all arrays of a program, without the steps that were, or now are, ``left_out``."""
    known = [x]
    for k, step in enumerate(program):
        if not traced and k in left_out:
            continue
        array = known[-1 - step.of % len(known)]
        try:
            if step.value is not None:
                step.function(array, step.value)
                continue
            made = step.function(array)
            if isinstance(made, np.ndarray):
                # what cannot be read is refused now
                made * 1
                known.append(made)
        except (SchedlangError, IndexError) as error:
            # an array without elements has no first one
            assert traced and (isinstance(error, SchedlangError) or not array.size)
            left_out.add(k)
    results = []
    for k, array in enumerate(known):
        at = -1 - k
        if not traced and at in left_out:
            continue
        try:
            results.append(array * 1)
        except SchedlangError:
            left_out.add(at)
    return results


def check_memory(draw: Draw) -> tuple[int, int]:
    """Compare a random program with NumPy; return its number of steps, and of those refused."""
    shape, order = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(sorted(ORDERS)))
    program = steps(draw)
    start = np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)
    theirs, ours = ORDERS[order](start.copy()), ORDERS[order](start.copy())
    left_out: set[int] = set()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            got = sl.jit(lambda x: run(program, x, left_out, True), target="python")(ours)
        except CallError:
            assert order != "rows"
            return len(program), len(program)
        wanted = run(program, theirs, left_out, False)
    text = f"{program} of {shape} in {order}, without {left_out}"
    assert len(got) == len(wanted), text
    for a, b in zip([*got, ours], [*wanted, theirs]):
        assert a.shape == b.shape, text
        np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=text)
    return len(program), sum(k >= 0 for k in left_out)


__all__ = ["check_memory"]
