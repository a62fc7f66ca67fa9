"""Fixtures for golden text, the option that refreshes it, and the list of slow tests."""

from __future__ import annotations

import difflib
import gc
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from schedlang.runtime.cache_files import cache_folder
from tests.terminals import Terminal, use

GOLDEN = Path(__file__).with_name("golden")
Golden = Callable[[object], None]
# the tests that were collected and are marked slow: "test_file::test_name"
SLOW = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden anew from what is printed"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden") and os.environ.get("CI"):
        raise pytest.UsageError(
            "--update-golden is refused under CI: refresh golden text where you can read its diff"
        )
    # a busy machine draws slowly, and a test must not fail of that
    settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("suite")
    # each of the hundred processes that tests start would compile the package anew
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    _draw_no_constants_of_sources()
    # what a collection makes is kept: looking for garbage takes a quarter of its time
    gc.disable()


def _draw_no_constants_of_sources() -> None:
    """Keep hypothesis from parsing each module of the package for numbers and words to draw.

    It took a third of each worker's collection. Strategies here name the values that matter.
    """
    # older versions have no such module or function, and do not parse sources
    with suppress(ImportError):
        from hypothesis.internal.conjecture import providers

        if hasattr(providers, "_get_local_constants"):
            providers._get_local_constants = lambda: providers._local_constants


def pytest_report_header() -> str:
    """Return a line about a setting of Python that the tests do not keep, or nothing."""
    if not sys.dont_write_bytecode:
        return ""
    return "PYTHONDONTWRITEBYTECODE is set; processes that tests start keep bytecode nevertheless"


# run before pytest deselects by -m
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[SLOW] = {
        f"{item.path.stem}::{item.name.partition('[')[0]}"
        for item in items
        if item.get_closest_marker("slow")
    }


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave out the modules and tests when looking for garbage, and look less often.

    numba's compiler makes many objects. To look through all others again took a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_machine_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give this worker a temporary folder of its own, so that no other search delays its tests.

    Searches that share a temporary folder wait for each other. The ceilings of this machine need
    not be accurate here.
    """
    folder = str(tmp_path_factory.mktemp("turns"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("schedlang.runtime.ceilings.SAMPLE_SECONDS", 0.05)
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


# files whose tests need a schedule, and any one will do
ANY_SCHEDULE = (
    "test_network*", "test_jit*", "test_onnx*", "test_from_torch*", "test_llvm_parts",
    "test_host_calls", "test_numpy_programs", "test_npbench", "test_extern_networks",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_evaluation(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the cost model take the first candidate of each kernel, where any schedule will do.

    Its descents are much of the time of these tests. A run of slow tests has users' schedules, and
    must not read in the cache folder what these tests leave there.
    """
    is_default = request.config.getoption("markexpr") == "not slow"
    with pytest.MonkeyPatch.context() as patch:
        if is_default and any(fnmatch(request.path.stem, files) for files in ANY_SCHEDULE):
            patch.setenv("SCHEDLANG_CACHE", str(cache_folder() / "one-evaluation"))
            for name in ("LEAST", "MOST"):
                patch.setattr(f"schedlang.autotune.model.by_model.{name}", 1)
        yield


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal that is the standard error of lines of progress."""
    terminal = Terminal()
    use(monkeypatch, terminal)
    monkeypatch.setenv("TERM", "xterm")
    return terminal


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Return a function that compares text with ``tests/golden/<test file>/<test name>.txt``."""

    def check(text: object) -> None:
        name = re.sub(r"[^\w.-]+", "_", request.node.name).strip("_")
        path = GOLDEN / request.path.stem / f"{name}.txt"
        printed = f"{str(text).rstrip()}\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(printed, encoding="utf-8", newline="\n")
            return
        known = path.read_text(encoding="utf-8") if path.exists() else ""
        if printed != known:
            pytest.fail(_difference(known, printed, path), pytrace=False)

    return check


def _difference(known: str, printed: str, path: Path) -> str:
    where = path.relative_to(GOLDEN.parent.parent).as_posix()
    refresh = "pytest --update-golden writes it anew; read the diff before it is committed"
    if not known:
        return f"{where} does not exist; {refresh}. Printed was:\n\n{printed}"
    lines = difflib.unified_diff(
        known.splitlines(), printed.splitlines(), where, "printed now", n=3, lineterm=""
    )
    return "\n".join([f"the printed text changed; {refresh}", "", *lines])
