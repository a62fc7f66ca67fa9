"""te's ``tvm.contrib``: functions of other libraries as stages."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from schedlang.errors import missing_name

REFUSED = {
    **dict.fromkeys(
        ("cublas", "cudnn", "rocblas", "miopen"),
        (
            "libraries of GPUs are not called",
            "Write the operator with topi, and sl.autotune searches for its schedule.",
        ),
    ),
    **dict.fromkeys(
        ("mkl", "dnnl", "nnpack"),
        ("this library is not called", "tvm.contrib.cblas.matmul calls SciPy's BLAS."),
    ),
    "cc": (
        "libraries of kernels are not made",
        "f.save('k.py') writes a kernel to a file that needs only numba and NumPy.",
    ),
}


def __getattr__(name: str) -> Any:
    if name in ("cblas", "clang", "utils"):
        return import_module(f"schedlang.tvm.contrib.{name}")
    raise missing_name(__name__, name, REFUSED, "tvm.contrib")


__all__ = ["cblas", "clang", "utils"]
