"""Tests of the package: callable packages, exported names, the cost of importing."""

from __future__ import annotations

import ast
import inspect
import pydoc
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.callable_module import CallableModule


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
    target = called.__dict__["__call_target__"]
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


def test_stub_names_what_the_package_exports() -> None:
    stub = ast.parse(Path(sl.__file__).with_suffix(".pyi").read_text())
    names = {a.asname for n in stub.body if isinstance(n, ast.ImportFrom) for a in n.names}
    names |= {t.id for n in stub.body if isinstance(n, ast.Assign) for t in n.targets
              if isinstance(t, ast.Name)}  # fmt: skip
    assert set(sl.__all__) <= names


def test_describing_and_printing_does_not_import_numba() -> None:
    script = (
        "import sys, schedlang as sl\n"
        "A = sl.placeholder((8,), name='A')\n"
        "B = sl.compute((8,), lambda i: A[i] + 1, name='B')\n"
        "s = sl.schedule(B)\n"
        "s[B].split(B.op.axis[0], factor=4)\n"
        "print(s)\n"
        "assert 'numba' not in sys.modules, 'numba was imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def imports(tree: ast.AST, for_types: bool) -> Iterator[ast.ImportFrom | ast.Import]:
    """Yield the imports of a module and its functions, with those for type checkers or without."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            stack.extend(node.body if for_types else node.orelse)
        else:
            stack.extend(ast.iter_child_nodes(node))


def imported_modules(for_types: bool) -> dict[str, set[str]]:
    """Return, for each module of the package, the modules of the package that it imports."""
    root = Path(sl.__file__).parent
    paths = {
        ".".join(("schedlang", *p.relative_to(root).with_suffix("").parts)): p
        for p in root.rglob("*.py")
    }
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        found[name] = set()
        for node in imports(ast.parse(path.read_text()), for_types):
            if isinstance(node, ast.Import):
                asked = [alias.name for alias in node.names]
            else:
                module, names = node.module or "", [alias.name for alias in node.names]
                asked = [m if (m := f"{module}.{name}") in paths else module for name in names]
            found[name] |= {m for m in asked if m in paths}
    return found


def test_packages_import_in_one_direction() -> None:
    """A package imports only the packages to its left, also for types; see docs/architecture.md."""
    order = ["errors", "signatures", "host", "target_options", "target", "markup", "expr", "index",
             "language", "compute", "arrays", "gradient", "state", "ir", "lowering", "analysis",
             "schedule", "gpu_lowering", "intrinsics", "machine", "diagnostics", "codegen",
             "counting", "runtime", "tvm", "autotune", "autoschedule", "networks", "frontend",
             "tracing", "hints", "exercises", "plot", "course", "live"]  # fmt: skip
    free = {"version", "callable_module"}
    for module, needed in imported_modules(for_types=True).items():
        own = module.partition(".")[2].partition(".")[0]
        if own not in order:
            continue
        others = {m.split(".")[1] for m in needed if "." in m}
        for other in others - free - {own}:
            assert other in order, f"{module}: unknown package {other}"
            assert order.index(other) < order.index(own), f"{module} imports {other}"


def test_files_are_short() -> None:
    """A file of the package has one job and at most 500 lines."""
    paths = Path(sl.__file__).parent.rglob("*.py")
    lengths = {path.name: len(path.read_text().splitlines()) for path in paths}
    assert not {name: length for name, length in lengths.items() if length > 500}


def test_no_import_cycles() -> None:
    """There are no import cycles, not even inside functions, where Python allows them."""
    TopologicalSorter(imported_modules(for_types=False)).prepare()
