"""Kernels of a network as one module: links, memory of calls, checks, source."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BoundsError, BuildError, CallError, CallTypeError, VerifyError
from schedlang.intrinsics import twins
from schedlang.ir.nodes import Buffer
from schedlang.machine.link import Call, Place, link
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Array, Function, Num, Type, View
from schedlang.machine.scratch import byte_array, with_scratch
from schedlang.machine.verify import verify_machine
from schedlang.networks.call import Memory
from schedlang.networks.data import from_data, to_data
from schedlang.networks.host_backend import HostBackend
from schedlang.networks.module import NetworkModule
from schedlang.networks.program import KernelCall, module_data
from schedlang.runtime.bundle import bundle
from schedlang.target import Target
from tests.conftest import Golden
from tests.linked_networks import Parts, add, conv, dense, relu
from tests.machine_interpreter import interpret_machine
from tests.marks import slow_but

RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.random(shape, "float32") - np.float32(0.5)


def free(module: NetworkModule) -> list[Memory]:
    """Return the memories of a module on a CPU that no call uses."""
    backend = module._backend
    assert isinstance(backend, HostBackend)
    return backend._free


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    half = w.shape[2] // 2
    padded = np.pad(x, ((0, 0), (half, half), (half, half)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (1, 2))
    return np.einsum("cyxij,ocij->oyx", windows, w)


def vectors(tensor: sl.Tensor) -> sl.Schedule:
    """Return a schedule with a parallel outer loop and vectors of 4 in the last one."""
    s = sl.schedule(tensor)
    s[tensor].vectorize(s[tensor].split(tensor.op.axis[-1], factor=4)[1])
    s[tensor].parallel(tensor.op.axis[0])
    return s


def residual(parts: Parts, how: Any = sl.schedule) -> tuple[NetworkModule, dict[str, np.ndarray]]:
    """Return a block with a branch: two convolutions, and what they are given added at the end."""
    x = sl.placeholder((4, 6, 8), name="x")
    w1, w2 = (sl.placeholder((4, 4, 3, 3), name=n) for n in ("w1", "w2"))
    stem = parts.add("stem", relu, x, how=how)
    one = parts.add("conv1", conv, stem, w1, how=how, layers=("layer1.conv1",))
    two = parts.add("relu1", relu, one, how=how)
    three = parts.add("conv2", conv, two, w2, how=how, layers=("layer1.conv2", "layer1.bn2"))
    total = parts.add("sum", add, three, stem, how=how)
    out = parts.add("out", relu, total, how=how)
    arrays = {"w1": random(4, 4, 3, 3), "w2": random(4, 4, 3, 3)}
    return parts.module([x], [out], {w1: arrays["w1"], w2: arrays["w2"]}, "block"), arrays


def of_residual(x: np.ndarray, arrays: dict[str, np.ndarray]) -> np.ndarray:
    stem = np.maximum(x, 0)
    inner = convolved(np.maximum(convolved(stem, arrays["w1"]), 0), arrays["w2"])
    return np.maximum(inner + stem, 0)


@pytest.mark.parametrize("target", ["python", "c"])
@pytest.mark.parametrize(
    "how",
    [pytest.param(sl.schedule, marks=pytest.mark.slow), vectors],
    ids=["plain", "vectors"],
)
def test_a_block_with_a_branch_agrees_with_numpy(target: str, how: Any) -> None:
    module, arrays = residual(Parts(target), how)
    for _ in range(2):
        x = random(4, 6, 8)
        np.testing.assert_allclose(module(x), of_residual(x, arrays), rtol=1e-4, atol=1e-6)


def test_a_block_scheduled_at_once() -> None:
    module, arrays = residual(Parts("python"), sl.autoschedule)
    x = random(4, 6, 8)
    np.testing.assert_allclose(module(x), of_residual(x, arrays), rtol=1e-4, atol=1e-6)


def test_the_text_of_a_module(golden: Golden) -> None:
    module, _ = residual(Parts("python"))
    golden(module.source[: module.source.index("def _array")])


def test_the_machine_nest_of_a_module(golden: Golden) -> None:
    """The interpreter runs it; each tensor has one view, and equal kernels one function."""
    module, arrays = residual(Parts(Target("cpu", vector_bytes=32)), vectors)
    nest = module.machine_nest
    golden(nest)
    x, out = random(4, 6, 8), np.zeros((4, 6, 8), "float32")
    arena = np.full(module.data.storage.arena, 0xFF, "uint8")
    work = interpret_machine(nest, [x.reshape(-1), out.reshape(-1), module.params, arena])
    np.testing.assert_allclose(out, of_residual(x, arrays), rtol=1e-4, atol=1e-6)
    assert work.stores["conv"] == 2 * 4 * 6 * 8


def test_equal_kernels_are_one_function() -> None:
    """Kernels that differ in a number are two.

    A name that is too long for a line makes a kernel differ, too: values get names of their own.
    """
    module, _ = residual(Parts("python"))
    defined = [f.name for f in module.machine_nest.functions]
    assert defined == [
        "stem_kernel", "conv1_kernel", "relu1_kernel", "sum__kernel", "block_kernels"
    ]
    assert [c.function for c in module.calls] == [
        "stem_kernel", "conv1_kernel", "relu1_kernel", "conv1_kernel", "sum__kernel",
        "relu1_kernel",
    ]  # fmt: skip
    lines = module.source.splitlines()
    for call in module.calls:
        first, last = call.lines
        assert lines[first - 1].startswith("# Kernel of ") and call.name in lines[first - 1]
        assert lines[last - 1].startswith("    ") and not lines[last].strip()
        assert any(line.startswith(f"def {call.function}(") for line in lines[first - 1 : last])
    parts = Parts()
    x = sl.placeholder((8,), name="x")
    first = parts.add("a", lambda t: sl.compute(t.shape, lambda i: t[i] * 2, name="t"), x)
    out = parts.add("b", lambda t: sl.compute(t.shape, lambda i: t[i] * 3, name="t"), first)
    made = parts.module([x], [out])
    assert len({c.function for c in made.calls}) == 2
    np.testing.assert_array_equal(made(np.ones(8, "float32")), np.full(8, 6, "float32"))


def test_the_residual_takes_over_memory_where_its_kernel_allows_it() -> None:
    module, _ = residual(Parts())
    over = {p.name: p.in_place_of for p in module.memory.placed}
    assert over["relu1"] == "conv1" and over["sum"] in ("conv2", "stem")
    assert over["conv1"] is None and over["conv2"] is None
    parts = Parts()
    x = sl.placeholder((8, 8), name="x")
    first = parts.add("first", relu, x)
    turned = parts.add(
        "turned", lambda t: sl.compute((8, 8), lambda i, j: t[i, j] + t[j, i], name="t"), first
    )
    # the same tensor for both of its arguments: the second one is read at the same place
    twice = parts.add("twice", add, turned, turned)
    out = parts.add("out", relu, twice)
    made = parts.module([x], [out])
    assert all(p.in_place_of is None for p in made.memory.placed)
    a = random(8, 8)
    b = np.maximum(a, 0)
    np.testing.assert_allclose(made(a), np.maximum(2 * (b + b.T), 0), rtol=1e-6)


def reversed_rows(tensor: sl.Tensor) -> sl.Tensor:
    """Return a copy of a large tensor by way of one that the stack does not hold."""
    rows, length = tensor.shape
    twice = sl.compute(tensor.shape, lambda i, j: tensor[i, j] * 2, name="twice")
    return sl.compute(
        tensor.shape, lambda i, j: twice[i, length - 1 - j] + 1, name="reversed"
    )


def by_row(tensor: sl.Tensor) -> sl.Schedule:
    s = sl.schedule(tensor)
    (twice,) = tensor.op.input_tensors
    s[twice].compute_at(s[tensor], tensor.op.axis[0])
    s[tensor].parallel(tensor.op.axis[0])
    return s


@pytest.mark.parametrize("target", slow_but(["c"], ["python", "c"]))
def test_kernels_allocate_nothing(target: str) -> None:
    """Storage of a kernel is in the arena; that of parallel iterations is there for each thread."""
    parts = Parts(target)
    x = sl.placeholder((3, 20_000), name="x")
    first = parts.add("first", reversed_rows, x)
    out = parts.add("second", reversed_rows, first, how=by_row)
    kernels = [str(c.nest) for c in parts.calls]
    assert all("heap" in text for text in kernels)
    module = parts.module([x], [out])
    body = module.source[module.source.index("Kernel of") :]
    assert "heap_array" not in body and "sl_allocated" not in body
    assert ("prange" if target == "python" else "omp parallel") in module.source
    storage = module.data.storage
    assert storage.threads == 80_000 and storage.arena == 2 * 240_000
    a = random(3, 20_000)
    np.testing.assert_allclose(module(a), 2 * (2 * a + 1) + 1, rtol=1e-6)
    assert len(free(module)) == 1
    # what a forked process runs, on one thread
    alone = module.data.serial_text
    assert "thread_number" not in alone[alone.index("Kernel of") :] and "prange" not in alone
    serial = NetworkModule(replace(module.data, text=alone, serial_text=""), module.params)
    np.testing.assert_array_equal(serial(a), module(a))
    module.release_memory()
    assert not free(module)
    np.testing.assert_allclose(module(a), 2 * (2 * a + 1) + 1, rtol=1e-6)


def test_a_twin_of_an_array_in_the_arena_sees_its_bytes_alone() -> None:
    arena = np.zeros(64, "uint8")
    found = twins.arena_array(arena, 8, 3, "float32")
    found[:] = [1, 2, 3]
    assert arena[8:20].view("float32").tolist() == [1, 2, 3] and not arena[20:].any()
    assert twins.arena_array(arena, 64, 0, "float32").size == 0
    with pytest.raises(IndexError, match="arena_array"):
        twins.arena_array(arena, 60, 2, "float32")


def compiled_rows() -> tuple[NetworkModule, Any]:
    """Return a compiled module with shared kernels, memory of threads and parameters."""
    parts = Parts("cpu")
    x, w = sl.placeholder((3, 20_000), name="x"), sl.placeholder((3, 20_000), name="w")
    first = parts.add("first", reversed_rows, x, how=by_row, layers=("model.first",))
    second = parts.add("second", add, first, w)
    out = parts.add("third", reversed_rows, second, how=by_row)
    array = random(3, 20_000)
    module = parts.module([x], [out], {w: array}, "rows")
    return module, lambda a: 2 * (2 * a + 1 + array[:, ::-1]) + 1


def test_a_compiled_module() -> None:
    """Threads call at once; nothing is allocated; a pickled one agrees."""
    module, expected = compiled_rows()
    inputs = [random(3, 20_000) for _ in range(8)]
    barrier = threading.Barrier(4)

    def work(a: np.ndarray) -> np.ndarray:
        barrier.wait()
        return [module(a) for _ in range(2)][-1]

    with ThreadPoolExecutor(4) as pool:
        for a, found in zip(inputs, pool.map(work, inputs)):
            np.testing.assert_allclose(found, expected(a), rtol=1e-5)
    assert 1 <= len(free(module)) <= 4
    a, out = inputs[0], np.empty((3, 20_000), "float32")
    run, given = module.bound(a, out)
    before = len(free(module))
    tracemalloc.start()
    try:
        run(*given)
        used, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4096 and len(free(module)) == before
    np.testing.assert_allclose(out, expected(a), rtol=1e-5)
    again = pickle.loads(pickle.dumps(module))
    np.testing.assert_array_equal(again(a), out)
    assert again.data == module.data and str(again.machine_nest) == str(module.machine_nest)


def called_alone(text: str, module: NetworkModule, a: np.ndarray) -> np.ndarray:
    """Return what the public function of a file returns, run by itself."""
    names: dict[str, Any] = {"__name__": "alone"}
    exec(compile(text, "alone.py", "exec"), names)
    arrays = {}
    for p in module.data.storage.params:
        size = int(np.prod(p.shape)) * np.dtype(p.dtype).itemsize
        arrays[p.name] = module.params[p.start : p.start + size].view(p.dtype).reshape(p.shape)
    packed = names["pack"](arrays)
    np.testing.assert_array_equal(packed, module.params)
    out = np.empty_like(a)
    assert names[module.name](a, out, params=packed) is out
    with pytest.raises(TypeError, match="x must be a float32 array of shape"):
        names[module.name](a[:1], params=packed)
    with pytest.raises(TypeError, match=r"x must be a NumPy array of float32, got <class 'list'>"):
        names[module.name](a.tolist(), params=packed)
    with pytest.raises(TypeError, match=r"params, the result of pack\(arrays\), must be a NumPy"):
        names[module.name](a, params=arrays)
    with pytest.raises(KeyError, match=f"given to pack have no weight {next(iter(arrays))}"):
        names["pack"]({})
    with pytest.raises(ValueError, match=f"{module.signature.parameters[-1].name} and x overlap"):
        names[module.name](a, a, params=packed)
    return out


def test_the_public_function_of_a_file() -> None:
    module, arrays = residual(Parts())
    x = random(4, 6, 8)
    found = called_alone(module.source, module, x)
    np.testing.assert_allclose(found, of_residual(x, arrays), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_file_with_its_intrinsics_runs_alone() -> None:
    module, expected = compiled_rows()
    text = bundle(module.source)
    assert "import schedlang" not in text and "from schedlang" not in text
    a = random(3, 20_000)
    found = called_alone(text.replace("cache=True, ", ""), module, a)
    np.testing.assert_allclose(found, expected(a), rtol=1e-5)


LOADED = """
import pickle, sys
import numpy as np

