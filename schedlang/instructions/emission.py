"""The forms of an instruction for a target: a function of LLVM's or in memory, assembly, PTX."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from schedlang.errors import ComputeError

if TYPE_CHECKING:
    from schedlang.instructions.declaration import Emission, Instruction

T = TypeVar("T")

# LLVM's names of the types of vectors and scalars, such as i32x16 and f32
_TYPE = re.compile(r"(i8|i16|i32|i64|f16|f32|f64)(?:x([1-9][0-9]{0,2}))?", re.ASCII)
_NAME = re.compile(r"llvm(\.[A-Za-z0-9_]+)+", re.ASCII)
# $0, $1, ..., which assembly may write as ${1:k}; $$ is a dollar
_PLACEHOLDER = re.compile(r"\$(?:\$|([0-9]+)|\{([0-9]+)(?::\w+)?\})", re.ASCII)
LLVM_TYPES = {
    "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16", "int32": "i32", "uint32": "i32",
    "int64": "i64", "uint64": "i64", "float32": "f32", "float64": "f64",
}  # fmt: skip
BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "f32": 32, "f64": 64}


@dataclass(frozen=True)
class Call:
    """The call that stands for an instruction in a file: of an intrinsic of ours, or a function.

    The intrinsic ``name`` takes ``texts``, then the operands as a tuple. A function takes the
    operands, and the file has its ``definition``, which ``calls`` intrinsics.
    """

    name: str
    texts: tuple[str, ...] = ()
    definition: str = ""
    calls: tuple[str, ...] = ()

    def text(self, operands: str, count: int) -> str:
        """Return the call with the text of ``count`` operands."""
        if self.definition:
            return f"{self.name}({operands})"
        literals = ", ".join(json.dumps(text) for text in self.texts)
        return f"{self.name}({literals}, ({operands}{',' * (count == 1)}))"


@dataclass(frozen=True)
class Intrinsic:
    """A function of LLVM's: its name, and the types of its operands, such as ``"i32x16"``.

    An operand of the instruction has the bits of the type of LLVM's operand, or a part of them,
    which is then repeated in all of it. ``order`` has, for each operand of LLVM's, the number of
    the one of the instruction, from 0; by default they are in the same order.
    """

    name: str
    operands: tuple[str, ...]
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ComputeError(
                f"{self.name!r} is not the name of a function of LLVM's; it is written as in "
                '"llvm.x86.avx512.vpdpbusd.512"'
            )
        check_types(self.name, self.operands)
        check_order(self.name, self.order, len(self.operands))

    @property
    def arity(self) -> int:
        """The number of operands."""
        return len(self.operands)

    def call(self, declared: Instruction) -> Call:
        """Return the call of an intrinsic of ours, ``instruct``."""
        operands = ", ".join(self.operands)
        return Call("instruct", (f"{_result(declared)} {self.name}({operands})",))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.operands)})"


@dataclass(frozen=True)
class Assembly:
    """Inline assembly, with LLVM's constraints and the types of the operands.

    It is in AT&T's order for x86, and PTX for ``"cuda"``. ``$0`` is the result and ``$1``, ``$2``,
    ... are the operands. The first constraint is the one of the result: ``"=v,0,v,v"`` updates the
    first operand. PTX has ``r`` for 32 bits, ``l`` for 64, ``h`` for 16, ``f`` and ``d`` for
    floats, as in ``"=r,r,r,r"``.
    """

    text: str
    constraints: str
    operands: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise ComputeError("the assembly of an instruction is a text, such as "
                               '"vpdpbusd $3, $2, $0"')  # fmt: skip
        if not isinstance(self.constraints, str) or not self.constraints.startswith("="):
            raise ComputeError(
                f"the constraints {self.constraints!r} do not begin with the result's, as "
                '"=v,0,v,v" does'
            )
        check_types("the assembly", self.operands)
        expected = 1 + len(self.operands)
        given = [c for c in self.constraints.split(",") if not c.startswith("~")]
        if len(given) != expected:
            raise ComputeError(
                f"the constraints {self.constraints!r} are for {len(given)} values; give one for "
                f"the result and one for each of {len(self.operands)} operands"
            )
        for placeholder in _PLACEHOLDER.finditer(self.text):
            number = int(placeholder[1] or placeholder[2] or 0)
            if number > len(self.operands):
                raise ComputeError(
                    f"the assembly {self.text!r} has {placeholder[0]}, and there are "
                    f"{len(self.operands)} operands: $0 is the result, and $1 to "
                    f"${len(self.operands)} are the operands"
                )

    @property
    def arity(self) -> int:
        """The number of operands."""
        return len(self.operands)

    def call(self, declared: Instruction) -> Call:
        """Return the call of an intrinsic of ours, ``assemble``."""
        signature = f"{_result(declared)} ({', '.join(self.operands)})"
        return Call("assemble", (self.text, self.constraints, signature))

    def __str__(self) -> str:
        return f"{self.text!r} with the constraints {self.constraints!r}"


@dataclass(frozen=True)
class MemoryFunction:
    """A function that computes the instruction in memory, on arrays with strides of their own.

    ``call`` is one of the functions that :func:`schedlang.extern` takes; the text of C source
    defines a function of the instruction's name, which takes short floats as ``uint16_t``. It gets
    the operands in the order in which the declaration reads them, then the result, which it updates
    if the declaration is a sum. ``strides`` has, for each of them, the distances between elements
    that it needs along each dimension, where ``None`` is any; without it, any will do. A ``whole``
    function computes all terms of a sum at once, so that no loop over others is around it.
    ``cycles`` of a call are what estimates count; without them, they count the loops that the
    function replaces.
    """

    call: Any
    strides: tuple[tuple[int | None, ...], ...] = ()
    whole: bool = False
    cycles: float = 0.0

    def check(self, declared: Instruction) -> None:
        """Raise a :class:`~schedlang.errors.SchedlangError` for what cannot be called so."""
        self.function(declared, ())

    def function(self, declared: Instruction, imported: Sequence[tuple[str, str]]) -> Any:
        """Return the function that a kernel calls; ``imported`` are pragmas that bring code."""
        # functions of users stand above instructions, so that they are loaded by name
        functions = import_module("schedlang.externs.functions")
        return functions.function_of(
            self.call, declared.name, declared.operands, (declared.output,)
        )

    def __str__(self) -> str:
        return str(getattr(self.call, "__name__", "C source"))


def is_number(value: Any) -> bool:
    """Return whether a value is a number of Python's, and no truth value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def are_strides(strides: Any, ranks: Sequence[int]) -> bool:
    """Return whether ``strides`` has a number or ``None`` for each dimension of each array."""
    return (
        isinstance(strides, (tuple, list))
        and all(isinstance(each, (tuple, list)) for each in strides)
        and [*map(len, strides)] == [*ranks]
        and all(n is None or type(n) is int for each in strides for n in each)
    )


