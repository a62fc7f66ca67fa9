"""Forms of convolutions by the times of their kernels: what a database says is what is taken."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.autotune.at_once.plain import plain_schedule
from schedlang.autotune.database import Database
from schedlang.autotune.model.problems import problem_of
from schedlang.autotune.record import Trial, Where
from schedlang.compute.tensor import Tensor
from schedlang.errors import BuildError, TuningError
from schedlang.networks.forms import Forms, all_forms
from schedlang.networks.network import Network
from schedlang.networks.partition import Part
from schedlang.networks.plan import Plan
from schedlang.networks.sources import OfModel
from schedlang.networks.tuning import Tuned, Work, works_of
from schedlang.runtime.cache_files import MODULE, contents, store
from schedlang.tvm.topi.nn.winograd import winograd_matrices

pytestmark = pytest.mark.slow

# the choice of a form depends on the width of vectors
TARGET, CPU = (sl.Target(kind, vector_bytes=64) for kind in ("python", "cpu"))
MACHINE = "a processor, 2 cores"


def model(
    channels: int = 16, edge: int = 7, images: int = 1
) -> tuple[Tensor, dict[Tensor, np.ndarray]]:
    """Return a convolution, by default of few tiles and direct by the rule, and its weights."""
    x = sl.placeholder((images, channels, edge, edge), name="x")
    w = sl.placeholder((channels, channels, 3, 3), name="w")
    rng = np.random.default_rng(0)
    arrays = {w: rng.standard_normal(w.shape).astype("float32")}
    return topi.nn.relu(sl.named("conv", topi.nn.conv2d_nchw(x, w, 1, 1, 1))), arrays


def image(channels: int = 16, edge: int = 7) -> np.ndarray:
    return np.random.default_rng(1).random((1, channels, edge, edge), "float32")


def forms_of(out: Tensor, arrays: dict[Tensor, np.ndarray], target: sl.Target = TARGET) -> Forms:
    source = sl.network(out, arrays, target=target)._compiled.source
    assert isinstance(source, OfModel)
    found = source.forms(target, Plan())
    assert found is not None
    return found


def record(
    database: Database, part: Part, seconds: float, machine: str = MACHINE, target: sl.Target = CPU
) -> None:
    """Write the time of a kernel, of a schedule with few steps or none."""
    outputs = part.group.outputs
    where = replace(Where.here(outputs, target, {}), machine=machine)
    on_gpu = target.facts.binds_threads
    schedule = (
        plain_schedule(problem_of(outputs, target, {})) if on_gpu else sl.schedule(list(outputs))
    )
    trial = Trial(0, "ok", schedule.to_json(), seconds=seconds)
    database.add(where, part.name, trial, outputs)


def timed(
    database: Database, forms: Forms, seconds: Callable[[int, Part], float | None],
    machine: Callable[[int], str] = lambda form: MACHINE,
) -> None:  # fmt: skip
    """Write a time for each kernel of the convolution in each form."""
    for form in forms.open["conv"]:
        for part in forms.parts("conv", form):
            time = seconds(form, part)
            if time is not None:
                record(database, part, time, machine(form))


def has_products(net: Network) -> bool:
    return any(part.name == "conv_products" for part in net.partition)


def expected(out: Tensor, arrays: dict[Tensor, np.ndarray], x: np.ndarray) -> np.ndarray:
    found: np.ndarray = sl.reference(out)(x, *arrays.values())
    return found


def test_all_forms() -> None:
    found = forms_of(*model())
    assert found.rule == {"conv": 0} and found.open == {"conv": (0, 2)}
    assert [part.name for part in found.parts("conv", 0)] == ["conv"]
    by_tiles = [part.name for part in found.parts("conv", 2)]
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
    # names in a search say the form where it is another one than that of the network
    names = {"conv_data", "conv_products", "relu"}
    wanted = {*names, "conv as direct"}
    if not tiles_win:
        wanted = {"conv", *(f"{name} as F(2x2, 3x3)" for name in names)}
    assert {work.name for work in works_of(net.partition, forms_of(out, arrays), TARGET)} == wanted
    np.testing.assert_allclose(net(image()), expected(out, arrays, image()), rtol=1e-4, atol=1e-4)
    # an option, overrides and other databases leave the rule's form
    assert not has_products(sl.network(out, arrays, TARGET, database=database, winograd=False))
    assert not has_products(sl.network(out, arrays, TARGET, database=database, cut=["conv"]))
    assert not has_products(sl.network(out, arrays, TARGET, database=tmp_path / "other.jsonl"))


@pytest.mark.parametrize("fastest", [0, 2, 4])
def test_forms_beside_small_tiles_by_the_rule(tmp_path: Path, fastest: int) -> None:
    out, arrays = model(32, images=3)
    forms = forms_of(out, arrays)
    assert forms.rule == {"conv": 2} and forms.open == {"conv": (2, 0, 4)}
    assert sl.network(out, arrays, target=TARGET)._compiled.parts.forms == {"conv": 2}
    database = Database(tmp_path / "trials.jsonl")
    timed(database, forms, lambda form, part: 1.0 if form == fastest else 9.0)
    net = sl.network(out, arrays, target=TARGET, database=database)
    assert net._compiled.parts.forms == {"conv": fastest}
    names = {0: "direct", 2: "F(2x2, 3x3)", 4: "F(4x4, 3x3)"}
    others = {f"as {name}" for form, name in names.items() if form != fastest}
    unused = {work.name for work in works_of(net.partition, forms, TARGET) if not work.used}
    assert {f"as {name.partition(' as ')[2]}" for name in unused} == others


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


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a cache folder of this test alone."""
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make each search return at once, and return the names of what was searched."""
    seen: list[str] = []

    def one(work: Work, *rest: object) -> Tuned:
        seen.append(work.name)
        return Tuned(work, 1.0, 1)

    monkeypatch.setattr("schedlang.networks.tuning._one", one)
    return seen


def runs_products(net: Network) -> bool:
    """Return whether the module that runs computes products of tiles."""
    return any(call.name == "conv_products" for call in net.module.calls)


def test_forms_that_another_process_chose(cache: Path) -> None:
    """A network that has run keeps its forms, whatever is tuned meanwhile; a new one does not."""
    out, arrays = model()
    database = Database(cache / "trials.jsonl")
    database.check_writable()
    ran = sl.network(out, arrays, TARGET, database=database)
    ran(image())
    divided = sl.network(out, arrays, TARGET, database=database, name="divided")
    assert not has_products(divided)
    started = sl.network(out, arrays, TARGET, database=database)
    wanted = expected(out, arrays, image())
    np.testing.assert_allclose(started(image()), wanted, rtol=1e-4, atol=1e-4)
    timed(database, forms_of(out, arrays), lambda form, part: 0.1 if form else 9.0)
    for net in (ran, started, divided):
        assert not runs_products(net) and not has_products(net)
        np.testing.assert_allclose(net(image()), wanted, rtol=1e-4, atol=1e-4)
    # nor does the cache have what they run, under the times of now
    for name in ("network", "divided"):
        net = sl.network(out, arrays, TARGET, database=database, name=name)
        assert runs_products(net) and has_products(net)
        np.testing.assert_allclose(net(image()), wanted, rtol=1e-4, atol=1e-4)
        assert {weight.shape[:2] for weight in net.weights.values()} >= {(4, 4)}
        started = sl.network(out, arrays, TARGET, database=database, name=name)
        assert runs_products(started) and started._compiled.divided is None
        assert has_products(started)


def test_a_call_while_forms_are_searched(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """It packs the weights, which are nowhere else any more."""
    out, arrays = model()
    database = Database(cache / "trials.jsonl")
    timed(database, forms_of(out, arrays), lambda form, part: 0.1 if form else 9.0)
    net = sl.network(out, arrays, TARGET, database=cache / "other.jsonl")
    wanted = expected(out, arrays, image())

    def one(work: Work, *rest: object) -> Tuned:
        np.testing.assert_allclose(net(image()), wanted, rtol=1e-4, atol=1e-4)
        return Tuned(work, 1.0, 1)

    monkeypatch.setattr("schedlang.networks.tuning._one", one)
    found = net.tune(database=database, progress=False)
    assert found.complete and found.seconds == 1.0 and not has_products(net)
    np.testing.assert_allclose(net(image()), wanted, rtol=1e-4, atol=1e-4)
    assert runs_products(sl.network(out, arrays, TARGET, database=database))


@pytest.mark.parametrize("before", ["a call", "a schedule", "the cache"])
def test_arrays_that_change_after_a_call(
    cache: Path, searched: list[str], before: str
) -> None:  # fmt: skip
    """Neither a search nor other times read them again."""
    out, arrays = model()
    mine = {tensor: array.copy() for tensor, array in arrays.items()}
    database, other = Database(cache / "trials.jsonl"), cache / "other.jsonl"
    timed(database, forms_of(out, arrays), lambda form, part: 0.1 if form else 9.0)
    if before == "the cache":
        sl.network(out, mine, TARGET, database=other)(image())
    net = sl.network(out, mine, TARGET, database=other)
    if before == "a schedule":
        net.reschedule("conv", sl.schedule(net.partition["conv"].group.outputs))
    wanted = net(image())
    for array in mine.values():
        array[:] = 0
    for _ in range(2):
        found = net.tune(database=database, progress=False)
        assert found.complete and searched == ["conv"] and not has_products(net)
        np.testing.assert_allclose(net(image()), wanted, rtol=1e-4, atol=1e-4)
        searched.clear()
    # the cache has no weights of other arrays
    fresh = sl.network(out, mine, TARGET, database=database)
    assert not np.any(fresh(image()))
    assert np.any(sl.network(out, arrays, TARGET, database=database)(image()))


def test_arrays_that_change_before_the_first_call_are_not_in_the_cache(cache: Path) -> None:
    out, arrays = model()
    (w,) = arrays
    sl.network(out, {w: arrays[w] + 1}, TARGET)(image())
    mine = arrays[w].copy()
    net = sl.network(out, {w: mine}, TARGET)
    # the source comes from the cache, the weights do not
    assert "conv" in net.source
    mine[:] = 0
    assert not np.any(net(image()))
    again = sl.network(out, arrays, TARGET)
    np.testing.assert_allclose(again(image()), expected(out, arrays, image()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "forms",
    ['{"conv": 2}', '{"conv": 3}', '{"conv": true}', "[2]", "{}"],
)
def test_forms_in_the_cache_that_were_changed(cache: Path, forms: str) -> None:
    out, arrays = model()
    sl.network(out, arrays, TARGET)(image())
    (entry,) = (cache / "cache" / "networks").glob("*.json")
    content = contents(MODULE, entry)
    assert content is not None and b'"forms": {"conv": 0}' in content
    store(MODULE, entry, content.replace(b'{"conv": 0}', forms.encode()))
    net, wanted = sl.network(out, arrays, TARGET), expected(out, arrays, image())
    for _ in range(2):
        np.testing.assert_allclose(net(image()), wanted, rtol=1e-4, atol=1e-4)
        assert has_products(net) is (forms == '{"conv": 2}') is runs_products(net)


def chain() -> tuple[Tensor, dict[Tensor, np.ndarray]]:
    """Return two convolutions, by tiles one kernel computes stages of both, and their weights."""
    out, arrays = model()
    w = sl.placeholder((16, 16, 3, 3), name="w2")
    arrays = {**arrays, w: next(iter(arrays.values()))}
    return topi.nn.relu(sl.named("last", topi.nn.conv2d_nchw(out, w, 1, 1, 1))), arrays


def test_kernels_that_only_the_choice_makes_are_searched(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    out, arrays = chain()
    database = Database(cache / "trials.jsonl")
    net = sl.network(out, arrays, TARGET, database=database)
    slow = {"conv", "last_products as F(2x2, 3x3)"}

    def one(work: Work, *rest: object) -> Tuned:
        where = replace(Where.here(work.outputs, CPU, {}), machine="one, 2 cores")
        seconds = 9.0 if work.name in slow else 1.0
        steps = sl.schedule(list(work.outputs)).to_json()
        database.add(where, work.name, Trial(0, "ok", steps, seconds=seconds), work.outputs)
        return Tuned(work, seconds, 1)

    monkeypatch.setattr("schedlang.networks.tuning._one", one)
    found = net.tune(progress=False)
    # the results of tiles are transformed alone, without the data of the next convolution
    assert [part.name for part in net.partition] == ["conv_data", "conv_products", "relu", "last"]
    assert {kernel.origin for kernel in net.kernels} == {"database"}
    assert found.complete and found.seconds == 4.0
    assert {t.work.name for t in found.searches if t.work.parts} == {
        "conv_data as F(2x2, 3x3)", "conv_products as F(2x2, 3x3)", "relu", "last",
    }  # fmt: skip
    np.testing.assert_allclose(net(image()), expected(out, arrays, image()), rtol=1e-3, atol=1e-3)
    # a search that ends before some of them has no time of a call
    monkeypatch.setattr("schedlang.networks.tuning._one", lambda work, *_: Tuned(
        work, 1.0, 1, interrupted=work.name == "last"))  # fmt: skip
    short = sl.network(out, arrays, TARGET, database=database, name="short").tune(progress=False)
    assert short.seconds is None and "interrupted" in str(short)


def test_a_call_has_a_time_though_other_forms_have_none(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("schedlang.networks.tuning._one", lambda work, *_: Tuned(
        work, 2.0, 1, interrupted=not work.used))  # fmt: skip
    net = sl.network(*model(), TARGET, database=cache / "trials.jsonl")
    found = net.tune(progress=False)
    assert found.ended.startswith("interrupted before ") and found.seconds == 2.0
    assert "the kernels of a call take 2 s" in str(found)


def test_kernels_without_a_trial_and_those_in_use_come_first(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    out, arrays = model()
    head = sl.placeholder((4, 16 * 7 * 7), name="head")
    flat = sl.named("flat", topi.nn.dense(topi.nn.flatten(out), head))
    scores = sl.named("scores", topi.nn.softmax(flat))
    arrays = {**arrays, head: np.ones(head.shape, "float32")}
    database = Database(cache / "trials.jsonl")
    now, shares = [100.0], dict[str, float]()

    def one(work: Work, *rest: object) -> Tuned:
        share = rest[2]
        assert isinstance(share, float)
        shares[work.name] = share
        now[0] += share
        where = Where.here(work.outputs, TARGET, {}, "this one, 2 cores")
        steps = sl.schedule(list(work.outputs)).to_json()
        database.add(where, work.name, Trial(0, "ok", steps, seconds=1.0), work.outputs)
        return Tuned(work, 1.0, 1, waited=2.0)

    monkeypatch.setattr("schedlang.networks.tuning._one", one)
    for module in ("network", "tuning"):
        monkeypatch.setattr(f"schedlang.networks.{module}.monotonic", lambda: now[0])

    def searched(timeout: float) -> list[str]:
        shares.clear()
        net = sl.network(scores, arrays, TARGET, database=database)
        found = net.tune(timeout=timeout, progress=False)
        assert [t.work.name for t in found.searches] == list(shares)
        return list(shares)

    forms = {f"{name} as F(2x2, 3x3)" for name in ("conv_data", "conv_products", "relu")}
    # less time than the first candidate took is too little for another search
    assert searched(6.5) == ["conv"] and shares["conv"] == 5.0
    assert searched(11.5) == ["flat", "scores"] and shares["scores"] == 6.5
    # then those of other forms, before more of what has a trial
    assert set(searched(40.0)[:3]) == forms
    assert searched(5.0) == ["conv"]


def test_the_table_says_which_forms_stay_and_why(cache: Path, searched: list[str]) -> None:
    out, arrays = model()
    database = Database(cache / "trials.jsonl")
    # the rule's form takes 3.05 s, the other one three kernels of 1 s: too close to say
    timed(database, forms_of(out, arrays), lambda form, part: 1.0 if form else 3.05)
    net = sl.network(out, arrays, TARGET, database=database)
    new = str(net.tune(progress=False))
    assert "conv_products as F(2x2, 3x3)" in new and " stay" not in new
    assert "all of its kernels are timed and 3% faster together" in new
    assert not has_products(net)
    net(image())
    ran = str(net.tune(progress=False))
    assert "forms of 'conv' stay: the module is made" in ran and "0 in a call" not in ran
    cut = sl.network(out, arrays, TARGET, database=database, cut=["conv"])
    assert "forms of 'conv' stay: cut= and fuse=" in str(cut.tune(progress=False))
    without = sl.network(out, arrays, TARGET, database=database, winograd=False)
    assert " stay" not in str(without.tune(progress=False))


def test_a_kernel_of_two_convolutions_counts_once(cache: Path) -> None:
    """Five kernels by tiles take 5 s, of which the one of both would count twice as 6 s."""
    out, arrays = chain()
    forms = forms_of(out, arrays)
    parts = {form: {p.name: p for n in ("conv", "last") for p in forms.parts(n, form)}
             for form in (0, 2)}  # fmt: skip
    assert [len(found) for found in parts.values()] == [2, 5]
    for direct, tiles_win in ((2.6, True), (2.4, False)):
        database = Database(cache / f"{direct}.jsonl")
        for form, found in parts.items():
            for part in found.values():
                record(database, part, 1.0 if form else direct)
        net = sl.network(out, arrays, TARGET, database=database)
        assert has_products(net) is tiles_win


def test_names_of_the_user_that_look_like_those_of_tiles(cache: Path) -> None:
    """A convolution has the kernels of its own stages, and its layer has these stages."""
    x, w = (sl.placeholder(shape, name=name) for name, shape in (
        ("x", (1, 16, 7, 7)), ("w", (16, 16, 3, 3))))  # fmt: skip
    before = sl.named("conv_products", topi.tanh(x))
    conv = sl.named("conv", topi.nn.conv2d_nchw(before, w, 1, 1, 1))
    out = sl.named("conv_1_tiles", topi.nn.relu(conv))
    arrays = {w: model()[1].popitem()[1]}
    layers = {"conv_products": "first", "pad_temp": "body", "conv": "body", "conv_1_tiles": "last"}
    imported = sl.frontend.Imported((out,), (x,), arrays, layers)
    forms = forms_of(out, arrays)
    assert [part.name for part in forms.parts("conv", 0)] == ["conv"]
    by_tiles = ["conv_2_data", "conv_2_products", "conv_1_tiles"]
    assert [part.name for part in forms.parts("conv", 2)] == by_tiles
    database = Database(cache / "trials.jsonl")
    timed(database, forms, lambda form, part: 1.0 if form else 9.0)
    net = sl.network(imported, target=TARGET, database=database)
    assert {part.name: part.layers for part in net.partition} == {
        "conv_2_data": ("first", "body"), "conv_2_products": ("body",),
        "conv_1_tiles": ("body", "last"),
    }  # fmt: skip
    again = pickle.loads(pickle.dumps(net))
    assert [part.layers for part in again.partition] == [part.layers for part in net.partition]
    np.testing.assert_allclose(again(image()), expected(out, arrays, image()), rtol=1e-4, atol=1e-4)


def test_databases_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    out, arrays = model()
    with pytest.raises(TuningError, match="cannot be read: it is a directory"):
        sl.network(out, arrays, TARGET, database=tmp_path)
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("SCHEDLANG_CACHE", str(file / "cache"))
    net = sl.network(out, arrays, TARGET)
    assert [part.name for part in net.partition] == ["conv"]
    with pytest.raises(BuildError, match="set SCHEDLANG_CACHE to a writable folder"):
        net(image())
    with pytest.raises(TuningError, match="set SCHEDLANG_CACHE to a writable folder"):
        net.tune(trials=1)


def test_all_forms_asks_once_for_each_division() -> None:
    asked: list[int] = []
    out, arrays = model()
    source = sl.network(out, arrays, target=TARGET)._compiled.source
    assert isinstance(source, OfModel)

    def divide(form: Callable) -> object:
        asked.append(1)
        return source._dividing(TARGET, Plan())(form)

    all_forms(divide, TARGET)  # type: ignore[arg-type]
    assert len(asked) == 2


def test_a_network_that_was_tuned_after_its_first_call_is_not_linked_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its forms were settled by the call; another process comes to the same by the times."""
    out, arrays = model()
    database = Database(cache / "trials.jsonl")
    net = sl.network(out, arrays, TARGET, database=database)
    net(image())

    def one(work: Work, *rest: object) -> Tuned:
        where = replace(Where.here(work.outputs, CPU, {}), machine="one, 2 cores")
        steps = sl.schedule(list(work.outputs)).to_json()
        database.add(where, work.name, Trial(0, "ok", steps, seconds=1.0), work.outputs)
        return Tuned(work, 1.0, 1)

    monkeypatch.setattr("schedlang.networks.tuning._one", one)
    net.tune(progress=False)
    assert {kernel.origin for kernel in net.kernels} == {"database"}
    wanted = net(image())
    again = sl.network(out, arrays, TARGET, database=database)
    monkeypatch.setattr("schedlang.networks.linking.module_data", lambda *_, **__: pytest.fail())
    np.testing.assert_array_equal(again(image()), wanted)
    np.testing.assert_allclose(wanted, expected(out, arrays, image()), rtol=1e-4, atol=1e-4)


