"""Compare products of bytes and of bfloat16 with PyTorch and ONNX Runtime.

    python -m benchmarks.dot_products [--only PATTERN] [--json FILE]

``python -m benchmarks.cpu --part dot-products`` does the same.

Rows are ``u8`` (uint8 by int8), ``s8`` (int8 by int8) and ``bf16``, at several sizes, as products
of a matrix with a vector, and as convolutions. ``by hand`` is a schedule of this file or of
``byte_convolutions``, whose tile is computed by the dot product of the processor
(``byte_instructions``), or that of words if it has AVX2 alone; ``autoschedule`` is
``sl.autoschedule`` of the plain computation. ``of best`` is the time of the best peer over the
row's own. Peers: ``torch._int_mm`` (int8 by int8), PyTorch's product of bfloat16 tensors, its
quantized convolution, and ``MatMulInteger`` and ``ConvInteger`` of ONNX Runtime. A call packs its
operands; only PyTorch's convolution has its weights packed ahead.

AVX-512 VNNI has no instruction for two signed operands. So 128 is added to one of them, and 128
times the sums of the other one, which are computed once, is taken away: this is how oneDNN
computes it, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import groupby
from statistics import geometric_mean
from typing import Any

# PyTorch's threads that wait in a loop would take the core of the next implementation
os.environ.setdefault("GOMP_SPINCOUNT", "0")

import numpy as np  # noqa: E402

import schedlang as sl  # noqa: E402
from benchmarks.byte_convolutions import (  # noqa: E402
    CONVOLUTIONS,
    is_right,
    onnx_convolution,
    torch_convolution,
)
from benchmarks.byte_convolutions import ours as convolve  # noqa: E402
from benchmarks.byte_instructions import form_of  # noqa: E402
from benchmarks.harness import Case, Column, Row, Unavailable, main  # noqa: E402
from benchmarks.peers.onnx_node import node_call  # noqa: E402
from schedlang.expr.dtypes import array_dtype  # noqa: E402

PACKAGES = {"torch": "torch", "ONNX Runtime": "onnxruntime"}
# the schedules of this file, and of the package
OURS = ("schedlang, by hand", "schedlang, autoschedule")
# the rows of a tile of sums with few columns
NARROW_ROWS = 8


@dataclass(frozen=True)
class Kind:
    """The dtypes of a product."""

    name: str
    left: str
    right: str
    result: str


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
    Kind("u8", "uint8", "int8", "int32"),
    Kind("s8", "int8", "int8", "int32"),
    Kind("bf16", "bfloat16", "bfloat16", "float32"),
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
    """Compute a tile of sums at a time, of operands with the steps of an instruction side by side.

    Zeros fill operands of odd sizes up. Of two signed operands, the one in panels is shifted.
    """
    kind, form, (A, B, C) = product.kind, form_of(product.kind.name), declared(product)
    chosen, vectors, rows = form.instruction, form.vectors, form.rows
    if product.n <= form.narrow.lanes:
        chosen, vectors, rows = form.narrow, 1, NARROW_ROWS
    lanes, terms = chosen.lanes * vectors, form.terms
    s = sl.schedule(C)
    tile = s.cache_write(C, "local")
    panels, sums = B, None
    if form.shifts(1, kind.right):
        panels, sums = s.shift_operand(tile, B, "uint8")
        sum_loop = _sum_rows(s, sums, chosen.lanes)
    if product.n % lanes or product.k % terms:
        if panels is not B:
            s[panels].compute_inline()
        _, panels = s.pad_einsum(tile, [1, lanes, terms])
    elif panels is B:
        panels = s.cache_read(B, "global", [tile])
    s[panels].transform_layout(lambda k, j: (j // lanes, k // terms, j % lanes, k % terms))
    i, j = s[C].op.axis
    panel, lane = s[C].split(j, factor=lanes, tail="guard")
    strip, row = s[C].split(i, factor=rows, tail="cut")
    few = product.n <= 2 * lanes
    s[C].reorder(*((strip, panel) if few else (panel, strip)), row, lane)
    s[C].vectorize(lane)
    s[C].parallel(strip if few else panel)
    s[tile].compute_at(s[C], panel if few else strip)
    outer = panel
    y, x = s[tile].op.axis
    steps, step = s[tile].split(s[tile].op.reduce_axis[0], factor=terms)
    vector, across = s[tile].split(x, factor=chosen.lanes)
    s[tile].reorder(steps, y, vector, across, step)
    s[tile].unroll(y)
    s[tile].unroll(vector)
    s[tile].tensorize(across, chosen)
    k, j = s[panels].op.axis
    panel, lane = s[panels].split(j, factor=lanes)
    over, step = s[panels].split(k, factor=terms)
    s[panels].reorder(panel, over, lane, step)
    s[panels].unroll(step)
    s[panels].vectorize(lane)
    if few:
        s[panels].parallel(panel)
    else:
        s[panels].compute_at(s[C], outer)
    if sums is not None and few:
        # a strip reads its rows of A once, for the sums and for the only panels
        s[sums].compute_at(s[C], strip)
    elif sums is not None and product.m * product.k >= 2**20:
        # threads start and end in the time of fewer elements
        s[sums].parallel(sum_loop)
    return s, [A, B, C]


def _sum_rows(s: sl.Schedule, sums: sl.Tensor, lanes: int) -> sl.Axis:
    """Add the steps of a row in lanes, then these lanes of several rows, a row in each lane.

    Return the loop over several rows.
    """
    _, step = s[sums].split(s[sums].op.reduce_axis[0], factor=lanes)
    partial = s.rfactor(sums, step, factor_axis=1)
    rows, row = s[sums].split(s[sums].op.axis[0], factor=lanes)
    s[sums].reorder(rows, *s[sums].op.reduce_axis, row)
    s[sums].vectorize(row)
    s[partial].compute_at(s[sums], rows)
    s[partial].set_scope("local")
    own, lane = s[partial].op.axis
    s[partial].reorder(own, *s[partial].op.reduce_axis, lane)
    s[partial].vectorize(lane)
    return rows


def along_rows(product: Product) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Compute a product with a vector as partial sums in lanes.

    Of two signed operands, the matrix is shifted, in registers.
    """
    form, (A, B, C) = form_of(product.kind.name), declared(product)
    s, chosen = sl.schedule(C), form.along_row
    shifted = None
    if chosen.operands[0].dtype != product.kind.left:
        shifted, _ = s.shift_operand(C, A, "uint8")
    _, steps = s[C].split(s[C].op.reduce_axis[0], factor=chosen.lanes * form.terms)
    lane, _ = s[C].split(steps, factor=form.terms)
    partial = s.rfactor(C, lane, factor_axis=2)
    row, _ = s[C].op.axis
    s[C].parallel(row)
    s[partial].compute_at(s[C], row)
    s[partial].set_scope("local")
    i, j, lane = s[partial].op.axis
    over, step = s[partial].op.reduce_axis
    s[partial].reorder(i, j, over, lane, step)
    s[partial].tensorize(lane, chosen)
    if shifted is not None:
        s[shifted].compute_at(s[partial], over)
        s[shifted].set_scope("local")
        s[shifted].vectorize(s[shifted].op.axis[1])
    return s, [A, B, C]


