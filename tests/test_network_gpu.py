"""Networks on a GPU: one source of kernels, launches in order, memory of streams. None needs a GPU.

Calls run with a driver that uses the memory of the host, and kernels in the simulator.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.autotune.record import NO_GPU
from schedlang.codegen.network_cuda_file import HELPERS
from schedlang.errors import BuildError, CallError, CallTypeError, NetworkError, TuningError
from schedlang.expr.dtypes import array_dtype
from schedlang.intrinsics.dialect import GPU_NAMES
from schedlang.networks import compiled, profile, tuning
from schedlang.networks.compiled import Compiled, arrays_of, with_weights
from schedlang.networks.data import from_data, to_data
from schedlang.networks.device_backend import DeviceBackend
from schedlang.networks.device_launch import NetworkLauncher
from schedlang.networks.model import Model, options_of_prepared
from schedlang.networks.module import NetworkModule
from schedlang.networks.network import Network
from schedlang.networks.plan import Plan, saved_schedules
from schedlang.networks.program import module_data
from schedlang.networks.sources import OfModel
from schedlang.runtime import files, nvidia
from schedlang.runtime.ceilings import Ceilings
from schedlang.runtime.launch import Loaded
from schedlang.runtime.simulator import simulate_file
from schedlang.target import Target
from tests import networks
from tests.conftest import Golden
from tests.linked_networks import Parts, add, relu
from tests.marks import compiles
from tests.test_gpu_launch import Core, Driver, OnGpu, core
from tests.test_gpu_profile import Timeline, line
from tests.test_network import mlp, softmax_of
from tests.test_network_module import of_residual, random, residual, reversed_rows

pytestmark = pytest.mark.slow

__all__ = ["core", "line"]
Small = tuple[Network, np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture
def driver(core: Core, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Install a driver with one GPU."""
    found, launch, turns = Driver(count=1), core.launch, threading.RLock()

    def alone(*args: Any) -> None:
        # the simulator runs one kernel at a time
        with turns:
            launch(*args)

    core.launch = alone  # type: ignore[method-assign]
    monkeypatch.setattr(nvidia, "driver", lambda: found)
    monkeypatch.setattr(nvidia, "gpu_of", lambda address: None)
    monkeypatch.setattr(nvidia, "allow_shared", lambda kernel, size: None)
    monkeypatch.setattr(files, "load", lambda path: SimpleNamespace(**simulate_file(path)))
    return found


def bound(tensor: sl.Tensor) -> sl.Schedule:
    """Return a schedule in which each stage is a kernel of blocks of 32 threads."""
    s = sl.schedule(tensor)
    for stage in s.stages:
        if stage.op.input_tensors:
            view = s[stage]
            block, thread = view.split(view.fuse(*view.op.axis), factor=32)
            view.bind(block, "blockIdx.x")
            view.bind(thread, "threadIdx.x")
    return s


def block(target: str = "cuda") -> tuple[Any, dict[str, np.ndarray]]:
    """Return a block with a branch, and the arrays of its weights."""
    return residual(Parts(target), bound)


def rows(n: Any) -> NetworkModule:
    """Return a module of two calls with storage between the kernels of each, for ``n`` rows."""
    parts = Parts("cuda")
    x, w = sl.placeholder((n, 40), name="x"), sl.placeholder((40,), name="w")
    first = parts.add("first", reversed_rows, x, how=bound)
    scaled = parts.add("scaled", lambda t, v: sl.compute(
        t.shape, lambda i, j: t[i, j] * v[j], name="scaled"), first, w, how=bound)  # fmt: skip
    out = parts.add("second", reversed_rows, scaled, how=bound)
    return parts.module([x], [out], {w: np.arange(40, dtype="float32")}, "rows")


def launchers(module: NetworkModule) -> dict[int, NetworkLauncher]:
    """Return the launchers of a module by the number of the GPU."""
    backend = module._backend
    assert isinstance(backend, DeviceBackend)
    return backend._ready


