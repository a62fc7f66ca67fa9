"""``python -m schedlang docs``: the pages of the site, in a browser."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from schedlang.errors import BuildError

PACKAGE = Path(__file__).parent
SITE = PACKAGE / "site"
CLONE = PACKAGE.parent


def add_docs(commands: Any) -> None:
    """Add the parser of ``docs``."""
    parser = commands.add_parser(
        "docs",
        help="open the documents in a browser",
        description="Serve the pages of the documents on this machine, and open them. A clone "
        "builds them first if they are older than its documents. Ctrl-C ends it.",
    )
    parser.add_argument("--port", type=int, default=0, help="the port (any free one)")
    parser.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="open the pages in the browser (the default)",
    )
    parser.set_defaults(run=run_docs)


def run_docs(chosen: argparse.Namespace) -> int:
    """Serve the pages until Ctrl-C, and return the exit status."""
    if is_stale(SITE, CLONE):
        if (CLONE / "mkdocs.yml").is_file() and importlib.util.find_spec("mkdocs") is not None:
            build(CLONE, SITE)
        elif not is_built(SITE):
            raise no_pages(CLONE)
        else:
            print("these pages are older than docs/, and mkdocs is not installed", file=sys.stderr)
    handler = partial(Quiet, directory=str(SITE))
    # another port than the one that was asked for would not be the one in a bookmark
    try:
        server = ThreadingHTTPServer(("127.0.0.1", chosen.port), handler)
    except (OSError, OverflowError) as error:
        raise BuildError(f"docs: --port {chosen.port} is not free: {error}") from None
    with server:
        url = f"http://127.0.0.1:{server.server_address[1]}/index.html"
        print(f"the pages: {url}\nCtrl-C ends it", flush=True)
        if chosen.open:
            webbrowser.open(url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


def is_built(site: Path) -> bool:
    """Return whether the folder has the pages."""
    return (site / "index.html").is_file()


def is_stale(site: Path, clone: Path) -> bool:
    """Return whether the pages are missing, or older than a document of the clone."""
    if not is_built(site):
        return True
    sources = [clone / "mkdocs.yml", *(clone / "docs").rglob("*")]
    built = (site / "index.html").stat().st_mtime
    return (clone / "mkdocs.yml").is_file() and any(
        path.stat().st_mtime > built for path in sources if path.is_file()
    )


def build(clone: Path, site: Path) -> None:
    """Build the pages of a clone.

    Raise :class:`~schedlang.errors.BuildError` with the output of mkdocs if it fails.
    """
    print("building the pages", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    run = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    if run.returncode:
        raise BuildError(f"docs: mkdocs could not build the pages in {clone}:\n{run.stderr}")


def no_pages(clone: Path) -> BuildError:
    """Return the error that says where the documents are instead."""
    if (clone / "mkdocs.yml").is_file():
        return BuildError(
            "docs: the pages are not built, and mkdocs is not installed. Read "
            f"{clone / 'docs'}, or "
            'install the extra docs: pip install "schedlang[docs]".'
        )
    return BuildError(
        "docs: this installation has no pages. They are in the wheel of a release and in the "
        'folder docs/ of a clone, where pip install ".[docs]" lets this command build them.'
    )


class Quiet(SimpleHTTPRequestHandler):
    """Serve files without a line for each request."""

    def log_message(self, *parts: Any) -> None:
        """Print nothing."""
