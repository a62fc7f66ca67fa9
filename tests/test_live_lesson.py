"""The lesson of docs/guides/live.md, followed to the letter in Chromium, on pretended machines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.live.places import places_part
from schedlang.live.session import Session
from tests.browser import needs_browser
from tests.chromium import Browser, Tab, chromium

pytest.importorskip("aiohttp", reason='needs aiohttp: pip install "schedlang[live]"')
from tests.live_background import Background  # noqa: E402

pytestmark = needs_browser
GUIDE = Path(__file__).parent.parent / "docs" / "guides" / "live.md"
# cores and vector bytes; the first pair in every run
MACHINES = [(2, 32), *((n, w) for n in (2, 4, 8, 16) for w in (16, 32, 64) if (n, w) != (2, 32))]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def lesson(title: str) -> str:
    """Return the section of the guide with this title."""
    text = GUIDE.read_text("utf-8")
    (section,) = re.findall(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", text, re.S | re.M)
    return str(section)


def blocks(section: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.S | re.M)


def named_clicks(section: str) -> list[str]:
    """Return the steps that a lesson says to click, in order."""
    return re.findall(r"^\*\*\d+\. Click `([^`]+)`", section, re.M)


def pretend(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    """Let estimates count on a number of cores."""
    monkeypatch.setattr("schedlang.hints.next_steps.cores_of", lambda target: cores)
    for place in ("findings", "new_stages"):
        monkeypatch.setattr(f"schedlang.hints.{place}.threads_of", lambda target: cores)


def click_the_first(tab: Tab, name: str, state: int) -> None:
    """Click a step of the list, which must be its first, and wait for the state that it makes."""
    first = ".steps > .list > .step:first-child"
    shown = tab.wait(f"document.querySelector({json.dumps(first + ' b')}).textContent")
    assert shown.startswith(f"{name} ")
    tab.click(first)
    at_state(tab, state)


def at_state(tab: Tab, number: int) -> None:
    tab.wait(f"document.querySelector('.current .name').textContent.startsWith('{number}:')")
    tab.wait("document.querySelector('.step')", 60)


@pytest.mark.parametrize(
    ("cores", "width"),
    [pytest.param(*m, marks=pytest.mark.slow) for m in MACHINES],
)
def test_the_product_by_clicks(
    browser: Browser, cores: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, cores)
    section = lesson("A lesson: a fast matrix product by clicks")
    space: dict[str, Any] = {}
    exec(blocks(section, "python")[0], space)
    session = Session(space["s"], measure=False, target=sl.Target("cpu", vector_bytes=width))
    page = Background(session)
    tab = browser.tab()
    tab.open(page.url)
    at_state(tab, 0)
    clicks = named_clicks(section)
    assert clicks == ["register tile", "parallel"]
    for number, name in enumerate(clicks, 1):
        click_the_first(tab, name, number)
    # a branch by a line of one's own
    (line,) = blocks(section, "text")
    tab.click("[data-key='state 1']")
    at_state(tab, 1)
    tab.value(f"(() => {{ const e = document.querySelector('.editor'); e.value += '\\n' + "
              f"{json.dumps(line)}; e.dispatchEvent(new Event('input')); }})()")  # fmt: skip
    tab.wait("!document.querySelector('[data-key=run]').disabled")
    tab.click("[data-key=run]")
    at_state(tab, 3)
    assert [s.parent for s in session.history.states] == [None, 0, 1, 1]
    tab.click("[data-key='with 2']")
    tab.wait("document.querySelectorAll('.side .line').length > 8")
    one, other = (str(session.history.states[n].schedule) for n in (2, 3))
    assert "parallel i.outer" in one and "parallel j.outer" in other and tab.errors == []
    # the fast one computes the product
    f = sl.build(session.history.states[2].schedule)
    a, b = np.random.default_rng(0).integers(0, 9, (2, 512, 512)).astype("float32")
    np.testing.assert_array_equal(f(a, b), a @ b)
    page.close()
    session.close()


# what a browser does for a person who drags the first stage to the last loop
DROP = """(() => { const data = new DataTransfer();
 const chip = document.querySelector('.chip');
 const row = [...document.querySelectorAll('.row')].at(-1);
 const send = (to, kind) => to.dispatchEvent(new DragEvent(kind,
   { bubbles: true, cancelable: true, dataTransfer: data }));
 send(chip, 'dragstart'); send(row, 'dragover'); send(row, 'drop'); })()"""
PLACE = """[...document.querySelectorAll('.row')].find((row) => row.firstChild.textContent ===
 {}).querySelectorAll('.place')"""


@pytest.mark.parametrize(
    ("cores", "width"),
    [pytest.param(*m, marks=pytest.mark.slow) for m in ((2, 16), (2, 32), (2, 64), (16, 64))],
)
def test_the_blur_by_the_map(
    browser: Browser, cores: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, cores)
    section = lesson("A lesson: a blur by the map")
    space: dict[str, Any] = {}
    exec(blocks(section, "python")[0], space)
    session = Session(space["s"], measure=False, target=sl.Target("cpu", vector_bytes=width))
    page = Background(session)
    tab = browser.tab()
    tab.send("Emulation.setFocusEmulationEnabled", enabled=True)
    tab.open(page.url)
    tab.wait("document.querySelector('.place')", 60)
    row = PLACE.format(json.dumps("for i of V:"))
    assert "for i of V" in section and "stored outside all loops" in section
    # each row of V computes three rows of H again
    tab.value(f"{row}[0].focus()")
    where = "(document.querySelector('.moment b') || {}).textContent"
    tab.wait(f"{where} === 'H: compute_at i of V'")
    moment = tab.value("document.querySelector('.moment').innerText")
    for said in ("computed 3,145,728 times", "stores 12 KiB"):
        assert said in moment
    assert "2.99× computed" in tab.value(f"{row}[0].textContent") and "2.99 times" in section
    tab.value("document.activeElement.blur()")
    shown = tab.value(f"{row}[1].textContent")
    assert "stored outside all loops" in shown and "1.00× computed, stores 16 KiB" in shown
    # the best of all places
    factors = tab.value("[...document.querySelectorAll('.place b')].map((b) => b.textContent)")
    numbers = [float(f.removesuffix("×")) for f in factors if f.endswith("×")]
    assert max(numbers) == float(shown.split("×")[0]) > 1
    tab.value(f"{row}[1].click()")
    at_state(tab, 1)
    assert session.history.state.label == "compute_at, store_root · H"
    # the list of steps that promise nothing stays closed until somebody opens it
    assert tab.value("document.querySelector('[data-key=others]').open") is False
    assert "# H slides along i" in tab.value("document.querySelector('.loops').textContent")
    x = np.random.default_rng(0).integers(0, 9, (1026, 1026)).astype("float32")
    h = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
    built = sl.build(session.schedule)
    np.testing.assert_array_equal(built(x), h[:-2] + h[1:-1] + h[2:])
    assert tab.errors == []
    page.close()
    session.close()


@pytest.mark.slow
def test_a_loop_whose_places_are_stored_further_out_takes_a_stage(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropped there, the stage is stored at the closest of them."""
    X = sl.placeholder((26, 34), name="X")
    H = sl.compute((26, 32), lambda i, j: X[i, j] + X[i, j + 1] + X[i, j + 2], name="H")
    V = sl.compute((24, 32), lambda i, j: H[i, j] + H[i + 1, j] + H[i + 2, j], name="V")

    def without_storage_inside(*given: Any) -> Any:
        part = places_part(*given)
        for stage in part["places"]:
            stage["places"] = [one for one in stage["places"] if one["store"] != 1]
        return part

    monkeypatch.setattr("schedlang.live.session.places_part", without_storage_inside)
    s = sl.schedule(V)
    session = Session(s.copy(), measure=False)
    page = Background(session)
    tab = browser.tab()
    tab.open(page.url)
    tab.wait("document.querySelector('.place')", 60)
    tab.value(DROP)
    at_state(tab, 1)
    s[H].compute_at(s[V], V.op.axis[1])
    s[H].store_at(s[V], V.op.axis[0])
    assert str(session.schedule) == str(s) and tab.errors == []
    page.close()
    session.close()


@pytest.mark.slow
def test_a_stage_is_dropped_on_a_loop_and_an_iteration_is_chosen(browser: Browser) -> None:
    X = sl.placeholder((26, 34), name="X")
    H = sl.compute((26, 32), lambda i, j: X[i, j] + X[i, j + 1] + X[i, j + 2], name="H")
    V = sl.compute((24, 32), lambda i, j: H[i, j] + H[i + 1, j] + H[i + 2, j], name="V")
    session = Session(sl.schedule(V), measure=False)
    page = Background(session)
    tab = browser.tab()
    tab.open(page.url)
    tab.wait("document.querySelector('.place')", 60)
    # the second row of the picture, which begins at row 2, between two columns
    tab.click(".moment canvas.chosen")
    shown = "document.querySelector('.moment .buttons').textContent"
    tab.wait(f"/^V.3, 1[56]./.test({shown})")
    tab.click("[data-key='move H row after']")
    tab.wait(f"/^V.4, 1[56]./.test({shown})")
    tab.value(DROP)
    at_state(tab, 1)
    s = sl.schedule(V)
    s[H].compute_at(s[V], V.op.axis[1])
    assert str(session.schedule) == str(s) and tab.errors == []
    page.close()
    session.close()
