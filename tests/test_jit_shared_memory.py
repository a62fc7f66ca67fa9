"""Memory that results share with arguments in traced functions, beside NumPy.

Every function in the table of NumPy's functions, every ufunc and every method of an array has a
call here. A write through its result arrives in the argument where it does in NumPy, and the other
way round, or is refused.
"""

from __future__ import annotations

import warnings
from operator import attrgetter, methodcaller

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.arrays.functions import FORMS
from schedlang.errors import CallError, ComputeError, SchedlangError
from schedlang.language.numpy_functions import name_of
from schedlang.language.ufuncs import has_form
from schedlang.tracing.array import TracedArray
from schedlang.tracing.views import SHARED
from tests.fuzz.memory import check_memory
from tests.marks import slow_but

MATRIX = np.arange(1, 17.0).reshape(4, 4)
BASES = {
    "matrix": MATRIX, "integers": MATRIX.astype("int64"), "vector": np.arange(1, 5.0),
    "complex": MATRIX + 2j, "row": MATRIX[:1].copy(), "0-d": np.array(3.0),
    "not finite": np.array([[1, np.nan], [np.inf, -np.inf]]),
}  # fmt: skip


def of(*calls, bases=("matrix",)):
    return [(base, call) for call in calls for base in bases]


def each(names, cases):
    return {name: cases(attrgetter(name)(np)) for name in names.split()}


