"""When kernels and networks are compiled: at once, at the first call, or in a thread.

The thread works ahead, and owns nothing: a call that needs a kernel takes the same steps, under the
locks that let several threads call one kernel, so that it waits for a step that the thread is
taking and finds what it has done. An error in the thread is dropped, since the call meets it again,
at the user's line.

LLVM compiles one function at a time in a process, so there is one thread. It takes each step in its
turn, and holds no lock outside of one. A fork waits for the end of a turn, since the child has no
thread that would release these locks, and so does the end of the process, since LLVM's library may
not be unloaded while it works.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from time import sleep
from typing import Any

from schedlang.errors import BuildError, explain
from schedlang.markup.progress import working

# the values of ``compile``, the default one first
MOMENTS = ("lazy", "now", "background")
# a step of a job, which returns False if it must be tried again, since another thread is at it
Step = Callable[[], object]
# seconds between two tries
PAUSE = 0.01

# the jobs that wait for the thread, and the lock around them and the thread
_jobs: deque[Iterable[Step]] = deque()
_lock = threading.Lock()
_thread: threading.Thread | None = None
# held during a step, and whether no fork waits for its end
_turn, _no_fork = threading.RLock(), threading.Event()
_no_fork.set()
_ended = False


def check_moment(asked: str, compile: Any) -> None:  # noqa: A002
    """Raise :class:`~schedlang.errors.BuildError` for a value that ``compile`` does not have."""
    if not isinstance(compile, str) or compile not in MOMENTS:
        raise BuildError(
            explain(
                f"{asked}(..., compile={compile!r})",
                "compile= says when to compile",
                'Give "lazy" (at the first call), "now" (before it returns) or "background" (in a '
                "thread that starts at once).",
            )
        )


def compile_at(moment: str, job: Iterable[Step]) -> None:
    """Take the steps of ``job`` now or in the background; leave them to the first call if lazy."""
    if moment == "now":
        for step in job:
            step()
    elif moment == "background":
        _start(job)


def _start(job: Iterable[Step]) -> None:
    global _thread
    _watch_forks()
    with _lock:
        _jobs.append(job)
        if _thread is None and not _ended:
            _thread = threading.Thread(target=_work, name="schedlang-compile", daemon=True)
            _thread.start()


def _work() -> None:
    """Take the steps of all jobs, and end."""
    global _thread
    while True:
        with _lock:
            if not _jobs or _ended:
                _thread = None
                return
            job = _jobs.popleft()
        # the call that needs what failed fails, too, in the user's thread
        with suppress(Exception), working("", progress=False):
            for step in job:
                _take(step)


def _take(step: Step) -> None:
    while True:
        _no_fork.wait()
        with _turn:
            if _ended or step() is not False:
                return
        sleep(PAUSE)


def _end() -> None:
    """Let no other step begin, and wait for the one that is being taken."""
    global _ended
    _ended = True
    with _turn:
        pass


def _after_fork() -> None:
    """Forget the thread, which a child process lacks; calls compile what it had to do."""
    global _lock, _no_fork, _thread, _turn
    _lock, _turn, _thread = threading.Lock(), threading.RLock(), None
    _no_fork = threading.Event()
    _no_fork.set()
    _jobs.clear()


def _before_fork() -> None:
    _no_fork.clear()
    _turn.acquire()


def _after_fork_in_parent() -> None:
    _turn.release()
    _no_fork.set()


@lru_cache(maxsize=1)
def _watch_forks() -> None:
    """Let forks wait for the end of a turn.

    These modules take locks before a fork, which numba needs, whose import has them. Hooks before a
    fork run the last registered first: this one waits while those locks are still free.
    """
    import_module("logging")
    import_module("concurrent.futures.thread")
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_before_fork,
            after_in_parent=_after_fork_in_parent,
            after_in_child=_after_fork,
        )


atexit.register(_end)
