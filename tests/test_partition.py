"""The partition of a network into parts: its rules, its order, cuts and fusions."""

from __future__ import annotations

import sys
import time
import warnings
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang import topi
from schedlang.compute.graph import placeholders, variables
from schedlang.errors import (
    ComputeTypeError,
    MissingNameError,
    NetworkError,
    PlotError,
    TuningError,
)
from schedlang.networks.ordering import order_for_memory, peak
from schedlang.networks.partition import Partition, equal_parts, partition
from schedlang.networks.prepare import prepare
from tests import networks
from tests.conftest import Golden
from tests.fuzz.compare import expected, scalar
from tests.fuzz.graphs import build, random_graph
from tests.fuzz.inputs import arrays

NETWORKS: dict[str, Any] = {
    "resnet": lambda: networks.resnet((1, 1)),
    "bottlenecks": lambda: networks.resnet((1, 1), networks.bottleneck, batch=2),
    "inverted residual": networks.inverted_residual,
    "inverted residual of stride 2": lambda: networks.inverted_residual(stride=2),
    "transformer": networks.transformer,
    "tagger": networks.tagger,
    "mlp": networks.mlp,
}


def stages(found: Partition) -> list[tuple[str, ...]]:
    return [part.stages for part in found]


def input_of(*shape: int, name: str = "X") -> sl.Tensor:
    return sl.placeholder(shape, name=name)


def relu(value: Any, name: str) -> Any:
    return sl.named(name, topi.nn.relu(value))


def dense(value: Any, name: str, size: int = 8) -> Any:
    return sl.named(name, topi.nn.dense(value, input_of(size, value.shape[-1], name=f"{name}_w")))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_parts_one_after_the_other_compute_the_network(name: str) -> None:
    out, x, params = NETWORKS[name]()
    ready = prepare(out, params)
    found = partition(list(ready.outputs))
    rng = np.random.default_rng(1)
    value = rng.integers(0, 9, x.shape) if x.dtype == "int64" else rng.standard_normal(x.shape)
    values = {x: value.astype(x.dtype), **ready.values()}
    known = networks.run_parts(found, values)
    oracle = sl.reference(list(ready.outputs))
    wanted = oracle(*(values[t] for t in oracle.inputs))
    np.testing.assert_array_equal(known[ready.outputs[0]], wanted)
    whole = sl.reference(out)
    direct = whole(*(({x: values[x]} | params)[t] for t in whole.inputs))
    assert np.abs(wanted - direct).max() <= 1e-5 * np.abs(direct).max()


@pytest.mark.parametrize("name", ["resnet", "transformer", "tagger", "inverted residual"])
def test_the_partition_of_a_network(name: str, golden: Golden) -> None:
    out, _, params = NETWORKS[name]()
    golden(partition(list(prepare(out, params).outputs)))


def test_resnet_50_is_a_kernel_for_each_convolution_two_poolings_and_a_product() -> None:
    out, _, params = networks.resnet((3, 4, 6, 3), networks.bottleneck, 224, 64, 1000)
    found = partition(list(prepare(out, params).outputs))
    convolutions = [name for part in found for name in part.stages if name.endswith("_conv")]
    assert len(convolutions) == 53 == len({part.name for part in found} & {*convolutions})
    assert [part.name for part in found if part.name not in convolutions] == [
        "stem_pool", "pool.global_pool_sum", "fc.dense",
    ]  # fmt: skip
    # 4.09 GFLOP of multiply-adds, and what is around them
    assert 8.17e9 < sum(part.flops for part in found) < 8.25e9
    assert len(equal_parts(found.parts)) == 31


def test_a_batch_norm_that_is_not_folded_goes_with_its_convolution() -> None:
    w = networks.Weights()
    x = input_of(1, 4, 6, 6)
    found = partition(networks.unit(w, networks.unit(w, x, "a", 4, 3), "b", 4, 1))
    assert [part.name for part in found] == ["a_conv", "b_conv"]
    assert found["b_conv"].stages == (
        "b_conv", "b_bn.batch_norm_scale", "b_bn.batch_norm_shift", "b_bn", "b_act",
    )  # fmt: skip


def test_a_residual_goes_with_the_product_that_is_computed_last() -> None:
    x = input_of(4, 8)
    left, right = dense(relu(x, "start"), "left"), dense(x, "right")
    out = relu(sl.named("sum", topi.add(left, right)), "end")
    assert stages(partition(out)) == [("start",), ("left",), ("right", "sum", "end")]
    out = relu(sl.named("sum", topi.add(right, left)), "end")
    assert stages(partition(out)) == [("right",), ("start",), ("left", "sum", "end")]
    out = relu(sl.named("sum", topi.add(x, left)), "end")
    assert stages(partition(out)) == [("start",), ("left", "sum", "end")]


