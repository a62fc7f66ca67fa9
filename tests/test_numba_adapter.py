"""The adapter to numba: what it assumes of numba's inside, and who else reaches into it.

``.ci/run`` runs this file with the oldest and the newest numba that ``setup.cfg`` admits.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite import binding
from numba import types

import schedlang as sl
from schedlang.runtime import numba_internals as inside
from schedlang.runtime.files import QUICK
from schedlang.runtime.numba_cache import KernelCache
from schedlang.runtime.numba_compiler import WITHOUT, KernelCompiler
from schedlang.runtime.numba_threads import running_layer, running_threads

ROOT = Path(sl.__file__).parent
# the adapter; intrinsics, which extend numba; what runs on a GPU, by the numba-cuda of setup.cfg
OWN = ("runtime/numba_", "intrinsics/", "runtime/nvidia.py", "runtime/cuda_graph.py")
# the methods that the classes of the adapter override or call
METHODS = {
    inside.JITCodeLibrary: [
        "_finalize_dynamic_globals", "_finalize_final_module", "_get_compiled_object",
        "_get_module_for_linking", "_optimize_final_module", "_optimize_functions",
        "_set_compiled_object", "add_ir_module", "create_ir_module", "enable_object_caching",
        "finalize", "get_asm_str", "get_pointer_to_function",
    ],
    inside.CompilerBase: ["compile_extra", "define_pipelines"],
    inside.Lower: ["setup_function"],
    inside.CompileResult: ["_rebuild", "_reduce"],
    inside.Cache: ["cache_path", "disable", "enable", "flush", "load_overload", "save_overload"],
}  # fmt: skip
# the functions of numba's threads that emitted code calls
THREADS = [
    "allocate_sched", "deallocate_sched", "do_scheduling_signed", "get_num_threads",
    "get_parallel_chunksize", "get_sched_size", "numba_parallel_for", "set_parallel_chunksize",
]  # fmt: skip


def reaches_inside(node: ast.AST) -> bool:
    """Return whether a node imports a part of numba that it does not document."""
    names: list[str] = []
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        # a name for import_module or sys.modules
        names = [node.value] if re.fullmatch(r"numba(\.\w+)+", node.value) else []
    inner = re.compile(r"numba\.(core|np|parfors|cuda\.cudadrv)(\.|$)")
    return any(inner.match(name) for name in names)


def test_only_the_adapter_reaches_into_numba() -> None:
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text("utf-8")
        # most files do not name numba
        if "numba" in text and any(map(reaches_inside, ast.walk(ast.parse(text)))):
            found.add(path.relative_to(ROOT).as_posix())
    assert {name for name in found if not name.startswith(OWN)} == set()
    assert "runtime/numba_internals.py" in found


def versions(bound: str) -> Iterator[int]:
    return map(int, bound.split("."))


def test_this_numba_is_one_that_the_adapter_knows() -> None:
    """The compiler of kernels is used with both ends of the range in setup.cfg."""
    config = ConfigParser()
    config.read(ROOT.parent / "setup.cfg")
    (line,) = (x for x in config["options"]["install_requires"].split("\n") if "numba " in x)
    low, high = re.findall(r"[\d.]+", line)
    first, (major, after) = tuple(versions(low)), versions(high)
    assert first in QUICK and (major, after - 1) in QUICK
    assert all(first <= known < (major, after) for known in QUICK)
    assert numba.version_info.short in QUICK


@pytest.mark.parametrize("owner", METHODS, ids=lambda owner: owner.__name__)
def test_methods(owner: Any) -> None:
    for name in METHODS[owner]:
        assert hasattr(owner, name), f"{owner.__name__}.{name}"


def test_parameters() -> None:
    compiler = inspect.signature(inside.CompilerBase.__init__)
    assert [*compiler.parameters] == [
        "self", "typingctx", "targetctx", "library", "args", "return_type", "flags", "locals",
    ]  # fmt: skip
    assert [*inspect.signature(inside.CompileResult._rebuild).parameters] == [
        "target_context", "libdata", "fndesc", "env", "signature", "objectmode", "lifted",
        "typeann", "reload_init", "referenced_envs",
    ]  # fmt: skip


def test_flags_and_passes() -> None:
    from numba.core.compiler import Flags

    flags = Flags()
    for name in ("no_cfunc_wrapper", "no_cpython_wrapper", "no_rewrites", "debuginfo",
                 "dbg_directives_only"):  # fmt: skip
        setattr(flags, name, True)
    assert not flags.auto_parallel.enabled

    state = SimpleNamespace(flags=flags, func_ir=None)
    manager = inside.DefaultPassBuilder.define_nopython_pipeline(state)
    assert WITHOUT <= {made for made, _ in manager.passes}
    assert inside.NativeLowering in {made for made, _ in manager.passes}


def test_a_compiled_function() -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] + 1, name="B")
    s = sl.schedule(B)
    s[B].parallel(s[B].split(B.op.axis[0], factor=16)[0])
    f = sl.build(s, [A, B], compiler="numba")
    np.testing.assert_array_equal(f(np.zeros(64, "float32")), np.ones(64, "float32"))
    function = f._function()
    assert isinstance(function, inside.CPUDispatcher) and isinstance(function._cache, KernelCache)
    assert function._compiler.pipeline_class is KernelCompiler
    assert not function.targetoptions["parallel"] and function.py_func.__name__ == "B_kernel"
    ((kinds, compiled),) = inside.compiled_by_types(function).items()
    assert kinds == (types.Array(types.float32, 1, "C"),) * 2
    assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    assert "store" in f.llvm and f.asm
    assert running_layer() in ("omp", "tbb", "workqueue")
    assert running_threads() == numba.get_num_threads()


def test_functions_of_the_threads() -> None:
    inside.launch_threads()
    for name in THREADS:
        assert binding.address_of_symbol(name), name
