"""C for other processors: their targets, what zig makes of it, and what an emulator computes."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.codegen.c_headers import header
from schedlang.errors import BuildError, CallError, CompilerWarning, SpillWarning, TuningError
from schedlang.host import VECTORS
from schedlang.runtime import c_toolchain
from schedlang.runtime.c_processors import foreign
from schedlang.runtime.c_program import SEAL
from schedlang.target_options import TRIPLES, own_triples
from tests.cross_programs import (
    ARM,
    WASM,
    Program,
    Scheduled,
    emulated,
    needs_qemu,
    needs_wasmtime,
    needs_zig,
    scheduled_cases,
)
from tests.fuzz.compare import compare
from tests.graphs import product

RNG = np.random.default_rng(0)
NESTS = 300


def tiled_product(target: sl.Target, n: int = 21, lanes: int = 8) -> Any:
    """Return a kernel with a parallel loop, a guard and vectors: A @ B."""
    A, B, C = product(n, 40, 33)
    s = sl.schedule(C)
    i, j = C.op.axis
    inner = s[C].split(j, factor=lanes)[1]
    s[C].reorder(C.op.reduce_axis[0], inner)
    s[C].vectorize(inner)
    s[C].parallel(i)
    return sl.build(s, [A, B, C], target=target)


def doubled(target: Any) -> Any:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[0])
    return sl.build(s, target=target)


def test_a_copy_for_another_processor_has_its_vectors() -> None:
    wide = sl.Target("c", triple="x86_64-linux-gnu", cpu="x86_64_v4")
    assert sl.Target(wide, triple=WASM, cpu="generic").vector_bytes == 16
    least = sl.Target(wide, cpu="x86_64")
    assert (least.vector_bytes, least.features) == (16, ("sse2",))
    assert sl.Target(least, features=["avx2"]).vector_bytes == 32
    assert sl.Target(wide) == wide


@pytest.mark.parametrize("triple", ["x86_64-linux-gnu.2.17", "aarch64-macos.12", "wasm32-wasip2"])
def test_versions_that_zig_would_honour_are_refused(triple: str) -> None:
    with pytest.raises(BuildError, match="choose one of"):
        sl.Target("c", triple=triple)


@pytest.mark.parametrize(
    ("given", "size", "count"),
    [
        ({"triple": ARM}, 16, 32),
        ({"triple": ARM, "cpu": "cortex_a76"}, 16, 32),
        ({"triple": ARM, "cpu": "neoverse-n2"}, 16, 32),
        ({"triple": ARM, "features": ["sve2"]}, 32, 32),
        ({"triple": "x86_64-linux-gnu"}, 16, 16),
        ({"triple": "x86_64-linux-musl", "cpu": "x86_64_v3"}, 32, 16),
        ({"triple": "x86_64-windows-gnu", "cpu": "znver4"}, 64, 32),
        ({"triple": "x86_64-macos", "features": ["avx2"]}, 32, 16),
        ({"triple": "x86_64-linux-gnu", "features": ["avxvnni"]}, 32, 16),
        ({"triple": "x86_64-linux-gnu", "features": ["avx512vnni"]}, 64, 32),
        ({"triple": "x86-64-linux-gnu", "features": ["avx10.2"]}, 64, 32),
        ({"triple": ARM, "features": ["sve2-aes"]}, 32, 32),
        ({"triple": WASM}, 16, 16),
    ],
)
def test_vectors_of_a_triple(given: dict[str, Any], size: int, count: int) -> None:
    target = sl.Target("c", **given)
    assert (target.vector_bytes, target.vector_registers) == (size, count)
    assert target.datapath_bytes == size and target.passes == 1
    assert sl.Target(target) == target


def test_each_triple_has_vectors() -> None:
    assert {triple.partition("-")[0] for triple in TRIPLES} == {*VECTORS}
    for triple in TRIPLES:
        assert doubled(sl.Target("c", triple=triple)).source


@pytest.mark.parametrize(
    ("text", "triple", "cpu", "features"),
    [
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", "aarch64-linux-gnu", "cortex_a76",
         ("neon",)),
        ("c -mtriple=arm64-none-linux-musl -mattr=+neon,+dotprod -device=arm_cpu", ARM, "",
         ("dotprod", "neon")),
        ("llvm -mtriple wasm32-unknown-wasi -keys=cpu -mattr=", WASM, "", ("simd128",)),
        ("c -mtriple=arm64-apple-darwin22.1 -mcpu=apple-m1", "aarch64-macos", "apple_m1",
         ("neon",)),
    ],
)  # fmt: skip
def test_target_strings_of_te(
    text: str, triple: str, cpu: str, features: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "platform", "linux")
    target = sl.Target(text)
    assert (target.kind, target.triple, target.cpu) == ("c", triple, cpu)
    assert target.features == features


REFUSALS = {
    "unknown triple": ({"triple": "aarch64-linux-mus"}, "did you mean 'aarch64-linux-musl'"),
    "a triple for a shell": ({"triple": f"{ARM}; true"}, "choose one of"),
    "a triple as an option": ({"triple": "-o"}, "choose one of"),
    "a processor alone": ({"triple": "aarch64"}, "aarch64 names no system; choose one of aarch"),
    "its other name": ({"triple": "arm64"}, "aarch64 names no system.*aarch64-macos$"),
    "Arm of 32 bits": ({"triple": "armv7-linux-gnueabihf"}, "no C is compiled for armv7; .*gnu$"),
    "RISC-V": ({"triple": "riscv64-linux-gnu"}, "no C is compiled for riscv64; .*windows-gnu$"),
    "x86 of 32 bits": ({"triple": "i686-linux-gnu"}, "no C is compiled for i386; .*windows-gnu$"),
    "a processor that is mistyped": ({"triple": "aarch46-macos"}, "did you mean 'aarch64-macos'"),
    "a cpu of 32 bits": ({"triple": "x86_64-linux-gnu", "cpu": "i386"}, "has no code of 64 bits"),
    "another of 32 bits": (
        {"triple": "x86_64-linux-gnu", "cpu": "pentium4"}, "pentium4 has no code of 64 bits",
    ),
    "no text": ({"triple": 64}, "choose one of"),
    "an empty part": ({"triple": "aarch64--"}, "choose one of"),
    "another system": ({"triple": "aarch64-freebsd"}, "choose one of"),
    "another kind": ({"kind": "cpu", "triple": ARM}, r'write Target\("c", triple='),
    "a GPU": ({"kind": "cuda", "triple": ARM}, r'write Target\("c", triple='),
    "a cpu alone": ({"cpu": "cortex_a76"}, "give the triple of the machine"),
    "unknown cpu": ({"triple": ARM, "cpu": "cortex_a79"}, "no such processor of aarch64; did you"),
    "a cpu of another family": ({"triple": WASM, "cpu": "cortex_a76"}, "no such processor of was"),
    "a cpu as an option": ({"triple": ARM, "cpu": "-o/tmp/x"}, "no such processor"),
    "a path as a cpu": ({"triple": ARM, "cpu": "../../x"}, "no such processor"),
    "a number as a cpu": ({"triple": ARM, "cpu": 76}, "no such processor"),
    "native": ({"triple": ARM, "cpu": "native"}, "native is this machine's processor"),
    "a feature of x86": ({"triple": ARM, "features": ["avx2"]}, "no feature 'avx2' of aarch64"),
    "a feature with a plus": ({"triple": ARM, "features": ["+sve2"]}, r"no feature '\+sve2'"),
    "a text of features": ({"triple": ARM, "features": "sve2"}, "features are a list"),
    "vectors of 24 bytes": ({"triple": ARM, "vector_bytes": 24}, "power of two"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_targets_that_are_refused(case: str) -> None:
    given, message = REFUSALS[case]
    with pytest.raises(BuildError, match=message):
        sl.Target(**{"kind": "c", **given})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("llvm -mtriple=wasm32-wasi -mcpu=cortex-a72", "no such processor of wasm32"),
        ("llvm -mtriple=wasm32-wasi -mattr=-simd128", "takes a feature from a processor"),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=neon", r"'neon' has no sign(?s:.*)-mattr=\+neon"),
        ("llvm -mtriple=aarch64-linux-mus", "^target 'llvm -m.*'aarch64-linux-musl'"),
        ("c -mtriple=riscv64-unknown-linux-gnu", "^target 'c -mtr.*no C is compiled for riscv64"),
        ("c -mtriple=aarch64-macos -mcpu=cortex-a79", "^target 'c -mtr.*no such processor of aar"),
        ("c -mtriple=wasm32-wasi -mattr=+avx2", "^target 'c -mtr.*no feature 'avx2' of wasm32"),
        ("c -mtriple=wasm32-wasi -mfloat-abi=soft", "unknown option '-mfloat-abi'"),
        ("cuda -mtriple=wasm32-wasi", "Leave -mtriple out"),
        ("cuda -host='llvm -mtriple=wasm32-wasi'", "called on this machine. Leave -mtriple out"),
    ],
)
def test_target_strings_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        sl.Target(text)


def test_a_kernel_for_a_triple_is_not_called() -> None:
    x = np.ones(64, "float32")
    for triple, where in ((ARM, "by qemu-aarch64"), (WASM, "by wasmtime"),
                          ("aarch64-macos", "run that there")):  # fmt: skip
        f = doubled(sl.Target("c", triple=triple))
        for view in ("asm", "llvm"):
            with pytest.raises(BuildError, match=f"{view} of kernel B for {triple}"):
                getattr(f, view)
        for call in (lambda f=f: f(x), f.compile, lambda f=f: f.bound(x, x.copy()),
                     lambda f=f: sl.evaluate(f, x), lambda f=f: f.profile(x)):  # fmt: skip
            with pytest.raises(CallError, match=rf"(?s)for {triple}.*f\.save.*{where}"):
                call()
    with pytest.raises(BuildError, match="none runs on this machine; leave out -mtriple"):
        sl.device("llvm -mtriple=wasm32-wasi")


def test_what_runs_here_is_not_for_a_triple(tmp_path: Path) -> None:
    target = sl.Target("c", triple=ARM)
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] * 2, name="B")
    with pytest.raises(TuningError, match="candidates run on this machine"):
        sl.autotune(B, target=target, trials=1)
    net = sl.network(B, target=target, name="doubled")
    calls = (
        lambda: net(np.ones(64, "float32")),
        lambda: sl.network(B, target=target, compile="now"),
        lambda: net.module.compile(),
    )
    for call in calls:
        with pytest.raises(CallError, match=r"(?s)for aarch64-linux-musl.*net\.save.*by qemu-aar"):
            call()
    with pytest.raises(BuildError, match="profile of network doubled"):
        net.profile(np.ones(64, "float32"))
    with pytest.raises(TuningError, match="candidates run on this machine"):
        net.tune(trials=1)
    with pytest.raises(BuildError, match="a network for aarch64-linux-musl: it is called"):
        sl.load(sl.network(B, target="cpu").save(tmp_path / "doubled"), target=target)
    with pytest.raises(BuildError, match="a traced function for aarch64-linux-musl"):
        sl.jit(lambda a: a + 1, target=target)(np.ones(4))
    # schedules are chosen for its vectors, and nothing runs
    assert "vectorize" in str(sl.autoschedule(B, target=target))


def test_the_absence_of_zig_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(c_toolchain, "find_spec", lambda name: None)
    f = doubled(sl.Target("c", triple=ARM))
    with pytest.raises(BuildError, match=r'^C for aarch64-linux-musl .* "schedlang\[ship\]"$'):
        f.save(tmp_path / "k.o")
    assert f.save(tmp_path / "k.c").exists()
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(BuildError, match=r"there is no C compiler: .*schedlang\[ship\]"):
        doubled("cpu").save(tmp_path / "k.o")


def test_libraries_that_a_triple_does_not_have(tmp_path: Path) -> None:
    for triple in (WASM, "x86_64-windows-gnu"):
        with pytest.raises(BuildError, match=rf"{triple} has no libraries that end with \.so"):
            doubled(sl.Target("c", triple=triple)).save(tmp_path / "k.so")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("made_for", "message"),
    [
        ("nehalem-9", "another processor"),
        ("wasm32-wasi +simd128", "wasm32-wasi, and this machine is"),
        ("{own} x86_64_v9+sse2", "another processor"),
        ("{own} +no-such-feature", "processors with no-such-feature"),
        ("{own} x86_64_v4+avx512f+nope", "processors with .*nope"),
    ],
)
def test_libraries_for_other_processors(made_for: str, message: str) -> None:
    assert re.search(message, foreign(made_for.format(own=own_triples()[0])))


def test_a_library_for_another_system_is_refused(tmp_path: Path) -> None:
    path = doubled("cpu").save(tmp_path / "k.so")
    content, seal, end = path.read_bytes().rpartition(SEAL)
    for other in ("aarch64-macos apple_m1+neon", "wasm32-wasi"):
        path.write_bytes(content + seal + end.split(b" ")[0] + b" " + other.encode())
        with pytest.raises(BuildError, match=f"it was made for {other.split()[0]}, and this mach"):
            sl.load_module(path)


def test_the_header_says_how_it_is_built(tmp_path: Path) -> None:
    target = sl.Target("c", triple=ARM, cpu="cortex_a76")
    f = tiled_product(target)
    source = f.save(tmp_path / "k.c").read_text()
    told = (tmp_path / "k.h").read_text()
    assert "input  A: float32[21, 33]" in told and "output C: float32[21, 40]" in told
    assert "-target aarch64-linux-musl" in told and "-mcpu=cortex_a76+neon" in told
    assert "-fwrapv" in told and "-fopenmp" not in told and "-march" not in told
    assert "-fsve" not in told and "run on one thread, or on the threads of a host" in told
    assert max(map(len, told.split("#ifndef")[0].splitlines())) <= 100
    assert source.count("has 8 lanes, and a register of 16 bytes has 4: it is") == 1
    assert source.index("/* Tensors of DLPack. */") < source.index("/* Vectors and other functions")
    assert "a register of" not in tiled_product("cpu").save(tmp_path / "k.c").read_text()
    wide = tiled_product(sl.Target("c", triple=ARM, features=["sve2"]))
    assert "lanes, and a register" not in wide.save(tmp_path / "k.c").read_text()
    assert "-msve-vector-bits=256" in (tmp_path / "k.h").read_text()


def test_a_tile_that_costs_there_warns() -> None:
    A, B, C = product(64, 64, 64)
    s = sl.schedule(C)
    io, jo, ii, ji = s[C].tile(*C.op.axis, 4, 16)
    s[C].reorder(io, jo, C.op.reduce_axis[0], ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    with pytest.warns(SpillWarning, match="there are 16 of 128 bits"):
        sl.build(s, [A, B, C], target=sl.Target("c", triple=WASM))


def test_half_precision_without_the_type_of_a_compiler(tmp_path: Path) -> None:
    """WebAssembly has no _Float16: the conversions in integers give NumPy's results."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    text = header("c_half.h")
    start = text.index("#if defined(__FLT16_MANT_DIG__)")
    soft = text[text.index("#else", start) : text.index("#endif", start)].removeprefix("#else")
    (tmp_path / "half.c").write_text(
        "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n"
        f"#define SL static inline\ntypedef float sl_f16;\n{soft}\n"
        "void up(const uint16_t *a, float *out, long n) {\n"
        "  for (long i = 0; i < n; i++) out[i] = sl_half_get(a[i]);\n}\n"
        "void down(const double *a, float *out, long n) {\n"
        "  for (long i = 0; i < n; i++) out[i] = sl_half_from_f64(a[i]);\n}\n"
    )
    library = tmp_path / "half.so"
    line = ["cc", "-O1", "-shared", "-fPIC", str(tmp_path / "half.c"), "-lm", "-o", str(library)]
    subprocess.run(line, check=True)
    half = ctypes.CDLL(str(library))

    def ran(name: str, a: np.ndarray) -> np.ndarray:
        out = np.empty(a.size, "float32")
        given = (ctypes.c_void_p(x.ctypes.data) for x in (a, out))
        getattr(half, name)(*given, ctypes.c_long(a.size))
        return out

    every = np.arange(2**16, dtype="uint16")
    np.testing.assert_array_equal(ran("up", every), every.view("float16").astype("float32"))
    near = every.view("float16").astype("float64")
    near = near[np.isfinite(near)]
    between = np.concatenate([near * scale for scale in (1, 1 + 2**-11, 1 - 2**-12, 1 + 2**-40)])
    random = RNG.standard_normal(100_000) * 2.0 ** RNG.integers(-30, 20, 100_000)
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 65519.999, 65520, 1e300])
    for a in (between, random, special):
        with np.errstate(over="ignore"):
            wanted = a.astype("float16").astype("float32")
        np.testing.assert_array_equal(ran("down", a), wanted)
        np.testing.assert_array_equal(np.signbit(ran("down", a)), np.signbit(wanted))


