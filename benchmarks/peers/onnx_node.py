"""A call of ONNX Runtime with a model of a single node, whose result is int32."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedlang.runtime.environment import threads


def node_call(
    kind: str, arrays: Mapping[str, Any], shape: Sequence[int], options: Mapping[str, Any]
) -> Callable[[], Any]:
    """Return a call that computes a node of ``kind`` on ``arrays``, with these attributes."""
    import onnxruntime
    from onnx import TensorProto, helper

    kinds = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
    node = helper.make_node(kind, [*arrays], ["result"], **options)
    given = [
        helper.make_tensor_value_info(name, kinds[str(x.dtype)], x.shape)
        for name, x in arrays.items()
    ]
    result = helper.make_tensor_value_info("result", TensorProto.INT32, shape)
    graph = helper.make_graph([node], "node", given, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads()
    # threads that wait in a loop would take the core of the next implementation
    settings.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings)
    return lambda: session.run(None, dict(arrays))[0]
