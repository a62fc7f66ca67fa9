"""The rules for the arrays of a call: one row for each rule about their memory.

Checks before a call, the fast paths that need no message, and the text of saved files derive from
these rows. An array has the dtype and the shape of its parameter, and an output is apart from all
other arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import numpy as np


@dataclass(frozen=True)
class ArrayRule:
    """A rule for the memory of each array, or of those that are ``written`` alone.

    ``flag`` is its name in ``ndarray.flags``, ``bit`` its bit by NumPy's C API, ``there`` the text
    of the test of an array of numba.cuda, and ``interface`` the test of a
    ``__cuda_array_interface__``, where there are such. An array that keeps the rule is ``kept``,
    one that breaks it ``broken``; ``shown`` is an attribute that tells more. ``fix`` says what to
    pass instead, ``fix_output`` what to pass as an output, and ``call`` returns the call that
    converts an argument.
    """

    flag: str
    bit: int
    kept: str
    broken: str
    fix: str
    fix_output: str
    written: bool = False
    there: str = ""
    interface: Optional[Callable[[Mapping[str, Any]], bool]] = None
    shown: str = ""
    call: Optional[Callable[[Any, str], str]] = None

    def message(self, value: np.ndarray, given: Any, name: str, written: bool) -> str:
        """Return what is wrong with ``value``, the memory of the argument ``given``."""
        more = f" ({self.shown} {getattr(value, self.shown)})" if self.shown else ""
        fix = self.fix if self.call is None else f"pass {self.call(given, name)}"
        return f"{self.broken}{more}: {self.fix_output if written else fix}"


def _as_contiguous(value: Any, name: str) -> str:
    # a process whose arrays fit imports no tensors
    from schedlang.compute.conversions import as_contiguous

    return as_contiguous(value, name)


RULES = (
    ArrayRule(
        "c_contiguous", 0x1, "contiguous", "strided", "pass a contiguous copy",
        "write into a contiguous array", there="is_c_contiguous()",
        interface=lambda known: known.get("strides") is None, shown="strides", call=_as_contiguous,
    ),
    ArrayRule(
        "writeable", 0x400, "writable", "read-only", "pass a writable array",
        "pass a writable array", written=True, interface=lambda known: not known["data"][1],
    ),
)  # fmt: skip


@dataclass(frozen=True)
class AddressRule:
    """The rule for an array with a tile that an instruction needs at an address.

    The array starts at a multiple of some bytes. ``there`` is the test of NumPy's arrays, true of
    one that starts elsewhere. ``broken``, ``fix`` and ``fix_output`` mean the same as in an
    :class:`ArrayRule`. In all texts, ``UNIT`` stands for the bytes, and ``NAME`` for the array.
    """

    there: str
    broken: str
    fix: str
    fix_output: str

    def message(self, name: str, unit: int, written: bool) -> str:
        """Return what is wrong with the argument ``name``, and what to pass."""
        fix = self.fix_output if written else self.fix
        return _filled(f"{self.broken}: {fix}", name, unit)

    def broken_by(self, value: np.ndarray, unit: int) -> bool:
        """Return whether an array with elements does not start at a multiple of ``unit`` bytes."""
        return unit > 1 and bool(value.size) and value.ctypes.data % unit != 0


def _filled(text: str, name: str, unit: int) -> str:
    return text.replace("NAME", name).replace("UNIT", str(unit))


ADDRESS = AddressRule(
    "value.size and value.ctypes.data % UNIT",
    "not aligned to UNIT bytes, as an instruction needs it",
    "copy it to room[-room.ctypes.data % UNIT:][:NAME.nbytes].view(NAME.dtype).reshape(NAME.shape),"
    ' with room = np.empty(NAME.nbytes + UNIT, "uint8")',
    "leave it out, so that the kernel makes an aligned one, or pass a tensor of torch.empty",
)


class Needed(NamedTuple):
    """The demands on an array: its dtype, its shape unless sizes are in it, its flags.

    It starts at a multiple of ``alignment`` bytes.
    """

    dtype: np.dtype
    shape: Optional[tuple[int, ...]]
    flags: int
    alignment: int = 1


def rules_for(written: bool) -> list[ArrayRule]:
    """Return the rules for an array that is written, or for one that is read alone."""
    return [rule for rule in RULES if written or not rule.written]


def flags_needed(written: bool) -> int:
    """Return the bits of ``ndarray.flags.num`` that an array must have."""
    return sum(rule.bit for rule in rules_for(written))


def broken_rule(missing: int) -> ArrayRule:
    """Return the first rule that is broken by an array without the bits ``missing``."""
    return next(rule for rule in RULES if missing & rule.bit)


def pairs_apart(written: Sequence[bool | None]) -> list[tuple[int, int]]:
    """Return the positions of each output and of each other array, every pair once.

    These may not share memory, but for those that may be one array. ``None`` stands for a scalar.

    >>> pairs_apart([False, None, True, True])
    [(2, 0), (2, 3), (3, 0)]
    """
    return [
        (out, other)
        for out, writes in enumerate(written) if writes
        for other, writes_too in enumerate(written)
        if writes_too is not None and other != out and not (writes_too and other < out)
    ]  # fmt: skip
