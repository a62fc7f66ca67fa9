"""Devices as te programs name them: ``cpu(0)``, ``cuda(0)``, and whether this machine has them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from schedlang.errors import BuildError, CallError, CallTypeError, SchedlangError, warn_of_old_name
from schedlang.signatures import public
from schedlang.target import Target
from schedlang.target_kinds import CPU, CUDA, KINDS, SPELLINGS
from schedlang.target_options import parse_target

# DLPack's numbers of devices that TVM knows, and whose memory te's arrays are not in here
ELSEWHERE = {"opencl": 4, "vulkan": 7, "metal": 8, "rocm": 10, "ext_dev": 12, "webgpu": 15,
             "hexagon": 16}  # fmt: skip
_SPELLED = {word: KINDS[name].device for word, name in SPELLINGS.items()}
_TYPES = {**ELSEWHERE, "gpu": CUDA, **_SPELLED}


@dataclass(frozen=True)
class Device:
    """A device that holds arrays; its ``str`` is ``"cpu(0)"`` or ``"cuda(0)"``."""

    kind: str
    device_id: int = 0

    @property
    def device_type(self) -> int:
        """DLPack's number, such as 1 for the CPU and 2 for CUDA."""
        return _TYPES[self.kind]

    @property
    def exist(self) -> bool:
        """True if the machine has the device, or ``SCHEDLANG_CUDA`` asks for the emulator.

        It is false for devices of TVM whose memory te's arrays are not in, such as ``"opencl"``.
        """
        if self.device_type in ELSEWHERE.values():
            return False
        if self.device_type == CPU:
            return self.device_id == 0
        if os.environ.get("SCHEDLANG_CUDA") == "emulator":
            return True
        from numba import cuda as driver

        return bool(driver.is_available()) and self.device_id < len(driver.gpus)

    @property
    def compute_version(self) -> str | None:
        """The compute capability that kernels for the GPU are built for; ``None`` of a CPU.

        >>> with Target("cuda", arch="sm_86"):
        ...     print(cuda().compute_version, cpu().compute_version)
        8.6 None
        """
        if self.kind != "cuda":
            return None
        around = Target.current()
        chosen = around if around is not None and around.arch else Target("cuda")
        major, minor = chosen.device.capability
        return f"{major}.{minor}"

    def sync(self) -> None:
        """Wait for the device; te's ``sync``, which is not needed, as each kernel call waits."""

    def __str__(self) -> str:
        return f"{self.kind}({self.device_id})"

    __repr__ = __str__


@public
def device(kind: Any, index: int = 0) -> Device:
    """Return the device that a target runs on: ``device("llvm")``, ``device("cuda", 0)``.

    Raise :class:`~schedlang.errors.CallError` for an unknown kind of device, and
    :class:`~schedlang.errors.BuildError` for options that name another machine than this one.

    >>> device("llvm -num-cores=4"), device("cuda", 1)
    (cpu(0), cuda(1))
    """
    words = str(getattr(kind, "kind", kind)).split()
    facts = getattr(kind, "facts", None)
    code = _TYPES.get(words[0] if words else "") if facts is None else facts.device
    if code is None:
        raise CallError(
            f'device({str(kind)!r}): unknown device; give "cpu" (or te\'s "llvm") or "cuda"'
        )
    if words and words[0] in ELSEWHERE:
        return Device(words[0], index)
    if facts is None and len(words) > 1:
        triple = parse_target(" ".join(words)).triple
        if triple:
            raise BuildError(
                f"device({' '.join(words)!r}): kernels for {triple} are saved as C, and none runs "
                "on this machine; leave out -mtriple"
            )
    return cpu(index) if code == CPU else cuda(index)


@public
def context(kind: Any, index: int = 0) -> Device:
    """Return :func:`device` of the same arguments, with a warning: TVM's name before 0.8."""
    warn_of_old_name("tvm.context", "tvm.device")
    return device(kind, index)


def device_or(device: Device | None, ctx: Device | None, call: str) -> Device:
    """Return ``device``, or ``ctx``, as TVM called it before 0.8; the CPU if neither is given.

    ``ctx`` gives a warning. Raise :class:`~schedlang.errors.CallTypeError` if both are given, and
    :class:`~schedlang.errors.CallError` for a device that no kernel here runs on.
    """
    if ctx is not None:
        warn_of_old_name(f"{call}(..., ctx=...)", "device=...")
        if device is not None:
            raise CallTypeError(f"{call}(..., device=..., ctx=...): give device= alone")
    place = device or ctx or cpu()
    if isinstance(place, Device) and place.device_type in ELSEWHERE.values():
        raise CallError(
            f"{call}(..., {place}): kernels run on CPUs and on NVIDIA GPUs; use tvm.cpu() or "
            "tvm.cuda(), and ask device.exist before"
        )
    return place


@public
def enabled(target: str) -> bool:
    """Return whether kernels for ``target`` can run on this machine; te's ``tvm.runtime.enabled``.

    >>> enabled("llvm"), enabled("opencl"), enabled("llvm -device=hexagon")
    (True, False, False)
    """
    try:
        # options may name an architecture for which no kernel is built
        Target(target)
        return device(target).exist
    except SchedlangError:
        return False


@public
def cpu(index: int = 0) -> Device:
    """Return the CPU."""
    return Device("cpu", index)


@public
def cuda(index: int = 0) -> Device:
    """Return a CUDA device."""
    return Device("cuda", index)


gpu = cuda


__all__ = ["Device", "context", "cpu", "cuda", "device", "enabled", "gpu"]
