"""C source of functions in emitted files of C: names of its own, and what they may contain."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.codegen.c_externs import file_scope
from schedlang.errors import ComputeError
from tests.conftest import Golden
from tests.marks import slow_but

X = np.arange(1, 6, dtype="float32")


def function(expression: str, name: str = "B", before: str = "", kind: str = "float") -> str:
    return f"""{before}
int {name}(const {kind} *a, {kind} *out, const int64_t *sizes) {{
    for (int64_t i = 0; i < sizes[0]; i++) out[i * sizes[3]] = {expression};
    return 0;
}}
"""


def chain(*sources: str, dtype: str = "float32", name: str = "B") -> sl.Tensor:
    """Return the sum of what each function computes from what the one before it does."""
    tensors = [sl.placeholder((5,), dtype, name="A")]
    for source in sources:
        tensors.append(sl.extern((5,), tensors[-1:], source, name=name))
    added = tensors[1:]

    def total(i: Any) -> Any:
        value = added[0][i]
        for tensor in added[1:]:
            value = value + tensor[i]
        return value

    return sl.compute((5,), total, name="C")


def in_c(C: sl.Tensor, **options: Any) -> Any:
    f = sl.build(sl.schedule(C), target="c", **options)
    # no function is called by its address
    assert "(int (*)(" not in f.source
    return f


def test_a_function_in_the_file(golden: Golden) -> None:
    helper = "#define TWICE 2\nstatic float scaled(float x) { return x * TWICE; }"
    f = in_c(chain(function("scaled(a[i])", before=helper)))
    np.testing.assert_array_equal(f(X), X * 2)
    golden(f.source[f.source.index("#include <stdbool.h>") :])


def test_an_emitted_file_stands_alone(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on the path")
    f = in_c(chain(function("a[i] + 1")))
    (tmp_path / "k.c").write_text(f.source)
    line = [compiler, "-std=c11", "-Wall", "-Werror", "-Wno-unused-function", "-fopenmp", "-c"]
    ran = subprocess.run(
        [*line, "-D_POSIX_C_SOURCE=200809L", "-o", str(tmp_path / "k.o"), str(tmp_path / "k.c")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert not ran.returncode, ran.stderr


COLLISIONS = {
    "helpers": ("static float f(float x) { return x + 1; }",
                "static double f(double x) { return x * 3; }", "f(a[i])", "f(a[i])"),
    "macros and constants": ("#define K 3", "enum { K = 5 };", "a[i] * K", "a[i] + K"),
    "types": ("typedef struct { float x; } T; static T t = {2};",
              "struct T { double x; }; typedef int t;",
              "a[i] * t.x", "(((struct T){a[i]}).x + (t)1.5)"),
    "pointers to functions": ("static float one(float x) { return x + 1; }\n"
                              "static float (*call)(float) = one;",
                              "static float one = 1; static float call[2] = {2, 3};",
                              "call(a[i])", "a[i] * call[0] + one"),
    "arrays, strings and comments": (
        "/* static int f; } */ static const char text[] = \"} static float f(float x) {\"; // {",
        "static float text(float x) { /* } */ return x; }", "a[i] + (text[0] == '}')",
        "text(a[i]) * 2"),
    "two declarators": ("static float p = 1, *q = &p, r[2] = {1, 2};",
                        "static float q(float x) { float r = x, p = 2; return r * p; }",
                        "a[i] + *q + r[1]", "q(a[i])"),
    "names of the kernel": ("static float C_kernel = 1, sl_f32 = 2, sl_extern_B = 4, A = 8;",
                            "static float functions(float C) { return C; }",
                            "a[i] + C_kernel + sl_f32 + sl_extern_B + A", "functions(a[i])"),
    "headers": ("#include <string.h>\n#include <stdio.h>", "#include <string.h>\n"
                "static float copy(float x) { float y; memcpy(&y, &x, sizeof y); return y; }",
                "(float)strlen(\"abc\") + a[i]", "copy(a[i])"),
}  # fmt: skip


@pytest.mark.parametrize(
    "case", slow_but(["helpers", "pointers to functions", "names of the kernel"], COLLISIONS)
)
def test_names_of_two_sources(case: str) -> None:
    before, other_before, one, two = COLLISIONS[case]
    C = chain(function(one, before=before), function(two, before=other_before))
    # each function by itself, in a library of its own
    want = sl.build(sl.schedule(C))(X)
    np.testing.assert_array_equal(in_c(C)(X), want)
    np.testing.assert_array_equal(sl.reference(C)(X), want)


def test_one_source_for_two_stages() -> None:
    source = function("a[i] + 1")
    f = in_c(chain(source, source))
    np.testing.assert_array_equal(f(X), 2 * X + 3)


NAMES = ["main", "printf", "memcpy", "C_kernel", "sl_f32", "functions", "M_PI", "s", "run_C"]


@pytest.mark.parametrize("name", slow_but(["main", "C_kernel"], NAMES))
def test_names_of_functions(name: str) -> None:
    f = in_c(chain(function("a[i] * 2", name=name), name=name))
    np.testing.assert_array_equal(f(X), X * 2)


@pytest.mark.parametrize("name", ["int", "exp", "bool"])
def test_names_that_c_has(name: str) -> None:
    with pytest.raises(ComputeError, match=f"sl.extern for {name}: the C compiler refuses"):
        chain(function("a[i]", name=name), name=name)


@pytest.mark.parametrize(
    "dtype, kind",
    [("bool", "bool"), ("int8", "int8_t"), ("uint64", "uint64_t"), ("float64", "double")],
)
def test_dtypes(dtype: str, kind: str) -> None:
    x = np.array([0, 1, 1, 0, 1], dtype)
    A = sl.placeholder((5,), dtype, name="A")
    B = sl.extern((5,), [A], function("!a[i]", kind=kind), name="B")
    np.testing.assert_array_equal(in_c(B)(x), x == 0)


def test_fastmath_leaves_the_source_alone() -> None:
    """A sum that fastmath reorders to zero keeps its rest in the user's source."""
    source = function("(a[i] + 1e8f) - 1e8f - a[i]")
    C = chain(source)
    want = (X + np.float32(1e8)) - np.float32(1e8) - X
    assert want.any()
    f = in_c(C, fastmath=True)
    np.testing.assert_array_equal(f(X), want)


