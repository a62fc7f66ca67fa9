"""Names and schemas of operators in ``torch.library``."""

from __future__ import annotations

from collections.abc import Sequence
from keyword import iskeyword
from typing import Any

from schedlang.torch.functions import Argument, Function


def is_registered(name: str) -> bool:
    """Return whether PyTorch has an operator of this name, such as ``"aten::add"``."""
    import torch

    namespace, _, own = name.partition("::")
    return hasattr(getattr(torch.ops, namespace), own)


def operator_named(name: str) -> Any:
    """Return the registered operator of a name."""
    import torch

    namespace, _, own = name.partition("::")
    return getattr(getattr(torch.ops, namespace), own).default


def schema_of(function: Function) -> str:
    """Return the schema of a function's operator."""
    tensors = ", ".join(["Tensor"] * function.count)
    results = tensors if function.count == 1 else f"({tensors})"
    return f"({declared(function.arguments)}) -> {results}"


def declared(arguments: Sequence[Argument]) -> str:
    """Return the arguments of a schema, under names that it can have.

    >>> declared([Argument("A.T", "Tensor"), Argument("A_T", "float"), Argument("in", "int")])
    'Tensor A_T, float A_T_, int x_in'
    """
    names: list[str] = []
    for argument in arguments:
        plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in argument.name)
        plain = plain if plain[:1].isalpha() and not iskeyword(plain) else f"x_{plain}"
        while plain in names:
            plain += "_"
        names.append(plain)
    return ", ".join(f"{a.type} {name}" for a, name in zip(arguments, names))