def zig_that_fails(*said: str) -> list[str]:
    """Return a command that writes each text on a line of its own, and fails."""
    text = "import sys; print(*sys.argv[1:2], sep='\\n', file=sys.stderr); sys.exit(3)"
    return [sys.executable, "-c", text, "\n".join(said)]


def test_errors_of_zig_are_whole_and_the_file_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = ["warning: one", "k.c:9: error: two", *(f"note: line {n}" for n in range(200))]
    monkeypatch.setattr(c_toolchain, "zig", lambda tool: zig_that_fails(*said))
    f = doubled(sl.Target("c", triple=ARM))
    with pytest.raises(BuildError) as raised:
        f.save(tmp_path / "k.o")
    message = str(raised.value)
    assert "\n".join(said) in message
    kept = re.search(r"refuses (\S+k\.c):", message)
    assert kept and "run_B_kernel" in Path(kept[1]).read_text()
    shutil.rmtree(Path(kept[1]).parent)
    assert not any(tmp_path.iterdir())


def test_a_compiler_gets_arguments_and_no_shell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = []

    def ran(line: Any, **options: Any) -> Any:
        assert not options.get("shell")
        lines.append(line)
        if "-o" in line:
            Path(line[line.index("-o") + 1]).write_bytes(b"")
        return subprocess.CompletedProcess(line, 0, b"clang", b"")

    folder = tmp_path / "a folder; touch x"
    folder.mkdir()
    monkeypatch.setattr(c_toolchain, "zig", lambda tool: ["zig", tool])
    monkeypatch.setattr(subprocess, "run", ran)
    target = sl.Target("c", triple=ARM, cpu="cortex_a76", features=["dotprod"])
    f = doubled(target)
    lines.clear()
    f.save(folder / "k.a")
    line = next(line for line in lines if line[:2] == ["zig", "cc"] and "-c" in line)
    at = line.index("-target")
    assert line[at : at + 3] == ["-target", ARM, "-mcpu=cortex_a76+dotprod+neon"]
    assert ["zig", "ar", "rcs", str(folder / "k.a")] == lines[-1][:4]


