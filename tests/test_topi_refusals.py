"""Refusals of topi: messages name the operator and the user's tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.errors import ComputeError, ComputeTypeError, SchedlangError
from tests.topi_cases import given

n, h = sl.var("n"), sl.var("h")
A, W, v, M, T = given(A=(2, 6, 5, 5), W=(4, 6, 3, 3), v=(6,), M=(4, 6), T=(3, 2, 4))
(S,) = given(S=(n, 6, h, 5))
I = sl.placeholder((3,), "int32", name="I")  # noqa: E741
whole = sl.placeholder((2, 6), "int32", name="whole")
nn = topi.nn

CASES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    # tensors and layouts
    (lambda: nn.conv2d_nchw(np.zeros(3), W, 1, 1, 1), ComputeTypeError,
     r"topi\.nn\.conv2d_nchw with data=array.*must be a tensor, not a ndarray"),
    (lambda: nn.conv2d_nchw(M, W, 1, 1, 1), ComputeError,
     r"data M of shape \(4, 6\): data has 4 dimensions \(N batch, C channels, H height, W width\)"),
    (lambda: nn.conv2d(A, W, 1, 1, 1, "NCWX"), ComputeError, "data_layout='NCWX' is not an order"),
    (lambda: nn.conv2d(A, W, 1, 1, 1, "NCHW", "OIH"), ComputeError, "kernel_layout='OIH'"),
    (lambda: nn.pool2d(A, 2, 2, 1, 0, "max", layout="NCW"), ComputeError,
     r"topi\.nn\.pool2d: layout='NCW' is not a layout with H height, W width, such as 'NCHW'"),
    (lambda: nn.pool2d(A, 2, 2, 1, 0, "max", layout="NCHW4h"), ComputeError, "layout='NCHW4h'"),
    (lambda: topi.layout_transform(A, "NCHW", "NCH"), ComputeError, "different dimensions"),
    (lambda: topi.layout_transform(A, "NCHW", "NCHW4c"), ComputeError,
     r"dimension C of A is 6, which does not divide into blocks of 4"),
    (lambda: topi.layout_transform(A, "NCHW", "16cNHW"), ComputeError, "dst_layout='16cNHW'"),
    # channels and groups
    (lambda: nn.conv2d_nchw(A, given(K=(4, 5, 3, 3))[0], 1, 1, 1), ComputeError,
     "channels of data A is 6, but the number of input channels of kernel K is 5"),
    (lambda: nn.conv2d_nchw(given(B=(1, n, 5, 5))[0], W, 1, 1, 1), ComputeError,
     "not known to be equal"),
    (lambda: nn.group_conv2d_nchw(A, W, 1, 1, 1, 4), ComputeError,
     "groups=4: the number of channels of data A is 6, which does not divide into 4 equal groups"),
    (lambda: nn.group_conv2d_nchw(A, W, 1, 1, 1, 0), ComputeError, "groups=0 must be 1 or more"),
    (lambda: nn.depthwise_conv2d_nchw(A, W, 1, 1, 1), ComputeError,
     "channels of Input A is 6, but the number of channels of Filter W is 4"),
    (lambda: nn.group_norm(A, v, v, 4, 1, [2, 3]), ComputeError, "num_groups=4 equal groups"),
    (lambda: nn.group_norm(A, v, v, 2, 1, [1, 2]), ComputeError, "dimension 1 is the channel"),
    (lambda: nn.depth_to_space(A, 2), ComputeError, "does not divide into blocks of 2 by 2"),
    (lambda: nn.space_to_depth(S, 2), ComputeError, "is h, which does not provably divide"),
    # windows
    (lambda: nn.conv2d_nchw(A, W, 0, 1, 1), ComputeError, "stride=0 must be 1 or more"),
    (lambda: nn.conv2d_nchw(A, W, 1.5, 1, 1), ComputeTypeError, "stride=1.5 must be made of integ"),
    (lambda: nn.conv2d_nchw(A, W, n, 1, 1), ComputeTypeError, "stride=n must be made of integers"),
    (lambda: nn.conv2d_nchw(A, W, 1, -1, 1), ComputeError, "padding=-1 must be 0 or more"),
    (lambda: nn.conv2d_nchw(A, W, 1, (1, 1, 1), 1), ComputeError, "has 3 numbers, .* 2 or 4"),
    (lambda: nn.conv2d_nchw(A, W, 1, ((1, 1), (1, 1)), 1), ComputeTypeError, "made of pairs"),
    (lambda: nn.conv2d_nchw(A, W, 1, "FULL", 1), ComputeError, "neither 'VALID' nor 'SAME'"),
    (lambda: nn.conv2d_nchw(A, W, 1, 0, 3), ComputeError,
     r"height has 5 elements, fewer than a window's 7 elements \(3, 3 apart\)"),
    (lambda: nn.conv2d_nchw(A, given(K=(4, 6, 0, 3))[0], 1, 1, 1), ComputeError,
     r"kernel=\[0, 3\] must be 1 or more"),
    (lambda: nn.conv2d_nchw(A, given(K=(4, 6, h, 3))[0], 1, 1, 1), ComputeError, "H of K is h"),
    (lambda: nn.conv2d_transpose_nchw(A, given(K=(6, 2, 3, 3))[0], 2, 1, None, 2), ComputeError,
     "output_padding=2 must be smaller than the stride 2"),
    (lambda: nn.conv2d_transpose_nchw(A, given(K=(6, 2, 1, 1))[0], 1, 3), ComputeError,
     "the height of the result would be -1"),
    (lambda: nn.group_conv1d_transpose_ncw(*given(A=(1, 4, 3), K=(4, 2, 3)), 1, 0, groups=3),
     ComputeError, "groups=3: the number of channels of data A is 4, which does not divide"),
    (lambda: nn.scale_shift_nchwc(*given(A=(1, 2, 3, 3, 4), s=(2, 4), z=(2, 3))), ComputeError,
     r"Shift z has shape \(2, 3\), but must have \(2, 4\)"),
    (lambda: nn.scale_shift_nchwc(*given(A=(1, 2, 3, 3, 4), s=(8,), z=(8,))), ComputeError,
     r"Scale has 2 dimensions \(channels, block of channels\), but s has 1"),
    (lambda: nn.pool2d(A, 2, 2, 1, 0, "mean"), ComputeError, "pool_type='mean' is none of 'max'"),
    (lambda: nn.global_pool(given(E=(1, 2, 0, 3))[0], "avg"), ComputeError, "height is 0"),
    (lambda: nn.adaptive_pool(S, 3, "avg"), ComputeError, "the height of S is h"),
    (lambda: nn.conv2d_winograd_nchw(A, W, 2, 1, 1), ComputeError, "strides=2 and dilation=1 must"),
    (lambda: nn.conv2d_winograd_nchw(A, given(K=(4, 6, 5, 5))[0], 1, 1, 1), ComputeError,
     "windows are 5 by 5, but must be 3 by 3"),
    (lambda: nn.conv2d_winograd_nchw(A, W, 1, 1, 1, tile_size=3), ComputeError, "tile_size=3 must"),
    (lambda: nn.conv2d_winograd_nchw(A, W, 1, 1, 1, tile_size=[4]), ComputeError, "must be 2 or 4"),
    (lambda: nn.conv2d_winograd_nchw(A, W, 1, 1, 1, "int32"), ComputeTypeError,
     "out_dtype='int32' must be a dtype of floats"),
    # dtypes
    (lambda: nn.softmax(whole), ComputeTypeError, r"topi\.nn\.softmax of whole: whole is int32"),
    (lambda: nn.gelu(whole), ComputeTypeError, "whole is int32, but the operator computes with"),
    (lambda: topi.take(A, v), ComputeTypeError, "indices v is float32, but must be of integers"),
    (lambda: topi.cumsum(sl.placeholder((3,), "bool", name="b")), ComputeTypeError, "give dtype="),
    (lambda: nn.pool2d(sl.placeholder((1, 2, 3, 3), "bool", name="b"), 2, 1, 1, 0, "avg"),
     ComputeTypeError, "b is bool, which has no avg"),
    (lambda: nn.gru(T, sl.placeholder((6, 4), "float64", name="D"), given(H=(6, 2))[0]),
     ComputeTypeError, "D is float64, but T is float32"),
    (lambda: nn.leaky_relu(A, "x"), ComputeTypeError, "alpha='x' must be a number"),
    (lambda: nn.softplus(A, threshold="x"), ComputeTypeError, "threshold='x' must be a number"),
    (lambda: nn.mish(I), ComputeTypeError, "computes with floats"),
    (lambda: nn.log_sigmoid(I), ComputeTypeError, "computes with floats"),
    (lambda: nn.rms_norm(A, None, 1, None), ComputeTypeError, "epsilon=None must be a number"),
    (lambda: topi.clip(whole, 0, float("nan")), ComputeTypeError, "of whole: a_max is NaN, which"),
    (lambda: topi.divide(topi.isnan(A), topi.isnan(A)), ComputeTypeError,
     r"topi\.divide\(isnan.*: isnan.* is bool, not an integer\n  Cast it first"),
    (lambda: topi.clip(A, None, 1), ComputeTypeError, r"topi\.clip: a_min=None must be a number"),
    (lambda: topi.concatenate(A), ComputeTypeError, "a_tuple must be a list of tensors"),
    # shapes and axes
    (lambda: nn.softmax(A, 4), ComputeError, r"topi\.nn\.softmax: axis=4 is out of range"),
    (lambda: nn.softmax(given(E=(2, 0))[0]), ComputeError, "dimension 1 has no elements"),
    (lambda: nn.dense(v, M), ComputeError, "a matrix has two dimensions or more"),
    (lambda: nn.dense(M, given(K=(3, 5))[0]), ComputeError, "is 6, but the extent of K to sum"),
    (lambda: nn.batch_norm(A, v, v, M, v), ComputeError, "moving_mean M of shape"),
    (lambda: nn.batch_norm(A, v, v, v, v, training=True), ComputeError, r"topi\.mean"),
    (lambda: nn.layer_norm(M, v, None, 0), ComputeError, r"gamma v has shape \(6,\), but must"),
    (lambda: nn.layer_norm(M, None, None, ()), ComputeError, "names no dimension"),
    (lambda: nn.lrn(A, 4), ComputeError, "size=4 must be odd"),
    (lambda: nn.lstm(T, M, M), ComputeError, "Xs T is 4, but the number of inputs of Wi M is 6"),
    (lambda: nn.gru(T, given(K=(7, 4))[0], M), ComputeError, "K has 7 rows, .* into 3 gates"),
    (lambda: nn.lstm(T, *given(K=(8, 4), H=(8, 2)), weight_layout="IFG"), ComputeError, "IFGO"),
    (lambda: nn.attention(*given(q=(1, 2, 3, 4), k=(1, 5, 2, 4), v=(1, 5, 2, 4))), ComputeError,
     "3 heads of query q: they do not divide into groups for the 2 heads of key k"),
    (lambda: nn.attention(A, A, A, causal_mask="Top"), ComputeError, "causal_mask='Top' is none"),
    (lambda: topi.image.resize2d(A, None, (0, 3)), ComputeError, r"size=\(0, 3\) must be 1 or"),
    (lambda: topi.image.resize2d(A, None, 3, method="area"), ComputeError, "method='area'"),
    (lambda: topi.image.resize2d(
        A, None, 3, coordinate_transformation_mode="tf_crop_and_resize"), ComputeError,
     r"topi\.strided_slice"),
    (lambda: topi.sum(A, 5), ComputeError, r"topi\.sum: axis=5 is out of range"),
    (lambda: topi.argmax(A, (0, 1)), ComputeError, "names 2 of the 4 dimensions of A"),
    (lambda: topi.argmax(given(E=(0,))[0]), ComputeError, r"topi\.argmax of E .*no elements"),
    (lambda: topi.add(A, v), ComputeError, r"topi\.add of shapes .* do not broadcast"),
    (lambda: topi.elemwise_sum([A, M]), ComputeError, "A has shape .*, but M has"),
    (lambda: topi.concatenate([A, M]), ComputeError, r"topi\.concatenate of shapes"),
    (lambda: topi.reshape(A, (7, -1)), ComputeError, r"topi\.reshape of A to \(7, -1\)"),
    (lambda: topi.squeeze(A, 0), ComputeError, r"topi\.squeeze of A: dimension 0 has extent 2"),
    (lambda: topi.split(M, 4, 1), ComputeError,
     r"topi\.split of M: 6 elements do not divide into 4 equal parts; a list of indices makes un"),
    (lambda: topi.split(M, [3, 1], 1), ComputeError, "must ascend"),
    (lambda: topi.strided_slice(M, [0], [1, 2]), ComputeError, "must have the same length"),
    (lambda: topi.strided_slice(M, I, I), ComputeTypeError, "may not depend on data"),
    (lambda: topi.strided_slice(M, [0], [4], [0]), ComputeError, r"topi\.strided_slice .*step"),
    (lambda: topi.take(given(E=(2, 0))[0], I, 1), ComputeError,
     r"topi\.take of E of shape .*no element to take along axis=1"),
    (lambda: topi.gather_nd(M, sl.placeholder((3, 2), "int32", name="J")), ComputeError, "most 2"),
    (lambda: topi.one_hot(I, 1, 0, 0, 0, "int8"), ComputeError, "depth=0 must be 1 or more"),
    (lambda: topi.einsum("ij,jk->il", M, M), SchedlangError, r"topi\.einsum"),
    (lambda: topi.sparse.csrmv(M, v), ComputeTypeError, r"topi\.sparse\.placeholder"),
    (lambda: topi.sparse.csrmv(topi.sparse.placeholder((5, 6), name="S"), *given(x=(6,), y=(4,))),
     ComputeError, "the number of elements of y y is 4, but the number of rows of a is 5"),
    (lambda: nn.mirror_pad(M, [5, 0]), ComputeError, "a width of 5 is more than the 4 elements"),
    (lambda: nn.pad(M, [-1, 0]), ComputeError, r"topi\.nn\.pad\(M\): before\[0\] is -1"),
    (lambda: nn.pad(M, [1]), ComputeError, "1 width, but M has 2 dimensions"),
    (lambda: topi.utils.get_const_int(n), ComputeError, "n has no value before"),
    # names
    (lambda: topi.fast_exp, SchedlangError, "approximations are not part of topi"),
    (lambda: topi.conv2d, AttributeError, "no attribute 'conv2d'"),
    (lambda: topi.cuda.schedule_nothing, AttributeError, r"sl\.autoschedule\(outs\) schedules any"),
    (lambda: topi.x86.schedule_dense(3), ComputeTypeError, r"topi\.x86\.schedule_dense\(3\): give"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)))
def test_refused(case: int) -> None:
    make, kind, match = CASES[case]
    with pytest.raises(kind, match=match):
        make()
