"""Pauses of the collection of garbage: several threads, forks."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import pytest

from schedlang.runtime.collection import collection_at_the_end, no_collection


def test_threads_that_pause_the_collection_turn_it_on_again() -> None:
    inside, leave = threading.Event(), threading.Event()

    def pause() -> None:
        with no_collection():
            inside.set()
            leave.wait(20)

    other = threading.Thread(target=pause)
    other.start()
    assert inside.wait(20)
    with no_collection():
        pass
    assert not gc.isenabled()
    leave.set()
    other.join()
    assert gc.isenabled()
    with no_collection(), no_collection():
        pass
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("own", [False, True])
def test_a_fork_during_a_pause(own: bool) -> None:
    """The child has the pauses of its one thread alone."""
    inside, leave = threading.Event(), threading.Event()

    def pause() -> None:
        with no_collection():
            inside.set()
            leave.wait(20)

    other = threading.Thread(target=pause)
    other.start()
    assert inside.wait(20)
    if own:
        with no_collection():
            child = os.fork()
            inside_child = gc.isenabled()
        states = (inside_child, gc.isenabled())
    else:
        child = os.fork()
        states = (gc.isenabled(), gc.isenabled())
    if not child:
        os._exit(0 if states == (not own, True) else 1)
    leave.set()
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.isenabled()


def test_what_is_young_is_collected_at_the_end() -> None:
    class Node:
        pass

    with collection_at_the_end():
        node = Node()
        node.itself = node
        alive = weakref.ref(node)
        del node
        assert alive() is not None and not gc.isenabled()
    assert alive() is None
