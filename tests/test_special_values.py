"""Every operation on special values, on every target, beside NumPy and the language's own rules."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.arrays.functions import ELEMENTWISE
from schedlang.compute import math
from schedlang.errors import ComputeTypeError
from schedlang.expr import dtypes
from schedlang.expr.evaluate import _BINARY
from schedlang.expr.functions import FUNCTIONS
from schedlang.ir.interpret import interpret
from schedlang.language import ufuncs
from tests.special_values import (
    DTYPES,
    ELEMENTS_ONLY,
    EXCLUDED,
    REFUSED,
    Operation,
    beyond_limits,
    operations,
    specials,
)

pytestmark = pytest.mark.slow

Case = tuple[Operation, np.ndarray]
OPERATIONS = operations()
ULPS = 4


def test_the_table_has_every_operation() -> None:
    every = {
        *FUNCTIONS, *(f"operator {op}" for op in _BINARY), "unary -", "unary ~",
        *(f"cast {d}" for d in dtypes.DTYPES), *(f"sl.{name}" for name in math.__all__),
        *(f"np.{name}" for name in (*ufuncs._NAMES, *ELEMENTWISE)),
    }  # fmt: skip
    covered = {name for o in OPERATIONS for name in (o.name, *o.covers)}
    assert every - covered == set(EXCLUDED)


def operands(dtype: str, arity: int) -> list[np.ndarray]:
    """Return an array of special values, or two with every pair of them."""
    if arity == 1:
        return [beyond_limits(dtype)]
    values = specials(dtype)
    return [np.repeat(values, values.size), np.tile(values, values.size)]


def cases(arity: int, arrays: Sequence[np.ndarray]) -> list[Case]:
    """Return the operations that NumPy has for the dtype and the language too, with the results."""
    listed = []
    for operation in OPERATIONS:
        if operation.arity == arity:
            try:
                with np.errstate(all="ignore"):
                    want = np.asarray(operation.numpy(*arrays))
            except (TypeError, ValueError):
                continue  # no loop for this dtype
            if operation.name not in REFUSED or want.dtype.kind == "f":
                listed.append((operation, want))
    return listed


def assert_same(got: Any, case: Case, arrays: Sequence[np.ndarray], where: str) -> None:
    """Check that NaN, infinities and signed zeros are exact and the rest is within some ulps."""
    operation, want = case
    got = np.asarray(got)
    assert got.dtype == want.dtype, (where, operation.name)
    good = got == want
    if want.dtype.kind == "f":
        a, b, info = got.astype("float64"), want.astype("float64"), np.finfo(want.dtype)
        size = np.abs(b)
        if operation.cancels:
            size = np.maximum(size, np.max([np.abs(x.astype("float64")) for x in arrays], 0))
        step = np.maximum(ULPS * float(info.eps) * size, 2 * float(info.smallest_subnormal))
        with np.errstate(invalid="ignore"):
            distance = np.abs(a - b)
        # a result of 0 is exact, unless operands of another size cancel to it
        near = np.isfinite(a) & np.isfinite(b) & ((b != 0) | operation.cancels) & (distance <= step)
        good = (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b))) | near
    wrong = np.flatnonzero(~good)[:3]
    assert not wrong.size, [
        (where, operation.name, *(x[k].item() for x in arrays), "gives", got[k].item(), "not",
         want[k].item())
        for k in wrong
    ]  # fmt: skip


def run(target: str, outputs: Any, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return the outputs; a target with ``" lanes"`` computes in vectors."""
    if target == "reference":
        return sl.reference(list(outputs))(*arrays)
    s = sl.schedule(list(outputs))
    if target == "interpreter":
        return interpret(sl.lower(s), arrays).outputs
    name, _, lanes = target.partition(" ")
    stage, axis = s[outputs[0]], outputs[0].op.axis[0]
    if name in ("cuda-emulator", "simulator"):
        block, thread = stage.split(axis, factor=32)
        stage.bind(block, "blockIdx.x")
        stage.bind(thread, "threadIdx.x")
        f = sl.build(s, target="cuda-emulator")
        return f.simulate(*arrays) if name == "simulator" else f(*arrays)
    if lanes:
        stage.vectorize(stage.split(axis, factor=8)[1])
    return sl.build(s, target=name)(*arrays)


