"""Attention of ATen."""

from __future__ import annotations

from schedlang import topi
from schedlang.arrays.shaping import expand_dims, reshape, swapaxes
from schedlang.compute.tensor import Tensor
from schedlang.frontend.masks import zero_unseen
from schedlang.frontend.torch.calls import Call, Operator, of_dtype


def scaled_dot_product_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """PyTorch has the heads before the sequence, topi after it."""
    if dropout_p:
        raise call.refuse(
            f"dropout_p={dropout_p} draws at random", "Call module.eval(), or pass dropout_p=0."
        )
    bias = None if attn_mask is None else _additive(attn_mask, call.dtype)
    lead = query.shape[:-2]
    if len(lead) > 2 and bias is not None and 2 < bias.ndim:
        raise call.refuse(
            f"a mask of {bias.ndim} dimensions with a query of {query.ndim} has no form here",
            "Reshape the query, key and value to [batch, heads, length, width].",
        )
    if len(lead) != 2:
        query, key, value = (_of_four(v) for v in (query, key, value))
        bias = bias if bias is None else _of_four(bias)
    elif bias is not None and bias.ndim < 4:
        bias = reshape(bias, (*[1] * (4 - bias.ndim), *bias.shape))
    q, k, v = (swapaxes(x, 1, 2) for x in (query, key, value))
    attended = topi.nn.attention(
        q, k, v, bias, scale, "TopLeft" if is_causal else None, online=False
    )
    heads = swapaxes(attended, 1, 2)
    if bias is not None:
        heads = zero_unseen(heads, bias)
    return heads if len(lead) == 2 else reshape(heads, (*lead, *heads.shape[-2:]))


def _of_four(x: Tensor) -> Tensor:
    """Return ``x`` with one batch dimension and one for heads, of extent 1."""
    while x.ndim < 3:
        x = expand_dims(x, 0)
    rows, columns = x.shape[-2:]
    return expand_dims(reshape(x, (-1, rows, columns)), 1)


def _additive(mask: Tensor, dtype: str) -> Tensor:
    """Return a mask that is added: of one of bools, minus infinity where it is false."""
    if mask.dtype == "bool":
        return topi.where(mask, topi.full((), dtype, 0), float("-inf"))
    return of_dtype(mask, dtype)


OPERATORS: dict[str, Operator] = {
    "scaled_dot_product_attention.default": scaled_dot_product_attention,
}
