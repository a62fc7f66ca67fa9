"""Calls of users' functions on copies with poison around them, which show what they touch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from schedlang.compute.extern_op import LOOPS, ExternFunction
from schedlang.errors import VerifyError, explain

# bytes that are around inputs, in memory that no call may touch, in two runs; those around outputs
# differ, as a function may copy from beyond an input to beyond an output
POISONS = (0xA5, 0x5A)
# elements around a box in each dimension, and at least as many around a packed one
_BORDER = 16
# the most elements around a packed box
_MOST = 1 << 20


def run_in_poison(
    title: str, function: ExternFunction, inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray], names: Sequence[str], packed: Sequence[bool],
    where: str = "", poison: int = POISONS[0],
) -> list[np.ndarray]:  # fmt: skip
    """Call ``function`` on copies of its arrays; return its outputs.

    Loops that a program wrote by hand get the arrays: the verifier knows what these touch.
    ``packed`` says which arrays have no gaps between their rows, and ``where`` names the box in
    messages. Raises :class:`~schedlang.errors.VerifyError`, which ``title`` begins, if it changes
    an input or what is around an array.
    """
    if function.kind == LOOPS:
        function.run(*inputs, *outputs)
        return [*outputs]
    around = [poison] * len(inputs) + [poison ^ 0xFF] * len(outputs)
    arrays = [_surrounded(*each) for each in zip((*inputs, *outputs), packed, around)]
    before = [bits(array).copy() for array, _ in arrays[: len(inputs)]]
    function.run(*(array for array, _ in arrays))
    for name, (array, _), own in zip(names, arrays, before):
        if (bits(array) != own).any():
            fail(title, f"it changes its input {name}", "Write the outputs alone.")
    for name, (_, is_intact) in zip(names, arrays):
        if not is_intact():
            fail(
                title,
                f"{where}{', ' * bool(where)}it writes outside of the box of {name}",
                "Write as many elements as its arrays have: their shape says it.",
            )
    return [array.copy() for array, _ in arrays[len(inputs) :]]


def filled(shape: tuple[int, ...], dtype: Any, poison: int) -> np.ndarray:
    """Return an array whose bytes are poison; a bool is true or false."""
    if np.dtype(dtype) == bool:
        return np.full(shape, bool(poison & 1))
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[...] = poison
    return array


def bits(array: np.ndarray) -> np.ndarray:
    """Return an array as unsigned integers, by which NaNs compare equal."""
    return np.ascontiguousarray(array).view(f"u{min(array.itemsize, 8)}")


def fail(title: str, why: str, hint: str) -> NoReturn:
    """Raise that a function does what no stage may do."""
    raise VerifyError(explain(title, why, hint))


def _surrounded(
    values: np.ndarray, packed: bool, poison: int
) -> tuple[np.ndarray, Callable[[], bool]]:
    """Return ``values`` in the middle of poison, and whether the poison is still there."""
    extents = (values.size,) if packed else values.shape
    # a packed array has room for a whole array on both sides, so that nothing else is hit
    border = _BORDER + min(values.size, _MOST) * packed
    memory = filled(tuple(n + 2 * border for n in extents), values.dtype, poison)
    area = tuple(slice(border, n + border) for n in extents)
    memory[area] = values.reshape(extents)
    before = memory.copy()

    def is_intact() -> bool:
        now = memory.copy()
        now[area] = before[area]
        return bool((bits(now) == bits(before)).all())

    return memory[area].reshape(values.shape), is_intact


__all__ = ["POISONS", "bits", "fail", "filled", "run_in_poison"]
