"""Networks from the cache folder: found before they are prepared, with their packed weights."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import tracemalloc
import weakref
import zipfile
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.autotune.database import Database
from schedlang.autotune.record import Trial, Where
from schedlang.errors import BuildError, CacheWarning, NetworkError, TuningError
from schedlang.networks import cache, sources, weight_files
from schedlang.networks.call import weight_in
from schedlang.networks.looked_up import LookedUp, states
from schedlang.networks.network import Network
from schedlang.runtime.cache_files import MODULE, contents, store
from tests.marks import slow_but

WORK = (
    "schedlang.networks.dividing.weighted",
    "schedlang.networks.dividing.partition",
    "schedlang.networks.kernels.part_kernels",
    "schedlang.networks.linking.module_data",
    "schedlang.networks.prepare.Prepared.values",
    "schedlang.networks.module.pack",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a cache folder of its own, and return that of networks."""
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "networks"


class Counts(dict[str, int]):
    """The number of calls of each function of ``WORK``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        for place in WORK:
            monkeypatch.setattr(place, self._counting(place))

    def _counting(self, place: str) -> Any:
        module, _, name = place.rpartition(".")
        owner = sys.modules.get(module) or getattr(
            sys.modules[module.rpartition(".")[0]], module.rpartition(".")[2]
        )
        function = getattr(owner, name)

        def counted(*args: Any, **named: Any) -> Any:
            self[name] = self.get(name, 0) + 1
            return function(*args, **named)

        return counted

    def taken(self) -> dict[str, int]:
        """Return the counts so far, and start again."""
        found = dict(self)
        self.clear()
        return found


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    import schedlang.networks.dividing
    import schedlang.networks.kernels
    import schedlang.networks.linking  # noqa: F401

    return Counts(monkeypatch)


ALL = {"weighted": 1, "partition": 1, "part_kernels": 1, "module_data": 1, "values": 1, "pack": 1}


def arrays(scale: float = 1.0) -> dict[str, np.ndarray]:
    """Return weights of a scaled layer and another one; ``gamma`` is folded into ``w``."""
    rng = np.random.default_rng(0)
    shapes = {"w": (4, 8), "gamma": (4,), "b": (4,), "v": (3, 4)}
    found = {n: rng.standard_normal(s).astype("float32") for n, s in shapes.items()}
    return {**found, "gamma": np.float32(scale) * found["gamma"]}


def model(given: dict[str, np.ndarray], **options: Any) -> Network:
    """Return a network of these weights, as another process makes it: of a graph of its own."""
    x = sl.placeholder((2, 8), name="x")
    t = {name: sl.placeholder(a.shape, name=name) for name, a in given.items()}
    h = sl.named("fc", topi.nn.dense(x, t["w"]))
    y = sl.compute((2, 4), lambda i, j: h[i, j] * t["gamma"][j] + t["b"][j], name="norm")
    out = sl.named("last", topi.nn.dense(topi.nn.relu(y), t["v"]))
    return sl.network(out, {t[n]: a for n, a in given.items()}, **{"target": "python", **options})


X = np.random.default_rng(1).standard_normal((2, 8)).astype("float32")


def expected(given: dict[str, np.ndarray]) -> np.ndarray:
    h = np.maximum(X @ given["w"].T * given["gamma"] + given["b"], 0)
    found: np.ndarray = h @ given["v"].T
    return found


def check(net: Network, given: dict[str, np.ndarray]) -> None:
    np.testing.assert_allclose(net(X), expected(given), rtol=1e-5)


def test_a_model_that_was_built_before_is_not_prepared_again(counts: Counts) -> None:
    given = arrays()
    first = model(given)
    check(first, given)
    assert counts.taken() == ALL
    second = model(given)
    check(second, given)
    # its source, its memory plan and its weights need no parts
    assert second.source == first.source and second.memory == first.memory
    for name, array in first.weights.items():
        np.testing.assert_array_equal(second.weights[name], array)
    assert [t.name for t in second.inputs] == ["x"] and not counts.taken()
    # its parts are made when they are asked for, and use the weights that are there
    assert [p.name for p in second.partition] == [p.name for p in first.partition]
    assert counts.taken() == {"weighted": 1, "partition": 1}
    assert [t.name for t in second.prepared.computed] == ["w_scaled_packed", "v_packed"]
    whole = second.module.params
    assert all(np.shares_memory(a, whole) for a in second.prepared.values().values())
    check(second, given)


@pytest.mark.parametrize("options", [
    {"name": "other"}, {"cut": ["fc"]}, {"fold": False}, {"layouts": False}, {"winograd": False},
    {"database": "trials.jsonl"}, {"target": sl.Target("python", vector_bytes=16)},
])  # fmt: skip
def test_other_options_are_another_network(counts: Counts, options: dict[str, Any]) -> None:
    given = arrays()
    check(model(given), given)
    counts.clear()
    model(given)
    assert not counts
    model(given, **options)
    assert counts == {"weighted": 1, "partition": 1}


def test_other_weights_are_packed_again(counts: Counts, folder: Path) -> None:
    for scale in (1.0, 2.0, 1.0):
        given = arrays(scale)
        counts.clear()
        net = model(given)
        check(net, given)
        assert counts["weighted"] == counts["values"] == counts["pack"] == 1
        # the packed weights of one model are kept once
        assert len(list(folder.glob("*.weights"))) == 1
    # the module was the same, so that nothing was scheduled or linked again
    assert "module_data" not in counts and "part_kernels" not in counts
    counts.clear()
    check(model(arrays(1.0)), arrays(1.0))
    assert not counts


def test_a_scale_that_is_not_folded_is_not_taken_from_the_cache() -> None:
    given = arrays()
    check(model(given), given)
    odd = {**given, "gamma": np.array([1, np.inf, np.nan, 0], "float32")}
    net = model(odd)
    with np.errstate(invalid="ignore"):
        check(net, odd)
    assert [note.stage for note in model(given).prepared.folded] != net.prepared.folded


def test_weights_are_those_of_the_first_call(counts: Counts) -> None:
    given = arrays()
    for _ in range(2):
        net = model(given)
        given["v"] *= 2
        check(net, given)
        wanted = expected(given)
        given["v"] *= 3
        np.testing.assert_allclose(net(X), wanted, rtol=1e-5)
        given["v"] /= 6
    check(model(given), given)


def test_errors_are_raised_for_a_network_that_is_known() -> None:
    given = arrays()
    check(model(given), given)
    with pytest.raises(NetworkError, match="the weight b: float32.4.: its array is float64"):
        model_with_wrong_dtype(given)
    with pytest.raises(NetworkError, match="cut"):
        model(given, cut=["no stage"])
    with pytest.raises(TuningError, match="database=3: give a path"):
        model(given, database=3)


def model_with_wrong_dtype(given: dict[str, np.ndarray]) -> None:
    x, w, b = (sl.placeholder(s, name=n) for s, n in (((2, 8), "x"), ((4, 8), "w"), ((4,), "b")))
    out = sl.named("fc", topi.nn.dense(x, w, b))
    good = {w: given["w"], b: given["b"]}
    sl.network(out, good, target="python")(X)
    sl.network(out, {**good, b: given["b"].astype("float64")}, target="python")


@pytest.mark.slow
def test_damaged_files_are_made_again(counts: Counts, folder: Path) -> None:
    given = arrays()
    check(model(given), given)
    (entry,), (packed,) = folder.glob("*.json"), folder.glob("*.weights")
    whole, packed_whole = entry.read_bytes(), packed.read_bytes()
    content = contents(MODULE, entry)
    assert content is not None
    fields = json.loads(content)
    # with the digest of other data
    for other in (
        [], None, {}, {"graph": fields["graph"]}, {**fields, "graph": "../../other"},
        {**fields, "weights": {}}, {**fields, "weights": {**fields["weights"], "digest": 1}},
        {**fields, "weights": {**fields["weights"], "values": "f/f"}},
        {**fields, "weights": {**fields["weights"], "more": 1}}, {**fields, "forms": {"conv": 3}},
    ):  # fmt: skip
        store(MODULE, entry, json.dumps(other).encode())
        counts.clear()
        check(model(given), given)
        assert counts["weighted"] == 1, other
        assert entry.read_bytes() == whole
    for path, damage in (
        (entry, whole[:-3]), (entry, b"{}"), (packed, packed_whole[:-1]),
        (packed, packed_whole + b"\0"), (packed, b""), (packed, b"\1" + packed_whole[1:]),
    ):  # fmt: skip
        path.write_bytes(damage)
        counts.clear()
        with pytest.warns(CacheWarning, match=path.name):
            check(model(given), given)
        assert counts["weighted"] == 1, (path, damage)
        assert entry.read_bytes() == whole and packed.read_bytes() == packed_whole
    packed.unlink()
    check(model(given), given)


def test_a_packed_file_that_is_written_to_stays() -> None:
    given = arrays()
    check(model(given), given)
    net = model(given)
    check(net, given)
    net.module.params[:] = 0
    assert not net(X).any()
    check(model(given), given)


@pytest.mark.slow
def test_a_model_has_one_copy_of_its_packed_weights_whatever_is_searched(
    folder: Path, tmp_path: Path
) -> None:
    database = tmp_path / "trials.jsonl"
    for size in range(3):
        check(model(arrays(), database=database), arrays())
        # a search of another computation changes the database
        C = sl.compute((64 + size,), lambda i: sl.cast(i, "float32") * 2, name="C")
        sl.autotune(C, "python", trials=1, progress=False, database=database)
    assert len(list(folder.glob("*.weights"))) == 1


def test_a_search_of_another_computation_leaves_a_module(tmp_path: Path, counts: Counts) -> None:
    database = Database(tmp_path / "trials.jsonl")

    def kernels_made() -> int:
        check(model(arrays(), database=database), arrays())
        return counts.taken().get("part_kernels", 0)

    assert kernels_made() == 1
    add_trial(database, sl.compute((64,), lambda i: sl.cast(i, "float32") * 2, name="C"))
    assert kernels_made() == 0
    # a trial of a part, at any size, may change its schedule
    part = model(arrays(), database=database).partition.parts[0]
    add_trial(database, part.group.outputs[0])
    counts.clear()
    assert (kernels_made(), kernels_made()) == (1, 0)
    # other lines in place of those that were read
    lines = database.path.read_text().splitlines(keepends=True)
    database.path.write_text("".join(reversed(lines)))
    assert (kernels_made(), kernels_made()) == (1, 0)
    database.path.unlink()
    assert (kernels_made(), kernels_made()) == (1, 0)


def test_a_line_far_above_the_end_that_was_edited_in_place(tmp_path: Path) -> None:
    path, keys = tmp_path / "trials.jsonl", (64 * "a", 64 * "b")
    own, other = (f'{{"op": "{key}", "seconds": 1e-06}}\n' for key in keys)
    path.write_text(own + 100 * other)
    record = LookedUp(keys[:1], states([path]))
    path.write_text(own + 120 * other)
    assert record.stands() and LookedUp.from_data(asdict(record)) == record
    path.write_text(own.replace("1e", "2e") + 120 * other)
    assert not record.stands()


def add_trial(database: Database, output: sl.Tensor) -> None:
    """Add a trial of the plain schedule of ``output``."""
    where = Where.here([output], sl.Target(), {})
    trial = Trial(0, "ok", sl.schedule(output).to_json(), seconds=1e-6)
    database.add(where, output.name, trial, [output])


def test_old_packed_weights_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = arrays()
    check(model(given, name="a"), given)
    (first,) = folder.glob("*.weights")
    size = first.stat().st_size
    monkeypatch.setattr(cache, "WEIGHTS", replace(cache.WEIGHTS, most_bytes=2 * size))
    check(model(given, name="b"), given)
    check(model(given, name="a"), given)
    # the one that was used last is b, and then a
    check(model(given, name="c"), given)
    names = {p.name for p in folder.glob("*.weights")}
    assert len(names) == 2 and first.name in names
    # too large ones are not kept at all
    monkeypatch.setattr(cache, "WEIGHTS", replace(cache.WEIGHTS, most_bytes=size // 2))
    check(model(given, name="d"), given)
    assert {p.name for p in folder.glob("*.weights")} <= names
    check(model(given, name="d"), given)


def test_a_folder_that_cannot_be_written_costs_only_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = os.open

    def full(path: Any, *how: Any, **named: Any) -> int:
        if Path(path).parent == folder and Path(path).suffix == ".tmp":
            raise OSError(28, "No space left on device")
        return create(path, *how, **named)

    monkeypatch.setattr(os, "open", full)
    given = arrays()
    for _ in range(2):
        with pytest.warns(CacheWarning, match="No space left on device"):
            check(model(given), given)
    assert not any(folder.iterdir())


def test_given_arrays_are_freed() -> None:
    given = arrays()
    alive = weakref.ref(given["w"])
    net = model(given)
    check(net, given)
    wanted = expected(given)
    del given
    gc.collect()
    assert alive() is None
    np.testing.assert_allclose(net(X), wanted, rtol=1e-5)
    shapes = {t.name: a.shape for t, a in net.prepared.values().items()}
    assert shapes == {"b": (4,), "w_scaled_packed": (8, 4), "v_packed": (4, 3)}


def test_threads_make_the_first_call_at_once(counts: Counts) -> None:
    given = arrays()
    check(model(given), given)
    counts.clear()
    net = model(given)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(net(X))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and not counts
    for array in found:
        np.testing.assert_allclose(array, expected(given), rtol=1e-5)


def test_what_an_interrupted_first_call_has_made_stays(
    counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call goes on where the interrupt came: no step is made again."""
    given = arrays()
    net = model(given)

    def interrupted(*args: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    for place in WORK[2:]:
        with monkeypatch.context() as context:
            context.setattr(place, interrupted)
            with pytest.raises(KeyboardInterrupt):
                net(X)
    check(net, given)
    assert counts.taken() == ALL


def test_a_network_without_weights(counts: Counts) -> None:
    for _ in range(2):
        counts.clear()
        x = sl.placeholder((4,), name="x")
        net = sl.network(sl.named("twice", x * 2), target="python")
        assert net(np.arange(4, dtype="float32")).tolist() == [0, 2, 4, 6]
    assert not counts


def test_a_folder_that_was_loaded_before_is_not_prepared_again(
    counts: Counts, tmp_path: Path
) -> None:
    given = arrays()
    net = model(given, target="cpu")
    saved = net.save(tmp_path / "saved")
    counts.clear()
    first = sl.load(saved, target="python")
    check(first, given)
    counts.clear()
    second = sl.load(saved, target="python")
    check(second, given)
    assert second.source == first.source and not counts.taken()
    assert [part.name for part in second.partition] == [part.name for part in net.partition]
    assert counts.taken() == {"weighted": 1, "partition": 1}
    whole = second.module.params
    assert all(np.shares_memory(a, whole) for a in second.prepared.params.values())
    check(second, given)
    # the weights are those of the file, which may be others by now
    with np.load(saved / "weights.npz") as file:
        others = {name: 2 * array if name == "b" else array for name, array in file.items()}
    assert "b" in others
    np.savez(saved / "weights.npz", **others)
    counts.clear()
    check(sl.load(saved, target="python"), {**given, "b": 2 * given["b"]})
    assert not counts


def test_weights_of_a_folder_are_packed_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load maps them while the file is as it was; one that is written again is read again."""
    reads: list[Path] = []

    def counted(path: Path, storage: Any) -> np.ndarray:
        reads.append(path)
        return weight_files.read_params(path, storage)

    monkeypatch.setattr(sources, "read_params", counted)
    given = arrays()
    saved = model(given, target="cpu").save(tmp_path / "saved")

    def load(where: Path = saved) -> int:
        """Load the network and check its result; return how often its file was read for that."""
        before = len(reads)
        net = sl.load(where, target="python")
        check(net, given)
        with np.load(where / "weights.npz") as file:
            for name, array in net.weights.items():
                np.testing.assert_array_equal(array, file[name])
        return len(reads) - before

    # the first load reads the file with the graph
    assert [load(), load(), load()] == [0, 0, 0]
    with np.load(saved / "weights.npz") as file:
        others = {name: 2 * array if name == "b" else array for name, array in file.items()}
    np.savez(saved / "weights.npz", **others)
    given["b"] *= 2
    assert [load(), load()] == [1, 0]
    # the file of a copy has another time, and the same arrays
    copy = shutil.copytree(saved, tmp_path / "copy", copy_function=shutil.copyfile)
    os.utime(copy / "weights.npz", (1, 1))
    packed = max(folder.glob("*.weights"), key=lambda path: path.stat().st_size)
    written = packed.stat().st_ino
    assert [load(copy), load(copy), load(), load()] == [1, 0, 1, 0]
    assert packed.stat().st_ino == written
    # what the cache folder lost is packed again
    packed.unlink()
    assert [load(), load()] == [1, 0]
    packed.write_bytes(packed.read_bytes()[:-90] + bytes(90))
    with pytest.warns(CacheWarning, match="packed weights of a network .* is damaged"):
        assert load() == 1
    assert load() == 0


def test_packed_weights_of_a_folder_stay_as_they_are(tmp_path: Path) -> None:
    """What a process writes into its weights reaches neither the file nor another load."""
    given = arrays()
    saved = model(given, target="cpu").save(tmp_path / "saved")
    for _ in range(3):
        net = sl.load(saved, target="python")
        check(net, given)
        net.module.params[:] = 0
        assert not net(X).any()


@pytest.mark.parametrize("target", slow_but(
    ["python", "cpu", "cuda"], ["python", "c", "cpu", "cuda-emulator", "cuda"]
))  # fmt: skip
def test_a_network_makes_the_machine_nest_of_its_module(tmp_path: Path, target: str) -> None:
    given = arrays()
    first = model(given, target=target)
    wanted = str(first.module.machine_nest)
    found = [model(given, target=target)]
    if target in ("cpu", "cuda"):
        saved = first.save(tmp_path / "saved")
        assert str(sl.load(saved).module.machine_nest) == wanted
        found.append(sl.load(saved))
    for net in found:
        module = net.module
        assert module.data.machine is None
        assert str(module.machine_nest) == wanted and "fc" in wanted
        assert net.module is module and net.source == first.source


def test_a_machine_nest_of_other_schedules(tmp_path: Path) -> None:
    given = arrays()
    check(model(given), given)
    net = model(given)
    before = net.module
    s = sl.schedule(net.partition["fc"].group.outputs)
    s[s.outputs[0]].split(s.outputs[0].op.axis[0], factor=2)
    net.reschedule("fc", s)
    with pytest.raises(BuildError, match="other schedules by now\\n.*net.module.machine_nest"):
        _ = before.machine_nest
    assert "inner" in str(net.module.machine_nest)
    check(net, given)


def test_a_module_does_not_keep_its_network() -> None:
    given = arrays()
    check(model(given), given)
    net = model(given)
    module, alive = net.module, weakref.ref(net)
    assert module.machine_nest is module.machine_nest
    del net
    gc.collect()
    assert alive() is None and "fc" in str(module.machine_nest)
    # without its network, one that was not made before is refused
    module = model(given).module
    gc.collect()
    with pytest.raises(BuildError, match=r"loaded from its source(.|\n)*net.module.machine_nest"):
        _ = module.machine_nest


def test_what_was_compiled_serves_a_saved_network(tmp_path: Path) -> None:
    given = arrays()
    net = model(given, target="cpu")
    again = sl.load(net.save(tmp_path / "saved"))
    assert again.source == net.source
    assert [kernel.origin for kernel in again.kernels] == ["model", "model"]
    # also if it is saved once more
    assert sl.load(again.save(tmp_path / "twice")).source == net.source


@pytest.mark.parametrize("damage", [
    "no zip", "short", "pickle", "missing", "shape", "dtype", "encrypted", "flipped",
])  # fmt: skip
def test_a_known_folder_with_damaged_weights(tmp_path: Path, damage: str) -> None:
    given = arrays()
    saved = model(given, target="cpu").save(tmp_path / "saved")
    check(sl.load(saved, target="python"), given)
    path = saved / "weights.npz"
    with np.load(path) as file:
        found = dict(file)
    if damage == "no zip":
        path.write_bytes(b"no zip")
    elif damage == "short":
        path.write_bytes(path.read_bytes()[:-40])
    elif damage in ("encrypted", "flipped"):
        content = bytearray(path.read_bytes())
        # the flags of the first member, in its header and in the list of all, and its last byte
        for at in (6, content.index(b"PK\1\2") + 8):
            content[at] |= damage == "encrypted"
        content[content.index(b"PK\3\4", 4) - 1] ^= damage == "flipped"
        path.write_bytes(content)
    else:
        changed: dict[str, Any] = {
            "pickle": np.array([{}], object), "shape": np.zeros(5, "float32"),
            "dtype": np.zeros(4, "int32"),
        }  # fmt: skip
        found.pop("b")
        np.savez(path, **found, **({"b": changed[damage]} if damage != "missing" else {}))
    with pytest.raises(NetworkError):
        sl.load(saved, target="python")


def test_bools_of_a_folder_are_0_or_1(tmp_path: Path) -> None:
    x, mask = sl.placeholder((4,), name="x"), sl.placeholder((4,), "bool", name="mask")
    y = sl.compute((4,), lambda i: sl.select(mask[i], x[i], 0), name="kept")
    saved = sl.network(y, {mask: np.array([0, 1, 1, 0], "bool")}).save(tmp_path / "saved")
    damaged = np.array([0, 255, 1, 0], "uint8").view("bool")
    np.savez(saved / "weights.npz", mask=damaged)
    for _ in range(2):
        with pytest.raises(NetworkError, match="a byte of it is neither 0 nor 1"):
            sl.load(saved, target="python")


def test_read_params_reads_other_orders(tmp_path: Path) -> None:
    """Compressed files and arrays by columns are read as NumPy reads them."""
    given = arrays()
    net = model(given, target="cpu")
    saved = net.save(tmp_path / "saved")
    check(sl.load(saved, target="python"), given)
    storage = net.module.data.storage
    with np.load(saved / "weights.npz") as file:
        found = dict(file)
    np.savez_compressed(saved / "weights.npz", **found)
    made = weight_files.read_params(saved / "weights.npz", storage)
    np.testing.assert_array_equal(made, net.module.params)
    np.savez(saved / "weights.npz", **{n: np.asfortranarray(a) for n, a in found.items()})
    made = weight_files.read_params(saved / "weights.npz", storage)
    np.testing.assert_array_equal(made, net.module.params)
    np.savez(saved / "weights.npz", **{n: a.astype(">f4") for n, a in found.items()})
    made = weight_files.read_params(saved / "weights.npz", storage)
    np.testing.assert_array_equal(made, net.module.params)
    check(sl.load(saved, target="python"), given)
    assert all(weight_in(made, place).shape == place.shape for place in storage.params)


@pytest.mark.parametrize("known", [False, True])
def test_an_array_of_another_size_takes_no_memory(tmp_path: Path, known: bool) -> None:
    """A small file of many zeros is refused by its header, also for a folder of the cache."""
    saved = model(arrays(), target="cpu").save(tmp_path / "saved")
    if known:
        check(sl.load(saved, target="python"), arrays())
    with np.load(saved / "weights.npz") as file:
        others = {name: np.zeros(1 << 24, "float32") if name == "b" else array
                  for name, array in file.items()}  # fmt: skip
    np.savez_compressed(saved / "weights.npz", **others)
    others.clear()
    tracemalloc.start()
    try:
        with pytest.raises(NetworkError, match=r"b is float32 of shape \(16777216,\)"):
            sl.load(saved, target="python")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_several_threads_read_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each array is that of the file; a damaged one is found out, whichever thread reads it."""
    monkeypatch.setattr(weight_files, "cores", lambda: 4)
    rng, path = np.random.default_rng(3), tmp_path / "weights.npz"
    wanted = {f"a{k}": rng.random((512 + k, 1024), "float32") for k in range(5)}
    np.savez(path, **wanted, none=np.empty((0, 3)), one=np.array(7.5))
    wanted |= {"none": np.empty((0, 3)), "one": np.array(7.5)}
    layouts = {name: (array.dtype, array.shape) for name, array in wanted.items()}
    for name, array in weight_files.read_arrays(path, layouts).items():
        np.testing.assert_array_equal(array, wanted[name], strict=True)
    content = bytearray(path.read_bytes())
    content[content.index(wanted["a3"].tobytes()[:64]) + 1_000_000] ^= 1
    path.write_bytes(content)
    with pytest.raises(zipfile.BadZipFile, match="a3.npy has another checksum"):
        weight_files.read_arrays(path, layouts)


def test_a_file_that_cannot_be_read_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error leaves the arrays whose turn had not come."""
    monkeypatch.setattr(weight_files, "cores", lambda: 2)
    path, begun = tmp_path / "weights.npz", []
    arrays = {f"a{k}": np.ones((1024, 1024), "float32") for k in range(30)}
    np.savez(path, **arrays)

    def read(file: Any, path: Path, name: str, into: Any) -> None:
        begun.append(name)
        if name == "a0":
            raise zipfile.BadZipFile("a0")
        time.sleep(0.05)

    monkeypatch.setattr(weight_files, "_read_member", read)
    layouts = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    with pytest.raises(zipfile.BadZipFile, match="a0"):
        weight_files.read_arrays(path, layouts)
    assert len(begun) < 10


def test_digest_of_odd_arrays() -> None:
    rows = np.arange(6, dtype="int16").reshape(2, 3)
    same = [rows.T.copy().T, np.asfortranarray(rows), rows[::-1][::-1], rows]
    assert len({weight_files.digest([a]) for a in same}) == 1
    assert weight_files.digest([rows]) != weight_files.digest([rows[::-1]])
    one = weight_files.digest([np.array([1.5])])
    assert weight_files.digest([np.array(1.5), np.zeros((0, 3))]) == one
    assert weight_files.digest([np.array([np.nan])]) == weight_files.digest([np.array([np.nan])])


LOADED = """
import sys
import zlib
import numpy as np
import schedlang as sl

folder, x, wanted = sys.argv[1], np.load(sys.argv[2]), np.load(sys.argv[3])
net = sl.load(folder)
assert (net(x) == wanted).all()
late = ["networkx", "sympy", "torch", "schedlang.autotune", "schedlang.networks.dividing",
        "schedlang.networks.program", "schedlang.runtime.llvm.printed",
        "schedlang.runtime.numba_compiler", "schedlang.machine.lower", "numba.np.linalg",
        "scipy.linalg", "schedlang.lowering", "schedlang.schedule", "schedlang.targets",
        "schedlang.compute", "schedlang.expr.nodes", "schedlang.index.linear", "schedlang.ir.nodes",
        "schedlang.machine.nodes", "schedlang.networks.saved_model", "schedlang.networks.saving"]
print(*[name for name in late if name in sys.modules])
"""


def test_another_process_compiles_prepares_and_imports_nothing(tmp_path: Path) -> None:
    given = arrays()
    saved = model(given, target="cpu").save(tmp_path / "saved")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", sl.load(saved)(X))
    done = subprocess.run(
        [sys.executable, "-c", LOADED, saved, tmp_path / "x.npy", tmp_path / "y.npy"],
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0 and not done.stdout.strip(), done.stdout + done.stderr


def forged(content: bytes, crc: int) -> bytes:
    """Return content whose last four bytes give it a checksum of CRC-32."""
    # each bit of the end flips the checksum by a word of its own
    base = zlib.crc32(content[:-4] + bytes(4))
    words = [zlib.crc32(content[:-4] + (1 << k).to_bytes(4, "little")) ^ base for k in range(32)]
    rows, wanted = [(word, 1 << k) for k, word in enumerate(words)], crc ^ base
    end = 0
    for bit in range(31, -1, -1):
        pivot = next(row for row in rows if row[0] >> bit & 1)
        rows = [
            (w ^ pivot[0], e ^ pivot[1]) if w >> bit & 1 else (w, e)
            for w, e in rows
            if (w, e) != pivot
        ]
        if wanted >> bit & 1:
            wanted, end = wanted ^ pivot[0], end ^ pivot[1]
    return content[:-4] + end.to_bytes(4, "little")


def test_weights_with_equal_checksums_are_other_weights(tmp_path: Path) -> None:
    """A checksum of a zip file has 32 bits: whoever writes a file can choose it."""
    X, w = sl.placeholder((2,), name="X"), sl.placeholder((2,), name="w")
    values = np.array([3, 3], "float32")
    net = sl.network(sl.named("scaled", X * w), {w: values})
    good, other = Path(net.save(tmp_path / "good")), tmp_path / "other"
    shutil.copytree(good, other)
    ours = (good / "weights.npz").read_bytes()
    raw = values.tobytes()
    at = ours.index(raw)
    head = ours[ours.index(b"\x93NUMPY") : at]
    lies = forged(head + np.array([666, 0], "float32").tobytes(), zlib.crc32(head + raw))
    (other / "weights.npz").write_bytes(ours[:at] + lies[len(head) :] + ours[at + 8 :])
    stat = (good / "weights.npz").stat()
    os.utime(other / "weights.npz", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    x = np.ones(2, "float32")
    for _ in range(2):
        assert sl.load(other)(x)[0] == 666
        np.testing.assert_array_equal(sl.load(good)(x), values)
