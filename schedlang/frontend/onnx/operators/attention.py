"""Attention, as one operator."""

from __future__ import annotations

from typing import Any, Literal

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import is_one
from schedlang.arrays.shaping import expand_dims, reshape, transpose
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.masks import zero_unseen
from schedlang.frontend.onnx.call import Call, Flag
from schedlang.frontend.onnx.operators.elementwise import check_dtypes
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.language.calls import call as call_of
from schedlang.language.construct import const, select
from schedlang.tvm.tir import infinity
from schedlang.tvm.topi.stages import compute


def attention(
    call: Call,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None,
    *,
    is_causal: Flag = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: Literal[0, 1, 2, 3] = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: Literal[1, 10, 11, 16] | None = None,
) -> Tensor:
    """``softmax(q @ k.T * scale + mask) @ v`` of each head; scores of short floats are in float32.

    A row without a key that the mask allows is 0. Inputs are ``[batch, heads, rows, width]`` or
    ``[batch, rows, heads * width]``.
    """
    call.only_outputs(1, "present_key, present_value and qk_matmul_output")
    for cache, what in (
        (past_key, "past_key"),
        (past_value, "past_value"),
        (nonpad_kv_seqlen, "nonpad_kv_seqlen"),
    ):
        if cache is not None:
            raise call.refused(
                f"its input {what!r} has no form here",
                "Export the model without a cache of keys and values.",
            )
    if softcap or left_window_size >= 0 or right_window_size >= 0:
        raise call.refused(
            "softcap and windows of keys have no form here", "Give a window as its mask."
        )
    check_dtypes(call, q, k, v)
    flat = q.ndim == 3
    query = _heads(call, q, q_num_heads, "q_num_heads")
    key, value = (_heads(call, x, kv_num_heads, "kv_num_heads") for x in (k, v))
    if attn_mask is None:
        causal = "TopLeft" if is_causal else None
        attended = topi.nn.attention(query, key, value, None, scale, causal, online=False)
        by_head = transpose(call.main(attended), (0, 2, 1, 3))
    else:
        bias = _bias(call, attn_mask, query, key, bool(is_causal))
        attended = topi.nn.attention(query, key, value, bias, scale, online=False)
        by_head = zero_unseen(transpose(call.main(attended), (0, 2, 1, 3)), bias)
    if not flat:
        return by_head
    batch, rows, heads, columns = attended.shape
    return reshape(transpose(by_head, (0, 2, 1, 3)), (batch, rows, heads * columns))


def _heads(call: Call, x: Tensor, heads: int | None, what: str) -> Tensor:
    """Return an input as ``[batch, rows, heads, width]``."""
    if x.ndim == 4:
        return transpose(x, (0, 2, 1, 3))
    if x.ndim != 3:
        raise call.refused(f"an input has {x.ndim} dimensions, and must have 3 or 4")
    batch, rows, columns = x.shape
    if heads is None or heads < 1 or not isinstance(columns, int) or columns % heads:
        raise call.refused(f"{what}={heads} does not divide the {columns} columns of an input")
    return reshape(x, (batch, rows, heads, columns // heads))


def _bias(call: Call, mask: Tensor, query: Tensor, key: Tensor, causal: bool) -> Tensor:
    """Return what is added to scores: minus infinity where a key does not count.

    A mask of bools is true where a key counts. Since opset 24 keys after the last one of the mask
    do not.
    """
    if mask.ndim < 2 or mask.ndim > 4:
        raise call.refused(f"its mask has {mask.ndim} dimensions, and must have 2 to 4")
    wide = mask if mask.ndim == 4 else expand_dims(mask, tuple(range(4 - mask.ndim)))
    never: Any = -infinity(query.dtype)
    if wide.dtype == "bool":
        zero: Any = const(0, query.dtype)
        wide = array("mask", lambda m: select(m, zero, never), wide)
    *lead, rows, own = wide.shape
    keys = key.shape[1]
    short = call.version >= 24 and isinstance(own, int) and isinstance(keys, int) and own < keys
    if not (causal or short):
        return wide
    rows = query.shape[1] if causal else rows

    def element(b: Axis, h: Axis, i: Axis, j: Axis) -> Expr:
        row: Any = 0 if is_one(wide.shape[2]) else i
        column: Any = 0 if is_one(own) else j
        if short:
            column = call_of("min", j, own - 1)
        bias = wide.element((b, h, row, column))
        counts = [j <= i] * causal + [j < own] * short
        for condition in counts:
            bias = select(condition, bias, never)
        return bias

    return compute("mask", (*lead, rows, keys), element, ["b", "h", "i", "j"])


OPERATORS: Table = {"Attention": since(attention, 23, 24, 25)}
