"""Refusals of matrix units: fragments, schedules and declarations that no warp can run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import BuildError, ComputeError, ComputeTypeError, ScheduleError
from schedlang.instructions import Digit, Fragment, WarpAssembly
from tests.matrix_products import product

MMA = sl.instructions.mma_f16
RESULT, LEFT, RIGHT = MMA.emit["cuda"].fragments


class Small:
    """A product of one or more tiles at a block, whose operands warps hold as fragments."""

    def __init__(self, rows: int = 16) -> None:
        self.A = sl.placeholder((rows, 16), "float16", name="A")
        self.B = sl.placeholder((16, 8), "float16", name="B")
        r = sl.reduce_axis(16, name="r")

        def element(i: Any, j: Any) -> Any:
            return sl.sum(self.A[i, r].astype("float32") * self.B[r, j].astype("float32"), axis=r)

        self.C = sl.compute((rows, 8), element, name="C")
        self.s = sl.schedule(self.C)
        self.L = self.s.cache_write(self.C, "fragment")
        self.FA = self.s.cache_read(self.A, "fragment", [self.L])
        self.FB = self.s.cache_read(self.B, "fragment", [self.L])
        # one block
        self.block = self.s[self.C].fuse()
        self.s[self.C].reorder(self.block, *self.C.op.axis)

    def at_block(self, thread: str = "blockIdx.x") -> Small:
        self.s[self.C].bind(self.block, thread)
        for tile in (self.L, self.FA, self.FB):
            self.s[tile].compute_at(self.s[self.C], self.block)
        return self

    def build(self, declared: Any = MMA, target: Any = "cuda-emulator", axis: Any = None) -> None:
        if declared is not None:
            loop = self.s[self.L].op.axis[0] if axis is None else axis
            self.s[self.L].tensorize(loop, declared)
        sl.build(self.s, [self.A, self.B, self.C], target=target)


def within_a_thread() -> None:
    Small().at_block("threadIdx.x").build()


def other_threads() -> None:
    small = Small().at_block()
    S = small.s.cache_read(small.A, "shared", [small.FA])
    small.s[S].compute_at(small.s[small.C], small.block)
    _, thread = small.s[S].split(small.s[S].fuse(*small.s[S].op.axis), factor=64)
    small.s[S].bind(thread, "threadIdx.x")
    small.build()


def parts_of_a_tile() -> None:
    small = Small().at_block()
    small.s[small.C].split(small.C.op.axis[0], factor=4)
    small.build()


def rest_of_a_cut() -> None:
    small = Small(24).at_block()
    _, inner = small.s[small.L].split(small.s[small.L].op.axis[0], factor=16, tail="cut")
    small.build(axis=inner)


def warps_around() -> None:
    small = Small().at_block()
    outer, inner = small.s[small.C].split(small.C.op.axis[1], factor=4)
    small.s[small.C].reorder(small.block, outer, small.C.op.axis[0], inner)
    small.s[small.C].bind(outer, "threadIdx.y")
    small.build()


def two_operands() -> None:
    A, r = sl.placeholder((16, 8), name="A"), sl.reduce_axis(8, name="r")
    C = sl.compute((16, 8), lambda i, j: sl.sum(A[i, r] * A[j, r], axis=r), name="C")
    s = sl.schedule(C)
    L = s.cache_write(C, "fragment")
    F = s.cache_read(A, "fragment", [L])
    block = s[C].fuse()
    s[C].reorder(block, *C.op.axis)
    s[C].bind(block, "blockIdx.x")
    for tile in (L, F):
        s[tile].compute_at(s[C], block)
    s[L].tensorize(s[L].op.axis[0], sl.instructions.mma_tf32)
    sl.build(s, [A, C], target="cuda-emulator")


class Epilogue:
    """A stage that reads a product of 16 x 16 elements, which a warp holds as a fragment."""

    def __init__(self, stage: Callable[[sl.Tensor], sl.Tensor], terms: Any = 16) -> None:
        self.A = sl.placeholder((16, terms), "float16", name="A")
        self.B = sl.placeholder((terms, 16), "float16", name="B")
        r = sl.reduce_axis(terms, name="r")

        def element(i: Any, j: Any) -> Any:
            return sl.sum(self.A[i, r].astype("float32") * self.B[r, j].astype("float32"), axis=r)

        self.F = sl.compute((16, 16), element, name="F")
        self.D = stage(self.F)
        self.s = sl.schedule(self.D)
        self.s[self.F].set_scope("fragment")
        self.copies = [self.s.cache_read(T, "fragment", [self.F]) for T in (self.A, self.B)]

    def build(self, outer: bool = False) -> None:
        """Build with one block, whose reduction is around other loops if ``outer``."""
        s, D, F = self.s, self.D, self.s[self.F]
        block, loops = s[D].fuse(), [s[D].op.axis, s[D].op.reduce_axis]
        first, last = reversed(loops) if outer else loops
        s[D].reorder(block, *first, *last)
        s[D].bind(block, "blockIdx.x")
        for tensor in D.op.input_tensors:
            if tensor is not self.F:
                s[tensor].compute_at(s[D], block)
        F.compute_at(s[D], block)
        steps, step = F.split(F.op.reduce_axis[0], factor=16)
        tiles = F.tile(*F.op.axis, 16, 8)
        F.reorder(steps, *tiles, step)
        F.tensorize(tiles[2], MMA)
        for copy in self.copies:
            s[copy].compute_at(s[D], block)
        sl.build(s, [self.A, self.B, D], target="cuda")


def sums_of_a_fragment(dim: int, outer: bool) -> None:
    r = sl.reduce_axis(16, name="r")

    def sums(F: sl.Tensor) -> sl.Tensor:
        return sl.compute(
            (16,), lambda i: sl.sum(F[r, i] if dim == 0 else F[i, r], axis=r), name="D"
        )

    Epilogue(sums).build(outer)


def part_of_a_thread() -> None:
    def later(F: sl.Tensor) -> sl.Tensor:
        E = sl.compute((16, 16), lambda i, j: F[i, j] * 2, name="E")
        return sl.compute((16, 16), lambda i, j: E[i, j] + 1, name="D")

    epilogue = Epilogue(later)
    (E,) = epilogue.D.op.input_tensors
    epilogue.s[E].set_scope("local")
    epilogue.build()


def diagonal() -> None:
    Epilogue(lambda F: sl.compute((16,), lambda i: F[i, i], name="D")).build()


def backwards() -> None:
    Epilogue(lambda F: sl.compute((16, 16), lambda i, j: F[15 - i, j], name="D")).build()


def tiles_on_their_sides() -> None:
    A, B = sl.placeholder((16, 16), "float16", name="A"), sl.placeholder((16, 16), "float16")

    def factors(name: str) -> sl.Tensor:
        r = sl.reduce_axis(16, name="r")

        def element(i: Any, j: Any) -> Any:
            return sl.sum(A[i, r].astype("float32") * B[r, j].astype("float32"), axis=r)

        return sl.compute((16, 16), element, name=name)

    F, G = factors("F"), factors("G")
    D = sl.compute((16, 16), lambda i, j: F[i, j] + G[i, j], name="D")
    s = sl.schedule(D)
    block = s[D].fuse()
    s[D].reorder(block, *D.op.axis)
    s[D].bind(block, "blockIdx.x")
    for product_, rows in ((F, 16), (G, 8)):
        stage = s[product_]
        stage.set_scope("fragment")
        stage.compute_at(s[D], block)
        for T in (A, B):
            s[s.cache_read(T, "fragment", [product_])].compute_at(s[D], block)
        tiles = stage.tile(*stage.op.axis, rows, 24 - rows)
        stage.tensorize(tiles[2], MMA)
    sl.build(s, [A, B, D], target="cuda")


def size_of_a_call() -> None:
    def copied(F: sl.Tensor) -> sl.Tensor:
        return sl.compute((16, 16), lambda i, j: F[i, j], name="D")

    Epilogue(copied, terms=sl.var("n") * 16).build()


def padded_rows() -> None:
    small = Small().at_block()
    small.s[small.FA].storage_align(small.s[small.FA].op.axis[0], 32, 8)
    small.build()


def later_architecture() -> None:
    own = {"emit": MMA.emit, "scopes": MMA.scopes, "tolerance": MMA.tolerance}
    later = sl.instruction("later", MMA.output, needs="sm_90", **own)
    Small().at_block().build(later, sl.Target("cuda", arch="sm_80"))


def tails_of_tiles() -> None:
    A = sl.placeholder((24, 16), "float16", name="A")
    B = sl.placeholder((16, 8), "float16", name="B")
    r = sl.reduce_axis(16, name="r")
    C = sl.compute(
        (24, 8),
        lambda i, j: sl.sum(A[i, r].astype("float32") * B[r, j].astype("float32"), axis=r),
        name="C",
    )
    s = sl.schedule(C)
    _, inner = s[C].split(C.op.axis[0], factor=16, tail="guard")
    s[C].tensorize(inner, MMA)


def terms_left_out() -> None:
    A, B = sl.placeholder((16, 16), "float16", name="A"), sl.placeholder((16, 8), "float16")
    r = sl.reduce_axis(16, name="r")

    def element(i: Any, j: Any) -> Any:
        terms = A[i, r].astype("float32") * B[r, j].astype("float32")
        return sl.sum(terms, axis=r, where=r <= i)

    C = sl.compute((16, 8), element, name="C")
    sl.schedule(C)[C].tensorize(C.op.axis[0], MMA)


def other_dtype() -> None:
    A, B = sl.placeholder((16, 16), name="A"), sl.placeholder((16, 8), name="B")
    r = sl.reduce_axis(16, name="r")
    C = sl.compute((16, 8), lambda i, j: sl.sum(A[i, r] * B[r, j], axis=r), name="C")
    sl.schedule(C)[C].tensorize(C.op.axis[0], MMA)


SCHEDULES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "scope": (
        lambda: product(32, 8, 32, scope="local"), ScheduleError,
        r"is in local memory, and mma_f16 needs a in fragment memory",
    ),
    "dtype": (
        other_dtype, ScheduleError, r"A\[i, r\] is another operation than float32\(a\[i, q\]\)"
    ),
    "tails": (
        tails_of_tiles, ScheduleError,
        r"no part of C computes all 16 x 8 x 16 terms .*\n.* s.pad_einsum\(C, \[16, 8, 16",
    ),
    "terms": (
        terms_left_out, ScheduleError,
        r"C leaves out terms of its sum, and mma_f16 adds all of them\n  Add zeros in their place",
    ),
    "thread": (
        within_a_thread, BuildError,
        r"A.fragment .* the 32 threads of threadIdx.x hold together, and fused of stage C",
    ),
    "threads": (
        other_threads, BuildError,
        r"ax0.ax1.fused.inner of stage A.shared has 64 iterations on threadIdx.x",
    ),
    "part": (
        parts_of_a_tile, BuildError,
        r"i.inner of stage C has 4 iterations along dimension 0 .* hold tiles of 16",
    ),
    "warps": (
        warps_around, BuildError,
        r"j.inner of stage C has 4 iterations along dimension 1 .* hold tiles of 8",
    ),
    "rest": (
        rest_of_a_cut, BuildError, r"ax0 of stage A.fragment has 24 iterations .* tiles of 16"
    ),
    "unused": (
        lambda: Small().at_block().build(None), BuildError,
        r"A.fragment is a fragment, and no instruction says which thread holds which",
    ),
    "operands": (two_operands, BuildError, r"A.fragment is both a and b of instructions"),
    "sums of rows": (
        lambda: sums_of_a_fragment(1, True), BuildError,
        r"D reduces over F, whose elements several.*\n.*: s.cache_read\(F, .shared., \[D\]\)\.",
    ),
    "sums of columns": (
        lambda: sums_of_a_fragment(0, True), BuildError, r"D reduces over F, whose elements several"
    ),
    "sums inside": (
        lambda: sums_of_a_fragment(1, False), BuildError, r"D reduces over F, whose elements"
    ),
    "local": (
        part_of_a_thread, BuildError,
        r"E in local memory from F, .*\n.* set_scope\(.shared.\), or compute it inline",
    ),
    "diagonal": (diagonal, BuildError, r"accesses F along a diagonal, over i in two dimensions"),
    "backwards": (
        backwards, BuildError, r"F at 15 - i .*\n.* a copy: s.cache_read\(F, .shared., \[D\]\)\."
    ),
    "sides": (tiles_on_their_sides, BuildError, r"D computes from F and G element by element"),
    "size": (size_of_a_call, BuildError, r"A.fragment is a fragment of \[16, n\*16\] elements"),
    "align": (padded_rows, BuildError, r"A.fragment is a fragment, and storage_align pads rows"),
    "architecture": (
        later_architecture, BuildError, r"needs sm_90, and the kernel is built for sm_80"
    ),
    "opencl": (
        lambda: Small().at_block().build(target="opencl"), BuildError,
        r"OpenCL C has no instr.*\n  Leave out tensorize, .* same, or build for target=.cuda.\.",
    ),
    "cpu": (
        lambda: Small().build(target="cpu"), BuildError, r"mma_f16 has no form for target='cpu'"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_that_no_warp_runs(name: str) -> None:
    program, error, message = SCHEDULES[name]
    with pytest.raises(error, match=message):
        program()


def declared(emission: WarpAssembly, output: Any = MMA.output, **options: Any) -> None:
    sl.instruction("own", output, emit={"cuda": emission}, **options)


def half_registers() -> None:
    a = sl.placeholder((16, 8), "int8", name="a")
    b = sl.placeholder((8, 8), "int8", name="b")
    q = sl.reduce_axis(8, name="q")
    c = sl.compute(
        (16, 8),
        lambda i, j: sl.sum(a[i, q].astype("int32") * b[q, j].astype("int32"), axis=q),
        name="c",
    )
    left = Fragment("a", (16, 8), RESULT.digits)
    digits = Digit("lane", 1, 8, 0, 1), Digit("lane", 8, 4, 1, 1), Digit("register", 1, 2, 1, 4)
    declared(WarpAssembly("mma", (RESULT, left, Fragment("b", (8, 8), digits))), c)


def no_sum() -> None:
    a = sl.placeholder((16, 8), name="a")
    c = sl.compute((16, 8), lambda i, j: a[i, j] * 2, name="c")
    declared(WarpAssembly("mma", (RESULT, Fragment("a", (16, 8), RESULT.digits))), c)


# the lowest two bits of a lane, and the second of them again
OVERLAPPING = (1, 4, 0, 1), (2, 2, 0, 2), (4, 2, 0, 2), (8, 4, 0, 8)

DECLARATIONS: dict[str, tuple[Callable[[], object], str]] = {
    "elements": (lambda: Fragment("a", (4, 4), ()), r"its 16 elements are not a multiple of 32"),
    "digits": (
        lambda: Fragment("a", (16, 8), (Digit("lane", 1, 16, 0, 1), Digit("register", 1, 8, 1, 1))),
        r"place 32 lanes of 4 registers on 64 of 128 elements",
    ),
    "lanes": (
        lambda: Fragment("a", (32,), (Digit("thread", 1, 32, 0, 1),)),
        r"of='thread', .* is not a part of an index; a Digit is of a lane or a register",
    ),
    "dims": (
        lambda: Fragment("a", (32,), (Digit("lane", 1, 32, 1, 1),)),
        r"its dim is from 0 to 0",
    ),
    "parts": (
        lambda: Fragment("a", (32,), tuple(Digit("lane", *d) for d in OVERLAPPING)),
        r"two digits have a part of the number of a lane or a register in common",
    ),
    "shape": (lambda: Fragment("a", "ab", ()), r"has no shape or no digits"),
    "numbers": (lambda: Fragment("a", (32,), (1,)), r"1 is not a part of an index; a Digit is"),
    "mnemonic": (lambda: WarpAssembly(" ", (RESULT,)), r"' ' is not an instruction of PTX"),
    "fragments": (
        lambda: WarpAssembly("mma", None),
        r"the fragments of mma are None; give a tuple",
    ),
    "scopes": (
        lambda: declared(MMA.emit["cuda"], scopes={"a": "fragment", "b": "local"}),
        r"scopes= does not keep c in fragment memory.*\n  Leave it out",
    ),
    "operands": (
        lambda: declared(WarpAssembly("mma", (RESULT, LEFT))),
        r"its fragments are .* and the declaration has",
    ),
    "order": (
        lambda: declared(WarpAssembly("mma", (LEFT, RESULT, RIGHT))),
        r"Give a Fragment of the result, then of each operand",
    ),
    "alignment": (
        lambda: declared(MMA.emit["cuda"], alignment={"a": 16}),
        r"fragments have no addresses",
    ),
    "registers": (
        half_registers,
        r"holds 2 elements of b, which are 2 bytes, and a register has 4",
    ),
    "sum": (no_sum, r"it does not add to its result"),
}


@pytest.mark.parametrize("name", DECLARATIONS)
def test_declarations_that_no_warp_runs(name: str) -> None:
    program, message = DECLARATIONS[name]
    with pytest.raises((ComputeError, ComputeTypeError), match=message):
        program()


def test_operands_of_a_warp_are_fragments() -> None:
    own = sl.instruction("own", MMA.output, emit=MMA.emit)
    assert own.scopes == MMA.scopes == {"a": "fragment", "b": "fragment", "c": "fragment"}


def test_a_dimension_of_one_element_has_no_digits() -> None:
    column = Fragment("a", (32, 1), (Digit("lane", 1, 32, 0, 1),))
    assert column.element(5, 0) == (5, 0) and column.holder((5, 0)) == (5, 0)


def test_an_unknown_scope() -> None:
    A = sl.placeholder((16, 16), "float16", name="A")
    C = sl.compute((16, 16), lambda i, j: A[i, j] * 2, name="C")
    with pytest.raises(ScheduleError, match=r"'wmma.matrix_c' is not a scope"):
        sl.schedule(C).cache_read(A, "wmma.matrix_c", [C])
