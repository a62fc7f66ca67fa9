"""Instructions: what they compute, as a tensor over a small tile, and how targets run them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from math import inf, prod
from typing import Any, Union

from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import (
    ComputeError,
    ComputeTypeError,
    SchedlangError,
    explain,
    text_of,
)
from schedlang.expr.dtypes import SHORT_FLOATS, itemsize
from schedlang.expr.names import check_name
from schedlang.host import ALIGNMENTS
from schedlang.instructions.c_forms import CFunction, CSnippet
from schedlang.instructions.emission import (
    LLVM_TYPES,
    Assembly,
    Intrinsic,
    MemoryFunction,
    are_strides,
    in_order,
    is_number,
    lanes_and_bits,
)
from schedlang.instructions.fragments import FRAGMENT, WARP_FORMS, Larger, WarpForm, loads_rows
from schedlang.instructions.python_function import PythonFunction, is_reserved
from schedlang.signatures import public

# what computes an instruction on the values of its operands
ValueEmission = Union[Intrinsic, Assembly, PythonFunction, CFunction, CSnippet, WarpForm]
Emission = Union[ValueEmission, Larger, MemoryFunction]
# an instruction that is a function on arrays in memory, on each target that runs on the CPU
MEMORY = "memory"
# the languages in which an instruction can be written, and what writes it there
LANGUAGES: Mapping[str, tuple[type, ...]] = {
    "llvm": (Intrinsic, Assembly, PythonFunction),
    "c": (CFunction, CSnippet),
    "cuda": (Intrinsic, Assembly, PythonFunction, *WARP_FORMS),
    MEMORY: (MemoryFunction,),
}
# the memories in which an instruction may need its operands
SCOPES = ("global", "shared", "local", FRAGMENT)
# bytes of the longest vector that an operand may be
WIDEST = 64


@dataclass(frozen=True, eq=False)
class Instruction:
    """An instruction of a processor: its ``name``, its ``output`` and what emits it.

    ``output`` is a tensor over placeholders, the operands. One that reduces by a sum adds to its
    result's earlier value, which is then the first operand of what is emitted. ``emit`` has what
    writes it in each language, ``needs`` the processor's features that it needs, by LLVM's names,
    and ``tolerance`` is the largest error of one use relative to the sum of its magnitudes.
    ``scopes`` has the memory in which it needs operands and the result, by their names, and
    ``alignment`` the bytes of which their addresses are multiples.
    """

    name: str
    output: Tensor
    emit: Mapping[str, Emission]
    needs: tuple[str, ...] = ()
    tolerance: float = 0.0
    note: str = field(default="", compare=False)
    scopes: Mapping[str, str] = field(default_factory=dict)
    alignment: Mapping[str, int] = field(default_factory=dict)

    @property
    def op(self) -> ComputeOp:
        op = self.output.op
        assert isinstance(op, ComputeOp)
        return op

    @cached_property
    def operands(self) -> tuple[Tensor, ...]:
        """The inputs, in the order in which the declaration reads them."""
        return tuple(placeholders([self.output]))

    @property
    def accumulates(self) -> bool:
        """True if the result is added to the earlier value of the output."""
        return self.op.reducer is not None

    @property
    def in_memory(self) -> bool:
        """True if only functions on arrays in memory run it, which have no limits of vectors."""
        return [*self.emit] == [MEMORY]

    @property
    def of_warp(self) -> bool:
        """True if the threads of a warp compute it together, on fragments."""
        return any(isinstance(emission, WARP_FORMS) for emission in self.emit.values())

    @property
    def loads_matrices(self) -> bool:
        """True if a warp loads rows of shared memory by it, as a fragment."""
        return any(map(loads_rows, self.emit.values()))

    @property
    def has_strides(self) -> bool:
        """True if its operands may have several axes, with any strides."""
        return self.in_memory or self.of_warp

    @property
    def identifier(self) -> str:
        """The name in emitted files."""
        return self.name.replace(".", "_")

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of functions that emitted files define for it."""
        functions = (e for e in self.emit.values() if isinstance(e, PythonFunction))
        return tuple({function.call(self).name for function in functions})

    @property
    def lanes(self) -> int:
        """The number of elements of the output."""
        return elements(self.output)

    def check(self, samples: int = 200, seed: int = 0, target: str = "") -> Any:
        """Compare what is emitted with the declaration, and return the comparison.

        ``target`` is ``"cpu"``, ``"c"`` or ``"cuda"``, by default the first of them for which the
        instruction has a form. The operands are the smallest and the largest numbers, 0, 1, -1 and
        others at the edges of their dtypes, and random ones; ``samples`` is the number of random
        tiles. Where this machine lacks the instruction, or the GPU, the compiler writes its code
        and nothing runs; the result says so, and its ``error`` is ``nan``. Raise
        :class:`~schedlang.errors.InstructionError` for a lane that differs by more than
        ``tolerance``, with the operands, for what the compiler refuses, for a feature in ``needs``
        that LLVM does not know, and for a target without a form, and
        :class:`~schedlang.errors.CallError` if ``samples`` or ``seed`` is not a whole number of 0
        or more. A function in memory runs on tiles that are packed.

        >>> import schedlang as sl
        >>> result = sl.instructions.vpdpwssd.check(samples=4)
        >>> result.error == 0 or not result.ran
        True
        """
        # kernels stand above instructions, so that they are loaded by name
        return import_module("schedlang.targets.instruction_check").check(
            self, samples, seed, target
        )

    def __reduce__(self) -> Any:
        # the output that is read back has the operands
        given = self.name, self.output, self.emit, self.needs, self.tolerance, self.note
        return Instruction, (*given, self.scopes, self.alignment)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        operands = ", ".join(map(_typed, self.operands))
        return f"<Instruction {self.name}({operands}) -> {_typed(self.output)}>"


