"""Tests of the line of a search."""

from __future__ import annotations

from typing import Any

import pytest

from schedlang.autotune.record import Trial
from schedlang.autotune.report.progress import Bar, Callback, Tally, progress_for
from schedlang.errors import TuningError
from schedlang.networks.progress import Bar as BarOfNetwork
from tests.terminals import Clock, Terminal, drawn, use


def bar(terminal: Terminal, total: int | None = 4, **options: Any) -> Bar:
    """Return a line on a terminal whose clock advances by three seconds per reading."""
    return Bar(total, **{"clock": Clock(3.0), **options})


def test_the_line_shows_the_best_the_rate_the_rest_and_failures(terminal: Terminal) -> None:
    with bar(terminal) as progress:
        progress.trial(Trial(0, "ok", "", seconds=0.004))
        progress.trial(Trial(1, "crashed", ""))
        progress.trial(Trial(2, "ok", "", seconds=0.002))
    first, second, third = drawn(terminal)
    assert first.startswith("trial 1 of 4, best 4 ms, ")
    assert "trial 2 of 4, best 4 ms, " in second and "1 crashed" in second
    assert third.startswith("trial 3 of 4, best 2 ms, ") and third.endswith("1 crashed")
    assert all("trials/s" in line and "left" in line for line in (first, second, third))


def test_the_line_is_gone_at_the_end_also_after_an_interrupt(terminal: Terminal) -> None:
    with bar(terminal) as progress:
        progress.trial(Trial(0, "ok", "", seconds=1.0))
    assert terminal.screen() == []
    with pytest.raises(KeyboardInterrupt):
        with bar(terminal) as progress:
            progress.trial(Trial(0, "ok", "", seconds=1.0))
            raise KeyboardInterrupt
    assert terminal.screen() == []


def test_a_search_that_only_time_ends_has_a_line_too(terminal: Terminal) -> None:
    with bar(terminal, None, deadline=60.0) as progress:
        progress.trial(Trial(0, "ok", "", seconds=0.002))
    assert drawn(terminal) == ["1 trials, best 2 ms, 0.33 trials/s, 48 s left"]


def test_a_note_stays_above_the_line(terminal: Terminal) -> None:
    with bar(terminal) as progress:
        progress.note("waiting for 2 workers \x1b[2J")
        progress.trial(Trial(0, "ok", "", seconds=1.0))
    assert terminal.screen() == ["waiting for 2 workers \\x1b[2J"]


def test_the_line_that_was_asked_for_stays(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def searched() -> None:
        with bar(terminal, 1, setting=True) as progress:
            progress.trial(Trial(0, "ok", "", seconds=0.002))
            progress.raced(Trial(0, "ok", "", seconds=0.003, raced=True, first=0.002))
            progress.trial(Trial(1, "ok", "", seconds=0.001))

    searched()
    assert "best 3 ms when measured again" in drawn(terminal)[1]
    (last,) = terminal.screen()
    assert last.startswith("trial 2 of 2, best 1 ms, ")
    assert "measured again" not in last and "left" not in last
    # where there is no terminal, it is all that is printed
    plain = Terminal(False)
    use(monkeypatch, plain)
    searched()
    assert plain.getvalue() == last + "\n"


def test_many_trials_a_second_are_not_each_drawn(terminal: Terminal) -> None:
    clock = Clock(0.0)
    with bar(terminal, 1000, clock=clock) as progress:
        clock.now += 5.0
        for n in range(1000):
            progress.trial(Trial(n, "ok", "", seconds=1.0))
    assert len(drawn(terminal)) == 1


def test_the_remaining_time_is_by_the_rate_or_the_deadline() -> None:
    tally = Tally(total=10, deadline=None, start=100.0)
    assert tally.left(100.0) is None and tally.text(100.0) == "no time yet"
    tally.add(Trial(0, "ok", "", seconds=float("nan")))
    tally.add(Trial(1, "ok", "", resumed=True, seconds=0.5))
    assert tally.rate(102.0) == 0.5 and tally.left(102.0) == 16.0 and tally.best == 0.5
    tally.deadline = 105.0
    assert tally.left(102.0) == 3.0 and tally.left(106.0) == 0.0
    assert "3.0 s left" in tally.text(102.0)
    assert Tally(None, 50.0, 0.0).left(20.0) == 30.0 and Tally(None, None, 0.0).left(1.0) is None


def test_nothing_is_shown_off_a_terminal_and_where_it_is_refused(
    capfd: pytest.CaptureFixture[str], terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def searched(setting: bool | None) -> None:
        with bar(terminal, setting=setting) as progress:
            progress.trial(Trial(0, "ok", ""))
            progress.note("hello")

    searched(False)
    assert terminal.getvalue() == ""
    monkeypatch.undo()
    for setting in (None, False):
        searched(setting)
    use(monkeypatch, None)
    searched(None)
    assert capfd.readouterr() == ("", "")


def test_searches_for_a_network_have_one_line(terminal: Terminal) -> None:
    clock = Clock(0.0)
    with BarOfNetwork(2, None, True, clock) as shown:
        shown.search(1, "conv1", 2)
        clock.now += 1.0
        shown.trial("conv1", Trial(0, "ok", "", seconds=0.004))
        clock.now += 1.0
        shown.search(2, "fc", 1)
    assert drawn(terminal) == [
        "search 1 of 2, conv1, 2 in a call, trial 0",
        "search 1 of 2, conv1, 2 in a call, trial 1, best 4 ms",
        "search 2 of 2, fc, trial 0",
    ]
    assert terminal.screen() == ["search 2 of 2, fc, trial 0"]


def test_a_function_is_called_with_each_trial() -> None:
    seen: list[Trial] = []
    trials = [Trial(0, "ok", ""), Trial(1, "crashed", "")]
    with progress_for(seen.append, 2) as progress:
        assert type(progress) is Callback
        for trial in trials:
            progress.trial(trial)
        progress.note("hello")
    assert seen == trials


@pytest.mark.parametrize("setting", [0, 1, "yes", []])
def test_an_invalid_setting_is_refused(setting: Any) -> None:
    with pytest.raises(TuningError, match="give None, True, False or a function"):
        progress_for(setting, 3)
