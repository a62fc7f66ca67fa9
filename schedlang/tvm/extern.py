"""``te.extern``: a stage that a packed function or a program of ``ir_builder`` computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schedlang.compute.extern_op import ExternFunction
from schedlang.compute.tensor import Tensor, check_shape
from schedlang.errors import ComputeTypeError, explain, text_of
from schedlang.expr.nodes import Expr
from schedlang.externs import definition
from schedlang.signatures import public
from schedlang.tvm.buffers import Buffer
from schedlang.tvm.ir_builder import Program
from schedlang.tvm.nd import array_over
from schedlang.tvm.packed import Handle, InTheBox, PackedCall, get_global_func
from schedlang.tvm.te_dtypes import te_dtype


@public
def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Handle], list[Handle]], Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: str = "",
    attrs: Any = None,
) -> Any:
    """Return the tensor that a function outside of schedlang computes, or a list of tensors.

    ``shape`` is one shape or a list of them; a list of one gives a tensor, as in te. ``fcompute``
    gets handles of the inputs and of the outputs, and returns ``tvm.tir.call_packed(name, ...)``,
    or what ``tvm.tir.ir_builder.create().get()`` returns. ``dtype`` is by default the dtype of the
    inputs. ``tag`` and ``attrs`` have no effect; ``in_buffers`` and ``out_buffers`` must be left
    out.

    Raises what :func:`schedlang.extern` raises.

    >>> import numpy as np, schedlang as tvm
    >>> from schedlang import te
    >>> @tvm.register_func("doc.add_one", override=True)
    ... def add_one(x, y):
    ...     y.copyfrom(x.numpy() + 1)
    >>> A = te.placeholder((3,), name="A")
    >>> B = te.extern(A.shape, [A], lambda ins, outs: tvm.tir.call_packed(
    ...     "doc.add_one", ins[0], outs[0]), name="B")
    >>> tvm.build(te.create_schedule(B.op), [A, B])(np.zeros(3, "float32"))
    array([1., 1., 1.], dtype=float32)
    """
    for what, given in (("in_buffers", in_buffers), ("out_buffers", out_buffers)):
        if given is not None:
            raise ComputeTypeError(
                explain(
                    f"te.extern(..., {what}=...) for {name}",
                    "arrays are passed packed, from their first element on",
                    f"Leave out {what}.",
                )
            )
    several = isinstance(shape, (list, tuple)) and any(isinstance(s, (list, tuple)) for s in shape)
    if not several and isinstance(shape, (list, tuple)):
        shape = tuple(shape)
    shapes = [check_shape(s, name) for s in (shape if several else [shape])]
    given = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    wrong = next((t for t in given if not isinstance(t, Tensor)), None)
    if wrong is not None:
        raise ComputeTypeError(
            f"te.extern for {name}: inputs has {text_of(wrong)}, which is not a tensor; give a "
            "list of tensors"
        )
    listed = dtype if isinstance(dtype, (list, tuple)) else [dtype] * len(shapes)
    wanted = None if dtype is None else [te_dtype(d) for d in listed]
    kinds = definition.output_dtypes(wanted, given, len(shapes), name)
    ins = [Handle(t.name, t.shape, t.dtype) for t in given]
    outs = [
        Handle(name if len(shapes) == 1 else f"{name}.v{k}", s, d)
        for k, (s, d) in enumerate(zip(shapes, kinds))
    ]
    call = _function(fcompute, ins, outs, name)
    made = definition.extern([*shapes], given, call, name, kinds)
    return list(made) if len(made) > 1 else made[0]


def _function(
    fcompute: Any, ins: list[Handle], outs: list[Handle], name: str
) -> Callable[..., None] | ExternFunction:
    """Return the function of arrays that ``fcompute`` describes."""
    if not callable(fcompute) or isinstance(fcompute, Expr):
        raise ComputeTypeError(
            f"te.extern for {name}: fcompute must be a function of inputs and outputs, got "
            f"{type(fcompute).__name__}; write lambda ins, outs: tvm.tir.call_packed(...)"
        )
    described = fcompute(ins, outs)
    if isinstance(described, Program) and described.calls:
        raise ComputeTypeError(
            explain(
                f"te.extern for {name}",
                f"it calls {described.calls[0].name}, a function of C by its name",
                "Call it by sl.extern(shape, inputs, source), with the text of its C source; "
                "tvm.tir.call_extern is for te.decl_tensor_intrin.",
            )
        )
    if isinstance(described, Program):
        return described.function(ins, outs, name)
    if not isinstance(described, PackedCall):
        raise ComputeTypeError(
            explain(
                f"te.extern for {name}",
                f"its function returns {type(described).__name__}, which is not a statement",
                "Return tvm.tir.call_packed(name, ...), or ib.get() of tvm.tir.ir_builder.",
            )
        )
    return packed_function(described, [*ins, *outs])


def packed_function(call: PackedCall, handles: Sequence[Handle]) -> Callable[..., None]:
    """Return a packed call as a function of the arrays of ``handles``, in their order."""
    function = get_global_func(call.name)
    places: dict[Any, int] = {handle: k for k, handle in enumerate(handles)}
    for arg in call.args:
        if isinstance(arg, (Handle, Buffer)) and arg not in places:
            raise ComputeTypeError(
                f"tvm.tir.call_packed({call.name!r}, ...): {arg.name} is none of the arrays that "
                "this function gets; pass ins[k] or outs[k]"
            )
    if isinstance(function, InTheBox):
        return function.function_for(call.args, handles)

    def packed(*arrays: np.ndarray) -> None:
        given = [
            array_over(arrays[places[arg]]) if isinstance(arg, Handle) else arg for arg in call.args
        ]
        function(*given)

    packed.__name__ = call.name.rpartition(".")[2]
    return packed


__all__ = ["extern"]
