"""te's intrinsics of matrix units, ``tvm_mma_sync`` and its like, as instructions of ours.

The tutorial of TVM is ``te_programs/gpu_conv_tensorcore.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import schedlang as sl
import schedlang as tvm
from schedlang import te
from schedlang.errors import BuildError, InstructionError, SchedlangError
from tests.marks import compiles

A_SCOPE, B_SCOPE, C_SCOPE = "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"


def call(name: str, *args: Any) -> Any:
    ib = tvm.tir.ir_builder.create()
    ib.emit(tvm.tir.call_intrin("handle", f"tir.{name}", *args))
    return ib.get()


def buffer(tensor: Any, scope: str, **options: Any) -> Any:
    return tvm.tir.decl_buffer(
        tensor.shape, tensor.dtype, scope=scope, data_alignment=32, offset_factor=256, **options
    )


def load(
    scope: str = A_SCOPE, layout: str = "row_major", source: str = "shared", mnk: Any = (16,) * 3,
    shape: Any = (16, 16), dtype: str = "float16", stride: Any = None, name: str = "tensor_intrin",
    change: Callable[[Any], Any] = lambda x: x, strides: Any = None, **options: Any,
) -> Any:  # fmt: skip
    a = te.placeholder(shape, dtype, name="a")
    c = te.compute(shape, lambda i, j: change(a[i, j]), name="c")

    def body(ins: Any, outs: Any) -> Any:
        rows = ins[0].strides[0] if strides else shape[1]
        apart = rows if stride is None else stride
        own = [outs[0].data, *mnk, outs[0].elem_offset // 256, ins[0].access_ptr("r"), apart]
        return call("tvm_load_matrix_sync", *own, layout)

    binds = {a: buffer(a, source, strides=strides), c: buffer(c, scope)}
    return te.decl_tensor_intrin(c.op, body, name, **{"binds": binds, **options})


def store(layout: str = "row_major") -> Any:
    a = te.placeholder((16, 16), name="a")
    c = te.compute((16, 16), lambda i, j: a[i, j], name="c")

    def body(ins: Any, outs: Any) -> Any:
        own = [ins[0].data, 16, 16, 16, ins[0].elem_offset // 256, outs[0].access_ptr("w"), 16]
        return call("tvm_store_matrix_sync", *own, layout)

    return te.decl_tensor_intrin(c.op, body, binds={a: buffer(a, C_SCOPE), c: buffer(c, "global")})


def product(
    dtype: str = "float16", by_columns: bool = False, mnk: Any = (16, 16, 16), fill: Any = 0.0,
    total: str = "float32", scopes: Any = (A_SCOPE, B_SCOPE, C_SCOPE),
    arguments: Callable[..., Any] = lambda a, b, c: [c, a, b, c],
) -> Any:  # fmt: skip
    """Return the intrinsic of a product, whose b has a column of its tile in each row if asked."""
    m, n, terms = mnk
    a = te.placeholder((m, terms), dtype, name="a")
    b = te.placeholder((n, terms) if by_columns else (terms, n), dtype, name="b")
    k = te.reduce_axis((0, terms), name="k")

    def element(i: Any, j: Any) -> Any:
        right = b[j, k] if by_columns else b[k, j]
        return te.sum(a[i, k].astype(total) * right.astype(total), axis=k)

    c = te.compute((m, n), element, name="c")

    def body(ins: Any, outs: Any) -> Any:
        parts = arguments(*ins, *outs)
        update = [x for part in parts for x in (part.data, part.elem_offset // 256)]
        start = call("tvm_fill_fragment", outs[0].data, m, n, terms, 0, fill)
        return call("tvm_mma_sync", *update), start, call("tvm_mma_sync", *update)

    binds = {t: buffer(t, scope) for t, scope in zip((a, b, c), scopes)}
    return te.decl_tensor_intrin(c.op, body, binds=binds)


def scheduled(
    dtype: str = "float16", by_columns: bool = False, source: str = "shared",
    loads_by_columns: bool | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Return a product of 16 x 32 and 32 x 32 elements by one warp, all of it by intrinsics."""
    A = te.placeholder((16, 32), dtype, name="A")
    B = te.placeholder((32, 32), dtype, name="B")
    k = te.reduce_axis((0, 32), name="k")

    def element(i: Any, j: Any) -> Any:
        right = B[j, k] if by_columns else B[k, j]
        return te.sum(A[i, k].astype("float32") * right.astype("float32"), axis=k)

    C = te.compute((16, 32), element, name="C")
    s = te.create_schedule(C.op)
    shared = [s.cache_read(T, "shared", [C]) for T in (A, B)] if source == "shared" else [A, B]
    fragments = [s.cache_read(T, f"wmma.matrix_{x}", [C]) for T, x in zip(shared, "ab")]
    F = s.cache_write(C, C_SCOPE)
    warp, j = s[C].split(C.op.axis[1], factor=16)
    s[C].reorder(warp, C.op.axis[0], j)
    s[C].bind(warp, te.thread_axis("blockIdx.x"))
    s[F].compute_at(s[C], warp)
    steps, step = s[F].split(F.op.reduce_axis[0], factor=16)
    s[F].reorder(steps, *F.op.axis, step)
    for tile, fragment in zip(shared, fragments):
        s[fragment].compute_at(s[F], steps)
        if source == "shared":
            s[tile].compute_at(s[F], steps)
            _, lane = s[tile].split(s[tile].fuse(*tile.op.axis), factor=32)
            s[tile].bind(lane, te.thread_axis("threadIdx.x"))
    turned = by_columns if loads_by_columns is None else loads_by_columns
    layouts = "row_major", "col_major" if turned else "row_major"
    for fragment, scope, layout in zip(fragments, (A_SCOPE, B_SCOPE), layouts):
        own = load(scope, layout, source, dtype=dtype, strides=[te.var("s"), 1])
        s[fragment].tensorize(fragment.op.axis[0], own)
    s[F].tensorize(F.op.axis[0], product(dtype, by_columns))
    s[C].tensorize(C.op.axis[0], store())
    return s, [A, B, C]


