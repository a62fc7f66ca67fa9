"""Tests of what the compute language refuses, and of the messages."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute import compute, placeholder, var
from schedlang.compute import math as m
from schedlang.compute import reduce as r
from schedlang.compute.bounds import check_reads
from schedlang.compute.graph import operations
from schedlang.compute.scan import scan
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import (
    BoundsError,
    ComputeError,
    ComputeTypeError,
    SchedlangError,
)
from schedlang.language.construct import const

n = var("n")
A = placeholder((8, 8), name="A")
V = placeholder((8,), name="V")
U = placeholder((8,), "uint8", name="U")
I8 = placeholder((8,), "int8", name="I")
F = placeholder((8,), "float32", name="F")
B = placeholder((8,), "bool", name="B")
k = r.reduce_axis(8, name="k")
more = r.reduce_axis(8, name="more")
empty = r.reduce_axis(0, name="empty")
below = r.reduce_axis((-2, 3), name="below")
zero = placeholder((), name="zero")
S = placeholder((5, 4), name="S")
first = compute((1, 4), lambda t, i: V[i], name="first")
step = compute((5, 4), lambda t, i: S[t - 1, i] + 1, name="step")
other = compute((8,), lambda x: V[x], name="other")


def one(body: Callable[[Any], Any]) -> Callable[[], Any]:
    """Return a function that computes ``body`` over 8 elements, which is refused."""
    return lambda: compute((8,), body, name="C")


def branch(i: Any) -> Any:
    return 1.0 if V[i] > 0 else 0.0


def both(i: Any) -> Any:
    return m.select(V[i] > 0 and V[i] < 1, 1.0, 0.0)


def chained(i: Any) -> Any:
    return m.select(0 < V[i] < 1, 1.0, 0.0)


REFUSALS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    # shapes, dtypes and names
    "negative extent": (
        lambda: placeholder((4, -1)), ComputeError, "dimension 1 of placeholder .*-1"),
    "float extent": (
        lambda: placeholder((4.5,)), ComputeTypeError, r"is 4\.5, but an extent must be an "
                                                       r"integer"),
    "divided extent": (
        lambda: placeholder((65 / 4,)), ComputeTypeError, r"is 16\.25, but an extent must be"),
    "name before the shape": (
        lambda: placeholder("A", (3, 3)), ComputeTypeError,
        r"sl\.placeholder\('A', \(3, 3\)\): the shape .*sl\.placeholder\(\(3, 3\), name='A'\)"),
    "shape in two": (
        lambda: compute(64, 50, lambda i, j: i), ComputeTypeError,
        r"one tuple; write sl\.compute\(\(64, 50\), fcompute\)"),
    "placeholder's shape in two": (
        lambda: placeholder(64, 50), ComputeTypeError,
        r"one tuple; write sl\.placeholder\(\(64, 50\), \.\.\.\)"),
    "placeholder's shape in two of NumPy's numbers": (
        lambda: placeholder(64, np.int64(50)), ComputeTypeError,
        r"one tuple; write sl\.placeholder\(\(64, 50\), \.\.\.\)"),
    "bool extent": (lambda: placeholder((True,)), ComputeTypeError, "an extent must be an integer"),
    "text extent": (lambda: placeholder("n"), ComputeTypeError, r"sl\.var"),
    "float size": (lambda: placeholder((var("x", "float32"),)), ComputeTypeError, r"x \(float32\)"),
    "huge extent": (lambda: placeholder((2**62,)), ComputeError, "overflow 64-bit"),
    "huge shape": (lambda: placeholder((2**30, 2**30)), ComputeError, "offsets would overflow"),
    "unknown dtype": (
        lambda: placeholder((4,), "float8"), ComputeTypeError, "'float8' is not supported"),
    "long double": (
        lambda: placeholder((4,), "longdouble"), ComputeTypeError, "longdouble' is not supported|"
        "float128' is not supported"),
    "keyword name": (
        lambda: placeholder((4,), name="for"), ComputeError, "'for' cannot name a place"),
    "spaced name": (lambda: placeholder((4,), name="a b"), ComputeError, "Python identifier"),
    "code in a name": (
        lambda: compute((4,), lambda i: i, name="x;import os"), ComputeError, "cannot name"),
    "newline in a name": (lambda: var("n\n"), ComputeError, "cannot name a variable"),
    "empty name": (lambda: placeholder((4,), name=""), ComputeError, "cannot name"),
    "number as name": (lambda: placeholder((4,), name=3), ComputeTypeError, "must be a string, "
                                                                            "got int"),
    "axis name": (
        lambda: r.reduce_axis(4, name="a-b"), ComputeError, "cannot name a reduction axis"),
    # indexing
    "too few indices": (one(lambda i: A[i]), BoundsError, r"A has 2 dimensions, got 1"),
    "too many indices": (one(lambda i: V[i, i]), BoundsError, r"V has 1 dimension, got 2"),
    "float index": (
        one(lambda i: V[i * 0.5]), ComputeTypeError, r"index 0 of V is float64.*sl\.cast"),
    "divided index": (
        one(lambda i: V[i / 2]), ComputeTypeError,
        r"index 0 of V is float64, .*; divide with //, which gives i//2$"),
    "index divided in an expression": (
        one(lambda i: V[2 * ((i + 1) / 4)]), ComputeTypeError, r"gives 2\*\(\(i \+ 1\)//4\)$"),
    "divided integer index": (one(lambda i: V[U[i] / 2]), ComputeTypeError, r"gives U\[i\] // 2$"),
    "index that Python divided": (one(lambda i: V[4 / 2]), ComputeTypeError, "which gives 2$"),
    "float divided index": (
        one(lambda i: V[F[i] / 2]), ComputeTypeError, r"sl\.cast\(F\[i\] / 2, 'int64'\)"),
    "float tensor index": (one(lambda i: V[F[i]]), ComputeTypeError, "index 0 of V is float32"),
    "bool index": (one(lambda i: V[i > 3]), ComputeTypeError, "index 0 of V is bool"),
    "truth value": (one(lambda i: V[True]), ComputeTypeError, "index 0 of V is True, but must be"),
    "truth value of NumPy": (lambda: V[np.False_], ComputeTypeError, "index 0 of V is False, but"),
    "truth value in an array": (lambda: V[np.array(True)], ComputeTypeError, "np.where choose by"),
    "slice": (
        one(lambda i: V[0:3]), ComputeTypeError, r"the array slice of shape \(3,\) is used where"),
    "ellipsis": (
        one(lambda i: A[i, ...]), ComputeTypeError, r"A\[i, \.\.\.\]: i is an axis.*slices"),
    "text index": (
        one(lambda i: V["i"]), ComputeTypeError, "str 'i' cannot be used in an expression"),
    "read above": (one(lambda i: V[i + 1]), BoundsError, r"C reads V\[i \+ 1\].*takes the values "
                                                         r"1\.\.8"),
    "read below": (one(lambda i: other[i - 1]), BoundsError, r"takes the values -1\.\.6, but "
                                                             r"other"),
    "read far above": (
        lambda: compute((9,), lambda i: V[i]), BoundsError, r"0\.\.8, but V .* has extent 8"),
    "constant index": (one(lambda i: V[8]), BoundsError, "index 0 is 8, but V"),
    "select guards nothing": (
        one(lambda i: m.select(i < 7, V[i + 1], 0)), BoundsError, "sl.select evaluates both"),
    "certain in a branch": (
        one(lambda i: m.if_then_else(i < 4, V[i + 8], 0)), BoundsError, r"takes the values "
                                                                        r"8\.\.15"),
    # Python control flow on expressions
    "if": (one(branch), ComputeTypeError, r"truth value of V\[i\] > 0.*\n.*sl\.select"),
    "and": (one(both), ComputeTypeError, "instead of and, or, not and chained"),
    "chained comparison": (one(chained), ComputeTypeError, r"chained comparisons, use & \| ~"),
    "not": (one(lambda i: m.select(not (V[i] > 0), 1, 0)), ComputeTypeError, "truth value"),
    "range": (one(lambda i: [x for x in range(i)][0]), ComputeTypeError, "has no value yet"),
    "math.exp": (one(lambda i: math.exp(V[i])), ComputeTypeError, "Write np.exp"),
    "iteration": (one(lambda i: sum(x for x in V[i])), ComputeTypeError, "cannot be iterated over"),
    "Python's sum": (
        one(lambda i: sum(A[i, k])), ComputeTypeError,
        r"iterating over A\[i, k\].*\n.*write sl\.sum\(A\[i, k\], axis=k\)"),
    "Python's sum of one element": (
        one(lambda i: sum(V[i])), ComputeTypeError, r"sl\.sum\(\.\.\., axis=k\), where k = sl"),
    "iterating an axis": (
        one(lambda i: sum(V[j] for j in k)), ComputeTypeError,
        r"iterating over k: it is an axis.*\n.*sl\.sum\(\.\.\., axis=k\)"),
    "Python's max": (
        one(lambda i: max(V[i], 0)), ComputeTypeError,
        r"Instead of Python's max and min, write sl\.max\(V\[i\], 0\) and sl\.min\(V\[i\], 0\)\."),
    "Python's max of a long expression": (
        one(lambda i: max(V[i] + V[0] + V[1] + V[2] + V[3] + V[4] + V[5] + V[6] + V[7], 0)),
        ComputeTypeError, r"write sl\.select\(condition, a, b\)(.|\n)*sl\.max\(a, b\)"),
    "a NumPy array": (
        one(lambda i: V[i] * np.ones(8)[i + 0]), ComputeTypeError,
        r"sl.compute for C: it indexes a NumPy array.*\n.*sl\.placeholder\(shape.*the kernel"),
    "a NumPy array, by several": (
        one(lambda i: V[i] * np.ones(8)[[i, i]]), ComputeTypeError, "it indexes a NumPy array"),
    "reads below and above": (
        one(lambda i: V[i - 1] + V[i + 1]), BoundsError,
        r"V\[i \+ 1\]: .* 1\.\.8, but V of shape \(8,\).*\n.*\n  V\[i - 1\] is out of bounds too"),
    "iterating a tensor": (one(lambda i: max(V)), ComputeTypeError, "tensor V cannot be iterated"),
    "tensor as a truth value": (lambda: bool(V), ComputeTypeError, "has no truth value"),
    # operands
    "array as an element": (
        one(lambda i: V + 1), ComputeTypeError,
        r"array add of shape \(8,\) is used where an element is needed: .*, as in V\[i\] \+ 1$"),
    "tensor beside an element": (
        one(lambda i: V + V[i]), ComputeTypeError, r"tensor V of shape .*V\[i\]"),
    "unindexed result": (one(lambda i: V), ComputeTypeError, "is used where an element is needed"),
    "text operand": (one(lambda i: V[i] + "a"), ComputeTypeError, "str 'a' cannot be used"),
    # calls of compute
    "no shape": (
        lambda: compute(lambda i, j: A[i, j], name="C"), ComputeTypeError,
        r"sl\.compute\(lambda i, j: \.\.\.\): the shape is missing\n"
        r"  Give the extents of i, j first, for example sl\.compute\(\(64, 64\), lambda i, j: "),
    "no shape but a name": (
        lambda: compute(lambda i: V[i], "C"), ComputeTypeError, r"example sl\.compute\(\(64,\), "),
    "shape after the function": (
        lambda: compute(lambda i: V[i], (8,), name="C"), ComputeTypeError,
        r"the shape must come first\n  Write sl\.compute\(\(8,\), lambda i: \.\.\.\)"),
    "shape without a function": (
        lambda: compute((8, 4)), ComputeTypeError,
        r"sl\.compute\(\(8, 4\)\): the function that computes an element is missing"),
    "a size without a function": (
        lambda: compute(sl.var("n")), ComputeTypeError,
        r"sl\.compute\(n\): the function that computes an element is missing"),
    "a size after the function": (
        lambda: compute(lambda i: V[i], sl.var("n")), ComputeTypeError,
        r"must come first\n  Write sl\.compute\(n, lambda i: "),
    "a tensor without a function": (
        lambda: compute(V), ComputeTypeError, r"sl\.compute\(V\): the function"),
    "an option of te without a function": (
        lambda: compute((8,), tag="x"), ComputeTypeError,
        r"sl\.compute\(\(8,\)\): the function that computes an element is missing"),
    "too many arguments": (
        lambda: compute(8, 4, lambda i, j: A[i, j], "C"), ComputeTypeError,
        "it takes 3 arguments at most, not 4"),
    "number too large": (
        one(lambda i: U[i] + 300), ComputeTypeError, r"300 does not fit uint8 \(0\.\.255"),
    "negative and unsigned": (one(lambda i: U[i] * -1), ComputeTypeError, "-1 does not fit uint8"),
    "axis too large": (lambda: compute((1000,), lambda i: I8[i % 8] + i), ComputeTypeError,
                       r"i in int8 arithmetic: it takes the values 0\.\.999"),
    "bits of a float": (
        one(lambda i: V[i] & 1), ComputeTypeError, "take integers or bools, not float32"),
    "shift of a float": (one(lambda i: V[i] << 1), ComputeTypeError, "not float32"),
    "not of a float": (one(lambda i: ~V[i]), ComputeTypeError, "takes an integer or a bool"),
    "bool minus bool": (one(lambda i: B[i] - B[i]), ComputeTypeError, "bools cannot be subtracted"),
    "negative bool": (one(lambda i: -B[i]), ComputeTypeError, "a bool cannot be negated"),
    "division by zero": (
        one(lambda i: V[const(3) // 0]), ComputeTypeError, "3 // 0: division by zero"),
    "cast to a stranger": (
        one(lambda i: V[i].astype("object")), ComputeTypeError, "is not supported"),
    "constant of no dtype": (lambda: const(1.5, "int32"), ComputeTypeError, "1.5 is not a value "
                                                                            "of int32"),
    "constant out of range": (
        lambda: const(-1, "uint8"), ComputeTypeError, "-1 does not fit uint8"),
    "constant of an expression": (lambda: const(n, "int8"), ComputeTypeError, "is an expression; "
                                                                              "give a number"),
    # NumPy's functions
    "np.sum": (one(lambda i: np.add.reduce(V[i])), ComputeTypeError, r"use sl\.sum"),
    "ufunc with where": (
        one(lambda i: np.exp(V[i], where=True)), ComputeTypeError, "only plain calls"),
    "ufunc with an array": (
        one(lambda i: np.add(V[i], np.ones(3))), ComputeTypeError, "sl.placeholder"),
    "unknown ufunc": (one(lambda i: np.cbrt(V[i])), ComputeTypeError, "np.cbrt is not supported"),
    # functions of the language
    "select by a number": (one(lambda i: m.select(V[i], 1, 0)), ComputeTypeError, r"V\[i\] != 0"),
    "if_then_else by an axis": (
        one(lambda i: m.if_then_else(i, 1, 0)), ComputeTypeError, "is int64"),
    "all of nothing": (lambda: m.all(), ComputeTypeError, "at least one condition"),
    "any of a number": (
        lambda: m.any(n > 1, n), ComputeTypeError, "a condition is bool, not int64"),
    "logical_not of a number": (
        one(lambda i: m.logical_not(V[i])), ComputeTypeError, "not float32"),
    "rows before the first by a reduction axis": (
        one(lambda i: r.sum(V[i + k - 1], k)), BoundsError, r"index 0 takes the values -1\.\.13"),
    "rows before the first by the second axis": (
        lambda: compute((8, 8), lambda i, j: V[j - 1]), BoundsError, r"index 0 takes the values "
                                                                     r"-1\.\.6"),
    "min with init": (
        one(lambda i: r.min(V[i], 0, init=1)), ComputeTypeError, "takes no where= or init="),
    "three to reduce": (
        one(lambda i: r.max(V[k], k, n > 1, 1, 2)), ComputeTypeError, "where and init follow"),
    "where twice": (
        one(lambda i: r.max(V[k], k, n > 1, where=n > 2)), ComputeTypeError, "each once"),
    # the lambda
    "arity": (
        lambda: compute((8, 8), lambda i: V[i]),
        ComputeError, r"2 dimensions, but the lambda takes 1"),
    "no function": (
        lambda: compute((8,), 3), ComputeTypeError, "fcompute must be a function of the axes"),
    "None": (one(lambda i: None), ComputeTypeError, "the lambda returns None"),
    "empty tuple": (one(lambda i: ()), ComputeError, "returns an empty tuple"),
    "unknown option": (
        lambda: compute((8,), lambda i: i, axis=3), ComputeTypeError, "no argument 'axis'"),
    "foreign axis": (
        one(lambda i: V[other.op.axis[0]]), ComputeError, "axis x, which belongs to another"),
    "loose reduction axis": (
        one(lambda i: V[k]), ComputeError, "reduction axis k outside a reduction"),
    "second reduction axis": (
        one(lambda i: r.sum(A[k, empty], axis=k)), ComputeError, "reduction axis empty outside"),
    # reductions
    "arithmetic on a sum": (
        one(lambda i: r.sum(V[k], axis=k) + 1), ComputeError, "stage of its own"),
    "ufunc of a sum": (
        one(lambda i: np.exp(r.sum(V[k], axis=k))), ComputeError, "the whole value of its lambda"),
    "sum of a sum": (
        one(lambda i: r.sum(r.sum(A[k, more], axis=more), axis=k)), ComputeError,
        r"sl\.sum\(sl\.sum\(\.\.\.\)\)(.|\n)*at once: sl\.sum\(\.\.\., axis=\(k, more\)\)\."),
    "maximum of a maximum": (
        one(lambda i: r.max(r.max(A[k, more], axis=more), axis=k)), ComputeError,
        r"at once: sl\.max\(\.\.\., axis=\(k, more\)\)\."),
    "sum of a sum over its axis": (
        one(lambda i: r.sum(r.sum(V[k], axis=k), axis=k)), ComputeError, "stage of its own"),
    "sum of a maximum": (
        one(lambda i: r.sum(r.max(A[k, more], axis=more), axis=k)), ComputeError,
        "stage of its own"),
    "select of a sum": (
        one(lambda i: -r.max(V[k], axis=k)), ComputeError, "a reduction must be the whole value"),
    "reduction beside an expression": (
        one(lambda i: (r.sum(V[k], axis=k), V[i])), ComputeError, "value 1, V.i., is none"),
    "sum over a data axis": (one(lambda i: r.sum(V[i], axis=i)), ComputeError, "i is a data axis"),
    "sum over a number": (
        one(lambda i: r.sum(V[i], axis=0)), ComputeTypeError, r"axis=0\): a reduction needs an "
                                                              r"axis made"),
    "sum over nothing": (
        one(lambda i: r.sum(V[i], axis=())), ComputeError, "at least one reduce_axis"),
    "axis twice": (one(lambda i: r.sum(V[k], axis=(k, k))), ComputeError, "given twice"),
    "where that is no condition": (
        one(lambda i: r.sum(V[k], axis=k, where=k)), ComputeTypeError, "a condition is bool"),
    "init count": (
        one(lambda i: r.sum(V[k], axis=k, init=(0, 1))), ComputeError, "init has 2 values, but "
                                                                       "the reduction has 1"),
    "init dtype": (
        one(lambda i: r.sum(U[k], axis=k, init=-1)), ComputeTypeError, "-1 does not fit uint8"),
    "init of a reduction axis": (
        one(lambda i: r.sum(V[k], axis=k, init=k)),
        ComputeError, "init= uses k, but may use only data axes"),
    "init number of another dtype": (
        one(lambda i: r.sum(U[k], axis=k, init=np.int64(300))),
        ComputeTypeError, "300 does not fit uint8"),
    "init of another dtype": (
        one(lambda i: r.sum(I8[k], axis=k, init=i * 0.5)),
        ComputeTypeError, "init is float64, but the reduction is int8; cast"),
    "argmax below 0": (
        one(lambda i: r.argmax(V[below + 2], axis=below)),
        ComputeError, "starts at -2, but the result is an index"),
    "max of nothing": (
        one(lambda i: r.max(A[i, empty], axis=empty)), ComputeError, "the axis is empty"),
    "argmax of no elements": (
        one(lambda i: r.argmax(A[i, empty], axis=empty)), ComputeError, "argmax of no elements"),
    "range of three": (
        lambda: r.reduce_axis((0, 1, 2)), ComputeError, r"give the extent, or \(lo, hi\)"),
    "range in two": (
        lambda: r.reduce_axis(0, 5), ComputeTypeError, r"write sl\.reduce_axis\(\(0, 5\)\)"),
    "range of sizes in two": (
        lambda: r.reduce_axis(n, n + 2), ComputeTypeError, r"reduce_axis\(\(n, n \+ 2\)\)"),
    "reversed range": (lambda: r.reduce_axis((5, 2)), ComputeError, "hi is less than lo"),
    "float range": (lambda: r.reduce_axis((0, 1.5)), ComputeTypeError, "contains 1.5; give "
                                                                       "integers"),
    "float scalar range": (
        lambda: r.reduce_axis((0, var("x", "float32"))),
        ComputeTypeError, "an extent must be an integer"),
    "range of another axis": (
        one(lambda i: r.sum(V[k], axis=r.reduce_axis((i, i + 2)))),
        ComputeError, "uses the reduction axis k outside a reduction over it"),
    # reducers
    "not associative": (
        one(lambda i: sl.comm_reducer(lambda x, y: x - y, lambda t: 0)(V[k], axis=k)),
        ComputeError, "fcombine is not commutative"),
    "associative by no one": (
        one(lambda i: sl.comm_reducer(lambda x, y: (x + y) / 2, lambda t: 0)(V[k], axis=k)),
        ComputeError, "fcombine is not associative"),
    "wrong identity": (
        one(lambda i: sl.comm_reducer(lambda x, y: x + y, lambda t: 1)(V[k], axis=k)),
        ComputeError, "fidentity is not a neutral element"),
    "reducer of another count": (
        one(lambda i: sl.comm_reducer(lambda x, y: (x, y), lambda t: 0)(V[k], axis=k)),
        ComputeError, r"1 operand, but fcombine returns 2"),
    "reducer of another dtype": (
        one(lambda i: sl.comm_reducer(lambda x, y: x < y, lambda t: 0)(V[k], axis=k)),
        ComputeTypeError, "fcombine returns bool for an operand of float32"),
    "identity that is no number": (
        one(lambda i: sl.comm_reducer(lambda x, y: x + y, lambda t: n)(V[k], axis=k)),
        ComputeError, "the identity n is not a constant"),
    "combiner of one operand": (
        lambda: sl.comm_reducer(lambda x: x, lambda t: 0, name="m"),
        ComputeTypeError, r"reducer m: fcombine cannot be called as fcombine\(x, y\); it combines"),
    "combiner that is no function": (
        lambda: sl.comm_reducer(None, lambda t: 0, name="m"),
        ComputeTypeError, "fcombine is None, not a function; write e.g. fcombine=lambda x, y"),
    "identity that is no function": (
        lambda: sl.comm_reducer(lambda x, y: x + y, 0, name="m"),
        ComputeTypeError, "fidentity is 0, not a function; write e.g. fidentity=lambda dtype: 0"),
    "identity of no dtype": (
        one(lambda i: sl.comm_reducer(lambda x, y: x + y, lambda: 0)(V[k], axis=k)),
        ComputeTypeError, "fidentity cannot be called with 1 dtype; it takes the dtype of each"),
    "identity of three dtypes": (
        one(lambda i: sl.comm_reducer(lambda x, y: x, lambda a, b, c: 0)((V[k], V[k]), axis=k)),
        ComputeTypeError, "fidentity cannot be called with 2 dtypes"),
    "combiner that reads a tensor": (
        one(lambda i: sl.comm_reducer(lambda x, y: x + y + V[0], lambda t: 0)(V[k], axis=k)),
        ComputeError, r"fcombine uses V\[0\], but may use only its operands and constants"),
    "trusted combiner that reads a tensor": (
        one(lambda i: sl.comm_reducer(lambda x, y: x + y + V[0], lambda t: 0, trusted=True)(
            V[k], axis=k)),
        ComputeError, r"(?s)fcombine uses V\[0\].*Use V\[0\] in the expression to reduce"),
    "combiner that uses an axis": (
        one(lambda i: sl.comm_reducer(lambda x, y: x + y + k, lambda t: 0)(V[k], axis=k)),
        ComputeError, "fcombine uses k, but may use only"),
    "combiner that uses a size": (
        one(lambda i: sl.comm_reducer(lambda x, y: x + y + n, lambda t: 0)(V[k], axis=k)),
        ComputeError, "fcombine uses n, but may use only"),
    "combiner of parts for one value": (
        one(lambda i: sl.comm_reducer(lambda x, y: x[0] + y[0], lambda t: 0)(V[k], axis=k)),
        ComputeTypeError, "(?s)fails with TypeError: .*Here x and y are single values"),
    "combiner of three parts for two": (
        one(lambda i: sl.comm_reducer(lambda x, y: (x[2], y[2]), lambda a, b: (0, 0))(
            (V[k], V[k]), axis=k)),
        ComputeTypeError, "(?s)fails with IndexError: .*Here x and y have 2 parts each"),
    "combiner that returns nothing": (
        one(lambda i: sl.comm_reducer(lambda x, y: None, lambda t: 0, name="m")(V[k], axis=k)),
        ComputeTypeError, "the result of fcombine of reducer m: NoneType None cannot be used"),
    "identity that is nothing": (
        one(lambda i: sl.comm_reducer(lambda x, y: x, lambda t: None, name="m")(V[k], axis=k)),
        ComputeTypeError, "the result of fidentity of reducer m: NoneType None cannot be used"),
    "reduction of nothing": (
        one(lambda i: sl.comm_reducer(lambda x, y: x + y, lambda t: 0, name="m")((), axis=k)),
        ComputeError, r"sl.m\(\(\), ...\): there is nothing to reduce; give an expression"),
    "trust that is no flag": (
        lambda: sl.comm_reducer(lambda x, y: x + y, lambda t: 0, trusted="no"),
        ComputeTypeError, "trusted is 'no'; give True or False"),
    "reducer name": (
        lambda: sl.comm_reducer(lambda x, y: x + y, lambda t: 0, name="a b"),
        ComputeError, "a reducer"),
    # scans
    "state that is computed": (
        lambda: scan(first, step, step), ComputeError, "must be a placeholder"),
    "init that is given": (
        lambda: scan(S, step, S), ComputeError, "the init S must be made by sl.compute"),
    "scan with inits of different rows": (
        lambda: scan(
            [first, compute((2, 4), lambda t, i: V[i], name="two")], [step, step],
            [S, placeholder((5, 4), name="other")],
        ),
        ComputeError, "of init first is 1, but two has 2"),
    "scan of no tensor": (lambda: scan(first, step, 3), ComputeTypeError, "which is not a tensor"),
    "scan counts": (
        lambda: scan([first], [step, step], [S]), ComputeError, "1 init, 2 update and 1 state"),
    "scan dtype": (
        lambda: scan(first, compute((5, 4), lambda t, i: i, name="u"), S),
        ComputeError, "u is int64, but state"),
    "scan shape": (
        lambda: scan(first, compute((5, 3), lambda t, i: V[i], name="u"), S),
        ComputeError, "does not fit"),
    "scan rows": (
        lambda: scan(first, compute((6, 4), lambda t, i: V[i], name="u"), S),
        ComputeError, "u has 6 rows"),
    "scan start": (
        lambda: scan(compute((0, 4), lambda t, i: V[i], name="z"), step, S),
        ComputeError, "1 or more"),
    "scan start too long": (
        lambda: scan(compute((7, 4), lambda t, i: V[i], name="z"), step, S),
        ComputeError, "more rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusal(case):
    build, error, message = REFUSALS[case]
    with pytest.raises(error, match=message) as caught:
        build()
    assert isinstance(caught.value, SchedlangError)


def test_cyclic_graph():
    T = compute((8,), lambda i: V[i], name="T")
    W = compute((8,), lambda i: T[i] + 1, name="W")
    (axis,) = T.op.axis
    object.__setattr__(T.op, "body", (W[axis],))
    with pytest.raises(ComputeError, match="the computation is cyclic: W depends on itself"):
        operations([W])


def test_reads_under_conditions_are_accepted():
    mask = placeholder((8,), "bool", name="mask")
    compute((8,), lambda i: m.if_then_else(mask[i], V[i + 1], 0), name="masked")
    compute(
        (8,), lambda i: m.if_then_else((i > 0) & ~(i >= 7), V[i - 1] + V[i + 1], 0), name="inner"
    )
    compute((8,), lambda i: r.sum(V[i + k], axis=k, where=i + k < 8), name="where")
    compute((8,), lambda i: m.if_then_else(i == 3, V[i + 4], V[7 - i]), name="equal")


def test_where_does_not_guard_the_reads_of_its_condition():
    with pytest.raises(BoundsError, match=r"reads V\[i \+ k\]"):
        compute((8,), lambda i: r.sum(V[k], axis=k, where=V[i + k] > 0), name="C")


def test_bounds_of_deep_nested_conditions_take_linear_time():
    def deep(i):
        value = V[i]
        for _ in range(3000):
            value = m.if_then_else(value > i, value + 1, V[(i + 1) % 8])
        return value

    assert isinstance(compute((8,), deep, name="deep"), Tensor)


def test_a_late_check_refuses_the_first_row():
    out = compute((8,), lambda i: V[i - 1], name="out")
    assert isinstance(out.op, ComputeOp)
    with pytest.raises(BoundsError, match=r"takes the values -1\.\.6"):
        check_reads(out.op, late=True)
    check_reads(out.op, {out.op.axis[0]: 1}, late=True)


AXIS = r"an axis made by sl\.reduce_axis\n.*\n +k = sl\.reduce_axis\(n, name=\"k\"\)"
SAMPLES: list[tuple[str, object, str]] = [
    ("float32", "a", "str 'a' is not a number of float32"),
    ("float32", None, "NoneType None is not a number of float32"),
    ("float32", 1j, "complex 1j is not a number of float32"),
    ("float32", np.ones(2), "ndarray .* is not a number of float32"),
    ("float32", 10**400, "an integer of 1329 bits does not fit float32"),
    ("int32", 10**30, "0 does not fit int32"),
    ("int32", 1.5, "1.5 is not a value of int32"),
    ("int32", float("nan"), "nan is not a value of int32"),
    ("uint8", -1, "-1 does not fit uint8"),
]


@pytest.mark.parametrize("others", [[], [1]])
@pytest.mark.parametrize(("dtype", "value", "match"), SAMPLES)
def test_samples_that_are_no_elements(dtype, value, match, others):
    X, q = placeholder((4,), dtype, name="X"), r.reduce_axis(4, name="q")
    given = [*others, value]
    add = sl.comm_reducer(lambda x, y: x + y, lambda t: 0, name="add", samples=given)
    with pytest.raises(ComputeTypeError, match=f"samples=...\\) of add: .*{match}"):
        compute((1,), lambda i: add(X[q], axis=q), name="C")


@pytest.mark.parametrize(("dtype", "value", "match"), SAMPLES)
def test_constants_that_are_no_numbers(dtype, value, match):
    with pytest.raises(ComputeTypeError, match=match):
        const(value, dtype)


def test_constants_of_other_kinds_of_numbers():
    for value in (np.array(3.0), np.float32(3), np.int8(3), Fraction(3), True + 2):
        assert const(value, "float32").value == const(value, "int32").value == 3
    assert const(Fraction(1, 2), "float32").value == 0.5


own = sl.comm_reducer(lambda x, y: x + y, lambda t: 0, name="own")


@pytest.mark.parametrize("reduce", [r.sum, r.prod, r.max, r.argmax, r.argmin, own])
def test_a_reduction_without_an_axis(reduce):
    with pytest.raises(ComputeTypeError, match=AXIS + r"\n.*axis=k"):
        reduce(V[k])


@pytest.mark.parametrize("reduce", [r.sum, r.prod, r.max, r.min, r.argmax, r.argmin])
def test_a_reduction_of_a_whole_tensor(reduce):
    with pytest.raises(ComputeTypeError, match=AXIS + r"\n.*axis=k"):
        reduce(A)


def test_a_reduction_over_the_number_of_a_dimension():
    with pytest.raises(ComputeTypeError, match=r"sl\.sum\(\.\.\., axis=1\): a reduction needs "
                                               r"" + AXIS):
        r.sum(V[k], axis=1)


@pytest.mark.parametrize(
    ("read", "match"),
    [
        (lambda: A[k, -1], r"A\[k, -1\]: negative indices do not count from the end: write A\[k, "
                           r"7\]"),
        (lambda: V[-9], r"index -9 of V: dimension 0 has 8 elements\n.*-8\.\.0 from the end"),
    ],
)
def test_negative_indices(read, match):
    with pytest.raises(BoundsError, match=match):
        read()


PER_ELEMENT = (
    r"write arithmetic per element inside sl\.compute, as in "
    r"sl\.compute\(\(8, 8\), lambda i, j: A\[i, j\]"
)
TWO = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift",
    "rshift", "lt", "le", "gt", "ge",
)  # fmt: skip


@pytest.mark.parametrize("function", (float, int), ids=lambda f: f.__name__)
def test_a_number_of_a_whole_tensor(function):
    with pytest.raises(ComputeTypeError, match=PER_ELEMENT):
        function(A)


@pytest.mark.parametrize("name", TWO)
def test_an_operator_on_a_whole_tensor_and_an_element(name):
    apply = getattr(operator, name)
    for other in (A[k, 0], k, k + 1):
        for pair in ((A, other), (other, A)):
            with pytest.raises(ComputeTypeError, match=PER_ELEMENT):
                apply(*pair)


def test_a_whole_tensor_and_what_is_no_array():
    with pytest.raises(ComputeTypeError, match=r"A \+ \.\.\. with a NumPy array of shape \(8,\).*\n"
                                               r".*X = sl\.placeholder\(\(8,\), 'float64'"):
        A + np.ones(8)
    with pytest.raises(ComputeTypeError, match="NoneType None cannot be used"):
        A + None
    with pytest.raises(ComputeTypeError, match="with a list: an operand is a tensor or a number"):
        A * [1, 2]


def test_bare_tensors_compare_by_identity():
    B = placeholder((8, 8), name="A")
    assert (A == A) is True and (A == B) is False and (A != B) is True
    assert [n, k, A].index(A) == 2 and n not in [A] and k not in [A]
    assert [B, A].index(A) == 1 and A not in [B, None] and A != "A" and len({A, B}) == 2


def test_a_scalar_tensor_stands_for_its_element():
    alpha = placeholder((), name="alpha")
    assert str(-alpha) == "-alpha[()]" and str(alpha < 1) == "alpha[()] < 1"
    assert str(2 >= alpha) == "alpha[()] <= 2" and str(alpha == 3) == "alpha[()] == 3"
    assert (alpha == alpha) is True


def test_a_tensor_as_a_condition():
    with pytest.raises(ComputeTypeError, match=r"sl\.select\(A\[i, j\] > 0, \.\.\.\) inside"):
        if A:
            pass


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max"])
def test_a_reduction_of_te_without_an_axis(name):
    for operand in (A[0, 0], A):
        with pytest.raises(ComputeTypeError, match=rf"te\.{name}\(.*\n.*\n.*te\.reduce_axis"):
            getattr(sl.te, name)(operand)


def test_an_absent_attribute():
    assert not hasattr(A, "other")


def test_ufuncs_on_a_scalar_tensor():
    alpha = placeholder((), name="alpha")
    assert str(np.exp(alpha)) == str(m.exp(alpha[()]))


def test_an_axis_is_refused_as_a_python_integer():
    for use in (int, range, lambda i: [1, 2][i]):
        with pytest.raises(ComputeTypeError, match=r"sl\.cast\(k, 'int64'\)(.|\n)*sl\.placeholder"):
            use(k)


@pytest.mark.parametrize(
    "index",
    [
        lambda i: i << 1, lambda i: i ^ 8, lambda i: (i & 3) + 8, lambda i: abs(i - 20),
        lambda i: i**2, lambda i: m.select(i < 4, i, i + 8),
    ],
)  # fmt: skip
def test_index_arithmetic_of_any_kind_stays_within_its_tensor(index):
    with pytest.raises(BoundsError, match="but V of shape .* has extent 8 there"):
        compute((8,), lambda i: V[index(i)], name="C")


def test_index_arithmetic_within_its_tensor_is_accepted():
    for index in (
        lambda i: i ^ 1, lambda i: (i << 1) & 7, lambda i: (i * 3 ^ 0) // 3, lambda i: abs(7 - i),
        lambda i: m.select(i < 4, i, i - 4),
    ):  # fmt: skip
        compute((8,), lambda i, index=index: V[index(i)], name="C")
    compute((8,), lambda i: m.if_then_else(i < 4, V[i << 1], 0), name="D")
    compute((8,), lambda i: m.if_then_else(V[i] > 0, V[i ^ 8], 0), name="by_data")


def test_a_condition_that_does_not_keep_a_read_inside():
    T = placeholder((50,), name="T")
    with pytest.raises(BoundsError, match=r"reads T\[i \+ j \+ 1\]: index 0 takes the values "
                                          r"1\.\.50"):
        compute((100, 100), lambda i, j: m.if_then_else(i + j < 50, T[i + j + 1], 0), name="C")
    compute((100, 100), lambda i, j: m.if_then_else(i + j < 49, T[i + j + 1], 0), name="D")


def test_a_read_that_two_conditions_share_is_not_refused_for_either():
    def shared(i):
        value = V[(i + 1) ^ 0]
        return m.if_then_else(i < 3, value, m.if_then_else(i < 7, value, 0))

    compute((8,), shared, name="C")