def ours(product: Product, hand: bool) -> Callable[[], Any]:
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
    if product.kind.name == "bf16":
        raise Unavailable("MatMulInteger takes integers")
    a, b = product.arrays()
    return node_call("MatMulInteger", {"a": a, "b": b}, (product.m, product.n), {})


def cases() -> Iterator[Case]:
    for product in PRODUCTS:
        flops = 2.0 * product.m * product.n * product.k
        calls = {
            "schedlang, by hand": partial(ours, product, True),
            "schedlang, autoschedule": partial(ours, product, False),
            "torch": partial(torch_product, product),
            "ONNX Runtime": partial(onnx_product, product),
        }
        for name, prepare in calls.items():
            yield _case(product.name, name, prepare, partial(_is_right, product, name), flops)
    for work in CONVOLUTIONS:
        calls = {
            "schedlang, by hand": partial(convolve, work, True),
            "schedlang, autoschedule": partial(convolve, work, False),
            "torch": partial(torch_convolution, work),
            "ONNX Runtime": partial(onnx_convolution, work),
        }
        for name, prepare in calls.items():
            yield _case(work.name, name, prepare, partial(is_right, work), work.flops)


def _is_right(product: Product, name: str, result: Any) -> bool:
    a, b = (x.astype("float64") for x in product.arrays())
    result = result.float().numpy() if hasattr(result, "bfloat16") else result
    # PyTorch rounds its result to bfloat16
    tolerance = 1e-2 if product.kind.name == "bf16" and name == "torch" else 1e-4
    return bool(np.allclose(result, a @ b, rtol=tolerance, atol=tolerance * product.k**0.5))


def _case(
    work: str, name: str, prepare: Callable[[], Callable[[], Any]], right: Callable[[Any], bool],
    flops: float,
) -> Case:  # fmt: skip
    results: list[Any] = []
    package = PACKAGES.get(name)
    missing = f"{package} is not installed" if package and not find_spec(package) else ""

    def checked() -> Callable[[], object]:
        call = prepare()
        results.append(call())
        return call

    return Case(work, name, checked, lambda: right(results[0]), flops=flops, missing=missing)


def _ratio(row: Row, group: Sequence[Row]) -> float | None:
    peers = [r for r in group if r.correct and not r.case.implementation.startswith("schedlang")]
    return min(r.seconds for r in peers) / row.seconds if peers else None


def _of_best(row: Row, group: Sequence[Row]) -> str:
    value = _ratio(row, group)
    return "" if value is None else f"{value:.2f}"


def summary(rows: Sequence[Row]) -> str:
    """Return a line for each way to schedule: its ratios to the best peers of all works."""
    lines = []
    for name in OURS:
        ratios = {}
        for work, members in groupby(rows, lambda r: r.case.work):
            group = list(members)
            for row in group:
                value = _ratio(row, group)
                if row.case.implementation == name and value is not None:
                    ratios[work] = value
        if ratios:
            mean, least = geometric_mean(ratios.values()), min(ratios, key=ratios.__getitem__)
            lines.append(
                f"{name}, against the best peer of each row: {mean:.3f} (geometric mean of "
                f"{len(ratios)} rows), {ratios[least]:.2f} at least ({least})"
            )
    return "\n".join(lines) or "schedlang and a peer have no row in common here"


def run(arguments: Sequence[str] | None = None) -> int:
    """Measure the chosen cases, print the table, and return the exit status."""
    columns = [Column("of best", _of_best)]
    return main(
        "Dot products, two threads", cases(), columns, arguments=arguments, summary=summary
    )


if __name__ == "__main__":
    sys.exit(run())