def arrays(args: list[Any], by_columns: bool) -> tuple[Any, Any, Any]:
    """Return random matrices and their exact product."""
    random = np.random.default_rng(0)
    kind = ml_dtypes.bfloat16 if args[0].dtype == "bfloat16" else args[0].dtype
    a, b = (random.standard_normal(T.shape).astype(kind) for T in args[:2])
    right = b.astype("float64")
    return a, b, a.astype("float64") @ (right.T if by_columns else right)


def test_a_product_in_lockstep() -> None:
    s, args = scheduled()
    f = sl.build(s, args, target="cuda")
    a, b, expected = arrays(args, False)
    np.testing.assert_allclose(f.check(a, b), expected, atol=1e-5)
    text = str(f.program)
    # two uses of mma for each of 2 x 2 tiles, one load of each operand, and no loops of te's
    assert f.counters(a, b)["C"].matrix_products == 2 * 2 * 2
    assert text.count("tensorize mma_f16") == 1
    assert "unroll j.part in 0..2" in text and "tvm_" not in text
    assert "ldmatrix_x4_f16" in text and "ldmatrix_x4_trans_f16" in text


@pytest.mark.slow
@pytest.mark.parametrize("source", ["shared", "global"])
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_layouts_and_sources(dtype: str, by_columns: bool, source: str) -> None:
    s, args = scheduled(dtype, by_columns, source)
    f = sl.build(s, args, target="cuda")
    a, b, expected = arrays(args, by_columns)
    for result in (f.check(a, b), f.simulate(a, b)):
        np.testing.assert_allclose(result, expected, atol=1e-4)
    loads = ["ldmatrix_x4_trans" in str(f.program), "ldmatrix" in str(f.program)]
    assert loads == [source == "shared" and not by_columns, source == "shared"]


@pytest.mark.slow
@compiles
def test_machine_code_has_two_products_for_one_of_te() -> None:
    s, args = scheduled()
    f = sl.build(s, args, target=sl.Target("cuda", arch="sm_90"))
    words = [word for line in f.sass.splitlines() for word in line.split()]
    assert {w for w in words if w.startswith("LDSM")} == {"LDSM.16.M88.4", "LDSM.16.MT88.4"}
    assert words.count("HMMA.16816.F32") % 2 == 0 and "HMMA.16816.F32" in words
    (resources,) = f.resources.values()
    assert (resources.spill_bytes, resources.local_bytes) == (0, 0)