def declared_text(declared: Instruction) -> str:
    """Return one line that says what an instruction computes, with shapes and dtypes."""
    op = declared.op
    ranges = [f"{a.name} in 0..{a.extent}" for a in (*op.axis, *op.reduce_axis)]
    how = "+=" if declared.accumulates else "="
    lane = ", ".join(a.name for a in op.axis)
    typed = ", ".join(map(_typed, (*declared.operands, declared.output)))
    return f"{declared.output.name}[{lane}] {how} {op.body[0]} for {', '.join(ranges)}; {typed}"


def _typed(tensor: Tensor) -> str:
    return f"{tensor.name}: {tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def elements(tensor: Tensor) -> int:
    """Return the number of elements of a tensor of constant shape."""
    return prod(int(e) for e in tensor.shape)


@public
def instruction(
    name: str, compute: Tensor, emit: Mapping[str, Emission], needs: str | Sequence[str] = (),
    tolerance: float = 0.0, note: str = "", scopes: Mapping[str, str] | None = None,
    alignment: Mapping[str, int] | None = None,
) -> Instruction:  # fmt: skip
    """Declare an instruction: ``compute`` says what it computes, ``emit`` how a target runs it.

    ``compute`` is a tensor over one data axis, the lanes of the result, and over constant reduction
    axes if it reduces by a sum. It reads placeholders of constant shape: the operands, each with
    its elements one after the other in memory, from the first one that is read to the last.
    ``s[C].tensorize(axis, instruction)`` then replaces the loops of a stage that compute the same.
    The declaration is its meaning everywhere else: in :func:`schedlang.reference`, in
    ``target="python"``, for the verifier and for counters.

    * ``emit`` maps ``"llvm"``, for ``target="cpu"``, and ``"cuda"``, for GPUs, to an
      :class:`~schedlang.instructions.Intrinsic`, an :class:`~schedlang.instructions.Assembly` or a
      :class:`~schedlang.instructions.PythonFunction`, or ``"cuda"`` to a
      :class:`~schedlang.instructions.WarpAssembly` on fragments or a
      :class:`~schedlang.instructions.MatrixLoad`, and ``"c"``, for ``target="c"``, to a
      :class:`~schedlang.instructions.CFunction` or a :class:`~schedlang.instructions.CSnippet`. If
      the declaration is a sum, their first operand is the earlier value of the result, and the
      others follow in the order in which ``compute`` reads them. For ``"cpu"`` and ``"c"``, it maps
      ``"memory"`` to a :class:`~schedlang.instructions.MemoryFunction`: a function of yours on
      arrays in memory. Where it is the only one, the result may have several axes, each dimension
      of an operand is indexed by an axis, and operands may be of any size, with any strides.
    * ``needs``: the features that the processor must have, by LLVM's names, such as
      ``"avx512vnni"``; one of ``"avxvnni or avx512vnni"`` is enough. For a GPU it is the first
      architecture, such as ``"sm_89"``. A build for a processor without them is refused.
    * ``tolerance``: the largest error that :meth:`Instruction.check` accepts of one use, relative
      to the sum of the magnitudes of its terms. It is 0 for an instruction of integers.
    * ``note``: one sentence on what is special, such as its rounding.
    * ``scopes``: the memory in which operands and the result must be, by their names: ``"global"``,
      ``"shared"``, ``"local"`` or ``"fragment"``, as in ``{"b": "local"}``. Others may be anywhere.
      The operands of a ``WarpAssembly`` are fragments; a ``MatrixLoad`` reads shared memory.
    * ``alignment``: the bytes, a power of two up to 64, of which the address of the first element
      of an operand or of the result is a multiple at each use, by their names, as in
      ``{"b": 64}``. Others may begin at any element. ``tensorize`` proves it of the tiles of each
      array, and each call checks it of arguments, on a GPU of those in its memory. Arrays in the
      shared and local memory of a GPU start at multiples of 16 bytes.

    Raise :class:`~schedlang.errors.ComputeError` for a declaration that is not of this form, for
    operands whose bits do not fit what is emitted, or whose last element is not read, and for a
    mistyped architecture of a GPU, such as ``"sm_9O"``.

    >>> import schedlang as sl
    >>> from schedlang.instructions import Intrinsic
    >>> a = sl.placeholder((4,), "uint8", name="a")
    >>> b = sl.placeholder((16, 4), "int8", name="b")
    >>> q = sl.reduce_axis(4, name="q")
    >>> def dot(i):
    ...     return sl.sum(a[q].astype("int32") * b[i, q].astype("int32"), axis=q)
    >>> c = sl.compute((16,), dot, name="c")
    >>> sl.instruction(
    ...     "dot4", c, needs="avx512vnni",
    ...     emit={"llvm": Intrinsic("llvm.x86.avx512.vpdpbusd.512", ("i32x16",) * 3)},
    ... )
    <Instruction dot4(a: uint8[4], b: int8[16, 4]) -> c: int32[16]>
    """
    check_name(name, "an instruction")
    asked = f"sl.instruction({name!r})"
    if not isinstance(compute, Tensor):
        raise ComputeTypeError(
            f"{asked}: what it computes is {text_of(compute)}; give a tensor that sl.compute "
            "returned"
        )
    features = _features(asked, needs)
    _check_tolerance(asked, tolerance, note)
    forms, places = dict(_checked(asked, emit)), {} if scopes is None else scopes
    form = next((form for form in forms.values() if isinstance(form, WARP_FORMS)), None)
    if scopes is None and form is not None:
        places = {**{t.name: form.READS for t in placeholders([compute])}, compute.name: FRAGMENT}
    starts = {} if alignment is None else alignment
    declared = Instruction(name, compute, forms, features, tolerance, note, places, starts)
    _check_declaration(asked, declared)
    _check_scopes(asked, declared)
    _check_alignment(asked, declared)
    for language, emission in declared.emit.items():
        _check_operands(asked, declared, language, emission)
    return declared


