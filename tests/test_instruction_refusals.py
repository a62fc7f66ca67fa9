"""What is refused of instructions and of the loops that they are to replace, and how it is said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import wraps
from platform import machine
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import instructions
from schedlang.errors import (
    BuildError,
    CallError,
    ComputeError,
    ComputeTypeError,
    InstructionError,
    LoweringError,
    SchedlangError,
    ScheduleError,
)
from schedlang.instructions import (
    Assembly,
    CFunction,
    CSnippet,
    Intrinsic,
    MemoryFunction,
    PythonFunction,
)
from schedlang.intrinsics.cpu import broadcast, fma, instruct, select, vload
from schedlang.runtime.processor import unknown_features
from tests.instructions import fused, packed, runs, scaled_row, tensorized
from tests.marks import compiles, slow_but

LARGE = 2**64
# the types of a snippet for the declaration below
WORDS = {"c": "__m512i", "a": "__m512i", "b": "__m512i"}
VNNI = Intrinsic("llvm.x86.avx512.vpdpbusd.512", ("i32x16",) * 3)


def declared(**changes: Any) -> sl.Instruction:
    """Declare a dot product of bytes, with some arguments changed."""
    given: dict[str, Any] = {"name": "dot", "compute": dot(), "emit": {"llvm": VNNI}}
    return sl.instruction(**{**given, **changes})


def dot(lanes: Any = 16, terms: Any = 4, dtype: str = "int32", **more: Any) -> Any:
    a = sl.placeholder((terms,), "uint8", name="a")
    b = sl.placeholder((lanes, terms), "int8", name="b")
    q = sl.reduce_axis(terms, name="q")

    def element(i: Any) -> Any:
        return sl.sum(a[q].astype(dtype) * b[i, q].astype(dtype), axis=q, **more)

    return sl.compute((lanes,), element, name="c")


def rows(
    shape: Any, function: Any, dtype: str = "float32", extra: Any = (), name: str = "x"
) -> Any:
    x = sl.placeholder((*shape, *extra), dtype, name=name)
    return sl.compute(shape, lambda *i: function(x, *i), name="y")


def maximum() -> Any:
    x = sl.placeholder((8, 4), name="x")
    q = sl.reduce_axis(4, name="q")
    return sl.compute((8,), lambda i: sl.max(x[i, q], axis=q), name="y")


def identity(a: Any) -> Any:
    return a


def dot_of(terms: Any) -> Any:
    b = sl.placeholder((4,), name="b")
    q = sl.reduce_axis(terms, name="q")
    return sl.compute((4,), lambda i: sl.sum(b[i], axis=q), name="c")


def gathered() -> Any:
    x, p = sl.placeholder((4,), name="x"), sl.placeholder((4,), "int32", name="p")
    return sl.compute((4,), lambda i: x[p[i]], name="y")


DECLARATIONS: list[tuple[str, Callable[[], Any], type[SchedlangError], str]] = [
    ("a name that is no identifier", lambda: declared(name="dot product"), ComputeError,
     "'dot product'"),
    ("a keyword", lambda: declared(name="for"), ComputeError, "'for'"),
    ("no tensor", lambda: declared(compute=3), ComputeTypeError,
     "sl.instruction('dot'): what it computes is 3; give a tensor that sl.compute returned"),
    ("an input", lambda: declared(compute=sl.placeholder((4,), name="A")), ComputeError,
     "A is not computed; give what sl.compute returned"),
    ("no emission", lambda: declared(emit={}), ComputeTypeError,
     'emit= maps "llvm", "c" or "cuda" to what'),
    ("no mapping", lambda: declared(emit=VNNI), ComputeTypeError,
     'emit= maps "llvm", "c" or "cuda" to what'),
    ("another language", lambda: declared(emit={"ptx": VNNI}), ComputeError,
     "there is no language 'ptx'; give llvm or c"),
    ("another form", lambda: declared(emit={"c": VNNI}), ComputeTypeError,
     "emit['c'] is llvm.x86.avx512.vpdpbusd.512; give CFunction or CSnippet of schedlang.inst"),
    ("two data axes", lambda: declared(compute=rows((4, 4), lambda x, i, j: x[i, j] + 1)),
     ComputeError, "y has 2 data axes, and the lanes of a vector are one axis"),
    ("one element and no sum", lambda: declared(compute=rows((1,), lambda x, i: x[i] + 1)),
     ComputeError, "y has one element of one term, so it has no loop to replace\n  Decl"),
    ("an initial value", lambda: declared(compute=dot(init=1)), ComputeError,
     "c has init=\n  Leave it out: the sum is added to the earlier value."),
    ("a condition", lambda: declared(compute=rows((4,), lambda x, i: (x[i], x[i] + 1))[0]),
     ComputeError, "is more than one value for each lane\n  Give one expression or one sum."),
    ("a maximum", lambda: declared(compute=maximum()), ComputeError,
     "y reduces by max\n  An instruction may reduce by sl.sum."),
    ("a symbolic shape", lambda: declared(compute=rows((sl.var("n"),), lambda x, i: x[i] + 1)),
     ComputeError, "the shape of y is symbolic\n  Give constant extents."),
    ("an offset", lambda: declared(compute=rows((4,), lambda x, i: x[i, 1] + 1, extra=(2,))),
     ComputeError, "x[i0, 1] begins at another element than the first one of x\n  Index operands"),
    ("elements that are not read",
     lambda: declared(compute=rows((4,), lambda x, i: x[i, 0] + 1, extra=(2,))), ComputeError,
     "it reads the first 7 of 8 elements of x, and an operand is loaded whole, also at the end of "
     "an array\n  Give x the elements that it reads"),
    ("a gather", lambda: declared(compute=gathered()), ComputeError,
     "x[p[i]] is at an index that depends on more than the axes\n  Index operands by the axes"),
    ("a scalar", lambda: declared(compute=rows((4,), lambda x, i: x[i] * sl.var("s", "float32"))),
     ComputeError, "its value depends on s, and an instruction gets the elements of its operands"),
    ("an axis as a value", lambda: declared(compute=rows((4,), lambda x, i: x[i] * i)),
     ComputeError, "its value depends on i0, and an instruction gets the elements of its operands"),
    ("terms from another one on", lambda: declared(compute=dot_of((4, 8))), ComputeError,
     "q runs over 4..8, and the terms of an instruction are counted from 0, to a number\n  Give"),
    ("terms without a number", lambda: declared(compute=dot_of(sl.var("n"))), ComputeError,
     "q runs over 0..n, and the terms of an instruction are counted from 0, to a number\n  Give"),
    ("a tolerance below 0", lambda: declared(tolerance=-1.0), ComputeError,
     "tolerance=-1.0 is not the relative error of one use\n  Give a number from 0 to 1"),
    ("a tolerance that is no number", lambda: declared(tolerance="1"), ComputeError,
     "tolerance='1' is not the relative error of one use"),
    ("features that are no texts", lambda: declared(needs=[512]), ComputeTypeError,
     "needs=[512] is not a list of features of a processor; write e.g."),
    ("a note that is no text", lambda: declared(note=5), ComputeTypeError,
     "note=5 is not a text; give one sentence"),
    ("seven lanes", lambda: declared(compute=rows((7,), lambda x, i: x[i] + 1)), ComputeError,
     "y has 7 elements of float32, which are 28 bytes, and an operand is one vector\n  Give 1, 2,"),
    ("wide lanes", lambda: declared(compute=rows((32,), lambda x, i: x[i] + 1)), ComputeError,
     "y has 32 elements of float32, which are 128 bytes, and an operand is one vector"),
    ("a result of bools", lambda: declared(compute=rows((4,), lambda x, i: x[i] > 1)),
     ComputeError, "the result y is bool, which no instruction takes\n  Use one of int8"),
    ("a result of halves",
     lambda: declared(compute=rows((4,), lambda x, i: x[i] + x[i], "float16")), ComputeError,
     "the result y is float16, which no instruction takes\n  Use one of"),
    ("complex operands",
     lambda: declared(compute=rows((4,), lambda x, i: sl.real(x[i]), "complex64")),
     ComputeError,
     "the operand x is complex64, which no instruction takes"),
    ("few operands", lambda: declared(emit={"llvm": Intrinsic(VNNI.name, ("i32x16",) * 2)}),
     ComputeError, "emit['llvm'] has 2 operands, and the declaration has 3: c, a, b\n  The"),
    ("few types of C", lambda: declared(emit={"c": CFunction("f", "f.h", ("int",))}), ComputeError,
     "emit['c'] has 1 operands, and the declaration has 3: c, a, b"),
    ("other bits",
     lambda: declared(emit={"llvm": Intrinsic(VNNI.name, ("i32x16", "i8", "i32x16"))}),
     ComputeError, "a has 32 bits, and i8 has 8\n  An operand has the bits of its type, or a part"),
    ("a wide earlier value",
     lambda: declared(emit={"llvm": Intrinsic(VNNI.name, ("i64x16", "i32x16", "i32x16"))}),
     ComputeError, "the result c has 512 bits, and its operand has 1024\n  The earlier value"),
    ("not a name of LLVM's", lambda: Intrinsic("vpdpbusd", ("i32",)), ComputeError,
     "'vpdpbusd' is not the name of a function of LLVM's; it is written as in"),
    ("not a type of LLVM's", lambda: Intrinsic("llvm.fma", ("int32",)), ComputeError,
     "llvm.fma: 'int32' is not a type of an operand; write one of i8, i16,"),
    ("types that are no tuple", lambda: Intrinsic("llvm.fma", "f32"), ComputeError,  # type: ignore
     "llvm.fma: the types of its operands are 'f32'; give a tuple of them"),
    ("an order that is no tuple", lambda: Intrinsic("llvm.fma", ("f32",), 1),  # type: ignore
     ComputeError, "llvm.fma: order=1 does not name each of 1 operands once"),
    ("an order that leaves an operand out", lambda: Intrinsic("llvm.fma", ("f32",) * 2, (0, 0)),
     ComputeError, "llvm.fma: order=(0, 0) does not name each of 2 operands once"),
    ("empty assembly", lambda: Assembly(" ", "=v", ()), ComputeError,
     "the assembly of an instruction is a text"),
    ("constraints without a result", lambda: Assembly("nop", "v", ("i32",)), ComputeError,
     "the constraints 'v' do not begin with the result's"),
    ("a placeholder of no operand", lambda: Assembly("add $4, $0", "=v,v", ("i32",)), ComputeError,
     "the assembly 'add $4, $0' has $4, and there are 1 operands: $0 is the result, and $1 to $1"),
    ("an empty snippet", lambda: CSnippet(" ", WORDS), ComputeTypeError,
     "CSnippet(' '): give statements of C, such as"),
    ("types of a snippet without names", lambda: CSnippet("c = a;", ("int", "int")),
     ComputeTypeError, "types=('int', 'int') does not map the names of the operands"),
    ("a snippet of another type", lambda: CSnippet("c = a;", {**WORDS, "c": "int *"}), ComputeError,
     "'int *' is not the name of a type of C"),
    ("a header of a snippet", lambda: CSnippet("c = a;", WORDS, "a>\n#include <b"), ComputeError,
     "is not the name of a header of C"),
    ("a snippet without its result", lambda: declared(emit={"c": CSnippet("cc = a;", WORDS)}),
     ComputeError, "the snippet 'cc = a;' does not set c\n  Write statements such as `c = ...;`."),
    ("an unknown operand", lambda: declared(emit={"c": CSnippet("c = d;", {**WORDS, "d": "int"})}),
     ComputeError, "the snippet has a type for d, and the names are c, a, b"),
    ("an operand without a type", lambda: declared(emit={"c": CSnippet("c = a;", {"c": "int"})}),
     ComputeError, "the snippet has no type for a\n  Give types= the C type of each of c, a, b."),
    ("a name with a dot", lambda: declared(compute=rows((4,), lambda x, i: x[i], name="x.shared"),
     emit={"c": CSnippet("y = 1;", {"y": "int", "x.shared": "int"})}), ComputeError,
     "x.shared is not the name of a variable of C\n  Give it another name by name=."),
    ("two operands of one name", lambda: declared(compute=rows((4,), lambda x, i: x[i], name="y"),
     emit={"c": CSnippet("y = 1;", {"y": "int"})}), ComputeError,
     "two of its arrays have one name: y, y\n  Name each of them by name=."),
    ("few parameters", lambda: declared(emit={"llvm": PythonFunction(identity)}), ComputeError,
     "emit['llvm'] has 1 operands, and the declaration has 3: c, a, b"),
    ("a function of Python for C", lambda: declared(emit={"c": PythonFunction(identity)}),
     ComputeTypeError, "emit['c'] is identity; give CFunction or CSnippet"),
    ("few constraints", lambda: Assembly("nop", "=v,v", ("i32", "i32")), ComputeError,
     "the constraints '=v,v' are for 2 values; give one for the result and one for each of 2"),
    ("not a name of C's", lambda: CFunction("f(); g", "f.h", ()), ComputeError,
     "'f(); g' is not the name of a function of C"),
    ("not a header", lambda: CFunction("f", "f.h>\n#include <g.h", ()), ComputeError,
     "is not the name of a header of C"),
    ("not a type of C's", lambda: CFunction("f", "f.h", ("int *",)), ComputeError,
     "'int *' is not the name of a type of C"),
]  # fmt: skip


@pytest.mark.parametrize("row", DECLARATIONS, ids=[row[0] for row in DECLARATIONS])
def test_a_declaration_is_refused(row: Any) -> None:
    _, declare, kind, message = row
    with pytest.raises(kind, match=_pattern(message)):
        declare()


def _pattern(message: str) -> str:
    return "(?s)" + ".*".join(map(re.escape, message.split("...")))


def product(
    left: str = "uint8", right: str = "int8", result: str = "int32", layout: str = "packed",
    reduce: Any = sl.sum, body: Any = None,
) -> tuple[Any, Any, list[Any]]:  # fmt: skip
    """Return C, its schedule, and the loops from i outwards to k.inner."""
    A = sl.placeholder((6, 24), left, name="A")
    shape = {"packed": (6, 2, 16, 4), "rows": (24, 32), "columns": (32, 24)}[layout]
    B = sl.placeholder(shape, right, name="B")
    k = sl.reduce_axis(24, name="k")
    place = {
        "packed": lambda j: (k // 4, j // 16, j % 16, k % 4),
        "rows": lambda j: (k, j),
        "columns": lambda j: (j, k),
    }[layout]

    def element(i: Any, j: Any) -> Any:
        a, b = A[i, k].astype(result), B[place(j)].astype(result)
        return reduce(body(a, b) if body else a * b, axis=k)

    C = sl.compute((6, 32), element, name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    jo, ji = s[C].split(j, factor=16)
    ko, ki = s[C].split(k, factor=4)
    s[C].reorder(i, jo, ko, ji, ki)
    return C, s, [i, jo, ko, ji, ki]


LOOPS: list[tuple[str, dict[str, Any], str]] = [
    ("another dtype", {"left": "int8"},
     "tensorize(j.inner, vpdpbusd) on stage C: it does not compute what vpdpbusd does: A is int8, "
     "and a is uint8\n  It is c[i] += int32(a[q]) * int32(b[i, q])."),
    ("another dtype and rows", {"left": "int8", "layout": "rows"}, "A is int8, and a is uint8"),
    ("another result", {"result": "int64"},
     "C is int64, and the result of vpdpbusd is int32\n  Compute it in int32, as in"),
    ("another operation", {"body": lambda a, b: a + b},
     "it does not compute what vpdpbusd does: ... is another operation than"),
    ("another reducer", {"reduce": sl.max},
     "the stage reduces by max, and vpdpbusd reduces by sum"),
    ("rows", {"layout": "rows"},
     "B steps by 1 along j.inner and 32 along k.inner, and operand b of vpdpbusd by "
     "4 along j.inner and 1 along k.inner\n  Pack B: cache_read"),
    ("columns", {"layout": "columns"},
     "B steps by 24 along j.inner and 1 along k.inner, and operand b"),
]  # fmt: skip


@pytest.mark.parametrize("row", LOOPS, ids=[row[0] for row in LOOPS])
def test_loops_are_refused(row: Any) -> None:
    _, changes, message = row
    C, s, loops = product(**changes)
    before = str(s), s.to_json()
    with pytest.raises(ScheduleError, match=_pattern(message)):
        s[C].tensorize(loops[3], instructions.vpdpbusd)
    assert (str(s), s.to_json()) == before


def test_a_vectorized_loop_around_an_instruction() -> None:
    C, s, (i, jo, ko, ji, ki) = product()
    s[C].vectorize(i)
    with pytest.raises(
        ScheduleError, match="the instruction at j.inner would be inside the vectorized loop i, and"
    ):
        s[C].tensorize(ji, instructions.vpdpbusd)
    C, s, (i, jo, ko, ji, ki) = product()
    s[C].tensorize(ji, instructions.vpdpbusd)
    with pytest.raises(ScheduleError, match="it has vectors of its own\n  Unroll i instead"):
        s[C].vectorize(i)


def test_other_extents() -> None:
    C, s, (i, jo, ko, ji, ki) = product()
    with pytest.raises(ScheduleError, match="k.outer in 0..6, j.inner in 0..16, k.inner in 0..4, "
                                            "and vpdpbusd has i in 0..16, q in 0..4"):  # fmt: skip
        s[C].tensorize(ko, instructions.vpdpbusd)
    with pytest.raises(ScheduleError, match="and vpdpbusd_256 has i in 0..8, q in 0..4"):
        s[C].tensorize(ji, instructions.vpdpbusd_256)
    s[C].reorder(i, jo, ko, ki, ji)
    with pytest.raises(ScheduleError, match="inwards are j.inner in 0..16, and vpdpbusd has"):
        s[C].tensorize(ji, instructions.vpdpbusd)


def test_a_loop_of_symbolic_extent_inside() -> None:
    terms = sl.var("terms")
    A, B = sl.placeholder((6, terms), name="A"), sl.placeholder((terms, 8), name="B")
    k = sl.reduce_axis(terms, name="k")
    C = sl.compute((6, 8), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    why = "the loops from there inwards are j in 0..8, k in 0..terms, and scaled_row has i in 0..8"
    with pytest.raises(ScheduleError, match=re.escape(why)):
        s[C].tensorize(C.op.axis[1], scaled_row())


def test_loops_of_one_iteration_stand_for_nothing() -> None:
    """They may be inside of the instruction: the loop nest leaves them out."""
    C, s, (*_, ji, ki) = product()
    jii, one = s[C].split(ji, factor=1)
    s[C].reorder(jii, one, ki)
    s[C].tensorize(jii, instructions.vpdpbusd)
    assert "tensorize vpdpbusd j.inner.outer in 0..16" in str(s)


def test_operands_that_are_two_arrays() -> None:
    A, B = (sl.placeholder((8,), name=name) for name in "AB")
    x = sl.placeholder((8,), name="x")
    square = sl.instruction(
        "square", sl.compute((8,), lambda i: x[i] * x[i], name="y"),
        emit={"llvm": Intrinsic("llvm.fabs.v8f32", ("f32x8",))},
    )  # fmt: skip
    C = sl.compute((8,), lambda i: A[i] * B[i], name="C")
    s = sl.schedule(C)
    with pytest.raises(ScheduleError, match="x would be two arrays"):
        s[C].tensorize(C.op.axis[0], square)


def test_annotations_inside() -> None:
    C, s, (*_, ji, ki) = product()
    s[C].unroll(ki)
    with pytest.raises(ScheduleError, match=r"k.inner is already unrolled, and the instruction "
                                            "replaces all loops inside of it"):  # fmt: skip
        s[C].tensorize(ji, instructions.vpdpbusd)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda s, C, jo, ji, ki: s[C].split(ki, factor=2),
         "would replace j.inner, k.inner.outer, k.inner.inner, and it computes j.inner, k.inner"),
        (lambda s, C, jo, ji, ki: s[C].reorder(ki, ji),
         "would replace j.inner, and it computes j.inner, k.inner\n  Take this step before"),
        (lambda s, C, jo, ji, ki: s[C].unroll(ki),
         "replaces all loops inside of it, so that none can be unrolled\n  Annotate loops outside"),
    ],
)  # fmt: skip
def test_a_step_that_changes_the_loops_of_an_instruction(step: Any, why: str) -> None:
    A, B, C = packed(3, 35, 18, "vpdpbusd")
    s = tensorized(C, instructions.vpdpbusd)
    i, jo, ko, ji, ki = s[C].leaf_axes
    before = str(s)
    with pytest.raises(
        ScheduleError, match=f"the instruction vpdpbusd at j.inner {re.escape(why)}"
    ):
        step(s, C, jo, ji, ki)
    assert str(s) == before


def test_tensorized_twice() -> None:
    C, s, (*_, ko, ji, ki) = product()
    s[C].tensorize(ji, instructions.vpdpbusd)
    with pytest.raises(ScheduleError, match="j.inner is already tensorized"):
        s[C].tensorize(ji, instructions.vpdpbusd)
    with pytest.raises(ScheduleError, match="j.inner is already tensorized, and the instruction "
                                            "there replaces all loops"):  # fmt: skip
        s[C].tensorize(ki, instructions.vpdpbusd)
    with pytest.raises(ScheduleError, match="j.inner is already tensorized, and the instruction "
                                            "replaces all loops inside"):  # fmt: skip
        s[C].tensorize(ko, instructions.vpdpbusd)
    with pytest.raises(ScheduleError, match="j.inner is already tensorized"):
        s[C].vectorize(ji)


def test_two_instructions_of_one_name() -> None:
    A, B, D = (sl.placeholder((8,), name=name) for name in "ABD")
    Y = sl.compute((8,), lambda i: A[i] * B[i] + D[i], name="Y")
    Z = sl.compute((8,), lambda i: Y[i] * B[i] + D[i], name="Z")
    s = sl.schedule(Z)
    s[Y].tensorize(Y.op.axis[0], fused())
    with pytest.raises(ScheduleError, match="this schedule has another instruction fused"):
        s[Z].tensorize(Z.op.axis[0], fused())


def test_a_test_inside() -> None:
    C, s, (*_, ji, ki) = product()
    jii, rest = s[C].split(ji, factor=16, tail="guard")
    s[C].set_store_predicate(C.op.axis[1] < 30)
    with pytest.raises(ScheduleError, match="(?s)no part of C computes all elements of vpdpbusd "
                                            "without a test.*Split by factors"):  # fmt: skip
        s[C].tensorize(rest, instructions.vpdpbusd)


def test_terms_that_a_sum_leaves_out() -> None:
    def odd(value: Any, axis: Any) -> Any:
        return sl.sum(value, axis=axis, where=axis % 2 == 1)

    C, s, (*_, ji, _) = product(reduce=odd)
    with pytest.raises(ScheduleError, match="C leaves out terms of its sum, and vpdpbusd adds all "
                                            "of them\n  Add zeros in their place"):  # fmt: skip
        s[C].tensorize(ji, instructions.vpdpbusd)


def test_two_statements_inside() -> None:
    """A stage that moves in later is seen when the schedule is lowered; the print says it."""
    A, B, D = (sl.placeholder((8,), name=name) for name in "ABD")
    P = sl.compute((8,), lambda i: A[i] * 2, name="P")
    Y = sl.compute((8,), lambda i: P[i] * B[i] + D[i], name="Y")
    s = sl.schedule(Y)
    i = Y.op.axis[0]
    s[Y].tensorize(i, fused())
    s[P].compute_at(s[Y], i)
    message = "tensorize(i, fused) on stage Y: i holds 3 statements"
    assert f"# {message}" in str(s)
    with pytest.raises(LoweringError, match=re.escape(message)):
        sl.lower(s, [A, B, D, Y])
    s[P].compute_root()
    assert "#" not in str(s)


def test_a_box_that_is_smaller_than_the_instruction() -> None:
    A, B, D = (sl.placeholder((8,), name=name) for name in "ABD")
    Y = sl.compute((8,), lambda i: A[i] * B[i] + D[i], name="Y")
    Z = sl.compute((8,), lambda i: Y[i] + 1, name="Z")
    for factor in (1, 4):
        s = sl.schedule(Z)
        s[Y].tensorize(Y.op.axis[0], fused())
        s[Y].compute_at(s[Z], s[Z].split(Z.op.axis[0], factor=factor)[0])
        with pytest.raises(LoweringError, match="the box that Y computes there has fewer elements"):
            sl.lower(s, [A, B, D, Z])


@pytest.mark.parametrize("target", ["cuda", "cuda-emulator"])
def test_an_instruction_of_a_cpu_for_a_gpu(target: str) -> None:
    C, s, (i, *_, ji, _) = product()
    s[C].tensorize(ji, instructions.vpdpbusd)
    s[C].bind(i, "blockIdx.x")
    with pytest.raises(BuildError, match=f"vpdpbusd has no form for target='{target}'\n  "
                                         "Give sl.instruction emit={'cuda': ...}."):  # fmt: skip
        sl.build(s, target=target)


@pytest.mark.parametrize("target", ["cuda", "cuda-emulator"])
def test_a_function_in_memory_for_a_gpu(target: str) -> None:
    C, s, (i, *_, ji, _) = product()
    in_memory = sl.instruction("own", dot(), emit={"memory": MemoryFunction(lambda a, b, c: None)})
    s[C].tensorize(ji, in_memory)
    s[C].bind(i, "blockIdx.x")
    with pytest.raises(BuildError, match=f"own has no form for target='{target}'"):
        sl.build(s, target=target)


def test_an_instruction_of_a_later_gpu() -> None:
    later = sl.instruction("later", dot(), needs="sm_89", emit={"cuda": VNNI})
    C, s, (i, *_, ji, _) = product()
    s[C].tensorize(ji, later)
    s[C].bind(i, "blockIdx.x")
    message = (
        "needs sm_89, and the kernel is built for sm_86\n"
        "  Leave out tensorize, or build for sl.Target(\"cuda\", arch='sm_89')"
    )
    with pytest.raises(BuildError, match=re.escape(message)):
        sl.build(s, target=sl.Target("cuda", arch="sm_86"))
    assert sl.build(s, target=sl.Target("cuda", arch="sm_89")) is not None


@pytest.mark.parametrize("arch", ["sm_9O", "sm90", "SM_90", "sm_90b", "sm_", "sm_80 or sm_90"])
def test_a_mistyped_architecture(arch: str) -> None:
    why = f"{arch!r} is not an architecture of NVIDIA's GPUs"
    with pytest.raises(
        ComputeError, match=f"{why}.*\n  For needs=, give one of sm_50, .*sm_61, .*sm_121"
    ):
        sl.instruction("mistyped", dot(), needs=arch, emit={"cuda": VNNI})


def test_an_architecture_whose_code_runs_on_no_later_one() -> None:
    C, s, (i, *_, ji, _) = product()
    s[C].tensorize(ji, sl.instruction("specific", dot(), needs="sm_90a", emit={"cuda": VNNI}))
    s[C].bind(i, "blockIdx.x")
    for arch in ("sm_90", "sm_100"):
        with pytest.raises(BuildError, match=f"needs sm_90a, and .* is built for {arch}"):
            sl.build(s, target=sl.Target("cuda", arch=arch))
    assert sl.build(s, target=sl.Target("cuda", arch="sm_90a")) is not None


def test_a_target_without_the_language() -> None:
    C, s, (*_, ji, _) = product()
    only = sl.instruction("only", dot(), emit={"llvm": VNNI})
    s[C].tensorize(ji, only)
    with pytest.raises(BuildError, match="only has no form for target='c'\n  Give sl.instruction "
                                         "emit={'c': ...}"):  # fmt: skip
        sl.build(s, target="c")


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_a_feature_that_the_processor_lacks(target: str) -> None:
    language = {"cpu": "llvm", "c": "c"}[target]
    lacking = [i for i in instructions.IN_THE_BOX if not runs(i)]
    wanting = next((i for i in lacking if language in i.emit), None)
    if wanting is None:
        pytest.skip("this processor has them all")
    feature = wanting.needs[0]
    lacks = "LLVM does not know for this kind of processor", "this processor lacks"
    why = lacks[not unknown_features([feature])]
    message = f"the instruction needs {feature}, which {why}\n  Leave out tensorize"
    x, y = wanting.op.input_tensors
    lanes, terms = wanting.lanes, int(wanting.op.reduce_axis[0].extent)
    A = sl.placeholder((2, terms), x.dtype, name="A")
    B = sl.placeholder((lanes, terms), y.dtype, name="B")
    k = sl.reduce_axis(terms, name="k")

    def element(i: Any, j: Any) -> Any:
        return sl.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k)

    C = sl.compute((2, lanes), element, name="C")
    s = sl.schedule(C)
    s[C].tensorize(C.op.axis[1], wanting)
    with pytest.raises(BuildError, match=re.escape(message)):
        sl.build(s, [A, B, C], target=target)


def _with(emission: Any, language: str = "llvm") -> Any:
    """Return a schedule that uses a dot product of the user's with this emission."""
    C, s, (*_, ji, _) = product()
    s[C].tensorize(ji, sl.instruction("own", dot(), emit={language: emission}))
    return s