module, a, wanted = pickle.load(open(sys.argv[1], "rb"))
np.testing.assert_array_equal(module(a), wanted)
assert "schedlang.runtime.llvm.printed" not in sys.modules
print("done")
"""


@pytest.mark.slow
def test_another_process_loads_the_machine_code(tmp_path: Path) -> None:
    module, _ = compiled_rows()
    a, path = random(3, 20_000), tmp_path / "module.pickle"
    path.write_bytes(pickle.dumps((module, a, module(a))))
    done = subprocess.run(
        [sys.executable, "-c", LOADED, path], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0 and done.stdout.strip() == "done", done.stdout + done.stderr


FORKED = """
import multiprocessing, warnings
import numpy as np
from tests.test_network_module import compiled_rows, random

module, expected = compiled_rows()
a = random(3, 20_000)
np.testing.assert_allclose(module(a), expected(a), rtol=1e-5)

def work(k):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        times = np.zeros(len(module.calls) + 1, "int64")
        start, flat = module.stamped(times, a)
        start(*flat)
        assert (np.diff(times) > 0).all(), times
        return module(a + np.float32(k)), [w.category.__name__ for w in said]

with multiprocessing.get_context("fork").Pool(1) as pool:
    for k, (found, said) in enumerate(pool.map(work, range(2))):
        np.testing.assert_allclose(found, expected(a + np.float32(k)), rtol=1e-5)
        assert set(said) <= {"ForkWarning"}, said