def tensors(asked: Sequence[Case], inputs: Sequence[sl.Tensor]) -> Any:
    """Return a tensor for each operation on elements of ``inputs``, all of one computation."""

    def elements(i: Any) -> Any:
        return tuple(o.ours(*(t[i] for t in inputs)) for o, _ in asked)

    return sl.compute(inputs[0].shape, elements, "C")


def check(dtype: str, targets: Sequence[str]) -> None:
    for arity in (1, 2):
        arrays = operands(dtype, arity)
        asked = cases(arity, arrays)
        inputs = [sl.placeholder(x.shape, dtype, name=n) for x, n in zip(arrays, "AB")]
        outputs = tensors(asked, inputs)
        for target in targets:
            for got, case in zip(run(target, outputs, arrays), asked):
                assert_same(got, case, arrays, target)


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(dtype: str) -> None:
    check(dtype, ["reference", "interpreter", "python"])


@pytest.mark.parametrize(("dtype", "target"), [("float32", "cpu lanes"), ("int32", "c")])
def test_special_values_compiled(dtype: str, target: str) -> None:
    check(dtype, [target])


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_on_every_target(dtype: str) -> None:
    simulator = ["simulator"] if find_spec("numba_cuda") else []
    check(dtype, ["python lanes", "cpu", "cpu lanes", "c", "c lanes", "cuda-emulator", *simulator])


def root(case: Case, arrays: Sequence[np.ndarray]) -> Case:
    """Return the case as of whole arrays: a scalar exponent 0.5 is NumPy's square root there."""
    operation, want = case
    if operation.name == "a**0.5":
        with np.errstate(all="ignore"):
            want = arrays[0] ** 0.5
    return operation, want


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_arrays(dtype: str) -> None:
    """Operations on tensors and traced arrays have NumPy's values for arrays."""
    for arity in (1, 2):
        arrays = operands(dtype, arity)
        asked = [c for c in cases(arity, arrays) if c[0].name not in ELEMENTS_ONLY]
        asked = [root(c, arrays) for c in asked]
        inputs = [sl.placeholder(x.shape, dtype, name=n) for x, n in zip(arrays, "AB")]
        # bare tensors compare by identity
        stages = [(o.ours(*inputs), (o, w)) for o, w in asked if o.name not in ("a == b", "a != b")]
        own = [(t, case) for t, case in stages if all(t is not x for x in inputs)]
        f = sl.build(sl.schedule([t for t, _ in own]), target="python")
        for got, (_, case) in zip(f(*arrays), own):
            assert_same(got, case, arrays, "tensors")
        if dtypes.is_integer(dtype):
            # a call refuses an exponent that is an argument and has negative elements
            asked = [case for case in asked if case[0].name not in ("a ** b", "np.power")]
        if dtype == "bool" and arity == 1:
            # NumPy squares an array for ** 2: of bool, it is int8
            asked = [(o, arrays[0] ** 2 if o.name == "a**2" else w) for o, w in asked]
        ours = [o.ours for o, _ in asked]
        traced = sl.jit(lambda *given, ours=ours: tuple(f(*given) for f in ours), target="python")
        for got, case in zip(traced(*arrays), asked):
            assert_same(got, case, arrays, "jit")


def few(dtype: str) -> np.ndarray:
    """Return a few special values, two of each kind."""
    if dtypes.is_float(dtype):
        return np.array([-0.0, np.nan, np.inf, 0.0, -1.5, 300.7, -np.inf, 1e-7], dtype)
    return specials(dtype)[[0, 1, -1, 3, 5, 6, 7, 9]] if dtype != "bool" else specials(dtype)