@pytest.fixture(scope="module")
def cases() -> list[Scheduled]:
    return list(itertools.islice(scheduled_cases("cross"), NESTS + 40))


def check_random_schedules(cases: list[Scheduled], target: sl.Target, folder: Path) -> None:
    program, added = Program(folder, target), list[Scheduled]()
    refused = 0
    for case in cases:
        if len(added) == NESTS:
            break
        try:
            program.add(case.built(target), case.args)
            added.append(case)
        except BuildError as error:
            # an instruction of the fuzzer's has a form for C alone
            assert re.search("no form|cannot hold|cannot write", str(error)), error
            refused += 1
    assert len(added) == NESTS and refused < 40
    for case, outputs in zip(added, program.run()):
        compare(case.nest, outputs, case.wanted, case.case.graph.terms, case.case.key)


@pytest.mark.slow
@needs_zig
@needs_qemu
@pytest.mark.filterwarnings("ignore")
def test_random_schedules_on_arm(cases: list[Scheduled], tmp_path: Path) -> None:
    check_random_schedules(cases, sl.Target("c", triple=ARM), tmp_path)


@pytest.mark.slow
@needs_zig
@needs_wasmtime
@pytest.mark.filterwarnings("ignore")
def test_random_schedules_in_webassembly(cases: list[Scheduled], tmp_path: Path) -> None:
    check_random_schedules(cases, sl.Target("c", triple=WASM), tmp_path)


