"""The devices of OpenCL on this machine, by pyopencl, and what a kernel needs of one."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from schedlang.codegen.opencl_source import KernelForm
from schedlang.errors import CallError, explain, first_line, missing_extra
from schedlang.markup.sizes import bytes_text

# what a file may use beyond the core of OpenCL C 1.2, and what needs it
EXTENSIONS = {
    "cl_khr_fp64": "float64",
    "cl_khr_int64_base_atomics": "atomic updates of 8 bytes",
    "cl_khr_int64_extended_atomics": "atomic minima and maxima of int64",
}


def driver(what: str) -> Any:
    """Return the module ``pyopencl``, or raise :class:`~schedlang.errors.MissingExtraError`."""
    try:
        return import_module("pyopencl")
    except ImportError:
        raise missing_extra("pyopencl", "opencl", what) from None


def default_queue(what: str) -> Any:
    """Return the queue for NumPy's arrays, on the device that pyopencl chooses.

    The environment variable ``PYOPENCL_CTX`` names another one. Raise
    :class:`~schedlang.errors.CallError` if there is no device.
    """
    cl, named = driver(what), os.environ.get("PYOPENCL_CTX", "")
    try:
        return _queue_of(os.getpid(), named)
    except (cl.Error, RuntimeError) as error:
        asked = f"PYOPENCL_CTX={named!r} names no" if named else "there is no"
        raise CallError(
            explain(
                what,
                f"{asked} device of OpenCL on this machine ({first_line(error)})",
                "Install the device's driver, or PoCL, which runs on any CPU: "
                'pip install pocl-binary-distribution; or build for target="cuda-emulator".',
            )
        ) from None


@lru_cache(maxsize=4)
def _queue_of(process: int, named: str) -> Any:
    """Return the queue of a process, whose number is ``process``: a context belongs to one."""
    return profiling_queue(driver("a queue").create_some_context(interactive=False))


def profiling_queue(context: Any) -> Any:
    """Return a new queue of the first device of a context, whose events have times."""
    cl = driver("a queue")
    return cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)


def check_device(what: str, device: Any, text: str, kernels: Sequence[KernelForm]) -> None:
    """Raise :class:`~schedlang.errors.CallError` for what a device lacks or has too little of."""
    has = device.extensions.split()
    for extension, needed in EXTENSIONS.items():
        if f"{extension} : enable" in text and extension not in has:
            raise CallError(
                explain(
                    what,
                    f"it has {needed}, which {name_of(device)} lacks (it has no {extension})",
                    "Compute in float32 and int32, or run it on another device.",
                )
            )
    for kernel in kernels:
        _check_size(f"{what}, {kernel.name}", device, kernel)


def _check_size(what: str, device: Any, kernel: KernelForm) -> None:
    launch, most = kernel.launch, device.max_work_group_size
    if launch.threads > most:
        raise CallError(
            explain(
                what,
                f"its work-groups have {launch.threads:,} work-items, and {name_of(device)} allows "
                f"{most:,}",
                "Split the axes bound to threadIdx by smaller factors.",
            )
        )
    for index in launch.block:
        longest = device.max_work_item_sizes["xyz".index(index.letter)]
        if int(index.extent) > longest:
            raise CallError(
                explain(
                    what,
                    f"{index.tag} has extent {index.extent}, and {name_of(device)} allows "
                    f"{longest:,}",
                    "Split the axis by a smaller factor, or bind another one.",
                )
            )
    if kernel.local_bytes > device.local_mem_size:
        buffers = ", ".join(f"{b.name} has {bytes_text(b.bytes)}" for b in launch.shared)
        raise CallError(
            explain(
                what,
                f"it needs {kernel.local_bytes:,} B of local memory, and {name_of(device)} has "
                f"{device.local_mem_size:,} B{': ' * bool(buffers)}{buffers}",
                "Make the tiles smaller, or attach the stages at loops further in.",
            )
        )


def name_of(device: Any) -> str:
    """Return the name of a device for messages."""
    return re.sub(r"\s+", " ", device.name).strip()
