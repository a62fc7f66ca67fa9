"""Syntax trees that threads ask for at the same time."""

from __future__ import annotations

import ast
import contextlib
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from schedlang.parsing import parse_source

# trees of other depths, whose parts make the garbage collector run
SOURCES = [("x = " + "(" * depth + "1" + " + 1)" * depth + "\n") * 40 for depth in (2, 20, 60)]


@pytest.fixture
def turns_within_trees() -> Iterator[None]:
    """Let other threads run whenever the garbage collector does."""

    def wait(*_: object) -> None:
        time.sleep(0.0005)

    before = gc.get_threshold()
    gc.callbacks.append(wait)
    gc.set_threshold(100)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(wait)


def test_threads_parse_at_the_same_time(turns_within_trees: None) -> None:
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(parse_source, SOURCES * 4))
    assert [ast.dump(tree) for tree in trees[:3]] == [ast.dump(ast.parse(s)) for s in SOURCES]


@pytest.fixture
def trees_within_trees() -> Iterator[None]:
    """Parse something else, at another depth, whenever garbage is collected."""

    def parse(*_: object) -> None:
        if not nested:
            nested.append(True)
            try:
                with contextlib.suppress(SystemError):
                    ast.parse(SOURCES[1])
            finally:
                nested.clear()

    nested: list[bool] = []
    before = gc.get_threshold()
    gc.callbacks.append(parse)
    gc.set_threshold(100)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(parse)


def test_others_parse_inside_of_a_tree(trees_within_trees: None) -> None:
    trees = [parse_source(source) for source in SOURCES * 2]
    assert gc.isenabled()
    assert len({ast.dump(tree) for tree in trees}) == len(SOURCES)


def test_a_mistake_is_pythons() -> None:
    with pytest.raises(SyntaxError, match="never closed"):
        parse_source("x = (")