CALLER = """
#include <stdio.h>
#include "k.h"
static float a[21 * 33], b[33 * 40], c[21 * 40];
int main(void) {
  if (fread(a, 4, 21 * 33, stdin) != 21 * 33 || fread(b, 4, 33 * 40, stdin) != 33 * 40) return 1;
  return k(a, b, c) || fwrite(c, 4, 21 * 40, stdout) != 21 * 40;
}
"""


def program_by_hand(target: sl.Target, suffix: str, folder: Path) -> Path:
    """Return a program as a person builds it: by the line of the header, with a saved kernel."""
    saved = tiled_product(target).save(folder / f"k{suffix}")
    (folder / "main.c").write_text(CALLER)
    lines = (folder / "k.h").read_text().partition("Build:\n")[2].split("\n")
    end = next(n for n, line in enumerate(lines) if not line.endswith("\\"))
    words = " ".join(line.rstrip("\\") for line in lines[: end + 1]).split()
    words = [saved.name if word == "k.c" else word for word in words]
    assert words[:3] == ["python", "-m", "ziglang"]
    subprocess.run([sys.executable, *words[1:], "-o", "run"], cwd=folder, check=True)
    return folder / "run"


def check_program(target: sl.Target, suffix: str, folder: Path) -> None:
    check_product(target.triple, program_by_hand(target, suffix, folder))


