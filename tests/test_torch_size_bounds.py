"""Sizes with the bounds of a ``torch.export.Dim``: every call checks them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl

torch = pytest.importorskip("torch", reason="imports modules of PyTorch: the extra torch")

from schedlang.errors import CallError, FrontendError  # noqa: E402
from schedlang.frontend import from_torch  # noqa: E402

Dim = torch.export.Dim


class Few(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return x * 2 if x.shape[0] <= 10 else x * 3


class Many(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return x * 2 if x.shape[0] >= 4 else x * 3


class Unread(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any, y: Any) -> Any:
        return y * 2 if x.shape[0] <= 10 else y * 3


class OfOne(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return x * 2 if x.shape[0] == 1 else x * 3


class Squeezed(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return (x * 3).squeeze(0)


class SqueezedInPlace(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return (x * 3).squeeze_(0)


class OfOneElement(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return x * 2 if x.numel() == 1 else x * 3


class OfNone(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return torch.zeros(1, 4) if x.shape[0] == 0 else x * 3


class WithoutBranch(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return x * 3 if x.shape[0] < 1 or x.shape[1] == 4 else x


class Positions(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.arange(64.0).reshape(16, 4))

    def forward(self, x: Any) -> Any:
        return x + self.table[: x.shape[0]]


def rows(count: int) -> Any:
    return np.arange(4.0 * count, dtype="float32").reshape(count, 4)


def few(**options: Any) -> Any:
    return from_torch(Few(), (torch.ones(5, 4),), **options)


BELOW, ABOVE = "t must be 4 or more", "t must be 10 or less"


@pytest.mark.parametrize(
    "module, dim, right, wrong, rule",
    [
        (Few(), Dim("t", max=10), (0, 1, 10), (11, 16), ABOVE),
        (Many(), Dim("t", min=4), (4, 16), (0, 1, 3), BELOW),
    ],
    ids=["at most", "at least"],
)
def test_a_branch_that_a_bound_chooses_is_all_that_runs(
    module: Any, dim: Any, right: tuple[int, ...], wrong: tuple[int, ...], rule: str
) -> None:
    model = from_torch(module, (torch.ones(5, 4),), dynamic_shapes=[{0: dim}])
    net = sl.network(model, target="python", database=None)
    kernel = sl.build(sl.schedule(model.outputs[0]), target="python")
    for run in (model.reference, net, kernel):
        for count in right:
            assert np.array_equal(run(rows(count)), rows(count) * 2)
        for count in wrong:
            with pytest.raises(CallError, match=f"t is {count}.*, but {rule}"):
                run(rows(count))


@pytest.mark.parametrize(
    "module",
    [
        OfOne(),
        pytest.param(Squeezed(), marks=pytest.mark.slow),
        pytest.param(SqueezedInPlace(), marks=pytest.mark.slow),
    ],
    ids=["if", "squeeze", "squeeze in place"],
)
def test_a_branch_for_one_that_pytorch_leaves_out(module: Any) -> None:
    """PyTorch takes symbolic sizes for 2 or more, and exports no guard."""
    model = from_torch(module, (torch.ones(5, 4),), dynamic_shapes=[{0: Dim("t")}])
    assert np.array_equal(model.reference(rows(2)), rows(2) * 3)
    with pytest.raises(CallError, match="t is 1, but t must be 2 or more"):
        model.reference(rows(1))
    # a number is exported as it is
    fixed = from_torch(module, (torch.ones(1, 4),)).reference(rows(1))
    assert np.array_equal(fixed, module(torch.tensor(rows(1))).numpy())
    own = sl.placeholder((sl.var("t"), 4), name="x")
    told = r"size t at test_torch_size_bounds.py:\d+: .*: t of 1 takes another branch there"
    with pytest.raises(FrontendError, match=told):
        from_torch(module, (own,))


class MeanOfRows(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return x.sum(0) * 0 + max(x.shape[0], 1)


@pytest.mark.slow
def test_a_larger_number_than_a_size_of_zero() -> None:
    model = from_torch(MeanOfRows(), (torch.ones(5, 4),), batch="n")
    for count in (1, 2, 5):
        assert np.array_equal(model.reference(rows(count)), np.full(4, count, "float32"))
    with pytest.raises(CallError, match="n is 0, but n must be 1 or more"):
        model.reference(rows(0))


def test_a_branch_for_zero() -> None:
    model = from_torch(OfNone(), (torch.ones(5, 4),), batch="n")
    for count in (1, 2, 5):
        assert np.array_equal(model.reference(rows(count)), rows(count) * 3)
    with pytest.raises(CallError, match="n is 0, but n must be 1 or more"):
        model.reference(rows(0))


@pytest.mark.slow
def test_a_branch_for_one_element() -> None:
    dims = [{0: Dim("h"), 1: Dim("w")}]
    model = from_torch(OfOneElement(), (torch.ones(5, 4),), dynamic_shapes=dims)
    assert np.array_equal(model.reference(rows(2)), rows(2) * 3)
    with pytest.raises(CallError, match="must be 2 or more"):
        model.reference(rows(1)[:, :1])


def test_a_module_without_a_branch_for_one_takes_one() -> None:
    model = from_torch(WithoutBranch(), (torch.ones(5, 4),), batch="n")
    assert np.array_equal(model.reference(rows(1)), rows(1) * 3)


@pytest.mark.slow
def test_an_input_that_nothing_reads_has_its_bound() -> None:
    dims = [{0: Dim("t", max=10)}, {}]
    model = from_torch(Unread(), (torch.ones(5, 4),) * 2, dynamic_shapes=dims)
    net = sl.network(model, target="python", database=None)
    for run in (model.reference, net):
        assert np.array_equal(run(rows(10), rows(5)), rows(5) * 2)
        with pytest.raises(CallError, match=f"t is 16.*, but {ABOVE}"):
            run(rows(16), rows(5))


class LaterPositions(Positions):
    def forward(self, x: Any) -> Any:
        return x + self.table[2 : x.shape[0] + 2]


@pytest.mark.slow
def test_a_table_from_a_later_row_on() -> None:
    module = LaterPositions()
    model = from_torch(module, (torch.ones(5, 4),), dynamic_shapes=[{0: Dim("t", max=14)}])
    net = sl.network(model, target="python", database=None)
    table = module.table.detach().numpy()
    for count in (1, 5, 14):
        assert np.array_equal(net(rows(count)), rows(count) + table[2 : count + 2])
    with pytest.raises(CallError, match="t is 15.*, but t must be 14 or less"):
        net(rows(15))


@pytest.mark.slow
def test_a_table_with_more_rows_than_the_bound() -> None:
    """PyTorch was told of 10 rows, so that 16 are refused, although the table has them."""
    module = Positions()
    model = from_torch(module, (torch.ones(5, 4),), dynamic_shapes=[{0: Dim("t", max=10)}])
    net = sl.network(model, target="python", database=None)
    table = module.table.detach().numpy()
    assert np.array_equal(net(rows(10)), rows(10) + table[:10])
    with pytest.raises(CallError, match=f"t is 16.*, but {ABOVE}"):
        net(rows(16))


OTHER_BOUNDS = [{0: Dim("t", max=10)}, {0: Dim("t", max=9)}]


def test_a_name_has_one_pair_of_bounds() -> None:
    with pytest.raises(FrontendError, match="bounds the size t in two ways; give one"):
        from_torch(Unread(), (torch.ones(5, 4),) * 2, dynamic_shapes=OTHER_BOUNDS)
    own = sl.placeholder((sl.var("t"), 4), name="x")
    with pytest.raises(FrontendError, match=r"sl.var\('t'\), which has no bounds\n  Give a number"):
        from_torch(Few(), (own,), dynamic_shapes=[{0: Dim("t", max=10)}])


@pytest.mark.slow
def test_a_batch_of_another_name_has_no_bound() -> None:
    with pytest.raises(FrontendError, match="only for n of at most 10"):
        few(batch="n", dynamic_shapes=[{0: Dim("t", max=10)}])
    bounded = few(batch="t", dynamic_shapes=[{0: Dim("t", max=10)}])
    with pytest.raises(CallError, match=f"t is 11, but {ABOVE}"):
        bounded.reference(rows(11))


@pytest.mark.slow
def test_saved_networks_and_programs_of_c_check_the_bounds(tmp_path: Path) -> None:
    model = few(dynamic_shapes=[{0: Dim("t", min=3, max=10)}])
    net = sl.network(model, database=None)
    net.save(tmp_path / "python")
    kernel = sl.build(sl.schedule(model.outputs[0]), target="c")
    kernel.save(tmp_path / "kernel.so")
    runs = [
        net,
        sl.load(tmp_path / "python"),
        sl.network(model, target="c", database=None),
        kernel,
        sl.load_module(tmp_path / "kernel.so"),
        sl.network(model, target="cuda-emulator", database=None),
    ]
    for run in runs:
        for count in (3, 10):
            assert np.array_equal(run(rows(count)), rows(count) * 2)
        for count, rule in ((2, "t must be 3 or more"), (16, ABOVE)):
            with pytest.raises(CallError, match=f"t is {count}.*, but {rule}"):
                run(rows(count))
    net.save(tmp_path / "c", target="c")
    assert "t < 3 || t > 10" in (tmp_path / "c" / "network.c").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["network", "kernel"])
def test_files_that_run_alone_check_the_bounds(name: str, tmp_path: Path) -> None:
    model = few(dynamic_shapes=[{0: Dim("t", min=3, max=10)}])
    if name == "network":
        sl.network(model, database=None).save(tmp_path)
    else:
        schedule = sl.schedule(model.outputs[0])
        sl.build(schedule, name="kernel").save(tmp_path / "kernel.py")
    program = f"""
import numpy as np
from {name} import {name}
for count in (10, 2, 16):
    try:
        print({name}(np.ones((count, 4), "float32")).sum())
    except ValueError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    says = ["80.0", "t is 2, but t must be 3 or more", f"t is 16, but {ABOVE}"]
    assert done.stdout.splitlines() == says