def test_assembly_that_llvm_cannot_write() -> None:
    bad = Assembly("vpdpbusdx $3, $2, $0", "=v,0,v,v", ("i32x16",) * 3)
    # without AVX-512, LLVM has no register for 16 lanes and stops before it assembles
    says = "(?:invalid instruction mnemonic|couldn't allocate output register)"
    with pytest.raises(BuildError, match=f"(?s)LLVM cannot write 'vpdpbusdx.*It says:.*{says}"):
        sl.build(_with(bad))


ILLEGAL = {
    "assembly": {"llvm": Assembly("ud2", "=x,0,x,x", ("i32x4",) * 3)},
    "a snippet of C": {"c": CSnippet('__asm__("ud2" : "+x"(c));', dict.fromkeys("cab", "__m128i"),
                                     "immintrin.h")},
    "a function in memory": {"memory": MemoryFunction(
        "int own(const uint8_t *a, const int8_t *b, int32_t *c, const int64_t *sizes) {"
        ' __asm__("ud2"); return 0; }'
    )},
}  # fmt: skip


@pytest.mark.skipif(machine() not in ("x86_64", "AMD64"), reason="ud2 is an instruction of x86")
@pytest.mark.parametrize("form", slow_but(["assembly"], ILLEGAL))
def test_an_instruction_that_the_processor_lacks_without_a_name(form: str) -> None:
    """It would end this process; assemblers take instructions of every processor."""
    emit = ILLEGAL[form]
    own = sl.instruction("own", dot(lanes=4), emit)
    why = "own.*has an instruction that this processor lacks\n  Name the feature .* as in needs="
    with pytest.raises(InstructionError, match=why):
        own.check(samples=1)
    A, B = sl.placeholder((6, 4), "uint8", name="A"), sl.placeholder((4, 4), "int8", name="B")
    k = sl.reduce_axis(4, name="k")

    def element(i: Any, j: Any) -> Any:
        return sl.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k)

    C = sl.compute((6, 4), element, name="C")
    s = sl.schedule(C)
    s[C].tensorize(C.op.axis[1], own)
    with pytest.raises(BuildError, match=why):
        sl.build(s, [A, B, C], target="c" if "c" in emit else "cpu")
    # a name that does not mean it is shown
    wrong = sl.instruction("own", dot(lanes=4), emit, needs="sse2")
    with pytest.raises(InstructionError, match="lacks, which sse2 does not mean"):
        wrong.check(samples=1)


