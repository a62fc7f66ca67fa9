"""Every lesson runs on its own and checks its own result."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schedlang import demo
from schedlang.errors import ComputeError
from tests.marks import slow_but

EXAMPLES = Path(__file__).parent.parent / "examples"
LESSONS = sorted(EXAMPLES.glob("[0-9][0-9]_*.py"))
# the others time several schedules, compile for the GPU's emulator, or search
QUICK = ("01_print_the_loop_nest",)
NEEDS = {"03": ["sklearn", "PIL"], "04": ["sklearn", "PIL"], "05": ["sklearn", "PIL", "matplotlib"],
         "07": ["sklearn"], "10": ["matplotlib"], "12": ["sklearn"],
         "14": ["sklearn", "torch"]}  # fmt: skip


def run(script: Path, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script)], cwd=folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, **env}, stdin=subprocess.DEVNULL, encoding="utf-8",
    )  # fmt: skip


@pytest.mark.parametrize("script", slow_but(QUICK, LESSONS, lambda p: p.stem))
def test_lesson(script: Path, tmp_path: Path) -> None:
    for library in NEEDS.get(script.name[:2], []):
        pytest.importorskip(library)
    done = run(script, tmp_path, PYTHONIOENCODING="utf-8")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "Warning" not in done.stderr, done.stderr
    assert " in 0.." in done.stdout
    if script.name.startswith("05"):
        assert (tmp_path / "harris_corners.png").stat().st_size > 10_000
    if script.name.startswith("10"):
        made = sorted(tmp_path.glob("pictures-*"))
        assert len(made) == 12 and all(path.stat().st_size > 10_000 for path in made)


def test_lessons_are_listed_and_end_with_an_exercise() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert len(LESSONS) >= 7
    for script in LESSONS:
        assert f"`{script.name}`" in listed
        last = script.read_text(encoding="utf-8").rstrip().split("\n\n")[-1]
        assert last.startswith("# Exercise: "), script.name


def test_a_missing_library_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "sklearn").mkdir()
    (tmp_path / "sklearn" / "__init__.py").write_text("raise ImportError('not here')")
    # ahead of the existing path, which may lead to this package
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = run(EXAMPLES / "03_separable_blur.py", tmp_path, PYTHONPATH=path)
    assert done.returncode == 1
    assert 'pip install "schedlang[examples]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_is_a_screen_and_checks_its_result(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schedlang", "demo", "--size", "100", "--seconds", "0.01"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for part in (
        "sl.sum(A[i, k] * B[k, j]",
        "tile(*C.op.axis, 32, 32)",
        "C.local[..] += A[..] * P[..]",
        "the last rows",
        "Checked: ",
        "NumPy's time / schedlang's",
        "Next: ",
    ):
        assert part in done.stdout
    assert len(done.stdout.splitlines()) < 80
    path = done.stdout.split("open it:\n")[1].split("\n")[0].strip()
    assert "def C_kernel" in Path(path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "match"),
    [({"n": 0}, "n=0"), ({"n": -4}, "n=-4"), ({"n": 2.5}, "n=2.5"), ({"n": "8"}, "n='8'"),
     ({"n": 8, "seconds": -1}, "seconds=-1"), ({"n": 8, "seconds": float("inf")}, "seconds=inf")],
)  # fmt: skip
def test_the_demo_checks_its_arguments(given: dict[str, Any], match: str) -> None:
    with pytest.raises(ComputeError, match=match):
        demo.run(**given)


def test_the_demo_runs_at_its_smallest_size() -> None:
    out = io.StringIO()
    assert demo.run(1, seconds=0, out=out) == 0 and "Checked" in out.getvalue()


def test_printing_the_demo_imports_no_numba() -> None:
    code = (
        "import sys; from schedlang.__main__ import main; "
        "main(['demo', '--only-print', '--all']); assert 'numba' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "The whole nest" in done.stdout and "Compiled" not in done.stdout
    for part in (">>> s[C].parallel(", "+parallel "):
        assert part in done.stdout


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["--help"], marks=pytest.mark.slow),
        pytest.param(["demo", "--help"], marks=pytest.mark.slow),
        ["--version"],
        [],
    ],
)
def test_command_line(args: list[str]) -> None:
    command = [sys.executable, "-m", "schedlang", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "schedlang" in done.stdout
