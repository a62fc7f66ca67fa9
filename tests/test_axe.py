"""No serious finding of axe on the live page and the site, light and dark: npm install axe-core."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import cache, partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.docs_command import Quiet, build
from schedlang.live.session import Session
from tests.browser import needs_browser
from tests.chromium import Browser, Tab, chromium
from tests.graphs import product
from tests.test_live_map import blur

pytest.importorskip("aiohttp", reason='needs aiohttp: pip install "schedlang[live]"')
from tests.live_background import Background  # noqa: E402

ROOT = Path(__file__).parent.parent
SERIOUS = ("serious", "critical")
# before a page loads: a pointer can hover, and no earlier page has chosen the scheme
FRESH = """{
  localStorage.clear();
  const media = window.matchMedia.bind(window);
  window.matchMedia = (query) => media(query === "(hover)" ? "all" : query);
}"""


@cache
def axe() -> str:
    """Return the script of axe, from node_modules here or of npm itself; empty without it."""
    folders = [ROOT / "node_modules"]
    npm = shutil.which("npm")
    if npm is not None:
        asked = subprocess.run([npm, "root", "-g"], capture_output=True, text=True, timeout=60)
        folders.append(Path(asked.stdout.strip()))
    for folder in folders:
        path = folder / "axe-core" / "axe.min.js"
        if path.is_file():
            return path.read_text("utf-8")
    return ""


pytestmark = [
    needs_browser,
    pytest.mark.skipif(not axe(), reason="needs axe: npm install axe-core"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def serious(tab: Tab) -> list[Any]:
    """Return the serious findings of axe about a page, each with the elements that it is about."""
    tab.value(f"{axe()}; true")
    result = tab.value(
        "axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) => "
        "[v.impact, v.id, v.nodes.map((n) => n.html.slice(0, 120) + ' ' + "
        "n.failureSummary.slice(0, 200))]))"
    )
    return [one for one in result if one[0] in SERIOUS]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["product", "blur"])
def test_no_serious_finding(browser: Browser, name: str, scheme: str) -> None:
    s = sl.schedule(product(64, 64, 64)[2]) if name == "product" else blur(24, 32)
    page = Background(Session(s, "s of a.py", measure=False))
    tab = browser.tab()
    tab.send("Emulation.setEmulatedMedia",
             features=[{"name": "prefers-color-scheme", "value": scheme}])  # fmt: skip
    tab.open(page.url)
    tab.wait("document.querySelector('[data-key=refused]')", 60)
    assert serious(tab) == []
    # another state, beside the start, with a step under the pointer and all that folds open
    tab.click(".step")
    tab.wait("document.querySelector('.current .name').textContent.startsWith('1:')")
    tab.wait("document.querySelector('[data-key=refused]')", 60)
    tab.click("[data-key='with 0']")
    tab.wait("document.querySelectorAll('.side .line').length > 4")
    tab.value("[...document.querySelectorAll('.steps details')].forEach((d) => { d.open = true; })")
    tab.point(".step")
    tab.wait("document.querySelector('.preview .line')")
    assert serious(tab) == []
    page.close()
    page.session.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    build(ROOT, folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "page",
    ["index", "course/1_say_what", "guides/cpu", "guides/performance", "reference/primitives"],
)
def test_a_page_of_the_site(browser: Browser, site: str, page: str, scheme: str) -> None:
    tab = browser.tab()
    tab.send("Emulation.setEmulatedMedia",
             features=[{"name": "prefers-color-scheme", "value": scheme}])  # fmt: skip
    # the theme lets the keyboard scroll code where a pointer can hover, which none does here
    tab.send("Page.addScriptToEvaluateOnNewDocument", source=FRESH)
    tab.open(f"{site}/{page}.html")
    name = "slate" if scheme == "dark" else "default"
    tab.wait(f"document.body.dataset.mdColorScheme === '{name}'")
    tab.wait("document.querySelectorAll('pre > code').length && document.readyState === 'complete'")
    assert serious(tab) == []