def test_a_result_that_is_read_twice_stays_inside_if_both_readers_do() -> None:
    gate = dense(input_of(4, 8), "gate")
    swish = sl.named("swish", topi.multiply(gate, sl.named("sigmoid", topi.sigmoid(gate))))
    assert stages(partition(swish)) == [("gate", "sigmoid", "swish")]
    other = dense(gate, "other")
    found = partition(sl.named("both", topi.add(swish, other)))
    assert stages(found) == [("gate",), ("sigmoid", "swish", "other", "both")]
    assert stages(partition([swish, gate])) == [("gate",), ("sigmoid", "swish")]


def test_elementwise_stages_form_a_part_as_a_tree() -> None:
    x, y = input_of(4, 8), input_of(4, 8, name="Y")
    a, b = relu(x, "a"), relu(y, "b")
    out = sl.named("out", topi.add(sl.named("a2", topi.exp(a)), b))
    assert stages(partition(out)) == [("a", "a2", "b", "out")]
    # what a product reads, too, is a part of its own
    out = sl.named("out", topi.add(a, dense(a, "product")))
    assert stages(partition(out)) == [("a",), ("product", "out")]


def test_an_elementwise_operand_goes_with_the_product_that_it_is_added_to() -> None:
    x, y = input_of(4, 8), input_of(4, 8, name="Y")
    out = sl.named("out", topi.add(dense(x, "product"), relu(y, "other")))
    assert stages(partition(out)) == [("product", "other", "out")]
    # a larger one than the product's result does not
    wide = sl.named("wide", topi.exp(input_of(3, 4, 8, name="Y")))
    out = sl.named("out", topi.add(dense(x, "product"), wide))
    assert stages(partition(out)) == [("product",), ("wide", "out")]


def test_a_pooling_takes_what_is_before_and_after_it() -> None:
    x = input_of(1, 4, 8, 8)
    pooled = sl.named("pool", topi.nn.pool2d(relu(x, "before"), 3, 2, 1, 1, "max"))
    out = relu(pooled, "after")
    assert stages(partition(out)) == [("before", "pad_temp", "pool", "after")]
    found = partition([out, sl.named("more", topi.exp(relu(x, "before")))])
    assert stages(found)[0] == ("before", "pad_temp", "pool", "after")
    before = relu(x, "before")
    pooled = sl.named("pool", topi.nn.pool2d(before, 3, 2, 1, 1, "max"))
    found = partition([pooled, sl.named("more", topi.exp(before))])
    assert stages(found) == [("before",), ("pad_temp", "pool"), ("more",)]
    twice = sl.named("twice", topi.nn.pool2d(pooled, 2, 2, 1, 0, "max"))
    assert [part.name for part in partition(twice)] == ["pool", "twice"]


def test_reductions_over_the_same_rows_are_one_part() -> None:
    x = input_of(4, 8)
    g, b = input_of(8, name="g"), input_of(8, name="b")
    for out in (topi.nn.softmax(x), topi.nn.log_softmax(x), topi.nn.layer_norm(x, g, b, -1),
                topi.nn.rms_norm(x, g, -1), topi.nn.layer_norm(topi.nn.softmax(x), g, b, -1),
                topi.nn.group_norm(input_of(1, 8, 3, 3), g, b, 2, 1, [2, 3])):  # fmt: skip
        (part,) = partition(out)
        assert part.kind == "reduction" and part.name == out.op.name
    k, m = sl.reduce_axis(8, name="k"), sl.reduce_axis(8, name="m")
    total = sl.compute((4,), lambda i: sl.sum(x[i, k], axis=k), name="total")
    square = sl.compute((4,), lambda i: sl.sum(x[i, m] * x[i, m], axis=m), name="square")
    out = sl.compute((4,), lambda i: square[i] - total[i] * total[i], name="variance")
    assert stages(partition(out)) == [("square", "total", "variance")]
    assert stages(partition([square, total])) == [("square", "total")]
    assert len(partition([total, topi.sum(x, 0)])) == 2


