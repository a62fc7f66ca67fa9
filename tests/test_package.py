"""Tests of the package: callable packages, exported names, the cost of importing."""

from __future__ import annotations

import ast
import inspect
import os
import pydoc
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.callable_module import CallableModule
from schedlang.compute import functions
from schedlang.tvm.aliases import FACES

# a package imports only those to its left
ORDER = ("errors", "signatures", "parsing", "host", "target_kinds", "target_options", "target",
         "markup", "expr", "index", "language", "compute", "arrays", "gradient", "instructions",
         "state", "ir", "lowering", "analysis", "schedule", "gpu_lowering", "intrinsics", "machine",
         "diagnostics", "codegen", "counting", "runtime", "externs", "targets", "autotune", "hints",
         "course", "tvm", "networks", "frontend", "tracing", "torch", "plot", "live")  # fmt: skip
# imports by name that go against the order of the packages, and why each one does
DOORS = {
    ("schedlang.compute", "schedlang.arrays"):
        "a Tensor has NumPy's operators and methods from the start, and they make stages",
    ("schedlang.compute.extern_op", "schedlang.externs.check"):
        "the operation of a function has check(), which evaluates expressions over tensors",
    ("schedlang.instructions.emission", "schedlang.externs.functions"):
        "an instruction in memory is a function of the user's, which a compiler may compile",
    ("schedlang.instructions.python_function", "schedlang.intrinsics.dialect"):
        "an instruction may be a function of Python, which calls intrinsics by their names",
    ("schedlang.instructions.declaration", "schedlang.targets.instruction_check"):
        "an instruction's check() builds kernels that run it",
    ("schedlang.target_options", "schedlang.runtime.processor"):
        "a target may name features, and LLVM knows which ones there are",
    ("schedlang.schedule.schedule", "schedlang.live.widget"):
        "s.live() opens a page on a schedule, and a page is made of all that shows schedules",
}  # fmt: skip
# modules that import others by names which are no constants, and the names
COMPUTED = {
    "schedlang": "the public names, by the table of modules that load on demand",
    "schedlang.arrays.host.row": "NumPy and SciPy, whose functions a table names",
    "schedlang.autotune": "the modules of this folder, which load on demand",
    "schedlang.callable_module": "the modules of a package that load on demand",
    "schedlang.externs.shared": "the module of the user's that has a function",
    "schedlang.target_kinds": "what a row names: the backend of a target, and that of its networks",
    "schedlang.tvm.contrib": "the modules of this folder, which load on demand",
    "schedlang.tvm.te": "the names of te that are in modules of their own",
    "schedlang.tvm.tir": "the names of tir that are in modules of their own",
    "schedlang.tvm.aliases": "the faces of this folder by their names in schedlang",
    "schedlang.tvm.packed": "the packed functions in the box, by the table of their modules",
    "schedlang.tvm.names": "the same faces, schedlang.target and schedlang.runtime",
}


def test_packages_are_callable_and_still_packages() -> None:
    import schedlang.compute.tensor as tensor_module
    import schedlang.schedule.schedule as schedule_module
    from schedlang.compute import Tensor
    from schedlang.schedule import Schedule

    A = sl.placeholder((3,), name="A")
    B = sl.compute((3,), lambda i: A[i] + 1, name="B")
    s = sl.schedule(B)
    assert isinstance(B, Tensor) and Tensor is tensor_module.Tensor is sl.compute.Tensor
    assert isinstance(s, Schedule) and Schedule is schedule_module.Schedule
    assert sl.create_schedule(B.op).outputs == (B,)
    assert "lambda" in (sl.compute.__doc__ or "") or "fcompute" in (sl.compute.__doc__ or "")


@pytest.mark.parametrize(
    "called, parameter",
    [(sl.autotune, "trials"), (sl.compute, "fcompute"), (sl.schedule, "outputs"),
     (sl.autotune.best, "database")],
    ids=["autotune", "compute", "schedule", "best"],
)  # fmt: skip
def test_callable_packages_have_a_signature(called: CallableModule, parameter: str) -> None:
    target = called.__call_target__
    assert inspect.signature(called) == inspect.signature(target)
    shown = pydoc.render_doc(called, renderer=pydoc.plaintext)
    call = shown[shown.index(f"    {target.__name__}(") :].split("->")[0]
    assert parameter in call and "Tensor" not in call