def of_rows(x: np.ndarray) -> np.ndarray:
    made: np.ndarray = 2 * ((2 * x[:, ::-1] + 1) * np.arange(40, dtype="float32"))[:, ::-1] + 1
    return made


def symbolic() -> tuple[Network, np.ndarray]:
    """Return a network for any batch, and its weights."""
    x, w = sl.placeholder((sl.var("n"), 6), name="x"), sl.placeholder((5, 6), name="w")
    scores = topi.nn.relu(sl.named("fc", topi.nn.dense(x, w)))
    values = random(5, 6)
    net = sl.network(sl.named("shares", topi.nn.softmax(scores)), {w: values}, target="cuda")
    return net, values


def test_no_helper_of_a_file_hides_an_intrinsic() -> None:
    assert not set(HELPERS) & set(GPU_NAMES)


def test_the_text_of_a_module(golden: Golden) -> None:
    golden(block()[0].source)


def test_the_text_of_a_module_for_any_size(golden: Golden) -> None:
    golden(rows(sl.var("n")).source)


def test_the_source_agrees_with_numpy() -> None:
    module, arrays = block()
    x = random(4, 6, 8)
    np.testing.assert_allclose(module.simulate(x), of_residual(x, arrays), rtol=1e-4, atol=1e-6)
    again = pickle.loads(pickle.dumps(module))
    np.testing.assert_array_equal(again.simulate(x), module.simulate(x))
    assert [call.function for call in module.calls][:2] == ["launch_stem", "launch_conv1"]
    lines = module.source.splitlines()
    for call in module.calls:
        first, last = call.lines
        assert lines[first - 1].startswith(f"# Kernel of {call.name}: ")
        assert any(f"def {call.function}(" in text for text in lines[first:last])


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int64", "uint16", "float16", "bfloat16", "float64", "complex64"]
)
def test_tensors_of_every_dtype(dtype: str, driver: Driver) -> None:
    """Three tensors of odd sizes between kernels, a parameter, and copies there and back."""
    kind = np.dtype(array_dtype(dtype))
    parts = Parts("cuda")
    x, w = sl.placeholder((7,), dtype, name="x"), sl.placeholder((7,), dtype, name="w")

    def both(a: sl.Tensor, b: sl.Tensor) -> sl.Tensor:
        other = (lambda i: a[i] | b[i]) if dtype == "bool" else (lambda i: a[i] + b[i])
        return sl.compute((7,), other, name="both")

    def turned(a: sl.Tensor) -> sl.Tensor:
        return sl.compute((7,), lambda i: a[6 - i], name="turned")

    one = parts.add("one", both, x, w, how=bound)
    two = parts.add("two", turned, one, how=bound)
    three = parts.add("three", both, two, one, how=bound)
    out = parts.add("out", both, three, x, how=bound)
    a, b = (np.random.default_rng(k).integers(0, 3, 7).astype(kind) for k in range(2))
    module = parts.module([x], [out], {w: b})
    first = a | b if dtype == "bool" else a + b
    last = first[::-1] | first | a if dtype == "bool" else first[::-1] + first + a
    for found in (module.simulate(a), module(a)):
        assert found.dtype == kind
        np.testing.assert_array_equal(found, last)


def test_several_inputs_outputs_and_scalars(driver: Driver) -> None:
    parts = Parts("cuda")
    x, y = sl.placeholder((3, 5), name="x"), sl.placeholder((3, 5), name="x")
    scale = sl.var("scale", dtype="float32")
    first = parts.add("v", lambda a, s: sl.compute(
        a.shape, lambda i, j: a[i, j] * s, name="t"), x, scale, how=bound)  # fmt: skip
    second = parts.add("v", add, first, y, how=bound)
    # names that the source needs, and two of one name
    module = parts.module([x, scale, y], [second, first], name="launch")
    a, b = random(3, 5), random(3, 5)
    assert module.name == "launch_"
    for sums, scaled in (module.simulate(a, 2.5, b), module(a, 2.5, b), module(OnGpu(a), 2.5, b)):
        np.testing.assert_array_equal(np.asarray(getattr(scaled, "data", scaled)), a * 2.5)
        np.testing.assert_array_equal(np.asarray(getattr(sums, "data", sums)), a * 2.5 + b)
    assert not module.memory.placed and driver.copied == 4 + 1


