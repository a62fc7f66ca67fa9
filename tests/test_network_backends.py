"""The backends of modules: one class of modules, and what a backend lacks is refused in one way."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import ref

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError, MissingNameError, SchedlangError
from schedlang.networks.backend import LACKING
from schedlang.networks.device_backend import DeviceBackend
from schedlang.networks.host_backend import HostBackend
from schedlang.networks.module import NetworkModule
from schedlang.targets.python.backend import PythonBackend
from tests.linked_networks import Parts, relu
from tests.test_gpu_launch import Driver, core
from tests.test_network_gpu import bound, driver

__all__ = ["core", "driver"]


def rectifier(target: Any = "python") -> NetworkModule:
    """Return a module of one part, the positive part of four numbers."""
    parts = Parts(target)
    x = sl.placeholder((4,), name="x")
    how = bound if parts.target.facts.binds_threads else sl.schedule
    return parts.module([x], [parts.add("y", relu, x, how=how)], name="rectifier")


A = np.array([1, -2, 3, -4], "float32")
B = np.maximum(A, 0)


def test_modules_for_all_targets_have_one_class() -> None:
    host, emulator, device = (rectifier(t) for t in ("python", "cuda-emulator", "cuda"))
    assert {type(m) for m in (host, emulator, device)} == {NetworkModule}
    assert [type(m._backend) for m in (host, emulator, device)] == [
        HostBackend, HostBackend, DeviceBackend,
    ]  # fmt: skip
    for module in (host, device):
        assert type(pickle.loads(pickle.dumps(module))._backend) is type(module._backend)
    assert repr(device) == "<NetworkModule rectifier(x: float32[4], y: float32[4]) for cuda>"
    assert device.path.endswith(".py") and open(device.path).read() == device.source
    np.testing.assert_array_equal(device.simulate(A), B)
    np.testing.assert_array_equal(host(A), B)


@pytest.mark.parametrize("name, error, hint", [
    ("machine_code", MissingNameError, r'Build it for target="cuda": .ptx, .sass and .resources'),
    ("simulate", MissingNameError, r'Build it for target="python"'),
    ("standalone", MissingNameError, r"Save the network: net.save\(folder\)"),
    ("cuda_graph", BuildError, r'Build it for target="cuda", without SCHEDLANG_CUDA=emulator'),
    ("bound", BuildError, r"Call the module, with its outputs: module\(x, out\)"),
    ("stamped", BuildError, r"Use timed\(repeat, \*args\)"),
])  # fmt: skip
def test_what_a_backend_lacks_is_refused(name: str, error: type[SchedlangError], hint: str) -> None:
    has_it, *others = (hasattr(b, name) for b in (HostBackend, DeviceBackend))
    module = rectifier("cuda" if has_it else "python")
    assert others == [not has_it] and name in LACKING
    with pytest.raises(error, match=f"(?s)^{name} of network rectifier: .*\n  {hint}"):
        getattr(module, name)(*[A] * (name != "standalone"))


def test_code_of_a_gpu_is_no_attribute_of_another_module() -> None:
    module = rectifier()
    assert not any(hasattr(module, n) for n in ("machine_code", "ptx", "sass", "resources"))
    with pytest.raises(MissingNameError, match='one is built for target="python"'):
        _ = module.ptx


class Counting(HostBackend):
    """A backend that counts the calls outside of the fast path."""

    runs = 0

    def run(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        self.runs += 1
        return super().run(args, named)


class Counted(PythonBackend):
    """A target with a backend of its own for the modules of networks."""

    facts = replace(
        PythonBackend.facts, name="counted", network_backend=f"{__name__}:{Counting.__name__}"
    )


def test_facts_of_a_package_name_its_own_backend() -> None:
    x = sl.placeholder((4,), name="x")
    module = sl.network(relu(x), target=Counted()).module
    assert type(module) is NetworkModule and isinstance(module._backend, Counting)
    np.testing.assert_array_equal(module(A), B)
    np.testing.assert_array_equal(module(x=A), B)
    assert module._backend.runs == 1


def test_inputs_may_have_the_names_that_a_backend_uses(driver: Driver) -> None:
    parts, names = Parts("cuda"), ("self", "memory", "interfaces")
    inputs = [sl.placeholder((4,), name=name) for name in names]
    total = parts.add(
        "total", lambda x, y, z: sl.compute((4,), lambda i: x[i] + y[i] * z[i], name="total"),
        *inputs, how=bound,
    )  # fmt: skip
    module = parts.module(inputs, [total])
    given = dict(zip(names, (A, B, B)))
    np.testing.assert_array_equal(module(**given), A + B * B)


def test_pickles_of_earlier_versions_load() -> None:
    """They name another class for a GPU."""
    before, now = b"device_module\nDeviceModule\n", b"module\nNetworkModule\n"
    pickled = pickle.dumps(rectifier("cuda"), protocol=0)
    assert pickled.startswith(b"cschedlang.networks." + now)
    module = pickle.loads(pickled.replace(now, before, 1))
    assert type(module) is NetworkModule
    np.testing.assert_array_equal(module.simulate(A), B)


@pytest.mark.parametrize("target", ["python", "cuda"])
def test_a_module_is_freed_at_once(target: str) -> None:
    """Its memory would otherwise wait for the collector of cycles."""
    module = rectifier(target)
    (module.simulate if target == "cuda" else module)(A)
    backend = ref(module._backend)
    gc.collect()
    gc.disable()
    try:
        del module
        assert backend() is None
    finally:
        gc.enable()


def test_the_seconds_of_calls() -> None:
    parts, n = Parts("cpu"), sl.var("n")
    x = sl.placeholder((n, 4), name="x")
    first = parts.add("first", relu, x)
    module = parts.module([x], [parts.add("second", relu, first)])
    seconds, runs, sizes = module.timed(3, np.ones((5, 4), "float32"))
    assert len(seconds) == 2 and all(0 <= s < 0.1 for s in seconds)
    assert runs >= 3 and sizes == {"n": 5}
