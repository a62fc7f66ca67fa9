"""``evaluate``: time a kernel, and compare it with the machine's ceilings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from time import perf_counter
from typing import Any, Protocol, cast

import numpy as np

from schedlang.compute.arrays import as_numpy
from schedlang.compute.graph import variables
from schedlang.compute.work import needed_flops
from schedlang.errors import CallError, CallTypeError, explain
from schedlang.markup.bundle import InNotebooks
from schedlang.markup.elements import facts
from schedlang.markup.fragment import fragment
from schedlang.runtime.ceilings import COPIED_BYTES, Ceilings, ceilings
from schedlang.runtime.device_arrays import describe, is_on_device
from schedlang.runtime.kernel import Kernel
from schedlang.runtime.parameters import Binder
from schedlang.runtime.timing import (
    TICK,
    duration,
    lost_cores,
    median_and_spread,
    number,
    samples,
)
from schedlang.signatures import public

# beyond this spread a percentage means little
WIDE = 1.0
# a thread that waits for its core makes all others wait
AGAIN = "measure again when the machine is idle, or one thread alone (NUMBA_NUM_THREADS=1)"
# other work took a core if the ticks of its turns make this part of the time
BUSY = 0.05


@dataclass(frozen=True)
class Evaluation(InNotebooks):
    """Timings of one callable.

    ``seconds`` is the median time of one call, and ``spread`` the interquartile range divided by
    it. ``fastest`` is the fastest sample, far below the median if the machine was busy. ``runs`` is
    the number of samples.

    ``gflops`` counts the arithmetic of the computation, however it is scheduled
    (:func:`~schedlang.compute.work.needed_flops`). ``gbps`` counts each argument once. ``bound`` is
    the ceiling that takes longer, ``"arithmetic"`` or ``"memory"``. ``fraction`` is the least time
    that it allows, divided by ``seconds``; above 1 the arrays stayed in a cache. Unknown values are
    ``None``.

    ``busy`` is true if other work took a core of this process so often that the times say little
    about ``f`` (always false where the system does not count that).

    ``emulated`` is true if a CPU emulated a GPU: then the times say nothing about a GPU.
    """

    seconds: float
    spread: float
    fastest: float
    runs: int
    gflops: float | None = None
    gbps: float | None = None
    fraction: float | None = None
    bound: str = ""
    emulated: bool = False
    busy: bool = False

    @property
    def _cached(self) -> str:
        """Why the fraction is above what the machine's memory allows, if it is."""
        above = self.bound == "memory" and (self.fraction or 0) > 1
        return " (the arrays stayed in a cache)" if above else ""

    def _repr_html_(self) -> str:
        rows = [
            ("time", f"{duration(self.seconds)} ± {self.spread / 2:.1%}"),
            ("fastest", duration(self.fastest)),
            ("samples", str(self.runs)),
        ]
        if self.gflops is not None:
            rows.append(("arithmetic", f"{number(self.gflops, 4)} GFLOP/s"))
        if self.gbps is not None:
            rows.append(("memory", f"{number(self.gbps, 4)} GB/s"))
        if self.fraction is not None:
            rows.append((f"of what {self.bound} allows", f"{self.fraction:.0%}{self._cached}"))
        if self.emulated:
            rows.append(("note", "a GPU emulated on the CPU, whose time says nothing about a GPU"))
        if self.busy:
            rows.append(("note", f"other work took a core: {AGAIN}"))
        return fragment(facts(rows))

    def __str__(self) -> str:
        fastest = f"(fastest {duration(self.fastest)})"
        if self.spread > WIDE:
            parts = [
                f"{duration(self.seconds)} {fastest}; the samples vary by more than the median"
            ]
        else:
            parts = [f"{duration(self.seconds)} ± {self.spread / 2:.1%} {fastest}"]
        if self.gflops is not None:
            parts.append(f"{number(self.gflops, 4)} GFLOP/s")
        if self.gbps is not None:
            parts.append(f"{number(self.gbps, 4)} GB/s")
        if self.emulated:
            parts.append("a GPU emulated on the CPU, whose time says nothing about a GPU")
        if self.fraction is not None:
            parts.append(f"{self.fraction:.2f} of what {self.bound} allows{self._cached}")
        if self.busy:
            parts.append(f"while other work took a core: {AGAIN}")
        return ", ".join(parts)