def test_empty_and_single_elements(driver: Driver) -> None:
    parts = Parts("cuda")
    x = sl.placeholder((0, 4), name="x")
    one = parts.add("one", relu, x, how=bound)
    out = parts.add("out", relu, one, how=bound)
    assert parts.module([x], [out])(np.zeros((0, 4), "float32")).shape == (0, 4)
    parts = Parts("cuda")
    x = sl.placeholder((), name="x")

    def root(t: sl.Tensor) -> sl.Tensor:
        return sl.compute((), lambda: sl.sqrt(t[()]), name="root")

    def alone(tensor: sl.Tensor) -> sl.Schedule:
        s = sl.schedule(tensor)
        s[tensor].bind(s[tensor].fuse(), "threadIdx.x")
        return s

    one = parts.add("one", root, x, how=alone)
    out = parts.add("out", root, one, how=alone)
    found = parts.module([x], [out])(np.array(16, "float32"))
    assert found.shape == () and found == 2


def test_storage_between_the_kernels_of_a_part_is_in_the_arena() -> None:
    module = rows(3)
    assert "device_array(ARENA_BYTES" in module.source
    assert "device_array(" not in module.source[: module.source.index("def part")]
    names = {placed.name for placed in module.memory.placed}
    assert names == {"first", "first_scratch", "scaled", "second_scratch"}
    x = random(3, 40)
    np.testing.assert_allclose(module.simulate(x), of_rows(x), rtol=1e-5)


@pytest.fixture(scope="module")
def small() -> Small:
    """Return a network of two parts, its weights and an input."""
    return mlp(target="cuda")


def test_a_network_computes_what_its_stages_do(small: Small) -> None:
    net, w, b, x = small
    np.testing.assert_allclose(net.module.simulate(x), softmax_of(x, w, b), rtol=1e-5)
    assert [kernel.origin for kernel in net.kernels] == ["model", "model"]


def test_the_emulator_runs_and_profiles_a_network() -> None:
    x, w = sl.placeholder((40,), name="x"), sl.placeholder((40,), name="w")
    net = sl.network(sl.named("out", topi.nn.relu(x + w)), {w: random(40)}, target="cuda-emulator")
    a = random(40)
    np.testing.assert_allclose(net(a), np.maximum(a + net.weights["w"], 0), rtol=1e-6)
    found = net.profile(a, repeat=1)
    assert [kernel.name for kernel in found.kernels] == ["out"]
    assert "the CPU emulates a GPU" in str(found) and "emulates" in found._repr_html_()


def test_a_block_on_the_emulator() -> None:
    module, arrays = block("cuda-emulator")
    x = random(4, 6, 8)
    np.testing.assert_allclose(module(x), of_residual(x, arrays), rtol=1e-4, atol=1e-6)


def test_cuda_is_the_emulator_where_the_environment_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SCHEDLANG_CUDA", "emulator")
    assert mlp(target="cuda")[0].target.kind == "cuda-emulator"


def on_emulator(net: Network) -> Network:
    """Return the same network for the emulator, with the same schedules."""
    steps = {kernel.name: kernel.schedule.to_json() for kernel in net.kernels}
    weights = arrays_of(with_weights(net._compiled))
    model = Model(net.outputs, net.inputs, weights, structure=net.recipe.structure)
    plan = Plan(options_of_prepared((), (), True), saved=saved_schedules(steps))
    return Network(Compiled(OfModel(net.name, model), Target("cuda-emulator"), plan))