def test_dir_lists_exactly_the_exported_names() -> None:
    public = {name for name in dir(sl) if not name.startswith("__")}
    assert public == {*sl.__all__} - {"__version__"}
    assert {"__version__", "__doc__", "__file__"} <= {*dir(sl)}


def test_help_shows_names_on_demand() -> None:
    shown = pydoc.render_doc(sl, renderer=pydoc.plaintext)
    for name in ("apply_best(", "best(", "evaluate("):
        assert f"    {name}" in shown


def test_a_folder_of_the_same_name_does_not_hide_the_package(tmp_path: Path) -> None:
    """A folder named like the package, such as a clone beside the script, does not hide it.

    It would hide an editable install whose import hook comes after the path.
    """
    (tmp_path / "schedlang").mkdir()
    script = tmp_path / "script.py"
    script.write_text("import schedlang as sl; print(sl.placeholder((3,)).shape)")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "(3,)", done.stderr


def test_every_exported_name_exists() -> None:
    for name in sl.__all__:
        assert getattr(sl, name) is not None
    assert sorted(sl.__all__) == list(sl.__all__)


def test_every_public_name_stays() -> None:
    """A name that users import goes only with a release that says so, and with its line here."""
    for line in Path(__file__).with_name("public_names.txt").read_text().split():
        module, _, name = line.rpartition(".")
        assert hasattr(import_module(module), name), line


def test_stub_names_what_the_package_exports() -> None:
    stub = ast.parse(Path(sl.__file__).with_suffix(".pyi").read_text())
    assert "from schedlang.compute.functions import *" in ast.unparse(stub)
    names = {a.asname for n in stub.body if isinstance(n, ast.ImportFrom) for a in n.names}
    names |= {t.id for n in stub.body if isinstance(n, ast.Assign) for t in n.targets
              if isinstance(t, ast.Name)}  # fmt: skip
    assert set(sl.__all__) <= {*names, *functions.__all__}


