"""te's ``tvm.testing``, which te programs check results with; more for courses."""

from __future__ import annotations

import inspect
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


@public
def requires_cuda(*function: Any) -> Any:
    """Skip a test under pytest where kernels for CUDA do not run; a decorator, with or without ().

    >>> @requires_cuda
    ... def test_of_a_gpu(): ...
    >>> test_of_a_gpu.pytestmark[0].kwargs["reason"]
    "no kernel for 'cuda' runs on this machine"
    """
    return _skipped_without("cuda", function)


@public
def requires_gpu(*function: Any) -> Any:
    """Skip a test as :func:`requires_cuda` does: CUDA's are the GPUs on which kernels run."""
    return _skipped_without("cuda", function)


@public
def requires_llvm(*function: Any) -> Any:
    """Mark a test of kernels for this machine's CPU, which always run."""
    return _skipped_without("llvm", function)


@public
def uses_gpu(*function: Any) -> Any:
    """Return a test that asks itself whether there is a GPU, as it is."""
    return function[0] if function else uses_gpu


@public
def parametrize_targets(*targets: Any) -> Any:
    """Run a test under pytest for each target, which it takes as ``target``, with its ``dev``.

    Without targets, these are :func:`enabled_targets`. A target whose kernels do not run on this
    machine is skipped.

    >>> @parametrize_targets("llvm", "opencl")
    ... def test_of_targets(target, dev): ...
    >>> [case.id for case in test_of_targets.pytestmark[0].args[1]]
    ['llvm', 'opencl']
    """
    if not targets or callable(targets[0]):
        decorate = parametrize_targets(*(name for name, _ in enabled_targets()))
        return decorate(*targets) if targets else decorate

    def decorate_test(function: Any) -> Any:
        import pytest

        from schedlang.runtime.devices import device

        taken = [n for n in ("target", "dev") if n in inspect.signature(function).parameters]
        cases = []
        for name in targets:
            values = {"target": name, "dev": device(name)}
            marks = _skipped_without(name, ())
            cases.append(pytest.param(*(values[n] for n in taken), id=name, marks=marks))
        return pytest.mark.parametrize(taken, cases)(function)

    return decorate_test


def _skipped_without(target: str, function: Any) -> Any:
    """Return a test with pytest's mark, or the list of marks without one, as in te."""
    import pytest

    reason = f"no kernel for {target!r} runs on this machine"
    mark = pytest.mark.skipif(not device_enabled(target), reason=reason)
    return mark(function[0]) if function else [mark]


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
__all__ = [
    "assert_allclose", "device_enabled", "enabled_targets", "parametrize_targets", "requires_cuda",
    "requires_gpu", "requires_llvm", "uses_gpu", *_ON_DEMAND,
]  # fmt: skip