BOTH = ("matrix", "integers")
CALLS = {
    **each("sum prod max amax min amin any all",
           lambda f: of(lambda a: f(a), lambda a: f(a, axis=()))),
    **each("argmax argmin ptp count_nonzero nansum nanprod mean average var std cumsum cumprod",
           lambda f: of(lambda a: f(a, 0))),
    **each("cumulative_sum cumulative_prod",
           lambda f: of(lambda a: f(a), bases=("vector",))),
    **each("allclose dot vdot inner outer kron append array_equal isclose",
           lambda f: of(lambda a: f(a, a), bases=("vector", "matrix"))),
    **each("transpose ravel squeeze atleast_1d atleast_2d atleast_3d copy",
           lambda f: of(lambda a: f(a), bases=("matrix", "integers", "vector", "0-d"))),
    **each("matrix_transpose flipud fliplr tril triu unstack zeros_like ones_like",
           lambda f: of(lambda a: f(a))),
    **each("sort argsort sort_complex median nanmedian nanargmin nanargmax unwrap nanmin nanmax "
           "nanmean nanvar nanstd nancumsum nancumprod cov corrcoef gradient trapezoid histogram "
           "histogram_bin_edges fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft fft.fft2 "
           "fft.ifft2 fft.rfft2 fft.irfft2 fft.fftn fft.ifftn fft.rfftn fft.irfftn fft.fftshift "
           "fft.ifftshift linalg.pinv linalg.qr linalg.svd linalg.svdvals linalg.matrix_rank",
           lambda f: of(lambda a: f(a))),
    **each("linalg.inv linalg.det linalg.slogdet linalg.cholesky linalg.eigh linalg.eigvalsh "
           "linalg.cond", lambda f: of(lambda a: f(a @ a.T + np.eye(4, like=a)))),
    **each("linalg.eig linalg.eigvals", lambda f: of(f, bases=("complex",))),
    **each("partition argpartition", lambda f: of(lambda a: f(a, 1))),
    **each("quantile percentile nanquantile nanpercentile", lambda f: of(lambda a: f(a, 0.5))),
    **each("searchsorted digitize", lambda f: of(lambda a: f(a, a), bases=("vector",))),
    "lexsort": of(np.lexsort), "isin": of(lambda a: np.isin(a, [1, 2])),
    "interp": of(lambda a: np.interp(a, a, a), bases=("vector",)),
    "bincount": of(lambda a: np.bincount(a[0], minlength=99), bases=("integers",)),
    "polyfit": of(lambda a: np.polyfit(a, a, 1), bases=("vector",)),
    "polyval": of(lambda a: np.polyval([1, 2], a)), "vander": of(np.vander, bases=("vector",)),
    "linalg.solve": of(lambda a: np.linalg.solve(a + np.eye(4, like=a), a[0])),
    "linalg.tensorsolve": of(lambda a: np.linalg.tensorsolve(a + np.eye(4, like=a), a[0])),
    "linalg.tensorinv": of(lambda a: np.linalg.tensorinv(a + np.eye(4, like=a), ind=1)),
    "unravel_index": of(lambda a: np.unravel_index(a, (4, 5)), bases=("integers",)),
    "ravel_multi_index": of(
        lambda a: np.ravel_multi_index(tuple(a % 2), (2,) * 4), bases=("integers",)),
    "sliding_window_view": of(
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, axis=0),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, (1, 1))),
    "flip": of(np.flip, lambda a: np.flip(a, 0), bases=("matrix", "vector", "0-d")),
    "empty_like": of(lambda a: np.empty_like(a)[:0]),
    **each("split array_split hsplit vsplit",
           lambda f: of(lambda a: f(a, 2), lambda a: f(a, 1),
                lambda a: f(a, [1, 3]))),
    **each("concatenate stack vstack hstack dstack column_stack",
           lambda f: of(lambda a: f([a]), lambda a: f([a, a]))),
    **each("real imag isreal iscomplex isrealobj iscomplexobj angle",
           lambda f: of(lambda a: f(a), bases=("matrix", "integers", "complex"))),
    **each("zeros ones eye identity arange",
           lambda f: of(lambda a: f(3, like=a))),
    **each("round around",
           lambda f: of(lambda a: f(a), lambda a: f(a, 0),
                bases=BOTH)),
    "linalg.norm": of(np.linalg.norm, lambda a: np.linalg.norm(a, axis=0)),
    "linalg.vector_norm": of(lambda a: np.linalg.vector_norm(a, axis=0)),
    "einsum": of(
        lambda a: np.einsum("ii->i", a), lambda a: np.einsum("ij->ji", a),
        lambda a: np.einsum("ij", a), lambda a: np.einsum("ji", a), lambda a: np.einsum("ii", a),
        lambda a: np.einsum("ij->i", a), lambda a: np.einsum(a, [0, 0], [0]),
        lambda a: np.einsum("...j->...j", a), lambda a: np.einsum("ij,jk", a, a),
        lambda a: np.einsum("ij->ji", a, optimize=True)),
    "tensordot": of(lambda a: np.tensordot(a, a, 1)),
    "trace": of(np.trace), "linalg.trace": of(np.linalg.trace),
    "convolve": of(lambda a: np.convolve(a, a), bases=("vector",)),
    "correlate": of(lambda a: np.correlate(a, a), bases=("vector",)),
    "linalg.matmul": of(lambda a: np.linalg.matmul(a, a)),
    "linalg.tensordot": of(lambda a: np.linalg.tensordot(a, a, axes=1)),
    "linalg.outer": of(lambda a: np.linalg.outer(a, a), bases=("vector",)),
    "linalg.vecdot": of(lambda a: np.linalg.vecdot(a, a)),
    "linalg.cross": of(lambda a: np.linalg.cross(a[:, :3], a[:, 1:])),
    "linalg.multi_dot": of(lambda a: np.linalg.multi_dot([a, a])),
    "linalg.matrix_power": of(*(lambda a, n=n: np.linalg.matrix_power(a, n) for n in range(3))),
    "cross": of(lambda a: np.cross(a[:, :3], a[:, 1:])),
    "linalg.matrix_transpose": of(np.linalg.matrix_transpose),
    "swapaxes": of(lambda a: np.swapaxes(a, 0, 1), lambda a: np.swapaxes(a, 0, 0)),
    "moveaxis": of(lambda a: np.moveaxis(a, 0, 1), lambda a: np.moveaxis(a=a, source=0,
                                                                         destination=0)),
    "rollaxis": of(lambda a: np.rollaxis(a, 1), lambda a: np.rollaxis(a, 0)),
    "reshape": of(
        lambda a: np.reshape(a, (2, 8)), lambda a: np.reshape(a, -1),
        lambda a: np.reshape(a, (4, 4)), lambda a: np.reshape(a, (8, 2), copy=True),
        lambda a: np.reshape(a.T, -1), lambda a: np.reshape(a + 1, -1),
        lambda a: np.reshape(a.T + 1, -1), lambda a: np.reshape(a[:, [0, 1]], -1),
        lambda a: np.reshape(np.copy(a.T), -1), lambda a: np.reshape(a.T.copy(), -1)),
    "expand_dims": of(lambda a: np.expand_dims(a, 1), lambda a: np.expand_dims(a, (0, 3))),
    "broadcast_to": of(lambda a: np.broadcast_to(a, (2, 4, 4)), lambda a: np.broadcast_to(
        a, (4, 4))),
    "broadcast_arrays": of(lambda a: np.broadcast_arrays(a, a), lambda a: np.broadcast_arrays(
        a, a[0]), lambda a: np.broadcast_arrays(a, 1)),
    "diagonal": of(np.diagonal, lambda a: np.diagonal(a, 1)),
    "linalg.diagonal": of(np.linalg.diagonal),
    "rot90": of(*(lambda a, k=k: np.rot90(a, k) for k in range(-1, 4))),
    "dsplit": of(lambda a: np.dsplit(a[None], 2)),
    "roll": of(lambda a: np.roll(a, 0), lambda a: np.roll(a, 1, 0)),
    "repeat": of(lambda a: np.repeat(a, 1, 0)), "tile": of(lambda a: np.tile(a, 1)),
    "take": of(lambda a: np.take(a, [0, 1, 2, 3], 0)),
    "take_along_axis": of(lambda a: np.take_along_axis(a, np.zeros((4, 1), int), 1)),
    "pad": of(lambda a: np.pad(a, 0)),
    "diff": of(lambda a: np.diff(a), lambda a: np.diff(a, 0), lambda a: np.diff(a, n=0)),
    "diag": of(np.diag, lambda a: np.diag(a, 1), bases=("matrix", "vector")),
    "astype": of(lambda a: np.astype(a, "float64"), lambda a: np.astype(a, "float64", copy=False),
                 lambda a: np.astype(a, "float32", copy=False)),
    "meshgrid": of(lambda a: np.meshgrid(a, a), lambda a: np.meshgrid(a, a, sparse=True),
                   lambda a: np.meshgrid(a, a, copy=False),
                   lambda a: np.meshgrid(a, np.arange(2), copy=False, sparse=True),
                   bases=("vector", "0-d", "row")),
    "where": of(lambda a: np.where(True, a, a), lambda a: np.where(a > 0, a, 1)),
    "select": of(lambda a: np.select([a > 0], [a])),
    "clip": of(lambda a: np.clip(a, 0, 99), lambda a: np.clip(a, None, None)),
    "fix": of(np.fix, bases=BOTH), "sinc": of(np.sinc),
    "nan_to_num": of(np.nan_to_num, lambda a: np.nan_to_num(a, copy=False),
                     bases=("matrix", "integers", "0-d", "not finite")),
    "full_like": of(lambda a: np.full_like(a, 2)), "full": of(lambda a: np.full(3, 2, like=a)),
    "empty": of(lambda a: np.empty(0, like=a)), "tri": of(lambda a: np.tri(3, like=a)),
    "asarray": of(lambda a: np.asarray(a), lambda a: np.asarray([1.0], like=a)),
    "array": of(lambda a: np.array(a), lambda a: np.array(a, copy=None)),
}  # fmt: skip
METHODS = {
    **{name: of(attrgetter(name), bases=("matrix", "complex"))
       for name in ("T", "mT", "real", "imag")},
    **{name: of(methodcaller(name), bases=BOTH)
       for name in ("all", "any", "argmax", "argmin", "cumprod", "cumsum", "diagonal", "max",
                    "mean", "min", "prod", "ravel", "round", "squeeze", "std", "sum", "trace",
                    "var", "conj", "conjugate", "copy", "flatten", "view", "transpose",
                    "__copy__")},
    "__deepcopy__": of(lambda a: a.__deepcopy__({})),
    "__iter__": of(list, bases=("matrix", "vector")),
    "__getitem__": of(lambda a: a[1:], lambda a: a[::-1, 2], lambda a: a[...], lambda a: a[0],
                      lambda a: a[[0, 1]], lambda a: a[a > 3], lambda a: a[None, 1]),
    "astype": of(lambda a: a.astype("float64", copy=False), lambda a: a.astype("float64", "K",
                 "unsafe", True, False), lambda a: a.astype("float64")),
    **{name: of(lambda a, f=name: getattr(a, f)(2)) for name in ("argpartition", "partition")},
    **{name: of(methodcaller(name)) for name in ("argsort", "sort", "nonzero")},
    "searchsorted": of(lambda a: a.searchsorted(2), bases=("vector",)),
    "compress": of(lambda a: a.compress(a[0] > 1, axis=0)),
    "clip": of(lambda a: a.clip(0, 99)), "dot": of(lambda a: a.dot(a)),
    "repeat": of(lambda a: a.repeat(1, 0)), "take": of(lambda a: a.take([0, 1], 0)),
    "reshape": of(lambda a: a.reshape(16), lambda a: a.reshape(2, 8), lambda a: a.reshape(
        (2, 8), copy=True)),
    "swapaxes": of(lambda a: a.swapaxes(0, 1)), "flat": of(lambda a: a.flat[2:9]),
    "__pos__": of(lambda a: +a), "__iadd__": of(lambda a: a.__iadd__(1)),
}  # fmt: skip
# what NumPy's arrays have besides: they return no array, or are operators, which are ufuncs
OTHERS = {
    "dtype", "fill", "item", "itemsize", "nbytes", "ndim", "shape", "size", "strides", "tolist",
}  # fmt: skip
UFUNCS = {
    name: of(lambda a, f=f: f(*[a] * f.nin), bases=("matrix", "integers"))
    for name, f in sorted(vars(np).items())
    # of integers, np.reciprocal is refused
    if isinstance(f, np.ufunc) and has_form(f.__name__) and f is not np.reciprocal
}
ALL = {
    f"{kind}{name} {k}": case
    for kind, table in (("np.", CALLS), ("x.", METHODS), ("ufunc ", UFUNCS))
    for name, cases in table.items()
    for k, case in enumerate(cases)
}
# functions whose results are new arrays have stages of their own, which takes time
QUICK = {f"np.{name_of(f)}" for f in SHARED} | {
    "x.T", "x.mT", "x.real", "x.imag", "x.conj", "x.copy", "x.astype", "x.reshape", "x.ravel",
    "x.__iter__", "x.__getitem__", "x.__copy__", "x.__deepcopy__", "np.real", "np.copy", "np.array",
}  # fmt: skip
# the first call of each function, and each index
QUICK_CALLS = tuple(
    name for name in ALL
    if name.rpartition(" ")[0] in QUICK and (name.endswith(" 0") or "getitem" in name)
)  # fmt: skip
# the functions of which a trace refuses writes that arrive in NumPy, or reads after them
UNWRITTEN = {
    "np.broadcast_arrays", "np.meshgrid", "np.reshape", "np.asarray", "np.array", "x.__getitem__",
}  # fmt: skip
UNREAD = {"np.asarray", "np.array", "x.__getitem__"}


