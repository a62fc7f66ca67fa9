"""Schedules of topi's operators: by hand, and by TVM's names of automatic ones."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import schedlang as sl
from schedlang import te, topi
from tests.topi_cases import given, inputs_of, values


def test_a_convolution_fused_by_hand() -> None:
    """A convolution, a bias and relu in one nest: attached, inlined, vectorized and parallel."""
    A, W, b = given(A=(1, 8, 10, 10), W=(16, 8, 3, 3), b=(16,))
    conv = topi.nn.conv2d_nchw(A, W, 1, 1, 1)
    biased = topi.add(conv, topi.expand_dims(b, 1, 2))
    out = topi.nn.relu(biased)
    s = sl.schedule(out)
    for tensor in (biased, biased.op.input_tensors[1]):
        s[tensor].compute_inline()
    n, f, y, x = s[out].op.axis
    outer, inner = s[out].split(f, factor=8)
    s[out].reorder(n, outer, y, inner, x)
    s[conv].compute_at(s[out], y)
    s[conv].vectorize(s[conv].op.axis[3])
    s[out].vectorize(x)
    s[out].parallel(outer)
    (padded, _) = conv.op.input_tensors
    s[padded].compute_at(s[out], y)
    nest = str(s)
    assert "conv2d_nchw: float32[1, 8, 1, 10]" in nest and nest.count("parallel") == 1
    data = values(A, W, b)
    f_ = sl.build(s, target="python")
    np.testing.assert_allclose(f_(**data), sl.reference(out)(**data), rtol=1e-5, atol=1e-5)


def test_attention_by_tiles_of_rows() -> None:
    """A tile of scores is computed where its rows are: no scores of the whole sequence exist."""
    q, k, v = given(q=(1, 16, 2, 4), k=(1, 12, 2, 4), v=(1, 12, 2, 4))
    out = topi.nn.attention(q, k, v)
    weighted, rows = out.op.input_tensors
    masked = rows.op.input_tensors[0]
    (scores,) = masked.op.input_tensors
    s = sl.schedule(out)
    b, i, h, c = s[out].op.axis
    tile, row = s[out].split(i, factor=4)
    s[out].reorder(b, h, tile, row, c)
    s[masked].compute_inline()
    for stage in (weighted, rows, scores):
        s[stage].compute_at(s[out], tile)
    s[out].parallel(h)
    assert "attention_scores: float32[1, 1, 4, 12]" in str(s)
    data = values(q, k, v)
    f = sl.build(s, target="python")
    np.testing.assert_allclose(f(**data), sl.reference(out)(**data), rtol=1e-5, atol=1e-5)


def test_unrolled_winograd_has_no_choices() -> None:
    """The choice between rows of a transform is settled where its axis is unrolled."""
    A, W = given(A=(1, 4, 4, 4), W=(4, 4, 3, 3))
    out = topi.nn.conv2d_winograd_nchw(A, W, 1, 1, 1, tile_size=2)
    s = sl.schedule(out)
    assert sl.build(s, target="python").source.count("select(") > 10
    for stage in s.stages:
        if stage.op.name.startswith("winograd_") and stage.op.name != "winograd_products":
            for axis in stage.op.axis[:2]:
                stage.unroll(axis)
    f = sl.build(s, target="python")
    assert "select(" not in f.source.split("def ", 1)[1]
    data = inputs_of(out)
    np.testing.assert_allclose(f(**data), sl.reference(out)(**data), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("place", [topi.generic, topi.x86, topi.cuda])
def test_schedules_by_name(place: object) -> None:
    A, W = given(A=(4, 40), W=(8, 40))
    out = topi.nn.softmax(topi.nn.dense(A, W))
    s = place.schedule_dense([out])  # type: ignore[attr-defined]
    data = values(A, W)
    bound = {step.primitive for step in s.steps} & {"bind"}
    assert bool(bound) == (place is topi.cuda)
    if place is topi.cuda:
        return
    f = sl.build(s, target="python")
    np.testing.assert_allclose(f(**data), sl.reference(out)(**data), rtol=1e-5, atol=1e-6)


def test_schedules_follow_the_present_target() -> None:
    (A,) = given(A=(4, 40))
    with sl.Target("cuda", arch="sm_80"):
        s = topi.generic.schedule_reduce(topi.sum(A, 1))
    assert "bind" in {step.primitive for step in s.steps}
    assert topi.x86.conv2d_nchw is topi.nn.conv2d_nchw
    assert "schedule_injective" in dir(topi.cuda) and "softmax" in dir(topi.cuda)


def test_lower_adds_outputs_that_are_left_out() -> None:
    (A,) = given(A=(4,))
    s = te.create_schedule(topi.exp(A).op)
    assert str(sl.lower(s, [A])) == str(sl.lower(s))
    with pytest.raises(sl.errors.LoweringError, match="exp is missing from the arguments"):
        sl.build(s, [A])


def test_every_name_is_listed_in_the_documentation() -> None:
    docs = Path(__file__).parent.parent / "docs"
    page = (docs / "reference" / "topi.md").read_text(encoding="utf-8")
    modules = {"topi": topi, "topi.nn": topi.nn, "topi.image": topi.image,
               "topi.sparse": topi.sparse, "topi.utils": topi.utils}  # fmt: skip
    for place, module in modules.items():
        for name in module.__all__:
            listed = f"topi.{name}" if isinstance(getattr(module, name), ModuleType) else name
            assert f"`{listed}`" in page, f"{place}.{name}"


def test_the_automatic_scheduler_unrolls_choices() -> None:
    """Stages whose small axes choose between sums keep loops of their own, and unroll these."""
    A, U = given(A=(1, 16, 12, 12), U=(4, 4, 16, 16))
    out = topi.nn.conv2d_winograd_nchw_without_weight_transform(A, U, 1, 1, 1)
    s = sl.autoschedule(out, "cpu")
    steps = {(step.primitive, step.stage) for step in s.steps}
    for stage in ("winograd_rows", "winograd_data", "winograd_columns", "winograd_tiles"):
        assert ("unroll", stage) in steps and ("compute_inline", stage) not in steps


@pytest.mark.parametrize("kept", [False, True])
def test_traverse_inline_goes_from_a_result_to_its_producers(kept: bool) -> None:
    A, W = given(A=(1, 3, 6, 6), W=(4, 3, 3, 3))
    conv = topi.nn.conv2d_nchw(A, W, 1, 1, 1)
    half = topi.multiply(conv, 0.5)
    out = topi.nn.relu(half)
    s = sl.schedule([out, half] if kept else out)
    visits: list[str] = []
    topi.utils.traverse_inline(s, out.op, lambda op: visits.append(op.name))
    assert visits == ["conv2d_nchw", half.name, out.name]
    inlined = {step.stage for step in s.steps if step.primitive == "compute_inline"}
    assert inlined == (set() if kept else {half.name})


def test_extents_of_utils() -> None:
    n, utils = sl.var("n"), topi.utils
    assert utils.prod((2, n, 3)).__str__() == "2*n*3" and utils.prod(()) == 1
    assert utils.equal_const_int(3, 3) and not utils.equal_const_int(n, 3)
    assert utils.simplify(te.const(3, "int32")) == 3 and utils.simplify(n) is n
