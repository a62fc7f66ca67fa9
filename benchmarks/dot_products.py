"""Compare products of bytes and of bfloat16 with PyTorch and ONNX Runtime.

    python -m benchmarks.dot_products [--only PATTERN] [--json FILE]

Rows are ``u8`` (uint8 by int8), ``s8`` (int8 by int8) and ``bf16``, at several sizes and as
products of a matrix with a vector. ``by hand`` is a schedule of this file, whose tile is computed
by the dot product of the processor; ``autoschedule`` is ``sl.autoschedule`` of the plain product.
``of best`` is the time of the best peer over the row's own. Peers: ``torch._int_mm`` (int8 by
int8), PyTorch's product of bfloat16 tensors, and ``MatMulInteger`` of ONNX Runtime.

A product of two signed operands has no instruction with AVX-512 VNNI. So one of them is shifted by
128, and 128 times the sums of the other one, which are computed once, are taken away: this is how
oneDNN computes it, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import schedlang as sl
from benchmarks.harness import Case, Column, Row, Unavailable, main
from schedlang.expr.dtypes import array_dtype
from schedlang.runtime.processor import missing_features

# rows and vectors of a tile of sums
ROWS, VECTORS = 6, 4


@dataclass(frozen=True)
class Kind:
    """The dtypes of a product, and the instruction of its tile, also of one with 8 columns."""

    name: str
    left: str
    right: str
    result: str
    instruction: sl.Instruction
    narrow: sl.Instruction | None

    @property
    def terms(self) -> int:
        """The steps that an instruction takes."""
        extent = self.instruction.op.reduce_axis[0].extent
        assert isinstance(extent, int)
        return extent


@dataclass(frozen=True)
class Product:
    """The product of an ``m`` by ``k`` and a ``k`` by ``n`` matrix."""

    kind: Kind
    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        same = self.m == self.n == self.k
        size = f"{self.m}^3" if same else f"{self.m}x{self.n}x{self.k}"
        return f"{self.kind.name} {size}"

    def arrays(self) -> list[Any]:
        """Return the operands, which are the same for each implementation."""
        draw = np.random.default_rng(self.m + self.n + self.k)
        arrays = []
        for dtype, shape in (
            (self.kind.left, (self.m, self.k)),
            (self.kind.right, (self.k, self.n)),
        ):
            if dtype == "bfloat16":
                arrays.append(draw.standard_normal(shape).astype(array_dtype(dtype)))
            else:
                limits = np.iinfo(dtype)
                arrays.append(draw.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        return arrays


KINDS = (
    Kind("u8", "uint8", "int8", "int32", sl.instructions.vpdpbusd, sl.instructions.vpdpbusd_256),
    Kind("s8", "int8", "int8", "int32", sl.instructions.vpdpbusd, sl.instructions.vpdpbusd_256),
    Kind("bf16", "bfloat16", "bfloat16", "float32", sl.instructions.vdpbf16ps, None),
)
SIZES = ((512, 512, 512), (1024, 1024, 1024), (1000, 1003, 997), (4096, 8, 4096), (4096, 1, 4096))
PRODUCTS = [Product(kind, *size) for kind in KINDS for size in SIZES]


def declared(product: Product) -> list[sl.Tensor]:
    """Return the operands and the plain product."""
    kind, m, n = product.kind, product.m, product.n
    A = sl.placeholder((m, product.k), kind.left, name="A")
    B = sl.placeholder((product.k, n), kind.right, name="B")
    k = sl.reduce_axis(product.k, name="k")

    def dot(i: sl.Axis, j: sl.Axis) -> Any:
        return sl.sum(A[i, k].astype(kind.result) * B[k, j].astype(kind.result), axis=k)

    return [A, B, sl.compute((m, n), dot, name="C")]


def by_hand(product: Product) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Pack both operands with the steps of an instruction side by side, and compute tiles."""
    kind, m, n, k = product.kind, product.m, product.n, product.k
    chosen, terms, vectors, rows = kind.instruction, kind.terms, VECTORS, ROWS
    if n < chosen.lanes:
        if kind.narrow is None:
            raise Unavailable("no schedule for so few columns")
        chosen, vectors, rows = kind.narrow, 1, 12
    lanes = chosen.lanes * vectors
    panels, groups = -(-n // lanes), -(-k // terms)
    signed = kind.left == "int8"
    A, B = sl.placeholder((m, k), kind.left, name="A"), sl.placeholder((k, n), kind.right, name="B")
    left = "uint8" if signed else kind.left

    def element(i: Any, at: Any) -> Any:
        value = A[i, at]
        return (value.astype("int16") + 128).astype("uint8") if signed else value

    def of_a(i: Any, g: Any, q: Any) -> Any:
        return sl.if_then_else(g * terms + q < k, element(i, g * terms + q), sl.const(0, left))

    def of_b(p: Any, g: Any, j: Any, q: Any) -> Any:
        inside = (p * lanes + j < n) & (g * terms + q < k)
        return sl.if_then_else(inside, B[g * terms + q, p * lanes + j], sl.const(0, kind.right))

    PA = sl.compute((m, groups, terms), of_a, name="PA")
    PB = sl.compute((panels, groups, lanes, terms), of_b, name="PB")
    g, q = sl.reduce_axis(groups, name="g"), sl.reduce_axis(terms, name="q")
    start = None
    if signed:
        h, r = sl.reduce_axis(groups, name="h"), sl.reduce_axis(terms, name="r")
        S = sl.compute(
            (panels, lanes),
            lambda p, j: sl.sum(PB[p, h, j, r].astype("int32"), axis=(h, r)), name="S",
        )  # fmt: skip
        start = S

    def dot(i: Any, j: Any) -> Any:
        a, b = PA[i, g, q], PB[j // lanes, g, j % lanes, q]
        value = a.astype(kind.result) * b.astype(kind.result)
        if start is None:
            return sl.sum(value, axis=(g, q))
        return sl.sum(value, axis=(g, q), init=start[j // lanes, j % lanes] * -128)

    C = sl.compute((m, n), dot, name="C")
    s = sl.schedule(C)
    tile = s.cache_write(C, "local")
    i, j = s[C].op.axis
    panel, lane = s[C].split(j, factor=lanes, tail="guard")
    strip, row = s[C].split(i, factor=rows, tail="cut")
    outer, inner = (strip, panel) if panels < 4 else (panel, strip)
    s[C].reorder(outer, inner, row, lane)
    s[C].vectorize(lane)
    s[C].parallel(outer)
    s[tile].compute_at(s[C], inner)
    y, x = s[tile].op.axis
    steps, step = s[tile].op.reduce_axis
    vector, across = s[tile].split(x, factor=chosen.lanes)
    s[tile].reorder(steps, y, vector, across, step)
    s[tile].unroll(y)
    s[tile].unroll(vector)
    s[tile].tensorize(across, chosen)
    _pack(s, PA, PB)
    if start is not None:
        p, j = s[start].op.axis
        s[start].reorder(p, *s[start].op.reduce_axis, j)
        s[start].vectorize(j)
        s[start].parallel(p)
    return s, [A, B, C]


def _pack(s: sl.Schedule, PA: sl.Tensor, PB: sl.Tensor) -> None:
    """Copy rows of A in vectors, and panels of B on the threads that read them."""
    i, g, q = s[PA].op.axis
    _, lane = s[PA].split(s[PA].fuse(g, q), factor=64, tail="cut")
    s[PA].vectorize(lane)
    s[PA].parallel(i)
    p, g, j, q = s[PB].op.axis
    s[PB].unroll(q)
    s[PB].reorder(p, g, q, j)
    s[PB].vectorize(j)
    s[PB].parallel(p)


def row_dot(kind: Kind) -> sl.Instruction:
    """Return the instruction with steps of the reduction in all lanes of both operands."""
    lanes, terms = kind.instruction.lanes, kind.terms
    a = sl.placeholder((lanes, terms), "uint8" if kind.left == "int8" else kind.left, name="a")
    b = sl.placeholder((lanes, terms), kind.right, name="b")
    q = sl.reduce_axis(terms, name="q")

    def dot(i: sl.Axis) -> Any:
        return sl.sum(a[i, q].astype(kind.result) * b[i, q].astype(kind.result), axis=q)

    c = sl.compute((lanes,), dot, name="c")
    given = kind.instruction
    return sl.instruction(f"{given.name}_rows", c, given.emit, given.needs, given.tolerance)


def along_rows(product: Product) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Compute a product with a vector as partial sums in lanes, four rows at a time.

    Of two signed operands, the vector is shifted.
    """
    kind, m, k = product.kind, product.m, product.k
    declared_row, terms = row_dot(kind), kind.terms
    lanes = declared_row.lanes
    if k % (lanes * terms):
        raise Unavailable("no schedule for such rows")
    A, X = sl.placeholder((m, k), kind.left, name="A"), sl.placeholder((k, 1), kind.right, name="B")
    signed, groups = kind.left == "int8", k // (lanes * terms)
    V = X
    if signed:
        V = sl.compute(
            (k, 1), lambda i, z: (X[i, z].astype("int16") + 128).astype("uint8"), name="V"
        )

    def partial_sums(name: str, vector: Any) -> sl.Tensor:
        g, q = sl.reduce_axis(groups, name="g"), sl.reduce_axis(terms, name="q")

        def dot(i: Any, lane: Any) -> Any:
            at = (g * lanes + lane) * terms + q
            a, x = A[i, at].astype(kind.result), vector(at).astype(kind.result)
            return sl.sum(x * a if signed else a * x, axis=(g, q))

        return sl.compute((m, lanes), dot, name=name)

    P = partial_sums("P", lambda at: V[at, 0])
    parts = [P]
    if signed:
        ones = sl.compute((k,), lambda i: sl.const(1, "uint8"), name="ones")
        parts.append(partial_sums("Q", lambda at: ones[at]))
    lane = sl.reduce_axis(lanes, name="lane")

    def total(i: Any, z: Any) -> Any:
        value = P[i, lane] - parts[1][i, lane] * 128 if signed else P[i, lane]
        return sl.sum(value, axis=lane)

    C = sl.compute((m, 1), total, name="C")
    s = sl.schedule(C)
    strip, _ = s[C].split(C.op.axis[0], factor=4)
    s[C].parallel(strip)
    for part in parts:
        s[part].compute_at(s[C], strip)
        s[part].set_scope("local")
        y, x = s[part].op.axis
        g, q = s[part].op.reduce_axis
        s[part].reorder(g, y, x, q)
        s[part].unroll(y)
        s[part].tensorize(x, declared_row)
    return s, [A, X, C]


def ours(product: Product, hand: bool) -> Callable[[], Any]:
    if lacking := missing_features(product.kind.instruction.needs):
        raise Unavailable(f"the processor lacks {' and '.join(lacking)}")
    if hand:
        s, tensors = (by_hand if product.n > 1 else along_rows)(product)
    else:
        tensors = declared(product)
        s = sl.autoschedule(tensors[-1])
    kernel, (a, b) = sl.build(s, tensors), product.arrays()
    out = np.empty((product.m, product.n), product.kind.result)
    return lambda: kernel(a, b, out)


def torch_product(product: Product) -> Callable[[], Any]:
    import torch

    if product.kind.name == "bf16":
        a, b = (torch.from_numpy(x.astype("float32")).bfloat16() for x in product.arrays())
        return lambda: a @ b
    if product.kind.name != "s8":
        raise Unavailable("torch._int_mm takes int8 alone")
    a, b = map(torch.from_numpy, product.arrays())
    return lambda: torch._int_mm(a, b)


def onnx_product(product: Product) -> Callable[[], Any]:
    import onnxruntime
    from onnx import TensorProto, helper

    if product.kind.name == "bf16":
        raise Unavailable("MatMulInteger takes integers")
    kinds = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
    a, b = product.arrays()
    node = helper.make_node("MatMulInteger", ["a", "b"], ["c"])
    given = [
        helper.make_tensor_value_info(name, kinds[str(x.dtype)], x.shape)
        for name, x in (("a", a), ("b", b))
    ]
    result = helper.make_tensor_value_info("c", TensorProto.INT32, (product.m, product.n))
    graph = helper.make_graph([node], "product", given, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda: session.run(None, {"a": a, "b": b})[0]


def cases() -> Iterator[Case]:
    peers = {"torch": ("torch", torch_product), "ONNX Runtime": ("onnxruntime", onnx_product)}
    for product in PRODUCTS:
        flops = 2.0 * product.m * product.n * product.k
        for name, hand in (("by hand", True), ("autoschedule", False)):
            yield _case(product, f"schedlang, {name}", partial(ours, product, hand), flops)
        for name, (package, prepare) in peers.items():
            missing = "" if find_spec(package) else f"{package} is not installed"
            yield _case(product, name, partial(prepare, product), flops, missing)


def _case(
    product: Product, name: str, prepare: Callable[[], Callable[[], Any]], flops: float,
    missing: str = "",
) -> Case:  # fmt: skip
    results: list[Any] = []

    def checked() -> Callable[[], object]:
        call = prepare()
        results.append(call())
        return call

    def check() -> bool:
        a, b = (x.astype("float64") for x in product.arrays())
        result = results[0].float().numpy() if hasattr(results[0], "bfloat16") else results[0]
        # PyTorch rounds its result to bfloat16
        tolerance = 1e-2 if product.kind.name == "bf16" and name == "torch" else 1e-4
        return bool(np.allclose(result, a @ b, rtol=tolerance, atol=tolerance * product.k**0.5))

    return Case(product.name, name, checked, check, flops=flops, missing=missing)


def _of_best(row: Row, group: Sequence[Row]) -> str:
    peers = [r.seconds for r in group if not r.case.implementation.startswith("schedlang")]
    return f"{min(peers) / row.seconds:.2f}" if peers else ""


if __name__ == "__main__":
    sys.exit(main("Dot products, two threads", cases(), [Column("of best", _of_best)]))
