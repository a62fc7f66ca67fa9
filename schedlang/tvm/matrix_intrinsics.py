"""te's intrinsics of matrix units: ``tvm_load_matrix_sync``, ``tvm_mma_sync`` and their like.

A GPU has no such instructions of 16 x 16 x 16 elements, so each stands for uses of ``mma`` and
``ldmatrix``, or for loops in which each thread copies the elements that it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain, text_of
from schedlang.expr.nodes import Const, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.instructions.declaration import Instruction, instruction
from schedlang.instructions.fragments import FRAGMENT, ElementCopy, InParts
from schedlang.state.state import FRAGMENTS
from schedlang.tvm.buffers import AccessPtr, Buffer

# what a call takes: "data" of a fragment, its "index", an "address", a "number" or a "layout"
CALLS: dict[str, tuple[str, ...]] = {
    "tvm_fill_fragment": ("data", "number", "number", "number", "index", "value"),
    "tvm_load_matrix_sync": (
        "data", "number", "number", "number", "index", "address", "stride", "layout",
    ),
    "tvm_store_matrix_sync": (
        "data", "number", "number", "number", "index", "address", "stride", "layout",
    ),
    "tvm_mma_sync": ("data", "index") * 4,
}  # fmt: skip
LAYOUTS = ("row_major", "col_major")
# the products of matrix units by the dtype of their operands
PRODUCTS = {"float16": "mma_f16", "bfloat16": "mma_bf16", "int8": "mma_s8", "uint8": "mma_u8"}
# loads of 16 x 16 elements of 16 bits: rows that run along the terms of a product, and others
LOADS = {
    ("float16", True): "ldmatrix_x4_f16",
    ("float16", False): "ldmatrix_x4_trans_f16",
    ("bfloat16", True): "ldmatrix_x4_bf16",
    ("bfloat16", False): "ldmatrix_x4_trans_bf16",
}


@dataclass(frozen=True, eq=False)
class MatrixCall:
    """A call of an intrinsic of matrix units, which ``ib.emit`` takes."""

    name: str
    args: tuple[Any, ...]

    @property
    def title(self) -> str:
        """The name of an instruction that makes it: loads of each operand have one of their own."""
        scope = str(self.args[0].buffer.scope).removeprefix("wmma.")
        return f"{self.name}_{scope}" if self.name == "tvm_load_matrix_sync" else self.name


def matrix_call(asked: str, name: str, args: Sequence[Any]) -> MatrixCall:
    """Return a call of ``name`` of :data:`CALLS`; refuse arguments that it does not take."""
    kinds = CALLS[name]
    if len(args) != len(kinds):
        raise ComputeTypeError(
            f"{asked}: {name} takes {len(kinds)} arguments ({', '.join(kinds)}), got {len(args)}"
        )
    values = []
    for number, (kind, arg) in enumerate(zip(kinds, args), 1):
        value = arg.value if isinstance(arg, Const) else arg
        if not _takes(kind, value):
            raise ComputeTypeError(
                f"{asked}: argument {number} of {name} is {text_of(value)}; give {_WANTED[kind]}"
            )
        values.append(value)
    return MatrixCall(name, tuple(values))


_WANTED = {
    "data": "buffer.data of a fragment",
    "index": "the number of a fragment, buffer.elem_offset // 256",
    "address": 'buffer.access_ptr("r")',
    "number": "m, n and k as numbers",
    "stride": "the distance of rows in memory, a number or the te.var of a stride",
    "layout": 'one of "row_major" and "col_major"',
    "value": "a number",
}


def _takes(kind: str, value: Any) -> bool:
    if kind in ("data", "address"):
        return isinstance(value, AccessPtr)
    if kind == "layout":
        return isinstance(value, str) and value in LAYOUTS
    whole = type(value) is int
    if kind == "index":
        return whole or isinstance(value, Expr)
    if kind == "stride":
        return whole or isinstance(value, Var)
    return whole or (kind == "value" and isinstance(value, float))


def declared_by(
    asked: str, op: ComputeOp, call: MatrixCall, reset: Sequence[Any],
    tensors: Sequence[Tensor], buffers: Sequence[Buffer], name: str,
) -> Instruction:  # fmt: skip
    """Return the instruction of a body that is ``call``, after a ``reset`` that fills a fragment.

    ``buffers`` stand for ``tensors``: the operands, then the result. Raise
    :class:`~schedlang.errors.ComputeError` for a call that does not compute ``op``, and for a tile
    that no matrix unit of ours has.
    """
    own = dict(zip(buffers, tensors))
    for arg in call.args:
        if isinstance(arg, AccessPtr) and arg.buffer not in own:
            _refuse(
                asked, f"{call.name} gets {arg.buffer.name}, which is another intrinsic's",
                "Use the buffers that its function gets.",
            )  # fmt: skip
    _check_numbers(asked, call, buffers)
    scopes = {
        t.name: FRAGMENT if buffer.scope in FRAGMENTS else buffer.scope
        for t, buffer in zip(tensors, buffers) if buffer.scope
    }  # fmt: skip
    form: InParts | ElementCopy
    if call.name == "tvm_mma_sync":
        form = _product(asked, op, call, buffers)
        _check_reset(asked, reset, buffers[-1])
    elif call.name == "tvm_fill_fragment":
        _refuse(
            asked, "a fill alone is not an intrinsic",
            "Return it as the reset of a product: update, reset, update.",
        )  # fmt: skip
    else:
        form = _copy(asked, op, call, buffers)
    part = form.part if isinstance(form, InParts) else None
    return instruction(
        name, op.outputs[0], emit={"cuda": form}, scopes=scopes,
        needs=() if part is None else part.needs, tolerance=0.0 if part is None else part.tolerance,
    )  # fmt: skip


def _named(name: str) -> Instruction:
    """Return an instruction of ours, whose module loads when one is first used."""
    declared = getattr(import_module("schedlang.instructions"), name)
    assert isinstance(declared, Instruction)
    return declared


def _refuse(asked: str, why: str, hint: str) -> NoReturn:
    raise ComputeError(explain(asked, why, hint))


def _check_numbers(asked: str, call: MatrixCall, buffers: Sequence[Buffer]) -> None:
    """Refuse the number of a fragment that is made of anything but offsets of its buffers."""
    offsets = [buffer.elem_offset for buffer in buffers]
    strides = [s for buffer in buffers for s in buffer.strides if isinstance(s, Var)]
    for arg in call.args:
        for node in postorder([arg]) if isinstance(arg, Expr) else ():
            if isinstance(node, Var) and not any(node is known for known in (*offsets, *strides)):
                _refuse(
                    asked, f"{call.name} gets {node.name}, which no buffer of it has",
                    "Count fragments by buffer.elem_offset // 256.",
                )  # fmt: skip


def _product(
    asked: str, op: ComputeOp, call: MatrixCall, buffers: Sequence[Buffer]
) -> InParts:  # fmt: skip
    """Return the form of a product: the uses of ``mma`` whose tiles fill it."""
    *operands, result = buffers
    result_data, left, right, earlier = (call.args[k].buffer for k in (0, 2, 4, 6))
    if result_data is not earlier or result_data is not result or {left, right} != {*operands}:
        _refuse(
            asked, "tvm_mma_sync does not add the product of its operands to its own result",
            "Give C.data, its number, A.data, its number, B.data, its number, then C's again.",
        )  # fmt: skip
    wanted = dict(zip(FRAGMENTS, (left, right, result)))
    scope, buffer = next(((s, b) for s, b in wanted.items() if b.scope != s), ("", result))
    if scope:
        _refuse(
            asked, f"{buffer.name} is in {buffer.scope or 'any'} memory, and tvm_mma_sync takes it "
            f"in {scope}", f'Give scope="{scope}" to tvm.tir.decl_buffer.',
        )  # fmt: skip
    known = {dtype: _named(name) for dtype, name in PRODUCTS.items()}
    part = known.get(left.dtype)
    if part is None or result.dtype != part.output.dtype:
        kinds = ", ".join(f"{dtype} to {p.output.dtype}" for dtype, p in known.items())
        _refuse(
            asked, f"it multiplies {left.dtype} and adds in {result.dtype}, and products are of "
            f"{kinds}", "Convert the factors, or the result.",
        )  # fmt: skip
    own = [int(str(a.extent)) for a in (*op.axis, *op.reduce_axis)]
    each = [int(str(a.extent)) for a in (*part.op.axis, *part.op.reduce_axis)]
    if len(own) != len(each) or any(a % b for a, b in zip(own, each)):
        _refuse(
            asked, f"its tile is {' x '.join(map(str, own))}, and {part} computes "
            f"{' x '.join(map(str, each))}", "Give a multiple along each axis: m, n, then terms.",
        )  # fmt: skip
    return InParts(part)


def _check_reset(asked: str, reset: Sequence[Any], result: Buffer) -> None:
    """Refuse a reset that is anything but zeros of the result: the loops begin with them."""
    for call in reset:
        fills = isinstance(call, MatrixCall) and call.name == "tvm_fill_fragment"
        if not fills or call.args[0].buffer is not result or call.args[-1] != 0:
            _refuse(
                asked, "its reset does not fill the result with 0, where a sum begins",
                "Emit tvm_fill_fragment with C.data and 0.0.",
            )  # fmt: skip


def _copy(
    asked: str, op: ComputeOp, call: MatrixCall, buffers: Sequence[Buffer]
) -> InParts | ElementCopy:  # fmt: skip
    """Return the form of a load or a store: ``ldmatrix``, or copies of elements."""
    loads = call.name == "tvm_load_matrix_sync"
    fragment, memory = call.args[0].buffer, call.args[5].buffer
    source, target = buffers if len(buffers) == 2 else (None, None)
    if (memory, fragment) != ((source, target) if loads else (target, source)):
        _refuse(
            asked, f"{call.name} copies {memory.name} and {fragment.name}, and the operation "
            f"{'reads and writes' if loads else 'writes and reads'} other tensors",
            "Give the data of the fragment first, then the address in memory.",
        )  # fmt: skip
    body = op.body[0]
    if not isinstance(body, Read) or [*map(id, body.indices)] != [*map(id, op.axis)]:
        _refuse(
            asked, f"{call.name} copies elements, and {op.name} is {body}",
            "Declare te.compute(shape, lambda i, j: A[i, j]).",
        )  # fmt: skip
    if fragment.scope not in FRAGMENTS or memory.scope not in ("shared", "global"):
        _refuse(
            asked, f"{call.name} copies between a fragment and memory, and the scopes are "
            f"{fragment.scope or 'any'} and {memory.scope or 'any'}",
            f"Give {fragment.name} one of {', '.join(FRAGMENTS)}, and {memory.name} shared or "
            "global.",
        )  # fmt: skip
    m, n, k = call.args[1:4]
    rows, columns = {"wmma.matrix_a": (m, k), "wmma.matrix_b": (k, n)}.get(fragment.scope, (m, n))
    by_rows = call.args[7] == "row_major"
    wanted = (rows, columns) if by_rows else (columns, rows)
    if fragment.shape != wanted or (fragment.scope == FRAGMENTS[2] and not by_rows):
        _refuse(
            asked, f"{fragment.name} has {' x '.join(map(str, fragment.shape))} elements, and "
            f"{call.args[7]} rows of {fragment.scope} are {' x '.join(map(str, wanted))} for "
            f"m={m}, n={n}, k={k}", "Results are row_major; operands may be either.",
        )  # fmt: skip
    apart = memory.strides[0] if memory.strides else memory.shape[1]
    stride = call.args[6]
    if not (stride is apart or (isinstance(stride, int) and stride == apart)):
        _refuse(
            asked, f"{call.name} takes rows {stride} elements apart, and rows of {memory.name} "
            f"are {apart} apart", "Give the stride of the buffer.",
        )  # fmt: skip
    # rows of a and columns of b run along the terms
    along = by_rows == (fragment.scope == "wmma.matrix_a")
    part = LOADS.get((fragment.dtype, along))
    whole = fragment.scope != FRAGMENTS[2] and all(extent % 16 == 0 for extent in fragment.shape)
    if loads and memory.scope == "shared" and part is not None and whole:
        return InParts(_named(part))
    return ElementCopy(memory.scope if loads else FRAGMENT)
