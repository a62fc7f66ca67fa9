"""``python -m schedlang course``: the lessons of the course, in a folder of one's own."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from schedlang.course.copies import write
from schedlang.course.execute import execute
from schedlang.course.forms import open_form, solved_form
from schedlang.course.lessons import choose, read, text_of
from schedlang.course.slides import slides
from schedlang.errors import amount

FOLDER = "schedlang-course"


def add_course(commands: Any) -> None:
    """Add the parser of ``course``."""
    course = commands.add_parser(
        "course",
        help="copy the notebooks of the course to a folder",
        description="Copy the lessons to a folder, with open exercises that check themselves. "
        "Jupyter or another program for notebooks runs them.",
    )
    course.add_argument("folder", nargs="?", default=FOLDER, help=f"where to ({FOLDER})")
    course.add_argument(
        "--lesson",
        action="append",
        default=[],
        metavar="N",
        help="only this lesson, by number or name; may be repeated",
    )
    course.add_argument("--solutions", action="store_true", help="also solved, in solutions/")
    course.add_argument(
        "--slides",
        action="store_true",
        help="also as pages of slides, in slides/; this runs the notebooks",
    )
    course.add_argument("--force", action="store_true", help="overwrite changed files")
    course.set_defaults(run=run_course)


def run_course(options: argparse.Namespace) -> int:
    """Write the files and return the exit status."""
    folder = Path(options.folder)
    lessons = {name: read(path) for name, path in choose(options.lesson).items()}
    files = {f"{name}.ipynb": text_of(open_form(lesson)) for name, lesson in lessons.items()}
    if options.solutions:
        for name, lesson in lessons.items():
            files[f"solutions/{name}.ipynb"] = text_of(solved_form(lesson))
    new = write(folder, files, options.force)
    print(f"{amount(len(lessons), 'lesson')} in {folder} ({amount(len(new), 'file')} written)")
    if options.slides:
        for name, lesson in lessons.items():
            print(f"running {name} for its slides", file=sys.stderr)
            with tempfile.TemporaryDirectory() as empty:
                page = slides(execute(open_form(lesson, notes=True), Path(empty)))
            # times and pictures differ from run to run, and nobody edits the pages
            write(folder, {f"slides/{name}.html": page}, force=True)
        print(f"slides in {folder / 'slides'}: open them in a browser")
    print(f"start with {next(iter(lessons))}.ipynb: jupyter lab {folder}")
    return 0


__all__ = ["add_course", "run_course"]