@pytest.mark.slow
def test_assembly_that_no_assembler_of_c_takes() -> None:
    bad = CSnippet('__asm__("vpdpbusdx %0" : "+x"(c));', dict.fromkeys("cab", "__m128i"),
                   "immintrin.h")  # fmt: skip
    own = sl.instruction("own", dot(lanes=4), {"c": bad})
    with pytest.raises(InstructionError, match="(?s)cannot write .*vpdpbusdx.*It says:.*vpdpbusdx"):
        own.check()


def test_a_function_that_llvm_does_not_know() -> None:
    bad = Intrinsic("llvm.x86.avx512.vpdpbusq.512", ("i32x16",) * 3)
    with pytest.raises(BuildError, match="(?s)LLVM cannot write llvm.x86.avx512.vpdpbusq.512"):
        sl.build(_with(bad))
    with pytest.raises(InstructionError, match="(?s)own.check\\(\\): LLVM cannot write"):
        sl.instruction("own", dot(), emit={"llvm": bad}).check()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        pytest.param(
            CFunction("no_such_function", "immintrin.h", ("__m512i",) * 3), "no_such_function",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            CSnippet("c = a +;", WORDS, "immintrin.h"), "expected expression",
            marks=pytest.mark.slow,
        ),
        (CSnippet("c = d;", WORDS, "immintrin.h"), "d.? undeclared|undeclared identifier 'd'"),
        (CSnippet("c = a;", {**WORDS, "b": "no_such_type"}, "immintrin.h"), "no_such_type"),
        (CFunction("f", "no_such_header.h", ("int",) * 3), "no_such_header.h: No such file"),
    ],
    ids=str,
)
def test_what_c_does_not_know(bad: Any, said: str) -> None:
    with pytest.raises(BuildError, match=f"(?s)tensorize.*own.*the C compiler cannot write .*"
                       f"It says:\n.*{said}"):  # fmt: skip
        sl.build(_with(bad, "c"), target="c")
    with pytest.raises(InstructionError, match="(?s)own.check\\(\\): the C compiler cannot write"):
        sl.instruction("own", dot(), emit={"c": bad}).check()


