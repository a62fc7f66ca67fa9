"""PyTorch: eager calls, and the same functions through ``torch.compile``.

Eager calls write the given outputs where the operator takes ``out=``. Compiled functions copy
their result into the outputs, which the compiler fuses. Where a library operator makes the result,
they return it instead; malloc reuses its memory (see ``environment`` in ``worker.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as fn

from benchmarks.peers import Call
from benchmarks.works import Arrays, Work
from benchmarks.works.memory import EPSILON, GAUSS, KAPPA, LUMA


def start_worker() -> None:
    """Turn gradients off in the process of a worker."""
    torch.set_grad_enabled(False)


def prepare(implementation: str, work: Work, arrays: Arrays, outs: Arrays) -> Call:
    given = [torch.from_numpy(a) for a in arrays.values()]
    results = [torch.from_numpy(a) for a in outs.values()]
    if implementation == "torch eager":
        eager: Call = globals()[f"eager_{work.kind}"](work.sizes, *given, *results)
        return eager
    call = compiled(work)
    return lambda: call(given, results)


def compiled(work: Work) -> Callable[[list[Any], list[Any]], object]:
    """Compile a work with ``torch.compile``. Its call takes the lists of inputs and outputs."""
    return compiled_formula(globals()[work.kind], work, work.kind in RETURNED)


def compiled_formula(
    formula: Callable[..., Any], work: Work, returned: bool
) -> Callable[[list[Any], list[Any]], object]:
    """Compile ``formula``, whose call returns its result, or else copies it into the output."""
    sizes = dict(work.sizes)
    torch._dynamo.reset()
    if returned:

        def whole(inputs: list[Any]) -> Any:
            return formula(sizes, *inputs)

        into = torch.compile(whole, dynamic=False, fullgraph=True)
        return lambda inputs, _: into(inputs)

    def stored(inputs: list[Any], out: Any) -> None:
        out.copy_(formula(sizes, *inputs))

    storing = torch.compile(stored, dynamic=False, fullgraph=True)
    return lambda inputs, outs: storing(inputs, outs[0])


# compiled functions return these results of library operators, since a copy would cost more
RETURNED = frozenset({"sgemm", "gemv", "batched", "conv2d", "depthwise", "lstm_cell", "attention"})


def sgemm(_: Any, a: Any, b: Any) -> Any:
    return a @ b


gemv = batched = sgemm


def conv2d(sizes: Any, x: Any, w: Any) -> Any:
    return fn.conv2d(x, w, stride=sizes["stride"], padding=sizes["pad"])


def depthwise(sizes: Any, x: Any, w: Any) -> Any:
    return fn.conv2d(x, w, stride=sizes["stride"], padding=sizes["pad"], groups=sizes["channels"])


def max_pool(sizes: Any, x: Any) -> Any:
    return fn.max_pool2d(x, sizes["k"], sizes["stride"], sizes["pad"])


def softmax(_: Any, x: Any) -> Any:
    return torch.softmax(x, 1)


def layer_norm(_: Any, x: Any, gain: Any, bias: Any) -> Any:
    return fn.layer_norm(x, x.shape[1:], gain, bias, EPSILON)


def row_sum(_: Any, x: Any) -> Any:
    return x.sum(1)


def column_sum(_: Any, x: Any) -> Any:
    return x.sum(0)


def box_blur(_: Any, x: Any) -> Any:
    along = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) / 3
    return (along[:-2] + along[1:-1] + along[2:]) / 3


def jacobi(_: Any, x: Any) -> Any:
    sides = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return 0.2 * (x[1:-1, 1:-1] + sides)


def _gray(rgb: Any) -> Any:
    return LUMA[0] * rgb[0] + LUMA[1] * rgb[1] + LUMA[2] * rgb[2]


def unsharp(_: Any, rgb: Any) -> Any:
    gray = _gray(rgb)
    h, w = gray.shape
    p = fn.pad(gray[None], (0, 0, 3, 3), mode="replicate")[0]
    parts = [GAUSS[abs(d)] * p[3 + d : 3 + d + h] for d in range(-3, 4)]
    p = fn.pad(sum(parts)[None, None], (3, 3, 0, 0), mode="replicate")[0, 0]
    soft = sum(GAUSS[abs(d)] * p[:, 3 + d : 3 + d + w] for d in range(-3, 4))
    return rgb * ((2 * gray - soft) / gray)


def harris(_: Any, rgb: Any) -> Any:
    gray = _gray(rgb)
    down, across = gray[2:] - gray[:-2], gray[:, 2:] - gray[:, :-2]
    iy = (down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]) / 12
    ix = (across[:-2] + 2 * across[1:-1] + across[2:]) / 12

    def box(v: Any) -> Any:
        rows = v[:-2] + v[1:-1] + v[2:]
        return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]

    xx, yy, xy = box(ix * ix), box(iy * iy), box(ix * iy)
    return xx * yy - xy * xy - KAPPA * (xx + yy) ** 2


def chain(_: Any, a: Any, b: Any, c: Any) -> Any:
    return torch.relu(a * b + c) * torch.sigmoid(a)


def transpose(_: Any, x: Any) -> Any:
    return x.T


def lstm_cell(_: Any, x: Any, h: Any, c: Any, w_x: Any, w_h: Any, bias: Any) -> Any:
    gates = torch.addmm(bias, x, w_x.T) + h @ w_h.T
    i, f, g, o = gates.chunk(4, 1)
    c_next = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c_next), c_next


def attention(sizes: Any, q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.transpose(1, 2) / math.sqrt(sizes["width"])
    return torch.softmax(scores, 2) @ v


def _out(operator: Callable[..., Any]) -> Callable[..., Call]:
    """Return eager calls of an operator that takes ``out=`` and the inputs as they are."""
    return lambda sizes, *tensors: lambda: _discard(operator(*tensors[:-1], out=tensors[-1]))


def _discard(_: Any) -> None:
    """Discard the returned tensor, since the result is in ``out``."""


def _result(formula: Callable[..., Any]) -> Callable[..., Call]:
    """Return eager calls that return their result."""
    return lambda sizes, *tensors: lambda: formula(sizes, *tensors[:-1])


eager_sgemm = _out(torch.mm)
eager_gemv = _out(torch.mv)
eager_batched = _out(torch.bmm)
eager_conv2d = _result(conv2d)
eager_depthwise = _result(depthwise)
eager_max_pool = _result(max_pool)
eager_layer_norm = _result(layer_norm)


def eager_softmax(_: Any, x: Any, y: Any) -> Call:
    return lambda: _discard(torch.softmax(x, 1, out=y))


def eager_row_sum(_: Any, x: Any, y: Any) -> Call:
    return lambda: _discard(torch.sum(x, 1, out=y))


def eager_column_sum(_: Any, x: Any, y: Any) -> Call:
    return lambda: _discard(torch.sum(x, 0, out=y))


def eager_transpose(_: Any, x: Any, y: Any) -> Call:
    return lambda: _discard(y.copy_(x.T))


def eager_box_blur(_: Any, x: Any, y: Any) -> Call:
    along = torch.empty(x.shape[0], y.shape[1], device=x.device)

    def call() -> None:
        torch.add(x[:, :-2], x[:, 1:-1], out=along)
        along.add_(x[:, 2:])
        torch.add(along[:-2], along[1:-1], out=y)
        y.add_(along[2:]).mul_(1 / 9)

    return call


def eager_jacobi(_: Any, x: Any, y: Any) -> Call:
    def call() -> None:
        torch.add(x[:-2, 1:-1], x[2:, 1:-1], out=y)
        y.add_(x[1:-1, :-2]).add_(x[1:-1, 2:]).add_(x[1:-1, 1:-1]).mul_(0.2)

    return call


def eager_unsharp(sizes: Any, rgb: Any, y: Any) -> Call:
    def call() -> None:
        gray = _eager_gray(rgb)
        h, w = gray.shape
        p = fn.pad(gray[None], (0, 0, 3, 3), mode="replicate")[0]
        across = _eager_gauss([p[3 + d : 3 + d + h] for d in range(-3, 4)])
        p = fn.pad(across[None, None], (3, 3, 0, 0), mode="replicate")[0, 0]
        soft = _eager_gauss([p[:, 3 + d : 3 + d + w] for d in range(-3, 4)])
        torch.mul(rgb, soft.div_(gray).neg_().add_(2), out=y)

    return call


def _eager_gray(rgb: Any) -> Any:
    return (rgb[0] * LUMA[0]).add_(rgb[1], alpha=LUMA[1]).add_(rgb[2], alpha=LUMA[2])


def _eager_gauss(taps: list[Any]) -> Any:
    total = taps[3] * GAUSS[0]
    for d in (-3, -2, -1, 1, 2, 3):
        total.add_(taps[3 + d], alpha=GAUSS[abs(d)])
    return total


def eager_harris(sizes: Any, rgb: Any, y: Any) -> Call:
    def box(v: Any) -> Any:
        rows = (v[:-2] + v[1:-1]).add_(v[2:])
        return (rows[:, :-2] + rows[:, 1:-1]).add_(rows[:, 2:])

    def call() -> None:
        gray = _eager_gray(rgb).mul_(1 / 12)
        down, across = gray[2:] - gray[:-2], gray[:, 2:] - gray[:, :-2]
        iy = (down[:, :-2] + down[:, 2:]).add_(down[:, 1:-1], alpha=2)
        ix = (across[:-2] + across[2:]).add_(across[1:-1], alpha=2)
        xx, yy, xy = box(ix * ix), box(iy * iy), box(ix.mul_(iy))
        torch.mul(xx, yy, out=y)
        y.addcmul_(xy, xy, value=-1)
        trace = xx.add_(yy)
        y.addcmul_(trace, trace, value=-KAPPA)

    return call


def eager_chain(_: Any, a: Any, b: Any, c: Any, y: Any) -> Call:
    part = torch.empty_like(a)

    def call() -> None:
        torch.addcmul(c, a, b, out=y)
        torch.sigmoid(a, out=part)
        y.relu_().mul_(part)

    return call


def eager_lstm_cell(
    _: Any, x: Any, h: Any, c: Any, w_x: Any, w_h: Any, bias: Any, h_next: Any, c_next: Any
) -> Call:
    # PyTorch's signature has two biases, the work has one.
    none = torch.zeros_like(bias)
    return lambda: torch.lstm_cell(x, (h, c), w_x, w_h, bias, none)


def eager_attention(_: Any, q: Any, k: Any, v: Any, out: Any) -> Call:
    given = q[None], k[None], v[None]
    return lambda: fn.scaled_dot_product_attention(*given)[0]