def _features(asked: str, needs: Any) -> tuple[str, ...]:
    features = (needs,) if isinstance(needs, str) else needs
    if not isinstance(features, (tuple, list)) or not all(isinstance(f, str) for f in features):
        raise ComputeTypeError(
            f"{asked}: needs={text_of(needs)} is not a list of features of a processor; write "
            'e.g. needs=["avx512vnni"]'
        )
    # only what declares an instruction loads it
    from schedlang.target import DEVICES, EARLIER, mistyped_architecture

    for why in filter(None, map(mistyped_architecture, features)):
        known = ", ".join([*EARLIER, *DEVICES])
        raise ComputeError(explain(asked, why, f"For needs=, give one of {known}."))
    return tuple(features)


def _check_tolerance(asked: str, tolerance: Any, note: Any) -> None:
    if not is_number(tolerance) or not 0 <= tolerance < 1:
        raise ComputeError(
            explain(
                asked,
                f"tolerance={text_of(tolerance)} is not the relative error of one use",
                "Give a number from 0 to 1, such as 2.0**-22.",
            )
        )
    if not isinstance(note, str):
        raise ComputeTypeError(f"{asked}: note={text_of(note)} is not a text; give one sentence")


def _check_scopes(asked: str, declared: Instruction) -> None:
    for name, scope in _by_name(asked, declared, "scopes", "local"):
        if scope not in SCOPES:
            raise ComputeError(
                f"{asked}: scopes= gives {name} the scope {text_of(scope)}; give one of "
                f"{', '.join(SCOPES)}"
            )