def test_attention_is_its_scores_and_the_rest() -> None:
    q, k, v = (input_of(1, 6, 2, 4, name=name) for name in "qkv")
    scores, rest = partition(topi.nn.attention(q, k, v, online=False))
    assert scores.stages == ("attention_scores", "attention_masked")
    assert rest.kind == "product" and rest.name == "attention_sum"
    assert {"attention_rows", "attention_weights", "attention_total"} < {*rest.stages}
    # too many columns for a tile of sums, and rows that one matrix multiplies, as those of a norm
    wide = topi.nn.attention(q, k, input_of(1, 6, 2, 256, name="w"), online=False)
    assert len(partition(wide)) > 2
    x, g = input_of(4, 8), input_of(8, name="g")
    assert len(partition(dense(topi.nn.rms_norm(x, g, -1), "d"))) == 2


def test_a_scale_by_a_mean_of_the_same_rows_is_one_part_and_by_others_is_not() -> None:
    x = input_of(1, 4, 6, 6)
    mean = topi.nn.global_pool(x, "avg")
    (part,) = partition(topi.multiply(x, mean))
    assert part.kind == "reduction"
    gate = sl.named("gate", topi.nn.conv2d_nchw(mean, input_of(4, 4, 1, 1, name="w"), 1, 0, 1))
    found = partition(sl.named("scaled", topi.multiply(x, gate)))
    assert [part.name for part in found] == ["global_pool_sum", "gate", "scaled"]


def test_a_scan_is_a_part_with_what_is_around_it() -> None:
    x = input_of(5, 3)
    state = sl.placeholder((5, 3), name="state")
    doubled = sl.named("doubled", x * 2)
    first = sl.compute((1, 3), lambda t, i: doubled[0, i], name="first")
    step = sl.compute((5, 3), lambda t, i: state[t - 1, i] + doubled[t, i], name="step")
    run = sl.scan(first, step, state, name="run")
    last = sl.compute((3,), lambda i: run[4, i], name="last")
    (part,) = partition(sl.named("out", topi.exp(last)))
    assert part.kind == "scan" and part.name == "run"
    assert part.stages == ("doubled", "first", "step", "run", "last", "out")
    assert [t.name for t in part.reads] == ["X"]
    value = np.arange(15, dtype="f4").reshape(5, 3)
    known = networks.run_parts([part], {x: value})
    wanted = np.exp((value * 2).cumsum(0)[4])
    np.testing.assert_allclose(known[part.writes[0]], wanted, rtol=1e-6)


def test_stages_that_only_move_elements_belong_to_what_reads_them() -> None:
    x = input_of(4, 6)
    flipped = sl.named("flipped", topi.transpose(relu(x, "start")))
    one, two = dense(flipped, "one"), dense(flipped, "two")
    assert stages(partition([one, two])) == [("start",), ("flipped", "one"), ("flipped", "two")]
    # as a result it is computed, with what it reads
    assert stages(partition(flipped)) == [("start", "flipped")]
    rows = sl.named("rows", topi.reshape(one, (2, 24)))
    assert stages(partition(rows))[-1] == ("flipped", "one", "rows")


def test_padding_and_joining_belong_to_their_one_reader() -> None:
    x = relu(input_of(1, 4, 6, 6), "start")
    padded = sl.named("padded", topi.nn.pad(x, (0, 0, 1, 1)))
    w = input_of(4, 4, 3, 3, name="w")
    one = sl.named("one", topi.nn.conv2d_nchw(padded, w, 1, 0, 1))
    assert stages(partition(one)) == [("start",), ("padded", "one")]
    two = sl.named("two", topi.nn.conv2d_nchw(padded, w, 2, 0, 1))
    assert stages(partition([one, two])) == [("start", "padded"), ("one",), ("two",)]
    left = sl.named("left", topi.nn.conv2d_nchw(x, input_of(4, 4, 1, 1, name="v"), 1, 0, 1))
    joined = sl.named("joined", topi.concatenate([left, x], 1))
    out = sl.named("out", topi.nn.conv2d_nchw(joined, input_of(4, 8, 1, 1, name="u"), 1, 0, 1))
    assert stages(partition(out)) == [("start",), ("left",), ("joined", "out")]


def test_bytes_are_stored_in_place_of_the_floats_that_a_sum_reads() -> None:
    """Floats are stored if a map of them alone, or a pooling, reads them, too."""
    w, v = (input_of(4, 4, 1, 1, name=name) for name in "wv")
    x, scale = input_of(1, 4, 6, 6), sl.placeholder((), name="scale")

    def floats(w: sl.Tensor, name: str) -> sl.Tensor:
        product = topi.cast(topi.nn.conv2d_nchw(x, w, 1, 0, 1), "uint8")
        return sl.named(name, topi.multiply(topi.cast(product, "float32") - 3, scale))

    first, second = floats(w, "first"), floats(v, "second")
    (one, two) = partition(sl.named("y", first + second)).parts
    assert [t.dtype for t in one.writes] == ["uint8"] and "first" in two.stages
    one, *_ = partition([sl.named("y", first + second), relu(first, "z")]).parts
    assert "float32" in {t.dtype for t in one.writes} and "first" in one.stages
    (one, two) = partition(topi.nn.pool2d(first, (3, 3), (1, 1), (1, 1), (0,) * 4, "max")).parts
    assert [t.dtype for t in one.writes] == ["float32"]


