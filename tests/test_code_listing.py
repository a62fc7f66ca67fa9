"""``f.llvm`` and ``f.asm``: the code of a CPU kernel, with the lines of its file between."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import BuildError
from schedlang.runtime import numba_code
from schedlang.runtime.code_listing import Source, asm_listing, functions_of, llvm_listing

ASM = """
	.file	"<string>"
.LCPI0_0:
	.long	0x40000000
.LCPI0_1:
	.long	0x3f800000
	.text
	.globl	_ZN1kE
	.type	_ZN1kE,@function
_ZN1kE:
.Lfunc_begin0:
	.file	1 "/cache" "k.py"
	.file	2 "/other" "helper.py"
	.loc	1 2 0
	.cfi_startproc
	pushq	%rbp
.Ltmp0:
	.loc	1 3 1 is_stmt 0
	.loc	1 4 1
	vbroadcastss	.LCPI0_1(%rip), %zmm0  # constant
	.loc	2 9 1
	vmulps	%zmm0, %zmm0, %zmm0
	.loc	1 0 1
.LBB0_1:
	jne	.LBB0_1
	.loc	1 2 0
	callq	*_ZN5innerE
	retq
.Lfunc_end0:
	.size	_ZN1kE, .Lfunc_end0-_ZN1kE
	.type	cfunc.k,@function
cfunc.k:
	retq
"""
LLVM = """
define i32 @_ZN1kE(ptr %x) local_unnamed_addr #0 !dbg !4 {
entry:
    #dbg_value(ptr null, !7, !DIExpression(), !8)
  %a = fmul contract <8 x float> %b, %c, !dbg !8
  %d = fadd <8 x float> %a, %c, !dbg !9, !fpmath !12
  call void @_ZN5innerE() #3
  br i1 %e, label %entry, label %out, !dbg !8, !llvm.loop !11
out:
  ret i32 0, !dbg !10
}

