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
    **dict.fromkeys(
        ("graph_executor", "graph_runtime", "debugger", "pipeline_executor", "mxnet", "relay_viz"),
        (
            "graphs of models are not part of schedlang",
            "sl.frontend imports a model of ONNX or PyTorch; topi has operators to build one.",
        ),
    ),
    **dict.fromkeys(
        ("rpc", "ndk", "xcode", "emcc", "android", "micro", "hexagon", "ethosu", "coreml_runtime"),
        (
            "remote devices are not part of schedlang",
            "Run the program on the machine; f.save('k.py') writes a kernel to a file.",
        ),
    ),
    "download": ("files are not downloaded", "Use urllib.request.urlretrieve."),
    "tedd": ("it draws by another name", "sl.plot draws graphs and loop nests; so does print(s)."),
    **dict.fromkeys(
        ("cutlass", "thrust", "curand", "cblaslt", "tensorrt", "sparse", "random", "sort", "tar"),
        (
            "this part of tvm.contrib is not part of schedlang",
            "te.extern calls a packed function of Python on whole arrays.",
        ),
    ),
    **dict.fromkeys(
        ("rocm", "spirv", "sdaccel"),
        ("kernels are for CPUs and for NVIDIA GPUs", 'Build for "llvm" or "cuda".'),
    ),
}


def __getattr__(name: str) -> Any:
    if name == "util":
        return import_module("schedlang.contrib.util")
    if name in __all__:
        return import_module(f"schedlang.tvm.contrib.{name}")
    raise missing_name(__name__, name, REFUSED, "tvm.contrib")


__all__ = ["cblas", "cc", "clang", "nvcc", "utils"]
