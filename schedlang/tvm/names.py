"""The names that te programs use as ``tvm.<name>``: where each one is, or why it is absent.

``schedlang.__getattr__`` calls :func:`lookup`, so that ``import schedlang`` loads none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from schedlang import errors
from schedlang.errors import MissingNameError, missing_name
from schedlang.tvm.aliases import FACES

MODULES = (*FACES, "target", "runtime")
PACKED = ("get_global_func", "register_func")
DEVICES = ("cpu", "cuda", "gpu", "device", "context")
# names of tvm.tir that TVM had at its top before version 0.7
OLD = (
    "floordiv", "floormod", "indexdiv", "indexmod", "truncdiv", "truncmod", "decl_buffer",
    "call_extern", "call_packed", "ir_builder",
)  # fmt: skip

_TUNE = "sl.autotune(C) searches for a schedule of any computation, without a template."
_DEVICE = (
    "kernels run on CPUs and on NVIDIA GPUs",
    'Use tvm.cpu() or tvm.cuda(), and build for "llvm" or "cuda".',
)
_NEURAL = "schedlang has no graphs of models: build the network from operators of topi."
REFUSED: dict[str, tuple[str, str]] = {
    "meta_schedule": ("it schedules TensorIR, which schedlang does not have", _TUNE),
    "relay": ("graphs of models are not part of schedlang", _NEURAL),
    "relax": ("graphs of models are not part of schedlang", _NEURAL),
    "script": ("TVMScript is not supported", "Write te.compute and a schedule; print(s) shows it."),
    "IRModule": (
        "modules of TVM's IR are not part of schedlang",
        "tvm.lower(s, args) gives the loop nest, tvm.build(s, args) the kernel.",
    ),
    "rpc": ("remote devices are not part of schedlang", "Copy f.save('k.py') there and import it."),
    **dict.fromkeys(
        ("ir_pass", "make", "stmt", "dlight"),
        (
            "statements and passes of TVM's IR are not part of schedlang",
            "Steps of the schedule change the loop nest; tvm.lower(s, args) shows it.",
        ),
    ),
    "build_module": (
        "the compiler's steps have no names of their own", "Use tvm.lower and tvm.build.",
    ),
    "hybrid": (
        "hybrid scripts are not supported",
        "Write loops in a function under @sl.jit, or te.compute, te.scan and a schedule.",
    ),
    "micro": ("there is no cross compiler", "Kernels run on this machine's CPU, or on its GPU."),
    "_ffi": (
        "there is no compiler in C++ below",
        "tvm.error.TVMError is the base of errors; tvm.register_func names a function.",
    ),
    **dict.fromkeys(
        ("exec", "parser", "support", "generic"),
        ("this part of TVM's compiler is not part of schedlang", "Use te, tvm.lower, tvm.build."),
    ),
    **dict.fromkeys(("opencl", "metal", "vulkan", "rocm", "webgpu", "hexagon", "ext_dev"), _DEVICE),
    "arith": (
        "TVM's simplifier is not part of schedlang",
        "Index arithmetic is simplified when the nest is made; sympy.sympify takes expressions.",
    ),
}
# names from NumPy and other libraries, with what to write instead
ELSEWHERE = {
    "compile": "sl.build(s, args)",
    "ndarray": "sl.nd.array(values), or pass NumPy arrays",
    "min_value": "sl.te.min_value(dtype)",
    "max_value": "sl.te.max_value(dtype)",
    "where": "sl.select(condition, a, b)",
    "relu": "sl.max(x, 0)",
    "clip": "sl.min(sl.max(x, low), high)",
    "maximum": "sl.max(a, b)",
    "minimum": "sl.min(a, b)",
    "power": "sl.pow(a, b)",
    "absolute": "sl.abs(x)",
    "mean": "the sum as a stage of its own, S = sl.compute(shape, lambda i: sl.sum(A[i, k], "
    "axis=k)), and S[i] / extent in its reader",
    "matmul": "sl.compute((M, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k))",
}


def lookup(name: str) -> Any:
    """Return the object that corresponds to ``tvm.<name>``.

    Raise :class:`~schedlang.errors.SchedlangError` for a part of TVM that schedlang leaves out, and
    :class:`AttributeError` for an unknown name.

    >>> lookup("te").__name__
    'schedlang.tvm.te'
    """
    if name in MODULES:
        return import_module(f"schedlang.{name}")
    if name in DEVICES:
        from schedlang.runtime import devices

        return getattr(devices, name)
    if name == "convert":
        return import_module("schedlang.runtime").convert
    if name == "build_config":
        return import_module("schedlang.transform").build_config
    if name == "TVMError":
        return import_module("schedlang.error").TVMError
    if name in OLD:
        return getattr(import_module("schedlang.tir"), name)
    if name in PACKED:
        from schedlang.tvm import packed

        return getattr(packed, name)
    if name in ELSEWHERE or isinstance(getattr(errors, name, None), type):
        instead = ELSEWHERE.get(name, f"sl.errors.{name}")
        raise MissingNameError(f"schedlang has no sl.{name}: write {instead}")
    raise missing_name("schedlang", name, REFUSED, "tvm")