np.testing.assert_allclose(module(a), expected(a), rtol=1e-5)
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_module_in_a_forked_process() -> None:
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", FORKED], cwd=root, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0 and done.stdout.strip() == "done", done.stdout + done.stderr


def test_arguments_are_checked_in_the_users_names() -> None:
    module, _ = residual(Parts())
    x = random(4, 6, 8)
    with pytest.raises(CallError, match=r"network block: argument 0 \(x: float32\[4, 6, 8\]\)"):
        module(random(4, 6, 9))
    with pytest.raises(CallTypeError, match=r"x.astype\('float32'\)"):
        module(x.astype("float64"))
    with pytest.raises(CallError, match="strided"):
        module(np.asfortranarray(x))
    with pytest.raises(CallTypeError, match="network block takes 1 input"):
        module()
    with pytest.raises(CallTypeError, match="has no argument 'y'"):
        module(x, y=x)
    with pytest.raises(CallError, match="output out overlaps x"):
        module(x, x)
    out = np.empty((4, 6, 8), "float32")
    assert module(x, out) is out and module(x=x, out=out) is out
    out.flags.writeable = False
    with pytest.raises(CallError, match="read-only"):
        module(x, out)
    assert repr(module) == (
        "<NetworkModule block(x: float32[4, 6, 8], out: float32[4, 6, 8]) for python>"
    )


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_another_batch_is_told_how_to_take_any() -> None:
    module, _ = residual(Parts())
    with pytest.raises(CallError) as caught:
        module(random(3, 6, 8))
    first, hint = str(caught.value).splitlines()
    assert first.endswith("got shape (3, 6, 8): dimension 0 must be 4")
    assert 'from_torch(..., batch="n")' in hint and "{name of the dimension: sl.var" in hint
    with pytest.raises(CallError, match=r'batch="n"'):
        module(x=random(3, 6, 8))
    # what has more wrong with it than the batch is told that alone
    doubles = random(3, 6, 8).astype("float64")
    for wrong in (random(3, 6, 9), random(4, 6, 9), random(3, 6), doubles):
        with pytest.raises((CallError, CallTypeError)) as caught:
            module(wrong)
        assert "batch" not in str(caught.value)
    with pytest.raises(CallError) as caught:
        module(random(4, 6, 8), random(3, 6, 8))
    assert "batch" not in str(caught.value)


