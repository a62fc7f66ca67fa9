"""``python -m schedlang show script.py:s``: the nest of a schedule that a script makes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from schedlang.commands import names_of_script
from schedlang.compute.tensor import Tensor
from schedlang.errors import BuildError, MissingExtraError
from schedlang.ir.nest import Nest
from schedlang.markup.page import page
from schedlang.schedule.schedule import Schedule, schedule

WHERE = "path/to/script.py:s"


def add_show(commands: Any) -> None:
    """Add the parser of ``show``."""
    show = commands.add_parser(
        "show",
        help="print the loop nest of a schedule that a script makes, or write it as a page",
        description="Run the script, take the schedule (or the tensor, kernel or nest) of that "
        "name, and print its loop nest, in colours if rich is installed.",
    )
    show.add_argument("what", metavar=WHERE, help="a script and the name of a schedule in it")
    show.add_argument("--html", default=None, metavar="FILE", help="write a page with its steps")
    show.set_defaults(run=run_show)


def run_show(chosen: argparse.Namespace) -> int:
    """Print or write what was asked for, and return the exit status."""
    path, name, names = names_of_script(chosen.what, "a schedule", WHERE)
    if name not in names:
        schedule_names = [n for n, v in names.items() if isinstance(v, Schedule)]
        listed = (
            f"its schedules are {', '.join(schedule_names)}"
            if schedule_names
            else "it makes no schedule"
        )
        raise BuildError(f"{path} has no {name!r} at its top level: {listed}")
    thing = names[name]
    if isinstance(thing, Tensor):
        thing = schedule(thing)
    nest = getattr(thing, "loop_nest", thing.nest() if isinstance(thing, Schedule) else thing)
    if not isinstance(nest, Nest):
        raise BuildError(
            f"{name} in {path} is an object of type {type(thing).__name__}: give the name of a "
            "schedule, a tensor, a kernel or a nest"
        )
    if chosen.html is not None:
        body = thing._repr_html_()
        if isinstance(thing, Schedule) and thing.steps:
            body += f"<h2>Step by step</h2>{thing.steps._repr_html_()}"
        try:
            Path(chosen.html).write_text(page(f"{name} of {Path(path).name}", body), "utf-8")
        except OSError as error:
            raise BuildError(f"--html {chosen.html}: {error.strerror}") from None
        print(f"the page: {chosen.html}")
        return 0
    try:
        nest.show()
    except MissingExtraError:
        # the library of colours is missing
        print(nest)
    return 0


__all__ = ["add_show"]