def plain(c: Any, a: Any, b: Any) -> Any:
    return c + unknown(a)  # noqa: F821  # type: ignore[name-defined]


def other_fma(*given: Any) -> Any:
    return given


def hidden(c: Any, a: Any, b: Any) -> Any:
    return fma(a, b, c)


def branching(c: Any, a: Any, b: Any) -> Any:
    if a:
        return b
    return c


def looping(c: Any, a: Any, b: Any) -> Any:
    for _ in range(4):
        c = c + b
    return c


def attributes(c: Any, a: Any, b: Any) -> Any:
    return np.add(c, b)


def memory(c: Any, a: Any, b: Any) -> Any:
    return vload(a, 0, 8)


def named(c: Any, a: Any, b: Any) -> Any:
    return broadcast(a, lanes=8)


def nothing(c: Any, a: Any, b: Any) -> Any:
    c = c + b


def power(c: Any, a: Any, b: Any) -> Any:
    return c + b**2


def chained(c: Any, a: Any, b: Any) -> Any:
    return select(c < b < a, b, c)


def negated(c: Any, a: Any, b: Any) -> Any:
    return select(not a, b, c)


def truth(c: Any, a: Any, b: Any) -> Any:
    return c + (b & True)


def complex_one(c: Any, a: Any, b: Any) -> Any:
    return c + 1j