def loaded_by(script: str) -> set[str]:
    """Return the modules that are loaded after ``script`` in a new process."""
    done = subprocess.run([sys.executable, "-c", f"{script}\nimport sys; print(*sys.modules)"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {*done.stdout.splitlines()[-1].split()}


def of_package(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "schedlang"}


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = loaded_by("import schedlang")
    assert of_package(loaded) == {
        "schedlang", "schedlang.tvm", "schedlang.tvm.aliases", "schedlang.version"
    }  # fmt: skip
    assert "numpy" not in loaded and "dataclasses" not in loaded


def test_a_schedule_is_printed_without_what_builds_kernels() -> None:
    loaded = loaded_by(
        "import schedlang as sl\n"
        "n = sl.var('n')\n"
        "A = sl.placeholder((n,), name='A')\n"
        "B = sl.compute((n,), lambda i: A[i] + 1, name='B')\n"
        "s = sl.schedule(B)\n"
        "s[B].split(B.op.axis[0], factor=4)\n"
        "print(s)\n"
    )
    assert not loaded & {"numba", "llvmlite", "networkx", "sympy", "schedlang.runtime",
                         "schedlang.machine", "schedlang.tvm.te", "schedlang.tvm.topi"}  # fmt: skip
    assert len(of_package(loaded)) <= 255


def test_a_build_loads_no_other_kind_of_target() -> None:
    loaded = loaded_by(
        "import schedlang as sl\n"
        "A = sl.placeholder((8,), name='A')\n"
        "sl.build(sl.schedule(sl.compute((8,), lambda i: A[i] + 1, name='B')))\n"
    )
    assert not loaded & {"numba", "schedlang.targets.gpu", "schedlang.targets.c.backend",
                         "schedlang.counting", "schedlang.runtime.cpu_profile"}  # fmt: skip


def test_operators_load_no_schedules() -> None:
    loaded = loaded_by("from schedlang import topi; topi.nn.relu")
    assert not loaded & {"schedlang.schedule", "schedlang.lowering", "schedlang.autotune"}


@pytest.mark.slow
def test_a_process_that_measures_candidates_loads_nothing_that_searches() -> None:
    loaded = loaded_by("import schedlang.autotune.runner.worker")
    assert not loaded & {"numba", "schedlang.autotune.search", "schedlang.autotune.database",
                         "schedlang.autotune.tactics", "schedlang.autotune.report"}  # fmt: skip


def test_arrays_load_no_masked_arrays() -> None:
    loaded = loaded_by(
        "import numpy as np; from schedlang.compute.arrays import as_numpy\n"
        "assert as_numpy(np.ones(3), 'A').sum() == 3"
    )
    assert "numpy.ma" not in loaded


@pytest.mark.slow
def test_a_tensor_has_all_operators_whatever_loads_it() -> None:
    for start in ("import schedlang.compute.tensor", "import schedlang.arrays.stages",
                  "import schedlang.state.thread_axis", "from schedlang.te import placeholder",
                  "from schedlang import Expr"):  # fmt: skip
        loaded = loaded_by(start)
        assert {"schedlang.arrays.methods", "schedlang.language.operators"} <= loaded, start


@pytest.mark.slow
def test_threads_may_load_names_at_once() -> None:
    names = [name for name in sl.__all__ if name not in ("frontend", "plot")]
    loaded_by(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "import schedlang as sl\n"
        "with ThreadPoolExecutor(16) as pool:\n"
        f"    found = [*pool.map(lambda name: getattr(sl, name), {names})]\n"
        "assert all(value is not None for value in found)\n"
    )


def test_the_names_of_targets_do_not_load_the_list_of_packages() -> None:
    script = (
        "import sys, schedlang as sl\n"
        "assert sl.Target('llvm').kind == 'cpu'\n"
        "assert 'importlib.metadata' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
    assert done.returncode == 0, done.stderr


def statements(tree: ast.AST, for_types: bool, inside: bool) -> Iterator[ast.AST]:
    """Yield the nodes of a module and its functions, with those for type checkers or without.

    Expressions are left out unless ``inside`` is true.
    """
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            stack.extend(node.body if for_types else node.orelse)
        else:
            nodes = ast.iter_child_nodes(node)
            stack.extend(n for n in nodes if inside or not isinstance(n, ast.expr))


def imported_by_name(node: ast.AST) -> ast.expr | None:
    """Return what ``import_module`` or ``__import__`` is called with."""
    if not isinstance(node, ast.Call):
        return None
    called = getattr(node.func, "attr", getattr(node.func, "id", None))
    if called not in ("import_module", "__import__"):
        return None
    return node.args[0] if node.args else node.keywords[0].value


def paths_of_modules() -> dict[str, Path]:
    root = Path(sl.__file__).parent
    paths = {
        ".".join(("schedlang", *p.relative_to(root).with_suffix("").parts)): p
        for p in root.rglob("*.py")
    }
    return {name.removesuffix(".__init__"): path for name, path in paths.items()}


@cache
def imports_of(path: Path, for_types: bool) -> tuple[ast.AST, ...]:
    """Return the nodes of a file that import a module, by name too."""
    source = path.read_text()
    if for_types and "TYPE_CHECKING" not in source:
        return imports_of(path, False)
    by_name = "import_module" in source or "__import__" in source
    nodes = statements(ast.parse(source), for_types, by_name)
    kinds = ast.Import, ast.ImportFrom
    return tuple(n for n in nodes if isinstance(n, kinds) or imported_by_name(n) is not None)


def own(module: str, known: Collection[str]) -> str:
    """Return the module of the package that ``module`` names: the face for its alias."""
    face = module.replace("schedlang.", "schedlang.tvm.", 1)
    alias = module.split(".")[1:2] in [[name] for name in FACES]
    return face if alias and face in known else module


def imported_modules(
    for_types: bool, paths: Mapping[str, Path] | None = None,
    doors: Collection[tuple[str, str]] = (),
) -> dict[str, set[str]]:  # fmt: skip
    """Return, for each module of the package, those that it imports, by name too, but ``doors``."""
    paths = paths_of_modules() if paths is None else paths
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        found[name] = set()
        for node in imports_of(path, for_types):
            by_name = imported_by_name(node)
            if isinstance(node, ast.Import):
                asked = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                members = [own(f"{module}.{alias.name}", paths) for alias in node.names]
                asked = [member if member in paths else module for member in members]
            elif isinstance(by_name, ast.Constant):
                asked = [by_name.value]
            else:
                continue
            wanted = [own(module, paths) for module in asked]
            found[name] |= {m for m in wanted if m in paths and (name, m) not in doors}
    return found


@pytest.mark.slow
def test_modules_imported_by_computed_names_are_listed() -> None:
    computed = set()
    for module, path in paths_of_modules().items():
        for node in imports_of(path, False):
            asked = imported_by_name(node)
            if asked is None or isinstance(asked, ast.Constant):
                continue
            first = asked.values[0] if isinstance(asked, ast.JoinedStr) else asked
            # a name that begins with that of another package
            if not (isinstance(first, ast.Constant) and not first.value.startswith("schedlang")):
                computed.add(module)
    assert computed == {*COMPUTED}


def test_doors_are_imports_by_name_against_the_order() -> None:
    """Each door is in use, and would be refused if it were not listed."""
    needed = imported_modules(for_types=False)
    for module, other in DOORS:
        assert other in needed[module]
        assert ORDER.index(other.split(".")[1]) > ORDER.index(module.split(".")[1])


def test_packages_import_in_one_direction() -> None:
    """A package imports only the packages to its left, also for types; see architecture.md."""
    free = {"version", "callable_module"}
    for module, needed in imported_modules(for_types=True, doors=DOORS).items():
        own = module.partition(".")[2].partition(".")[0]
        if own not in ORDER:
            continue
        others = {m.split(".")[1] for m in needed if "." in m}
        for other in others - free - {own}:
            assert other in ORDER, f"{module}: unknown package {other}"
            assert ORDER.index(other) < ORDER.index(own), f"{module} imports {other}"


def test_the_page_about_architecture_shows_the_packages() -> None:
    """Its line has them in this order, and its picture has each of them once."""
    docs = Path(__file__).parent.parent / "docs"
    page = (docs / "inside" / "architecture.md").read_text("utf-8")
    (line,) = [line for line in page.splitlines() if " ← " in line]
    assert tuple(re.findall(r"\w+", line)) == ORDER
    picture = (docs / "images" / "architecture.svg").read_text("utf-8")
    assert sorted(re.findall(r'class="mono">(\w+)</text>', picture)) == sorted(ORDER)


def test_files_are_short() -> None:
    """A file of the package has one job and at most 500 lines."""
    root = Path(sl.__file__).parent
    lengths = {
        str(path.relative_to(root)): len(path.read_text().splitlines())
        for path in root.rglob("*.py")
    }
    assert len(lengths) == len({*root.rglob("*.py")})
    assert not {path: length for path, length in lengths.items() if length > 500}


def test_no_import_cycles() -> None:
    """There are no import cycles, not even inside functions, where Python allows them."""
    TopologicalSorter(imported_modules(for_types=False, doors=DOORS)).prepare()


@pytest.mark.parametrize(
    "line",
    ["from schedlang import topi", "import schedlang.topi.nn", 'import_module("schedlang.b")',
     'importlib.import_module(name="schedlang.b")', 'def f(): __import__("schedlang.b")'],
)  # fmt: skip
def test_a_cycle_through_a_name_is_seen(line: str, tmp_path: Path) -> None:
    files = {"a": line, "b": "import schedlang.a", "tvm.topi": "import schedlang.a",
             "tvm.topi.nn": "import schedlang.a"}  # fmt: skip
    paths = {}
    for name, text in files.items():
        paths[f"schedlang.{name}"] = tmp_path / f"{name}.py"
        paths[f"schedlang.{name}"].write_text(text)
    with pytest.raises(CycleError):
        TopologicalSorter(imported_modules(False, paths)).prepare()
