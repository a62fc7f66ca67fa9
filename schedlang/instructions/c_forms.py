"""The forms of an instruction for ``target="c"``: a function of C, or statements of C."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from schedlang.errors import ComputeError, ComputeTypeError, explain, text_of
from schedlang.instructions.emission import check_order, in_order

if TYPE_CHECKING:
    from schedlang.instructions.declaration import Instruction

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_HEADER = re.compile(r"[A-Za-z0-9_./+-]*", re.ASCII)


class Variable(NamedTuple):
    """A variable of C that holds the operand in ``parameter``, as the C type ``kind``."""

    parameter: str
    name: str
    kind: str


@dataclass(frozen=True)
class CFunction:
    """A function of C, such as ``_mm512_dpbusd_epi32``, with its header and its operands' types.

    A builtin of the compiler has the header ``""``. ``types`` are the names of C's types that the
    operands are cast to, in the order of the function. ``order`` has, for each of them, the number
    of the operand of the instruction, from 0; by default they are in the same order.
    """

    name: str
    header: str
    types: tuple[str, ...]
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ComputeError(f"{self.name!r} is not the name of a function of C")
        if not isinstance(self.types, (tuple, list)):
            raise ComputeError(
                f"{self.name}: the types of its operands are {self.types!r}; give a tuple of them"
            )
        _check_c(self.header, *self.types)
        check_order(self.name, self.order, len(self.types))

    @property
    def arity(self) -> int:
        """The number of operands."""
        return len(self.types)

    def variables(self, declared: Instruction) -> list[Variable]:
        """Return the variables that hold the operands, in their order."""
        positions = in_order(self, range(len(self.types)))
        return [
            Variable(f"a{k}", f"a{k}_", self.types[positions.index(k)])
            for k in range(len(self.types))
        ]

    def statements(self, declared: Instruction, result: str) -> list[str]:
        """Return the end of a function that returns a ``result`` of what the variables hold."""
        names = in_order(self, [variable.name for variable in self.variables(declared)])
        return [f"return ({result}){self.name}({', '.join(names)});"]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.types)})"


@dataclass(init=False, unsafe_hash=True)
class CSnippet:
    """Statements of C on variables that have the names of the operands and of the result.

    ``types`` maps each name in the declaration to the C type of its variable. The statements set
    the variable of the result, which holds the earlier value if the declaration is a sum, as in
    ``"c = _mm256_add_epi32(c, _mm256_madd_epi16(a, b));"``. ``header`` is what they need, such as
    ``"immintrin.h"``.

    Raise :class:`~schedlang.errors.ComputeError` for what is not the name of a type or of a header,
    and :class:`~schedlang.errors.ComputeTypeError` for another text or other types.

    >>> str(CSnippet("c += a * b;", {"c": "float", "a": "float", "b": "float"}))
    "'c += a * b;'"
    """

    text: str
    types: tuple[tuple[str, str], ...]
    header: str

    def __init__(self, text: str, types: Mapping[str, str], header: str = "") -> None:
        if not isinstance(text, str) or not text.strip():
            raise ComputeTypeError(
                f"CSnippet({text_of(text)}): give statements of C, such as "
                '"c = _mm256_add_epi32(c, a);"'
            )
        if not isinstance(types, Mapping):
            raise ComputeTypeError(
                f"the snippet {text!r}: types={text_of(types)} does not map the names of the "
                'operands and of the result to types of C; write {"c": "__m256i", "a": ...}'
            )
        _check_c(header, *types.values())
        self.text = text
        self.types = tuple(types.items())
        self.header = header

    def check(self, asked: str, declared: Instruction) -> None:
        """Raise :class:`~schedlang.errors.ComputeError` for other names than the declaration's."""
        output = declared.output.name
        wanted, given = [output, *(t.name for t in declared.operands)], [n for n, _ in self.types]
        listed = ", ".join(wanted)
        if len({*wanted}) < len(wanted):
            why = f"two of its arrays have one name: {listed}"
            raise ComputeError(explain(asked, why, "Name each of them by name=."))
        if unknown := [name for name in given if name not in wanted]:
            why = f"the snippet has a type for {unknown[0]}, and the names are {listed}"
            raise ComputeError(explain(asked, why, "Give types= the names in the declaration."))
        if lacking := [name for name in wanted if name not in given]:
            why = f"the snippet has no type for {lacking[0]}"
            raise ComputeError(explain(asked, why, f"Give types= the C type of each of {listed}."))
        if bad := [name for name in wanted if not _NAME.fullmatch(name)]:
            why = f"{bad[0]} is not the name of a variable of C"
            raise ComputeError(explain(asked, why, "Give it another name by name=."))
        if not re.search(rf"(?<!\w){output}(?!\w)", self.text):
            why = f"the snippet {self.text.strip()!r} does not set {output}"
            raise ComputeError(explain(asked, why, f"Write statements such as `{output} = ...;`."))

    def variables(self, declared: Instruction) -> list[Variable]:
        """Return the variables that hold the operands, in their order."""
        names = [t.name for t in (declared.output,) * declared.accumulates + declared.operands]
        return [Variable(f"sl_{name}", name, dict(self.types)[name]) for name in names]

    def statements(self, declared: Instruction, result: str) -> list[str]:
        """Return the end of a function that returns a ``result`` of what the variables hold."""
        name = declared.output.name
        own = [] if declared.accumulates else [f"{dict(self.types)[name]} {name};"]
        lines = textwrap.dedent(self.text).strip().splitlines()
        return [*own, *lines, f"return ({result}){name};"]

    def __str__(self) -> str:
        return repr(self.text.strip())


def _check_c(header: str, *types: str) -> None:
    """Raise :class:`~schedlang.errors.ComputeError` for what cannot be names of C's."""
    if not isinstance(header, str) or not _HEADER.fullmatch(header):
        raise ComputeError(f"{header!r} is not the name of a header of C")
    for name in types:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ComputeError(f"{name!r} is not the name of a type of C")
