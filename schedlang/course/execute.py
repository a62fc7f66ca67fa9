"""Run a notebook."""

from __future__ import annotations

from pathlib import Path

from schedlang.course.lessons import Notebook, text_of
from schedlang.errors import BuildError, missing_extra
from schedlang.markup.progress import GONE

# seconds for one cell
LIMIT = 300


def execute(notebook: Notebook, folder: Path, stop: bool = True) -> Notebook:
    """Return a notebook with the outputs of its cells, run in ``folder``.

    A cell that raises is an error, unless it has the tag ``raises-exception``, or ``stop`` is not
    set: then the error is the output of the cell. Raise
    :class:`~schedlang.errors.BuildError` for it, and for one that takes too long or ends its
    process, and :class:`~schedlang.errors.MissingExtraError` without nbclient and ipykernel.
    """
    try:
        import ipykernel  # noqa: F401 - nbclient starts it
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    except ImportError:
        raise missing_extra("nbclient", "course", "running a notebook") from None
    document = nbformat.reads(text_of(notebook), as_version=4)
    client = NotebookClient(
        document,
        timeout=LIMIT,
        kernel_name="python3",
        allow_errors=not stop,
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise BuildError(f"a cell failed: {error.ename}: {error.evalue}") from None
    except CellTimeoutError:
        raise BuildError(f"a cell took more than {LIMIT} s") from None
    except DeadKernelError:
        raise BuildError("a cell ended the process that runs the notebook") from None
    for cell in document.cells:
        if cell.cell_type == "code":
            cell.outputs = [out for out in cell.outputs if out.get("data") != GONE]
    return dict(document)