def test_a_wider_shape_of_units() -> None:
    assert product(mnk=(32, 8, 16)).emit["cuda"].part is sl.instructions.mma_f16
    wide = load(mnk=(32, 8, 16), shape=(32, 16))
    assert wide.emit["cuda"].part is sl.instructions.ldmatrix_x4_f16
    # ldmatrix loads 16 columns of b or 8; te's loads are whole tiles of 16 x 16, or by elements
    assert str(load(B_SCOPE, mnk=(32, 8, 16), shape=(16, 8)).emit["cuda"]) == "copies of elements"


def test_another_order_in_memory_than_the_product_has() -> None:
    s, args = scheduled(loads_by_columns=True)
    with pytest.raises(BuildError, match="ldmatrix_x4_f16 .* does not give the threads the elem"):
        sl.build(s, args, target="cuda")


def test_copies_of_elements_are_no_instruction_to_check() -> None:
    with pytest.raises(InstructionError, match="there is no instruction to compare"):
        store().check()


REFUSALS: dict[str, tuple[Callable[[], object], str]] = {
    "arguments": (
        lambda: tvm.tir.call_intrin("handle", "tir.tvm_mma_sync", 1),
        "takes 8 arguments",
    ),
    "data": (
        lambda: tvm.tir.call_intrin("handle", "tir.tvm_fill_fragment", 3, 16, 16, 16, 0, 0.0),
        "argument 1 of tvm_fill_fragment is 3; give buffer.data of a fragment",
    ),
    "layout": (lambda: load(layout="rows"), "argument 8 of tvm_load_matrix_sync is 'rows'"),
    "stride": (lambda: load(stride=32), "takes rows 32 elements apart, and rows of buffer are 16"),
    "shape": (
        lambda: load(mnk=(32, 8, 16)),
        "16 x 16 elements, and row_major rows of wmma.matrix_a are 32 x 16 for m=32, n=8, k=16",
    ),
    "copy": (lambda: load(change=lambda x: x * 2), "copies elements, and c is a[i, j] * 2"),
    "scopes": (
        lambda: load(scope="shared"),
        "copies between a fragment and memory, and the scopes are shared and shared",
    ),
    "store": (lambda: store("col_major"), "Results are row_major; operands may be either"),
    "fill": (lambda: product(fill=1.0), "its reset does not fill the result with 0"),
    "tile": (
        lambda: product(mnk=(8, 32, 16)),
        "its tile is 8 x 32 x 16, and mma_f16 computes 16 x 8 x 16",
    ),
    "bytes": (
        lambda: product("int8", total="int32"),
        "its tile is 16 x 16 x 16, and mma_s8 computes 16 x 8 x 32",
    ),
    "dtype": (
        lambda: product("float32"),
        "multiplies float32 and adds in float32, and products are of "
        "float16 to float32, bfloat16 to float32",
    ),
    "half": (lambda: product(total="float16"), "multiplies float16 and adds in float16"),
    "result": (
        lambda: product(arguments=lambda a, b, c: [c, a, b, a]),
        "does not add the product of its operands to its own result",
    ),
    "operands": (
        lambda: product(scopes=(A_SCOPE, A_SCOPE, C_SCOPE)),
        "is in wmma.matrix_a memory, and tvm_mma_sync takes it in wmma.matrix_b",
    ),
    "function": (
        lambda: te.decl_tensor_intrin(*_of_c(C_SCOPE, 1)),
        "which the threads of a warp hold together, and a function runs on the CPU",
    ),
    "offsets": (
        lambda: te.decl_tensor_intrin(*_of_c("", 16)),
        "offset_factor=16 of buffer needs tiles that begin at multiples of 16 elements",
    ),
}


def _of_c(scope: str, factor: int) -> tuple[Any, ...]:
    """Return the declaration of a function of C on a buffer."""
    a = te.placeholder((8,), name="a")
    c = te.compute((8,), lambda i: a[i] * 2.0, name="c")

    def body(ins: Any, outs: Any) -> Any:
        ib = tvm.tir.ir_builder.create()
        ib.emit(tvm.tir.call_extern("int32", "twice", outs[0].access_ptr("w")))
        return ib.get()

    own = tvm.tir.decl_buffer((8,), scope=scope, offset_factor=factor)
    return c.op, body, "twice", {c: own}


@pytest.mark.parametrize("name", REFUSALS)
def test_calls_that_no_unit_computes(name: str) -> None:
    program, message = REFUSALS[name]
    with pytest.raises(SchedlangError, match=re.escape(message)):
        program()