@pytest.mark.parametrize(
    ("shapes", "given", "advised"),
    [
        ([(8, 64), (8, 32)], [(7, 64), (7, 32)], True),
        ([(8, 64), (8,)], [(7, 64), (7,)], True),
        # inputs of different batches, which no one size has
        ([(8, 64), (8, 32)], [(8, 64), (7, 32)], False),
        ([(8, 64), (8, 32)], [(6, 64), (7, 32)], False),
        ([(8, 64), (4, 32)], [(7, 64), (7, 32)], False),
        # a vector is no batch
        ([(64,)], [(32,)], False),
    ],
)
def test_only_a_batch_of_all_inputs_is_told_how_to_take_any(
    shapes: list[tuple[int, ...]], given: list[tuple[int, ...]], advised: bool
) -> None:
    inputs = [sl.placeholder(shape, name=f"x{k}") for k, shape in enumerate(shapes)]
    outputs = [sl.named(f"y{k}", x + 1) for k, x in enumerate(inputs)]
    net = sl.network(outputs, target="python")
    with pytest.raises(CallError) as caught:
        net(*(random(*shape) for shape in given))
    assert ("To take any batch" in str(caught.value)) == advised


def test_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")

    module, arrays = residual(Parts())
    x = random(4, 6, 8)
    found = module(torch.from_numpy(x))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), of_residual(x, arrays), rtol=1e-4, atol=1e-6)