def check_product(triple: str, program: Path) -> None:
    a, b = RNG.random((21, 33)).astype("float32"), RNG.random((33, 40)).astype("float32")
    said = emulated(triple, program, a.tobytes() + b.tobytes())
    np.testing.assert_allclose(np.frombuffer(said, "float32").reshape(21, 40), a @ b, rtol=1e-5)


@pytest.mark.slow
@needs_zig
@needs_qemu
@pytest.mark.parametrize("suffix", [".c", ".a"])
def test_a_program_on_arm(suffix: str, tmp_path: Path) -> None:
    check_program(sl.Target("c", triple=ARM), suffix, tmp_path)


@pytest.mark.slow
@needs_zig
@needs_wasmtime
def test_a_program_in_webassembly(tmp_path: Path) -> None:
    check_program(sl.Target("c", triple=WASM), ".o", tmp_path)


@pytest.mark.slow
@needs_zig
@needs_qemu
def test_vectors_of_sve2(tmp_path: Path) -> None:
    """Code for registers of 32 bytes, which the emulated processor has."""
    target, base = sl.Target("c", triple=ARM, features=["sve2"]), sl.Target("c", triple=ARM)
    tiled_product(target).save(tmp_path / "k.o")
    source = tiled_product(target).save(tmp_path / "k.c")
    (tmp_path / "main.c").write_text(CALLER)
    # the C library of each set of features takes zig a minute
    for given, files in ((target, [source, "-S", "-o", "k.s"]),
                         (base, ["main.c", "k.o", "-lm", "-o", "run"])):  # fmt: skip
        tools = c_toolchain.toolchain(given)
        line = [*tools.command, *tools.options(False), *map(str, files)]
        subprocess.run(line, cwd=tmp_path, check=True)
    assert re.search(r"\bfml[as]\s+z\d+\.s", (tmp_path / "k.s").read_text())
    check_product(ARM, tmp_path / "run")


