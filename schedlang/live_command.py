"""``python -m schedlang live script.py:s``: a page on which a schedule is tried."""

from __future__ import annotations

import argparse
import os
import tempfile
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schedlang.commands import check_written, names_of_script, sizes_of
from schedlang.compute.tensor import PlaceholderOp, Tensor
from schedlang.errors import BuildError, SchedlangError, first_line, user_location
from schedlang.markup.text import escape, printable
from schedlang.schedule.schedule import Schedule, schedule

WHERE = "path/to/script.py:s"


def add_live(commands: Any) -> None:
    """Add the parser of ``live``."""
    live = commands.add_parser(
        "live",
        help="open a page on which a schedule of a script is tried, step by step",
        description="Run the script, take the schedule (or the tensor or kernel) of that name, and "
        "serve a page on this machine: the schedule to edit, its loop nest, its time, and the next "
        "steps to click. Ctrl-C ends it.",
    )
    live.add_argument("what", metavar=WHERE, help="a script and the name of a schedule in it")
    live.add_argument("--port", type=int, default=0, help="the port (any free one)")
    live.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="open the page in the browser (the default)",
    )
    live.add_argument(
        "--measure",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure each schedule in a child process (the default)",
    )
    live.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="the value of a symbolic size"
    )
    live.add_argument(
        "--target",
        default="cpu",
        metavar="TARGET",
        help="cpu (the default), or cuda-emulator for the counts of a GPU's kernels",
    )
    live.add_argument("--save", default=None, metavar="FILE", help="at the end, write the history")
    live.set_defaults(run=run_live)


def run_live(chosen: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C, and return the exit status."""
    from schedlang.live.server import TOKEN, missing_library, serve
    from schedlang.live.session import Session

    try:
        import aiohttp  # noqa: F401 - before the script runs, which may take long
    except ImportError:
        raise missing_library() from None
    # fail now, not at the end, if the history cannot be written
    check_written("--save", chosen.save)
    start, title = schedule_of(chosen.what)
    sizes = sizes_of(chosen.size, start.outputs, every=False)
    session = Session(start, title, chosen.target, sizes, chosen.measure)

    with tempfile.TemporaryDirectory(prefix="schedlang-live-") as folder:

        def ready(url: str) -> None:
            print(f"the page: {url}\nCtrl-C ends it", flush=True)
            if chosen.open:
                webbrowser.open(_leads_to(url, Path(folder)))

        try:
            serve(session, chosen.port, os.environ.get(TOKEN), ready)
        except KeyboardInterrupt:
            print()
    print(session.history.state.code.rstrip())
    if chosen.save is not None:
        print(f"\nthe history: {session.save(chosen.save)}")
    return 0


def schedule_of(where: str) -> tuple[Schedule, str]:
    """Return the schedule of ``script.py:name``, and a title for its page."""
    try:
        path, name, names = names_of_script(where, "a schedule", WHERE)
    except (SchedlangError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        raise BuildError(f"{where}: the script ended with exit status {error.code}") from None
    except Exception as error:
        # the message of the script, and its own line, without ours
        place, what = user_location(error), f"{type(error).__name__}: {first_line(error)}"
        what = printable(what)
        raise BuildError(f"{place}: {what}" if place else what) from None
    if name not in names:
        raise BuildError(f"{path} has no {name!r} at its top level: {_subjects(path, names)}")
    thing = names[name]
    thing = schedule(thing) if isinstance(thing, Tensor) else getattr(thing, "schedule", thing)
    if not isinstance(thing, Schedule):
        raise BuildError(
            f"{name} in {path} is an object of type {type(thing).__name__}: give the name of a "
            f"schedule, a tensor or a kernel; {_subjects(path, names)}"
        )
    return thing, f"{name} of {Path(path).name}"


def _subjects(path: str, names: Mapping[str, Any]) -> str:
    """Return the schedules that a script makes; if there are none, its tensors, which have one."""
    schedules = [n for n, v in names.items() if isinstance(v, Schedule)]
    if schedules:
        return f"its schedules are {', '.join(schedules)}"
    computed = [
        n for n, v in names.items()
        if isinstance(v, Tensor) and not isinstance(v.op, PlaceholderOp)
    ]  # fmt: skip
    if not computed:
        return "it makes no schedule"
    return (
        f"it makes no schedule; its tensors are {', '.join(computed)}, and {path}:{computed[-1]} "
        f"opens the schedule of {computed[-1]} without steps"
    )


def _leads_to(url: str, folder: Path) -> str:
    """Return the URL of a file that leads to ``url``.

    Other users see the arguments of a browser, but not the file, and so not the token.
    """
    path = folder / "page.html"
    path.touch(mode=0o600)
    path.write_text(f'<meta http-equiv="refresh" content="0;url={escape(url)}">', "utf-8")
    return path.as_uri()


__all__ = ["add_live", "run_live", "schedule_of"]
