"""Array expressions that cannot be: every refusal says what to write instead."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import SchedlangError

A = sl.placeholder((4, 6), name="A")
B = sl.placeholder((3, 5), name="B")
V = sl.placeholder((6,), name="V")
M = sl.placeholder((4, 6), "bool", name="M")
U = sl.placeholder((6,), "int32", name="U")
z = sl.placeholder((), name="z")
k = sl.reduce_axis(6, name="k")
n, m = sl.var("n"), sl.var("m")

CASES: dict[str, tuple[Callable[[], Any], str]] = {
    # shapes
    "broadcast": (lambda: A + B, r"A \+ B of shapes \(4, 6\) and \(3, 5\): they do not broadcast: "
                                 r"6 and 5 are neither equal nor 1\n.*A\[:, None\]"),
    "broadcast of three": (lambda: np.where(A > 0, A, B), r"np\.where of shapes .* and \(3, 5\)"),
    "matmul": (lambda: A @ B, r"A @ B of shapes \(4, 6\) and \(3, 5\): the extents to sum over, 6 "
                              r"and 3, differ\n.*A\.T transposes"),
    "matmul of a scalar": (lambda: A @ z,
    r"A @ z: z has no dimension\n  Multiply by a scalar with"),
    "dot": (lambda: np.dot(A, A), r"A @ A of shapes"),
    "vecdot": (lambda: np.vecdot(A, B), r"np\.vecdot of shapes .* 6 and 5, differ"),
    "matvec": (lambda: np.matvec(V, A), r"np\.matvec: V of shape \(6,\) needs 2 dimensions"),
    "tensordot": (lambda: np.tensordot(A, B), r"np\.tensordot of shapes .*dimension 0 of the first "
                                              r"has extent 4"),
    "tensordot of too many": (lambda: np.tensordot(A, V), "an operand has fewer than 2 dimensions"),
    "tensordot twice": (
        lambda: np.tensordot(A, A, ([0, 0], [0, 0])), "a dimension is given twice"),
    "cross": (lambda: np.cross(A, A), r"A has 6 components, but must have 3"),
    "concatenate": (
        lambda: np.concatenate([A, B]), r"np\.concatenate of shapes \(4, 6\) and \(3, 5\): all "
                                        r"dimensions but 0 must be equal"),
    "concatenate of nothing": (lambda: np.concatenate([z, z]), "z is 0-d and cannot be joined"),
    "stack": (lambda: np.stack([A, B]), r"np\.stack of shapes .*np\.concatenate joins"),
    "reshape": (
        lambda: A.reshape(5, 5), r"of shape \(4, 6\) to \(5, 5\): they have 24 and 25 elements\n"
                                 r".*-1 stands for what is left"),
    "reshape with a rest": (
        lambda: A.reshape(5, -1), r"to \(5, -1\): 24 elements are not provably a multiple of 5"),
    "reshape with two rests": (lambda: A.reshape(-1, -1), "only one extent may be -1"),
    "broadcast_to": (
        lambda: np.broadcast_to(A, (6,)), r"np\.broadcast_to\(A, \(6,\)\): A of shape \(4, 6\)"),
    "squeeze": (lambda: A.squeeze(0), "dimension 0 has extent 4; only dimensions of extent 1"),
    "split": (lambda: np.split(A, 3), "do not divide into 3 equal parts; np.array_split"),
    "pad": (lambda: np.pad(A, ((1, 1),) * 3), r"pad_width=.* is not a pair .* each of the 2"),
    "pad by a mode": (lambda: np.pad(A, 1, "symmetric"), r"np\.pad\(mode='symmetric'\): the modes "
                                                         r"are constant, edge, reflect, wrap"),
    "take_along_axis": (
        lambda: np.take_along_axis(A, U, axis=0), r"of shape \(6,\) must have the 2 dimensions"),
    "average": (
        lambda: np.average(A, weights=V), r"weights of shape \(6,\) fit neither A .* axis="),
    "mask of a reduction": (
        lambda: np.sum(V, where=M), r"np\.sum: where= of shape \(4, 6\) is larger"),
    # axes
    "axis out of range": (lambda: A.sum(axis=2),
    r"np\.sum: axis=2 is out of range for an array with "
                                                 r"2 dimensions; give -2\.\.1"),
    "axis twice": (lambda: A.sum(axis=(0, -2)), r"axis=\(0, -2\) names a dimension twice"),
    "axis by an axis": (
        lambda: np.sum(A, axis=k),
        r"np\.sum with axis=k: .*\n.*axis=0.*sl\.sum\(A\[i, k\], axis=k\)"),
    "axis by a float": (lambda: A.sum(axis=0.5), r"axis=0\.5 is not the number of a dimension"),
    "transpose": (lambda: A.transpose(0, 0), r"axes=\(0, 0\) names a dimension twice"),
    "transpose of some": (lambda: A.transpose((0,)), "has 1 entries, but A has 2 dimensions"),
    "moveaxis": (lambda: np.moveaxis(A, 0, [0, 1]), "must name the same number"),
    # indices
    "too many indices": (lambda: A[0, 0, 0], r"A\[0, 0, 0\]: A has 2 dimensions, got 3"),
    "too many slices": (lambda: A[:, :, 1:], r"A\[:, :, 1:\]: A has 2 dimensions"),
    "two ellipses": (lambda: A[..., ...], r"A\[\.\.\., \.\.\.\]: give \.\.\. once"),
    "row out of range": (lambda: A[4], r"index 4 of A: dimension 0 has 4 elements\n.*-4\.\.0 from"),
    "row of nothing": (lambda: A[4:][0], "index 0 of slice: dimension 0 has 0 elements"),
    "step 0": (lambda: A[::0], r"A\[::0\]: the step of a slice cannot be 0"),
    "float bound": (lambda: A[: 6 / 2], r"the bound 3\.0 is not an integer; divide with //"),
    "step of a size": (lambda: A[::n], "the step n is an expression"),
    "bound read from a tensor": (
        lambda: V[: U[0]], r"V\[:U\[0\]\] with the bound .*the shape of the result would depend on "
                           r"data\n.*np\.where"),
    "mask": (lambda: A[M],
    r"A\[M\]: the shape of the result would depend on data\n.*np\.where\(M, A"
                           r", 0\).*where=M"),
    "slice beside an axis": (lambda: A[k, 1:],
    r"A\[k, 1:\]: k is an axis.*slices are not supported"),
    "slice between axes": (
        lambda: A[k : k + 2], r"A\[k:k \+ 2\]: k is an axis.*slices are not supported\n.*as axes"),
    # data-dependent shapes
    "nonzero": (lambda: np.nonzero(A), r"np\.nonzero of tensor A: the shape of the result would"),
    "where of one": (lambda: np.where(M), r"depend on data\n.*np\.where\(condition, x, y\)"),
    "unique": (lambda: np.unique(A), "would depend on data"),
    "repeats": (lambda: np.repeat(V, U), r"would depend on data\n.*np\.take\(A, places\)"),
    "compress": (lambda: A.compress([True]), r"no attribute 'compress', .*depend on data"),
    # functions without a form
    "sort along no axis": (
        lambda: np.sort(A, axis=2), r"np\.sort: NumPy refuses it: axis 2 is out"),
    "solve": (lambda: np.linalg.solve(A, V), r"np\.linalg\.solve of shape \(4, 6\): .* square"),
    "right side of solve": (
        lambda: np.linalg.solve(A[:, :4], V),
        r"np\.linalg\.solve of shapes \(4, 4\) and \(6,\): the matrix has 4 rows, and .* 6"),
    "lstsq": (lambda: np.linalg.lstsq(A, V), "would depend on data\n.*pinv"),
    "sort of bfloat16": (
        lambda: np.sort(sl.placeholder((3,), "bfloat16", name="H")),
        "which is bfloat16: .*\n.*astype\\('float32'\\)"),
    "median of an axis of data": (
        lambda: np.median(V, axis=U[0]), r"np\.median\(axis=\.\.\.\): .*\n.*static_argnames"),
    "histogram": (
        lambda: np.histogram(A, "auto"), r"bins='auto'\): the number of bins would depend on el"),
    "bins of floats": (lambda: np.histogram(A, 2.5), "`bins` must be an integer"),
    "bincount": (lambda: np.bincount(U), r"number of bins would depend .*\n.*minlength=n\)"),
    "gradient": (lambda: np.gradient(A[:, :1]), "axis 1 has 1 elements, but edge_order=1 needs 2"),
    "distances of gradient": (
        lambda: np.gradient(A, 1, 2, 3), "3 distances for 2 axes; give one for all, or one for"),
    "coordinates of gradient": (
        lambda: np.gradient(A, V, V), r"coordinates of shape \(6,\) for axis 0 of shape \(4, 6\)"),
    "cov of three dimensions": (lambda: np.cov(A[None]), "which has 3 dimensions: it takes 2 at"),
    "floats as fweights": (lambda: np.cov(A, fweights=V), "fweights must be integers"),
    "a long polynomial": (
        lambda: np.polyval(sl.placeholder((101,), name="P"), V), "101 coefficients: .*100 is the"),
    "a long window": (
        lambda: np.lib.stride_tricks.sliding_window_view(V, 7), "a window of 7 is longer than ax"),
    "windows of no axis": (
        lambda: np.lib.stride_tricks.sliding_window_view(A, 2), "1 extents for 2 axes; give one"),
    "apply_along_axis": (lambda: np.apply_along_axis(sum, 0, A), r"sl\.compute\(A\.shape"),
    "a ufunc by a keyword": (
        lambda: np.cbrt(A, dtype="float64"), r"np\.cbrt of a tensor: it has no form here"),
    "a function without a form": (lambda: np.diagflat(A), r"np\.diagflat of tensor A: it has no f"),
    "reducer": (lambda: np.hypot.reduce(A), r"np\.hypot\.reduce: .*\n.*sl\.comm_reducer"),
    "accumulate": (lambda: np.hypot.accumulate(A), r"np\.hypot\.accumulate: .*\n.*sl\.scan"),
    "reduceat": (lambda: np.add.reduceat(V, [0, 2]),
    r"np\.add\.reduceat: its ranges depend on data"),
    "at": (lambda: np.add.at(V, U, 1), r"np\.add\.at: .* not written to\n.*sl\.scatter\(A"),
    "matrix norm": (lambda: np.linalg.norm(A, 3), r"ord=3\) of a matrix: .* no such norm"),
    "power of a rectangle": (lambda: np.linalg.matrix_power(A, 2), "is not square"),
    "inverse power": (
        lambda: np.linalg.matrix_power(A[:, :4], -1), "the power must be an integer of 0 or more"),
    # keywords
    "out": (lambda: np.sum(A, out=np.ones(())), r"np\.sum\(out=\.\.\.\): a tensor describes .* not "
                                                r"written to\n.*C = np\.sum\(\.\.\.\)"),
    "out by position": (lambda: A.sum(0, None, np.ones(6)), r"A\.sum\(out=\.\.\.\)"),
    "out of a ufunc": (lambda: np.exp(A, out=np.ones((4, 6))), r"np\.exp\(out=\.\.\.\)"),
    "in place": (lambda: operator.iadd(np.ones((4, 6)), A), r"np\.add\(out=\.\.\.\)"),
    "where of a ufunc": (
        lambda: np.exp(A, where=M), r"np\.exp\(where=\.\.\.\): .*\n.*np\.where\(cond, np\.exp"),
    "casting": (lambda: np.add(A, 1, casting="unsafe"), r"casting=\.\.\.\): .*\n.*astype"),
    "order": (lambda: A.reshape(6, 4, order="F"), r"order=\.\.\.\): arrays are stored row by row"),
    "unknown keyword": (
        lambda: A.sum(axes=0),
        r"A\.sum\(axes=\.\.\.\): this keyword has no form here; did you mean "
                               r"'axis'\?\n  It takes a, axis"),
    "too many arguments": (
        lambda: A.squeeze(0, 1), r"A\.squeeze takes 2 arguments at most \(a, axis\), got 3"),
    "bounds twice": (lambda: A.clip(0, 1, min=0), "a_min and min are one bound"),
    "start of a truth": (
        lambda: np.sum(M, dtype=bool, initial=True), "no initial=; combine the result with it"),
    "missing argument": (
        lambda: A.take(),
        r"A\.take: missing a required argument: 'indices'\n  It takes a, indices"),
    "keyword of einsum": (
        lambda: np.einsum("ij->j", A, dtype="float64"),
        r"np\.einsum\(dtype=\.\.\.\): this keyword"),
    "twice": (lambda: A.sum(0, axis=1), "axis is given twice, by position and by name"),
    "returned": (lambda: np.average(A, returned=True), r"np\.sum\(weights, axis\)"),
    "mean of a variance": (lambda: np.var(A, mean=A.mean()), r"np\.var\(mean=\.\.\.\)"),
    "ddof and correction": (lambda: np.var(A, ddof=1, correction=1), "ddof and correction are one"),
    "mean in integers": (lambda: A.mean(dtype="int32"),
    r"np\.mean\(dtype='int32'\): the result is"),
    "maximum without a start": (
        lambda: np.max(A, where=M), r"np\.max with where=: .*\n.*initial=-np\.inf"),
    "mask that is no bool": (lambda: np.sum(A, where=A),
    "where= is float32, but must be bool; write "
                                                         "where=mask != 0"),
    "repeats of a float": (lambda: np.repeat(A, 1.5), "an extent must be an integer"),
    # operands
    "NumPy's arrays chosen from": (
        lambda: np.where(M, A, np.arange(6.0)), r"np\.where with a NumPy array of shape \(6,\).*\n"
        r"  Declare it, X = sl\.placeholder\(\(6,\), 'float64'.*@sl\.jit passes such arrays"),
    "NumPy's array in a product": (
        lambda: A @ np.eye(6), r"np\.matmul with a NumPy array of shape \(6, 6\)"),
    "NumPy's array of one value": (
        lambda: A + np.ones(6, "float32"),
        r"\n  Its elements are all 1\.0: np\.full\(\(6,\), 1\.0, 'float32', like=A\) is a stage"),
    "NumPy's array": (lambda: np.add(A, np.ones(6)), r"np\.add with a NumPy array of shape \(6,\): "
                      r".*\n.*X = sl\.placeholder\(\(6,\), 'float64', name=\"X\"\)"),
    "list": (lambda: A * [1, 2], r"A \* \[1, 2\] with a list: .*\n.*np\.stack"),
    "text": (lambda: A + "a", "str 'a' cannot be used"),
    "order of complex numbers": (lambda: np.maximum(A * 1j, A), "complex numbers have no order"),
    "bits of a float": (lambda: A & 1, "take integers or bools, not float32"),
    "bool minus bool": (lambda: M - M, "bools cannot be subtracted"),
    "negative bool": (lambda: -M, "a bool cannot be negated"),
    "sign of a bool": (lambda: np.sign(M), "a bool has no sign"),
    "reciprocal of an integer": (lambda: np.reciprocal(U), r"NumPy truncates .*\n.*1 / A"),
    "empty maximum": (lambda: A[4:].max(),
    r"np\.max of slice of shape \(0, 6\): it has no elements"),
    "empty argmax": (lambda: A[4:].argmax(axis=0), r"np\.argmax of slice .* has no elements$"),
    "take of floats": (lambda: np.take(A, V), "indices are float32, but must be integers"),
    "take out of range": (lambda: np.take(A, [0, 9], axis=0), "index 9 is out of bounds"),
    "take of many": (lambda: np.take(V, np.arange(99) % 6), r"sl\.placeholder\(\(99,\), \"int64\""),
    "element in an array function": (
        lambda: np.where(A > 0, A[0, k], 0),
        r"np\.where of A\[0, k\]: .* one element of a computation over k"),
    # what a tensor is not
    "assignment": (lambda: operator.setitem(A, 0, 1), r"A\[\.\.\.\] = \.\.\.: .*not written to\n.*"
                                                      r"@sl\.jit, slice writes work"),
    "iteration": (lambda: list(A), r"tensor A cannot be iterated over: .*\n.*A\.sum\(\)"),
    "truth": (lambda: bool(A > 0), "has no truth value"),
    "values": (lambda: np.asarray(A), "tensor A as a NumPy array"),
    "tolist": (lambda: A.tolist(),
    r"no attribute 'tolist', unlike NumPy's arrays: .*call a kernel"),
    "sort in place": (lambda: A.sort(), r"no attribute 'sort', .*\n?.*np\.sort\(A\)"),
    "fill": (lambda: A.fill(0), "is not written to"),
    "length": (lambda: len(sl.placeholder((n,), name="N")), "known only at the call"),
    "schedule of an element": (
        lambda: sl.schedule(np.sqrt(A[0, 0])), r"is not a tensor; .*sl\.named\(\"y\", \.\.\.\)"),
    # names
    "name of a named tensor": (lambda: sl.named("C", A),
    r"sl\.named\('C', A\): A has a name already"
                                                         r"\n.*np\.copy\(A\)"),
    "name that is none": (lambda: sl.named("1a", A + 1), "a name must be a Python identifier"),
    "norm of three dimensions": (
        lambda: np.linalg.norm(A[None], 1), "give axis= for more than two dimensions"),
    "convolution of a matrix": (lambda: np.convolve(A, V), "it takes vectors"),
    "rolled by a float": (lambda: np.roll(A, 0.5), r"np\.roll: shift=0\.5 must be an integer"),
    "einsum": (lambda: np.einsum("ij,jk", A), "name 2 operands, but 1 are given"),
}  # fmt: skip

if not hasattr(np, "matvec"):
    # new in NumPy 2.2
    del CASES["matvec"]


@pytest.mark.parametrize("name", CASES)
def test_refusal(name: str) -> None:
    call, match = CASES[name]
    with pytest.raises(SchedlangError, match=match) as caught:
        call()
    # a NumPy user expects an error of one of Python's kinds
    assert isinstance(caught.value, (TypeError, ValueError, IndexError, AttributeError))


def test_an_empty_context_is_refused() -> None:
    with pytest.raises(SchedlangError, match="no stage was made in it"), sl.named("h"):
        pass


def test_a_step_of_a_view_is_refused() -> None:
    turned = A.T
    s = sl.schedule(turned @ A)
    with pytest.raises(SchedlangError, match=r"s\[transpose\]: transpose is a view, .* read A "
                                             r"instead\n.*sl\.named\(\"transpose\", \.\.\.\)"):
        s[turned]
