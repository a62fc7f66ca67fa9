"""What a search finds, beside what experts wrote and what others' schedulers find.

    python -m benchmarks.autotune [--part products|families|progress] [--trials N] [--seeds N]
                                  [--search NAME] [--timeout S] [--only PATTERN] [--json FILE]
                                  [--keep FILE] [--kept FILE]

Every search starts from an empty database, with rules that know no operator by name. ``--keep``
adds what each found to a tuning database; ``--part families --kept FILE`` times that again, without
a search, as the machine's neighbours may be loud for longer than the turns of a work take.

* ``products``: sgemm 1024^3 beside OpenBLAS, and C1 to C12 beside the schedules of
  ``benchmarks/schedules``; the median over the seeds is what counts.
* ``families``: the 13 operator families of the Ansor benchmark at the sizes TVM publishes, beside
  Halide's automatic schedulers, a numba user's loops, and the ceiling that bounds the work.
* ``progress``: the best time after 10, 30 and 100 trials of each strategy, and seconds a candidate
  beside those of TVM's MetaSchedule (``benchmarks/progress.py``).

Kernels are timed in turns with their peers, as in ``benchmarks/cpu.py``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import works
from benchmarks.computations import computation
from benchmarks.cpu import Run
from benchmarks.harness import Case, Column, Row, Unavailable, main
from benchmarks.peers import PEERS
from benchmarks.peers.ceiling import CEILING
from benchmarks.peers.tuned import steps_file
from benchmarks.progress import progress
from benchmarks.schedules import MAIN
from benchmarks.works import Work
from benchmarks.works.families import FAMILIES
from schedlang.autotune import TuningResult, autotune
from schedlang.autotune.best import best
from schedlang.autotune.database import Database
from schedlang.autotune.showing.facts import outcome_counts
from schedlang.errors import TuningError, first_line

PRODUCTS = ("sgemm 1024^3", *(f"conv C{n} " for n in range(1, 13)))
# what a search must reach: of OpenBLAS, of the schedule by hand, of numba's loops, of the ceiling
OF_OPENBLAS, OF_HAND, OF_LOOPS, OF_CEILING = 0.9, 0.8, 3.0, 0.8
# seconds of a search, and the seeds whose median counts
LONGEST, SEEDS = 300.0, 3
TUNED = "tuned"
NO_RESULT, NO_PEER = "no result  SHORT", "nothing to compare it with  SHORT"


class Searches:
    """The searches of one run; each writes the steps that it found."""

    def __init__(self, run: Run, options: argparse.Namespace) -> None:
        self.run = run
        self.options = options
        # the works that were searched for, whether or not something was found
        self.asked: list[str] = []

    def case(self, work: Work, seed: int, trials: int) -> Case:
        """What a search finds."""

        def found(facts: dict[str, Any]) -> str:
            result = self.search(work, seed, trials)
            facts["trials"] = len(result.trials)
            facts["searched_seconds"] = result.facts.spent
            facts["ended"] = result.ended
            facts["outcomes"] = outcome_counts(result.trials)
            return result.best.steps

        return self._tuned(work, f"{TUNED}, seed {seed}", found)

    def kept(self, work: Work) -> Case:
        """What an earlier search found."""

        def found(_: dict[str, Any]) -> str:
            known = best(computation(work)[-1], "cpu", self.options.kept)
            if not known.exact:
                raise Unavailable(known.note)
            return known.entry.trial.steps

        return self._tuned(work, f"{TUNED}, kept", found)

    def _tuned(self, work: Work, label: str, found: Callable[[dict[str, Any]], str]) -> Case:
        """A row of the steps that are ``found``, which adds what it has to say of the search."""
        timed = self.run.case(work, "tuned", label, "")

        def prepare() -> Callable[[], object]:
            if work.name not in self.asked:
                self.asked.append(work.name)
            try:
                steps = found(timed.facts)
            except TuningError as error:
                raise Unavailable(first_line(error)) from None
            folder = self.run.scratch / "kernels"
            folder.mkdir(exist_ok=True)
            steps_file(folder, work, label).write_text(steps, encoding="utf-8")
            return timed.prepare()

        return replace(timed, prepare=prepare)

    def search(self, work: Work, seed: int, trials: int, search: str = "") -> TuningResult:
        """One search from an empty database."""
        output = computation(work)[-1]
        with TemporaryDirectory() as folder:
            result = autotune(
                output, "cpu", trials=trials, seed=seed, progress=False,
                timeout=self.options.timeout, search=search or self.options.search,
                database=Path(folder) / "tuning.jsonl",
            )  # fmt: skip
        if self.options.keep is not None:
            database = Database(self.options.keep)
            database.add(result.facts.where, work.name, result.best, [output])
        return result

    def products(self) -> Iterator[Case]:
        for work in works.ALL.values():
            if not work.name.startswith(PRODUCTS):
                continue
            if work.kind == "sgemm":
                peer = next(p for p in PEERS if p.implementation == "NumPy")
                yield self.run.case(work, peer.module, peer.implementation, peer.missing())
            yield self.run.case(work, "schedlang_kernels", MAIN, "")
            for seed in range(self.options.seeds or SEEDS):
                yield self.case(work, seed, self.options.trials or 128)

    def families(self) -> Iterator[Case]:
        names = ("numba loops", "Halide Mullapudi2016", "Halide Adams2019")
        for work in FAMILIES:
            for peer in PEERS:
                if peer.implementation in names:
                    yield self.run.case(work, peer.module, peer.implementation, peer.missing())
            yield self.run.ceiling(work)
            if self.options.kept is not None:
                yield self.kept(work)
                continue
            for seed in range(self.options.seeds or 1):
                yield self.case(work, seed, self.options.trials or 64)


def _seconds(group: Sequence[Row], start: str) -> list[float]:
    return [r.seconds for r in group if r.correct and r.case.implementation.startswith(start)]


def score_products(asked: Sequence[str], seeds: int) -> Callable[[Sequence[Row]], str]:
    """The median over the seeds against OpenBLAS, or the schedule by hand, of each work asked."""

    def score(rows: Sequence[Row]) -> str:
        lines, reached = [], 0
        for name in asked:
            group = [r for r in rows if r.case.work == name]
            tuned, hand, numpy = (_seconds(group, s) for s in (TUNED, MAIN, "NumPy"))
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
            short = [f"SHORT of {goal}"] if value < goal else []
            short += [f"{len(tuned)} of {seeds} seeds"] if len(tuned) < seeds else []
            short += ["over five minutes"] if max(searched) > LONGEST else []
            reached += not short
            lines.append(
                f"{name}: {value:.2f} of {what} (median of {len(tuned)} seeds; searches took "
                f"{max(searched):.0f} s at most)  {', '.join(short)}".rstrip()
            )
        lines.append(f"{reached} of {len(asked)} works reach what they must")
        return "\n".join(lines)

    return score


def score_families(asked: Sequence[str]) -> Callable[[Sequence[Row]], str]:
    """Against Halide's schedulers, and numba's loops or the ceiling, of each work asked."""

    def score(rows: Sequence[Row]) -> str:
        lines, reached = [], 0
        for name in asked:
            group = [r for r in rows if r.case.work == name]
            tuned = _seconds(group, TUNED)
            if not tuned:
                lines.append(f"{name}: {NO_RESULT}")
                continue
            own = median(tuned)
            measured = {r.case.implementation for r in group if r.correct}
            halide, loops = _seconds(group, "Halide"), _seconds(group, "numba loops")
            ahead = min(halide) / own if halide else None
            faster = loops[0] / own if loops else None
            least = _seconds(group, CEILING)
            fraction = least[0] / own if least else None
            both = {"Halide Mullapudi2016", "Halide Adams2019"} <= measured
            good = (
                both
                and ahead is not None
                and ahead > 1
                and ((faster or 0.0) >= OF_LOOPS or (fraction or 0.0) >= OF_CEILING)
            )
            missing = "" if both else "  a scheduler of Halide is missing"
            reached += good
            texts = [f"{ahead:.2f} of the better Halide scheduler"] if ahead is not None else []
            texts += [f"{faster:.2f} of numba's loops"] if faster is not None else []
            texts += [f"{fraction:.2f} of the ceiling"] if fraction is not None else []
            lines.append(f"{name}: {', '.join(texts)}{'' if good else '  SHORT'}{missing}")
        lines.append(f"{reached} of {len(asked)} works reach what they must")
        return "\n".join(lines)

    return score


def arguments(given: Sequence[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """The options of this program, and those that are left to its tables."""
    about, _, _ = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.autotune", description=about, epilog="--rounds N: samples of "
        "each kernel, at least", allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--part", choices=("products", "families", "progress"),
                        help="one of the three tables (all)")  # fmt: skip
    parser.add_argument("--trials", type=int, help="of each search")
    parser.add_argument("--seeds", type=int, help="searches for each work")
    parser.add_argument("--search", default="random", help="the strategy (%(default)s)")
    parser.add_argument("--timeout", type=float, default=300.0,
                        help="seconds of a search (%(default)g)")  # fmt: skip
    parser.add_argument("--keep", metavar="FILE", type=Path,
                        help="add what each search found to this tuning database")  # fmt: skip
    parser.add_argument("--kept", metavar="FILE", type=Path,
                        help="time what is kept there, without a search (families)")  # fmt: skip
    parser.add_argument("--only", metavar="PATTERN", default="",
                        help="a regular expression on 'work implementation'")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", type=Path,
                        help="write the rows there, each table to a file of its own")  # fmt: skip
    options, rest = parser.parse_known_args(given)
    if options.kept is not None and options.part != "families":
        parser.error("--kept goes with --part families: the other tables are of several seeds")
    if options.part == "progress" and rest:
        parser.error(f"--part progress knows no {' '.join(rest)}")
    return options, rest


def _columns(run: Run) -> list[Column]:
    def ceiling(row: Row, group: Sequence[Row]) -> str:
        least = _seconds(group, CEILING)
        return f"{least[0] / row.seconds if least else run.fraction(row):.2f}"

    def searched(row: Row, _: Sequence[Row]) -> str:
        facts: dict[str, Any] = row.case.facts
        return f"{facts['searched_seconds']:.0f} s" if "searched_seconds" in facts else ""

    return [Column("ceiling", ceiling), Column("search", searched)]


def all_parts() -> int:
    options, rest = arguments()
    status = 0
    with TemporaryDirectory() as scratch:
        run = Run(Path(scratch))
        searches = Searches(run, options)
        tables = {
            "products": (
                "products and convolutions",
                searches.products,
                score_products(searches.asked, options.seeds or SEEDS),
            ),
            "families": (
                "operator families",
                searches.families,
                score_families(searches.asked),
            ),
        }
        try:
            for part, (what, cases, score) in tables.items():
                if options.part in (None, part):
                    title = f"searches for {what}, float32, two threads"
                    given = [*rest, "--only", options.only]
                    if (path := _json(options, part)) is not None:
                        given += ["--json", str(path)]
                    searches.asked.clear()
                    status |= main(title, cases(), _columns(run), run.ceilings, given, score)
            if options.part in (None, "progress"):
                progress(searches.search, options.only, options.trials, options.seeds,
                         _json(options, "progress"))  # fmt: skip
        finally:
            run.close()
    return status


def _json(options: argparse.Namespace, part: str) -> Path | None:
    """Where the rows of a part go: a file of its own, if there are several."""
    path: Path | None = options.json
    if path is None or options.part:
        return path
    return path.with_stem(f"{path.stem}-{part}")


if __name__ == "__main__":
    sys.exit(all_parts())
