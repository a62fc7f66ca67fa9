"""Gradients of traced functions whose loops are kept: maps, reductions, scans, branches, in-place
arrays, and choices whose other side has no finite derivative; against finite differences.
"""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.graph import operations
from schedlang.compute.tensor import ScanOp

SHAPE = (9, 7)


def doubled_rows(x):
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        y[i] = np.sin(x[i]) * 2
    return y


def sliding_windows(x):
    y = np.empty((x.shape[0] - 2, x.shape[1] - 1))
    for i in range(x.shape[0] - 2):
        for j in range(x.shape[1] - 1):
            y[i, j] = np.sum(x[i : i + 3, j : j + 2] * x[0:3, 0:2])
    return y


def trace_added(x):
    total = 0.0
    for i in range(x.shape[1]):
        total += np.tanh(x[i, i])
    return x * total


def running_products(x):
    y = np.empty_like(x)
    s = x[0] * 1.0
    for i in range(x.shape[0]):
        s = s * 0.5 + x[i] * s
        y[i] = s
    return y


def stencil_in_place(x):
    a, b = x * 1.0, x * 1.0
    for _ in range(6):
        b[1:-1] = 0.3 * (a[:-2] + a[1:-1] * a[2:])
        a[1:-1] = 0.3 * (b[:-2] + b[1:-1] + b[2:])
    return a


def columns_in_place(x):
    y = np.empty_like(x)
    y[:, 0], y[:, 1] = x[:, 0], x[:, 1]
    for j in range(2, x.shape[1]):
        y[:, j] = x[:, j] * 2 + 0.5 * y[:, j - 1] + 0.25 * y[:, j - 2] * y[:, j - 1]
    return y


def columns_backwards(x):
    y = np.empty_like(x)
    y[:, -1], y[:, -2] = x[:, -1], x[:, -2]
    for j in range(x.shape[1] - 3, -1, -1):
        y[:, j] = x[:, j] + 0.5 * y[:, j + 1] * y[:, j + 2]
    return y


def rows_before_and_after(x):
    y = x * 1.0
    for i in range(1, x.shape[0] - 1):
        y[i, 1:-1] = np.sin(y[i - 1, 1:-1]) + y[i, 1:-1] * y[i + 1, 1:-1]
    return y


def argument_written(x):
    x *= 2
    for i in range(1, x.shape[0]):
        x[i] += 0.5 * x[i - 1] * x[i]
    return x


def chosen_rows_of_a_root(x):
    root, s = np.sqrt(x), x[0] * 0 + 1
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        s = np.where(x[i] > 0, root[i], s * 0.5)
        y[i] = s
    return y


def branch_on_a_column(x):
    logarithm, s = np.log(x), 0.0
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        if x[i, 0] > 0:
            s = s * 0.5 + logarithm[i, 0]
        else:
            s = s + 1
        y[i] = s
    return y


def branch_on_elements(x):
    root = np.sqrt(x)
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > 0:
                y[i, j] = root[i, j] * 2
            else:
                y[i, j] = x[i, j]
    return y


def sum_of_some(x):
    root, total = np.sqrt(x), 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > 0:
                total += root[i, j] * 2
    return x * 0 + total


def root_of_the_state(x):
    y, s = np.zeros_like(x), x[0] * 1.0
    for i in range(x.shape[0]):
        s = np.where(s > 0, np.sqrt(s) + x[i], x[i])
        y[i] = s
    return y


def masked_rows(x):
    y, root = x * 1.0, np.sqrt(x)
    for i in range(1, x.shape[0]):
        m = x[i] > 0
        y[i][m] += root[i][m]
    return y


def parts_of_two_arrays(x):
    p, q = x * 1.0, np.cos(x)
    for j in range(1, x.shape[1] - 1):
        p[1:-1, j] = -0.5 / (p[1:-1, j - 1] * 0.1 + 2.0)
        q[1:-1, j] = (x[:-2, j] - x[2:, j] + q[:-2, j - 1] * q[1:-1, j + 1]) * p[1:-1, j - 1]
    return p + q


