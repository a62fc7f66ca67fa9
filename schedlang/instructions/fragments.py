"""Fragments: tiles that the 32 threads of a warp hold together in registers.

An instruction of a whole warp says which thread holds which element of an operand, and in which of
its registers. A :class:`Fragment` is this map as data. :class:`WarpAssembly` multiplies fragments,
and :class:`MatrixLoad` fills one from shared memory. :class:`InParts` and :class:`ElementCopy` are
instructions of larger tiles, such as te's, which no instruction of a GPU computes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Union

import numpy as np

from schedlang.compute.read import Read
from schedlang.errors import ComputeError, ComputeTypeError, explain, text_of
from schedlang.expr.dtypes import itemsize
from schedlang.instructions.emission import Call

if TYPE_CHECKING:
    from schedlang.instructions.declaration import Instruction

# the scope of a fragment, and the threads that share one
FRAGMENT = "fragment"
WARP = 32
# bytes of a register
REGISTER = 4
# a matrix that ldmatrix loads has 8 rows of 16 bytes, and it loads so many
ROW, ROWS, MATRICES = 16, 8, (1, 2, 4)


class Digit(NamedTuple):
    """A part of an index along ``dim``: ``(number // step % size) * scale``.

    The number is the one of a ``"lane"``, a thread of the warp, or of a ``"register"`` in it.
    """

    of: Literal["lane", "register"]
    step: int
    size: int
    dim: int
    scale: int


@dataclass(frozen=True)
class Fragment:
    """The operand ``of`` an instruction of a warp: its ``shape``, and who holds which element.

    The index along each dimension is the sum of its ``digits``. Each element has one holder.

    >>> pairs = Fragment("a", (32, 2), (Digit("lane", 1, 32, 0, 1), Digit("register", 1, 2, 1, 1)))
    >>> pairs.element(lane=5, register=1), pairs.holder((5, 1)), pairs.registers
    ((5, 1), (5, 1), 2)
    """

    of: str
    shape: tuple[int, ...]
    digits: tuple[Digit, ...]

    def __post_init__(self) -> None:
        asked = f"Fragment({self.of!r}, {self.shape})"
        known = isinstance(self.shape, (tuple, list)) and isinstance(self.digits, (tuple, list))
        if not known or not all(type(n) is int and n > 0 for n in self.shape):
            raise ComputeTypeError(
                f"{text_of(self)} has no shape or no digits; give a tuple of numbers from 1 on, "
                "and a tuple of Digit"
            )
        if prod(self.shape) % WARP:
            raise ComputeError(
                f"{asked}: its {prod(self.shape)} elements are not a multiple of {WARP}, and each "
                "thread of a warp holds equally many; give another shape"
            )
        wrong = next((d for d in self.digits if not _is_part(d, len(self.shape))), None)
        if wrong is not None:
            raise ComputeError(
                f"{asked}: {wrong} is not a part of an index; a Digit is of a lane or a register, "
                f"its dim is from 0 to {len(self.shape) - 1}, and the other numbers are from 1 on"
            )
        lanes, registers = np.divmod(np.arange(prod(self.shape)), self.registers)
        places = self.element(lanes, registers)
        inside = all(np.all((p >= 0) & (p < n)) for p, n in zip(places, self.shape))
        held = np.unique(np.ravel_multi_index(places, self.shape)).size if inside else 0
        if held != prod(self.shape):
            raise ComputeError(
                f"{asked}: the digits place {WARP} lanes of {self.registers} registers on {held} "
                f"of {prod(self.shape)} elements; give digits that place each element once"
            )
        if any(np.any(a != b) for a, b in zip(self.holder(places), (lanes, registers))):
            raise ComputeError(
                f"{asked}: two digits have a part of the number of a lane or a register in common; "
                "give each part of it to one digit"
            )

    @property
    def registers(self) -> int:
        """The number of elements that each thread holds."""
        return prod(self.shape) // WARP

    @property
    def adjacent(self) -> int:
        """The number of registers whose elements are next to each other along a dimension."""
        return max((d.size for d in self.digits if (d.of, d.step) == ("register", 1)), default=1)

    def element(self, lane: Any, register: Any) -> tuple[Any, ...]:
        """Return the index of the element that a lane holds in a register.

        The numbers may also be arrays or expressions, as in :meth:`holder`.
        """
        numbers = {"lane": lane, "register": register}
        return tuple(
            _sum(_part(numbers[d.of], d.step, d.size, d.scale) for d in self.digits if d.dim == dim)
            for dim in range(len(self.shape))
        )

    def holder(self, element: Sequence[Any]) -> tuple[Any, Any]:
        """Return the lane and the register that hold the element at an index."""
        lane, register = (
            _sum(_part(element[d.dim], d.scale, d.size, d.step) for d in self.digits if d.of == of)
            for of in ("lane", "register")
        )
        return lane, register


def _is_part(digit: Any, rank: int) -> bool:
    """Return whether ``digit`` is one, of an index of ``rank`` dimensions."""
    return (
        isinstance(digit, Digit)
        and digit.of in ("lane", "register")
        and digit.dim in range(rank)
        and all(type(n) is int and n > 0 for n in (digit.step, digit.size, digit.scale))
    )


def _part(number: Any, divisor: int, size: int, scale: int) -> Any:
    if divisor > 1:
        number = number // divisor
    return number % size if scale == 1 else number % size * scale


def _sum(parts: Any) -> Any:
    # a dimension of one element has no digits
    first, *rest = [*parts] or [0]
    for part in rest:
        first = first + part
    return first


@dataclass(frozen=True)
class WarpAssembly:
    """An instruction of PTX that the 32 threads of a warp execute together on fragments.

    ``mnemonic`` is its name with all qualifiers, such as
    ``"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"``. PTX gives it the registers of the
    result, of the operands in the order of the declaration, and of the result's earlier value.
    ``fragments`` has the result and each operand, in registers of 32 bits.
    """

    # the memory of its operands
    READS: ClassVar[str] = FRAGMENT

    mnemonic: str
    fragments: tuple[Fragment, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.mnemonic, str) or not self.mnemonic.strip():
            raise ComputeError(
                f"{text_of(self.mnemonic)} is not an instruction of PTX; give its name with all "
                'qualifiers, such as "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"'
            )
        given = self.fragments
        if not isinstance(given, (tuple, list)) or not all(isinstance(f, Fragment) for f in given):
            raise ComputeTypeError(
                f"the fragments of {self.mnemonic} are {text_of(given)}; give a tuple with a "
                "Fragment of the result and of each operand"
            )

    @property
    def arity(self) -> int:
        """The number of operands, with the earlier value of the result."""
        return len(self.fragments)

    def fragment(self, name: str) -> Fragment:
        """Return the fragment of an operand or of the result."""
        return next(f for f in self.fragments if f.of == name)

    def call(self, declared: Instruction) -> Call:
        """Return the call of an intrinsic of ours, ``multiply_fragments``."""
        return Call("multiply_fragments", (self.mnemonic,))

    def check(self, asked: str, declared: Instruction) -> None:
        """Raise :class:`~schedlang.errors.ComputeError` if fragments do not fit a declaration."""
        _check_fragments(asked, declared, self)

    def __str__(self) -> str:
        return self.mnemonic


@dataclass(frozen=True)
class MatrixLoad:
    """PTX's ``ldmatrix``: a warp loads 1, 2 or 4 matrices of 8 rows of 16 bytes as a fragment.

    ``fragment`` says who gets which element of the result. A register holds 4 bytes of a row, or,
    where the matrices are ``transposed``, elements of 16 bits from two rows. The declaration reads
    its operand in shared memory by two axes: the last one runs along the rows.

    >>> thread = Digit("lane", 4, 8, 0, 1), Digit("lane", 1, 4, 1, 2)
    >>> matrix = Fragment("c", (8, 8), (*thread, Digit("register", 1, 2, 1, 1)))
    >>> MatrixLoad(matrix).row(3, "float16"), MatrixLoad(matrix, True).row(3, "float16")
    ((12, 0), (1, 1))
    """

    # the memory of its operand
    READS: ClassVar[str] = "shared"

    fragment: Fragment
    transposed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.fragment, Fragment) or type(self.transposed) is not bool:
            raise ComputeTypeError(
                f"MatrixLoad({text_of(self.fragment)}, {text_of(self.transposed)}): give the "
                "Fragment of the result, and whether matrices are transposed"
            )

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The fragment of the result."""
        return (self.fragment,)

    @property
    def arity(self) -> int:
        """The number of operands."""
        return 1

    def orders(self, dtype: str) -> Iterator[Fragment]:
        """Yield the fragment with the matrices in each order: a load may take them in any."""
        each = REGISTER // itemsize(dtype)
        registers = [d for d in self.fragment.digits if d.of == "register" and d.size > 1]
        matrices = [d for d in registers if d.step >= each]
        others = [d for d in self.fragment.digits if d not in matrices]
        for order in permutations(matrices):
            step, digits = each, list[Digit]()
            for digit in order:
                digits.append(digit._replace(step=step))
                step *= digit.size
            yield replace(self.fragment, digits=(*others, *digits))

    def row(self, lane: Any, dtype: str, element: Any = 0) -> tuple[Any, Any]:
        """Return the lane and the register that hold an element of a row.

        ``lane`` is the one that gives the address of the row; the numbers may also be arrays, and
        ``lane`` an expression. Lanes beyond the rows give the rows of the first lanes again.
        """
        each, lanes = REGISTER // itemsize(dtype), WARP // ROWS
        matrix, row = lane // ROWS % (self.fragment.registers // each) * each, lane % ROWS
        if self.transposed:
            return row // each + element * lanes, matrix + lane % each
        return row * lanes + element // each, matrix + element % each

    def call(self, declared: Instruction) -> Call:
        """Return the call of an intrinsic of ours, ``load_matrix``."""
        return Call("load_matrix")

    def check(self, asked: str, declared: Instruction) -> None:
        """Raise :class:`~schedlang.errors.ComputeError` if it does not load a declaration."""
        _check_load(asked, declared, self)

    def __str__(self) -> str:
        return f"ldmatrix{'.trans' * self.transposed}"


@dataclass(frozen=True)
class InParts:
    """A tile that a warp computes in parts, each by the smaller instruction ``part``.

    ``part`` computes what the declaration does, of fewer elements or terms, and its extents divide
    the declared ones; a build refuses another one. A program has uses of ``part`` alone.
    """

    part: Instruction

    @property
    def READS(self) -> str:
        """The memory of its operands."""
        (form,) = (e for e in self.part.emit.values() if isinstance(e, WARP_FORMS))
        return form.READS

    def check(self, asked: str, declared: Instruction) -> None:
        """Accept the declaration: a build compares ``part`` with the loops of each part."""

    def __str__(self) -> str:
        return str(self.part)


@dataclass(frozen=True)
class ElementCopy:
    """A copy between a fragment and memory, in which each thread copies the elements it holds.

    A program has plain loops in its place. ``READS`` is the memory of the operand.
    """

    READS: str

    def check(self, asked: str, declared: Instruction) -> None:
        """Accept the declaration: the loops are compared with it when they are tensorized."""

    def __str__(self) -> str:
        return "copies of elements"


# what all threads of a warp execute together
WARP_FORMS = (WarpAssembly, MatrixLoad, InParts, ElementCopy)
WarpForm = Union[WarpAssembly, MatrixLoad]
# forms in whose place a program has others
Larger = Union[InParts, ElementCopy]


def loads_rows(emission: object) -> bool:
    """Return whether a warp loads rows of shared memory by a form of an instruction."""
    if isinstance(emission, InParts):
        return emission.part.loads_matrices
    return isinstance(emission, MatrixLoad)


def _check_fragments(asked: str, declared: Instruction, emission: WarpAssembly) -> None:
    tensors = (declared.output, *declared.operands)
    shapes = {t.name: tuple(map(int, t.shape)) for t in tensors}
    given = {f.of: f.shape for f in emission.fragments}
    if given != shapes or [*given] != [t.name for t in tensors]:
        raise ComputeError(
            explain(
                asked,
                f"its fragments are {given}, and the declaration has {shapes}",
                "Give a Fragment of the result, then of each operand as it is read.",
            )
        )
    for tensor, fragment in zip(tensors, emission.fragments):
        size = fragment.registers * itemsize(tensor.dtype)
        if size % REGISTER:
            raise ComputeError(
                explain(
                    asked,
                    f"each thread holds {fragment.registers} elements of {tensor.name}, which are "
                    f"{size} bytes, and a register has {REGISTER}",
                    "Give fragments that fill registers.",
                )
            )
    elsewhere = next((t.name for t in tensors if declared.scopes.get(t.name) != FRAGMENT), "")
    if elsewhere:
        why = f"scopes= does not keep {elsewhere} in fragment memory, where the warp holds it"
        raise ComputeError(explain(asked, why, "Leave it out: all operands are fragments."))
    if declared.alignment:
        why = "alignment= is given, and fragments have no addresses"
        raise ComputeError(explain(asked, why, "Leave it out."))
    if not declared.accumulates:
        why = "it does not add to its result, and instructions of a warp do"
        raise ComputeError(explain(asked, why, "Declare a sum."))


def _check_load(asked: str, declared: Instruction, emission: MatrixLoad) -> None:
    output, fragment, body = declared.output, emission.fragment, declared.op.body[0]
    axes = declared.op.axis
    plain = isinstance(body, Read) and sorted(map(id, body.indices)) == sorted(map(id, axes))
    if declared.accumulates or not plain or body.dtype != output.dtype:
        raise ComputeError(
            explain(
                asked,
                f"it computes {body}, and ldmatrix copies elements",
                "Declare a copy, which reads its operand at each axis once.",
            )
        )
    shape = tuple(map(int, output.shape))
    if (fragment.of, fragment.shape) != (output.name, shape):
        raise ComputeError(
            explain(
                asked,
                f"its fragment is of {fragment.of}{[*fragment.shape]}, and the declaration has "
                f"{output.name}{[*shape]}",
                "Give the Fragment of the result.",
            )
        )
    size, count = itemsize(output.dtype), fragment.registers * itemsize(output.dtype) // REGISTER
    if fragment.registers * size not in [n * REGISTER for n in MATRICES]:
        raise ComputeError(
            explain(
                asked,
                f"each thread gets {fragment.registers * size} bytes, and ldmatrix gives it "
                f"{', '.join(str(n * REGISTER) for n in MATRICES)}",
                "Declare a result of 1, 2 or 4 matrices of 128 bytes.",
            )
        )
    if emission.transposed and size != 2:
        raise ComputeError(
            explain(
                asked,
                f"it transposes matrices of {output.dtype}, and ldmatrix elements of 2 bytes",
                "Let rows in shared memory run along the registers of a thread.",
            )
        )
    assert isinstance(body, Read)
    along = next(k for k, axis in enumerate(axes) if axis is body.indices[-1])
    if not _holds_rows(emission, count, size, along, output.dtype):
        raise ComputeError(
            explain(
                asked,
                f"its fragment does not hold rows of {ROW} bytes along dimension {along} as "
                f"{emission} gives them to threads",
                'Source: PTX ISA, "ldmatrix". A row is along the last index of the operand.',
            )
        )
    wanted = {declared.operands[0].name: "shared", output.name: FRAGMENT}
    if dict(declared.scopes) != wanted:
        raise ComputeError(
            explain(asked, f"scopes={dict(declared.scopes)} is not {wanted}", "Leave it out.")
        )
    if declared.alignment:
        why = f"alignment= is given, and rows start at multiples of {ROW} bytes"
        raise ComputeError(explain(asked, why, "Leave it out."))


def _holds_rows(load: MatrixLoad, count: int, size: int, along: int, dtype: str) -> bool:
    """Return whether threads hold the elements of each row as the instruction gives them."""
    row, element = np.indices((ROWS * count, ROW // size))
    start = load.fragment.element(*load.row(row, dtype))
    own = load.fragment.element(*load.row(row, dtype, element))
    return all(
        np.array_equal(at, first + element * (dim == along))
        for dim, (at, first) in enumerate(zip(own, start))
    )