def check_types(owner: str, types: tuple[str, ...]) -> None:
    """Raise :class:`~schedlang.errors.ComputeError` for what is not a type of LLVM's."""
    if not isinstance(types, (tuple, list)):
        raise ComputeError(
            f"{owner}: the types of its operands are {types!r}; give a tuple of them"
        )
    for name in types:
        if not isinstance(name, str) or not _TYPE.fullmatch(name):
            raise ComputeError(
                f"{owner}: {name!r} is not a type of an operand; write one of {', '.join(BITS)}, "
                'with "x16" for 16 lanes'
            )


def check_order(owner: str, order: tuple[int, ...], count: int) -> None:
    """Raise :class:`~schedlang.errors.ComputeError` for an order that leaves operands out."""
    listed = isinstance(order, (tuple, list)) and len(order) in (0, count)
    if not listed or (order and sorted(map(repr, order)) != sorted(map(repr, range(count)))):
        raise ComputeError(
            f"{owner}: order={order!r} does not name each of {count} operands once; give their "
            "numbers, from 0"
        )


def in_order(emission: Emission, values: Sequence[T]) -> tuple[T, ...]:
    """Return what stands for the operands of an instruction in the order of its emission."""
    return tuple(values[k] for k in getattr(emission, "order", ()) or range(len(values)))


def lanes_and_bits(name: str) -> tuple[str, int, int]:
    """Return the scalar type of LLVM's in ``name``, its lanes (0 for a scalar) and all its bits."""
    match = _TYPE.fullmatch(name)
    assert match is not None
    scalar, lanes = match[1], int(match[2] or 0)
    return scalar, lanes, BITS[scalar] * max(lanes, 1)


def _result(declared: Instruction) -> str:
    """Return LLVM's name of the type of an instruction's result."""
    kind = LLVM_TYPES[declared.output.dtype]
    return f"{kind}x{declared.lanes}" if declared.lanes > 1 else kind
