"""``python -m schedlang results``: a table of a class, from its notebooks and labs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from schedlang.course.execute import execute
from schedlang.course.grading.collect import collect
from schedlang.course.grading.table import as_csv, as_table
from schedlang.course.lessons import Notebook
from schedlang.errors import BuildError, amount


def add_results(commands: Any) -> None:
    """Add the parser of ``results``."""
    results = commands.add_parser(
        "results",
        help="make a table of the exercises and labs of a class",
        description="Read the notebooks and the results of labs in a folder, which has a folder "
        "for each student, and print who solved what. Nothing is sent anywhere.",
    )
    results.add_argument("folder", help="the folder with the results")
    results.add_argument("--csv", default=None, metavar="FILE", help="also write them as CSV")
    results.add_argument(
        "--run",
        dest="rerun",
        action="store_true",
        help="run the notebooks, instead of reading the outputs they were saved with",
    )
    results.set_defaults(run=run_results)


def run_results(options: argparse.Namespace) -> int:
    """Print the table, write the file, and return the exit status."""
    results = collect(Path(options.folder), _run if options.rerun else None)
    print(as_table(results))
    if not options.rerun:
        print("\nThe exercises are as their notebooks were saved; --run runs them again.")
    if options.csv is not None:
        path = Path(options.csv)
        try:
            path.write_text(as_csv(results), "utf-8")
        except OSError as error:
            raise BuildError(f"--csv {path}: {error.strerror or error}") from None
        print(f"\n{amount(len(results), 'result')} in {path}")
    return 0


def _run(notebook: Notebook, folder: Path) -> Notebook:
    title = "".join(notebook["cells"][0]["source"]).splitlines()[0].lstrip("# ")
    print(f"running {title}", file=sys.stderr)
    return execute(notebook, folder, stop=False)


__all__ = ["add_results", "run_results"]
