"""CUDA graphs of networks. None needs a GPU: a driver here records launches of the simulator."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.errors import BuildError, CallError, CallTypeError
from schedlang.runtime import cuda_graph
from tests.linked_networks import Parts
from tests.test_gpu_launch import Core, Driver, OnGpu, core
from tests.test_network_gpu import block, bound, driver, of_rows, rows
from tests.test_network_module import of_residual, random

pytestmark = pytest.mark.slow

__all__ = ["core", "driver"]
RECORDS = 99


class Graphs:
    """A replacement for the driver's functions: what is launched on a stream that records waits."""

    def __init__(self, core: Core) -> None:
        self.recording: list[Callable[[], None]] | None = None
        self.launched: list[int] = []
        self.alive: list[str] = []
        run = core.launch

        def launch(stream: int, *args: Any) -> None:
            if stream != RECORDS:
                run(stream, *args)
                return
            assert self.recording is not None
            self.recording.append(lambda: run(RECORDS, *args))

        core.launch = launch  # type: ignore[method-assign]

    def binding(self) -> Any:
        return SimpleNamespace(
            CUstream_flags=SimpleNamespace(CU_STREAM_NON_BLOCKING=SimpleNamespace(value=1)),
            CUstreamCaptureMode=SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL="thread"),
            CUstream=int,
        )

    def cuStreamCreate(self, flags: int) -> int:  # noqa: N802
        assert flags == 1
        self.alive.append("stream")
        return RECORDS

    def cuStreamDestroy(self, stream: int) -> None:  # noqa: N802
        self.alive.remove("stream")

    def cuStreamBeginCapture(self, stream: int, mode: str) -> None:  # noqa: N802
        assert (stream, mode, self.recording) == (RECORDS, "thread", None)
        self.recording = []

    def cuStreamEndCapture(self, stream: int) -> Any:  # noqa: N802
        found, self.recording = self.recording, None
        self.alive.append("graph")
        return found

    def cuGraphDestroy(self, graph: Any) -> None:  # noqa: N802
        self.alive.remove("graph")

    def cuGraphInstantiate(self, graph: Any, flags: int) -> Any:  # noqa: N802
        self.alive.append("ready")
        return graph

    def cuGraphExecDestroy(self, graph: Any) -> None:  # noqa: N802
        self.alive.remove("ready")

    def cuGraphLaunch(self, graph: Any, stream: int) -> None:  # noqa: N802
        self.launched.append(stream)
        for run in graph:
            run()


@pytest.fixture
def graphs(driver: Driver, core: Core, monkeypatch: pytest.MonkeyPatch) -> Graphs:
    found = Graphs(core)
    monkeypatch.setattr(cuda_graph, "_driver", lambda: (found.binding(), found))
    monkeypatch.setattr(Driver, "defer_cleanup", nullcontext, raising=False)
    return found


def test_a_replay_computes_with_what_the_inputs_hold(graphs: Graphs, driver: Driver) -> None:
    module, arrays = block()
    x = OnGpu(random(4, 6, 8))
    graph = module.cuda_graph(x)
    assert isinstance(graph.outputs, OnGpu) and not graphs.launched
    wanted = of_residual(x.data, arrays)
    np.testing.assert_allclose(graph.outputs.data, wanted, rtol=1e-4, atol=1e-6)
    x.data[:] = random(4, 6, 8)[::-1]
    wanted = of_residual(x.data, arrays)
    assert graph.replay() is graph.outputs and graphs.launched == [0]
    np.testing.assert_allclose(graph.outputs.data, wanted, rtol=1e-4, atol=1e-6)
    assert driver.copied == 1 and graphs.alive == ["ready"]
    del graph
    assert not graphs.alive


