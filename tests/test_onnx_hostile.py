"""Damaged and hostile ONNX files: each is refused before anything large is read or made."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import FrontendError

onnx = pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
FLOAT, INT64, BOOL = 1, 7, 9


def value(name: str, shape: Any = (2, 3), kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Any = None, inputs: Any = None, outputs: Any = None, weights: Any = (), opset: int = 21,
    **more: Any,
) -> Any:  # fmt: skip
    """Return a model, by default of one Relu from x to y."""
    graph = helper.make_graph(
        [node()] if nodes is None else nodes, "graph", [value("x")] if inputs is None else inputs,
        [value("y")] if outputs is None else outputs, list(weights),
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **more)


def node(operator: str = "Relu", inputs: Any = ("x",), outputs: Any = ("y",), **more: Any) -> Any:
    return helper.make_node(operator, list(inputs), list(outputs), name=more.pop("name", "it"),
        **more)


def weight(array: Any, name: str = "w") -> Any:
    return numpy_helper.from_array(np.asarray(array), name)


def declared(dims: Any, kind: int = FLOAT, **fields: Any) -> Any:
    """Return an initializer w with any fields, whether they fit together or not."""
    found = onnx.TensorProto(name="w", data_type=kind, dims=dims)
    for name, given in fields.items():
        if name == "raw_data":
            found.raw_data = given
        elif name == "external":
            found.data_location = onnx.TensorProto.EXTERNAL
            for key, text in given.items():
                found.external_data.add(key=key, value=text)
        else:
            getattr(found, name).extend(given)
    return found


def adding(tensor: Any) -> Any:
    return model([node("Add", ["x", "w"])], weights=[tensor])


def body(outputs: Any = ("z",)) -> Any:
    return helper.make_graph([node("Relu", ["x"], ["z"])], "body", [], list(map(value, outputs)))


def endless() -> Any:
    """Return the body of a loop that always goes on."""
    nodes = [node("Identity", ["on"], ["again"], name="go on"), node("Identity", ["x"], ["z"])]
    inputs = [value("k", (), INT64), value("on", (), BOOL), value("v")]
    return helper.make_graph(nodes, "body", inputs, [value("again", (), BOOL), value("z")])


def renamed(given: Any, old: bytes, new: bytes) -> bytes:
    """Return the bytes of a model in which ``old`` is replaced by as many other bytes."""
    assert len(old) == len(new)
    found: bytes = given.SerializeToString().replace(old, new)
    return found


def sparse() -> Any:
    found = model()
    found.graph.sparse_initializer.add().dims.append(3)
    return found


def segmented() -> Any:
    tensor = weight(np.zeros(3, "float32"))
    tensor.segment.begin = 1
    return adding(tensor)


def function(domain: str) -> Any:
    called = helper.make_function(domain, "Relu", ["a"], ["b"], [node("Exp", ["a"], ["b"])],
                                  [helper.make_opsetid("", 21)])  # fmt: skip
    found = model()
    found.functions.append(called)
    return found


def nested(depth: int) -> bytes:
    """Return the bytes of a model with subgraphs in subgraphs."""

    def field(number: int, data: bytes) -> bytes:
        size, found = len(data), b""
        while size > 127:
            found, size = found + bytes([size % 128 + 128]), size // 128
        return bytes([number * 8 + 2]) + found + bytes([size]) + data

    graph = b""
    for _ in range(depth):
        # an attribute (5) of a node (1) with a graph (6)
        graph = field(1, field(5, field(6, graph)))
    return field(7, graph)


STRING = onnx.TensorProto(name="w", data_type=8, dims=[1], string_data=[b"a"])
SEQUENCE = helper.make_tensor_sequence_value_info("x", FLOAT, (2, 3))
MAP = onnx.ValueInfoProto(
    name="x", type=helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, [1]))
)
LONG = "n" * 10_000
HUGE = [2**31, 2**31]
TWO = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx", 21)]

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    # shapes and data
    "negative": (lambda: adding(declared([2, -3])), r"initializer 'w': .*negative extent -3"),
    "huge": (lambda: adding(declared(HUGE)), r"initializer 'w': .*more than 2\*\*33 elements"),
    "huge and empty": (lambda: adding(declared([2**62, 0])), r"more than 2\*\*33 elements"),
    "overflow": (lambda: adding(declared([2**32, 2**32, 4])), r"more than 2\*\*33 elements"),
    "no data": (lambda: adding(declared([1000, 1000])),
        "needs 1000000 numbers, but the file has 0"),
    "short": (lambda: adding(declared([3], raw_data=b"1234")),
        "needs 12 bytes, but the file has 4"),
    "long": (lambda: adding(declared([1], raw_data=b"12345678")), "needs 4 bytes, but .* has 8"),
    "short numbers": (lambda: adding(declared([3], float_data=[1.0])), "needs 3 numbers, .* has 1"),
    "twice": (lambda: adding(declared([1], float_data=[1.0], raw_data=b"1234")),
        "it has data twice"),
    "wrong field": (lambda: adding(declared([1], int64_data=[1])), "must be in float_data, but"),
    "out of range": (lambda: adding(declared([1], 2, int32_data=[300])),
        "does not fit its type, uint8"),
    "many dimensions": (lambda: adding(declared([1] * 40, raw_data=b"1234")),
        "it has 40 dimensions"),
    "string": (lambda: adding(STRING), "initializer 'w': its elements are of type string"),
    "float8": (lambda: adding(declared([1], 17, raw_data=b"1")), "of type float8e4m3fn"),
    "no type": (lambda: adding(declared([1], 0)), "does not say which type its elements have"),
    "unknown type": (lambda: adding(declared([1], 99)), "of type number 99"),
    "segment": (segmented, "initializer 'w': it is a segment"),
    "sparse": (sparse, "the graph has sparse initializers"),
    "input": (lambda: model(inputs=[value("x", HUGE)]), r"input 'x': .*more than 2\*\*33 elements"),
    "negative input": (lambda: model(inputs=[value("x", (-2,))]),
        "input 'x': .*negative extent -2"),
    "string input": (lambda: model(inputs=[value("x", (2,), 8)]), "input 'x': .* of type string"),
    "sequence": (lambda: model(inputs=[SEQUENCE]),
        "input 'x': it is of type sequence, and only tens"),
    "map": (lambda: model(inputs=[MAP]), "input 'x': it is of type map, and only tensors"),
    "expanded": (
        lambda: model([node("Expand", ["x", "w"])], weights=[weight([2**31, 2**31, 2, 3])]),
        r"Expand node 'it': its result would be .* of more than 2\*\*33 elements"),
    "filled": (
        lambda: model([node("ConstantOfShape", ["w"])], weights=[weight([2**40])]),
        r"ConstantOfShape node 'it': its shape \(1099511627776,\) has more than 2\*\*33 elements"),
    "filled with 100 dimensions": (
        lambda: model([node("ConstantOfShape", ["w"])], weights=[weight([1] * 100)]),
        "ConstantOfShape node 'it': its result would have 100 dimensions, more than 32"),
    "filled with nothing": (
        lambda: model([node("ConstantOfShape", ["w"])], weights=[weight([0, 2**62, 2**62])]),
        r"ConstantOfShape node 'it': its shape \(0, \d+, \d+\) has more than 2\*\*33 elements"),
    "40 dimensions": (
        lambda: model([node("Unsqueeze", ["x", "w"])], weights=[weight(np.arange(38))]),
        "Unsqueeze node 'it': its result would have 40 dimensions, more than 32"),
    "40 known dimensions": (
        lambda: model([node("Unsqueeze", ["v", "w"])],
                      weights=[weight([1.0, 2.0], "v"), weight(np.arange(39))]),
        "Unsqueeze node 'it': its result would have 40 dimensions, more than 32"),
    "a depth without end": (
        lambda: model([node("OneHot", ["x", "w", "v"])],
                      weights=[weight(np.float32(np.inf)), weight([0, 1], "v")]),
        "OneHot node 'it': its depth must be one number of 1 or more"),
    "a depth that is no number": (
        lambda: model([node("OneHot", ["x", "w", "v"])],
                      weights=[weight(np.float32(np.nan)), weight([0, 1], "v")]),
        "OneHot node 'it': its depth must be one number of 1 or more"),
    "a range beyond floats": (
        lambda: model([node("Range", ["a", "b", "c"])], weights=[
            weight(np.float64(v), n) for v, n in ((-1e308, "a"), (1e308, "b"), (1, "c"))]),
        r"Range node 'it': it has inf elements, more than 2\*\*33"),
    "only a second output": (
        lambda: model([node(outputs=["", "y"])]),
        "Relu node 'it': it has 2 outputs, but makes 1"),
    "only a second known output": (
        lambda: model([node("Neg", ["w"], outputs=["", "y"])], weights=[weight([1.0])]),
        "Neg node 'it': it has 2 outputs, but makes 1"),
    "flat scalar": (
        lambda: model([node("Flatten", ["w"], axis=-1)], weights=[weight(np.float32(1))]),
        "Flatten node 'it': its attribute 'axis' is -1, of 0 dimensions"),
    "one of two states": (
        lambda: model(
            [node("LSTM", ["x", "w", "r", "", "", "h"], direction="bidirectional")],
            [value("x", (5, 1, 3))], weights=[
                weight(np.ones(s, "float32"), n) for n, s in (
                    ("w", (2, 16, 3)), ("r", (2, 16, 4)), ("h", (1, 1, 4)))]),
        r"LSTM node 'it': an initial state has shape \(1, 1, 4\), but must have \(2, 1, 4\)"),
    "range": (
        lambda: model([node("Range", ["a", "b", "c"])], weights=[
            weight(np.int64(v), n) for v, n in ((0, "a"), (2**60, "b"), (1, "c"))]),
        r"Range node 'it': it has 1,152,921,504,606,846,976 elements"),
    "endless range": (
        lambda: model([node("Range", ["a", "b", "c"])], weights=[
            weight(np.float32(v), n) for v, n in ((0, "a"), (np.inf, "b"), (1, "c"))]),
        "Range node 'it': it has no end"),
    "tiled": (
        lambda: model([node("Tile", ["x", "w"])], weights=[weight([2**33, 2**33])]),
        r"Tile node 'it': .* more than 2\*\*33 elements"),
    # text
    "names": (lambda: renamed(model([node(name="NAME")]), b"NAME", b"N\xff\xfeE"),
        "of node 0 is not text"),
    "control": (lambda: model([node(name="a\x00b")]), r"the name of node 0 is not text: 'a\\x00b'"),
    "attribute": (
        lambda: renamed(model([node("Gelu", approximate="NONE")]), b"NONE", b"N\xff\xfeE"),
        "Gelu node 'it': its attribute 'approximate' is not text"),
    "long name": (lambda: model([node("Loop" + LONG)]),
        "node 'it': this operator has no form here"),
    # operators, domains, opsets
    "domain": (lambda: model([node("Relu", domain="com.evil")]),
        "Relu node 'it' of domain 'com.evil'"),
    "custom": (lambda: model([node("Mine")]), "Mine node 'it': this operator has no form"),
    "misspelled": (lambda: model([node("Softmx")]), "did you mean 'Softmax'"),
    "old opset": (lambda: model(opset=6), "opset 6 of domain 'ai.onnx': opsets 7 to 28 are known"),
    "new opset": (lambda: model(opset=99),
        "opset 99 of domain 'ai.onnx': opsets 7 to 28 are known"),
    "later operator": (lambda: model([node("Gelu")], opset=19),
        "has no such operator, which came in ops"),
    "function": (lambda: function(""), "the model redefines the operator 'Relu' of ONNX"),
    "subgraph": (
        lambda: model([node("If", ["c"], then_branch=body(), else_branch=body())],
                      inputs=[value("x"), value("c", (), 9)]),
        "If node 'it': its condition is c: bool.., which is computed when"),
    "a branch is missing": (
        lambda: model([node("If", ["c"], then_branch=body())],
                      weights=[numpy_helper.from_array(np.array(False), "c")]),
        "If node 'it': its attribute 'else_branch' is missing"),
    "a branch without its output": (
        lambda: model([node("If", ["c"], then_branch=body(outputs=["far"]), else_branch=body())],
                      weights=[numpy_helper.from_array(np.array(True), "c")]),
        "no node, input or initializer of the graph is called 'far'"),
    "an endless loop": (
        lambda: model([node("Loop", ["", "c", "x"], body=endless())],
                      weights=[numpy_helper.from_array(np.array(True), "c")]),
        "loops compute more than 10,000 nodes"),
    "loop": (lambda: model([node("Loop", ["", "", "x"], body=body())]),
        "Loop node 'it': its graph 'body' has 0 inputs, not 3"),
    "scan": (lambda: model([node("Scan", num_scan_inputs=1, body=body())]),
        "Scan node 'it': .*graph"),
    "hidden graph": (lambda: model([node("Relu", body=body())]),
        "Relu node 'it': opset 21 gives it no attribute 'body'"),
    "unknown attribute": (lambda: model([node("Relu", evil=1)]), "gives it no attribute 'evil'"),
    "attribute type": (lambda: model([node("Softmax", axis=1.5)]),
        "'axis' is 1.5, but must be int"),
    "nested": (
        lambda: nested(60), "are not an ONNX model: they are damaged, .* or nested too deeply"),
    # graphs
    "cycle": (
        lambda: model([node("Add", ["x", "b"], ["a"], name="one"),
            node("Relu", ["a"], ["b"], name="two"),
                       node("Relu", ["b"])]), "the graph has a cycle, .*(one -> two|two -> one)"),
    "own input": (lambda: model([node("Add", ["x", "y"])]), "the graph has a cycle, .*: it -> it"),
    "twice made": (lambda: model([node(), node("Exp")]),
        "Exp node 'it': its output 'y' is the name of"),
    "made and given": (lambda: model([node("Relu", ["x"], ["x"])]),
        "its output 'x' is the name of anot"),
    "unknown value": (lambda: model([node("Relu", ["q"])]),
        "Relu node 'it': no node, input .* 'q'"),
    "unknown output": (lambda: model(outputs=[value("q")]),
        "outputs: no node, input .* is called 'q'"),
    "no outputs": (lambda: model(outputs=[]), "the graph has no outputs"),
    "two inputs": (lambda: model(inputs=[value("x"), value("x")]),
        "two inputs of the model have the s"),
    "two weights": (lambda: model(weights=[weight([1.0])] * 2), "two initializers are called 'w'"),
    "empty": (onnx.ModelProto, "the model has no graph"),
    "missing input": (lambda: model([node("Add")]), "Add node 'it': its input 'b' is missing"),
    "many inputs": (lambda: model([node("Relu", ["x", "x"])]), "it has 2 inputs, but takes 1"),
    "many outputs": (lambda: model([node("Relu", outputs=["y", "z"])]),
        "it has 2 outputs, but makes 1"),
    "many nodes": (lambda: model([node()] * 100_001), "the graph has 100,001 nodes"),
    "types": (lambda: adding(weight([1, 2, 3])),
        "its inputs are float32 and int64, but must have one ty"),
    "declared": (lambda: model(outputs=[value("y", (2, 3), INT64)]),
        "declares it as int64, but computes"),
    "bytes": (lambda: b"\x80\x04\x95cos\nsystem\n", "6|bytes are not an ONNX model"),
    "text": (lambda: b"hello, I am no model", "20 bytes are not an ONNX model"),
    "kind": (lambda: 42, r"from_onnx\(42\): it is a int"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_model_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    given = make()
    tracemalloc.start()
    try:
        with pytest.raises(FrontendError, match=message) as caught:
            sl.frontend.from_onnx(given)
        assert len(str(caught.value)) < 1000
        # a copy of the largest of these models is smaller
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


def test_two_opsets_of_one_domain_are_refused() -> None:
    given = helper.make_model(model().graph, opset_imports=TWO)
    with pytest.raises(FrontendError, match="two opsets of domain 'ai.onnx', 20 and 21"):
        sl.frontend.from_onnx(given)


# data beside the model


def beside(folder: Path, **external: str) -> Path:
    """Write a model whose weights are beside it, as the entries say, and the data: 0 to 5."""
    np.arange(6, dtype="float32").tofile(folder / "w.bin")
    path = folder / "model.onnx"
    entries = {"location": "w.bin", **external}
    path.write_bytes(adding(declared([2, 3], external=entries)).SerializeToString())
    return path


def test_data_beside_the_model_are_read(tmp_path: Path) -> None:
    x = np.ones((2, 3), "float32")
    for entries in ({}, {"offset": "0", "length": "24"}):
        found = sl.frontend.from_onnx(beside(tmp_path, **entries)).reference(x)
        np.testing.assert_array_equal(found, [[1, 2, 3], [4, 5, 6]])
    (tmp_path / "data").mkdir()
    np.arange(12, dtype="float32").tofile(tmp_path / "data" / "all.bin")
    path = beside(tmp_path, location="data/all.bin", offset="24")
    np.testing.assert_array_equal(sl.frontend.from_onnx(str(path)).reference(x)[0], [7, 8, 9])


@pytest.mark.parametrize(("external", "message"), [
    ({"location": "../w.bin"}, "'../w.bin', which is not a path into the model's folder"),
    ({"location": "a/../../w.bin"}, "which is not a path into the model's folder"),
    ({"location": "/etc/passwd"}, "'/etc/passwd', which is not a path into the model's folder"),
    ({"location": "..\\w.bin"}, "which is not a path into the model's folder"),
    ({"location": "C:\\w.bin"}, "which is not a path into the model's folder"),
    ({"location": ""}, "which is not a path into the model's folder"),
    ({"location": "w.bin\x00"}, "which is not a path into the model's folder"),
    ({"location": "gone.bin"}, "gone.bin, which cannot be read: No such file"),
    ({"location": "."}, "which is not a path into the model's folder"),
    ({"offset": "8"}, "bytes 8 to 32 of w.bin hold its data, but the file has 24"),
    ({"offset": "-4"}, "the offset of its data is '-4', which is not a number"),
    ({"offset": "9" * 30}, "the offset of its data is '9+', which is not a number"),
    ({"length": "20"}, "needs 24 bytes, but the file has 20"),
    ({"length": "1e3"}, "the length of its data is '1e3', which is not a number"),
])  # fmt: skip
def test_data_elsewhere_are_refused(tmp_path: Path, external: dict[str, str], message: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    np.zeros(6, "float32").tofile(tmp_path / "w.bin")
    with pytest.raises(FrontendError, match=message) as caught:
        sl.frontend.from_onnx(beside(folder, **external))
    assert "initializer 'w'" in str(caught.value)


def test_links_and_special_files_are_refused(tmp_path: Path) -> None:
    folder, outside = tmp_path / "model", tmp_path / "outside"
    folder.mkdir(), outside.mkdir()
    np.zeros(6, "float32").tofile(outside / "w.bin")
    (folder / "link.bin").symlink_to(outside / "w.bin")
    (folder / "way").symlink_to(outside)
    (folder / "folder.bin").mkdir()
    os.mkfifo(folder / "pipe.bin")
    for location, message in (
        ("link.bin", "'link.bin' is a symbolic link"), ("way/w.bin", "'way' is a symbolic link"),
        ("folder.bin", "folder.bin, which is not a plain file"),
        ("pipe.bin", "pipe.bin, which is not a plain file"),
    ):  # fmt: skip
        with pytest.raises(FrontendError, match=message):
            sl.frontend.from_onnx(beside(folder, location=location))
    with pytest.raises(FrontendError, match="it is not a plain file"):
        sl.frontend.from_onnx(folder / "pipe.bin")
    with pytest.raises(FrontendError,
        match=r"model'\): it cannot be read: Is a directory|no plain"):
        sl.frontend.from_onnx(folder)
    with pytest.raises(FrontendError, match="it cannot be read: No such file"):
        sl.frontend.from_onnx(folder / "gone.onnx")


def test_a_model_without_a_folder_has_no_data_beside_it() -> None:
    given = adding(declared([2, 3], external={"location": "w.bin"}))
    with pytest.raises(FrontendError, match=r"folder is not known\n  Give the path of the model"):
        sl.frontend.from_onnx(given)
    with pytest.raises(FrontendError, match="whose folder is not known"):
        sl.frontend.from_onnx(given.SerializeToString())


def several(folder: Path, *entries: tuple[Any, int, str], size: int) -> Path:
    """Write a model that adds arrays of the given dims, kind and offset in a sparse file."""
    with open(folder / "w.bin", "wb") as file:
        file.truncate(size)
    weights = []
    for k, (dims, kind, offset) in enumerate(entries):
        external = {"location": "w.bin", "offset": offset}
        weights.append(declared(dims, kind, external=external))
        weights[-1].name = f"w{k}"
    outputs = [value(f"w{k}", None, kind) for k, (_, kind, _) in enumerate(entries)]
    path = folder / "model.onnx"
    path.write_bytes(
        model(outputs=[value("y"), *outputs], weights=weights).SerializeToString()
    )
    return path


def test_arrays_of_the_same_bytes_are_one_parameter(tmp_path: Path) -> None:
    size = 2**24
    same = [([2**22], FLOAT, "0"), ([2**11, 2**11], FLOAT, "0")] * 8
    path = several(tmp_path, *same, size=size)
    tracemalloc.start()
    try:
        found = sl.frontend.from_onnx(path)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * size
    finally:
        tracemalloc.stop()
    assert [t.name for t in found.params] == ["w0_1"]


def test_a_parameter_is_read_in_several_shapes(tmp_path: Path) -> None:
    np.arange(96, dtype="float32").tofile(tmp_path / "w.bin")
    weights = [declared(dims, external={"location": "w.bin"}) for dims in ([8, 12], [96], [8, 12])]
    for k, tensor in enumerate(weights):
        tensor.name = f"w{k}"
    nodes = [node("MatMul", ["x", "w1"], ["a"], name="product"),
             node("Add", ["w0", "w2"], ["b"], name="sum")]  # fmt: skip
    given = model(nodes, [value("x", (96,))], [value("a", None), value("b", None)], weights)
    (tmp_path / "model.onnx").write_bytes(given.SerializeToString())
    found = sl.frontend.from_onnx(tmp_path / "model.onnx")
    assert len(found.params) == 1
    x, w = np.ones(96, "float32"), np.arange(96, dtype="float32")
    for a, b in (found.reference(x), sl.network(found, target="python", database=None)(x)):
        np.testing.assert_array_equal(a, 48 * 95)
        np.testing.assert_array_equal(b, 2 * w.reshape(8, 12))


def test_arrays_that_overlap_are_refused(tmp_path: Path) -> None:
    """Each would need bytes of its own, so that a few become as many as one likes."""
    apart = [([4], FLOAT, "0"), ([2, 2], FLOAT, "16"), ([4], FLOAT, "0"), ([0], FLOAT, "8")]
    assert len(sl.frontend.from_onnx(several(tmp_path, *apart, size=32)).params) == 3
    for other in (([4], FLOAT, "4"), ([4], 6, "0"), ([16], 9, "0")):
        with pytest.raises(FrontendError, match="whose 32 bytes hold arrays of more than that"):
            sl.frontend.from_onnx(several(tmp_path, *apart, other, size=32))
    os.link(tmp_path / "w.bin", tmp_path / "same.bin")
    linked = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    linked.graph.initializer[4].external_data[0].value = "same.bin"
    (tmp_path / "model.onnx").write_bytes(linked.SerializeToString())
    with pytest.raises(FrontendError, match="in same.bin: whose 32 bytes hold arrays"):
        sl.frontend.from_onnx(tmp_path / "model.onnx")


def test_a_file_of_two_gigabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with open(path, "wb") as file:
        file.truncate(2**31)
    tracemalloc.start()
    try:
        with pytest.raises(FrontendError,
            match="it has 2,147,483,648 bytes, and an .onnx file less"):
            sl.frontend.from_onnx(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_sizes_that_grow_without_end_are_refused() -> None:
    """Shape arithmetic may square a symbolic size again and again."""
    nodes = [node("Shape", ["x"], ["s0"], name="shape")]
    nodes += [node("Mul", [f"s{k}", f"s{k}"], [f"s{k + 1}"], name=f"m{k}") for k in range(60)]
    nodes += [node("Add", [f"s{k}", f"s{k + 1}"], [f"t{k}"], name=f"a{k}") for k in range(60)]
    nodes += [node("ConstantOfShape", ["s60"])]
    given = model(nodes, [value("x", ("n",))], [value("y", None)])
    with pytest.raises(FrontendError, match="computes a size|offsets would overflow|degree"):
        sl.frontend.from_onnx(given, shapes={"n": sl.var("n")})


def spread(count: int) -> list[Any]:
    """Return arrays of 64 elements, each in a dimension of its own."""
    shapes = [[64 if k == at else 1 for k in range(count)] for at in range(count)]
    return [weight(np.ones(shape, "float32"), f"w{k}") for k, shape in enumerate(shapes)]


def many(operator: str, count: int, *more: Any) -> Any:
    """Return a model that broadcasts 64 ** count elements out of some initializers."""
    names = [f"w{k}" for k in range(count)] + [w.name for w in more]
    return model([node(operator, names)], [], [value("y", None)], [*spread(count), *more])


def grown(operator: str, inputs: dict[str, Any], **attributes: Any) -> Any:
    weights = [weight(v, k) for k, v in inputs.items()]
    nodes = [node(operator, [*inputs], **attributes)]
    return model(nodes, [], [value("y", None)], weights)


NOTHING = weight(np.zeros((0, 1, 1, 1, 1), "float32"), "none")
GROWN: dict[str, Callable[[], Any]] = {
    "max": lambda: many("Max", 4),
    "pairs": lambda: many("Add", 2),
    "product of zero": lambda: many("Max", 4, NOTHING),
    "tiles": lambda: grown("Tile", {"d": np.ones([1] * 4, "float32"), "n": np.array([64] * 4)}),
    "no tiles": lambda: grown("Tile", {
        "d": np.ones([1] * 5, "float32"), "n": np.array([64] * 4 + [0])}),
    "sum of nothing": lambda: grown("ReduceSum", {
        "d": np.zeros((0, 2**24), "float32"), "n": np.array([0])}),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWN)
def test_what_is_known_does_not_grow_at_import(name: str) -> None:
    """A node of more elements than are folded becomes a stage, and nothing is computed."""
    given = GROWN[name]()
    tracemalloc.start()
    try:
        sl.frontend.from_onnx(given)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("make", "message"), [
    (lambda: many("Max", 8), r"Max node 'it': its result would be .*more than 2\*\*33 elements"),
    (lambda: many("Max", 20), "Max node 'it'"),
    # 64 ** 11 is 0 modulo 2 ** 64
    (lambda: grown("Tile", {"d": np.ones([1] * 11, "float32"), "n": np.array([64] * 11)}),
     r"Tile node 'it': its result would be .*more than 2\*\*33 elements"),
])  # fmt: skip
def test_absurd_results_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(FrontendError, match=message):
        sl.frontend.from_onnx(make())


def test_sizes_beyond_an_int64_are_refused() -> None:
    """Beside a symbolic size, numbers are Python's, which have no largest one."""
    nodes = [node("Shape", ["x"], ["s0"], name="shape")]
    for k in range(40):
        nodes.append(node("Mul", [f"s{k}", "w"], [f"s{k + 1}"], name=f"m{k}"))
    nodes += [node("Slice", ["s40", "one", "two"], ["t"], name="part"),
              node("ConstantOfShape", ["t"])]  # fmt: skip
    weights = [weight([1, 2**20]), weight([1], "one"), weight([2], "two")]
    given = model(nodes, [value("x", ("n", 2))], [value("y", None)], weights)
    with pytest.raises(FrontendError, match="a size that no int64 holds"):
        sl.frontend.from_onnx(given, shapes={"n": sl.var("n")})


