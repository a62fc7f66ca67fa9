"""te's ``tvm.contrib.nvcc``: CUDA C by the toolkit's compiler, and what a GPU can do.

Kernels do not need it: they are functions of numba.cuda.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from schedlang.errors import BuildError, explain, warn_of_old_name
from schedlang.runtime.nvidia import tool
from schedlang.target import Target, capability
from schedlang.tvm.contrib.cc import run

FORMATS = ("ptx", "cubin", "fatbin")


def compile_cuda(
    code: str,
    target_format: str = "ptx",
    arch: Any = None,
    options: Any = None,
    path_target: Any = None,
    target: Any = None,
) -> bytearray:
    """Return the PTX, ``"cubin"`` or ``"fatbin"`` of CUDA C source, by nvcc.

    ``arch`` is an architecture such as ``"sm_80"``, by default the one of the present target;
    ``options`` are more options of nvcc. The result is also written to ``path_target``. ``target``
    is TVM's name of ``target_format`` before 0.8, with a warning. Raise
    :class:`~schedlang.errors.MissingExtraError` if there is no nvcc, and
    :class:`~schedlang.errors.BuildError` if it refuses the source.
    """
    if target is not None:
        warn_of_old_name("nvcc.compile_cuda(..., target=...)", "target_format=...")
        target_format = target
    asked = "tvm.contrib.nvcc.compile_cuda"
    if target_format not in FORMATS:
        raise BuildError(
            explain(
                f"{asked}(..., {target_format!r})",
                "nvcc does not write this format",
                f"Choose one of {', '.join(FORMATS)}.",
            )
        )
    more = [options] if isinstance(options, str) else [*(options or ())]
    names = arch if isinstance(arch, list) else [f"-arch={arch or Target.of(None).device.arch}"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        source, written = (Path(folder) / f"kernel.{kind}" for kind in ("cu", target_format))
        source.write_text(code, encoding="utf-8")
        line = [tool("nvcc"), f"--{target_format}", "-O3", *names, *more]
        run(asked, [*line, "-o", str(written), str(source)])
        content = bytearray(written.read_bytes())
    if path_target is not None:
        Path(path_target).write_bytes(content)
    return content


def get_target_compute_version(target: Any = None) -> str:
    """Return the compute capability of a GPU target, by default of the present one.

    >>> get_target_compute_version(Target("cuda", arch="sm_86"))
    '8.6'
    """
    major, minor = Target.of(target).device.capability
    return f"{major}.{minor}"


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """Return a compute capability as numbers.

    >>> parse_compute_version("8.6"), parse_compute_version("sm_90")
    ((8, 6), (9, 0))
    """
    if compute_version.startswith("sm_"):
        return capability(compute_version)
    major, _, minor = compute_version.partition(".")
    if not (major.isdigit() and minor.isdigit()):
        raise BuildError(
            f"tvm.contrib.nvcc.parse_compute_version({compute_version!r}): give a capability such "
            'as "8.6"'
        )
    return int(major), int(minor)


def have_fp16(compute_version: str) -> bool:
    """Return whether GPUs of a compute capability have arithmetic in float16.

    >>> have_fp16("5.2"), have_fp16("8.0")
    (False, True)
    """
    return parse_compute_version(compute_version) >= (5, 3)


def have_int8(compute_version: str) -> bool:
    """Return whether GPUs of a compute capability have dot products of int8."""
    return parse_compute_version(compute_version) >= (6, 1)


def have_tensorcore(compute_version: str | None = None, target: Any = None) -> bool:
    """Return whether a GPU has tensor cores."""
    return parse_compute_version(compute_version or get_target_compute_version(target)) >= (7, 0)


def have_bf16(compute_version: str) -> bool:
    """Return whether GPUs of a compute capability have arithmetic in bfloat16."""
    return parse_compute_version(compute_version) >= (8, 0)


__all__ = [
    "compile_cuda", "get_target_compute_version", "have_bf16", "have_fp16", "have_int8",
    "have_tensorcore", "parse_compute_version",
]  # fmt: skip
