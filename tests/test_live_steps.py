"""The next steps of the live page in Chromium: in view, previewed, ordered by their times."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.live.session import Session
from schedlang.live.share import shared_page
from tests.browser import needs_browser
from tests.chromium import Browser, Tab, chromium
from tests.graphs import product

pytest.importorskip("aiohttp", reason='needs aiohttp: pip install "schedlang[live]"')
from tests.live_background import Background  # noqa: E402

pytestmark = [pytest.mark.slow, needs_browser]
TARGET = sl.Target("cpu", vector_bytes=32)
BOX = """(({left, top, right, bottom}) => [left, top, right, bottom])
 (document.querySelector(%s).getBoundingClientRect())"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def session() -> Session:
    return Session(sl.schedule(product(64, 64, 64)[2]), "p", measure=False, target=TARGET)


@pytest.fixture
def page() -> Iterator[Background]:
    served = Background(session())
    yield served
    served.close()
    served.session.close()


def opened(browser: Browser, url: str, width: int, height: int) -> Tab:
    tab = browser.tab()
    tab.send("Emulation.setFocusEmulationEnabled", enabled=True)
    tab.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
             deviceScaleFactor=1, mobile=False)  # fmt: skip
    tab.open(url)
    tab.wait("document.querySelector('.step')")
    return tab


def box(tab: Tab, selector: str) -> Any:
    return tab.value(BOX % json.dumps(selector))


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (1024, 768)])
def test_the_first_steps_are_beside_the_nest_above_the_fold(
    browser: Browser, page: Background, width: int, height: int
) -> None:
    tab = opened(browser, page.url, width, height)
    assert "Click a step to take it" in tab.value("document.querySelector('.first').textContent")
    for number in range(4):
        left, top, _, bottom = box(tab, f".step[data-step='{number}']")
        _, nest_top, nest_right, _ = box(tab, ".loops")
        assert nest_right < left and abs(nest_top - box(tab, ".steps")[1]) < 2
        assert 0 < top < bottom < height
    tab.click(".step")
    tab.wait("document.querySelectorAll('.state').length === 2")
    # who has taken one knows how
    assert tab.value("document.querySelector('.first')") is None


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (1024, 768)])
def test_the_map_of_places_is_below_the_nest_above_the_fold(
    browser: Browser, width: int, height: int
) -> None:
    """Nothing is between the two, and the first places can be clicked without scrolling."""
    X = sl.placeholder((1026, 1026), name="X")
    H = sl.compute((1026, 1024), lambda i, j: X[i, j] + X[i, j + 1] + X[i, j + 2], name="H")
    V = sl.compute((1024, 1024), lambda i, j: H[i, j] + H[i + 1, j] + H[i + 2, j], name="V")
    session = Session(sl.schedule(V), measure=False)
    shown = Background(session)
    tab = opened(browser, shown.url, width, height)
    tab.wait("document.querySelector('.place')", 60)
    _, _, right, nest_end = box(tab, "[aria-label='The loop nest']")
    _, top, map_right, _ = box(tab, "[aria-label='Where each stage lives']")
    assert 0 < top - nest_end < 20 and map_right == right
    assert box(tab, ".moment")[1] < height and box(tab, ".place")[3] < height
    assert tab.value("document.documentElement.scrollWidth") <= width and tab.errors == []
    shown.close()
    session.close()


@pytest.mark.parametrize("width", [390, 1024])
def test_a_page_is_as_wide_as_its_window(browser: Browser, page: Background, width: int) -> None:
    tab = opened(browser, page.url, width, 800)
    assert tab.value("document.documentElement.scrollWidth") <= width
    if width == 390:
        assert box(tab, ".loops")[3] < box(tab, ".steps")[1]


def test_the_steps_are_within_five_tabs_and_the_focus_previews(
    browser: Browser, page: Background
) -> None:
    tab = opened(browser, page.url, 1300, 900)
    for number in (1, 2):
        tab.click(".steps > .list > .step")
        tab.wait(f"document.querySelector('.current .name').textContent.startsWith('{number}:')")
        tab.wait("document.querySelector('.step')")
    tab.click("[data-key=undo]")
    tab.wait("document.querySelector('.current .name').textContent.startsWith('1:')")
    tab.wait("document.querySelector('.step')")
    # undo and redo can both be pressed
    tab.value("document.activeElement.blur(), document.querySelector('h1').scrollIntoView()")
    tab.value("getSelection().setPosition(document.querySelector('h1'), 0)")
    seen = 0
    while seen < 6 and not tab.value("!!document.activeElement.dataset.step"):
        tab.key("Tab")
        seen += 1
    assert seen <= 5
    number = int(tab.value("document.activeElement.dataset.step"))
    tab.wait("document.querySelector('.preview .line')")
    lines = tab.value("[...document.querySelectorAll('.preview .line')].map((one) => "
                      "[one.className, one.querySelector('span').textContent])")  # fmt: skip
    state = page.session.history.at(1)
    step = sl.next_steps(state.schedule, TARGET)[number]
    before, after = str(state.schedule).split("\n"), str(step.nest).split("\n")
    assert [text for _, text in lines] == after
    marked = {text for kind, text in lines if kind == "line added"}
    assert {text for text in after if text not in before} <= marked
    assert tab.value("document.querySelector('.taken').textContent") == step.code
    # the nest of the state comes back
    tab.value("document.activeElement.blur()")
    tab.wait("!document.querySelector('.preview')")
    assert tab.errors == []