@pytest.mark.parametrize(("operator", "sizes"), [
    ("Reshape", [1] * 100_000 + [6]), ("Expand", [1] * 100_000 + [2, 3]),
    ("Unsqueeze", [*range(100_000)]), ("ConstantOfShape", [1] * 100_000),
])  # fmt: skip
def test_dimensions_without_end_are_refused(operator: str, sizes: list[int]) -> None:
    """Nothing is made of them: it would take minutes."""
    inputs = ["w"] if operator == "ConstantOfShape" else ["x", "w"]
    given = model([node(operator, inputs)], weights=[weight(sizes)])
    start = time.perf_counter()
    with pytest.raises(FrontendError, match=f"{operator} node 'it': .* 1000.. dimensions, more"):
        sl.frontend.from_onnx(given)
    assert time.perf_counter() - start < 10


def test_arithmetic_on_sizes_that_no_integer_of_their_type_holds() -> None:
    nodes = [node("Shape", ["x"], ["s"], name="shape"),
             node("Cast", ["s"], ["t"], name="cast", to=6), node("Mul", ["t", "w"], ["u"]),
             node("Gather", ["u", "one"], ["v"], name="take"),
             node("ConstantOfShape", ["v"])]  # fmt: skip
    weights = [weight(np.array([1, 2**30], "int32")), weight(np.array([1]), "one")]
    given = model(nodes, [value("x", ("n", 2))], [value("y", None)], weights)
    with pytest.raises(FrontendError, match="Gather node 'take': it does not fit its inputs: "):
        sl.frontend.from_onnx(given, shapes={"n": sl.var("n")})