def arrays_in(result):
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [p for p in parts if isinstance(p, np.ndarray)]


def written(call, a):
    """Write through the results, and return them with the argument."""
    made = arrays_in(call(a))
    for k, part in enumerate(made):
        if np.ndim(part):
            part[...] = 100 + k
    return a.copy(), [part * 1 for part in made]


def read(call, a):
    """Write to the argument, and return the results."""
    made = arrays_in(call(a))
    a[...] = a * 2 + 1
    return [part * 1 for part in made]


def outcome(function, *args):
    """Return the leaves of a result, and the error in its place."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = function(*args)
        except (SchedlangError, ValueError, TypeError, IndexError) as error:
            return error
    return [np.asarray(v) for v in ([found[0], *found[1]] if isinstance(found, tuple) else found)]


def compared(program, call, made):
    """Check one call beside NumPy, for arrays from ``made``; return the error of the trace."""
    theirs, ours = made(), made()
    wanted = outcome(program, call, theirs)
    got = outcome(sl.jit(lambda a: program(call, a), target="python"), ours)
    if isinstance(got, Exception):
        assert isinstance(got, SchedlangError), repr(got)
        return got
    assert not isinstance(wanted, Exception), f"NumPy raises {wanted!r}"
    assert len(got) == len(wanted)
    for a, b in zip([*got, ours], [*wanted, theirs]):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    return None


@pytest.fixture
def plain_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the loops of kernels as they are: the cost model takes half of the time."""
    scheduler = "schedlang.autotune.at_once.scheduler"
    monkeypatch.setattr(f"{scheduler}._schedule_by_model", lambda problem: (None, "not asked"))


