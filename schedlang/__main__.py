"""``python -m schedlang``: the demonstration, the search for schedules, the course."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from schedlang.cache_command import add_cache
from schedlang.commands import add_commands
from schedlang.compile_command import add_compile
from schedlang.course_command import add_course
from schedlang.docs_command import add_docs
from schedlang.errors import (
    CacheWarning,
    DatabaseWarning,
    SchedlangError,
    SpillWarning,
    StrideWarning,
    UnprovenWarning,
)
from schedlang.live_command import add_live
from schedlang.results_command import add_results
from schedlang.show_command import add_show
from schedlang.version import __version__

# the exit status that a shell expects after Ctrl-C
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m schedlang",
        description="A schedule language in Python: compute, schedule, loop nest, numba source.",
    )
    parser.add_argument("--version", action="version", version=f"schedlang {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    demo = commands.add_parser(
        "demo",
        help="a matrix product, from its definition to a comparison with NumPy",
        description="Print a computation, its loop nest without and with a schedule, and the path "
        "of the emitted source; check the result and compare the time with NumPy's.",
    )
    demo.add_argument("--size", type=_size, default=1024, help="rows of the matrices (1024)")
    demo.add_argument("--seconds", type=float, default=2.0, help="how long to time (2)")
    demo.add_argument(
        "--only-print", action="store_true", help="print the loop nests; compile and run nothing"
    )
    demo.add_argument(
        "--all", action="store_true", help="each step of the schedule, with the changed loops"
    )
    add_commands(commands)
    add_compile(commands)
    add_show(commands)
    add_course(commands)
    add_results(commands)
    add_live(commands)
    add_cache(commands)
    add_docs(commands)
    chosen = parser.parse_args(argv)
    if chosen.command is None:
        parser.print_help()
        return 0
    if chosen.command == "demo":
        from schedlang.demo import run

        return run(chosen.size, chosen.seconds, chosen.only_print, every_step=chosen.all)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, chosen.command, warnings.showwarning)
            return int(chosen.run(chosen))
    except SchedlangError as error:
        print(f"python -m schedlang {chosen.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"python -m schedlang {chosen.command}: interrupted", file=sys.stderr)
        return INTERRUPTED


def _show_warning(
    command: str,
    otherwise: Callable[..., None],
    message: Warning | str,
    category: type[Warning],
    *where: Any,
) -> None:
    """Show a warning of schedlang without its source line, and any other in Python's own way."""
    ours = CacheWarning, DatabaseWarning, SpillWarning, StrideWarning, UnprovenWarning
    if issubclass(category, ours):
        print(f"python -m schedlang {command}: {message}", file=sys.stderr)
    else:
        otherwise(message, category, *where)


def _size(text: str) -> int:
    size = int(text)
    if size < 1:
        raise argparse.ArgumentTypeError("a size must be 1 or more")
    return size


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(1)