def test_equal_parts_share_their_kernels() -> None:
    x = sl.placeholder((4, 4), name="x")
    ws = [sl.placeholder((4, 4), name=f"w{k}") for k in range(3)]
    y, given = x, {}
    for k, w in enumerate(ws):
        y = sl.named(f"relu{k}", topi.nn.relu(sl.named(f"fc{k}", topi.nn.dense(y, w))))
        given[w] = random(4, 4)
    net = sl.network(y, given, target="cuda")
    assert net.source.count("@cuda.jit") < 3 * len(net.partition)
    assert {call.function for call in net.module.calls} == {"launch_fc0"}
    a = random(4, 4)
    wanted = a
    for w in given.values():
        wanted = np.maximum(wanted @ w.T, 0)
    module = net.module
    np.testing.assert_allclose(module.simulate(a), wanted, rtol=1e-5, atol=1e-6)


def test_several_outputs_and_a_chain_with_a_scan() -> None:
    """A recurrence whose kernels the host launches in a loop, and an output that others read."""
    x, w = sl.placeholder((3, 2, 4), name="x"), sl.placeholder((4, 4), name="w")
    h = sl.placeholder((3, 2, 4), name="h")
    k = sl.reduce_axis(4, name="k")
    first = sl.compute((1, 2, 4), lambda t, i, j: x[0, i, j], name="first")
    product = sl.compute(
        (3, 2, 4), lambda t, i, j: sl.sum(h[t - 1, i, k] * w[j, k], axis=k), name="product"
    )
    step = sl.compute((3, 2, 4), lambda t, i, j: sl.tanh(product[t, i, j] + x[t, i, j]),
                      name="step")  # fmt: skip
    states = sl.scan(first, step, h, inputs=[x], name="states")
    last = sl.compute((2, 4), lambda i, j: states[2, i, j] * 2, name="last")
    values = random(4, 4)
    net = sl.network([states, last], {w: values}, target="cuda")
    a = random(3, 2, 4)
    wanted = [a[0]]
    for t in (1, 2):
        wanted.append(np.tanh(wanted[-1] @ values.T + a[t]))
    found, doubled = net.module.simulate(a)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(doubled, 2 * wanted[2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["cuda", "cuda-emulator"])
@pytest.mark.parametrize("make", [
    lambda: networks.resnet((1, 1), networks.basic, 8, 8),
    lambda: networks.resnet((1,), networks.bottleneck, 8, 8, batch=2),
    networks.inverted_residual, networks.transformer, networks.tagger, networks.mlp,
])  # fmt: skip
def test_networks_of_every_kind(target: str, make: Any) -> None:
    y, x, params = make()
    given = networks.input_for(x)
    net = sl.network(y, params, target=target)
    run = net.module.simulate if net.module.data.device else net
    wanted = sl.reference(y)(**{x.name: given}, **{t.name: a for t, a in params.items()})
    np.testing.assert_allclose(run(given), wanted, rtol=1e-4, atol=1e-5)


def test_a_symbolic_batch() -> None:
    net, w = symbolic()
    module = net.module
    for batch in (1, 3, 0):
        x = random(batch, 6)
        found = module.simulate(x)
        assert found.shape == (batch, 5)
        np.testing.assert_allclose(found, softmax_of(x, w, np.zeros(5, "float32")), rtol=1e-5)
    assert module.memory_at(n=3).peak > 0


def test_arrays_are_copied_once_or_not_at_all(driver: Driver) -> None:
    module, arrays = block()
    x = random(4, 6, 8)
    np.testing.assert_allclose(module(x), of_residual(x, arrays), rtol=1e-4, atol=1e-6)
    # the parameters, the input, and the output that comes back
    assert (driver.copied, driver.allocated) == (3, 1)
    module(x)
    assert (driver.copied, driver.allocated) == (5, 1)
    found = module(OnGpu(x))
    assert isinstance(found, OnGpu) and (driver.copied, driver.allocated) == (5, 2)
    out = OnGpu(np.zeros((4, 6, 8), "float32"))
    assert module(OnGpu(x), out) is out and module(x=OnGpu(x), out=out) is out
    np.testing.assert_array_equal(out.data, found.data)
    assert (driver.copied, driver.allocated) == (5, 2)
    module.release_memory()
    module(OnGpu(x), out)
    assert driver.allocated == 3
    # it waits for the parameters, and for what was copied, which is freed after the call
    assert driver.waited == [0, 0, 0]


def test_each_stream_has_memory_of_its_own(driver: Driver, core: Core) -> None:
    module, arrays = block()
    x, out = random(4, 6, 8), OnGpu(np.zeros((4, 6, 8), "float32"))
    for stream in (0, 7, 7, 0, 5):
        out.data[:] = 0
        module(OnGpu(x, stream or None), out)
        np.testing.assert_allclose(out.data, of_residual(x, arrays), rtol=1e-4, atol=1e-6)
    assert driver.allocated == 3 and driver.copied == 1
    assert set(core.streams) == {0, 5, 7} and len(core.streams) == 5 * 6


def test_calls_that_are_launched_at_once_have_memory_of_their_own(
    driver: Driver, core: Core
) -> None:
    """Half of a call is launched, then a whole other one: a thread may come in between."""
    module, arrays = block()
    a, b = random(4, 6, 8), random(4, 6, 8)
    outs = [OnGpu(np.zeros((4, 6, 8), "float32")) for _ in range(2)]
    module(OnGpu(a), outs[0])
    launched = 0
    kernels = [k for k in launchers(module)[0]._names.values() if isinstance(k, Loaded)]
    launch = kernels[0]._launch

    def interrupted(*args: Any) -> None:
        nonlocal launched
        launched += 1
        launch(*args)
        if launched == 3:
            module(OnGpu(b), outs[1])

    for kernel in kernels:
        kernel._launch = interrupted
    module(OnGpu(a), outs[0])
    assert launched == 12 and driver.allocated == 2
    np.testing.assert_allclose(outs[0].data, of_residual(a, arrays), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(outs[1].data, of_residual(b, arrays), rtol=1e-4, atol=1e-6)


def test_threads_call_at_once(driver: Driver) -> None:
    module, arrays = block()
    x, wrong = random(4, 6, 8), []
    wanted = of_residual(x, arrays)

    def work(stream: int) -> None:
        out = OnGpu(np.zeros((4, 6, 8), "float32"))
        for _ in range(2):
            module(OnGpu(x, stream), out)
            if not np.allclose(out.data, wanted, rtol=1e-4, atol=1e-6):
                wrong.append(stream)

    threads = [threading.Thread(target=work, args=(stream,)) for stream in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and driver.copied == 1


def test_the_stream_of_each_thread_has_memory_that_ends_with_it(driver: Driver) -> None:
    """The number 2 is another stream in each thread (CU_STREAM_PER_THREAD)."""
    module, arrays = block()
    x, out = random(4, 6, 8), OnGpu(np.zeros((4, 6, 8), "float32"))
    module(OnGpu(x, 2), out)
    thread = threading.Thread(target=module, args=(OnGpu(x, 2), out))
    thread.start()
    thread.join()
    module(OnGpu(x, 2), out)
    np.testing.assert_allclose(out.data, of_residual(x, arrays), rtol=1e-4, atol=1e-6)
    assert driver.allocated == 2
    module.release_memory()
    module(OnGpu(x, 2), out)
    assert driver.allocated == 3


def test_memory_of_a_size_is_laid_out_once(driver: Driver) -> None:
    module = rows(sl.var("n"))
    made: list[int] = []
    for size in (3, 5, 3, 5, 2):
        x, out = random(size, 40), OnGpu(np.zeros((size, 40), "float32"))
        module(OnGpu(x), out)
        np.testing.assert_allclose(out.data, of_rows(x), rtol=1e-5)
        made.append(len(launchers(module)[0]._free[0][0].views))
    # the larger arena replaced the smaller one, and has the views of all later sizes
    assert made == [1, 1, 2, 2, 3]
    assert len(launchers(module)[0]._free[0]) == 1


def test_each_gpu_has_its_parameters(driver: Driver) -> None:
    driver.count = 2
    module, arrays = block()
    x = random(4, 6, 8)
    for number in (0, 1, 0):
        driver.device = number
        np.testing.assert_allclose(module(x), of_residual(x, arrays), rtol=1e-4, atol=1e-6)
    assert set(launchers(module)) == {0, 1} and driver.copied == 2 + 3 * 2


def test_what_does_not_fit_is_refused(driver: Driver) -> None:
    module, _ = block()
    x = random(4, 6, 8)
    for given, error, message in (
        (OnGpu(random(4, 6, 9)), CallError, "x must have shape|dimension 2 must be 8"),
        (OnGpu(x.astype("float64")), CallTypeError, "float64"),
        (OnGpu(random(4, 6, 16)[..., ::2]), CallError, "strided"),
        (3, CallTypeError, "x"),
    ):
        with pytest.raises(error, match=message):
            module(given)
    with pytest.raises(CallError, match="overlaps x"):
        module(OnGpu(x), OnGpu(x))
    with pytest.raises(BuildError, match="bound of network block.*\n.*Call the module"):
        module.bound(x)
    with pytest.raises(BuildError, match="stamped of network block.*\n.*Use timed"):
        module.stamped(np.zeros(7, "int64"), x)
    driver.capability = (8, 0)
    with pytest.raises(CallError, match="network block is built for sm_90, but this GPU is sm_80"):
        block()[0](x)


def test_a_grid_that_no_gpu_allows_is_refused(driver: Driver) -> None:
    parts = Parts("cuda")
    n = sl.var("n")
    x = sl.placeholder((n,), name="x")

    def tall(tensor: sl.Tensor) -> sl.Schedule:
        s = sl.schedule(tensor)
        s[tensor].bind(tensor.op.axis[0], "blockIdx.y")
        return s

    out = parts.add("twice", lambda t: sl.compute((n,), lambda i: t[i] * 2, name="t"), x, how=tall)
    module = parts.module([x], [out])
    with pytest.raises(CallError, match="kernel t_kernel: blockIdx.y would have extent 65536 for"):
        module(OnGpu(np.zeros(65536, "float32")))


def test_shared_memory_that_another_gpu_lacks_is_named(driver: Driver) -> None:
    parts = Parts(Target("cuda", arch="sm_80"))
    x = sl.placeholder((32, 1000), name="x")

    def tiled(tensor: sl.Tensor) -> sl.Schedule:
        s = sl.schedule(tensor)
        (read,) = tensor.op.input_tensors
        tile = s.cache_read(read, "shared", [tensor])
        s[tensor].bind(tensor.op.axis[0], "threadIdx.x")
        block, _ = s[tensor].split(s[tensor].leaf_axes[-1], factor=1000)
        s[tile].compute_at(s[tensor], block)
        s[tile].bind(s[tile].op.axis[0], "threadIdx.x")
        return s

    out = parts.add("out", relu, x, how=tiled)
    module = parts.module([x], [out])
    driver.capability = (8, 9)
    with pytest.raises(BuildError, match="for sm_89: kernel relu_kernel needs 128,000 B of shared"):
        module(random(32, 1000))
    driver.capability = (8, 0)
    x = random(32, 1000)
    np.testing.assert_array_equal(module(x), np.maximum(x, 0))
    with pytest.raises(BuildError, match="save: kernel relu_kernel of network net needs 128,000 B"):
        module.standalone()


def test_a_profile_has_the_time_of_each_part(
    line: Timeline, driver: Driver, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile, "gpu_ceilings", lambda dtype: Ceilings(1000.0, 1000.0))
    net, _, _, x = small
    # a module of its own, which is loaded with this driver
    net = pickle.loads(pickle.dumps(net))
    found = net.profile(x, repeat=2)
    assert [kernel.name for kernel in found.kernels] == ["dense", "shares"]
    assert found.runs == 2 and not found.note
    # the n-th launch takes n*100 us
    assert found["shares"].seconds > found["dense"].seconds > 0
    first, last = found["shares"].lines
    assert "def launch_shares(" in "\n".join(net.source.splitlines()[first - 1 : last])


@pytest.mark.parametrize("target", ["cuda", "cuda-emulator"])
def test_saved_and_loaded(tmp_path: Path, target: str, small: Small) -> None:
    net, w, b, x = small
    net = net if target == "cuda" else on_emulator(net)
    folder = net.save(tmp_path / "mlp")
    text = (folder / "network.py").read_text()
    assert "def memory_of(" in text and "import schedlang" not in text
    assert "from schedlang" not in text
    again = sl.load(folder)
    assert again.target.kind == "cuda" and again.target.arch == net.target.arch
    steps = [kernel.schedule.to_json() for kernel in net.kernels]
    assert [kernel.schedule.to_json() for kernel in again.kernels] == steps
    np.testing.assert_allclose(again.module.simulate(x), softmax_of(x, w, b), rtol=1e-5)
    with pytest.raises(NetworkError, match='saved for target="cuda".*\n.*or build the network'):
        sl.load(folder, target="cpu")


def test_a_network_for_a_cpu_is_not_loaded_for_a_gpu(tmp_path: Path) -> None:
    folder = mlp(target="cpu")[0].save(tmp_path / "mlp")
    with pytest.raises(NetworkError, match='target="cuda".*was saved for target="cpu"'):
        sl.load(folder, target="cuda")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert sl.load(folder).target.kind == "cpu"
    for wrong in ({"kind": "tpu", "arch": ""}, {"kind": "cuda", "arch": "sm_10"}, "cuda"):
        (folder / "manifest.json").write_text(json.dumps({**manifest, "target": wrong}))
        with pytest.raises(NetworkError, match="not a saved network"):
            sl.load(folder)


def test_the_data_of_a_module_as_json() -> None:
    for module in (block()[0], rows(sl.var("n"))):
        data = module.data
        again = from_data(json.loads(json.dumps(to_data(data))), data.text)
        assert again == data and again.device == data.device
        broken = {**to_data(data), "device": {"kernels": [{}], "alignment": []}}
        with pytest.raises(BuildError, match="damaged"):
            from_data(broken, data.text)


def test_a_network_from_the_cache_is_not_linked_again(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    net, w, b, x = small
    first, second = (pickle.loads(pickle.dumps(net)) for _ in range(2))
    source = first.source
    monkeypatch.setattr(compiled, "link_for", lambda *_: pytest.fail("linked again"))
    assert second.source == source
    np.testing.assert_allclose(second.module.simulate(x), softmax_of(x, w, b), rtol=1e-5)


def test_a_network_can_be_pickled(small: Small) -> None:
    net, w, b, x = small
    again = pickle.loads(pickle.dumps(net))
    assert again.target == net.target
    np.testing.assert_allclose(again.module.simulate(x), softmax_of(x, w, b), rtol=1e-5)


def test_a_search_that_times_nothing_says_why(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = SimpleNamespace(ended="", broken=False)
    untimed = SimpleNamespace(seconds=None, facts=facts)
    monkeypatch.setattr(tuning, "autotune", lambda *args, **options: untimed)
    with ThreadPoolExecutor(1) as workers:
        for net, why, options in (
            (small[0], "the workers have no GPU", {"executor": workers}),
            (on_emulator(small[0]), "the emulator's", {}),
        ):
            net = pickle.loads(pickle.dumps(net))
            found = net.tune(trials=1, progress=False, **options)
            assert found.seconds is None
            assert f"dense: no candidate was timed, since {why}" in str(found)


def test_a_search_without_a_gpu_is_refused_before_it_starts(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = pickle.loads(pickle.dumps(small[0]))
    monkeypatch.setattr(tuning, "driver", lambda: None)
    monkeypatch.setattr(tuning, "machine_for", lambda target: NO_GPU)
    monkeypatch.setattr(tuning, "autotune", lambda *args, **options: pytest.fail("a search"))
    with pytest.raises(TuningError) as caught:
        net.tune(timeout=600, progress=False)
    first, *hints = str(caught.value).splitlines()
    assert first == (
        f'tune of network {net.name} for target="cuda": it times candidates on an NVIDIA GPU, and '
        "none is available on this machine"
    )
    assert "executor=" in hints[0] and "database=" in hints[0] and "cost model" in hints[1]
    monkeypatch.setattr(tuning, "machine_for", lambda target: "NVIDIA H200")
    searched: list[Any] = []
    facts = SimpleNamespace(ended="", broken=False)
    timed = SimpleNamespace(seconds=1e-3, facts=facts, trials=[])
    monkeypatch.setattr(tuning, "autotune", lambda *args, **options: searched.append(args) or timed)
    found = net.tune(trials=1, progress=False)
    assert len(searched) == len(net.kernels) and "keeps its schedule" in str(found)


def test_kernels_of_a_cpu_are_no_network_for_a_gpu() -> None:
    parts = Parts("python")
    x = sl.placeholder((8,), name="x")
    out = parts.add("total", add, x, x)
    with pytest.raises(BuildError, match="part total is a kernel for a CPU"):
        module_data("net", [x], [out], [], parts.calls, Target("cuda"))


@compiles
def test_a_call_without_a_gpu_says_what_to_do() -> None:
    from numba import cuda

    if cuda.is_available():
        pytest.skip("this machine has a GPU")
    module, _ = block()
    with pytest.raises(CallError, match='network block: it needs an NVIDIA GPU.*\n.*"cuda-emul'):
        module(random(4, 6, 8))


def check_machine_code(net: Network) -> None:
    """Compile every kernel for sm_90, and check that it keeps nothing in memory but its arrays."""
    module = net.module
    assert len(module.resources) == net.source.count("@cuda.jit")
    for name, taken in module.resources.items():
        assert (taken.spill_bytes, taken.local_bytes) == (0, 0), name
        assert 0 < taken.registers <= 255 and 0 < taken.occupancy <= 1
        assert f".entry {name}(" in module.ptx
    assert ".target sm_90" in module.ptx


@compiles
def test_kernels_are_machine_code_without_spills(small: Small) -> None:
    check_machine_code(small[0])


@compiles
@pytest.mark.parametrize("blocks, block, size, width", [
    ((2, 2, 2, 2), networks.basic, 32, 16),
    ((2, 2, 2, 2), networks.basic, 224, 64),
    ((3, 4, 6, 3), networks.bottleneck, 224, 64),
], ids=["small ResNet-18", "ResNet-18", "ResNet-50"])  # fmt: skip
def test_resnets_are_machine_code_without_spills(
    blocks: tuple[int, ...], block: Any, size: int, width: int
) -> None:
    y, _, params = networks.resnet(blocks, block, size, width, 1000)
    net = sl.network(y, params, target="cuda")
    assert {kernel.origin for kernel in net.kernels} <= {"model", "database", "near size"}
    check_machine_code(net)


@compiles
def test_a_saved_network_compiles_without_schedlang(tmp_path: Path, small: Small) -> None:
    folder = small[0].save(tmp_path / "mlp")
    program = (
        "import sys; sys.modules['schedlang'] = None\n"
        "import numpy as np, network\n"
        "from numba import cuda, types\n"
        "assert network.pack(np.load('weights.npz')).size == network.PARAM_BYTES\n"
        "kernels = [v for k, v in vars(network).items() if k.endswith('_kernel')]\n"
        "assert len(kernels) >= 2\n"
        "for k in kernels:\n"
        "    count = k.py_func.__code__.co_argcount\n"
        "    cuda.compile_ptx(k.py_func, (types.float32[::1],) * count, cc=(9, 0))\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, timeout=300)
