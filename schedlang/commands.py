"""``python -m schedlang tune`` and ``best``, and what commands on a script share."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from schedlang.compute.graph import variables
from schedlang.compute.tensor import Tensor
from schedlang.errors import SchedlangError, TuningError, user_location
from schedlang.target_options import choices

WHERE = "path/to/script.py:C"


def add_commands(commands: Any) -> None:
    """Add the parsers of ``tune`` and ``best``."""
    tune = commands.add_parser(
        "tune",
        help="search for a fast schedule of a tensor that a script defines",
        description="Run the script, take the tensor (or list of tensors) of that name, search, "
        "and print a summary and the schedule as code.",
    )
    _common(tune)
    tune.add_argument(
        "--trials", type=int, help="candidates to measure (64, or what --timeout allows)"
    )
    tune.add_argument("--timeout", type=float, default=None, help="seconds for the search")
    tune.add_argument("--search", default="random", help="random or evolve (random)")
    tune.add_argument("--seed", type=int, default=0, help="seed of the random draws (0)")
    tune.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="count the trials in the database and continue from there (the default)",
    )
    tune.add_argument("--template", default=None, metavar="NAME", help="a template of the script")
    tune.add_argument(
        "--inputs",
        default=None,
        metavar="NAME",
        help="the data to run on: a list or a dict of arrays in the script",
    )
    tune.add_argument(
        "--tolerance", type=float, default=None, help="the accepted error of an element (rounding)"
    )
    tune.add_argument(
        "--report", default=None, metavar="FILE", help="write a page about the search"
    )
    tune.add_argument("--save", default=None, metavar="FILE", help="write the kernel as Python")
    tune.set_defaults(run=run_tune)
    best = commands.add_parser(
        "best",
        help="print the best known schedule of a tensor that a script defines",
        description="Run the script, take the tensor of that name, and print the best schedule in "
        "the database as code, and where it was measured.",
    )
    _common(best)
    best.set_defaults(run=run_best)


def _common(parser: Any) -> None:
    parser.add_argument("tensor", metavar=WHERE, help="a script and the name of a tensor in it")
    parser.add_argument("--target", default="cpu", help=f"{choices()} (cpu)".replace('"', ""))
    parser.add_argument("--arch", default="", help="the architecture of a GPU, e.g. sm_80 (sm_90)")
    parser.add_argument("--compiler", default="", help="a compiler of the target, e.g. numba")
    parser.add_argument("--database", default=None, metavar="FILE", help="a file of trials")
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="the value of a symbolic size"
    )


def run_tune(chosen: argparse.Namespace) -> int:
    """Search, print the result and write the requested files; return the exit status."""
    from schedlang.autotune import autotune
    from schedlang.autotune.report.summary import summary

    outputs, names = tensors(chosen.tensor)
    # fail before the search, not after it, if a file cannot be written
    check_written("--report", chosen.report)
    check_written("--save", chosen.save)
    if chosen.save is not None and Path(chosen.save).suffix != ".py":
        raise TuningError(
            f"--save {chosen.save}: a kernel is Python source; give a name ending in .py"
        )
    sizes = sizes_of(chosen.size, outputs, every=True)
    with _options(chosen):
        result = autotune(
            outputs,
            _target(chosen),
            trials=chosen.trials,
            timeout=chosen.timeout,
            search=chosen.search,
            seed=chosen.seed,
            resume=chosen.resume,
            database=chosen.database,
            sizes=sizes,
            template=_template(chosen.template, names, chosen.tensor),
            inputs=_inputs(chosen.inputs, names, chosen.tensor),
            tolerance=chosen.tolerance,
            compiler=chosen.compiler,
        )
    page = chosen.report or "--report FILE writes a page"
    print(summary(result.facts, "see below", page))
    print()
    print(result.schedule.as_python().rstrip())
    failed = []
    for what, path, write in (
        ("report", chosen.report, result.report),
        ("kernel", chosen.save, result.kernel.save),
    ):
        try:
            if path is not None:
                print(f"\nthe {what}: {write(path)}")
        except (OSError, SchedlangError) as error:
            failed.append(f"the {what} was not written: {error}")
    if failed:
        raise TuningError("\n".join(failed))
    return 1 if result.broken else 0


def run_best(chosen: argparse.Namespace) -> int:
    """Print the best known schedule and return the exit status."""
    from schedlang.autotune.best import best
    from schedlang.autotune.text import one_line
    from schedlang.runtime.evaluate import duration

    outputs, _ = tensors(chosen.tensor)
    sizes = sizes_of(chosen.size, outputs, every=False)
    best_known = best(outputs, _target(chosen), chosen.database, sizes, chosen.compiler)
    where = best_known.entry.where
    print(
        f"# {duration(best_known.seconds)} on {one_line(where.machine)}, {one_line(where.target)}"
    )
    if best_known.note:
        print(f"# the time is of another case: {best_known.note}")
    print(best_known.schedule.as_python().rstrip())
    return 0


def check_written(option: str, path: str | None) -> None:
    """Raise :class:`~schedlang.errors.TuningError` for a file that cannot be written."""
    if path is None:
        return
    file = Path(path).absolute()
    if not file.parent.is_dir():
        raise TuningError(
            f"{option} {path}: there is no folder {Path(path).parent}; create it first"
        )
    if file.is_dir():
        raise TuningError(f"{option} {path}: this is a folder; give a file")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise TuningError(f"{option} {path}: the file is not writable; give another one")


def names_of_script(where: str, what: str, example: str) -> tuple[str, str, dict[str, Any]]:
    """Run the script of ``script.py:name``; return its path, ``name`` and all of its names.

    The message says ``what`` and ``example`` if ``where`` has another form.
    """
    path, _, name = where.rpartition(":")
    if not path or not name:
        raise TuningError(f"{where!r}: give a script and the name of {what} in it, as in {example}")
    if not Path(path).is_file():
        raise TuningError(f"{path}: there is no such file")
    from schedlang.autotune.tuner import SCRIPT

    # a script may import modules from its own folder
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        names = runpy.run_path(path, run_name=SCRIPT)
    except SchedlangError as error:
        raise TuningError(f"{user_location(error)}: {error}") from None
    # register the script as a module, as Python registers __main__
    sys.modules[SCRIPT] = script = ModuleType(SCRIPT)
    vars(script).update(names)
    return path, name, names


def tensors(where: str) -> tuple[list[Tensor], dict[str, Any]]:
    """Return the tensors that ``script.py:name`` denotes, and all names of the script."""
    path, name, names = names_of_script(where, "a tensor", WHERE)
    if name not in names:
        tensor_names = [n for n, v in names.items() if isinstance(v, Tensor)]
        listed = (
            f"its tensors are {', '.join(tensor_names)}" if tensor_names else "it defines no tensor"
        )
        raise TuningError(f"{path} has no {name!r} at its top level: {listed}")
    thing = names[name]
    items = [thing] if isinstance(thing, Tensor) else thing
    if not isinstance(items, (list, tuple)) or not all(isinstance(t, Tensor) for t in items):
        raise TuningError(
            f"{name} in {path} is an object of type {type(thing).__name__}: give the "
            "name of a tensor, or of a list of tensors"
        )
    return list(items), names


def _template(name: str | None, names: dict[str, Any], where: str) -> Any:
    if name is None:
        return None
    if not callable(names.get(name)):
        raise TuningError(f"--template {name}: {where.rpartition(':')[0]} has no such function")
    return names[name]


def _inputs(name: str | None, names: dict[str, Any], where: str) -> Any:
    if name is not None and name not in names:
        raise TuningError(f"--inputs {name}: {where.rpartition(':')[0]} has no such name")
    return None if name is None else names[name]


def _target(chosen: argparse.Namespace) -> Any:
    from schedlang.target import Target

    return Target(chosen.target, arch=chosen.arch) if chosen.arch else Target(chosen.target)


def sizes_of(given: Sequence[str], outputs: Sequence[Tensor], every: bool) -> dict[str, int] | None:
    """Return the values of symbolic sizes; if ``every`` is set, raise if one is missing."""
    size_names = [v.name for v in variables(outputs) if v.is_size]
    numbers = {}
    for item in given:
        name, _, value = item.partition("=")
        if not name or not re.fullmatch("[0-9]+", value):
            raise TuningError(f"--size {item}: give a name and a number, as in --size n=1024")
        if name not in size_names:
            its = ", ".join(t.name for t in outputs)
            has = (
                f"the sizes of {its} are {', '.join(size_names)}"
                if size_names
                else f"{its} has none"
            )
            raise TuningError(f"--size {item}: there is no symbolic size {name}; {has}")
        numbers[name] = int(value)
    missing = [f"--size {name}=..." for name in size_names if name not in numbers]
    if every and missing:
        raise TuningError(f"give values of the symbolic sizes to tune for: {' '.join(missing)}")
    return numbers or None


@contextmanager
def _options(chosen: argparse.Namespace) -> Iterator[None]:
    """Turn errors about arguments of ``autotune`` into errors about command-line options."""
    try:
        yield
    except TuningError as error:
        asked, _, why = str(error).partition("): ")
        name = re.match(r"autotune\((\w+)=", asked)
        value = name and getattr(chosen, name[1], None)
        if name is None or value is None:
            raise
        raise TuningError(f"--{name[1]} {value}: {why}") from None


__all__ = ["add_commands", "check_written", "names_of_script", "sizes_of", "tensors"]
