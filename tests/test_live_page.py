"""The live page in Chromium: a lesson by clicks, edits, two pages, a server that comes back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.live.session import Session
from schedlang.live.share import css, script
from tests.browser import needs_browser
from tests.chromium import Browser, Tab, chromium
from tests.graphs import product

pytest.importorskip("aiohttp", reason='needs aiohttp: pip install "schedlang[live]"')
from tests.live_background import Background  # noqa: E402

pytestmark = needs_browser
HOSTILE = "</title><img src=x onerror=\"console.error('run')\">"
# the numbers that the page shows of its state
SHOWN = """({state: document.querySelector('.current .name').textContent,
 code: document.querySelector('.editor').value, nest: document.querySelector('.loops').textContent,
 factor: document.querySelector('.speed .factor').textContent})"""
# whether the time of the state beside the start is known, if only that other work disturbed both
COMPARED = "document.querySelector('.speed .factor').textContent !== '…'"
# the first step of the list, and whether the page promises anything by it
FIRST = ".steps > .list > .step"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def served(n: int = 64, measure: bool = False, **options: Any) -> Background:
    s = sl.schedule(product(n, n, n)[2])
    return Background(Session(s, HOSTILE, measure=measure), **options)


@pytest.fixture
def page() -> Iterator[Background]:
    found = served()
    yield found
    found.close()
    found.session.close()


def opened(browser: Browser, url: str) -> Tab:
    tab = browser.tab()
    tab.open(url)
    tab.wait("document.querySelector('.step')")
    return tab


def at_state(tab: Tab, number: int) -> dict[str, str]:
    tab.wait(f"document.querySelector('.current .name').textContent.startsWith('{number}:')")
    tab.wait("document.querySelector('.step')")
    found: dict[str, str] = tab.value(SHOWN)
    return found


def take_the_first_steps(tab: Tab) -> int:
    """Click the first step while the page promises something by it; return the last state."""
    for number in range(1, 9):
        if not tab.value(f"!!document.querySelector({json.dumps(FIRST)})"):
            return number - 1
        tab.click(FIRST)
        at_state(tab, number)
    raise AssertionError("the steps never end")


def write(tab: Tab, code: str) -> None:
    """Replace the text of the editor, as typing does."""
    tab.value(f"(() => {{ const e = document.querySelector('.editor'); e.value = "
              f"{json.dumps(code)}; e.dispatchEvent(new Event('input')); }})()")  # fmt: skip


def pasted(tab: Tab) -> str:
    """Return what the page copies."""
    text: str = tab.value(
        "new Promise((done) => { navigator.clipboard.writeText = (t) => { done(t); "
        "return Promise.resolve(); }; document.querySelector('[data-key=copy]').click(); })"
    )
    return text


@pytest.mark.slow
def test_a_lesson_by_clicks(browser: Browser, tmp_path: Path) -> None:
    page = served(64, measure=True)
    tab = opened(browser, page.url)
    # the title and the name are text
    assert tab.value("document.title") == tab.value("document.querySelector('h1').textContent")
    assert "<img src=x" in tab.value("document.title")
    assert tab.value(SHOWN)["nest"].count("for") == 3
    last = take_the_first_steps(tab)
    assert last >= 1
    shown = at_state(tab, last)
    assert "vectorize" in shown["nest"] and "s[C].vectorize(j" in shown["code"]
    # its time arrives from the process that measures
    tab.wait(COMPARED, 60)
    tab.click("[data-key=undo]")
    assert at_state(tab, last - 1)["code"] != shown["code"]
    tab.click("[data-key=redo]")
    assert at_state(tab, last)["code"] == shown["code"]
    # a branch: back to the start, then another step
    tab.click("[data-key='state 0']")
    at_state(tab, 0)
    tab.click(".steps > .list > .step:nth-child(2)")
    branch = at_state(tab, last + 1)
    assert tab.value("document.querySelector('.current').style.cssText") == "--depth: 1;"
    tab.click(f"[data-key='with {last}']")
    tab.wait("document.querySelectorAll('.side .line').length > 8")
    sides = tab.value(
        "[...document.querySelectorAll('.side')].map((side) => [...side.querySelectorAll('.line')]"
        ".map((line) => line.textContent.slice(2).trimEnd()))"
    )
    states = page.session.history.states
    # without the gaps
    assert [[line for line in side if line] for side in sides] == [
        [line for line in str(states[n].schedule).split("\n") if line] for n in (last, last + 1)
    ]
    # what is pasted runs by itself
    space: dict[str, Any] = {}
    exec(pasted(tab).replace("sl.build(s)", "sl.build(s, target='python')"), space)
    a, b = np.random.default_rng(0).integers(0, 9, (2, 64, 64)).astype("float32")
    np.testing.assert_array_equal(space["f"](a, b), a @ b)
    assert str(space["s"]) == str(states[last + 1].schedule) and branch["code"] in pasted(tab)
    # a refusal opens to its whole message
    tab.value("document.querySelector('[data-key=refused]').open = true")
    assert "is a reduction axis" in tab.value("document.querySelector('.refused').textContent")
    assert tab.errors == [] and all(r.split("://")[1].startswith("127.0.0.1") for r in tab.requests)
    page.close()
    page.session.close()


@pytest.mark.slow
def test_an_edit_and_a_mistake_at_its_line(browser: Browser, page: Background) -> None:
    tab = opened(browser, page.url)
    tab.click(".editor")
    tab.key("End", 2)
    tab.type("s[C].unroll(s[C].op.axis[7])")
    tab.wait("!document.querySelector('[data-key=run]').disabled")
    tab.click("[data-key=run]")
    text = tab.wait("(document.querySelector('.run .problem') || {}).textContent")
    assert text.startswith("line 1: ") or text.startswith("line 2: ")
    assert tab.value("document.querySelector('.gutter .wrong').textContent") == text[5]
    code = "s = sl.schedule(C)\ni, j = s[C].op.axis\ns[C].parallel(i)"
    write(tab, code)
    tab.click(".editor")
    tab.key("Enter", 2)
    assert "parallel i in 0..64" in at_state(tab, 1)["nest"]
    assert str(page.session.schedule).count("parallel") == 1
    assert tab.errors == []


@pytest.mark.slow
def test_what_is_typed_while_an_edit_runs_stays(browser: Browser, page: Background) -> None:
    tab = opened(browser, page.url)
    code = "s = sl.schedule(C)\ni, j = s[C].op.axis\ns[C].parallel(i)"
    write(tab, code)
    tab.wait("!document.querySelector('[data-key=run]').disabled")
    # both before the answer can arrive
    tab.value("(() => { document.querySelector('[data-key=run]').click(); const e = "
              "document.querySelector('.editor'); e.value += '\\n# more'; "
              "e.dispatchEvent(new Event('input')); })()")  # fmt: skip
    assert at_state(tab, 1)["code"] == f"{code}\n# more"
    tab.click("[data-key=run]")
    tab.wait("document.querySelector('[data-key=run]').disabled")
    # a comment is no step: the text led to the state that is shown, and is its code
    assert at_state(tab, 1)["code"] == f"{code}\n# more" and tab.errors == []


@pytest.mark.slow
def test_two_pages_show_one_history_and_keep_what_is_typed(
    browser: Browser, page: Background
) -> None:
    one, other = opened(browser, page.url), opened(browser, page.url)
    typed = "s = sl.schedule(C)\n# mine"
    write(other, typed)
    one.click(FIRST)
    at_state(one, 1)
    assert at_state(other, 1)["code"] == typed
    note = other.value("document.querySelector('.run .note').innerText")
    assert "Your text is based on state 0" in note
    # also over a reload of the page
    other.send("Page.reload")
    other.wait("(document.querySelector('.run .note') || {}).textContent")
    assert other.value(SHOWN)["code"] == typed
    other.click("[data-key=drop]")
    other.wait(f"document.querySelector('.editor').value !== {json.dumps(typed)}")
    assert other.value(SHOWN)["code"] == one.value(SHOWN)["code"]


@pytest.mark.slow
def test_the_page_says_that_the_connection_is_lost_and_brings_its_states_back(
    browser: Browser,
) -> None:
    page = served(token="t" * 24)
    port = page.port
    tab = opened(browser, page.url)
    tab.click(FIRST)
    at_state(tab, 1)
    code = tab.value(SHOWN)["code"]
    page.close()
    tab.wait("(document.querySelector('.lost') || {}).textContent")
    assert "All that is shown here stays" in tab.value("document.querySelector('.lost').innerText")
    assert tab.value("document.querySelector('.status').textContent") == "connection lost"
    # the states that the page knows can be looked at
    tab.click("[data-key=undo]")
    assert at_state(tab, 0)["code"] != code
    tab.click("[data-key='state 1']")
    write(tab, code + "# typed")
    again = served(port=port, token="t" * 24)
    tab.wait("document.querySelector('.status').textContent === 'connected'")
    tab.wait("document.querySelectorAll('.state').length === 2")
    assert at_state(tab, 1)["code"] == code + "# typed"
    assert "started again" in tab.value("document.querySelector('.notice').innerText")
    assert again.session.history.states[1].code.rstrip() == code.rstrip()
    again.close()


@pytest.mark.slow
def test_the_shared_file_needs_nothing(browser: Browser, tmp_path: Path) -> None:
    session = Session(sl.schedule(product(64, 64, 64)[2]), HOSTILE, measure=False)
    for step in (0, 1):
        while session.work():
            pass
        session.receive({"do": "take", "number": session.history.current, "step": step})
    path = session.save(tmp_path / "history.html")
    assert path.stat().st_size < 250_000
    tab = browser.tab()
    tab.open(path.as_uri())
    shown = at_state(tab, 2)
    assert tab.value("document.title") == HOSTILE
    tab.click("[data-key=undo]")
    assert at_state(tab, 1)["code"] != shown["code"]
    tab.click("[data-key='with 0']")
    tab.wait("document.querySelectorAll('.side .added').length > 0")
    assert tab.value("document.querySelector('.editor').readOnly")
    steps = "[...document.querySelectorAll('.step')]"
    assert tab.value(f"{steps}.every((step) => step.ariaDisabled === 'true')")
    tab.click("[data-key=play]")
    time.sleep(0.2)
    assert tab.errors == []
    assert {r.split(":")[0] for r in tab.requests} <= {"file", "data"}


# a notebook's side of a widget: it answers with what a session told
MODEL = """
const told = JSON.parse(document.getElementById("messages").textContent);
const asked = [];
let heard = null;
const model = { on: (name, f) => { heard = f; }, off: () => {}, send: (message) => {
  asked.push(message);
  setTimeout(() => heard({ messages: message.do === "hello" ? told : [{ type: "done" }] }), 0); } };