EXAMPLE = Path(__file__).parent.parent / "examples" / "12_train_digits.py"
MOST_BYTES = 300_000


@pytest.mark.slow
@needs_zig
@pytest.mark.parametrize(
    ("triple", "name"),
    [pytest.param(ARM, "digits", marks=needs_qemu),
     pytest.param(WASM, "digits.wasm", marks=needs_wasmtime)],
)  # fmt: skip
def test_the_digits_of_a_network_for_a_triple(triple: str, name: str, tmp_path: Path) -> None:
    """Lesson 12 saves its network, and ``make`` the program, which sees what one of here sees."""
    datasets = pytest.importorskip("sklearn.datasets", reason="the digits are scikit-learn's")
    seen = {}
    for target, program in (("", "digits"), (triple, name)):
        folder = tmp_path / f"for {target}"
        said = subprocess.run(
            [sys.executable, EXAMPLE, folder, target], capture_output=True, text=True
        )
        assert said.returncode == 0, said.stderr
        python = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        made = subprocess.run(["make"], cwd=folder, capture_output=True, text=True, env=python)
        assert made.returncode == 0 and not made.stderr, made.stderr
        x, y = datasets.load_digits(return_X_y=True)
        (x / 16).astype("float32").tofile(folder / "pictures")
        args = ["digits.weights", "pictures", "-"]
        if target:
            text = emulated(triple, folder / program, args=args)
        else:
            text = subprocess.run(["./digits", *args], cwd=folder, capture_output=True).stdout
        seen[target] = np.array(text.split(), int)
        sizes = [(folder / f).stat().st_size for f in (program, "digits.weights")]
        assert sum(sizes) < MOST_BYTES
        assert len((folder / "main.c").read_text().splitlines()) <= 40
    assert seen[""].shape == y.shape and (seen[""] == y).mean() > 0.97
    np.testing.assert_array_equal(seen[triple], seen[""])


@pytest.mark.slow
@needs_zig
def test_a_library_of_zig_is_loaded_on_its_machine(tmp_path: Path) -> None:
    own = own_triples()[0]
    if own not in TRIPLES:
        pytest.skip("no triple names this machine")
    a, b = RNG.random((21, 33)).astype("float32"), RNG.random((33, 40)).astype("float32")
    path = tiled_product(sl.Target("c", triple=own)).save(tmp_path / "k.so")
    np.testing.assert_allclose(sl.load_module(path)(a, b), a @ b, rtol=1e-5)


@pytest.mark.slow
@needs_zig
def test_zig_where_the_system_has_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{sys.executable} -m ziglang cc")
    a, b = RNG.random((21, 33)).astype("float32"), RNG.random((33, 40)).astype("float32")
    f = tiled_product(sl.Target("c"))
    with pytest.warns(CompilerWarning, match="its parallel loops run on one thread"):
        np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)