def _check_alignment(asked: str, declared: Instruction) -> None:
    for name, count in _by_name(asked, declared, "alignment", WIDEST):
        if type(count) is not int or count not in ALIGNMENTS:
            raise ComputeError(
                f"{asked}: alignment= gives {name} {text_of(count)}; give the bytes, one of "
                f"{', '.join(map(str, ALIGNMENTS))}"
            )


def _by_name(
    asked: str, declared: Instruction, option: str, example: Any
) -> Iterable[tuple[str, Any]]:
    """Return what an option says of operands and of the result, whose names are checked."""
    names = [tensor.name for tensor in (*declared.operands, declared.output)]
    given = getattr(declared, option)
    if not isinstance(given, Mapping):
        what = "which operand is where" if option == "scopes" else "where which operand starts"
        raise ComputeTypeError(
            f"{asked}: {option}={text_of(given)} does not say {what}; write e.g. "
            f'{option}={{"{names[0]}": {json.dumps(example)}}}'
        )
    for name in given:
        if name not in names:
            raise ComputeError(
                f"{asked}: {option}= names {text_of(name)}, and the instruction has "
                f"{', '.join(names)}"
            )
    return given.items()


def _checked(asked: str, emit: Any) -> Mapping[str, Emission]:
    if not isinstance(emit, Mapping) or not emit:
        raise ComputeTypeError(
            f'{asked}: emit= maps "llvm", "c" or "cuda" to what is written there, as in '
            '{"llvm": Intrinsic(...)}'
        )
    for language, emission in emit.items():
        kinds = LANGUAGES.get(language)
        if kinds is None:
            raise ComputeError(
                f"{asked}: there is no language {text_of(language)}; give {' or '.join(LANGUAGES)}"
            )
        if not isinstance(emission, kinds):
            listed = " or ".join(kind.__name__ for kind in kinds)
            raise ComputeTypeError(
                f"{asked}: emit[{language!r}] is {text_of(emission)}; give {listed} of "
                "schedlang.instructions"
            )
    return emit


def _check_declaration(asked: str, declared: Instruction) -> None:
    # only what declares an instruction loads it
    from schedlang.instructions.operand_reads import check_reads

    output, in_memory = declared.output, declared.has_strides
    # C source takes them as their bits; functions of numba and of NumPy have no such arrays
    call = getattr(declared.emit.get(MEMORY), "call", "")
    takes_short = not declared.in_memory or isinstance(call, str)
    op = output.op
    if not isinstance(op, ComputeOp):
        raise ComputeError(f"{asked}: {output.name} is not computed; give what sl.compute returned")
    why = _unsuited(op, in_memory)
    if why:
        raise ComputeError(explain(asked, *why))
    for tensor in (output, *placeholders([output])):
        copies = declared.of_warp and not declared.accumulates
        short = copies or (takes_short and tensor is not output)
        allowed = [*LLVM_TYPES, *(SHORT_FLOATS if short else ())]
        if tensor.dtype not in allowed:
            role = "the result" if tensor is output else "the operand"
            raise ComputeError(
                explain(
                    asked,
                    f"{role} {tensor.name} is {tensor.dtype}, which no instruction takes",
                    f"Use one of {', '.join(allowed)}.",
                )
            )
        if not all(isinstance(e, int) for e in tensor.shape):
            why = f"the shape of {tensor.name} is symbolic", "Give constant extents."
            raise ComputeError(explain(asked, *why))
        if in_memory:
            continue
        size = elements(tensor) * itemsize(tensor.dtype)
        if elements(tensor) & (elements(tensor) - 1) or size > WIDEST:
            raise ComputeError(
                explain(
                    asked,
                    f"{tensor.name} has {elements(tensor)} elements of {tensor.dtype}, which are "
                    f"{size} bytes, and an operand is one vector",
                    f"Give 1, 2, 4, ... elements, of at most {WIDEST} bytes in all.",
                )
            )
    check_reads(asked, op, in_memory)


