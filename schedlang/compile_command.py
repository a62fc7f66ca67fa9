"""``python -m schedlang compile model.onnx --tune 30m --out folder/``: a model to a folder."""

from __future__ import annotations

import argparse
import keyword
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.compute.tensor import var
from schedlang.errors import (
    FrontendError,
    MissingExtraError,
    NetworkError,
    TuningError,
    explain,
    first_line,
)
from schedlang.expr.names import check_name

if TYPE_CHECKING:
    from schedlang.expr.nodes import Var
    from schedlang.networks.module import NetworkModule

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def add_compile(commands: Any) -> None:
    """Add the parser of ``compile``."""
    parser = commands.add_parser(
        "compile",
        help="make a folder of Python, which runs alone, of an ONNX model",
        description="Import the model, search for schedules if asked to, compile, and write the "
        "network to a folder: network.py, which needs numba and NumPy alone (for a GPU also "
        "numba-cuda), and its weights.",
    )
    parser.add_argument("model", metavar="model.onnx", help="an ONNX file")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the folder to write")
    parser.add_argument(
        "--tune",
        default=None,
        metavar="TIME",
        help="search for schedules for so long, such as 90s, 30m or 2h",
    )
    parser.add_argument("--database", default=None, metavar="FILE", help="a file of trials")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=N",
        help="the value of a dynamic dimension of the model; a name, as in batch=n, makes it a "
        "size of each call; X=1,64 is the whole shape of the input X, X=64, of one dimension",
    )
    parser.add_argument(
        "--target",
        default="cpu",
        help='"cpu", or "cuda" for a GPU, such as "cuda -arch=sm_80" (default: cpu)',
    )
    parser.add_argument("--name", default=None, help="of the network (the name of the file)")
    parser.set_defaults(run=run_compile)


def run_compile(chosen: argparse.Namespace) -> int:
    """Import, tune, compile and save the model; return the exit status."""
    from schedlang.frontend import from_onnx
    from schedlang.networks.entry import network
    from schedlang.networks.saving import check_folder
    from schedlang.target import Target, or_emulator

    target = or_emulator(Target.of(chosen.target))
    if not target.facts.saved:
        raise NetworkError(
            explain(
                f"--target {chosen.target}", "a folder is for a CPU or a GPU", "Choose cpu or cuda."
            )
        )
    seconds = None if chosen.tune is None else seconds_of(chosen.tune)
    shapes = shapes_of(chosen.shape)
    name = identifier(Path(chosen.model).stem) if chosen.name is None else chosen.name
    check_name(name, "a network (--name)")
    # fail now, not after the search, if the folder cannot be written
    check_folder(chosen.out)
    try:
        model = from_onnx(chosen.model, shapes=shapes or None)
    except FrontendError as error:
        if "shapes=" not in str(error):
            raise
        raise FrontendError(
            f"{error}\n  On the command line: --shape NAME=N for a dimension; --shape X=1,64 for "
            "the whole shape of the input X, or --shape X=64, if X has one dimension."
        ) from None
    print(f"imported {model}")
    net = network(model, target=target, name=name, database=chosen.database)
    print(str(net.partition).partition(",")[0])
    if seconds is not None:
        print(net.tune(timeout=seconds))
    print(compile_module(net.module))
    if net.module.data.plan is not None:
        print(str(net.memory).splitlines()[0])
    folder = net.save(chosen.out)
    print(f"the network: {folder}")
    return 0


def compile_module(module: NetworkModule) -> str:
    """Compile the module, and return a sentence about its machine code."""
    kernels = len({call.function for call in module.calls})
    try:
        module.compile()
    except MissingExtraError as error:
        # the folder is written nevertheless: the machine with the GPU compiles it
        return f"not compiled: {first_line(error)}"
    if module.data.device is None:
        return f"compiled {kernels} kernels"
    resources = module.resources.values()
    spilled = sum(r.spill_bytes for r in resources)
    most = max((r.registers for r in resources), default=0)
    return (
        f"compiled {len(resources)} kernels for {module.target.arch}: at most {most} registers a "
        f"thread, {spilled} bytes spilled"
    )


def seconds_of(text: str) -> float:
    """Return the seconds of a time such as ``90s``, ``30m``, ``1.5h`` or ``600``.

    >>> seconds_of("30m"), seconds_of("1min"), seconds_of("1.5h"), seconds_of("20")
    (1800.0, 60.0, 5400.0, 20.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|min|h|)", text.strip())
    if match is None:
        raise TuningError(
            explain(f"--tune {text}", "this is not a time", "Give a number with s, m or h: 30m.")
        )
    return float(match[1]) * UNITS[match[2]]


def identifier(text: str) -> str:
    """Return ``text`` as the name of a function.

    >>> identifier("resnet50-v1.5"), identifier("7zip"), identifier("lambda")
    ('resnet50_v1_5', 'network_7zip', 'lambda_')
    """
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    name = name if name[:1].isalpha() else f"network_{name}".rstrip("_")
    return f"{name}_" if keyword.iskeyword(name) else name


def shapes_of(given: Sequence[str]) -> dict[str, Any]:
    """Return ``shapes=`` for the importer: an extent for each dimension, a shape for each input.

    Equal names of sizes are one size.

    >>> shapes_of(["batch=2", "x=3,", "a=n", "b=n,n"])
    {'batch': 2, 'x': (3,), 'a': n, 'b': (n, n)}
    """
    shapes: dict[str, Any] = {}
    sizes: dict[str, Var] = {}
    for text in given:
        name, _, value = text.partition("=")
        parts = [part.strip() for part in value.split(",")]
        whole = len(parts) > 1
        if whole and not parts[-1]:
            # as in a tuple of Python
            parts.pop()
        if not name or not all(part.isdecimal() or part.isidentifier() for part in parts):
            raise NetworkError(
                explain(
                    f"--shape {text}",
                    "this is neither a dimension nor the shape of an input",
                    "Give a number, --shape batch=1, the name of a size, --shape batch=n, or all "
                    "dimensions of an input, --shape X=1,64 or --shape X=64,.",
                )
            )
        if name in shapes:
            raise NetworkError(
                explain(f"--shape {text}", f"{name} is given twice", "Give each name once.")
            )
        for part in parts:
            if not part.isdecimal() and part not in sizes:
                sizes[part] = var(part)
        shape = tuple(int(part) if part.isdecimal() else sizes[part] for part in parts)
        shapes[name] = shape if whole else shape[0]
    return shapes


__all__ = ["add_compile", "identifier", "run_compile", "seconds_of", "shapes_of"]
