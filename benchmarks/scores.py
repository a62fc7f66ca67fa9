"""Compare the rows of ``python -m benchmarks.autotune`` with the goals of a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.harness import Row
from benchmarks.peers.ceiling import CEILING
from benchmarks.schedules import MAIN

# the goals of a search: of OpenBLAS, of the schedule by hand, of numba's loops, of the ceiling
OF_OPENBLAS, OF_HAND, OF_LOOPS, OF_CEILING = 0.9, 0.8, 3.0, 0.8
# the seconds that a search may take
LONGEST = 300.0
TUNED = "tuned"
SCHEDULERS = ("Halide Mullapudi2016", "Halide Adams2019")
NO_RESULT, NO_PEER = "no result  BELOW", "nothing to compare with  BELOW"


def seconds(group: Sequence[Row], start: str) -> list[float]:
    """Return the times of the correct rows whose implementation starts with ``start``."""
    return [r.seconds for r in group if r.correct and r.case.implementation.startswith(start)]


def products(asked: Sequence[str], seeds: int) -> Callable[[Sequence[Row]], str]:
    """Return a summary that compares each work with OpenBLAS or with the schedule by hand."""

    def score(rows: Sequence[Row]) -> str:
        lines, reached = [], 0
        for name in asked:
            group = [r for r in rows if r.case.work == name]
            tuned, hand, numpy = (seconds(group, s) for s in (TUNED, MAIN, "NumPy"))
            times, goal, what = (
                (numpy, OF_OPENBLAS, "OpenBLAS")
                if name.startswith("sgemm")
                else (hand, OF_HAND, "by hand")
            )
            if not tuned or not times:
                lines.append(f"{name}: {NO_RESULT if not tuned else NO_PEER}")
                continue
            value = times[0] / median(tuned)
            searched = [r.case.facts.get("searched_seconds", 0.0) for r in group]
            short = [f"BELOW {goal}"] if value < goal else []
            short += [f"{len(tuned)} of {seeds} seeds"] if len(tuned) < seeds else []
            short += ["over five minutes"] if max(searched) > LONGEST else []
            reached += not short
            lines.append(
                f"{name}: {value:.2f} of {what} (median of {len(tuned)} seeds; searches took "
                f"{max(searched):.0f} s at most)  {', '.join(short)}".rstrip()
            )
        lines.append(f"{reached} of {len(asked)} works reach their goal")
        return "\n".join(lines)

    return score


def families(asked: Sequence[str]) -> Callable[[Sequence[Row]], str]:
    """Return a summary that compares each work with Halide's schedulers, loops and the ceiling."""

    def score(rows: Sequence[Row]) -> str:
        found = [standing(rows, name) for name in asked]
        reached = sum(one.reached for one in found)
        last = f"{reached} of {len(asked)} works reach their goal"
        return "\n".join([*map(str, found), last])

    return score


@dataclass(frozen=True)
class Standing:
    """The speed of a work's tuned kernel, relative to each peer that was timed."""

    work: str
    halide: float | None = None
    loops: float | None = None
    ceiling: float | None = None
    found: bool = True
    both: bool = True

    @property
    def reached(self) -> bool:
        """True if it beats both schedulers, and reaches the goal of the loops or the ceiling."""
        near = (self.loops or 0.0) >= OF_LOOPS or (self.ceiling or 0.0) >= OF_CEILING
        return self.both and (self.halide or 0.0) > 1 and near

    def __str__(self) -> str:
        if not self.found:
            return f"{self.work}: {NO_RESULT}"
        beside = (
            (self.halide, "the better Halide scheduler"),
            (self.loops, "numba's loops"),
            (self.ceiling, "the ceiling"),
        )
        said = ", ".join(f"{value:.2f} of {what}" for value, what in beside if value is not None)
        missing = "" if self.both else "  a scheduler of Halide is missing"
        return f"{self.work}: {said}{'' if self.reached else '  BELOW'}{missing}"


def standing(rows: Sequence[Row], work: str) -> Standing:
    """Return the standing of the tuned kernels of ``work``."""
    group = [r for r in rows if r.case.work == work]
    if not (tuned := seconds(group, TUNED)):
        return Standing(work, found=False)
    own = median(tuned)

    def of(start: str) -> float | None:
        times = seconds(group, start)
        return min(times) / own if times else None

    both = all(seconds(group, name) for name in SCHEDULERS)
    return Standing(work, of("Halide"), of("numba loops"), of(CEILING), both=both)


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw a bar for each work: its speed over the better Halide scheduler's.

    The number beside a bar is the fraction of the ceiling that the work reaches.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    works = dict.fromkeys(r.case.work for r in rows)
    found = [one for name in works if (one := standing(rows, name)).halide is not None][::-1]
    speeds = [one.halide or 0.0 for one in found]
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.24 * len(found)), layout="constrained")
    colors = ["#2a7f62" if one.reached else "#c06030" for one in found]
    axes.barh([one.work for one in found], speeds, color=colors)
    for row, (one, speed) in enumerate(zip(found, speeds)):
        part = "" if one.ceiling is None else f" {one.ceiling:.2f}"
        # right of the line at 1
        axes.text(max(speed, 1.0), row, part, va="center", fontsize=7)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("speed of the tuned kernel, the better of Halide's schedulers = 1")
    axes.set_title("numbers: fraction of the ceiling (above 1: in a cache)", fontsize=8,
                   loc="right")  # fmt: skip
    axes.margins(x=0.08, y=0.01)
    figure.savefig(path, dpi=150)
    plt.close(figure)
