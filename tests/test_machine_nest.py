"""The machine nest: its text, its verifier, its interpreter, and that the source follows it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Optional

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import VerifyError
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Fn, For, Let, Num, Op, Operation, Reg, Splat, Store, Type, Value
from schedlang.machine.verify import verify_machine
from schedlang.machine.walks import children, operations, walk
from tests.conftest import Golden
from tests.graphs import product
from tests.machine_interpreter import interpret_kernel, interpret_machine

FLOAT = Type("float32")


def tiled(n: int = 13, m: int = 19, k: int = 7) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Return a product in tiles of 4x8 that stay in registers."""
    A, B, C = product(n, m, k)
    s = sl.schedule(C)
    _, _, ii, ji = s[C].tile(*C.op.axis, 4, 8)
    s[C].reorder(C.op.reduce_axis[0], ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    return s, [A, B, C]


def flat(*arrays: np.ndarray) -> list[np.ndarray]:
    return [a.reshape(-1) for a in arrays]


def test_a_product_in_registers(golden: Golden) -> None:
    s, args = tiled(64, 64, 64)
    golden(sl.build(s, args, target=sl.Target("cpu", vector_bytes=32)).machine_nest)


def test_a_blur_of_rows_in_parallel(golden: Golden) -> None:
    A = sl.placeholder((34, 66), name="A")
    C = sl.compute((32, 66), lambda y, x: A[y, x] + A[y + 1, x] + A[y + 2, x], name="C")
    s = sl.schedule(C)
    y, x = C.op.axis
    rows, _ = s[C].split(y, factor=8)
    s[C].vectorize(s[C].split(x, factor=16)[1])
    s[C].parallel(rows)
    golden(sl.build(s, target=sl.Target("cpu", vector_bytes=64)).machine_nest)


def test_each_statement_is_a_line_of_the_source() -> None:
    s, args = tiled()
    f = sl.build(s, args)
    stmts = [s for function in f.machine_nest.functions for s, _ in walk(function.body)]
    body = f.source.partition("def C_kernel")[2].partition("def _array")[0]
    lines = [line for line in body.splitlines()[1:] if line.strip() and line.strip() != "pass"]
    assert len(lines) == len(stmts)
    for kind, name in ((For, r"for \w+ in"), (Store, r"v?store\w*\(")):
        found = sum(bool(re.match(name, line.strip())) for line in lines)
        assert found == sum(isinstance(stmt, kind) for stmt in stmts)


@pytest.mark.parametrize("target", ["python", "c"])
def test_outputs_of_one_store_share_what_they_compute(target: str) -> None:
    """argmax compares once and loads once in each step; a tuple loads a shared element once."""
    A = sl.placeholder((4, 16), name="A")
    k = sl.reduce_axis(16, name="k")
    whole = sl.compute((4,), lambda i: sl.argmax(A[i, k], axis=k), name="whole")
    # the element is read only where the condition holds
    part = sl.compute(
        (4,), lambda i: sl.argmax(sl.if_then_else(k < 14, A[i, k + 2], 0.0), axis=k), name="part"
    )
    two = sl.compute((4, 16), lambda i, j: (A[i, j] * 2 + 1, A[i, j] * 2 - 1), name="two")
    a = np.random.default_rng(0).integers(-5, 5, (4, 16)).astype("float32")
    a[1, 3] = np.nan
    shifted = np.pad(a, ((0, 0), (0, 2)))[:, 2:]
    for tensor, wanted in ((whole, [a.argmax(1)]), (part, [shifted.argmax(1)]),
                           (two, [a * 2 + 1, a * 2 - 1])):  # fmt: skip
        f = sl.build(sl.schedule(tensor), target=target)
        found = f(a) if isinstance(f(a), tuple) else (f(a),)
        for one, right in zip(found, wanted):
            np.testing.assert_array_equal(one, right)
        body = str(f.machine_nest)
        assert body.count("load(A") == 1
        assert body.count("isnan(") == (0 if tensor is two else 2)


def test_the_interpreter_counts_what_it_loads_and_stores() -> None:
    s, args = tiled(16, 16, 10)
    f = sl.build(s, args, target=sl.Target("cpu", vector_bytes=32))
    a, b = (np.random.default_rng(0).random(n, "float32") for n in ((16, 10), (10, 16)))
    c = np.zeros((16, 16), "float32")
    work = interpret_machine(f.machine_nest, flat(a, b, c))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    # each of 4x2 tiles reads 10 columns of 4 elements, and 10 rows of 8
    assert work.loads == {"A": 8 * 10 * 4, "B": 8 * 10 * 8}
    assert work.stores == {"C": 16 * 16}


def test_the_threads_of_a_block_exchange_and_wait() -> None:
    A = sl.placeholder((4, 64), name="A")
    k = sl.reduce_axis(64, name="k")
    B = sl.compute((4,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    s = sl.schedule(B)
    _, thread = s[B].split(k, factor=32)
    s[B].bind(B.op.axis[0], "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    nest = sl.build(s, [A, B], target="cuda-emulator")._file.source.machine
    a, b = np.random.default_rng(0).random((4, 64), "float32"), np.zeros(4, "float32")
    interpret_kernel(nest.entry, flat(a, b), (4, 1, 1), (32, 1, 1))
    np.testing.assert_allclose(b, a.sum(1), rtol=1e-5)


def _changed(nest: MachineNest, old: Any, new: Any) -> MachineNest:
    """Return ``nest`` with ``new(stmt)`` for each statement of the type ``old``."""

    def body(stmts: Any) -> Any:
        found = []
        for stmt in stmts:
            stmt = replace(stmt, body=body(stmt.body)) if isinstance(stmt, For) else stmt
            found += [new(stmt)] if isinstance(stmt, old) else [stmt]
        return tuple(s for s in found if s is not None)

    return MachineNest(tuple(replace(f, body=body(f.body)) for f in nest.functions))


@pytest.mark.parametrize(("old", "new", "rule"), [
    (Let, lambda s: None, "used before it is defined"),
    (Let, lambda s: replace(s, reg=Reg(s.reg.name, Type("int8"))), "is int8, but its value is"),
    (Store, lambda s: replace(s, value=Num(1.0, FLOAT)), "a vector is stored as one"),
    (Store, lambda s: replace(s, at=Num(1.0, FLOAT)), "offsets are int64"),
    (Store, lambda s: replace(s, array=replace(s.array, name="Z")), "before it is allocated"),
    (Store, lambda s: replace(s, mask=Num(True, Type("bool"))), "too many or too few: mask"),
    (Store, lambda s: replace(s, how="vstore_strided"), "too many or too few: step"),
    (Store, lambda s: replace(s, how="vstore_twice"), "vstore_twice is neither a load nor a store"),
    (Store, lambda s: replace(s, how="vstore_masked", mask=Num(True, Type("bool"))),
     "a bool for each lane"),
    (Store, lambda s: replace(s, value=Splat(Num(1.0, FLOAT), Type("float32", 3))),
     "a power of two of lanes, not 3"),
    (Store, lambda s: replace(s, value=Fn("sine", (s.value,), s.value.type)), "is not a function"),
    (For, lambda s: replace(s, step=0), "a step of 1 or more"),
    (For, lambda s: replace(s, stop=Op("+", Num(1, Type("int8")), Num(1.0, FLOAT))), "operands"),
])  # fmt: skip
def test_the_verifier_refuses(old: Any, new: Any, rule: str) -> None:
    s, args = tiled(8, 8, 8)
    nest = sl.build(s, args).machine_nest
    verify_machine(nest)
    with pytest.raises(VerifyError, match=rule):
        verify_machine(_changed(nest, old, new))


def test_an_access_outside_of_an_array_is_found() -> None:
    s, args = tiled(8, 8, 8)
    nest = sl.build(s, args).machine_nest
    wrong = _changed(nest, Store, lambda s: replace(s, at=Op("+", s.at, Num(64), index=True)))
    arrays = flat(*(np.ones((8, 8), "float32") for _ in range(3)))
    with pytest.raises(IndexError, match="of an array of 64 elements"):
        interpret_machine(wrong, arrays)


def test_walks_know_an_operation_that_is_defined_later() -> None:
    """A class outside of the package, such as that of an instruction, declares its operands."""

    @dataclass(frozen=True)
    class Sum(Operation):
        OPERANDS = ("a", "start")

        a: Value
        start: Optional[Value] = None
        type: Type = FLOAT

    a, b = Reg("a", FLOAT), Reg("b", FLOAT)
    factor = Op("*", a, b, FLOAT)
    assert children(Sum(a)) == (a,) and children(Sum(a, b)) == (a, b)
    assert list(operations(Sum(factor, b))) == [factor, Sum(factor, b)]
