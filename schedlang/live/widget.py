"""The live page in a notebook: a widget with the page's own script."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schedlang.errors import missing_extra
from schedlang.live.session import Message, Session
from schedlang.live.share import css, script
from schedlang.schedule.schedule import Schedule


def live(
    schedule: Schedule,
    target: Any = None,
    sizes: Mapping[Any, int] | None = None,
    measure: bool = True,
) -> Any:
    """Return the widget for a copy of ``schedule``; see :meth:`schedlang.Schedule.live`."""
    try:
        import anywidget
    except ImportError:
        raise missing_extra("anywidget", "live", "s.live()") from None
    session = Session(schedule, target=target, sizes=sizes, measure=measure)

    class Live(anywidget.AnyWidget):
        """A live page. ``schedule`` is a copy of the schedule that it shows."""

        _esm = script()
        _css = css()

        @property
        def schedule(self) -> Schedule:
            return session.schedule

        def __repr__(self) -> str:
            return f"<{session.summary}>"

        def save(self, path: str | Path) -> Path:
            """Write the whole history as one file that needs nothing else; return its path."""
            return session.save(path)

        def close(self) -> None:
            """End the page, and the process that measures."""
            session.close()
            super().close()

    widget = Live()
    # the session must not keep the widget, nor measure for one that is gone
    widget_or_none = weakref.ref(widget)
    weakref.finalize(widget, session.close)

    def tell(message: Message) -> None:
        target_widget = widget_or_none()
        if target_widget is not None:
            target_widget.send({"messages": [message]})

    def asked(_: Any, content: object, buffers: object) -> None:
        answers = session.receive(content)
        target_widget = widget_or_none()
        if target_widget is not None:
            target_widget.send({"messages": [*answers, {"type": "done"}]})
        # a notebook has one thread: what is left to find out follows the answer
        while session.work():
            pass

    session.tell = tell
    widget.on_msg(asked)
    return widget
