"""Forms of convolutions by the times of their kernels: what a database says is what is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.autotune.database import Database
from schedlang.autotune.record import Trial, Where
from schedlang.compute.tensor import Tensor
from schedlang.networks.forms import Forms, all_forms, parts_of
from schedlang.networks.partition import Part
from schedlang.networks.sources import OfModel

TARGET = sl.Target("python")


def model(channels: int = 16, edge: int = 7) -> tuple[Tensor, dict[Tensor, np.ndarray]]:
    """Return a convolution of few tiles, direct by the rule, and its weights."""
    x = sl.placeholder((1, channels, edge, edge), name="x")
    w = sl.placeholder((channels, channels, 3, 3), name="w")
    rng = np.random.default_rng(0)
    arrays = {w: rng.standard_normal(w.shape).astype("float32")}
    return topi.nn.relu(sl.named("conv", topi.nn.conv2d_nchw(x, w, 1, 1, 1))), arrays


def image(channels: int = 16, edge: int = 7) -> np.ndarray:
    return np.random.default_rng(1).random((1, channels, edge, edge), "float32")


def forms_of(out: Tensor, arrays: dict[Tensor, np.ndarray]) -> Forms:
    source = sl.network(out, arrays, target=TARGET)._source
    assert isinstance(source, OfModel)
    found = source.forms(TARGET)
    assert found is not None
    return found


def timed(
    database: Database, forms: Forms, seconds: Callable[[int, Part], float | None],
    machine: Callable[[int], str] = lambda form: "a processor, 2 cores",
) -> None:  # fmt: skip
    """Write a time for each kernel of the convolution in each form."""
    for form in (0, 2):
        for part in parts_of("conv", forms.of(form, "conv")):
            outputs = part.group.outputs
            where = replace(Where.here(outputs, sl.Target("cpu"), {}), machine=machine(form))
            time = seconds(form, part)
            if time is not None:
                steps = sl.schedule(list(outputs)).to_json()
                database.add(where, part.name, Trial(0, "ok", steps, seconds=time), outputs)


def has_products(net: sl.Network) -> bool:
    return any(part.name == "conv_products" for part in net.partition)


def expected(out: Tensor, arrays: dict[Tensor, np.ndarray], x: np.ndarray) -> np.ndarray:
    found: np.ndarray = sl.reference(out)(x, *arrays.values())
    return found


def test_all_forms() -> None:
    found = forms_of(*model())
    assert found.rule == {"conv": 0} and found.open == {"conv": (0, 2)}
    assert [part.name for part in parts_of("conv", found.of(0, "conv"))] == ["conv"]
    by_tiles = [part.name for part in parts_of("conv", found.of(2, "conv"))]
    assert by_tiles == ["conv_data", "conv_products", "relu"]


@pytest.mark.parametrize("direct, of_tiles, tiles_win", [
    (9.0, 1.0, True),
    # three kernels of one second are slower, or too close to say
    (2.0, 1.0, False),
    (3.05, 1.0, False),
])  # fmt: skip
def test_the_fastest_form_is_taken(
    tmp_path: Path, direct: float, of_tiles: float, tiles_win: bool
) -> None:
    out, arrays = model()
    database = Database(tmp_path / "trials.jsonl")
    timed(database, forms_of(out, arrays), lambda form, part: of_tiles if form else direct)
    net = sl.network(out, arrays, target=TARGET, database=database)
    assert has_products(net) is tiles_win
    np.testing.assert_allclose(net(image()), expected(out, arrays, image()), rtol=1e-4, atol=1e-4)
    # an option, overrides and other databases leave the rule's form
    assert not has_products(sl.network(out, arrays, TARGET, database=database, winograd=False))
    assert not has_products(sl.network(out, arrays, TARGET, database=database, cut=["conv"]))
    assert not has_products(sl.network(out, arrays, TARGET, database=tmp_path / "other.jsonl"))


def test_times_that_are_not_all_there(tmp_path: Path) -> None:
    out, arrays = model()
    forms = forms_of(out, arrays)
    lacking = Database(tmp_path / "lacking.jsonl")
    timed(lacking, forms, lambda form, part: None if part.name == "conv_products" else 9.0 - form)
    assert not has_products(sl.network(out, arrays, TARGET, database=lacking))
    apart = Database(tmp_path / "apart.jsonl")
    timed(apart, forms, lambda form, part: 0.1 if form else 9.0, lambda form: f"processor {form}")
    assert not has_products(sl.network(out, arrays, TARGET, database=apart))


def test_a_search_of_all_forms(tmp_path: Path) -> None:
    out, arrays = model()
    net = sl.network(out, arrays, database=tmp_path / "trials.jsonl")
    found = net.tune(trials=1, progress=False)
    names = {tuned.work.name for tuned in found.searches}
    assert {"conv", "conv_products as F(2x2, 3x3)"} <= names and found.complete
    # the parts of the result are those of the network that it leaves
    assert sorted(name for t in found.searches for name in t.work.parts) == sorted(
        part.name for part in net.partition
    )
    assert found.seconds is not None and found.seconds > 0
    np.testing.assert_allclose(net(image()), expected(out, arrays, image()), rtol=1e-4, atol=1e-4)
    again = net.tune(trials=2, progress=False)
    # it has run, and its weights are those of one form
    assert {t.work.name for t in again.searches} == {part.name for part in net.partition}
    np.testing.assert_allclose(net(image()), expected(out, arrays, image()), rtol=1e-4, atol=1e-4)


def test_forms_that_another_process_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A module from the cache has the weights of its own forms, whatever is tuned meanwhile."""
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    out, arrays = model()
    database = Database(tmp_path / "trials.jsonl")
    database.check_writable()
    sl.network(out, arrays, database=database)(image())
    net = sl.network(out, arrays, database=database)
    wanted = expected(out, arrays, image())
    np.testing.assert_allclose(net(image()), wanted, rtol=1e-4, atol=1e-4)
    timed(database, forms_of(out, arrays), lambda form, part: 0.1 if form else 9.0)
    assert has_products(net)
    np.testing.assert_allclose(net(image()), wanted, rtol=1e-4, atol=1e-4)
    assert {weight.shape[:2] for weight in net.weights.values()} >= {(4, 4)}


def test_all_forms_asks_once_for_each_division() -> None:
    asked: list[int] = []
    out, arrays = model()
    source = sl.network(out, arrays, target=TARGET)._source
    assert isinstance(source, OfModel)

    def divide(form: Callable) -> object:
        asked.append(1)
        return source._divided(TARGET, form)

    all_forms(divide)  # type: ignore[arg-type]
    assert len(asked) == 2
