"""Chromium without a window, for tests of pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-logging=stderr", "--v=0", "--dump-dom",
)  # fmt: skip
DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser on the PATH: none of {', '.join(NAMES)}"
)


@dataclass(frozen=True)
class Opened:
    """A page after it was loaded: its document, and what it wrote to the console."""

    document: str
    console: tuple[str, ...]

    @property
    def title(self) -> str:
        """The title, by which a script of the page says what it found."""
        found = re.search("<title>(.*?)</title>", self.document, re.DOTALL)
        assert found is not None
        return found[1]


def opened(page: Path, *flags: str) -> Opened:
    """Open a file in the browser."""
    assert BROWSER is not None
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [BROWSER, *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Opened(done.stdout, tuple(console))