def test_a_gather_is_no_move() -> None:
    words, table = sl.placeholder((4,), "int64", name="words"), input_of(9, 8, name="table")
    out = dense(sl.named("embed", topi.take(table, words, axis=0)), "out")
    assert stages(partition(out)) == [("embed",), ("out",)]


def test_ranges_that_another_part_computes() -> None:
    x, first = input_of(3, 8), sl.placeholder((3,), "int32", name="first")
    ends = sl.compute((3,), lambda i: sl.min(first[i] + 1, 8), name="ends")

    def row(i: Any) -> Any:
        k = sl.reduce_axis((0, ends[i]), name="k")
        return sl.sum(x[i, k], axis=k)

    rows = sl.compute((3,), row, name="rows")
    found = partition([rows, ends])
    assert stages(found) == [("ends",), ("rows",)]
    part = found["rows"]
    (axis,) = part.group.outputs[0].op.reduce_axis
    assert [t.name for t in part.group.inputs] == ["X", "ends"]
    # the range of the axis reads the input of the part, too
    assert axis.bounds[1].tensor in part.group.inputs and part.key
    values = {x: np.arange(24, dtype="f4").reshape(3, 8), first: np.array([-1, 2, 9], "i4")}
    known = networks.run_parts(found, values)
    np.testing.assert_array_equal(known[rows], [0, 8 + 9 + 10, sum(range(16, 24))])
    f = sl.build(sl.schedule(part.group.outputs[0]), target="python")
    np.testing.assert_array_equal(f(values[x], known[ends]), known[rows])


def test_scatters_and_products_with_few_results() -> None:
    bins = sl.placeholder((6,), "int32", name="bins")
    counts = sl.scatter((4,), (6,), lambda k: (bins[k], 1), name="counts")
    (part,) = partition(sl.named("shares", counts / 6))
    assert part.kind == "scatter" and part.stages == ("counts", "shares")
    # a matrix times a vector reads the vector again and again; an inner product reads nothing twice
    k = sl.reduce_axis(8, name="k")
    x, y, w = input_of(8), input_of(8, name="Y"), input_of(3, 8, name="W")
    assert partition(sl.compute((3,), lambda i: sl.sum(w[i, k] * x[k], axis=k))).parts[0].kind == (
        "product")
    assert partition(sl.compute((), lambda: sl.sum(x[k] * y[k], axis=k))).parts[0].kind == (
        "reduction")


def test_a_chain_is_cut_before_a_kernel_becomes_too_long() -> None:
    y: Any = input_of(4)
    for _ in range(70):
        y = y * 2
    found = partition(y)
    assert [len(part.stages) for part in found] == [32, 32, 6]


def test_the_order_keeps_little_memory_live() -> None:
    """Two wide branches, each reduced: one after the other, not both at once."""
    x = input_of(8, 4)
    wide = [dense(x, name, 64) for name in ("a", "b")]
    narrow = [dense(value, f"{value.name}_end", 2) for value in wide]
    out = sl.named("sum", topi.add(*narrow))
    assert [part.name for part in partition(out)] == ["a", "a_end", "b", "b_end"]
    # with both wide ones first, 8*64*4 bytes of each are live, and 8*2*4 of the first result
    reads = {"a": [], "b": [], "c": ["A"], "d": ["B", "C"]}
    writes: dict[str, list[str]] = {"a": ["A"], "b": ["B"], "c": ["C"], "d": ["D"]}
    size = {"A": 2048, "B": 2048, "C": 64}
    assert peak("abcd", reads, writes, size) == 2048 + 2048 + 64
    assert order_for_memory("abcd", reads, writes, size) == ["a", "c", "b", "d"]
    assert peak("acbd", reads, writes, size) == 2048 + 64
    # a result that nothing reads is live while it is written
    assert peak("ab", {"a": [], "b": []}, {"a": ["A"], "b": ["B"]}, {"A": 5, "B": 6}) == 6