define void @other() {
  ret void
}
!1 = !DIFile(filename: "k.py", directory: "/cache")
!2 = !DIFile(filename: "helper.py", directory: "/other")
!4 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 2)
!5 = distinct !DISubprogram(name: "h", scope: !2, file: !2, line: 2)
!8 = !DILocation(line: 3, column: 1, scope: !4)
!9 = distinct !DILocation(line: 9, scope: !5, inlinedAt: !13)
!10 = !DILocation(line: 0, scope: !4)
!13 = !DILocation(line: 4, scope: !4)
"""
SOURCE = Source(
    Path("/elsewhere/k.py"), ["# k", "def k(x):", "    for i in range(8):", "        store(x, i)"],
    {"_ZN1kE": "k", "_ZN5innerE": "inner"},
)  # fmt: skip


def test_a_listing_of_assembly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedlang.runtime.code_listing.machine", lambda: "x86_64")
    assert functions_of(ASM) == ["_ZN1kE", "cfunc.k"]
    assert asm_listing(ASM, "_ZN1kE", SOURCE).splitlines() == [
        "k:",
        "    # 2: def k(x):",
        "    pushq %rbp",
        # line 3 has no instruction, and the file of helper.py is another one
        "    # 4: store(x, i)",
        "    vbroadcastss .LCPI0_1(%rip), %zmm0",
        "    vmulps %zmm0, %zmm0, %zmm0",
        ".LBB0_1:",
        "    jne .LBB0_1",
        "    # 2: def k(x):",
        "    callq *inner",
        "    retq",
        ".LCPI0_1: .long 0x3f800000",
    ]
    assert asm_listing(ASM, "missing", SOURCE) == ""


def test_a_listing_of_llvm() -> None:
    assert llvm_listing(LLVM, "_ZN1kE", SOURCE).splitlines() == [
        "define i32 @k(ptr %x) {",
        "entry:",
        "  ; 3: for i in range(8):",
        "  %a = fmul contract <8 x float> %b, %c",
        # an inlined function of another file has the line of its call
        "  ; 4: store(x, i)",
        "  %d = fadd <8 x float> %a, %c",
        "  call void @inner()",
        "  ; 3: for i in range(8):",
        "  br i1 %e, label %entry, label %out",
        "out:",
        "  ret i32 0",
        "}",
    ]


def doubled(parallel: bool = True, **options: Any) -> sl.Kernel:
    A = sl.placeholder((64, 64), name="A")
    B = sl.compute((64, 64), lambda i, j: sl.exp(A[i, j]) * 2, name="B")
    s = sl.schedule(B)
    i, j = B.op.axis
    s[B].vectorize(s[B].split(j, factor=8)[1])
    if parallel:
        s[B].parallel(i)
    return sl.build(s, [A, B], **options)


def lines_of(source: str, word: str) -> dict[int, str]:
    return {k: line.strip() for k, line in enumerate(source.splitlines(), 1) if word in line}


@pytest.mark.parametrize(
    ("compiler", "functions"),
    [("llvm", ["B_kernel", "B_kernel.i"]), ("numba", ["B_i", "B_kernel"])],
)
def test_each_function_and_line_is_shown(compiler: str, functions: list[str]) -> None:
    f = doubled(compiler=compiler)
    asm, llvm = f.asm, f.llvm.rpartition("; after LLVM's passes\n")[2]
    assert re.findall(r"^(\w[\w.]*):$", asm, re.MULTILINE) == functions
    assert re.findall(r"^define .*@([\w.]+)\(", llvm, re.MULTILINE) == functions
    for number, line in {**lines_of(f.source, "vstore("), **lines_of(f.source, "prange(")}.items():
        if line.startswith(("vstore", "for")):
            assert re.search(rf"(#|//) {number}: {re.escape(line)}\n", asm), asm
            assert f"; {number}: {line}\n" in llvm
    assert "fmul contract <8 x float>" in llvm
    assert "_ZN" not in asm and "#dbg" not in llvm and ".loc" not in asm


def test_lines_change_no_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    f = doubled(parallel=False, compiler="numba")
    with_lines = f.asm
    from numba.core.compiler import Compiler

    monkeypatch.setattr(numba_code, "_line_compiler", lambda: Compiler)
    without = doubled(parallel=False, compiler="numba").asm

    def instructions(asm: str) -> list[str]:
        return [x for x in asm.splitlines() if not re.match(r"\s*(#|//) ", x)]

    assert instructions(with_lines) == instructions(without) and len(without) > 200
    assert with_lines != without


@pytest.mark.slow
def test_a_kernel_from_the_cache_on_disk(tmp_path: Path) -> None:
    """The second process loads the kernel, of which the cache folder has machine code only."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, warnings, numpy as np, schedlang as sl\n"
        "A = sl.placeholder((64,), name='A')\n"
        "B = sl.compute((64,), lambda i: A[i] * 2, name='B')\n"
        "s = sl.schedule(B)\n"
        "s[B].vectorize(s[B].split(B.op.axis[0], factor=8)[1])\n"
        "f = sl.build(s)\n"
        "f(np.ones(64, 'float32'))\n"
        "warnings.simplefilter('error')\n"
        "print('schedlang.runtime.llvm.printed' in sys.modules)\n"
        "print(f.asm + f.llvm)\n"
    )
    env = {"SCHEDLANG_CACHE": str(tmp_path / "cache"), "PYTHONPATH": ":".join(sys.path)}
    found = []
    for _ in range(2):
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split("\n", 1))
    assert [compiled for compiled, _ in found] == ["True", "False"]
    assert found[0][1] == found[1][1] and "vstore(B, i_outer*8" in found[0][1]


def test_assembly_of_c() -> None:
    f = doubled(parallel=False, target="c")
    asm = f.asm
    assert re.search(r"^B_kernel:$", asm, re.MULTILINE)
    (number,) = [k for k, line in lines_of(f.source, "for (int64_t i =").items()]
    assert re.search(rf"(#|//) {number}: for \(int64_t i = 0; i < 64; i\+\+\) {{\n", asm)
    with pytest.raises(BuildError, match="llvm of kernel B: it is C.*\n.*asm"):
        _ = f.llvm


def test_a_kernel_in_python_has_no_code() -> None:
    for name in ("llvm", "asm"):
        with pytest.raises(BuildError, match=rf'{name} of kernel B: .*runs uncompiled\n.*"cpu"'):
            getattr(doubled(target="python"), name)