def test_outputs_and_streams(graphs: Graphs, driver: Driver) -> None:
    module, arrays = block()
    x, out = OnGpu(random(4, 6, 8), 7), OnGpu(np.zeros((4, 6, 8), "float32"))
    graph = module.cuda_graph(x, out)
    # no replay may start before the first run has ended
    assert graph.outputs is out and driver.waited[-1] == 7
    waited = len(driver.waited)
    graph.replay()
    graph.replay(stream=5)
    # by default on the stream that the arrays have now
    x.stream = 3
    graph.replay()
    assert graphs.launched == [7, 5, 3] and len(driver.waited) == waited
    # of two streams, one is waited for before, and the other after
    out.stream = 4
    graph.replay()
    assert graphs.launched[-1] in (3, 4) and sorted(driver.waited[waited:]) == [3, 4]
    with pytest.raises(CallTypeError, match=r"number of a stream, not SimpleNamespace"):
        graph.replay(stream=SimpleNamespace(cuda_stream=3))  # type: ignore[arg-type]
    np.testing.assert_allclose(out.data, of_residual(x.data, arrays), rtol=1e-4, atol=1e-6)


def test_a_graph_has_memory_that_no_call_uses(graphs: Graphs, driver: Driver) -> None:
    module, _ = block()
    x, out = OnGpu(random(4, 6, 8)), OnGpu(np.zeros((4, 6, 8), "float32"))
    module(x, out)
    before = driver.allocated
    graph = module.cuda_graph(x, out)
    assert driver.allocated == before + 1
    module.release_memory()
    module(x, out)
    assert driver.allocated == before + 2
    wanted = out.data.copy()
    out.data[:] = 0
    graph.replay()
    np.testing.assert_array_equal(out.data, wanted)


def test_symbolic_sizes(graphs: Graphs) -> None:
    module = rows(sl.var("n"))
    made = {n: (OnGpu(random(n, 40)), n) for n in (3, 5)}
    found = {n: module.cuda_graph(x) for n, (x, _) in made.items()}
    for n, graph in found.items():
        graph.outputs.data[:] = 0
        graph.replay()
        np.testing.assert_allclose(graph.outputs.data, of_rows(made[n][0].data), rtol=1e-5)


def test_several_outputs_and_a_scalar(graphs: Graphs) -> None:
    parts = Parts("cuda")
    x, factor = sl.placeholder((8,), name="x"), sl.var("factor", dtype="float32")
    scaled = parts.add("scaled", lambda t, f: sl.compute(
        t.shape, lambda i: t[i] * f, name="scaled"), x, factor, how=bound)  # fmt: skip
    shifted = parts.add("shifted", lambda t: sl.compute(
        t.shape, lambda i: t[i] + 1, name="shifted"), scaled, how=bound)  # fmt: skip
    module = parts.module([x, factor], [scaled, shifted], name="pair")
    given = OnGpu(random(8))
    graph = module.cuda_graph(given, 3.0)
    given.data[:] = random(8)[::-1]
    one, two = graph.replay()
    np.testing.assert_allclose(one.data, given.data * 3, rtol=1e-6)
    np.testing.assert_allclose(two.data, given.data * 3 + 1, rtol=1e-6)


def test_arrays_of_the_host_are_refused(graphs: Graphs) -> None:
    module, _ = block()
    x, out = random(4, 6, 8), np.zeros((4, 6, 8), "float32")
    with pytest.raises(CallError, match="x is in the memory of the host"):
        module.cuda_graph(x)
    with pytest.raises(CallError, match=r"torch.from_numpy\(x\).cuda\(\)"):
        module.cuda_graph(OnGpu(x), out)
    with pytest.raises(CallError, match=r"got shape \(2, 6, 8\): dimension 0 must be 4"):
        module.cuda_graph(OnGpu(x[:2].copy()))
    assert not graphs.alive


