"""A live page without its transport: what it shows, and what requests of its clients do.

A session is driven by one thread, which gives it requests and calls :meth:`Session.work` while
there is work left. Times arrive from the thread that measures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any

from schedlang.autotune.runner.sandbox import COMMAND
from schedlang.autotune.runner.task import Limits
from schedlang.compute.graph import variables
from schedlang.compute.tensor import Tensor
from schedlang.errors import LiveError, first_line
from schedlang.hints.next_steps import NextStep, rank
from schedlang.live import page
from schedlang.live.definition import definition
from schedlang.live.edits import edit
from schedlang.live.gpu import UNGUIDED, UNTIMED
from schedlang.live.history import History, State
from schedlang.live.measure import LIMITS, RUNNING, WAITING, Measurer, timing_data
from schedlang.live.places import TriedPlace, place_counts, places_part, places_tried
from schedlang.live.share import shared_page
from schedlang.markup.fragment import name_rules
from schedlang.markup.name_table import NameTable
from schedlang.markup.text import printable
from schedlang.schedule.nest_diff import pair_lines
from schedlang.schedule.schedule import Schedule
from schedlang.schedule.trace import variables_of
from schedlang.target import Target

Message = dict[str, Any]
# the most states of a page, and the most names that have a style at first
MOST_STATES, NAMES = 1000, 64
# states up to which a shared file compares each with each
MOST_COMPARED = 60


class Session:
    """The history of a schedule, what is known of each state, and the requests of clients.

    ``tell`` is called with each message for all clients, also in the thread that measures.
    """

    def __init__(
        self,
        schedule: Schedule,
        title: str = "",
        target: Any = None,
        sizes: Mapping[Any, int] | None = None,
        measure: bool = True,
        tell: Callable[[Message], None] | None = None,
        limits: Limits = LIMITS,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.target = Target.of(target)
        self.title = printable(title) or ", ".join(t.name for t in schedule.outputs)
        self.number = token_hex(8)
        self.history = History.of(schedule)
        self.tell = tell or (lambda message: None)
        self._telling = Lock()
        self._sizes = _numbers(schedule.outputs, sizes)
        self._measures = measure
        self._views: dict[int, Message] = {}
        self._steps: dict[int, list[NextStep]] = {}
        self._tried_places: dict[int, list[TriedPlace]] = {}
        # the state and the part that is found out piece by piece, and the pieces
        self._trying: tuple[int, str, Iterator[Any], list[Any]] | None = None
        # the places of the page that show the time of a schedule, by its steps
        self._places: dict[str, list[Message]] = {}
        self._names, self._styled = NameTable(), NAMES
        self._measurer = Measurer(
            schedule.outputs, self.target, self._sizes, self._timed, limits, command,
            "" if page.is_guided(self.target) else UNTIMED,
        )  # fmt: skip
        names = variables_of(schedule.at(0).state)
        self.definition = definition(schedule.outputs, names)
        self._show(())

    @property
    def schedule(self) -> Schedule:
        """A copy of the schedule that the page shows."""
        return self.history.state.schedule.copy()

    @property
    def summary(self) -> str:
        """The page in a few words."""
        state, states = self.history.state, len(self.history.states)
        return f"live page of {self.title}: state {state.number}, {state.label}, of {states}"

    def close(self) -> None:
        """End the process that measures."""
        self._measurer.close()

    # what clients are told

    def hello(self) -> list[Message]:
        """Return the messages that tell a new client all that is known."""
        start: Message = {
            "type": "hello", "session": self.number, "title": self.title,
            "definition": self.definition, "cores": page.cores_text(self.target),
            "impossible": self._measurer.impossible, "build": page.build_text(self.target),
            "unguided": "" if page.is_guided(self.target) else UNGUIDED,
        }  # fmt: skip
        messages = [start, self._style(0), self._tree()]
        messages += [{"type": "view", "number": n, **view} for n, view in self._views.items()]
        return messages + [m for key in self._places for m in self._times(key)]

    def _tree(self) -> Message:
        history = self.history
        states = [{"parent": s.parent, "label": s.label} for s in history.states]
        return {"type": "tree", "current": history.current, "states": states,
                "undo": history.can_undo, "redo": history.can_redo}  # fmt: skip

    def _style(self, first: int) -> Message:
        return {"type": "style", "css": name_rules(first, self._styled), "from": first}

    def _times(self, key: str) -> list[Message]:
        timing = self._measurer.known.get(key)
        if timing is None:
            return []
        data = timing_data(timing)
        return [{"type": "time", **place, **data} for place in self._places.get(key, ())]

    def _timed(self, key: str) -> None:
        # the thread that measures calls this, too: the newest time must be told last
        with self._telling:
            for message in self._times(key):
                self.tell(message)

    # requests

    def receive(self, message: object) -> list[Message]:
        """Do what a client asks for, and return the messages for this client alone."""
        try:
            what = message.get("do") if isinstance(message, Mapping) else None
            request = _REQUESTS.get(what) if isinstance(what, str) else None
            if request is None or not isinstance(message, Mapping):
                raise LiveError("the page asks for something that is unknown here: load it again")
            return request(self, message) or []
        except LiveError as error:
            problem = {"text": str(error), "line": error.line}
        except Exception as error:
            problem = {"text": describe_mistake(error), "line": 0}
        about = message.get("do", "") if isinstance(message, Mapping) else ""
        return [{"type": "problem", "about": str(about), **problem}]

    def _hello(self, message: Mapping[str, Any]) -> list[Message]:
        return self.hello()

    def _take(self, message: Mapping[str, Any]) -> None:
        state = self.history.at(message.get("number"))
        self._go_on(state, self._step(state, message.get("step")))

    def _step(self, state: State, number: object) -> NextStep:
        steps = self._steps.get(state.number, [])
        if type(number) is not int or not 0 <= number < len(steps):
            raise LiveError("this step is not known yet: wait until the steps are listed")
        return steps[number]

    def _edit(self, message: Mapping[str, Any]) -> list[Message]:
        base, text = self.history.at(message.get("base")), message.get("text")
        if not isinstance(text, str):
            raise LiveError("an edit is a text")
        result = edit(text, base.schedule)
        steps = result.schedule.steps
        label = f"edit · {steps[-1].primitive}" if steps else "edit"
        self._move(self._added(result.schedule, label, base.number, text), result.notes)
        return [{"type": "edited", "number": self.history.current}]

    def _undo(self, message: Mapping[str, Any]) -> None:
        self._move(self.history.undo())

    def _redo(self, message: Mapping[str, Any]) -> None:
        self._move(self.history.redo())

    def _go(self, message: Mapping[str, Any]) -> None:
        self._move(self.history.go(message.get("to")))

    def _compare(self, message: Mapping[str, Any]) -> list[Message]:
        numbers = [self.history.at(message.get(k)).number for k in ("a", "b")]
        return [self._compared(*numbers)]

    def _compared(self, a: int, b: int) -> Message:
        one, other = (self._views[n]["text"] for n in (a, b))
        return {"type": "compared", "a": a, "b": b, "rows": list(pair_lines(one, other))}

    def _preview(self, message: Mapping[str, Any]) -> list[Message]:
        """Return the nest that a step makes, each line with whether it changes."""
        state = self.history.at(message.get("number"))
        key = "place" if "place" in message else "step"
        tried = self._place(state, message["place"]) if key == "place" else None
        step = self._step(state, message.get("step")) if tried is None else tried.step
        nest = state.schedule.nest() if step is None else step.nest
        lines, names = page.preview_lines(self._views[state.number]["text"], nest, self._names)
        self._style_names(names)
        return [{"type": "preview", "number": state.number, key: message[key], "lines": lines}]

    def _place(self, state: State, number: object) -> TriedPlace:
        tried = self._tried_places.get(state.number, [])
        if type(number) is not int or not 0 <= number < len(tried):
            raise LiveError("this place is not known yet: wait until the map is drawn")
        return tried[number]

    def _put(self, message: Mapping[str, Any]) -> None:
        """Move a stage to another place of the map."""
        state = self.history.at(message.get("number"))
        step = self._place(state, message.get("place")).step
        if step is not None:
            self._go_on(state, step)

    def _moment(self, message: Mapping[str, Any]) -> list[Message]:
        """Return what a place computes and keeps while another element is computed."""
        state, number = self.history.at(message.get("number")), message.get("place")
        tried, element = self._place(state, number), message.get("element")
        if not isinstance(element, list) or not all(type(n) is int for n in element):
            raise LiveError("an element is a list of numbers")
        counts = place_counts(tried.schedule, tried.stage, self._sizes, element)
        if counts["moment"] is None:
            raise LiveError(counts["why"])
        return [{"type": "moment", "number": state.number, "place": number,
                 "moment": counts["moment"]}]  # fmt: skip

    def _share(self, message: Mapping[str, Any]) -> list[Message]:
        return [{"type": "file", "name": "live.html", "text": self.html()}]

    def _measure(self, message: Mapping[str, Any]) -> None:
        state, numbers = self.history.at(message.get("number")), message.get("steps")
        if self._measurer.impossible:
            raise LiveError(self._measurer.impossible)
        if numbers is None:
            self._ask(state.schedule, {"state": state.number}, True, again=True)
            return
        steps = self._steps.get(state.number, [])
        if not isinstance(numbers, list) or not all(
            type(n) is int and 0 <= n < len(steps) for n in numbers
        ):
            raise LiveError("these steps are not known yet: wait until they are listed")
        for n in numbers:
            self._ask(steps[n].schedule, {"of": state.number, "step": n}, False)

    def _restore(self, message: Mapping[str, Any]) -> list[Message]:
        """Add the states of a client that knew another session, such as one before a restart."""
        states, numbers = message.get("states"), dict[int, int]()
        if not isinstance(states, list) or len(states) > MOST_STATES:
            raise LiveError("the states to restore are not a list")
        current, lost = self.history.current, 0
        for number, saved in enumerate(states):
            parent = saved.get("parent") if isinstance(saved, Mapping) else None
            try:
                result = edit(str(saved.get("code")), self.history.states[0].schedule)
            except (LiveError, AttributeError):
                lost += 1
                continue
            before = numbers.get(parent, 0) if type(parent) is int else 0
            label = printable(str(saved.get("label"))[:80])
            self.history = self._added(result.schedule, label, before, str(saved.get("code")))
            numbers[number] = self.history.current
            self._show(result.notes)
        chosen = message.get("current")
        self._move(
            self.history.go(numbers.get(chosen, current) if type(chosen) is int else current)
        )
        text = f"{lost} of {len(states)} states do not fit the schedule of the server."
        return [{"type": "problem", "about": "restore", "text": text, "line": 0}] if lost else []

    def _go_on(self, state: State, step: NextStep) -> None:
        """Show the state after a step; what a person wrote before it stays as it is."""
        text = f"{state.text.rstrip()}\n{step.code}\n" if state.text else ""
        if text and not self._leads_to(text, step.schedule):
            # a variable of that text has another name in the code of the step
            text = ""
        label = f"{step.primitive} · {step.stage}"
        self._move(self._added(step.schedule, label, state.number, text))

    def _leads_to(self, text: str, schedule: Schedule) -> bool:
        try:
            result = edit(text, self.history.states[0].schedule)
        except LiveError:
            return False
        return result.schedule.to_json() == schedule.to_json()

    def _added(self, schedule: Schedule, label: str, parent: int, text: str = "") -> History:
        if len(self.history.states) >= MOST_STATES:
            raise LiveError(f"the page has {MOST_STATES:,} states: save it, and start a new one")
        return self.history.take(schedule, label, parent, text)

    def _move(self, history: History, notes: Sequence[str] = ()) -> None:
        """Show another state to all clients."""
        self.history = history
        self._show(notes)
        self.tell(self._tree())

    def _show(self, notes: Sequence[str]) -> None:
        """Make the first part of the current state, unless it is known, and have it measured."""
        state = self.history.state
        if state.number not in self._views:
            view, names = page.nest_part(
                state, self.target, self._sizes, self._names, notes
            )
            self._views[state.number] = view
            self._style_names(names)
            self.tell({"type": "view", "number": state.number, **view})
        elif self._views[state.number]["code"] != state.code:
            self._learn(state, {"code": state.code})
        if self._measures:
            self._ask(state.schedule, {"state": state.number}, True)

    def _style_names(self, names: int) -> None:
        """Tell all clients the style of more names, if there are some."""
        if names > self._styled:
            first, self._styled = self._styled, max(names, 2 * self._styled)
            self.tell(self._style(first))

    def _ask(self, schedule: Schedule, place: Message, first: bool, again: bool = False) -> None:
        key = schedule.to_json()
        places = self._places.setdefault(key, [])
        if place not in places:
            places.append(place)
            self._timed(key)
        self._measurer.ask(key, first, again)

    # work in the background

    def work(self) -> bool:
        """Find out a little more about a state, the current one first; return if there is more."""
        state = self._unfinished()
        if state is None:
            return False
        view = self._views[state.number]
        missing = next(key for key in page.PARTS if key not in view)
        try:
            self._find(missing, state)
        except Exception as error:
            # a mistake in one part must not end the page: the part says what it is
            self._trying = None
            self._learn(state, page.failed_part(missing, describe_mistake(error)))
        return True

    def _find(self, key: str, state: State) -> None:
        if key == "picture":
            self._learn(state, page.picture_part(state, self._sizes))
        elif key == "counters":
            self._learn(state, page.counters_part(state, self.target, self._sizes))
        elif key in ("steps", "places"):
            self._try(state, key)
        else:
            self._learn(state, page.refused_part(state))

    def _unfinished(self) -> State | None:
        states = self.history.states
        order = [self.history.current, *range(len(states))]
        return next((states[n] for n in order if "refused" not in self._views[n]), None)

    def _learn(self, state: State, part: Message) -> None:
        self._views[state.number].update(part)
        self.tell({"type": "view", "number": state.number, **part})

    def _try(self, state: State, key: str) -> None:
        """Try one more step or place of a state; list them when all have been tried."""
        if self._trying is None or self._trying[:2] != (state.number, key):
            pieces = (
                page.steps_tried(state, self.target) if key == "steps"
                else places_tried(state, self.target, self._sizes)
                if page.is_guided(self.target) else iter(())
            )  # fmt: skip
            self._trying = state.number, key, pieces, []
        *_, trying, tried = self._trying
        try:
            piece = next(trying)
        except StopIteration:
            self._trying = None
            if key == "steps":
                self._list_steps(state, rank(tried))
            else:
                self._tried_places[state.number] = tried
                self._learn(state, places_part(state, tried))
            return
        if piece is not None:
            tried.append(piece)

    def _list_steps(self, state: State, steps: list[NextStep]) -> None:
        self._steps[state.number] = steps
        self._learn(state, page.steps_part(steps))
        for n, one in enumerate(steps):
            self._noted(one.schedule.to_json(), {"of": state.number, "step": n})

    def _noted(self, key: str, place: Message) -> None:
        """Show a time that is known already where a step leads to its schedule."""
        self._places.setdefault(key, []).append(place)
        if key in self._measurer.known:
            self._timed(key)

    # sharing

    def html(self) -> str:
        """Return the whole history as a page that needs nothing else."""
        while self.work():
            pass
        # nobody measures what a file shows
        messages = [m for m in self.hello() if m.get("status") not in (WAITING, RUNNING)]
        return shared_page(self.title, [*messages, *self._pairs()])

    def _pairs(self) -> list[Message]:
        """Return comparisons: of all states, or of each with its parent and the start if many."""
        states = self.history.states
        if len(states) <= MOST_COMPARED:
            pairs = [(a, b) for b in range(len(states)) for a in range(b)]
        else:
            pairs = [(a, s.number) for s in states[1:] for a in {0, s.parent or 0}]
        return [self._compared(a, b) for a, b in pairs]

    def save(self, path: str | Path) -> Path:
        """Write :meth:`html` to a file, and return its path."""
        target = Path(path)
        try:
            target.write_text(self.html(), "utf-8")
        except OSError as error:
            raise LiveError(f"save({str(path)!r}): {error.strerror}") from None
        return target


_REQUESTS: Mapping[str, Callable[[Session, Mapping[str, Any]], list[Message] | None]] = {
    "hello": Session._hello, "take": Session._take, "edit": Session._edit,
    "undo": Session._undo, "redo": Session._redo, "go": Session._go,
    "compare": Session._compare, "share": Session._share, "measure": Session._measure,
    "restore": Session._restore, "preview": Session._preview,
    "put": Session._put, "moment": Session._moment,
}  # fmt: skip


def _numbers(outputs: Sequence[Tensor], sizes: Mapping[Any, int] | None) -> dict[str, int]:
    """Return the numbers of symbolic sizes by name; raise for a name that is none of them."""
    names = [v.name for v in variables(outputs) if v.is_size]
    numbers = {str(getattr(size, "name", size)): number for size, number in (sizes or {}).items()}
    for name, number in numbers.items():
        asked = f"live(sizes={{{name!r}: {number!r}}})"
        if name not in names:
            listed = f"its sizes are {', '.join(names)}" if names else "it has no symbolic size"
            raise LiveError(f"{asked}: {listed}")
        if isinstance(number, bool) or not hasattr(number, "__index__") or int(number) < 1:
            raise LiveError(f"{asked}: a size is an integer of 1 or more")
    return {name: int(number) for name, number in numbers.items()}


def describe_mistake(error: Exception) -> str:
    """Return an error that no request should lead to, in words."""
    return f"a mistake of schedlang itself: {type(error).__name__}: {first_line(error)}"


def text_of(message: Message) -> str:
    """Return a message as JSON."""
    return json.dumps(message, allow_nan=False, separators=(",", ":"))