def error_bound(x: np.ndarray, w: np.ndarray, m: int) -> np.ndarray:
    """Return the most error of F(m x m, 3 x 3) in float32: each of its sums rounds each term.

    It has sums of all channels and of four transforms, whose terms have these magnitudes.
    """
    a, b, g = (np.abs(np.array(matrix, "float64")) for matrix in winograd_matrices(m))
    edge = m + 2
    wide = np.pad(np.abs(x).astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    tiles = np.lib.stride_tricks.sliding_window_view(wide, (edge, edge), (2, 3))[:, :, ::m, ::m]
    data = np.einsum("pu,ncyxpq,qv->ncyxuv", b, tiles, b)
    weights = np.einsum("up,fcpq,vq->fcuv", g, np.abs(w).astype("float64"), g)
    result = np.einsum("up,ncyxuv,fcuv,vq->nfypxq", a, data, weights, a, optimize=True)
    n, f, high, _, across, _ = result.shape
    return result.reshape(n, f, high * m, across * m) * (x.shape[1] + 8 * edge) * 2.0**-24


@pytest.mark.parametrize("form", [0, 2, 4])
def test_a_gpu_takes_the_form_that_was_measured(tmp_path: Path, form: int) -> None:
    """Without times a convolution is direct, whatever its size: nobody measured a rule."""
    out, arrays = model(16, 12)
    target, database = sl.Target("cuda-emulator"), Database(tmp_path / "trials.jsonl")
    plain = sl.network(out, arrays, target=target, database=database)
    assert [part.name for part in plain.partition] == ["conv"]
    found = forms_of(out, arrays, target)
    assert found.rule == {"conv": 0} and {*found.open["conv"]} == {0, 2, 4}
    for other in found.open["conv"]:
        for part in found.parts("conv", other):
            record(database, part, 1.0 if other == form else 9.0, target=sl.Target("cuda"))
    net = sl.network(out, arrays, target=target, database=database)
    assert has_products(net) is bool(form)
    if form:
        x = image(16, 12)
        # the oracle accumulates in float64, and rounds once
        error = np.abs(net(x) - expected(out, arrays, x))
        assert (error <= error_bound(x, *arrays.values(), form)).all()
