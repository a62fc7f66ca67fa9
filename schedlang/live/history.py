"""The history of a live page: an immutable tree of schedules, with the one that is shown."""

from __future__ import annotations

from dataclasses import dataclass, replace

from schedlang.errors import LiveError
from schedlang.schedule.schedule import Schedule

START = "start"


@dataclass(frozen=True, eq=False)
class State:
    """A schedule of the tree: its number, the number of its parent, and what led to it.

    ``text`` is its code as a person wrote it, or empty.
    """

    number: int
    parent: int | None
    schedule: Schedule
    label: str
    text: str = ""

    @property
    def code(self) -> str:
        """The statements of the whole schedule, as they were written if a person wrote them."""
        return self.text or self.schedule.as_python()

    @property
    def key(self) -> str:
        """The steps as JSON, which equal schedules share."""
        return self.schedule.to_json()


@dataclass(frozen=True, eq=False)
class History:
    """A tree of states, oldest first, and the number of the current one.

    ``undone`` are the states that :meth:`redo` returns to, the next one first.

    >>> import schedlang as sl
    >>> A = sl.placeholder((8,), name="A")
    >>> B = sl.compute((8,), lambda i: A[i] + 1, name="B")
    >>> s = sl.schedule(B)
    >>> h = History.of(s)
    >>> _ = s[B].split(B.op.axis[0], factor=4)
    >>> h = h.take(s, "split")
    >>> h.current, h.undo().current, h.undo().redo().current
    (1, 0, 1)
    """

    states: tuple[State, ...]
    current: int = 0
    undone: tuple[int, ...] = ()

    @staticmethod
    def of(schedule: Schedule) -> History:
        """Return the history that starts with a copy of ``schedule``."""
        return History((State(0, None, schedule.copy(), START),))

    @property
    def state(self) -> State:
        """The current state."""
        return self.states[self.current]

    @property
    def can_undo(self) -> bool:
        return self.state.parent is not None

    @property
    def can_redo(self) -> bool:
        return bool(self.undone)

    def at(self, number: object) -> State:
        """Return a state; raise :class:`~schedlang.errors.LiveError` if there is none."""
        if type(number) is not int or not 0 <= number < len(self.states):
            raise LiveError(f"there is no state {number!r}: the last one is {len(self.states) - 1}")
        return self.states[number]

    def take(
        self, schedule: Schedule, label: str, parent: int | None = None, text: str = ""
    ) -> History:
        """Return the history after a step from ``parent``, by default the current state.

        A step that was taken before leads to its old state; a step without effect to ``parent``.
        Either way, ``text`` becomes the code of the state, unless it is empty.
        """
        base = self.state if parent is None else self.at(parent)
        key = schedule.to_json()
        candidates = [base, *(s for s in self.states if s.parent == base.number)]
        state = next((s for s in candidates if s.key == key), None)
        if state is not None:
            history = self.go(state.number)
            return history._written(text) if text else history
        state_ = State(len(self.states), base.number, schedule.copy(), label, text)
        return History((*self.states, state_), state_.number)

    def _written(self, text: str) -> History:
        """Return the history in which the code of the current state is ``text``."""
        states = list(self.states)
        states[self.current] = replace(self.state, text=text)
        return replace(self, states=tuple(states))

    def undo(self) -> History:
        """Return the history at the parent of the current state."""
        parent = self.state.parent
        if parent is None:
            raise LiveError("there is nothing to undo: this is the start")
        return replace(self, current=parent, undone=(self.current, *self.undone))

    def redo(self) -> History:
        """Return the history at the state that was undone last."""
        if not self.undone:
            raise LiveError("there is nothing to redo")
        return replace(self, current=self.undone[0], undone=self.undone[1:])

    def go(self, number: object) -> History:
        """Return the history at any state."""
        state = self.at(number)
        return self if state.number == self.current else History(self.states, state.number)

    def path(self, number: int) -> tuple[int, ...]:
        """Return the states from the start to a state."""
        numbers, at = [number], self.at(number).parent
        while at is not None:
            numbers.append(at)
            at = self.states[at].parent
        return tuple(reversed(numbers))