def test_cuts_end_parts() -> None:
    x = input_of(4, 8)
    y = dense(relu(dense(x, "one"), "act"), "two")
    out = topi.nn.softmax(y)
    assert stages(partition(out, cut=["one"]))[:2] == [("one",), ("act",)]
    found = partition(out, cut=["softmax_exp", "softmax_maxelem"])
    assert stages(found)[2:] == [
        ("softmax_maxelem",), ("softmax_exp",), ("softmax_expsum", "softmax"),
    ]  # fmt: skip
    flipped = sl.named("flipped", topi.transpose(dense(x, "three")))
    out = [dense(flipped, "four"), dense(flipped, "five")]
    found = partition(out, cut="flipped")
    assert stages(found) == [("three", "flipped"), ("four",), ("five",)]
    # neither may a result stay inside that is read beyond an end
    gate = dense(x, "gate")
    middle = sl.named("middle", topi.sigmoid(gate))
    swish = sl.named("swish", topi.multiply(gate, middle))
    assert stages(partition(swish, cut=["middle"])) == [("gate",), ("middle",), ("swish",)]
    # an end of the network, or of a part, is one already
    assert stages(partition(y, cut=["two", "act"])) == stages(partition(y))


def test_fusions_join_parts() -> None:
    x = input_of(4, 8)
    y = dense(relu(dense(x, "one"), "act"), "two")
    out = topi.nn.softmax(y)
    assert stages(partition(out)) == [
        ("one", "act"), ("two",), ("softmax_maxelem", "softmax_exp", "softmax_expsum", "softmax"),
    ]  # fmt: skip
    found = partition(out, fuse=[["one", "two"]])
    assert stages(found)[0] == ("one", "act", "two") and found.parts[0].kind == "product"
    assert len(partition(out, fuse=["act", "two", "softmax"])) == 1
    assert len(partition(out, fuse=[["one", "act"], ["two", "softmax_exp"]])) == 2
    values = {t: np.random.default_rng(0).standard_normal(t.shape).astype("f4")
              for t in placeholders([out])}  # fmt: skip
    known = networks.run_parts(partition(out, fuse=[["one", "two"]]), values)
    oracle = sl.reference(out)
    np.testing.assert_array_equal(known[out], oracle(*(values[t] for t in oracle.inputs)))


def blocks() -> tuple[sl.Tensor, dict[str, str]]:
    """Return two blocks of a product and a softmax behind a transpose, with their layers."""
    y, layers = input_of(4, 8), {}
    for k in range(2):
        first = dense(y, f"first{k}")
        y = relu(first, f"act{k}")
        layers.update({f"first{k}": f"net.{k}.fc", f"act{k}": f"net.{k}"})
    flipped = sl.named("flipped", topi.transpose(y))
    u, v = dense(flipped, "u", 4), dense(flipped, "v", 4)
    out = sl.named("out", topi.add(u, v))
    return out, {**layers, "flipped": "turn", "u": "u", "v": "head", "out": "head", "gone": "old"}


def test_layers_stand_for_their_stages() -> None:
    out, layers = blocks()

    def of(**options: Any) -> list[tuple[str, ...]]:
        return stages(partition(out, layers=layers, **options))

    first, second, u, v = of()
    assert (first, second) == (("first0", "act0"), ("first1", "act1"))
    assert (u, v) == (("flipped", "u"), ("flipped", "v", "out"))
    # a layer ends after its last stage, and a block after the last one of those inside of it
    assert of(cut=["net.0.fc"])[:2] == [("first0",), ("act0",)]
    assert of(cut=["net.0", "net"]) == of(cut=["act0", "act1"]) == of()
    assert of(cut=["turn"]) == of(cut=["flipped"]) != of()
    assert of(cut=["head"]) == of()
    # fused are the parts of all stages of a layer
    assert of(fuse=["net"]) == of(fuse=["first0", "act1"])
    assert of(fuse=["net"])[0] == (*first, *second)
    assert of(fuse=[["net.0", "net.1.fc"]]) == of(fuse=["net"])
    assert of(fuse=[["u", "head"]]) == of(fuse=["u", "v"])
    # u is a stage, too; the transpose belongs to the two parts that read it
    assert of(cut=["u"]) == of()
    with pytest.raises(NetworkError, match=r"^fuse=\['turn', ...\]: turn only moves elements, and"):
        of(fuse=[["turn", "net"]])
    # ONNX separates the names of layers by slashes
    slashed = {stage: f"/{layer.replace('.', '/')}" for stage, layer in layers.items()}
    assert stages(partition(out, layers=slashed, cut=["/net/0/fc"])) == of(cut=["net.0.fc"])
    assert stages(partition(out, layers=slashed, fuse=["/net"])) == of(fuse=["net"])
    with pytest.raises(NetworkError, match="there is no stage or layer '/ne'; did you mean '/net'"):
        partition(out, layers=slashed, fuse=["/ne"])
    layers["act1"] = "turn"
    assert of(fuse=[["turn", "net.0"]])[0] == (*first, *second)