def test_parameters_are_packed_by_name() -> None:
    module, arrays = residual(Parts())
    x = random(4, 6, 8)
    wanted = module(x)
    data = module.data
    assert [(p.name, p.start) for p in data.storage.params] == [("w1", 0), ("w2", 576)]
    for given in (arrays, {**arrays, "other": x}, {n: a[::-1][::-1] for n, a in arrays.items()}):
        np.testing.assert_array_equal(NetworkModule(data, given)(x), wanted)
    read_only = module.params.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(NetworkModule(data, read_only)(x), wanted)
    with pytest.raises(CallError, match="the parameter w2 is missing; did you mean 'w22'"):
        NetworkModule(data, {"w1": arrays["w1"], "w22": arrays["w2"]})
    with pytest.raises(CallError, match=r"w1 has shape \(4, 4, 3\), but must have \(4, 4, 3, 3\)"):
        NetworkModule(data, {**arrays, "w1": arrays["w1"][..., 0]})
    with pytest.raises(CallTypeError, match="the parameter w1 is float64, but must be float32"):
        NetworkModule(data, {**arrays, "w1": arrays["w1"].astype("float64")})
    with pytest.raises(CallError, match=r"must be uint8\[1152\]"):
        NetworkModule(data, module.params[:-1])


@pytest.mark.parametrize(
    "target", ["python", "c", pytest.param("cpu", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int64", "uint16", "float16", "float64", "complex64"]
)
def test_tensors_of_every_size_of_element(dtype: str, target: str) -> None:
    """Three tensors of odd sizes between kernels, and a parameter."""
    parts = Parts(target)
    x, w = sl.placeholder((7,), dtype, name="x"), sl.placeholder((7,), dtype, name="w")

    def both(a: sl.Tensor, b: sl.Tensor) -> sl.Tensor:
        other = (lambda i: a[i] | b[i]) if dtype == "bool" else (lambda i: a[i] + b[i])
        return sl.compute((7,), other, name="both")

    def turned(a: sl.Tensor) -> sl.Tensor:
        return sl.compute((7,), lambda i: a[6 - i], name="turned")

    one = parts.add("one", both, x, w)
    two = parts.add("two", turned, one)
    three = parts.add("three", both, two, one)
    out = parts.add("out", both, three, x)
    a, b = (RNG.integers(0, 3, 7).astype(dtype) for _ in range(2))
    module = parts.module([x], [out], {w: b})
    first = a | b if dtype == "bool" else a + b
    last = first[::-1] | first | a if dtype == "bool" else first[::-1] + first + a
    np.testing.assert_array_equal(module(a), last)


def test_several_inputs_outputs_and_scalars() -> None:
    parts = Parts()
    x, y = sl.placeholder((3, 5), name="x"), sl.placeholder((3, 5), name="x")
    scale = sl.var("scale", dtype="float32")
    first = parts.add(
        "t", lambda a, s: sl.compute(a.shape, lambda i, j: a[i, j] * s, name="t"), x, scale
    )
    second = parts.add("t", add, first, y)
    # names that the source needs, and two of one name
    module = parts.module([x, scale, y], [second, first], name="lambda_")
    a, b = random(3, 5), random(3, 5)
    sums, scaled = module(a, 2.5, b)
    np.testing.assert_array_equal(scaled, a * np.float32(2.5))
    np.testing.assert_array_equal(sums, a * np.float32(2.5) + b)
    assert not module.memory.placed and "arena" not in module.source.partition("def lambda_(")[0]
    assert [p.name for p in module.signature.parameters] == ["x", "scale", "x_1", "t", "t_1"]


def test_empty_and_single_elements() -> None:
    parts = Parts()
    x = sl.placeholder((0, 4), name="x")
    one = parts.add("one", relu, x)
    out = parts.add("out", relu, one)
    assert parts.module([x], [out])(np.empty((0, 4), "float32")).shape == (0, 4)
    parts = Parts()
    x = sl.placeholder((), name="x")
    one = parts.add("one", lambda t: sl.compute((), lambda: t[()] * 2, name="t"), x)
    out = parts.add("out", lambda t: sl.compute((), lambda: t[()] + 1, name="t"), one)
    assert parts.module([x], [out])(np.float32(3)) == 7


def test_what_cannot_be_linked() -> None:
    parts = Parts()
    x = sl.placeholder((8,), name="x")
    one = parts.add("one", relu, x)
    out = parts.add("out", relu, one)
    with pytest.raises(BuildError, match="part one reads x before it is computed"):
        parts.data([], [out])
    with pytest.raises(BuildError, match="nothing computes its output y"):
        parts.data([x], [sl.placeholder((8,), name="y")])
    with pytest.raises(BuildError, match="out stands twice among its inputs, outputs"):
        parts.data([x], [out, out])
    with pytest.raises(BuildError, match="part one writes one, which is known before"):
        parts.data([x, one], [out])
    call = parts.calls[0]
    wrong = KernelCall("one", call.nest, call.signature, (x,))
    with pytest.raises(BuildError, match="part one takes 2 arguments, but 1 are named"):
        module_data("net", [x], [out], [], [wrong], Target("python"))
    other = sl.placeholder((9,), name="other")
    wrong = KernelCall("one", call.nest, call.signature, (other, one))
    with pytest.raises(BuildError, match=r"takes x: float32\[8\], but other is float32\[9\]"):
        module_data("net", [other], [one], [], [wrong], Target("python"))
    with pytest.raises(BuildError, match="part one is a kernel for a CPU"):
        module_data("net", [x], [out], [], parts.calls, Target("cuda"))


def test_comments_stay_comments() -> None:
    """A layer's name may hold any text; it neither ends its line nor continues it."""
    for target, mark in (("python", "#"), ("c", "//")):
        parts = Parts(target)
        x = sl.placeholder((8,), name="x")
        layers = ("evil\nraise SystemExit", "tail\\", "lines\u2028break\r\x0b\x00")
        out = parts.add("out", relu, x, layers=layers, schedule="a\\\nb\tc")
        module = parts.module([x], [out])
        np.testing.assert_array_equal(module(-np.ones(8, "float32")), np.zeros(8, "float32"))
        (line,) = [text for text in module.source.splitlines() if "evil" in text]
        assert f"{mark} evil raise SystemExit, tail/, lines break" in line


def test_an_error_inside_of_a_kernel_names_the_network() -> None:
    """An index that is read from a tensor is checked by target="python"."""
    parts = Parts()
    x, at = sl.placeholder((8,), name="x"), sl.placeholder((4,), "int32", name="at")
    one = parts.add("one", relu, x)
    out = parts.add(
        "taken", lambda t, k: sl.compute((4,), lambda i: t[k[i]], name="taken"), one, at
    )
    module = parts.module([x, at], [out])
    with pytest.raises(BoundsError, match="network net: load at offset 9 of"):
        module(np.ones(8, "float32"), np.array([0, 1, 9, 2], "int32"))
    # the memory of a call that failed is used again
    assert len(free(module)) == 1
    assert module(np.ones(8, "float32"), np.arange(4, dtype="int32")).tolist() == [1] * 4


def test_storage_moves_where_no_two_iterations_share_it() -> None:
    """Blocks that follow each other share scratch; storage of unknown size stays on the heap."""
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    C = sl.compute((n,), lambda i: B[n - 1 - i], name="C")
    made = with_scratch(sl.build(sl.schedule(C), [A, C], target="python").machine_nest)
    assert (made.shared, made.per_thread) == (0, 0) and "heap" in str(made.nest)
    x = sl.placeholder((20_000,), name="x")
    tensor = x
    for k in range(4):
        tensor = reversed_rows_1d(tensor, k)
    nest = sl.build(sl.schedule(tensor), target="python").machine_nest
    scratch = with_scratch(nest)
    assert "heap" not in str(scratch.nest) and scratch.shared == 3 * 80_000
    verify_machine(scratch.nest)
    a, out = random(20_000), np.empty(20_000, "float32")
    interpret_machine(scratch.nest, [a, out, np.full(scratch.shared, 0xFF, "uint8")])
    np.testing.assert_allclose(out, a + 6, rtol=1e-5, atol=1e-5)


def reversed_rows_1d(t: sl.Tensor, k: int) -> sl.Tensor:
    return sl.compute(t.shape, lambda i: t[19_999 - i] + k, name=f"t{k}")


BYTES = byte_array("arena", 128)


def _view(array: Array, whole: Array, start: Any, count: Any) -> MachineNest:
    return MachineNest((Function("f", (whole,), (View(array, whole, start, count),)),))


@pytest.mark.parametrize(
    "start, count, whole, rule",
    [(Num(4), Num(8), BYTES, "begins at a multiple of the 8 bytes"),
     (Num(-8), Num(1), BYTES, "begins at a multiple of the 8 bytes"),
     (Num(72), Num(8), BYTES, "lies in the 128 bytes of arena"),
     (Num(0), Num(1, Type("int32")), BYTES, "is an int64 number of elements"),
     (Num(0), Num(1), Array("a", Buffer("a", "float32", (8,))), "of an array of bytes")],
)  # fmt: skip
def test_the_verifier_refuses_a_view(start: Any, count: Any, whole: Any, rule: str) -> None:
    array = Array("v", Buffer("v", "float64", (8,)))
    verify_machine(_view(array, BYTES, Num(64), Num(8)))
    with pytest.raises(VerifyError, match=rule):
        verify_machine(_view(array, whole, start, count))


def test_links_of_what_does_not_fit() -> None:
    parts = Parts()
    x = sl.placeholder((8,), name="x")
    parts.add("one", relu, x)
    nest = parts.calls[0].nest
    array = Array("x", Buffer("x", "float32", (8,)))
    whole = Array("x", Buffer("x", "float64", (8,)))
    with pytest.raises(VerifyError, match="nothing is known of 'y'"):
        link("net", {"x": array}, {}, [Call(nest, ("x", "y"))])
    with pytest.raises(VerifyError, match="does not fit what is given"):
        link("net", {"x": array, "y": whole}, {}, [Call(nest, ("x", "y"))])
    place = Place(array, BYTES, Num(0), Num(8))
    with pytest.raises(VerifyError, match="y is in no array that the entry takes"):
        link("net", {"x": array}, {"y": place}, [Call(nest, ("x", "y"))])


def test_dense_layers_of_odd_sizes() -> None:
    parts = Parts()
    x = sl.placeholder((3, 5), name="x")
    shapes = {"w0": (7, 5), "w1": (4, 7), "w2": (1, 4)}
    params = {name: sl.placeholder(shape, name=name) for name, shape in shapes.items()}
    # numbers above 0, whose sums do not cancel
    arrays = {params[name]: random(*shape) + 1 for name, shape in shapes.items()}
    tensor, wanted = x, (given := random(3, 5) + 1)
    for name, w in params.items():
        tensor = parts.add(f"dense_{name}", dense, tensor, w)
        wanted = wanted @ arrays[w].T
    module = parts.module([x], [tensor], arrays)
    np.testing.assert_allclose(module(given), wanted, rtol=1e-5)


def test_the_data_of_a_module_as_json() -> None:
    module, arrays = residual(Parts("c"), vectors)
    data = module.data
    text = json.dumps(to_data(data))
    again = from_data(json.loads(text), data.text, data.serial_text)
    assert replace(again, target=data.target) == data
    x = random(4, 6, 8)
    loaded = NetworkModule(again, module.params)
    np.testing.assert_array_equal(loaded(x), module(x))
    with pytest.raises(BuildError, match="was loaded from its source"):
        _ = loaded.machine_nest
    with pytest.raises(BuildError, match="have format 1, but this version .* reads 5"):
        from_data({**to_data(data), "format": 1}, data.text)
    for key in ("entry", "signature", "storage", "plan", "calls", "checks", "launches"):
        broken = {k: v for k, v in json.loads(text).items() if k != key}
        with pytest.raises(BuildError, match="damaged"):
            from_data(broken, data.text)
        with pytest.raises(BuildError, match="damaged"):
            from_data({**broken, key: 7 if key != "entry" else None, "calls": 7}, data.text)


def symbolic(target: str) -> tuple[NetworkModule, Any]:
    """Return a network of batches of any size, with a branch, a parameter and scratch."""
    n = sl.var("n")
    parts = Parts(target)
    x, w = sl.placeholder((n, 5), name="x"), sl.placeholder((5, 5), name="w")
    one = parts.add("one", dense, x, w)
    two = parts.add("two", relu, one)
    three = parts.add(
        "three", lambda a: sl.compute((n, 2, 5), lambda i, k, j: a[i, j] * (k + 1), name="t"), two
    )

    def folded(a: sl.Tensor, b: sl.Tensor) -> sl.Tensor:
        return sl.compute((n, 5), lambda i, j: a[i, 0, j] + a[i, 1, j] + b[i, j], name="folded")

    four = parts.add("four", folded, three, two)
    out = parts.add("out", relu, four)
    array = random(5, 5)

    def expected(a: np.ndarray) -> np.ndarray:
        return 4 * np.maximum(a @ array.T, 0)

    return parts.module([x], [out], {w: array}), expected


@pytest.mark.parametrize("target", ["python", "c"])
def test_symbolic_sizes(target: str) -> None:
    """The memory is planned at the sizes of each call, once for each."""
    module, expected = symbolic(target)
    for n in (4, 1, 0, 9, 4, 2):
        a = random(n, 5)
        np.testing.assert_allclose(module(a), expected(a), rtol=1e-5, atol=1e-6)
    assert max(m.arena for m in free(module)) == module.memory_at(n=9).peak
    # one and two share memory, beside three; then four takes over that of two
    assert module.memory_at(n=9).peak == 192 + 384
    assert {p.name: p.in_place_of for p in module.memory_at(n=9).placed}["two"] == "one"
    data = module.data
    again = from_data(json.loads(json.dumps(to_data(data))), data.text, data.serial_text)
    assert replace(again, target=data.target) == data
    a = random(3, 5)
    loaded = NetworkModule(again, module.params)
    np.testing.assert_array_equal(loaded(a), module(a))
    with pytest.raises(BuildError, match=r"depends on the sizes of a call\n.*memory_at\(n=...\)"):
        _ = module.memory
    with pytest.raises(CallTypeError, match="its sizes are n, got m"):
        module.memory_at(m=3)
    with pytest.raises(CallTypeError, match="n='a' must be an integer"):
        module.memory_at(n="a")
    assert module.memory_at(n=np.int64(3)).peak == module.memory_at(n=3).peak
    with pytest.raises(CallError, match=r"network net: argument 0 \(x: float32\[n, 5\]\)"):
        module(random(3, 6))


def test_sizes_that_cannot_be() -> None:
    n = sl.var("n")
    parts = Parts()
    x = sl.placeholder((n,), name="x")
    one = parts.add("one", relu, x)
    with pytest.raises(BuildError, match="its parameter x has the extent n"):
        parts.data([sl.placeholder((n,), name="y")], [one], [x])
    # a size that is an argument itself
    parts = Parts()
    size = sl.var("k")
    first = parts.add(
        "first", lambda k: sl.compute((k,), lambda i: sl.cast(i, "float32"), name="t"), size
    )
    out = parts.add("out", relu, first)
    module = parts.module([size], [out])
    assert module(5).tolist() == [0, 1, 2, 3, 4] and module(0).size == 0
    assert module.memory_at(k=100).peak == 448
    k = sl.reduce_axis(size, name="r")
    total = parts.add(
        "total", lambda a: sl.compute((1,), lambda i: sl.sum(a[k], axis=k), name="total"), first
    )
    with pytest.raises(BuildError, match="first has the extent k, which no input determines"):
        parts.data([], [total])