@pytest.mark.parametrize("name", slow_but(QUICK_CALLS, ALL))
def test_shared_memory(name, plain_schedules):
    base, call = ALL[name]
    function = name.rpartition(" ")[0]
    for program, refused in ((written, UNWRITTEN), (read, UNREAD)):
        error = compared(program, call, BASES[base].copy)
        if error is not None and function not in refused:
            wanted = outcome(program, call, BASES[base].copy())
            assert isinstance(wanted, Exception), error


STRIDED = {
    "Fortran": lambda a: a.copy(order="F"),
    "reversed": lambda a: np.flip(np.flip(a).copy()),
    "every second": lambda a: np.repeat(a, 2, -1)[..., ::2],
}


@pytest.mark.slow
@pytest.mark.parametrize("order", STRIDED)
@pytest.mark.parametrize("name", ALL)
def test_shared_memory_of_strided_arguments(name, order):
    base, call = ALL[name]
    if base != "0-d":
        for program in (written, read):
            compared(program, call, lambda: STRIDED[order](BASES[base]))


def test_a_reshaped_result_that_is_written_or_read_later():
    """In an array that lies row by row; which results of others do depends on NumPy."""

    def f(x):
        results = []
        for y in (x[1:] * 2, np.where(x > 1, x, 0), np.zeros_like(x), x.T.copy(), np.clip(x, 1, 9)):
            z = y.reshape(-1)
            y[0] = 50
            z[1] = 60
            results += [y, z]
        return results

    ours = sl.jit(f, target="python")
    for a, b in zip(ours(MATRIX.copy()), f(MATRIX.copy())):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ComputeError, match=r"np\.reshape returned in f at .*`z = y.*depends"):
        ours(MATRIX.copy(order="F"))

    def g(x):
        y = x.T * 2
        z = y.ravel()
        y[0] = 50
        return z

    with pytest.raises(ComputeError, match=r"np\.ravel returned in g at line \d+, `z = y\.ravel"):
        sl.jit(g, target="python")(MATRIX.copy())


