"""The docstring of a saved network's file: how to call it, and what it takes and returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import indent

from schedlang.codegen.network_file import printable
from schedlang.ir.array_rules import rules_for
from schedlang.machine.identifiers import Names
from schedlang.networks.data import ModuleData
from schedlang.runtime.parameters import Parameter, Signature

_COMPILES = (
    "The first call compiles all kernels, which may take minutes. numba keeps the machine code in\n"
    "__pycache__ beside this file, or in NUMBA_CACHE_DIR, so that later processes start at once."
)
_COMPILES_FOR_GPU = "The first call of each process compiles all kernels, which may take minutes."


def usage(data: ModuleData, weights: str, functions: Iterable[str] = ()) -> str:
    """Return the docstring of the file of a network, whose weights are in the file ``weights``.

    ``functions`` are the labels of the users' functions, which a load takes.
    """
    signature, on_gpu = data.signature, data.device is not None
    needed = ["numba-cuda"] * on_gpu + ["numba"]
    dtypes = [*(p.dtype for p in signature.parameters), *(p.dtype for p in data.storage.params)]
    needed += ["ml_dtypes"] * ("bfloat16" in dtypes)
    needs = f"{', '.join(needed)} and NumPy"
    sizes = ", ".join(signature.sizes)
    note = f"sizes ({sizes}) are read from the arrays of each call" if sizes else ""
    numbers = any(not p.shape for p in signature.inputs)
    kept = ", ".join(rule.kept for rule in rules_for(written=False))
    takes = f"{kept} arrays{' and numbers' * numbers} of NumPy{', or on the GPU' * on_gpu}"
    paragraphs = [
        f"The network {printable(data.public)}, as schedlang wrote it. It needs {needs} alone.",
        f"In this folder:\n\n{indent(_example(data, weights), '    ')}",
        f"It takes, in this order, {takes}{f'; {note}' if note else ''}:\n\n"
        f"{_listed(signature.inputs)}",
        f"It returns new arrays{_tuple(signature.outputs)}, or writes those that are given behind "
        f"the inputs{_or_by_out(signature)}:\n\n{_listed(signature.outputs)}",
        _COMPILES_FOR_GPU if on_gpu else _COMPILES,
        f"schedlang.load({_load(functions)}) makes a network of this folder again.",
    ]
    return '"""' + "\n\n".join(paragraphs) + '\n"""\n\n'


def _load(functions: Iterable[str]) -> str:
    """Return the arguments that load the folder."""
    given = ", ".join(f'"{label}": {label}' for label in map(printable, dict.fromkeys(functions)))
    return f"folder, functions={{{given}}}" if given else "folder"


def _example(data: ModuleData, weights: str) -> str:
    """Return code that loads the weights and calls the network."""
    names = Names(["network", "params", "memory"])
    args, setup = (
        [names.fresh(p.name) for p in of] for of in (data.signature.inputs, data.signature.outputs)
    )
    lines = ["import network", ""]
    load = f'np.load("{weights}")'
    if data.device is not None:
        given = load if data.storage.params else ""
        lines.append(f"memory = network.memory_of({given})  # one for each call that runs at once")
        args.append("memory=memory")
    elif data.storage.params:
        lines.append(f"params = network.pack({load})")
        args.append("params=params")
    if load in "".join(lines):
        lines.insert(0, "import numpy as np")
    return "\n".join([*lines, f"{', '.join(setup)} = network.{data.public}({', '.join(args)})"])


def _listed(parameters: Sequence[Parameter]) -> str:
    return "\n".join(f"    {printable(str(p))}" for p in parameters) or "    nothing"


def _or_by_out(signature: Signature) -> str:
    """Return that outputs may be given by ``out=``, unless that is the name of an argument."""
    if any(p.name == "out" for p in signature.parameters):
        return ""
    return f", or as out={', a tuple' * (len(signature.outputs) > 1)}"


def _tuple(outputs: Sequence[Parameter]) -> str:
    return " in a tuple" if len(outputs) > 1 else ""