def test_refused_layers() -> None:
    out, layers = blocks()
    for arguments, message in {
        "cut=['net.2']": "cut=['net.2']: there is no stage or layer 'net.2'; did you mean 'net.1', "
                         "'net.0' or 'net'?",
        "fuse=[['frst0', 'hea']]": "fuse=['frst0']: there is no stage or layer 'frst0'; did you "
                                   "mean 'first0' or 'first1'?",
        "fuse=[['act0', 'hea']]": "fuse=['hea']: there is no stage or layer 'hea'; did you "
                                  "mean 'head'?",
        "cut=['4711']": "cut=['4711']: there is no stage or layer '4711'; the stages and layers "
                        "are 'first0', 'act0', 'first1', 'act1', 'flipped', 'u' and 10 more",
        "cut=['old']": "cut=['old']: layer old has no stage in a call: all of it is folded into "
                       "other layers or computed ahead; name a layer that is left, as "
                       "print(partition) shows them",
        "fuse=[['net.0', 'u']]": "fuse=['net.0', 'u']: the part of u is not adjacent to the part "
                                 "of first0: neither reads a result of the other\n"
                                 "  Name the stages between them, too.",
        "fuse=['net', 'u', 'head'], cut=['net']":
            "cut=['net'] with fuse=[...]: flipped, which reads act1, is fused with it\n"
            "  Leave net out of cut=, or one of them out of fuse=.",
    }.items():  # fmt: skip
        with pytest.raises(NetworkError) as refused:
            partition(out, layers=layers, **eval(f"dict({arguments})"))
        assert str(refused.value) == message


def test_refused_cuts_and_fusions() -> None:
    x = input_of(4, 8)
    a = dense(x, "alpha")
    b = dense(a, "beta")
    c = sl.named("gamma", topi.add(dense(b, "delta"), a))
    for arguments, message in {
        "cut=['bete']": "cut=['bete']: there is no stage 'bete'; did you mean 'beta'?",
        "cut=['nothing']": "cut=['nothing']: there is no stage 'nothing'; the stages are 'alpha', "
                           "'beta', 'delta', 'gamma'",
        "cut=['X']": "cut=['X']: X is an input, which no part computes; name a stage that reads it",
        "cut=[1]": "cut=[1]: give a list of names of stages or layers, as print(partition) shows "
                   "them",
        "fuse=[['alpha', 'delto']]": "fuse=['delto']: there is no stage 'delto'; did you "
                                     "mean 'delta'?",
        "fuse=3": "fuse=3: give a list of lists of names of stages or layers",
        "fuse=[['beta', 3]]": "fuse=['beta', 3]: give a list of names of stages or "
                              "layers, as print(partition) shows them",
        "fuse=['alpha', 'delta']": "fuse=['alpha', 'delta']: part beta reads a result of one of "
                                   "them, and another one needs its result, so that neither could "
                                   "run first\n  Name beta in the same group, too.",
        "fuse=[['beta', 'delta']], cut=['beta']":
            "cut=['beta'] with fuse=[...]: delta, which reads beta, is fused with it\n"
            "  Leave beta out of cut=, or one of them out of fuse=.",
    }.items():  # fmt: skip
        with pytest.raises(NetworkError) as refused:
            partition(c, **eval(f"dict({arguments})"))
        assert str(refused.value) == message
    with pytest.raises(NetworkError) as refused:
        partition([b, dense(x, "far")], fuse=[["beta", "far"]])
    assert str(refused.value) == (
        "fuse=['beta', 'far']: the part of far is not adjacent to the part of beta: neither "
        "reads a result of the other\n  Name the stages between them, too."
    )
    flipped = sl.named("flipped", topi.transpose(a))
    with pytest.raises(NetworkError) as refused:
        partition([dense(flipped, "u"), dense(flipped, "v")], fuse=[["flipped", "alpha"]])
    assert str(refused.value) == (
        "fuse=['flipped', ...]: flipped only moves elements, and is computed in each part that "
        "reads it: u, v\n  Name other stages of these parts."
    )
    tagger, _, _ = networks.tagger()
    with pytest.raises(NetworkError) as refused:
        partition(tagger, cut=["lstm0.lstm_next_c"])
    assert str(refused.value) == (
        "cut=['lstm0.lstm_next_c']: lstm0.lstm_next_c is a stage of scan lstm0.lstm, whose rows "
        "exist only inside of it\n  Cut after the scan: cut=['lstm0.lstm']."
    )


