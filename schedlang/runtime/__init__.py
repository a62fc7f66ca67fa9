"""Kernels: compiled, checked, called, timed; as ``tvm.runtime``, the names of te programs."""

from typing import TYPE_CHECKING, Any

from schedlang.errors import missing_name
from schedlang.runtime.devices import enabled

_BUILT = "tvm.build(s, args) returns the kernel itself: f(a, b, c) calls it."
REFUSED = {
    "load_module": (
        "a kernel is Python, not a shared library",
        "Call f.save('k.py'), and in the other program import k and call its function.",
    ),
    "load_static_library": ("a kernel is Python, not a library", "Call f.save('k.py')."),
    "Module": ("modules of compiled code are not part of schedlang", _BUILT),
    "PackedFunc": ("packed functions are not part of schedlang", _BUILT),
    "NDArray": ("arrays are those of tvm.nd", "Use tvm.nd.array, or give NumPy arrays."),
    "ndarray": ("arrays are those of tvm.nd", "Use tvm.nd.array, or give NumPy arrays."),
    "vm": (
        "graphs of models are not part of schedlang",
        "schedlang has the language and schedules of te, not models: write the operator in te.",
    ),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing_name(__name__, name, REFUSED, "tvm.runtime")


__all__ = ["enabled"]
