"""Products of matrices and contractions."""

from __future__ import annotations

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import broadcast, same
from schedlang.arrays.shaping import expand_dims, squeeze
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.expr import dtypes
from schedlang.frontend.node_stages import cast_to
from schedlang.frontend.onnx.call import Call, Flag
from schedlang.frontend.onnx.operators.elementwise import check_dtypes
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known, Value


def matmul(call: Call, a: Tensor, b: Tensor) -> Tensor:
    check_dtypes(call, a, b)
    if not a.ndim or not b.ndim:
        raise call.refused("one of its inputs is a scalar")
    left = expand_dims(a, 0) if a.ndim == 1 else a
    right = expand_dims(b, 1) if b.ndim == 1 else b
    product = call.main(topi.nn.matmul(left, right, None, dtypes.register_dtype(a.dtype)))
    rounded = cast_to(product, a.dtype)
    gone = tuple(k for k, t in ((-2, a), (-1, b)) if t.ndim == 1)
    return squeeze(rounded, gone) if gone else rounded


def gemm(
    call: Call,
    a: Tensor,
    b: Tensor,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: Flag = 0,
    transB: Flag = 0,  # noqa: N803
) -> Tensor:
    """``alpha * a @ b + beta * c``, where ``c`` broadcasts to the product."""
    check_dtypes(call, a, b, *([] if c is None else [c]))
    if a.ndim != 2 or b.ndim != 2:
        raise call.refused(f"its inputs have {a.ndim} and {b.ndim} dimensions, and matrices two")
    wide = dtypes.register_dtype(a.dtype)
    if transB and not transA:
        product = call.main(topi.nn.dense(a, b, None, wide))
    else:
        product = call.main(topi.nn.matmul(a, b, None, wide, bool(transA), bool(transB)))
    # without any effect on the product, also where c is NaN
    if c is None or beta == 0:
        scaled = product if alpha == 1 else array("scaled", lambda v: v * alpha, product)
        return cast_to(scaled, a.dtype)
    if isinstance(c, Known) and c.ndim == 1 and c.shape == (1,) or not c.ndim:
        (_, added) = call.operands(product, c)
    else:
        added = call.tensor(c)
        shape = broadcast([product.shape, added.shape], str(call.node))
        if len(shape) != 2 or not all(map(same, shape, product.shape)):
            raise call.refused(
                f"C of shape {shape_text(added.shape)} does not broadcast to the product, of shape "
                f"{shape_text(product.shape)}"
            )
    if isinstance(added, Tensor):
        added = cast_to(added, wide)
    total = array(
        "bias",
        lambda v, w: (v if alpha == 1 else v * alpha) + (w if beta == 1 else w * beta),
        product,
        added,
    )
    return cast_to(total, a.dtype)


def einsum(call: Call, *inputs: Tensor, equation: str) -> Tensor:
    check_dtypes(call, *inputs)
    return topi.einsum(equation.replace(" ", ""), *inputs)


OPERATORS: Table = {
    "MatMul": since(matmul, 1, 9, 13),
    "Gemm": since(gemm, 7, 9, 11, 13),
    "Einsum": since(einsum, 12, 28),
}