window.asked = asked;
render({ model, el: document.getElementById("live") });
"""


def widget_page(tab: Tab, path: Path, session: Session, own: str, model: str) -> None:
    """Open a page that draws what the widget of ``session`` tells first, by a script."""
    told = json.dumps(session.hello()).replace("<", "\\u003c")
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><style>{css()}</style><div id="live"></div>'
        f'<script type="application/json" id="messages">{told}</script>'
        f'<script type="module">{own}\n{model}</script>', "utf-8",
    )  # fmt: skip
    tab.open(path.as_uri())


def test_the_widget_draws_the_page_of_a_session(browser: Browser, tmp_path: Path) -> None:
    session = Session(sl.schedule(product(16, 16, 16)[2]), measure=False)
    while session.work():
        pass
    tab = browser.tab()
    widget_page(tab, tmp_path / "widget.html", session, script(), MODEL)
    assert "C[i, j] += A[i, k] * B[k, j]" in at_state(tab, 0)["nest"]
    tab.click(FIRST)
    assert tab.value("window.asked") == [{"do": "hello"}, {"do": "take", "number": 0, "step": 0}]
    assert tab.errors == []


def test_a_kernel_that_does_not_answer_is_named(browser: Browser, tmp_path: Path) -> None:
    session = Session(sl.schedule(product(8, 8, 8)[2]), measure=False)
    # only the first request is answered, and the page waits less long
    model = MODEL.replace('[{ type: "done" }]', "[]").replace(
        "setTimeout", 'if (message.do === "hello") setTimeout'
    )
    own = script().replace("PATIENCE = 8", "PATIENCE = 0.1")
    tab = browser.tab()
    widget_page(tab, tmp_path / "dead.html", session, own, model)
    at = "document.querySelector('.state')"
    tab.wait(at)
    tab.value("document.querySelector('.editor').dispatchEvent(new Event('input'))")
    tab.click("[data-key=run]")
    text = tab.wait("(document.querySelector('.lost') || {}).textContent")
    assert "The kernel does not answer" in text and "run the cell again" in text
    assert tab.value("document.querySelector('.editor').value") == "s = sl.schedule(C)"


@pytest.mark.slow
def test_a_person_who_never_scheduled_clicks_the_first_steps(browser: Browser) -> None:
    """Only clicks on the first step of the page; ``benchmarks.first_steps`` times them."""
    page = served(512, measure=True)
    tab = opened(browser, page.url)
    last = take_the_first_steps(tab)
    tab.wait(COMPARED, 120)
    nest = at_state(tab, last)["nest"]
    assert last <= 6 and "vectorize" in nest and "parallel" in nest and "unroll" in nest
    assert tab.errors == []
    page.close()
    page.session.close()
