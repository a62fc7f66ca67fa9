"""Operators of neural networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlang.errors import missing_name
from schedlang.tvm.topi.nn.activations import (
    elu,
    gelu,
    gelu_tanh,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    log_sigmoid,
    mish,
    prelu,
    relu,
    silu,
    softplus,
)
from schedlang.tvm.topi.nn.attention_layer import attention
from schedlang.tvm.topi.nn.blocked import conv2d_NCHWc, depthwise_conv2d_NCHWc
from schedlang.tvm.topi.nn.blocks_of_space import batch_to_space_nd, space_to_batch_nd
from schedlang.tvm.topi.nn.convolution import conv
from schedlang.tvm.topi.nn.convolution_1d import (
    conv1d,
    conv1d_ncw,
    conv1d_nwc,
    group_conv1d_ncw,
    group_conv1d_nwc,
)
from schedlang.tvm.topi.nn.convolution_2d import (
    conv2d,
    conv2d_hwcn,
    conv2d_nchw,
    conv2d_nhwc,
    group_conv2d_nchw,
    group_conv2d_nhwc,
)
from schedlang.tvm.topi.nn.convolution_3d import conv3d, conv3d_ncdhw, conv3d_ndhwc
from schedlang.tvm.topi.nn.depthwise import depthwise_conv2d_nchw, depthwise_conv2d_nhwc
from schedlang.tvm.topi.nn.losses import correlation_nchw, nll_loss
from schedlang.tvm.topi.nn.mapping import (
    flatten,
    scale_shift_nchw,
    scale_shift_nchwc,
    scale_shift_nhwc,
)
from schedlang.tvm.topi.nn.matrices import batch_matmul, dense, matmul
from schedlang.tvm.topi.nn.norms import (
    batch_norm,
    group_norm,
    instance_norm,
    l2_normalize,
    layer_norm,
    lrn,
    rms_norm,
)
from schedlang.tvm.topi.nn.padding import depth_to_space, dilate, mirror_pad, pad, space_to_depth
from schedlang.tvm.topi.nn.pooling import (
    adaptive_pool,
    adaptive_pool1d,
    adaptive_pool3d,
    global_pool,
    pool1d,
    pool2d,
    pool3d,
    pool_grad,
)
from schedlang.tvm.topi.nn.quantize import (
    SQNN_DTYPE_TO_CODE,
    simulated_dequantize,
    simulated_quantize,
)
from schedlang.tvm.topi.nn.recurrent import gru, gru_cell, lstm, lstm_cell, rnn
from schedlang.tvm.topi.nn.softmaxes import log_softmax, softmax
from schedlang.tvm.topi.nn.transposed import (
    conv1d_transpose_ncw,
    conv2d_transpose_nchw,
    conv3d_transpose_ncdhw,
    group_conv1d_transpose_ncw,
    group_conv2d_transpose_nchw,
)
from schedlang.tvm.topi.nn.upsampling import upsampling, upsampling3d
from schedlang.tvm.topi.nn.winograd import (
    conv2d_winograd_nchw,
    conv2d_winograd_nchw_without_weight_transform,
    conv2d_winograd_nhwc,
    conv2d_winograd_nhwc_without_weight_transform,
    conv2d_winograd_weight_transform,
)
from schedlang.tvm.topi.sparse.csr import sparse_dense

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing_name(__name__, name, {})


__all__ = [
    "SQNN_DTYPE_TO_CODE", "adaptive_pool", "adaptive_pool1d", "adaptive_pool3d", "attention",
    "batch_matmul", "batch_norm", "batch_to_space_nd", "conv", "conv1d", "conv1d_ncw", "conv1d_nwc",
    "conv1d_transpose_ncw", "conv2d", "conv2d_NCHWc", "conv2d_hwcn", "conv2d_nchw", "conv2d_nhwc",
    "conv2d_transpose_nchw", "conv2d_winograd_nchw",
    "conv2d_winograd_nchw_without_weight_transform", "conv2d_winograd_nhwc",
    "conv2d_winograd_nhwc_without_weight_transform", "conv2d_winograd_weight_transform", "conv3d",
    "conv3d_ncdhw", "conv3d_ndhwc", "conv3d_transpose_ncdhw", "correlation_nchw", "dense",
    "depth_to_space", "depthwise_conv2d_NCHWc", "depthwise_conv2d_nchw", "depthwise_conv2d_nhwc",
    "dilate", "elu", "flatten", "gelu", "gelu_tanh", "global_pool", "group_conv1d_ncw",
    "group_conv1d_nwc", "group_conv1d_transpose_ncw", "group_conv2d_nchw", "group_conv2d_nhwc",
    "group_conv2d_transpose_nchw", "group_norm", "gru", "gru_cell", "hard_sigmoid", "hard_swish",
    "instance_norm", "l2_normalize", "layer_norm", "leaky_relu", "log_sigmoid", "log_softmax",
    "lrn", "lstm", "lstm_cell", "matmul", "mirror_pad", "mish", "nll_loss", "pad", "pool1d",
    "pool2d", "pool3d", "pool_grad", "prelu", "relu", "rms_norm", "rnn", "scale_shift_nchw",
    "scale_shift_nchwc", "scale_shift_nhwc", "silu", "simulated_dequantize", "simulated_quantize",
    "softmax", "softplus", "space_to_batch_nd",
    "space_to_depth", "sparse_dense", "upsampling", "upsampling3d",
]  # fmt: skip
