"""Files of C that GCC and Clang compile without a warning."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.runtime.c_toolchain import toolchain
from tests.cross_programs import ARM, needs_zig
from tests.test_c_program import COMPILER, scaled_product
from tests.test_c_target import in_lanes

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
WARNINGS = ("-Wall", "-Wextra", "-pedantic", "-Werror")
DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64", "uint64"]
DTYPES_OF_MATH = ["float16", "bfloat16", "float32", "float64"]


def extremes(a: Any, b: Any) -> Any:
    return sl.max(sl.min(a, b), a) + sl.select(a > b, sl.abs(a), b)


def math(a: Any, b: Any) -> Any:
    return sl.exp(sl.abs(a)) * sl.sigmoid(b) + sl.tanh(a) + sl.sqrt(a) + sl.floor(b) % a


def bits(a: Any, b: Any) -> Any:
    return sl.cast(((a > b) & (a < 9)) | (a == b), a.dtype) + (a & b | 3)


def lanes(function: Callable[[Any, Any], Any], dtype: str) -> Any:
    """Return a kernel of vectors with a tail."""
    A, B = (sl.placeholder((37,), dtype, name=name) for name in "AB")
    C = sl.compute((37,), lambda i: function(A[i], B[i]), name="C")
    return sl.build(in_lanes(C, 16), [A, B, C])


def sizes() -> Any:
    A = sl.placeholder((sl.var("n"), 9), name="A")
    j = sl.reduce_axis(9, name="j")
    best = sl.compute((A.shape[0],), lambda i: sl.argmax(A[i, j], axis=j), name="best")
    return sl.build(sl.schedule(best), [A, best])


def largest() -> Any:
    """Return a kernel with an array that statements only fill: the largest values."""
    A, j = sl.placeholder((12, 9), name="A"), sl.reduce_axis(9, name="j")
    return sl.build(sl.schedule(sl.compute((12,), lambda i: sl.argmax(A[i, j], axis=j))))


def streamed() -> Any:
    """Return a kernel that pads rows, and whose stores bypass the caches."""
    A = sl.placeholder((64, 256), name="A")
    B = sl.compute(
        (66, 258),
        lambda i, j: sl.if_then_else(
            (i >= 1) & (i < 65) & (j >= 1) & (j < 257), A[i - 1, j - 1], 0
        ),
        name="B",
    )
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[1])
    s[B].pragma(B.op.axis[0], "nontemporal")
    return sl.build(s)


def network(folder: Path) -> Path:
    """Save a network, and return its file of C."""
    x, w = sl.placeholder((4, 24), name="x"), sl.placeholder((24, 5), name="w")
    y = sl.topi.nn.relu(x @ w)
    net = sl.network(y, {w: np.ones((24, 5), "float32")}, name="net")
    return net.save(folder / "net", target="c") / "net.c"


def files(folder: Path) -> list[Path]:
    kernels = {f"extremes_{d}": lanes(extremes, d) for d in DTYPES}
    kernels |= {f"math_{d}": lanes(math, d) for d in DTYPES_OF_MATH}
    kernels |= {"bits": lanes(bits, "int32"), "hosted": scaled_product(), "sizes": sizes()}
    kernels |= {"largest": largest(), "streamed": streamed()}
    return [*(f.save(folder / f"{name}.c") for name, f in kernels.items()), network(folder)]


@pytest.mark.slow
@needs_compiler
def test_gcc_gives_no_warning(tmp_path: Path) -> None:
    for path in files(tmp_path):
        command = [str(COMPILER), "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O2", "-march=native"]
        _compiled([*command, "-fopenmp"], path)


@pytest.mark.slow
@needs_zig
def test_clang_gives_no_warning(tmp_path: Path) -> None:
    tools = toolchain(sl.Target("c", triple=ARM, cpu="generic"))
    for path in files(tmp_path):
        _compiled([*tools.command, *tools.options(False)], path)
    # x86 has instructions of its own for stores that bypass the caches
    tools = toolchain(sl.Target("c", triple="x86_64-linux-musl", cpu="haswell"))
    path = streamed().save(tmp_path / "x86.c")
    assert "sl_vstore_stream" in path.read_text()
    _compiled([*tools.command, *tools.options(False)], path)


def _compiled(command: list[str], path: Path) -> None:
    ran = subprocess.run(
        [*command, *WARNINGS, "-c", str(path), "-o", str(path.with_suffix(".o"))],
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, f"{path.name}\n{ran.stderr}"
