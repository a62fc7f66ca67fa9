"""Kernel files are cached on disk, and bundled files run without this package."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from schedlang import intrinsics as intrinsics_folder
from schedlang.intrinsics import cpu as intrinsics
from schedlang.intrinsics.dialect import GPU_NAMES
from schedlang.runtime.bundle import (
    DEVICE_MODULES,
    DEVICE_PACKAGE,
    bundle,
    declaration,
    read_library,
)

ROOT = Path(intrinsics.__file__).parents[3]

KERNEL = '''
"""A kernel file."""

import numba
from schedlang.intrinsics.cpu import (
    broadcast, exp, float32, half_from, heap_array, int8, iota, load, reduce_add, stack_array,
    store, vgather, vload, vload_masked, vstore, vstore_half,
)

@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"}, cache=True)
def element(A, B, H, n):
    tmp = stack_array(16, float32)
    acc = broadcast(float32(0.0), 8)
    for i in range(0, n, 8):
        acc += exp(vload_masked(A, i, iota(8) + i < n))
        vstore(tmp, i % 16, acc - vgather(A, iota(8) % 3))
    vstore(B, 0, vload(tmp, 0, 8))
    store(B, 8, reduce_add(acc) + float32(int8(300)))
    vstore_half(H, 0, half_from(-acc))
    store(heap_array(n, "int32"), 0, 1)
'''

RUN = """
import sys
sys.path.insert(0, {folder!r})
{block}
import numpy as np
import element_kernel
A, B, H = np.arange(20, dtype="f4") / 9, np.zeros(9, "f4"), np.zeros(8, "u2")
element_kernel.element(A, B, H, 20)
print(B.tolist(), H.tolist())
print(sum(element_kernel.element.stats.cache_hits.values()))
"""
BLOCK = """
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "schedlang":
            raise ImportError(name)
sys.meta_path.insert(0, Block())
"""


def run_file(folder: Path, text: str, alone: bool) -> list[str]:
    """Return the lines that a new interpreter prints for a kernel file."""
    (folder / "element_kernel.py").write_text(text)
    block = BLOCK if alone else f"sys.path.insert(0, {str(ROOT)!r})"
    script = RUN.format(folder=str(folder), block=block)
    done = subprocess.run(
        [sys.executable, "-I", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_kernels_load_from_the_disk_cache_and_run_without_this_package(tmp_path: Path) -> None:
    first = run_file(tmp_path, KERNEL, alone=False)
    second = run_file(tmp_path, KERNEL, alone=False)
    assert (first[1], second[1]) == ("0", "1")
    alone = tmp_path / "alone"
    alone.mkdir()
    third = run_file(alone, bundle(KERNEL), alone=True)
    fourth = run_file(alone, bundle(KERNEL), alone=True)
    assert (third[1], fourth[1]) == ("0", "1")
    assert first[0] == second[0] == third[0] == fourth[0]


def test_a_bundle_holds_only_what_its_kernel_uses() -> None:
    text = bundle(KERNEL)
    tree = ast.parse(text)
    names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    assert {"Vec", "VecModel", "exp_single", "element", "element_"} <= names
    assert not {"log_single", "vscatter", "emit_fma_", "twins"} & names
    assert "schedlang" not in text
    assert "operator.iadd" in text and "operator.truediv" not in text
    # the future import stays first
    assert text.index("from __future__") < text.index("import numba")


def test_a_scalar_bundle_registers_no_vector_operators() -> None:
    head = "from schedlang.intrinsics.cpu import load, store\n"
    text = bundle(head + "def f(A, n):\n    store(A, n + 1, load(A, n * 2))\n")
    assert "vec_operator" not in text
    assert len(text.splitlines()) < 330
    assert bundle("import numpy\n") == "import numpy\n"
    with pytest.raises(ValueError, match="has no nothing"):
        bundle("from schedlang.intrinsics.cpu import nothing\n")


def test_bundles_need_no_other_module() -> None:
    source = f"from schedlang.intrinsics.cpu import {', '.join(intrinsics.__all__)}\n"
    source += textwrap.dedent(
        """
        def every(a, b):
            a += b
            return a + b - a * b / a // b % a, a < b
        """
    )
    scope: dict[str, Any] = {"__name__": "bundled"}
    exec(bundle(source), scope)
    assert set(intrinsics.__all__) <= scope.keys()


def test_names_of_definitions_are_unique_over_all_modules() -> None:
    names = [p.name for p in read_library().pieces if p.name]
    assert len(names) == len(set(names))


def test_functions_that_are_compiled_like_a_kernel_are_declared() -> None:
    """Their operators are those of vectors: a bundle without them would fail in numba."""
    folder = Path(intrinsics.__file__).parent
    trees = [ast.parse((folder / f"{name}.py").read_text()) for name in ("vmath", "tables")]
    statements = [s for s in map(declaration, trees) if s is not None]
    declared = [name for s in statements for name in ast.literal_eval(s.value)]
    given: set[str] = set()
    for node in ast.walk(trees[0]):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "single_or_double":
            choices = [a.body for a in node.args if isinstance(a, ast.IfExp)]
            choices += [a.orelse if isinstance(a, ast.IfExp) else a for a in node.args[:2]]
            given |= {choice.id for choice in choices if isinstance(choice, ast.Name)}
    assert sorted(declared) == sorted(given)


def test_bundles_for_a_gpu_have_every_intrinsic() -> None:
    """Modules that go into one file share no helpers by accident: of equal names one counts."""
    text = bundle(f"from {DEVICE_PACKAGE} import {', '.join(GPU_NAMES)}\n", DEVICE_PACKAGE)
    tree = ast.parse(text)
    assigned = {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets
                if isinstance(t, ast.Name)}  # fmt: skip
    assert set(GPU_NAMES) <= assigned | {
        n.name for n in tree.body if isinstance(n, ast.FunctionDef)
    }
    places: dict[str, list[str]] = {}
    for module in DEVICE_MODULES:
        path = Path(intrinsics_folder.__file__).parent / f"{module}.py"
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                places.setdefault(node.name, []).append(module)
    twice = {name for name, modules in places.items() if len(modules) > 1}
    assert twice <= set(GPU_NAMES)