def test_facts_about_elements_are_refused(
    graphs: Graphs, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call checks them; a replay would read out of bounds."""
    x, at = sl.placeholder((8,), name="x"), sl.placeholder((5,), dtype="int32", name="at")
    sl.assume(at, within=(0, 7))
    net = sl.network(sl.compute((5,), lambda i: x[at[i]] + 1, name="y"), target="cuda")
    with monkeypatch.context() as before:
        before.setattr(driver, "is_available", lambda: False)
        module = net.module
    with pytest.raises(CallError, match="sl.assume"):
        module.cuda_graph(OnGpu(random(8)), OnGpu(np.zeros(5, "int32")))


def test_a_launch_that_fails_ends_the_recording(graphs: Graphs, core: Core) -> None:
    module, _ = block()
    x = OnGpu(random(4, 6, 8))
    launch = core.launch

    def failing(stream: int, *args: Any) -> None:
        if stream == RECORDS and graphs.recording:
            raise RuntimeError("no more")
        launch(stream, *args)

    core.launch = failing  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="no more"):
        module.cuda_graph(x)
    assert graphs.recording is None and not graphs.alive


class CudaDriverError(Exception):
    """A replacement for the error of numba-cuda."""


@pytest.mark.parametrize(
    "call",
    ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate", "launch"],
)
def test_errors_of_the_driver_while_it_records_name_the_network(
    graphs: Graphs, core: Core, call: str
) -> None:
    module, _ = block()
    where, own = (core if call == "launch" else graphs), getattr(graphs, call, core.launch)

    def failing(stream: Any, *args: Any) -> Any:
        if call != "launch" or stream == RECORDS:
            raise CudaDriverError("[901] CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")
        return own(stream, *args)

    setattr(where, call, failing)
    with pytest.raises(CallError) as caught:
        module.cuda_graph(OnGpu(random(4, 6, 8)))
    first, hint = str(caught.value).splitlines()
    assert first == (
        "cuda_graph of network block: the CUDA driver reports [901] "
        "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
    )
    assert "call the network" in hint and isinstance(caught.value.__cause__, CudaDriverError)
    assert "stream" not in graphs.alive and "ready" not in graphs.alive


def test_errors_of_the_driver_in_a_replay_say_what_to_do(graphs: Graphs) -> None:
    module, arrays = block()
    x = OnGpu(random(4, 6, 8))
    graph, launch = module.cuda_graph(x), graphs.cuGraphLaunch

    def failing(*args: Any) -> None:
        raise CudaDriverError("[400] CUDA_ERROR_INVALID_HANDLE")

    graphs.cuGraphLaunch = graph._graph._launch = failing  # type: ignore[method-assign]
    with pytest.raises(CallError, match=r"replay of a CUDA graph of network block: .*\[400\]") as e:
        graph.replay(stream=12)
    assert "cuda_graph(...)" in str(e.value) and isinstance(e.value.__cause__, CudaDriverError)
    graph._graph._launch = launch
    wanted = of_residual(x.data, arrays)
    np.testing.assert_allclose(graph.replay().data, wanted, rtol=1e-4, atol=1e-6)
    # the frames of the error have the graph, which is freed by the driver of this test
    del graph, e
    gc.collect()
    assert "ready" not in graphs.alive


def test_the_errors_of_the_driver_are_known_by_their_names() -> None:
    errors = pytest.importorskip("numba.cuda.cudadrv.error", reason="numba-cuda is not installed")
    core_errors = pytest.importorskip("cuda.core._utils.cuda_utils", reason="no cuda.core")
    for kind in (core_errors.CUDAError, errors.CudaDriverError):
        with pytest.raises(CallError, match="a call: the CUDA driver reports no more\n  Wait"):
            with cuda_graph.driver_errors("a call", "Wait."):
                raise kind("no more")
    with pytest.raises(RuntimeError, match="other"):
        with cuda_graph.driver_errors("a call", "Wait."):
            raise RuntimeError("other")


def test_a_machine_without_a_gpu_is_told_to_call(
    graphs: Graphs, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _ = block()
    monkeypatch.setattr(driver, "is_available", lambda: False)
    with pytest.raises(CallError, match="(?s)none is available here.*Call the network instead"):
        module.cuda_graph(OnGpu(random(4, 6, 8)))


@pytest.mark.parametrize("target", ["python", "cuda-emulator"])
def test_there_is_none_without_a_gpu(target: str) -> None:
    x = sl.placeholder((8,), name="x")
    net = sl.network(sl.named("y", topi.nn.relu(x)), target=target)
    with pytest.raises(BuildError, match=rf"(?s)target='{target}'.*Build it for target=\"cuda\""):
        net.module.cuda_graph(random(8))
