"""Attention, as one operator."""

from __future__ import annotations

from typing import Any

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shaping import expand_dims, reshape, transpose
from schedlang.compute.tensor import Tensor
from schedlang.frontend.onnx.call import Call
from schedlang.frontend.onnx.operators.elementwise import check_dtypes
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.language.construct import const, select
from schedlang.tvm.tir import infinity


def attention(
    call: Call, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None,
    past_key: Tensor | None = None, past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None, *, is_causal: int = 0,
    kv_num_heads: int | None = None, left_window_size: int = -1, q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0, right_window_size: int = -1, scale: float | None = None,
    softcap: float = 0.0, softmax_precision: int | None = None,
) -> Tensor:  # fmt: skip
    """``softmax(q @ k.T * scale + mask) @ v`` of each head; scores of short floats are in float32.

    Inputs are ``[batch, heads, rows, width]`` or ``[batch, rows, heads * width]``.
    """
    call.only_outputs(1, "present_key, present_value and qk_matmul_output")
    for given, what in ((past_key, "past_key"), (past_value, "past_value"),
                        (nonpad_kv_seqlen, "nonpad_kv_seqlen")):  # fmt: skip
        if given is not None:
            raise call.refused(f"its input {what!r} has no form here",
                               "Export the model without a cache of keys and values.")  # fmt: skip
    if softcap or left_window_size >= 0 or right_window_size >= 0:
        raise call.refused("softcap and windows of keys have no form here",
                           "Give a window as its mask.")  # fmt: skip
    check_dtypes(call, q, k, v)
    flat = q.ndim == 3
    query = _heads(call, q, q_num_heads, "q_num_heads")
    key, value = (_heads(call, x, kv_num_heads, "kv_num_heads") for x in (k, v))
    bias = None if attn_mask is None else _bias(call, attn_mask, query.dtype)
    mask = "TopLeft" if is_causal else None
    made = topi.nn.attention(query, key, value, bias, scale, mask, online=False)
    call.main(made)
    if flat:
        batch, rows, heads, columns = made.shape
        return reshape(made, (batch, rows, heads * columns))
    return transpose(made, (0, 2, 1, 3))


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


def _bias(call: Call, mask: Tensor, dtype: str) -> Tensor:
    """Return a mask of bools, true where a score counts, as numbers that are added to scores."""
    if mask.ndim < 2 or mask.ndim > 4:
        raise call.refused(f"its mask has {mask.ndim} dimensions, and must have 2 to 4")
    wide = mask if mask.ndim == 4 else expand_dims(mask, tuple(range(4 - mask.ndim)))
    if wide.dtype != "bool":
        return wide
    kept: Any = const(0, dtype)
    return array("mask", lambda m: select(m, kept, -infinity(dtype)), wide)


OPERATORS: Table = {"Attention": since(attention, 23, 24, 25)}
