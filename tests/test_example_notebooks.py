"""The notebooks that show what notebooks show, executed; test_course.py has the course."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.marks import NARROW, WIDE
from tests.test_notebook import checked

REASON = 'needs nbclient and ipykernel: pip install "schedlang[test-notebooks]"'
nbclient = pytest.importorskip("nbclient", reason=REASON)
nbformat = pytest.importorskip("nbformat", reason=REASON)
pytest.importorskip("ipykernel", reason=REASON)

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("[a-z]*.ipynb"))


@cache
def executed(name: str) -> dict[str, list[Any]]:
    """Run a notebook; return the outputs of each code cell, by the last line of the cell.

    A cell that raises fails, unless it has the tag ``raises-exception``.
    """
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
    )
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return {cell.source.splitlines()[-1]: cell.outputs for cell in cells}


def shown(name: str, cell: str) -> Any:
    """Return the forms in which a notebook shows the value of a cell, by MIME type."""
    (found,) = (out for out in executed(name)[cell] if out.output_type == "execute_result")
    return found.data


def error(name: str, cell: str) -> list[str]:
    """Return the lines of the error of a cell."""
    (found,) = executed(name)[cell]
    assert found.output_type == "error"
    lines: list[str] = "\n".join(found.traceback).splitlines()
    return lines


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS == ["matrix_product"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_stored_without_outputs(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and not any(cell.outputs or cell.execution_count for cell in code)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_without_warnings(name: str) -> None:
    if name == "matrix_product" and not WIDE:
        pytest.skip(NARROW)
    outputs = [out for found in executed(name).values() for out in found]
    assert not any(out.output_type == "stream" and out.name == "stderr" for out in outputs)


@pytest.mark.slow
def test_a_matrix_product_shows_each_step() -> None:
    name = "matrix_product"
    assert "C_{i,j} = \\sum_{k=0}^{239} A_{i,k} B_{k,j}" in shown(name, "C")["text/latex"]
    first = shown(name, "s")
    assert first["text/plain"].splitlines()[2:] == [
        "for i in 0..240:", "  for j in 0..240:", "    C[i, j] = 0", "    for k in 0..240:",
        "      C[i, j] += A[i, k] * B[k, j]",
    ]  # fmt: skip
    text = "".join(checked(first["text/html"]).text)
    assert "13,824,000×" in text and "A 225 KiB" in text
    change = shown(name, "s.diff()")
    assert change["text/plain"].startswith("--- before") and "−" in change["text/html"]
    assert shown(name, "s.steps")["text/html"].count('class="frame"') == 6
    assert "s[C].parallel(i_outer)" in shown(name, "s.steps")["text/plain"]
    kernel = shown(name, "f")
    page = checked(kernel["text/html"])
    assert "def C_i_outer" in "".join(page.text) and page.classes.count("pane") == 2
    assert kernel["text/plain"].startswith("<Kernel C(")
    times = shown(name, "sl.evaluate(f, a, b, min_time=0.1)")
    assert "GFLOP/s" in times["text/plain"] and "fastest" in times["text/html"]
    cost = shown(name, "sl.cost(s)")
    assert "27648000" in cost["text/latex"] and cost["text/plain"].startswith("cost of C\n")


@pytest.mark.slow
def test_errors_are_short() -> None:
    refused = error("9_debugging", "s[C].vectorize(k)")
    assert refused[0].startswith("ScheduleError: vectorize(k) on stage C: k is a reduction axis")
    assert refused[-1] == "  this cell, line 1:  s[C].vectorize(k)" and len(refused) < 12
    outside = error("9_debugging", 'sl.compute((64,), lambda i: A[i + 1, 0], name="D")')
    assert outside[0].startswith("BoundsError: ") and outside[-1].startswith("  this cell, line 1:")
    wrong = error("9_debugging", 'f(np.ones((64, 32), "float32"))')
    assert wrong[0].startswith("CallError: ") and len(wrong) < 6
    value = shown("9_debugging", "caught")["text/plain"]
    assert value.startswith("CallTypeError: ") and "this cell, line 2" in value