@public
def evaluate(
    f: Callable[..., Any],
    *arrays: Any,
    repeat: int = 5,
    min_time: float = 0.3,
    flops: float | None = None,
    bytes: float | None = None,  # noqa: A002
    compiler: str = "",
) -> Evaluation:
    """Time ``f(*arrays)``: a kernel, or any callable of arrays.

    It takes at least ``repeat`` samples, and more until ``min_time`` seconds have passed. Compiling
    and one warm-up call come first. Outputs of a kernel that are not given are allocated once,
    before the samples. The operations and bytes of a kernel are counted from its computation; those
    of another callable are ``flops`` and ``bytes``, if given.

    The ceilings of the machine are the rate of independent vector multiply-adds, and the rate of a
    copy between arrays too large for any cache, on all threads that numba may use
    (``NUMBA_NUM_THREADS``). float64 has a multiply-add rate of its own; all other dtypes are
    compared with float32. Ceilings are measured when first needed, and again if ``f`` exceeds them,
    since a busy machine makes them too low.

    ``compiler`` is the argument of :func:`~schedlang.build`: the kernel is timed as this compiler
    makes it, and stays what it is. Raise :class:`~schedlang.errors.BuildError` for a compiler that
    the kernel's target lacks, and :class:`~schedlang.errors.CallTypeError` for another callable.

    A kernel for ``target="cuda"`` is timed by events of the GPU, without the host's time of its
    launches. A sample is 20 ms of calls, on arrays that are copied to the GPU once.

    >>> import numpy as np
    >>> result = evaluate(np.sort, np.arange(1000), repeat=7, min_time=0.0)
    >>> result.runs, result.seconds > 0, result.gflops
    (7, True, None)
    """
    if not callable(f):
        raise CallTypeError(f"evaluate({type(f).__name__}, ...): give a kernel or another callable")
    if isinstance(repeat, bool) or not hasattr(repeat, "__index__") or int(repeat) < 1:
        raise CallError(f"evaluate(..., repeat={repeat!r}): repeat must be an integer, 1 or more")
    if not isinstance(min_time, Real) or not 0 <= min_time < math.inf:
        raise CallError(
            f"evaluate(..., min_time={min_time!r}): min_time must be seconds, 0 or more"
        )
    if compiler:
        f = _compiled_by(f, compiler)
    operands: Sequence[Any] = arrays
    moved, dtype, emulated = bytes, "float32", False
    if isinstance(f, Kernel):
        emulated = f.target.facts.timing == "none"
        operands = _with_outputs(f, arrays)
        flops, moved, dtype = _work(f, operands, flops, moved)
        if f.target.facts.timing == "events":
            return _by_events(f, operands, int(repeat), float(min_time), flops, moved, dtype)
    before, start = lost_cores(), perf_counter()
    seconds_of_calls = samples(lambda: f(*operands), repeat, min_time)
    busy = (lost_cores() - before) * TICK > BUSY * (perf_counter() - start)
    seconds, spread = median_and_spread(seconds_of_calls)
    fastest = min(seconds_of_calls)
    gflops = None if flops is None else flops / seconds * 1e-9
    gbps = None if moved is None else moved / seconds * 1e-9
    if emulated or (flops is None and moved is None):
        return Evaluation(
            seconds, spread, fastest, len(seconds_of_calls), emulated=emulated, busy=busy
        )
    # small arrays may stay in a cache, so their rate tells nothing about the memory's ceiling
    large = moved is not None and moved >= 2 * COPIED_BYTES
    limits = ceilings(dtype, gflops or 0.0, (gbps or 0.0) if large else 0.0)
    found_rates = (gflops, gbps, *_fraction(limits, flops, moved, seconds))
    return Evaluation(seconds, spread, fastest, len(seconds_of_calls), *found_rates, busy=busy)