def test_refused_outputs_and_sizes() -> None:
    with pytest.raises(ComputeTypeError, match="partition"):
        partition(3)
    with pytest.raises(TuningError, match="there is no symbolic size 'n' in relu; it has none"):
        partition(topi.nn.relu(input_of(4)), sizes={"n": 3})


def test_the_parts_of_a_partition_by_name() -> None:
    found = partition(relu(dense(input_of(4, 8), "one"), "act"), layers={"one": "fc.<1>"})
    assert found["one"].layers == ("fc.<1>",) and len(found) == 1 and [*found] == [*found.parts]
    assert repr(found) == "<Partition: 1 parts of 2 stages>"
    with pytest.raises(MissingNameError, match="there is no part 'act'; stage act is in part one"):
        found["act"]
    with pytest.raises(MissingNameError, match="there is no part 'onee'; did you mean 'one'?"):
        found["onee"]
    assert str(found) == (
        "1 part of 2 stages\n"
        "part  kind     result           MFLOP   read  written  stages    layers\n"
        "one   product  float32[4, 8]  < 0.001  384 B    128 B  one, act  fc.<1>"
    )
    html = found._repr_mimebundle_()["text/html"]
    assert "fc.&lt;1&gt;" in html and "<1>" not in html


def test_the_graph_of_a_partition() -> None:
    x = input_of(4, 8)
    a = dense(x, "a")
    out = sl.named("sum", topi.add(dense(a, "b"), a))
    graph = partition(out).graph()
    assert [*graph.edges] == [("a", "b")]
    assert graph.graph["outputs"] == ("sum",)
    # the residual is read in the same part, so that it is moved once
    assert graph.edges["a", "b"]["bytes"] == 4 * 8 * 4
    node = graph.nodes["b"]
    assert node["stages"] == ("b", "sum") and node["flops"] == 2 * 4 * 8 * 8 + 4 * 8
    # weights, the result of a
    assert (node["read_bytes"], node["written_bytes"]) == (8 * 8 * 4 + 4 * 8 * 4, 4 * 8 * 4)
    assert node["part"].group.outputs[0].name == "sum"


def test_the_picture_of_a_partition() -> None:
    x = input_of(4, 8)
    a = dense(x, "a")
    rest = sl.named("rest", topi.exp(dense(a, "b")))
    flipped = sl.named("flipped", topi.transpose(input_of(16, 16, name="Y")))
    picture = sl.plot.partition(partition([sl.named("sum", topi.add(rest, a)), flipped]))
    assert [(box.name, box.lines, box.layer, box.output) for box in picture.data] == [
        ("a", ("float32[4, 8]", "512 FLOP", "1 stage"), 0, False),
        ("b", ("float32[4, 8]", "576 FLOP", "3 stages"), 1, True),
        ("flipped", ("float32[16, 16]", "moves 2048 B", "1 stage"), 0, True),
    ]  # fmt: skip
    assert "Blue are convolutions and products; grey stages that only move" in picture.caption
    with pytest.raises(PlotError, match="the network has 0 parts, and a picture 1 to 120"):
        sl.plot.partition(partition(x))
    with pytest.raises(ComputeTypeError, match=r"sl.plot.partition\(a\): give a partition"):
        sl.plot.partition(a)


def test_equal_parts_differ_in_names_alone() -> None:
    def network(sizes: list[int], dtype: str = "float32") -> Any:
        y: Any = sl.placeholder((4, sizes[0]), dtype, name="X")
        for k, size in enumerate(sizes[1:]):
            w = sl.placeholder((size, y.shape[1]), dtype, name=f"w{k}")
            y = relu(sl.named(f"fc{k}", topi.nn.dense(y, w)), f"act{k}")
        return y

    def names(out: Any) -> list[list[str]]:
        return [[part.name for part in same] for same in equal_parts(partition(out).parts)]

    assert names(network([8, 8, 8, 4, 4])) == [["fc0", "fc1"], ["fc2"], ["fc3"]]
    assert names([network([8, 8]), network([8, 8], "float64")]) == [["fc0"], ["fc0_1"]]
    out = network([8, 8])
    assert names([out, sl.named("more", topi.exp(dense(out, "last")))])[0] == ["fc0"]