def large(c: Any, a: Any, b: Any) -> Any:
    return c + LARGE


def defaults(c: Any, a: Any, b: Any = 1) -> Any:
    return c


def doubled(function: Any) -> Any:
    @wraps(function)
    def call(*given: Any) -> Any:
        return function(*given) * 2

    return call


@doubled
def decorated(c: Any, a: Any, b: Any) -> Any:
    return c


def recursive(c: Any, a: Any, b: Any) -> Any:
    return recursive(c, a, b)


FUNCTIONS: list[tuple[Any, type[SchedlangError], str]] = [
    (3, ComputeTypeError, "PythonFunction(3): give a function of Python, which calls intrinsics"),
    (len, ComputeTypeError, "give a function of Python"),
    (plain, ComputeError, "PythonFunction(plain): unknown is not an intrinsic of values, and not"),
    (branching, ComputeError, "it has the statement `if a:`\n  Write assignments and one return"),
    (looping, ComputeError, "it has the statement `for _ in range(4):`"),
    (attributes, ComputeError, "it has `np.add`"),
    (memory, ComputeError, "vload is not an intrinsic of values"),
    (named, ComputeError, "`broadcast(a, lanes=8)` gives an argument by name"),
    (nothing, ComputeError, "it has the statement `c = c + b`"),
    (power, ComputeError, "it has `b ** 2`\n  Write assignments and one return, with + - * / & |"),
    (chained, ComputeError, "it has `c < b < a`"),
    (negated, ComputeError, "it has `not a`"),
    (truth, ComputeError, "it has `True`"),
    (complex_one, ComputeError, "it has `1j`"),
    (large, ComputeError, "LARGE is not an intrinsic of values, and not a number"),
    (defaults, ComputeError, "its parameters are not plain ones"),
    (decorated, ComputeError, "its file has changed, or it is decorated\n  Leave out decorators"),
    (recursive, ComputeError, "recursive is not an intrinsic of values"),
    (lambda c, a, b: c, ComputeError, "is not"),
]


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: str(getattr(row[0], "__name__", row[0])))
def test_a_function_of_python_is_refused(row: Any) -> None:
    function, kind, message = row
    with pytest.raises(kind, match=re.escape(message)):
        PythonFunction(function)


