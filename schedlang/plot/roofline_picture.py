"""``roofline``: measured kernels below the ceilings of the machine.

Source: S. Williams, A. Waterman and D. Patterson, "Roofline: An Insightful Visual Performance Model
for Multicore Architectures", CACM 52(4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.errors import ComputeTypeError, PlotError, explain
from schedlang.markup.text import printable
from schedlang.plot.palette import BLACK, KINDS, LINE, SOFT
from schedlang.plot.picture import Picture
from schedlang.plot.sheet import sheet
from schedlang.runtime.ceilings import Ceilings
from schedlang.runtime.evaluate import Evaluation, number
from schedlang.signatures import public
from schedlang.target_kinds import KINDS as TARGETS
from schedlang.target_kinds import Facts

HEIGHT = 3.6
# the least distance of two labels, as a part of the height of the axes
APART = 0.055


@dataclass(frozen=True)
class Point:
    """A kernel in a roofline: flops for each byte of its arguments, and GFLOP/s.

    ``bound`` is the ceiling above it, ``"arithmetic"`` or ``"memory"``, and ``fraction`` the part
    of it that the kernel reaches.
    """

    title: str
    intensity: float
    gflops: float
    bound: str
    fraction: float


@dataclass(frozen=True)
class Roofline:
    """The ceilings of a machine, and the kernels below them."""

    ceilings: Ceilings
    points: tuple[Point, ...]

    @property
    def ridge(self) -> float:
        """The least flops per byte at which arithmetic is the bound."""
        return self.ceilings.gflops / self.ceilings.gbps


@public
def roofline(
    measured: Any,
    *,
    ceilings: Ceilings | None = None,
    dtype: str = "float32",
    target: str = "cpu",
) -> Picture:
    """Return a picture of measured kernels below the ceilings of this machine.

    ``measured`` is what ``sl.evaluate`` returns; a list or a dict by title compares several.
    ``ceilings`` belong to the machine that was measured; without them they are measured now, for
    ``dtype``, on the CPU, or with ``target="cuda"`` on the GPU. The intensity of a kernel is the
    arithmetic of its computation by the bytes of its arguments: a schedule changes its speed, not
    its place from left to right. ``data`` is a :class:`Roofline`.

    Raise :class:`~schedlang.errors.PlotError` for an evaluation without GFLOP/s and GB/s, or of an
    emulated GPU.

    >>> import schedlang as sl
    >>> from schedlang.runtime.ceilings import Ceilings
    >>> from schedlang.runtime.evaluate import Evaluation
    >>> timed = Evaluation(0.001, 0.0, 0.001, 5, gflops=50.0, gbps=5.0)
    >>> sl.plot.roofline({"mine": timed}, ceilings=Ceilings(100.0, 20.0)).data.points[0]
    Point(title='mine', intensity=10.0, gflops=50.0, bound='arithmetic', fraction=0.5)
    """
    named = _named(measured)
    rates = [_rates(title, one) for title, one in named]
    measured_target = TARGETS.get(str(target))
    if measured_target is None or measured_target.measured_as != measured_target.name:
        raise PlotError(f'roofline(..., target={target!r}): choose "cpu" or "cuda"')
    limits = ceilings or _measured(dtype, measured_target)
    points = []
    for title, gflops, gbps in rates:
        intensity = gflops / gbps
        memory = intensity * limits.gbps
        bound = "memory" if memory < limits.gflops else "arithmetic"
        fraction = gflops / min(memory, limits.gflops)
        points.append(Point(title, intensity, gflops, bound, fraction))
    roof = Roofline(limits, tuple(points))
    title = "Roofline"
    return Picture(title, _caption(roof), roof, lambda: _drawn(roof, title, _caption(roof)))


def _named(measured: Any) -> list[tuple[str, Evaluation]]:
    if isinstance(measured, Mapping):
        named = [(printable(str(title)), one) for title, one in measured.items()]
    elif isinstance(measured, (list, tuple)):
        named = [(f"kernel {k}", one) for k, one in enumerate(measured, 1)]
    else:
        named = [("the kernel", measured)]
    if not named or not all(isinstance(one, Evaluation) for _, one in named):
        raise ComputeTypeError(
            explain(
                f"roofline({measured!r})"[:200],
                "it is not what sl.evaluate returns",
                "Measure first: roofline({title: sl.evaluate(f, *arrays)}).",
            )
        )
    return named


def _rates(title: str, one: Evaluation) -> tuple[str, float, float]:
    if one.emulated:
        raise PlotError(
            f"roofline({title}): a CPU emulated the GPU, so its time says nothing about a GPU"
        )
    if not one.gflops or not one.gbps:
        missing = "operations (flops=)" if not one.gflops else "bytes (bytes=)"
        raise PlotError(
            explain(
                f"roofline({title})",
                f"its evaluation does not know the {missing} of a call",
                "Give both to sl.evaluate(f, ..., flops=, bytes=); a kernel without arithmetic has "
                "no place below a roofline.",
            )
        )
    return title, one.gflops, one.gbps


def _measured(dtype: str, known: Facts) -> Ceilings:
    if known.timing == "events":
        from schedlang.runtime.gpu_clock import gpu_ceilings

        return gpu_ceilings(dtype)
    from schedlang.runtime.ceilings import ceilings

    return ceilings(dtype)


def _caption(roofline: Roofline) -> str:
    text = (
        f"The black line is what this machine allows. Left of {number(roofline.ridge)} flops per "
        f"byte, memory ({number(roofline.ceilings.gbps)} GB/s, a copy) is the bound; right of it, "
        f"arithmetic ({number(roofline.ceilings.gflops)} GFLOP/s of multiply-adds). The bytes are "
        "the arguments' bytes, each moved once."
    )
    best = max(roofline.points, key=lambda p: p.fraction)
    text += f" Best: {best.title}, at {_percent(best.fraction)} of what {best.bound} allows"
    return f"{text}, since its arguments stay in a cache." if best.fraction > 1 else f"{text}."


def _percent(part: float) -> str:
    return f"{part:.1%}" if part < 0.02 else f"{part:.0%}"


def _drawn(roofline: Roofline, title: str, caption: str) -> Any:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    figure = sheet(HEIGHT, title, caption)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    limits, points = roofline.ceilings, roofline.points
    left = min(roofline.ridge, *(p.intensity for p in points)) / 4
    right = max(roofline.ridge, *(p.intensity for p in points)) * 18
    top = max(limits.gflops, *(p.gflops for p in points)) * 2
    bottom = min(left * limits.gbps, *(p.gflops for p in points)) / 2
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.grid(which="major", color=LINE)
    axes.plot(
        [left, roofline.ridge, right],
        [left * limits.gbps, limits.gflops, limits.gflops],
        color=BLACK,
        linewidth=2,
    )
    axes.text(
        right,
        limits.gflops * 1.07,
        f"{number(limits.gflops)} GFLOP/s ",
        ha="right",
        va="bottom",
        fontsize=8,
    )
    middle = math.sqrt(left * roofline.ridge)
    axes.annotate(
        f"{number(limits.gbps)} GB/s",
        (middle, middle * limits.gbps),
        xytext=(-6, 6),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=8,
    )
    # labels stay below the roof
    most = limits.gflops / math.exp(APART * math.log(top / bottom))
    heights = _spread([min(p.gflops, most) for p in points], bottom, top, most)
    for k, (point, height) in enumerate(zip(points, heights)):
        roof = min(point.intensity * limits.gbps, limits.gflops)
        axes.plot(
            [point.intensity] * 2,
            [point.gflops, roof],
            color=SOFT,
            linewidth=0.7,
            linestyle=":",
            zorder=2,
        )
        axes.plot(
            point.intensity,
            point.gflops,
            marker="o",
            markersize=6,
            color=KINDS[k % 8],
            markeredgecolor="white",
            zorder=4,
        )
        says = (
            f"{point.title}: {number(point.gflops)} GFLOP/s, {_percent(point.fraction)} of "
            f"what {point.bound} allows"
        )
        leader = {"arrowstyle": "-", "color": LINE, "linewidth": 0.7}
        axes.annotate(
            says,
            (point.intensity, point.gflops),
            xytext=(point.intensity * 1.25, height),
            va="center",
            fontsize=7.5,
            color=BLACK,
            arrowprops=leader,
        )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("flops per byte")
    axes.set_ylabel("GFLOP/s")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _spread(values: Sequence[float], low: float, high: float, most: float) -> list[float]:
    """Return heights for labels, as near to ``values`` as not to overlap on a logarithmic axis.

    None is above ``most``.
    """
    step = APART * math.log(high / low)
    order = sorted(range(len(values)), key=lambda k: values[k])
    logs = [math.log(values[k]) for k in order]
    for _ in range(100):
        moved = False
        for k in range(1, len(logs)):
            overlap = step - (logs[k] - logs[k - 1])
            if overlap > 1e-9:
                logs[k - 1], logs[k] = logs[k - 1] - overlap / 2, logs[k] + overlap / 2
                moved = True
        if not moved:
            break
    above = max(0.0, logs[-1] - math.log(most))
    logs = [place - above for place in logs]
    heights = [0.0] * len(values)
    for k, place in zip(order, logs):
        heights[k] = math.exp(place)
    return heights