def test_the_pointer_previews_a_step_and_takes_nothing(browser: Browser, page: Background) -> None:
    tab = opened(browser, page.url, 1300, 900)
    tab.point(".step[data-step='1']")
    tab.wait("document.querySelector('.preview .added')")
    tab.point("h1")
    tab.wait("!document.querySelector('.preview')")
    assert len(page.session.history.states) == 1 and tab.errors == []


def test_a_step_that_was_clicked_shows_its_nest_and_no_other(
    browser: Browser, page: Background
) -> None:
    tab = opened(browser, page.url, 1300, 900)
    tab.point(".step")
    tab.wait("document.querySelector('.preview .added')")
    tab.click(".step")
    tab.wait("document.querySelector('.current .name').textContent.startsWith('1:')")
    tab.wait("document.querySelector('.step')")
    # the pointer rests on a step of the new list, which nobody has pointed at
    time.sleep(0.5)
    assert not tab.value("!!document.querySelector('.preview')")
    assert "vectorize" in tab.value("document.querySelector('.loops').textContent")
    tab.point(".step")
    assert tab.errors == []


def test_steps_of_one_name_are_told_apart(browser: Browser, page: Background) -> None:
    tab = opened(browser, page.url, 1300, 900)
    shown = tab.value("[...document.querySelectorAll('.steps > .list > .step')].map((one) => "
                      "one.querySelector('.what').textContent)")  # fmt: skip
    assert len(shown) == len(set(shown)) and any(".tile(" in text for text in shown)


def timed(seconds: float, quiet: bool = True, **place: int) -> dict[str, Any]:
    return {"type": "time", "status": "ok", "seconds": seconds, "quiet": quiet, "text": "", **place}


@cache
def two_states(state: int) -> tuple[dict[str, Any], ...]:
    """Return what a page is told that shows one of two states."""
    told = session()
    while told.work():
        pass
    told.receive({"do": "take", "number": 0, "step": 0})
    told.receive({"do": "go", "to": state})
    while told.work():
        pass
    return tuple(told.hello())


def shown(browser: Browser, path: Path, *times: dict[str, Any], state: int = 0) -> Tab:
    """Open a page with two states, which has been told some times."""
    path.write_text(shared_page("p", [*two_states(state), *times]), "utf-8")
    tab = browser.tab()
    tab.open(path.as_uri())
    tab.wait("document.querySelector('.step')")
    return tab


def test_measured_steps_come_first_and_disturbed_ones_apart(
    browser: Browser, tmp_path: Path
) -> None:
    times = [timed(0.02, of=0, step=0), timed(0.001, of=0, step=2)]
    times.append(timed(0.0001, False, of=0, step=1))
    tab = shown(browser, tmp_path / "a.html", timed(0.01, state=0), *times)
    orders = tab.value("[...document.querySelectorAll('.steps > .list')].map((one) => "
                       "[...one.children].map((step) => +step.dataset.step))")  # fmt: skip
    assert orders[0][:3] == [2, 0, 3] and orders[1] == [1]
    real = tab.value("[...document.querySelectorAll('.real')].map((one) => one.textContent)")
    assert real == [
        "measured 10.0×: 1.00 ms", "measured 2.00 times slower: 20.0 ms",
        # a disturbed time is too long
        "measured at least 100×: 100 µs (too long: other work took a core)",
    ]  # fmt: skip
    text = tab.value("document.querySelector('.steps').textContent")
    assert "Other work took a core during these times." in text and "0.00" not in text
    assert tab.errors == []


@pytest.mark.parametrize(
    ("start", "own", "headline"),
    [
        ((0.01, True), (0.002, True), "5.00×as fast as the start"),
        ((0.01, True), (0.03, False), "at most 3.00 times slowerthan the start"),
        ((0.01, True), (0.03, True), "3.00 times slowerthan the start"),
        ((0.01, False), (0.002, True), "at most 5.00×as fast as the start"),
        ((0.01, True), (0.002, False), "at least 5.00×as fast as the start"),
        ((0.01, False), (0.03, False), "not knownother work took a core while this state"),
    ],
)
def test_the_headline_divides_no_disturbed_times(
    browser: Browser, tmp_path: Path, start: Any, own: Any, headline: str
) -> None:
    tab = shown(browser, tmp_path / "a.html", timed(*start, state=0), timed(*own, state=1), state=1)
    assert tab.value("document.querySelector('.speed').textContent").startswith(headline)
    ratio = tab.value("document.querySelector('.current .value').textContent")
    assert headline.startswith(ratio) and "0." not in ratio and tab.errors == []