def test_a_function_that_hides_an_intrinsic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(hidden.__globals__, "fma", other_fma)
    with pytest.raises(ComputeError, match="fma is not an intrinsic of values"):
        PythonFunction(hidden)
    function = PythonFunction(attributes_of_none)
    with pytest.raises(ComputeError, match="use the name fma, and the function would hide what"):
        sl.instruction("fma", dot(), emit={"llvm": function})
    with pytest.raises(ComputeError, match="use the name njit, and the function would hide what"):
        sl.instruction("njit", dot(), emit={"llvm": function})


def attributes_of_none(c: Any, a: Any, b: Any) -> Any:
    return c + b


def test_a_function_without_source() -> None:
    space: dict[str, Any] = {}
    exec("def f(a):\n    return a\n", space)
    with pytest.raises(ComputeError, match="its source is not there .*\n  Define it by def in a"):
        PythonFunction(space["f"])


def of_other_lanes(c: Any, a: Any, b: Any) -> Any:
    return b


def of_mixed_dtypes(c: Any, a: Any, b: Any) -> Any:
    return c + b


def of_mixed_operands(c: Any, a: Any, b: Any) -> Any:
    return fma(c, c, 1)


def of_two_values(c: Any, a: Any, b: Any) -> Any:
    return c, c


def of_integers_divided(c: Any, a: Any, b: Any) -> Any:
    return c / c