def sweep_of_a_tridiagonal_system(x):
    c, d = np.zeros_like(x), np.ndarray(x.shape)
    c[:, 0], d[:, 0] = 0.2, x[:, 0]
    for k in range(1, x.shape[1]):
        over = 1.0 / (3.0 - c[:, k - 1] * 0.4)
        c[:, k] = np.sin(x[:, k]) * over
        d[:, k] = (x[:, k] - d[:, k - 1] * 0.4) * over
    u = d * 1.0
    for k in range(x.shape[1] - 2, -1, -1):
        u[:, k] = d[:, k] - c[:, k] * u[:, k + 1]
    return u


FUNCTIONS = {
    f.__name__: f
    for f in (
        doubled_rows, sliding_windows, trace_added, running_products, stencil_in_place,
        columns_in_place, columns_backwards, rows_before_and_after, argument_written,
        chosen_rows_of_a_root, branch_on_a_column, branch_on_elements, sum_of_some,
        root_of_the_state, masked_rows, parts_of_two_arrays, sweep_of_a_tridiagonal_system,
    )
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_through_a_loop(name):
    function = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    x = rng.normal(size=SHAPE)
    weights = rng.normal(size=function(x.copy()).shape)

    def loss(x, weights):
        return (function(x) * weights).sum()

    X = sl.placeholder(SHAPE, "float64", name="X")
    W = sl.placeholder(weights.shape, "float64", name="W")
    value = sl.trace(loss, X, W)
    kernel = sl.build(sl.schedule([value, sl.gradient(value, X)]), target="python")
    result, gradient = kernel(X=x, W=weights)
    np.testing.assert_allclose(result, loss(x.copy(), weights), rtol=1e-12)
    expected = np.zeros_like(x)
    for at in np.ndindex(*SHAPE):
        step = np.zeros_like(x)
        step[at] = 1e-6
        expected[at] = (loss(x + step, weights) - loss(x - step, weights)) / 2e-6
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_a_side_that_is_not_chosen_adds_nothing_before_a_loop():
    X = sl.placeholder((6, 3), "float64", name="X")

    def loss(x):
        return branch_on_a_column(x).sum()

    value = sl.trace(loss, X)
    x = np.random.default_rng(0).normal(size=(6, 3))
    x[2, 0] = 0
    by_x = sl.reference(sl.gradient(value, X))(X=x)
    assert np.isfinite(by_x).all() and by_x[2, 0] == 0 and not by_x[:, 1:].any()
    assert ((by_x[:, 0] != 0) == (x[:, 0] > 0)).all()


@pytest.mark.parametrize("name", ["columns_in_place", "columns_backwards", "parts_of_two_arrays"])
def test_a_loop_over_columns_is_a_scan_of_columns(name):
    x = np.random.default_rng(0).normal(size=SHAPE)
    X = sl.placeholder(SHAPE, "float64", name="X")
    value = sl.trace(FUNCTIONS[name], X)
    (scan,) = (op for op in operations([value]) if isinstance(op, ScanOp))
    assert all(state.shape[1:] == (SHAPE[0],) for state in scan.state)
    np.testing.assert_allclose(sl.reference(value)(x), FUNCTIONS[name](x), rtol=1e-12)


def test_a_loop_that_needs_older_rows_keeps_whole_arrays():
    def squares(x):
        y = x * 1.0
        for i in range(1, x.shape[0]):
            y[i] = y[i - 1] + y[0] * y.sum()
        return y

    x = np.random.default_rng(0).normal(size=SHAPE) / 9
    X = sl.placeholder(SHAPE, "float64", name="X")
    value = sl.trace(squares, X)
    (scan,) = (op for op in operations([value]) if isinstance(op, ScanOp))
    assert scan.state[0].shape[1:] == SHAPE
    np.testing.assert_allclose(sl.reference(value)(x), squares(x), rtol=1e-12)
