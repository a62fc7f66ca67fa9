"""The table of math functions: what is written from it, and a new function as one more row."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import schedlang as sl
from schedlang import topi
from schedlang.codegen.c_headers import has_function, header
from schedlang.codegen.c_values import TAGS
from schedlang.compute import functions
from schedlang.expr.functions import FUNCTIONS, INTRINSICS, Function, definitions

PACKAGE = Path(sl.__file__).parent
STUB, TOPI_STUB = (PACKAGE / p / "functions.pyi" for p in ("compute", "tvm/topi"))
REFERENCE = PACKAGE.parent / "docs" / "reference"
LANGUAGE, TOPI = REFERENCE / "language.md", REFERENCE / "topi.md"
TOPI_BEGIN, TOPI_END = "| functions of elements | ", ", `negative`"
BEGIN, END = "| function | returns | on expressions also |\n", "\n\n"
PUBLIC = [f for f in FUNCTIONS.values() if f.returns]


def stub(module: ModuleType, result: str, imports: str) -> str:
    """Return what type checkers see of a module of functions that rows define."""
    listed = "\n".join(f'    "{name}",' for name in module.__all__)
    lines = ['"""Written from the table of functions by tests/test_functions.py."""', "",
             imports, f"__all__ = [\n{listed}\n]", ""]  # fmt: skip
    for name in module.__all__:
        operands = "x: Any" if FUNCTIONS[name].arity == 1 else "x: Any, y: Any"
        lines.append(f"def {name}({operands}) -> {result}: ...")
    return "\n".join(lines) + "\n"


def table() -> str:
    """Return the rows of the table of functions in docs/reference/language.md."""
    def line(row: Function) -> str:
        operands = "x" if row.arity == 1 else "x, y"
        returns = row.returns.replace("``", "`")
        also = f"`{row.spelled}`" if row.ufunc else ""
        return f"| `sl.{row.name}({operands})` | {returns} | {also} |"

    return "\n".join(["|---|---|---|", *map(line, PUBLIC)])


def check_written(path: Path, wanted: str, request: pytest.FixtureRequest) -> None:
    """Check the text of a file; ``--update-golden`` writes it anew."""
    if request.config.getoption("--update-golden"):
        path.write_text(wanted, encoding="utf-8", newline="\n")
    else:
        same = path.read_text(encoding="utf-8") == wanted
        assert same, "a row changed: run this test with --update-golden"


def test_the_stubs_are_written_from_the_table(request: pytest.FixtureRequest) -> None:
    check_written(STUB, stub(functions, "Any", "from typing import Any\n"), request)
    imports = """from collections.abc import Callable
from typing import Any

from schedlang.compute.tensor import Tensor
"""
    made = stub(topi.functions, "Tensor", imports)
    made += "def function(\n    name: str, value: Callable[[Any], Any], returns: str\n"
    check_written(TOPI_STUB, made + ") -> Callable[[Any], Tensor]: ...\n", request)


def test_the_documents_are_written_from_the_table(request: pytest.FixtureRequest) -> None:
    before, begin, rest = LANGUAGE.read_text(encoding="utf-8").partition(BEGIN)
    check_written(LANGUAGE, before + begin + table() + rest[rest.index(END) :], request)
    before, begin, rest = TOPI.read_text(encoding="utf-8").partition(TOPI_BEGIN)
    listed = ", ".join(f"`{name}`" for name in sorted(topi.functions.__all__))
    check_written(TOPI, before + begin + listed + rest[rest.index(TOPI_END) :], request)


def test_the_files_that_read_rows_are_listed() -> None:
    text = (PACKAGE / "expr" / "functions.py").read_text("utf-8")
    listed = re.findall(r"``([\w/]+\.py)``", text.partition('"""\n\nfrom')[0])
    assert len(listed) > 10
    for name in listed:
        assert "schedlang.expr.functions import" in (PACKAGE / name).read_text("utf-8"), name


# --- the code of a function

INTRINSIC = re.compile(r"^@intrinsic.*\ndef (\w+)\(", re.M)


@cache
def intrinsics(folder: str) -> set[str]:
    """Return the names of the intrinsics in a folder and above it, by hand or from rows.

    They are read as text, since no module can be imported that lacks one of its names.
    """
    names: set[str] = set()
    root = PACKAGE / "intrinsics"
    for path in (*root.glob("*.py"), *(root / folder).glob("*.py")):
        names |= {*INTRINSIC.findall(path.read_text("utf-8"))}
        names |= {*definitions(path.relative_to(root).with_suffix("").as_posix())}
    return names


def is_in_c(row: Function) -> bool:
    """Return whether a kernel in C can call a function of the helpers, or of C's library."""
    dtype = row.called.partition("_")[2]
    if row.rule == "bits":
        return f"SL_BITS({TAGS[dtype]}, " in header("c_helpers.h")
    if row.rule == "saturated":
        return f"SL_SATURATED({dtype}, " in header("c_helpers.h")
    if row.rule == "single":
        return f" sl_{row.called}_f32(" in header("c_helpers.h")
    return bool(row.library) or has_function(row.called)


