"""Instructions that a user declares, which have no form in NumPy."""

# the compiled function of the same name has the docstring

from __future__ import annotations

from typing import Any, NoReturn


def instruct(signature: str, operands: tuple[Any, ...]) -> NoReturn:
    raise NotImplementedError(f"{signature} runs only compiled; build for target='python'")


def assemble(
    text: str, constraints: str, signature: str, operands: tuple[Any, ...]
) -> NoReturn:
    raise NotImplementedError(f"{text!r} runs only compiled; build for target='python'")