def test_symbolic_sizes() -> None:
    n = sl.var("n")
    x, w = sl.placeholder((n, 8), name="X"), input_of(8, 8, name="W")
    out = topi.nn.softmax(relu(sl.named("fc", topi.nn.dense(x, w)), "act"))
    found = partition(out)
    assert [part.name for part in found] == ["fc", "softmax"]
    assert found["fc"].flops == 256 * (2 * 8 * 8 + 8)
    assert str(found).endswith("counted for n = 256")
    assert partition(out, sizes={"n": 2})["fc"].flops == 2 * (2 * 8 * 8 + 8)
    assert [*found.graph().edges(data="bytes")] == [("fc", "softmax", 256 * 8 * 4)]
    rng = np.random.default_rng(0)
    for size in (0, 1, 5):
        values = {t: rng.standard_normal((size, 8) if t is x else t.shape).astype("f4")
                  for t in (x, w)}  # fmt: skip
        known = networks.run_parts(found, values)
        np.testing.assert_array_equal(known[out], sl.reference(out)(values[x], values[w]))


def test_small_and_odd_networks() -> None:
    x = input_of(3)
    assert len(partition(x)) == 0
    assert str(partition(x)).splitlines()[0] == "0 parts of 0 stages"
    total = topi.sum(x)
    (part,) = partition([total, x, total])
    assert part.writes == (total,) and part.reads == (x,)
    empty = sl.placeholder((0, 4), name="E")
    out = topi.nn.relu(topi.nn.dense(empty, input_of(4, 4, name="W")))
    (part,) = partition(out)
    assert part.flops == 0 and part.written_bytes == 0
    constant = topi.full((3,), "float32", 1.0)
    assert stages(partition(constant)) == [("full",)]
    assert stages(partition(topi.add(constant, x))) == [("full", "add")]


def test_the_arguments_of_a_part_are_what_it_reads_and_writes() -> None:
    out, x, params = networks.mlp()
    known: dict[Any, np.ndarray] = {x: np.ones(x.shape, "f4"), **params}
    for part in partition(out):
        inputs = list(part.group.inputs)
        f = sl.build(sl.schedule(list(part.group.outputs)), [*inputs, *part.group.outputs],
                     target="python")  # fmt: skip
        made = f(*(known[t] for t in part.reads))
        known.update(zip(part.writes, made if isinstance(made, tuple) else (made,)))
    oracle = sl.reference(out)
    wanted = oracle(*(known[t] for t in oracle.inputs))
    np.testing.assert_allclose(known[out], wanted, rtol=1e-5)


def test_a_deep_network_needs_no_recursion_and_little_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    y: Any = input_of(4, 8)
    w = input_of(8, 8, name="W")
    for _ in range(350):
        y = topi.add(topi.nn.relu(topi.nn.dense(y, w)), y)
    partition(topi.nn.relu(input_of(4)))
    monkeypatch.setattr(sys, "setrecursionlimit", None)
    start = time.process_time()
    found = partition(y)
    seconds = time.process_time() - start
    assert found.stage_count == 1050 and len(found) == 350
    # a third of a second on a machine that does nothing else
    assert seconds < 3
    assert len(equal_parts(found.parts)) == 1


def check_random(index: int) -> None:
    """Compare the parts of a random computation, whole, cut and fused, with the oracle."""
    rng = Random(f"partition:{index}")
    g = random_graph(rng, complexes=0.1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        space = build(g)
        outputs = [space[name] for name in g.outputs]
        values = arrays(g, index, g.sizes)
        wanted = expected(outputs, values, g.sizes)
        scalars = {v.name: scalar(v, g.sizes) for v in variables(outputs)}
        inputs = {t: values[t.name] for t in placeholders(outputs)}
        found = partition(outputs)
        every = [name for part in found for name in part.stages]
        options: list[dict[str, Any]] = [
            {}, {"cut": [name for name in every if rng.random() < 0.3]},
            {"fuse": [rng.sample(every, min(2, len(every)))]},
        ]  # fmt: skip
        for option in options:
            try:
                found = partition(outputs, **option)
            except NetworkError as refused:
                reasons = ("rows exist", "adjacent", "run first", "only moves")
                assert option and any(why in str(refused) for why in reasons)
                continue
            known = networks.run_parts(found, inputs, **scalars)
            for t in outputs:
                got, want = known[t], wanted[t.name]
                if t.dtype == "bfloat16":
                    got, want = got.astype("f4"), want.astype("f4")
                np.testing.assert_array_equal(got, want)
            assert all(part.writes for part in found)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_random_computations(index: int) -> None:
    check_random(index)


@pytest.mark.slow
def test_many_random_computations() -> None:
    for index in range(400):
        check_random(index)