def of_no_signature(c: Any, a: Any, b: Any) -> Any:
    return instruct("nonsense", (c, a, b))


def of_no_function(c: Any, a: Any, b: Any) -> Any:
    return instruct("i32x16 llvm.nothing.here(i32x16)", (c,))


def of_a_later_value(c: Any, a: Any, b: Any) -> Any:
    c = later + c  # noqa: F821, F841
    later = c
    return later


def of_a_division(c: Any, a: Any, b: Any) -> Any:
    return c + 1 / 0


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (of_other_lanes, "of_other_lanes returns Vec(int8, 64), and c is Vec(int32, 16)"),
        (of_mixed_dtypes, "Vec(int32, 16) + Vec(int8, 64): the operands of an operator have one "
                          "dtype; convert one, as in float32(2)"),
        (of_mixed_operands, "(Vec(int32, 16), Vec(int32, 16), int64) have no common dtype"),
        (of_two_values, "of_two_values returns UniTuple(Vec(int32, 16) x 2), and c is Vec(int32"),
        (of_integers_divided, "Vec(int32, 16) / Vec(int32, 16): convert one to a float, as in"),
        (of_no_signature, "nonsense"),
        (of_no_function, "this processor has no function llvm.nothing.here"),
        (of_a_later_value, "cannot access local variable 'later'"),
        (of_a_division, "division by zero"),
    ],
    ids=lambda value: getattr(value, "__name__", "said"),
)  # fmt: skip
def test_a_function_of_python_that_llvm_cannot_write(function: Any, said: str) -> None:
    for compiler in ("llvm", "numba"):
        with pytest.raises(BuildError, match="(?s)LLVM cannot write .*" + re.escape(said)):
            sl.build(_with(PythonFunction(function)), compiler=compiler)


@compiles
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (Assembly("dp5a $0, $2, $3, $1;", "=r,r,r,r", ("i32",) * 3),
         "ptxas failed: .*Not a name of any known instruction: 'dp5a'"),
        (PythonFunction(of_mixed_dtypes), "numba refuses its source: .*Vec\\(int8, 4\\)"),
    ],
    ids=str,
)  # fmt: skip
def test_what_the_compilers_of_a_gpu_refuse(bad: Any, said: str) -> None:
    one = sl.instruction("own", dot(1), emit={"cuda": bad})
    with pytest.raises(InstructionError, match=r"(?s)own.check\(\): the compilers of NVIDIA cannot "
                                               rf"write .*They say:\n.*{said}"):  # fmt: skip
        one.check()


@pytest.mark.skipif(not runs(instructions.vpdpwssd), reason="this processor has no VNNI")
def test_a_check_finds_another_meaning() -> None:
    """The instruction takes its first operand as unsigned, and the declaration as signed."""
    a = sl.placeholder((4,), "int8", name="a")
    b = sl.placeholder((16, 4), "int8", name="b")
    q = sl.reduce_axis(4, name="q")
    c = sl.compute(
        (16,), lambda i: sl.sum(a[q].astype("int32") * b[i, q].astype("int32"), axis=q), name="c"
    )
    wrong = sl.instruction("wrong", c, emit={"llvm": VNNI}, needs="avx512vnni")
    with pytest.raises(InstructionError, match=r"(?s)wrong.check\(\): lane \d+ is -?\d+, and the "
                       r"declaration gives -?\d+\n  llvm.x86.avx512.vpdpbusd.512.* computes "
                       r"something else than c.*a = \[\["):  # fmt: skip
        wrong.check()


@pytest.mark.skipif(not runs(scaled_row()), reason="this processor has no FMA")
def test_a_check_finds_another_rounding() -> None:
    exact = sl.instruction(
        "exact", fused().output, emit=fused().emit, needs="fma", tolerance=2.0**-30
    )
    with pytest.raises(InstructionError, match="state it as tolerance="):
        exact.check()


@pytest.mark.skipif(not runs(scaled_row()), reason="this processor has no FMA")
def test_no_tolerance_is_offered_for_wrong_code() -> None:
    swapped = Intrinsic("llvm.fma.v8f32", ("f32x8",) * 3, order=(2, 0, 1))
    wrong = sl.instruction("wrong", fused().output, emit={"llvm": swapped}, tolerance=0.5)
    with pytest.raises(InstructionError, match="computes something else than y") as refused:
        wrong.check()
    assert "tolerance" not in str(refused.value)
    # the tile of the lane alone
    assert re.search(r"\n +a = \[[^\[]*\]\n", str(refused.value))


@pytest.mark.parametrize("language", ["llvm", "c"])
def test_features_that_llvm_does_not_know(language: str) -> None:
    f = fused()
    typos = [("fmaaa", "fmaaa"), (["fma", "avx512vnnii or avx5"], "avx512vnnii or avx5")]
    for needs, name in typos:
        typo = sl.instruction("typo", f.output, emit={language: f.emit[language]}, needs=needs)
        why = f"it needs {name}, which LLVM does not know for this kind of processor; did you mean"
        with pytest.raises(InstructionError, match=rf"typo.check\(\): {why} '(fma|avx)"):
            typo.check()


def test_a_build_names_a_feature_that_llvm_does_not_know() -> None:
    A, B, D = (sl.placeholder((8,), name=name) for name in "ABD")
    Y = sl.compute((8,), lambda i: A[i] * B[i] + D[i], name="Y")
    s = sl.schedule(Y)
    typo = sl.instruction("typo", fused().output, emit=fused().emit, needs="fmaaa")
    s[Y].tensorize(Y.op.axis[0], typo)
    with pytest.raises(BuildError, match="needs fmaaa, which LLVM does not know for this kind"):
        sl.build(s)


