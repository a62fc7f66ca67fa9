"""Reading stages that users' functions compute from the data form; see :mod:`.data_reader`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from schedlang.compute.data_fields import as_dtype, as_list, as_names, shorten
from schedlang.compute.extern_op import Boxes, ExternFunction, ExternOp, checked_flops
from schedlang.compute.read import Read
from schedlang.compute.tensor import Tensor, check_name, check_shape
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import postorder


class Reader(Protocol):
    """The knowledge of a reader of items."""

    functions: Sequence[ExternFunction]

    def tensors(self, values: Any, what: str) -> list[Tensor]: ...
    def extent(self, value: Any) -> Any: ...
    def exprs(self, places: Any, what: str) -> tuple[Any, ...]: ...


def read_extern(
    reader: Reader, name: Any, function: Any, inputs: Any, results: Any, boxes: Any, last: Any,
    names: Any = None,
) -> ExternOp:  # fmt: skip
    """Return the operation of an item ``"extern"``, which calls a function of ``reader``.

    Its operations come before its names, if the user gave them.
    """
    counted, names = (None, last) if names is None else (reader.extent(last), names)
    check_name(name, "a tensor")
    if type(function) is not int or not 0 <= function < len(reader.functions):
        raise ComputeError(
            f"{name} calls function {shorten(function)} of a program, and {len(reader.functions)} "
            "are given with the data"
        )
    called, given = reader.functions[function], reader.tensors(inputs, "the inputs")
    listed = as_list(results, "the outputs")
    labels = as_names(names, len(listed))
    outputs = []
    for k, (label, item) in enumerate(zip(labels, listed)):
        extents, dtype = (*as_list(item, "an output"), None, None)[:2]
        shape = check_shape(tuple(reader.extent(e) for e in as_list(extents, "the shape")), label)
        outputs.append(Tensor(label, shape, as_dtype(dtype), None, k))
    dtypes = tuple(t.dtype for t in given), tuple(t.dtype for t in outputs)
    if called.dtypes != dtypes or not outputs:
        raise ComputeError(
            f"{name}: {called.name} takes arrays of other dtypes, or of another number"
        )
    own = None if boxes is None else _boxes(reader, name, boxes, given, outputs)
    own_flops = None if counted is None else checked_flops(counted, name, (*given, *outputs))
    op = ExternOp(name, tuple(given), called, own, tuple(outputs), flops=own_flops)
    for tensor in outputs:
        tensor.op = op
    return op


def _boxes(
    reader: Reader, name: str, boxes: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Boxes:
    """Return the boxes of an item, whose ends depend on the box that is asked for alone."""

    def ends(values: Any, tensor: Tensor) -> Any:
        pairs = tuple(reader.exprs(pair, "an end") for pair in as_list(values, "a box"))
        if len(pairs) != tensor.ndim or any(len(pair) != 2 for pair in pairs):
            raise ComputeError(f"{name}: a box of {tensor.name} has other dimensions")
        return pairs

    parts = as_list(boxes, "the boxes")
    if len(parts) != 3 or len(as_list(parts[2], "the boxes")) != len(inputs):
        raise ComputeError(f"{name}: it has other boxes than its arrays")
    asked, written = ends(parts[0], outputs[0]), ends(parts[1], outputs[0])
    read = tuple(ends(part, tensor) for part, tensor in zip(parts[2], inputs))
    known = {axis for pair in asked for axis in pair}
    for node in postorder([e for box in (written, *read) for pair in box for e in pair]):
        if isinstance(node, Read) or (isinstance(node, Axis) and node not in known):
            raise ComputeError(f"{name}: the end of a box depends on {node}")
    if not all(isinstance(axis, Axis) for axis in known):
        raise ComputeError(f"{name}: the box that is asked for has ends that are not variables")
    return Boxes(asked, written, read)


__all__ = ["read_extern"]