def test_an_error_of_python_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged number that no check foresaw is refused like any other."""
    from schedlang.frontend.onnx import evaluation

    for error in (ZeroDivisionError("by 0"), OverflowError("large"), ValueError("odd"),
                  IndexError("far"), MemoryError("full")):  # fmt: skip
        def failing(call: Any, x: Any, error: Exception = error) -> Any:
            raise error

        monkeypatch.setattr(evaluation, "function_of", lambda node, f=failing: f)
        with pytest.raises(FrontendError, match=f"Relu node 'it': .*Error: {error}"):
            sl.frontend.from_onnx(model())


def test_deep_and_wide_graphs_are_imported() -> None:
    """A chain is no absurd graph: nothing recurses over its nodes."""
    count = 1000
    names = ["x", *(f"v{k}" for k in range(count - 1)), "y"]
    nodes = [node("Neg", [a], [b], name=f"n{k}") for k, (a, b) in enumerate(zip(names, names[1:]))]
    found = sl.frontend.from_onnx(model(nodes[::-1]))
    assert len(found.layers) == count and found.layers["y"] == "n999"


# indices: no other memory is read

FAR = (10**12, -(10**12), 100_000, 9, -9, -8, 7, 0)


def reading(operator: str, indices: Any, **attributes: Any) -> Any:
    """Return a model that reads at indices which are given to each call."""
    return model(
        [node(operator, ["x", "i"], **attributes)],
        [value("x", (8,)), value("i", indices.shape, INT64)], [value("y", None)],
    )  # fmt: skip


@pytest.mark.parametrize("operator", ["Gather", "GatherElements", "GatherND"])
def test_an_index_out_of_range_counts_around(operator: str) -> None:
    x, indices = np.arange(8, dtype="float32"), np.array(FAR)
    given = indices[:, None] if operator == "GatherND" else indices
    found = sl.frontend.from_onnx(reading(operator, given))
    expected = x[indices % 8]
    np.testing.assert_array_equal(found.reference(x, given), expected)
    # the same body as a kernel, with each read checked
    net = sl.network(found, target="python", database=None)
    np.testing.assert_array_equal(net(x, given), expected)


def test_each_coordinate_counts_around_in_its_dimension() -> None:
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    indices = np.array([[[5, -9], [1, 4]], [[0, 10**12], [-4, 3]]])
    given = model(
        [node("GatherND", ["x", "i"], batch_dims=1)],
        [value("x", (2, "n", 4)), value("i", indices.shape, INT64)], [value("y", None)],
    )  # fmt: skip
    a, b = np.moveaxis(indices, -1, 0)
    for n in (3, sl.var("n")):
        found = sl.frontend.from_onnx(given, {"n": n}).reference(x, indices)
        np.testing.assert_array_equal(found, x[[[0], [1]], a % 3, b % 4])


def test_indices_that_the_file_computes_count_around() -> None:
    """More of them than are computed at import, so that their values are not seen."""
    high = weight(np.full(100, 5_000), "w")
    nodes = [node("Add", ["w", "w"], ["i"], name="add"), node("GatherElements", ["x", "i"])]
    found = sl.frontend.from_onnx(model(nodes, [value("x", (8,))], [value("y", None)], [high]))
    x = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(found.reference(x), np.full(100, x[10_000 % 8]))


@pytest.mark.parametrize(("operator", "indices", "message"), [
    ("Gather", [8], "index 8 is out of range for 8 elements"),
    ("GatherElements", [-9], "index -9 is out of range for 8 elements"),
    ("GatherND", [[100_000]], "index 100000 is out of range for 8 elements"),
    ("GatherND", [[10**12]], "index 1000000000000 is out of range for 8 elements"),
])  # fmt: skip
def test_known_indices_out_of_range_are_refused(operator: str, indices: Any, message: str) -> None:
    nodes = [node(operator, ["x", "w"])]
    given = model(nodes, [value("x", (8,))], [value("y", None)], [weight(indices)])
    with pytest.raises(FrontendError, match=f"{operator} node 'it': its {message}"):
        sl.frontend.from_onnx(given)


def test_indices_into_nothing_are_refused() -> None:
    for operator in ("Gather", "GatherElements", "GatherND"):
        nodes = [node(operator, ["x", "i"])]
        inputs = [value("x", (0,)), value("i", (1,), INT64)]
        with pytest.raises(FrontendError, match="no element to take"):
            sl.frontend.from_onnx(model(nodes, inputs, [value("y", None)]))
