"""te's ``tvm.testing``, which te programs check results with; more for courses."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.errors import missing_name
from schedlang.signatures import public


@public
def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise :class:`AssertionError` unless shapes are equal and values close, as in te."""
    result, expected = np.asarray(actual), np.asarray(desired)
    assert result.shape == expected.shape, f"shapes differ: {result.shape} and {expected.shape}"
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=atol)


@public
def device_enabled(target: Any) -> bool:
    """Return whether kernels for a target or a device of this name run on this machine.

    >>> device_enabled("llvm"), device_enabled("opencl")
    (True, False)
    """
    from schedlang.runtime.devices import enabled

    return enabled(target)


@public
def enabled_targets() -> list[tuple[str, Any]]:
    """Return te's names of the targets whose kernels run on this machine, each with its device."""
    from schedlang.runtime.devices import device, enabled

    return [(name, device(name)) for name in ("llvm", "cuda") if enabled(name)]


def __getattr__(name: str) -> Any:
    # te programs need neither kernels nor hints to compare arrays
    if name == "check":
        from schedlang.course.exercises.check import check

        return check
    if name == "hardware":
        from schedlang.course.hardware import hardware

        return hardware
    if name == "lab":
        from schedlang.course.grading.lab import lab

        return lab
    raise missing_name(__name__, name, {})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_ON_DEMAND = ["check", "hardware", "lab"]
__all__ = ["assert_allclose", "device_enabled", "enabled_targets", *_ON_DEMAND]