def forgotten(row: Function) -> list[str]:
    """Return the places that lack what the code of a function needs."""
    places = []
    if not (row.value or row.ufunc or row.library):
        places.append("a `value` in its row of expr/functions.py")
    for folder, module in (("cpu", "cpu/vmath.py"), ("gpu", "gpu/libdevice.py")):
        if row.called not in intrinsics(folder):
            place = f"by hand in intrinsics/{module}" if row.own_cpu else "by a field of its row"
            places.append(f"an intrinsic, {place}")
    if not is_in_c(row):
        places.append(f"sl_{row.called}_##T in codegen/c_helpers.h")
    text = Path(__file__).with_name("exhaustive_math.py").read_text("utf-8")
    if row.own_cpu and not row.library and f'"{row.called}": ' not in text:
        places.append("its true value in tests/exhaustive_math.py")
    return places


def test_every_function_has_its_code_on_every_target() -> None:
    lacking = {row.called: places for row in INTRINSICS.values() if (places := forgotten(row))}
    assert not lacking, f"these functions lack what docs/inside/architecture.md lists: {lacking}"


def test_what_a_function_lacks_is_named() -> None:
    assert forgotten(Function("sech", "float", own_cpu=True)) == [
        "a `value` in its row of expr/functions.py",
        "an intrinsic, by hand in intrinsics/cpu/vmath.py",
        "an intrinsic, by hand in intrinsics/gpu/libdevice.py",
        "sl_sech_##T in codegen/c_helpers.h",
        "its true value in tests/exhaustive_math.py",
    ]
    # C has no such function, and no field says how LLVM computes it
    assert forgotten(Function("sech", "float", ufunc="sech")) == [
        "an intrinsic, by a field of its row",
        "an intrinsic, by a field of its row",
        "sl_sech_##T in codegen/c_helpers.h",
    ]


# --- a new function

ROW = """
    Function(
        "lgamma", "float", "the logarithm of the magnitude of the gamma function of ``x``",
        library="lgamma", latex=r"\\log\\left|\\Gamma\\left(@\\right)\\right|",
    ),
"""
WITH_ROW = f'''
import sys
from importlib.machinery import PathFinder, SourceFileLoader

class WithRow(SourceFileLoader):
    """A loader of the table of functions with one more row."""

    def get_code(self, name):
        text = self.get_data(self.path).decode()
        assert text.count("_ROWS = (") == 1
        text = text.replace("_ROWS = (", "_ROWS = (" + {ROW!r})
        return self.source_to_code(text, self.path)

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "schedlang.expr.functions":
            return None
        found = PathFinder.find_spec(name, path)
        found.loader = WithRow(name, found.origin)
        return found

sys.meta_path.insert(0, Finder)
import numpy as np
import schedlang as sl

X = sl.placeholder((16,), name="X")
Y = sl.compute((16,), lambda i: sl.lgamma(X[i]), name="Y")
x = np.linspace(0.1, 7, 16, dtype="float32")
'''


def run_with_row(script: str, folder: Path) -> None:
    """Run a script in a process where the table of functions has one more row."""
    source = WITH_ROW + textwrap.dedent(script)
    variables = {**os.environ, "SCHEDLANG_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, env=variables, cwd=folder
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_function_is_one_row(tmp_path: Path) -> None:
    """Its values, its text, its dtypes, its dialect and its refusals follow from the row."""
    run_with_row(
        r"""
        from mpmath import loggamma
        from schedlang.intrinsics import cpu

        want = [float(loggamma(float(v)).real) for v in x]
        f = sl.build(sl.schedule(Y), target="python")
        for got in (sl.reference(Y)(x), f(x), sl.reference(sl.lgamma(X))(x)):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)
        assert "lgamma(load(X, i))" in f.source, f.source
        assert "Y[i] = lgamma(X[i])" in str(sl.schedule(Y))
        assert Y.latex() == r"Y_{i} = \log\left|\Gamma\left(X_{i}\right)\right|", Y.latex()
        assert sl.lgamma(sl.const(3, "int32")).dtype == "float64"
        assert "lgamma" in sl.__all__ and "lgamma" in cpu.__all__ and cpu.lgamma.__doc__
        assert "gamma function" in sl.lgamma.__doc__
        assert sl.cost(Y).flops == 16
        try:
            sl.gradient(np.sum(Y), [X])
            raise SystemExit("lgamma has no derivative")
        except sl.errors.SchedlangError as error:
            assert "lgamma" in str(error), error
        """,
        tmp_path,
    )


@pytest.mark.slow
def test_a_function_is_one_row_on_every_target(tmp_path: Path) -> None:
    run_with_row(
        r"""
        import runpy
        from mpmath import loggamma

        want = [float(loggamma(float(v)).real) for v in x]
        for target in ("cpu", "c", "cuda-emulator"):
            for lanes in (0, 8):
                s = sl.schedule(Y)
                axis = s[Y].op.axis[0]
                if target == "cuda-emulator":
                    s[Y].bind(axis, "threadIdx.x")
                elif lanes:
                    s[Y].vectorize(s[Y].split(axis, factor=lanes)[1])
                f = sl.build(s, target=target)
                np.testing.assert_allclose(f(x), want, rtol=1e-6, atol=1e-7)
                if target == "cpu":
                    f.save("kernel.py")
                    got = np.empty_like(x)
                    runpy.run_path("kernel.py")["Y"](x, got)
                    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)
                if target == "cuda-emulator":
                    np.testing.assert_allclose(f.simulate(x), want, rtol=1e-6, atol=1e-7)
        """,
        tmp_path,
    )