def _compiled_by(f: Callable[..., Any], compiler: str) -> Kernel:
    """Return the kernel ``f``, compiled by another compiler of its target."""
    if not isinstance(f, Kernel):
        raise CallTypeError(
            explain(
                f"evaluate({type(f).__name__}, ..., compiler={compiler!r})",
                "only a kernel can be compiled by another compiler here",
                "Give compiler= where it is made, to sl.jit or sl.network, and leave it out here.",
            )
        )
    return f.compiled_by(compiler)


def _work(
    f: Kernel, given: Sequence[Any], flops: float | None, moved: float | None
) -> tuple[float | None, float | None, str]:
    """Return the operations and bytes of a call where they are not given, and the main dtype."""
    dtype = "float32"
    parameters = f.signature.parameters
    values = [v if p.is_scalar else _seen(v, p.name) for v, p in zip(given, parameters)]
    sizes = Binder(f.signature).sizes(values)
    outputs = () if f.schedule is None else f.schedule.outputs
    if outputs and flops is None:
        numbers = {v: sizes[v.name] for v in variables(outputs) if v.name in sizes}
        flops, dtype = needed_flops(outputs, numbers), outputs[0].dtype
    if moved is None:
        moved = sum(a.nbytes for a, p in zip(values, parameters) if not p.is_scalar)
    return flops, moved, dtype


def _seen(value: Any, name: str) -> Any:
    """Return an array as NumPy's; one in a GPU's memory has only its shape, dtype and address."""
    there = is_on_device(value) and not isinstance(value, np.ndarray)
    return describe(value) if there else as_numpy(value, name)


def _fraction(
    limits: Ceilings, flops: float | None, moved: float | None, seconds: float
) -> tuple[float, str]:
    """Return the least time that the ceilings allow over ``seconds``, and what bounds it."""
    arithmetic, memory = limits.seconds(flops or 0, 0), limits.seconds(0, moved or 0)
    return max(arithmetic, memory) / seconds, "arithmetic" if arithmetic >= memory else "memory"


class TimedByEvents(Protocol):
    """A kernel whose device records events around its calls."""

    def timed_by_events(
        self, there: Sequence[Any], repeat: int, min_time: float, dtype: str
    ) -> tuple[list[float], Ceilings | None]:
        """Return the seconds of calls with arrays of the device, and the device's ceilings.

        There are at least ``repeat`` of them, for at least ``min_time`` seconds. The ceilings of
        some devices are not known.
        """


def _by_events(
    f: Kernel,
    given: Sequence[Any],
    repeat: int,
    min_time: float,
    flops: float | None,
    moved: float | None,
    dtype: str,
) -> Evaluation:
    """Time a kernel by events of its device; NumPy's arrays are copied there once, before."""
    there, _ = f.timed_on(list(given))
    seconds_of_calls, limits = cast(TimedByEvents, f).timed_by_events(
        there, repeat, min_time, dtype
    )
    seconds, spread = median_and_spread(seconds_of_calls)
    rates = [None if n is None else n / seconds * 1e-9 for n in (flops, moved)]
    bounds = (None, "") if limits is None else _fraction(limits, flops, moved, seconds)
    return Evaluation(
        seconds, spread, min(seconds_of_calls), len(seconds_of_calls), rates[0], rates[1], *bounds
    )


def _with_outputs(kernel: Kernel, arrays: Sequence[Any]) -> list[Any]:
    """Return ``arrays`` in parameter order, with the outputs of a call."""
    result = kernel(*arrays)
    results = iter(result if isinstance(result, tuple) else (result,))
    signature = kernel.signature
    ordered = Binder(signature).order(arrays, {})
    return [next(results) if p.is_output else v for p, v in zip(signature.parameters, ordered)]


__all__ = ["Evaluation", "evaluate"]