LAID_OUT = {
    "columns": lambda a: np.asfortranarray(a),
    "every second row": lambda a: np.repeat(a, 2, 0)[::2],
    "every second column": lambda a: np.repeat(a, 2, 1)[:, ::2],
    "reversed": lambda a: np.flip(np.flip(a).copy()),
    "one row": lambda a: np.broadcast_to(a[0], a.shape),
}


@pytest.mark.parametrize("lies", LAID_OUT)
@pytest.mark.parametrize("dynamic", slow_but(["True"], [None, True]))
def test_what_numpy_copies_of_an_argument_depends_on_its_strides(lies, dynamic):
    """Such an argument has a trace of its own, after one in which arrays lie row by row."""

    def f(x):
        y, z, r = x.ravel(), x.reshape(-1, 2), x.T.ravel()
        s, t = x.T.reshape(-1), np.ascontiguousarray(x)
        if lies != "one row":
            x[0] = 50
        y[1] = 60
        s[2] = 70
        t[-1] += 1
        return y, z, r, s, t

    ours = sl.jit(f, target="python", dynamic=dynamic)
    for a in (MATRIX, MATRIX, MATRIX[:2]):
        for lay in (np.copy, LAID_OUT[lies]):
            mine, theirs = lay(a.copy()), lay(a.copy())
            for one, other in zip(ours(mine), f(theirs)):
                np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(mine, theirs)