def check_constants(dtype: str, targets: Sequence[str], values: np.ndarray) -> None:
    """Check operations on constants: on every one of ``values``, and on every pair of them."""
    for arity in (1, 2):
        for given in product(values, repeat=arity):
            arrays = [np.array([v]) for v in given]
            # beside another constant, a constant is no second operand
            asked = [c for c in cases(arity, arrays) if not c[0].name.startswith(("max(", "min("))]
            numbers = [sl.const(v.item(), dtype) for v in given]
            pairs = []
            for operation, want in asked:
                try:
                    pairs.append((operation.ours(*numbers), (operation, want)))
                except ComputeTypeError as error:
                    assert "integers to negative powers" in str(error), operation.name
            outputs = sl.compute((1,), lambda i, p=pairs: tuple(value for value, _ in p), "C")
            for target in targets:
                for got, (_, case) in zip(run(target, outputs, []), pairs):
                    assert_same(got, case, arrays, f"constants, {target}")


def test_constants() -> None:
    check_constants("float32", ["reference", "python"], few("float32")[:3])


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_of_every_dtype(dtype: str) -> None:
    check_constants(dtype, ["reference", "python"], few(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint64"])
def test_constants_compiled(dtype: str) -> None:
    check_constants(dtype, ["cpu", "c"], few(dtype)[:4])


def test_zeros_of_both_signs_as_constants() -> None:
    """LLVM folds min and max of constants in another order than the machine's instructions."""
    zeros = [(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)]
    values = [f(sl.const(a, "float32"), sl.const(b, "float32"))
              for f in (sl.min, sl.max) for a, b in zeros]  # fmt: skip
    outputs = sl.compute((1,), lambda i: tuple(values), "C")
    for target in ("reference", "python", "cpu", "c"):
        signs = [bool(np.signbit(x[0])) for x in run(target, outputs, [])]
        assert signs == [bool(np.signbit(a)) for a, _ in zeros] * 2, target


REDUCTIONS = ("sum", "prod", "min", "max", "argmin", "argmax", "any", "all")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", ["reference", "python", "cpu"])
def test_reductions_of_special_values(dtype: str, target: str) -> None:
    """A zero of a minimum or maximum may have either sign, and a sum starts from 0.0."""
    values = specials(dtype)[:12]
    if dtypes.is_float(dtype):
        # no product of three overflows, which would depend on the order, too
        values = np.array([np.nan, 0.0, -0.0, 1.5, -2.0, np.inf, -np.inf], dtype)
    rows = np.array(list(product(values, repeat=3)))
    A, k = sl.placeholder(rows.shape, dtype, name="A"), sl.reduce_axis(3, name="k")
    if target == "cpu":
        rows = np.ascontiguousarray(rows[::7])
        A = sl.placeholder(rows.shape, dtype, name="A")
    for name in REDUCTIONS:
        element = (lambda i: A[i, k] != 0) if name in ("any", "all") else (lambda i: A[i, k])
        reduced = getattr(sl, name)
        C = sl.compute(rows.shape[:1], lambda i, f=reduced, e=element: f(e(i), axis=k), "C")
        with np.errstate(all="ignore"):
            # one after the other, in the dtype of the elements
            want = getattr(np, name)(rows, axis=1)
            if name in ("sum", "prod"):
                f = np.add if name == "sum" else np.multiply
                # bools count in int64
                terms = rows.astype("int64") if dtype == "bool" else rows
                want = f(f(terms[:, 0], terms[:, 1]), terms[:, 2])
        got = sl.reference(C)(rows) if target == "reference" else sl.build(
            sl.schedule(C), target=target)(rows)  # fmt: skip
        if name in ("min", "max", "sum") and want.dtype.kind == "f":
            got, want = got + want.dtype.type(0), want + want.dtype.type(0)
        assert_same(got, (Operation(name, None, None), want), list(rows.T), target)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["copysign", "heaviside", "hypot", "logaddexp", "arctan2"])
def test_dtypes_beside_numbers(name: str) -> None:
    """A Python float beside an integer, and an integer beside a bool, make float64."""
    f = getattr(np, name)
    for dtype, number in product(("bool", "int8", "int16", "float16", "float32"), (1, -1.0)):
        A = sl.placeholder((3,), dtype, name="A")
        want = f(np.ones(3, dtype), number).dtype
        assert f(A, number).dtype == want, (dtype, number)
        assert f(number, A).dtype == want, (dtype, number)
