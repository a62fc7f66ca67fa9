"""Emitted kernels as PTX and as machine code, and the resources that they use. It needs no GPU.

numba-cuda compiles to PTX, ptxas compiles that to machine code, and nvdisasm prints it. The extra
``cuda`` installs all three.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from schedlang.codegen.numba_cuda import KernelForm
from schedlang.errors import BuildError, MissingExtraError, explain, missing_extra
from schedlang.markup.progress import tell
from schedlang.markup.text import uncoloured
from schedlang.runtime.machine_code import Assembled, code_key, keep_code, kept_code
from schedlang.runtime.numba_threads import import_numba
from schedlang.runtime.one_process import one_process
from schedlang.target import Device

# allocation units of registers, warps and shared memory; the shared memory that a block reserves
REGISTER_UNIT = 256
WARP_UNIT = 4
SHARED_UNIT = 128
SHARED_RESERVED = 1024


@dataclass(frozen=True)
class Resources:
    """The resources of one kernel, as ptxas reports them.

    ``registers`` and ``local_bytes`` (the stack) are per thread, ``shared_bytes`` and ``threads``
    per block. ``spill_bytes`` counts spill stores and loads. ``occupancy`` is the share of a
    multiprocessor's threads that can run at once.
    """

    registers: int
    spill_bytes: int
    shared_bytes: int
    local_bytes: int
    threads: int
    occupancy: float


@dataclass(frozen=True)
class Compiled:
    """One kernel compiled for one architecture."""

    ptx: str
    cubin: bytes
    resources: Resources


@cache
def driver() -> Any:
    """Return the module ``numba.cuda`` of numba-cuda."""
    if find_spec("numba_cuda") is None:
        missing = missing_extra("numba-cuda", "cuda", "a kernel for NVIDIA GPUs")
        raise MissingExtraError(
            f'{missing}\n  To run it on the CPU, build it for target="cuda-emulator".'
        )
    import_numba()
    from numba import cuda

    return cuda


def on_gpu(number: int | None) -> AbstractContextManager[Any]:
    """Make GPU ``number`` the current one inside a ``with`` block."""
    cuda = driver()
    if number is None or cuda.get_current_device().id == number:
        return nullcontext()
    return cuda.gpus[number]


def gpu_of(address: int) -> int | None:
    """Return the number of the GPU whose memory holds ``address``.

    Return ``None`` if there are fewer than two GPUs.
    """
    cuda = driver()
    if not address or not cuda.is_available() or len(cuda.gpus) < 2:
        return None
    from numba.cuda.cudadrv.driver import binding
    from numba.cuda.cudadrv.driver import driver as calls

    attribute = binding.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(calls.cuPointerGetAttribute(attribute, binding.CUdeviceptr(address)))


def stream_of(number: int) -> Any:
    """Return the stream with a number, for copies; 0 is the default stream."""
    cuda = driver()
    return cuda.external_stream(number) if number else cuda.default_stream()


def tool(name: str) -> str:
    """Return the path of a program of the CUDA toolkit.

    The one of the installed Python packages comes before the one on ``PATH``.
    """
    for folder in sys.path:
        for path in Path(folder or ".").glob(f"nvidia/cu*/bin/{name}"):
            return str(path)
    on_path = shutil.which(name)
    if on_path is None:
        raise missing_extra(name, "cuda", "compiling a kernel to machine code")
    return on_path


def signature(kernel: KernelForm) -> tuple[Any, ...]:
    """Return numba's types of a kernel's parameters."""
    from numba import from_dtype, types

    kinds: list[Any] = []
    for parameter in kernel.parameters:
        kind = from_dtype(np.dtype(parameter.dtype))
        kinds.append(types.Array(kind, 1, "C") if parameter.is_array else kind)
    return tuple(kinds)


def allow_shared(kernel: Any, dynamic_bytes: int) -> None:
    """Ask the driver to allow a loaded kernel more shared memory than the default limit."""
    from numba.cuda.cudadrv.driver import binding
    from numba.cuda.cudadrv.driver import driver as calls

    most = binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    here = driver().get_current_device().id
    calls.cuKernelSetAttribute(most, dynamic_bytes, kernel.handle, here)


def compile_kernel(
    module: ModuleType, kernel: KernelForm, device: Device, fastmath: bool, lineinfo: bool = False
) -> Compiled:
    """Compile one kernel of an emitted file for ``device``, or load what was compiled before.

    With ``lineinfo`` its PTX and machine code name the lines of the file.
    """
    path, options = Path(str(module.__file__)), (fastmath, lineinfo)
    key = code_key(path, kernel.name, device.arch, options, Path(tool("ptxas")))
    with one_process(path):
        code = kept_code(key)
        if code is None:
            tell(f"compiling {kernel.name}")
            code = _compiled(module, kernel, device, fastmath, lineinfo)
            keep_code(key, code)
    resources = _resources(code.messages, kernel, device)
    if not resources.occupancy:
        raise BuildError(
            explain(
                f"kernel {kernel.name} for {device.arch}",
                f"a block of {resources.threads} threads of {resources.registers} registers does "
                f"not fit a multiprocessor, which has {device.registers_per_sm} registers",
                "Bind fewer threads, or make the tile of a thread smaller.",
            )
        )
    return Compiled(code.ptx, code.cubin, resources)


def _compiled(
    module: ModuleType, kernel: KernelForm, device: Device, fastmath: bool, lineinfo: bool
) -> Assembled:
    """Compile one kernel of an emitted file for ``device``."""
    cuda = driver()
    capability = (*device.capability, device.arch[-1]) if device.specific else device.capability
    function = getattr(module, kernel.name).py_func
    with _nvvm_errors(f"kernel {kernel.name} for {device.arch}"):
        ptx, _ = cuda.compile_ptx(
            function,
            signature(kernel),
            cc=capability,
            fastmath=fastmath,
            launch_bounds=kernel.threads,
            lineinfo=lineinfo,
        )
    ptx = _canonical_ptx(ptx, kernel.name)
    return Assembled(ptx, *_assemble(ptx, device.arch, lineinfo))


@contextmanager
def _nvvm_errors(what: str) -> Iterator[None]:
    """Raise an error of NVVM, or of numba, as a :class:`~schedlang.errors.BuildError`."""
    from numba.core.errors import NumbaError
    from numba.cuda.cudadrv import nvvm

    try:
        yield
    except NumbaError as error:
        # a function of the user's may call intrinsics with any values
        said = uncoloured(str(error)).split("\n\n")[0]
        raise BuildError(
            explain(
                what,
                f"numba refuses its source: {said}",
                "The source is in .source; the functions of your instructions are at its top.",
            )
        ) from error
    except Exception as error:
        if nvvm.nvvmError is None or not isinstance(error, nvvm.nvvmError):
            raise
        raise BuildError(
            explain(
                what,
                f"NVVM failed to compile it to PTX: {error}",
                "Make the tile of a thread smaller, or unroll and vectorize less of it; the source "
                "is in .source.",
            )
        ) from error


def _canonical_ptx(ptx: str, name: str) -> str:
    """Return PTX that is the same in each process, without the numbers that numba counts up.

    The entry gets the kernel's own name in place of numba's mangled one. Shared arrays are numbered
    from 1. The environment of the function, which no kernel reads, is removed.
    """
    shared = dict.fromkeys(re.findall(r"_cudapy_smem_\d+", ptx))
    numbers = {name: f"_cudapy_smem_{n}" for n, name in enumerate(shared, 1)}
    ptx = re.sub(r"_cudapy_smem_\d+", lambda name: numbers[name.group()], ptx)
    entry = re.search(r"\.entry\s+([\w$]+)\(", ptx)
    ptx = ptx if entry is None else ptx.replace(entry.group(1), name)
    environment = re.search(r"^\.common \.global .* (\w*NumbaEnv\w*);\n", ptx, re.MULTILINE)
    if environment is None or ptx.count(environment.group(1)) > 1:
        return ptx
    return ptx.replace(environment.group(0), "")


def _assemble(ptx: str, arch: str, lineinfo: bool) -> tuple[bytes, str]:
    """Return the machine code of PTX, and the messages of ptxas."""
    lines = ["-lineinfo"] if lineinfo else []
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        process = _run(
            [tool("ptxas"), f"-arch={arch}", "-v", *lines, str(source), "-o", str(target)]
        )
        return target.read_bytes(), process.stderr + process.stdout


def disassemble(cubin: bytes, lineinfo: bool = False) -> str:
    """Return machine code as text, with ``lineinfo`` also the lines of the file between."""
    lines = ["-g"] if lineinfo else []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.cubin"
        source.write_bytes(cubin)
        return _run([tool("nvdisasm"), "-c", *lines, str(source)]).stdout


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise BuildError(
            f"{Path(command[0]).name} failed: {(process.stderr or process.stdout).strip()}"
        )
    return process


def _resources(messages: str, kernel: KernelForm, device: Device) -> Resources:
    def number(pattern: str) -> int:
        match = re.search(pattern, messages)
        return 0 if match is None else int(match.group(1))

    registers = number(r"Used (\d+) registers")
    spills = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
    shared = number(r"(\d+) bytes smem") + kernel.dynamic_bytes
    threads = kernel.threads
    return Resources(
        registers,
        spills,
        shared,
        number(r"(\d+) bytes stack frame"),
        threads,
        occupancy(device, threads, registers, shared),
    )


def occupancy(device: Device, threads: int, registers: int, shared: int) -> float:
    """Return the share of a multiprocessor's threads that run if it holds as many blocks as it can.

    Source: NVIDIA's occupancy calculator. Registers are allocated to warps in units of 256, warps
    in units of 4, and shared memory in units of 128 bytes.

    >>> from schedlang.target import DEVICES
    >>> occupancy(DEVICES["sm_90"], 256, 128, 16 << 10), occupancy(DEVICES["sm_90"], 96, 40, 0)
    (0.25, 0.75)
    """
    warps = -(-threads // device.warp)
    each = -(-registers * device.warp // REGISTER_UNIT) * REGISTER_UNIT
    with_registers = device.registers_per_sm // each // WARP_UNIT * WARP_UNIT if each else 10**6
    block = -(-shared // SHARED_UNIT) * SHARED_UNIT + SHARED_RESERVED
    blocks = min(
        device.threads_per_sm // (warps * device.warp),
        device.blocks_per_sm,
        with_registers // warps,
        device.shared_per_sm // block,
    )
    return blocks * warps * device.warp / device.threads_per_sm