def _unsuited(op: ComputeOp, in_memory: bool) -> tuple[str, str] | None:
    """Return why an operation cannot be a declaration, and what to write instead."""
    if len(op.axis) != 1 and not in_memory:
        return (
            f"{op.name} has {len(op.axis)} data axes, and the lanes of a vector are one axis",
            "Declare the result over one axis, or give a MemoryFunction alone.",
        )
    if in_memory and not op.axis:
        return f"{op.name} has no axis", "Declare the result over one axis at least."
    if len(op.outputs) != 1 or op.destination is not None or op.where is not None:
        return f"{op.name} is more than one value for each lane", "Give one expression or one sum."
    for axis in op.reduce_axis:
        if axis.bounds is not None or axis.lo != 0 or not isinstance(axis.extent, int):
            lo, hi = axis.dom
            why = f"{axis.name} runs over {lo}..{hi}, and the terms of an instruction are counted"
            return f"{why} from 0, to a number", "Give sl.reduce_axis a number."
    if op.init is not None:
        return f"{op.name} has init=", "Leave it out: the sum is added to the earlier value."
    extents = [axis.extent for axis in (*op.axis, *op.reduce_axis)]
    if all(isinstance(extent, int) and extent == 1 for extent in extents):
        return (
            f"{op.name} has one element of one term, so it has no loop to replace",
            "Declare two elements, or two terms of a sum.",
        )
    if op.reducer is not None and op.reducer.name != "sum":
        return f"{op.name} reduces by {op.reducer.name}", "An instruction may reduce by sl.sum."
    return None


def _check_in_memory(asked: str, declared: Instruction, emission: MemoryFunction) -> None:
    """Refuse strides that are not one for each dimension, and what is not such a function."""
    arrays = (*declared.operands, declared.output)
    ranks = [len(t.shape) for t in arrays]
    if emission.strides and not are_strides(emission.strides, ranks):
        raise ComputeError(
            explain(
                asked,
                f"strides={emission.strides!r} does not fit {', '.join(map(_typed, arrays))}",
                "Give a tuple for each operand and for the result, with a number or None for each "
                "dimension.",
            )
        )
    if not is_number(emission.cycles) or not 0 <= emission.cycles < inf:
        why = f"cycles={text_of(emission.cycles)} is not the time of a call"
        raise ComputeError(explain(asked, why, "Give the cycles of a call, or leave them out."))
    try:
        emission.check(declared)
    except SchedlangError as error:
        why = explain(asked, "its function in memory cannot be made", str(error))
        raise ComputeError(why) from None


def _check_operands(asked: str, declared: Instruction, language: str, emission: Emission) -> None:
    """Refuse an emission with other operands than the declaration."""
    if isinstance(emission, MemoryFunction):
        _check_in_memory(asked, declared, emission)
        return
    if isinstance(emission, (CSnippet, *WARP_FORMS)):
        emission.check(asked, declared)
        return
    given = (declared.output,) * declared.accumulates + declared.operands
    if emission.arity != len(given):
        raise ComputeError(
            explain(
                asked,
                f"emit[{language!r}] has {emission.arity} operands, and the declaration has "
                f"{len(given)}: {', '.join(t.name for t in given)}",
                "The earlier value of a sum comes first, then the inputs as they are read.",
            )
        )
    if isinstance(emission, PythonFunction) and is_reserved(declared.name):
        why = f"emitted files use the name {declared.name}, and the function would hide what it is"
        raise ComputeError(explain(asked, why, "Give the instruction another name."))
    if not isinstance(emission, (Intrinsic, Assembly)):
        return
    wanted, ordered = emission.operands, in_order(emission, given)
    for tensor, name in zip(ordered, wanted):
        own, bits = 8 * itemsize(tensor.dtype) * elements(tensor), lanes_and_bits(name)[2]
        if bits % own:
            raise ComputeError(
                explain(
                    asked,
                    f"{tensor.name} has {own} bits, and {name} has {bits}",
                    "An operand has the bits of its type, or a part of them that is repeated.",
                )
            )
    first = next((k for k, t in enumerate(ordered) if t is declared.output), None)
    result = None if first is None else lanes_and_bits(wanted[first])[2]
    own = 8 * itemsize(declared.output.dtype) * declared.lanes
    if result is not None and result != own:
        raise ComputeError(
            explain(
                asked,
                f"the result {declared.output.name} has {own} bits, and its operand has {result}",
                "The earlier value of the result fills its operand.",
            )
        )
