"""TVM's operators (``tvm.topi``) as computations: names, argument orders and layouts are TVM's.

Each operator returns a tensor made by ``sl.compute``, and hides no schedule: schedule it by hand,
attach it to others, or call ``sl.autoschedule`` or ``sl.autotune``. ``topi.nn`` has the operators
of neural networks, ``topi.image`` and ``topi.sparse`` have operators of images and sparse matrices.
``topi.generic``, ``topi.x86`` and ``topi.cuda`` have TVM's schedules by name.
``docs/reference/topi.md`` lists all, and what differs from TVM.

>>> import schedlang as sl
>>> from schedlang import topi
>>> A, W = sl.placeholder((1, 3, 8, 8), name="A"), sl.placeholder((4, 3, 3, 3), name="W")
>>> out = topi.nn.relu(topi.nn.conv2d_nchw(A, W, 1, 1, 1))
>>> out, out.op.input_tensors
(Tensor(relu: float32[1, 4, 8, 8]), [Tensor(conv2d_nchw: float32[1, 4, 8, 8])])
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from schedlang.errors import missing_name
from schedlang.tvm.topi import cuda, functions, generic, image, nn, signal, sparse, utils, x86
from schedlang.tvm.topi.broadcast import (
    add,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    broadcast_add,
    broadcast_div,
    broadcast_maximum,
    broadcast_minimum,
    broadcast_mod,
    broadcast_mul,
    broadcast_pow,
    broadcast_sub,
    broadcast_to,
    divide,
    equal,
    floor_divide,
    floor_mod,
    greater,
    greater_equal,
    left_shift,
    less,
    less_equal,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    multiply,
    not_equal,
    power,
    right_shift,
    subtract,
)
from schedlang.tvm.topi.elementwise import (
    bitwise_not,
    cast,
    clip,
    elemwise_sum,
    full,
    full_like,
    identity,
    logical_not,
    negative,
    reinterpret,
    round,
    sign,
)
from schedlang.tvm.topi.functions import *
from schedlang.tvm.topi.gathering import (
    adv_index,
    arange,
    cumprod,
    cumsum,
    gather,
    gather_nd,
    one_hot,
    take,
    unravel_index,
)
from schedlang.tvm.topi.layouts import layout_transform
from schedlang.tvm.topi.products import einsum, matmul, tensordot
from schedlang.tvm.topi.reduction import (
    all,
    any,
    argmax,
    argmin,
    collapse_sum,
    max,
    mean,
    min,
    prod,
    sum,
)
from schedlang.tvm.topi.setting import matrix_set_diag, strided_set
from schedlang.tvm.topi.signal import dft, stft
from schedlang.tvm.topi.sorting import argsort, searchsorted, sort, topk, unique
from schedlang.tvm.topi.transform import (
    concatenate,
    expand_dims,
    flip,
    meshgrid,
    ndarray_size,
    repeat,
    reshape,
    reverse_sequence,
    sequence_mask,
    shape,
    sliding_window,
    split,
    squeeze,
    stack,
    strided_slice,
    tile,
    transpose,
    trilu,
    where,
)

_FAST = ("approximations are not part of topi here", "Use topi.exp, topi.tanh, topi.erf.")
_SHAPE = (
    "the shape of the result would depend on data",
    "Keep the shape, and choose by a condition: topi.where(cond, x, 0).",
)
_SCATTER = ("scatters have a form of their own", "Use sl.scatter(init, updates, index, combine).")
REFUSED = {
    **dict.fromkeys(("fast_exp", "fast_tanh", "fast_erf"), _FAST),
    **dict.fromkeys(("argwhere", "dynamic_strided_slice"), _SHAPE),
    **dict.fromkeys(
        ("scatter", "scatter_nd", "scatter_add", "scatter_elements", "sparse_to_dense"), _SCATTER
    ),
    "vision": ("detection is not part of topi here", "Write it with sl.compute."),
    "tag": ("tags of computations have no effect here", "Leave tag= out."),
    **dict.fromkeys(
        ("arm_cpu", "bifrost", "hexagon", "hls", "intel_graphics", "mali", "rocm"),
        ("schedules are for CPUs and for NVIDIA GPUs", "Use topi.x86, topi.cuda or topi.generic."),
    ),
    "cpp": ("operators are Python here", "Use the name without cpp, such as topi.nn.pool2d."),
}


def __getattr__(name: str) -> Any:
    if name == "testing":
        # computations need no references
        return import_module("schedlang.topi.testing")
    if name == "util":
        return import_module("schedlang.topi.util")
    raise missing_name(__name__, name, REFUSED, "topi")


__all__ = [
    "add", "adv_index", "all", "any", "arange", "argmax", "argmin", "argsort", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast_add", "broadcast_div",
    "broadcast_maximum", "broadcast_minimum", "broadcast_mod", "broadcast_mul", "broadcast_pow",
    "broadcast_sub",
    "broadcast_to", "cast", "clip", "collapse_sum", "concatenate", "cuda", "cumprod", "cumsum",
    "dft", "divide", "einsum", "elemwise_sum", "equal", "expand_dims", "flip", "floor_divide",
    "floor_mod", "full", "full_like", "gather", "gather_nd", "generic", "greater",
    "greater_equal", "identity",
    "image", "layout_transform", "left_shift", "less", "less_equal", "logical_and", "logical_not",
    "logical_or", "logical_xor", "matmul", "matrix_set_diag", "max", "maximum", "mean", "meshgrid",
    "min", "minimum", "mod", "multiply", "ndarray_size", "negative", "nn", "not_equal", "one_hot",
    "power", "prod", "reinterpret", "repeat", "reshape", "reverse_sequence", "right_shift", "round",
    "searchsorted", "sequence_mask", "shape", "sign", "signal", "sliding_window", "sort", "sparse",
    "split", "squeeze", "stack", "stft", "strided_set", "strided_slice", "subtract", "sum", "take",
    "tensordot", "tile", "topk", "transpose", "trilu", "unique", "unravel_index", "utils",
    "where", "x86",
]  # fmt: skip
__all__ += functions.__all__
__all__.sort()