def test_features_that_llvm_knows() -> None:
    for declared in (instructions.vpdpbusd, instructions.tdpbusd, instructions.dp4a):
        assert unknown_features(declared.needs) == [] or machine() not in ("x86_64", "AMD64")
    assert unknown_features(["nothing or fma"]) == unknown_features(["fma"])


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("first", ["factor", "row"])
def test_a_transposed_operand_is_named(swapped: bool, first: str) -> None:
    a, b = sl.placeholder((1,), name="a"), sl.placeholder((8,), name="b")
    q = sl.reduce_axis(1, name="q")

    def term(i: Any) -> Any:
        return a[q] * b[i] if first == "factor" else b[i] * a[q]

    c = sl.compute((8,), lambda i: sl.sum(term(i), axis=q), name="c")
    fma8 = sl.instruction("fma8", c, emit={"c": CFunction("f", "", ("float",) * 3)})
    A, B = sl.placeholder((6, 40), name="A"), sl.placeholder((16, 40), name="B")
    k = sl.reduce_axis(40, name="k")

    def product(i: Any, j: Any) -> Any:
        return sl.sum(B[j, k] * A[i, k] if swapped else A[i, k] * B[j, k], axis=k)

    C = sl.compute((6, 16), product, name="C")
    s = sl.schedule(C)
    outer, lanes = s[C].split(C.op.axis[1], factor=8)
    s[C].reorder(outer, k, lanes)
    message = "B steps by 40 along j.inner, and operand b of fma8 by 1 along j.inner\n  Pack B: "
    with pytest.raises(ScheduleError, match=re.escape(message)):
        s[C].tensorize(lanes, fma8)


def test_a_check_of_a_form_that_is_not_there() -> None:
    with pytest.raises(
        InstructionError, match="dp4a.check.*no form for target='cpu'\n  Give emit="
    ):
        instructions.dp4a.check(target="cpu")
    with pytest.raises(InstructionError, match="target='python' has no instructions\n  Give one of "
                                               "'cpu', 'c', 'cuda'"):  # fmt: skip
        instructions.dp4a.check(target="python")


def test_a_check_on_another_kind_of_processor() -> None:
    if runs(instructions.sdot):
        assert instructions.sdot.check(samples=4).ran
        return
    with pytest.raises(InstructionError, match=r"sdot.check\(\): it needs dotprod, which LLVM"):
        instructions.sdot.check()


def test_json_that_names_an_unknown_instruction() -> None:
    A, B, D = (sl.placeholder((8,), name=name) for name in "ABD")
    Y = sl.compute((8,), lambda i: A[i] * B[i] + D[i], name="Y")
    s = sl.schedule(Y)
    s[Y].tensorize(Y.op.axis[0], fused())
    with pytest.raises(ScheduleError, match="step 1, tensorize, cannot be replayed: there is no "
                       r"instruction 'fused'; give it, as in from_json"):  # fmt: skip
        sl.Schedule.from_json(s.to_json(), Y)
    data = json.loads(s.to_json())
    data["steps"][0]["args"]["instruction"]["instruction"] = ["fused"]
    with pytest.raises(ScheduleError, match=r"there is no instruction \['fused'\]"):
        sl.Schedule.from_json(json.dumps(data), Y, [fused()])
    data["steps"][0]["args"]["instruction"] = "fused"
    with pytest.raises(ScheduleError, match="'fused' is not an instruction"):
        sl.Schedule.from_json(json.dumps(data), Y, [fused()])


def test_json_of_an_instruction_of_another_meaning() -> None:
    _, _, C = packed(4, 16, 8, "vpdpwssd")
    text = tensorized(C, instructions.vpdpwssd).to_json()
    message = (
        r"the instruction vpdpwssd computes c\[i\] \+= .*int16.*, and the schedule was written for "
        r"one that computes .*int8"
    )
    with pytest.raises(ScheduleError, match=message):
        sl.Schedule.from_json(text.replace("int16", "int8"), C)


@pytest.mark.parametrize("name, value", [("samples", "x"), ("samples", -1), ("seed", None)])
def test_the_numbers_of_a_check(name: str, value: Any) -> None:
    message = f"fused.check(..., {name}={value!r}): {name} is a whole number, at least 0"
    with pytest.raises(CallError, match=re.escape(message)):
        fused().check(**{name: value})


def not_a_number(a: Any, b: Any) -> Any:
    return (a - a) / (b - b)


def test_a_check_finds_a_nan() -> None:
    a, b = (sl.placeholder((8,), name=name) for name in "ab")
    y = sl.compute((8,), lambda i: a[i] + b[i], name="y")
    wrong = sl.instruction("wrong", y, emit={"llvm": PythonFunction(not_a_number)}, tolerance=0.5)
    with pytest.raises(InstructionError, match="lane 0 is nan, and the declaration gives"):
        wrong.check(samples=2)


@pytest.mark.parametrize("types", ["int", 3, ("int", 3)])
def test_types_of_c_that_are_no_tuple_of_names(types: Any) -> None:
    with pytest.raises(ComputeError, match="the types of its operands are|not the name of a type"):
        CFunction("f", "", types)


@pytest.mark.parametrize("order", [(1.0, 0), (True, 0)])
def test_an_order_of_other_numbers(order: Any) -> None:
    with pytest.raises(ComputeError, match="does not name each of 2 operands once"):
        CFunction("f", "", ("int", "int"), order)


@pytest.mark.parametrize("compiler", ["llvm", "numba"])
def test_a_kernel_with_the_name_of_an_instruction(compiler: str) -> None:
    A, B = (sl.placeholder((16,), name=name) for name in "AB")
    C = sl.compute((16,), lambda i: A[i] - B[i], name="difference")
    a, b = (sl.placeholder((8,), name=name) for name in "ab")
    c = sl.compute((8,), lambda i: a[i] - b[i], name="c")
    s = sl.schedule(C)
    own = sl.instruction("difference", c, emit={"llvm": PythonFunction(minus)})
    s[C].tensorize(s[C].split(C.op.axis[0], factor=8)[1], own)
    x, y = np.arange(16, dtype="float32"), np.ones(16, "float32")
    np.testing.assert_array_equal(sl.build(s, compiler=compiler)(x, y), x - y)


def minus(a: Any, b: Any) -> Any:
    return a - b