def test_addresses_stay_addresses() -> None:
    address = sl.extern((5,), [sl.placeholder((5,))], function("a[i] + 1"), name="B").op.function
    A = sl.placeholder((5,), name="A")
    f = sl.build(sl.schedule(sl.extern((5,), [A], address.call, name="B")), target="c")
    assert "(int (*)(" in f.source and "sl_extern" not in f.source
    np.testing.assert_array_equal(f(X), X + 1)


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_functions_of_a_library_keep_their_names(target: str) -> None:
    declared = "double sqrt(double);\nextern int abs(int);"
    source = function("(float)sqrt(a[i]) + abs(-2)", before=declared)
    f = sl.build(sl.schedule(chain(source)), target=target)
    np.testing.assert_allclose(f(X), np.sqrt(X) + 2, rtol=1e-6)


@pytest.mark.parametrize(
    "source, names",
    [
        ("int f(int), g; extern double h[3];", ["g"]),
        ("int f(int); extern int x; int x = 3; int f(int a) { return a; }", ["f", "x"]),
        ("static int (*table[2])(int) = {0, 0}; int64_t (*f)(float);", ["table", "f"]),
        ("typedef float (*call)(float), (*array)[4];", ["call", "array"]),
        ("static float *rows(void) { return 0; } static long long *p, q;", ["rows", "p", "q"]),
        ("struct s { struct inner { int deep; } a; }; union u { int b; };", ["s", "u"]),
        ("enum e { ONE, TWO = ONE + 1 } last;", ["e", "ONE", "TWO", "last"]),
        ("static inline __attribute__((noinline)) int f(void) { int x = ({ 3; }); return x; }",
         ["f"]),
        ("_Static_assert(sizeof(int) == 4, \"four\");", []),
    ],
)  # fmt: skip
def test_names_at_file_scope(source: str, names: list[str]) -> None:
    assert file_scope(source) == names
