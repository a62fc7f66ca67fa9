"""Compare what a search finds with libraries, schedules by hand and other automatic schedulers.

    python -m benchmarks.autotune [--part products|families|progress] [--trials N] [--seeds N]
                                  [--search NAME] [--timeout S] [--only PATTERN] [--json FILE]
                                  [--keep FILE] [--kept FILE] [--plot FILE]

Every search starts from an empty database. No tactic of the search knows an operator by name.

* ``products`` compares sgemm 1024^3 with OpenBLAS, and C1 to C12 with the schedules of
  ``benchmarks/schedules``. The median over the seeds counts.
* ``families`` compares the 13 operator families of the Ansor benchmark, at the sizes that TVM
  publishes, with Halide's automatic schedulers, a numba user's loops, and the ceiling of the work.
* ``progress`` gives the best time after 10, 30 and 100 trials of each strategy, and the seconds
  per candidate, beside those of TVM's MetaSchedule (``benchmarks/progress.py``).

``--keep`` adds the best schedule of each search to a tuning database. ``--part families --kept
FILE`` times the schedules of that database again, without a search: use it where other programs
disturbed a whole run. Kernels and their peers are timed in turns, as in ``benchmarks/cpu.py``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import scores, works
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
from schedlang.autotune.report.facts import outcome_counts
from schedlang.errors import TuningError, first_line

PRODUCTS = ("sgemm 1024^3", *(f"conv C{n} " for n in range(1, 13)))
# the seeds whose median counts
SEEDS = 3


class Searches:
    """The searches of one run. Each writes the steps of its best schedule to a file."""

    def __init__(self, run: Run, options: argparse.Namespace) -> None:
        self.run = run
        self.options = options
        # the works that were searched, including those without a result
        self.asked: list[str] = []

    def case(self, work: Work, seed: int, trials: int) -> Case:
        """Return a case that searches, then times the best schedule."""

        def found(facts: dict[str, Any]) -> str:
            result = self.search(work, seed, trials)
            facts["trials"] = len(result.trials)
            facts["searched_seconds"] = result.facts.spent
            facts["ended"] = result.ended
            facts["outcomes"] = outcome_counts(result.trials)
            return result.best.steps

        return self._tuned(work, f"{scores.TUNED}, seed {seed}", found)

    def kept(self, work: Work) -> Case:
        """Return a case that times the best schedule in the ``--kept`` database."""

        def found(_: dict[str, Any]) -> str:
            known = best(computation(work)[-1], "cpu", self.options.kept)
            if not known.exact:
                raise Unavailable(known.note)
            return known.entry.trial.steps

        return self._tuned(work, f"{scores.TUNED}, kept", found)

    def _tuned(self, work: Work, label: str, found: Callable[[dict[str, Any]], str]) -> Case:
        """Return a case that times the steps from ``found``, which also adds facts to the row."""
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
        """Search once, from an empty database."""
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
        names = ("numba loops", *scores.SCHEDULERS)
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


def arguments(given: Sequence[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Parse the options of this program. Return them and the rest, which its tables parse."""
    about, _, _ = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.autotune", description=about, epilog="--rounds N: the fewest "
        "samples of each kernel", allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--part", choices=("products", "families", "progress"),
                        help="one of the three tables (all)")  # fmt: skip
    parser.add_argument("--trials", type=int, help="of each search")
    parser.add_argument("--seeds", type=int, help="searches for each work")
    parser.add_argument("--search", default="random", help="the strategy (%(default)s)")
    parser.add_argument("--timeout", type=float, default=scores.LONGEST,
                        help="seconds of a search (%(default)g)")  # fmt: skip
    parser.add_argument("--keep", metavar="FILE", type=Path,
                        help="add the best of each search to this tuning database")  # fmt: skip
    parser.add_argument("--kept", metavar="FILE", type=Path,
                        help="time the schedules of this database (families)")  # fmt: skip
    parser.add_argument("--only", metavar="PATTERN", default="",
                        help="a regular expression on 'work implementation'")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", type=Path,
                        help="write the rows there, each table to a file of its own")  # fmt: skip
    parser.add_argument("--plot", metavar="FILE", type=Path,
                        help="draw the speeds of the families there")  # fmt: skip
    options, rest = parser.parse_known_args(given)
    if options.kept is not None and options.part != "families":
        parser.error("--kept goes with --part families: the other tables need several seeds")
    if options.plot is not None and options.part not in (None, "families"):
        parser.error("--plot goes with the families")
    if options.part == "progress" and rest:
        parser.error(f"--part progress knows no {' '.join(rest)}")
    return options, rest


def _columns(run: Run) -> list[Column]:
    def ceiling(row: Row, group: Sequence[Row]) -> str:
        least = scores.seconds(group, CEILING)
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
                scores.products(searches.asked, options.seeds or SEEDS),
                None,
            ),
            "families": (
                "operator families",
                searches.families,
                scores.families(searches.asked),
                scores.plot,
            ),
        }
        try:
            for part, (what, cases, score, plot) in tables.items():
                if options.part in (None, part):
                    title = f"searches for {what}, float32, two threads"
                    given = [*rest, "--only", options.only]
                    if (path := _json(options, part)) is not None:
                        given += ["--json", str(path)]
                    if plot is not None and options.plot is not None:
                        given += ["--plot", str(options.plot)]
                    searches.asked.clear()
                    status |= main(title, cases(), _columns(run), run.ceilings, given, score,
                                   plot)  # fmt: skip
            if options.part in (None, "progress"):
                progress(searches.search, options.only, options.trials, options.seeds,
                         _json(options, "progress"))  # fmt: skip
        finally:
            run.close()
    return status


def _json(options: argparse.Namespace, part: str) -> Path | None:
    """Return the JSON file for a part, which is one file for each part where several run."""
    path: Path | None = options.json
    if path is None or options.part:
        return path
    return path.with_stem(f"{path.stem}-{part}")


if __name__ == "__main__":
    sys.exit(all_parts())