def test_elements_of_an_argument_that_share_memory_are_not_written():
    def add(x):
        x += 1

    overlapping = np.lib.stride_tricks.as_strided(np.arange(6.0), (3, 4), (8, 8))
    with pytest.raises(CallError, match="writes x, an array of shape .*\n.*x.copy"):
        sl.jit(add, target="python")(overlapping)
    x = np.arange(24.0).reshape(4, 6)
    sl.jit(add, target="python")(np.lib.stride_tricks.as_strided(x, (3, 2), (16, 96)))
    wanted = np.arange(24.0).reshape(4, 6)
    wanted[[0, 2], :5:2] += 1
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize(
    ("name", "order"),
    [("ravel", "A"), ("ravel", "K"), ("flatten", "A"), ("flatten", "K"), ("reshape", "A")],
)
def test_orders_of_elements_that_depend_on_strides(name, order):
    def f(x):
        return x.reshape(-1, order=order) if name == "reshape" else getattr(x, name)(order)

    ours = sl.jit(f, target="python")
    np.testing.assert_array_equal(ours(MATRIX), f(MATRIX))
    np.testing.assert_array_equal(ours(MATRIX[0]), f(MATRIX[0]))
    with pytest.raises(ComputeError, match=rf"order='{order}'.*the order of the elements depends"):
        ours(MATRIX.copy(order="F"))
    with pytest.raises(ComputeError, match=rf"order='{order}'.*the order of the elements depends"):
        sl.jit(lambda x: f(x.T), target="python")(MATRIX)


def columns(x):
    two = x.reshape(2, 8, order="F")
    return two, np.reshape(x, (-1, 2), order="F"), x.ravel("F"), x.flatten("F"), np.ravel(x[0], "F")


def columns_of_the_transpose(x):
    y = x.T.reshape(16, order="F")
    y[0] = 3
    z = np.ravel(x.T, "F")
    z[5] = 9
    return y * 1, np.reshape(x[0], (2, 2), order="F") + 1


def a_column_that_is_written(x):
    y = np.ravel(x, "F")
    y[2] = 7
    x[1, 1] = 8
    return y * 1


@pytest.mark.parametrize("function", [columns, columns_of_the_transpose, a_column_that_is_written])
def test_elements_column_by_column(function):
    for order in "CF":
        ours, theirs = MATRIX.copy(order), MATRIX.copy(order)
        result, expected = sl.jit(function, target="python")(ours), function(theirs)
        single = isinstance(expected, np.ndarray)
        pairs = [(result, expected)] if single else zip(result, expected)
        for a, b in [*pairs, (ours, theirs)]:
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_programs(data):
    """``python -m tests.fuzz.arrays`` runs more."""
    check_memory(data.draw)


def test_every_function_and_method_has_a_call():
    assert {*CALLS} == {*FORMS}
    public = {name for name in dir(TracedArray) if not name.startswith("_")} & {*dir(np.ndarray)}
    assert public - OTHERS <= {*METHODS}
