"""Objects of Python that a loop or a side of an ``if`` changes: loops are unrolled, or refused."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import random
from collections import ChainMap, Counter, UserDict, deque
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeTypeError, LoopWarning

COUNT = 0
MODULE = ModuleType("counts")
ITEMS: list[int] = []
ITERATORS = {"list": lambda: iter(range(9)), "count": itertools.count}


class Slots:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0


class Total:
    n = 0


def bump_global():
    global COUNT
    COUNT += 1


def add_item():
    ITEMS.append(1)


def slots():
    held = Slots()
    return lambda: setattr(held, "n", held.n + 1), lambda: held.n


def class_attribute():
    Total.n = 0
    return lambda: setattr(Total, "n", Total.n + 1), lambda: Total.n


def global_name():
    global COUNT
    COUNT = 0
    return bump_global, lambda: COUNT


def global_list():
    ITEMS.clear()
    return add_item, lambda: len(ITEMS)


def nonlocal_name():
    n = 0

    def bump():
        nonlocal n
        n += 1

    return bump, lambda: n


def appended(kind):
    def start():
        held = kind()
        return (lambda: held.append(1)), lambda: len(held)

    return start


def item_of(kind):
    def start():
        held = kind({"n": 0})
        return lambda: held.update(n=held["n"] + 1), lambda: held["n"]

    return start


def counter():
    held = Counter()
    return (lambda: held.update("a")), lambda: held["a"]


def deep():
    held = [[[[(SimpleNamespace(n=0),)]]]]
    inner = held[0][0][0][0]
    return lambda: setattr(inner[0], "n", inner[0].n + 1), lambda: inner[0].n


def bound_method():
    held = []
    append = held.append
    return (lambda: append(1)), lambda: len(held)


def function_attribute():
    def held():
        pass

    held.n = 0
    return lambda: setattr(held, "n", held.n + 1), lambda: held.n


def masked_array():
    held = np.ma.zeros(2)

    def bump():
        held[0] += 1

    return bump, lambda: float(held[0])


def random_state():
    held = random.Random(3)
    return held.random, held.random


def random_generator():
    held = np.random.default_rng(3)
    return held.random, held.random


def random_legacy():
    held = np.random.RandomState(3)
    return held.random, held.random


def far_from_many():
    many = [(k, [k]) for k in range(12_000)]
    held = []
    return (lambda: held.append(len(many))), lambda: len(held)


def partial_method():
    held = []
    return functools.partial(held.append, 1), lambda: len(held)


def memory():
    held = bytearray(1)
    view = memoryview(held)

    def bump():
        view[0] += 1

    return bump, lambda: held[0]


def bump_module():
    MODULE.n += 1


def module():
    # an assignment to MODULE.n would tell that the function changes it
    vars(MODULE)["n"] = 0
    return bump_module, lambda: MODULE.n


def bump_environment():
    os.environ["SCHEDLANG_TEST_COUNT"] = str(int(os.environ["SCHEDLANG_TEST_COUNT"]) + 1)


def environment():
    os.environ["SCHEDLANG_TEST_COUNT"] = "0"
    return bump_environment, lambda: int(os.environ["SCHEDLANG_TEST_COUNT"])


def number_of_c():
    held = ctypes.c_int(0)

    def bump():
        held.value += 1

    return bump, lambda: held.value


def array_of_c():
    held = (ctypes.c_short * 3)()

    def bump():
        held[1] += 1

    return bump, lambda: held[1]


STARTS = {
    f.__name__: f
    for f in (slots, class_attribute, global_name, global_list, nonlocal_name, counter, deep,
              bound_method, function_attribute, masked_array, random_state,
              random_generator, random_legacy, far_from_many, partial_method, memory,
              module, environment, number_of_c, array_of_c)
} | {
    "user dict": item_of(UserDict), "chain": item_of(ChainMap),
    "deque": appended(deque), "bytearray": appended(bytearray),
}  # fmt: skip


@pytest.mark.parametrize("name", STARTS)
def test_changes_of_objects_in_loops(name: str) -> None:
    start = STARTS[name]
    if name == "bytearray":
        start = appended(lambda: bytearray(0))

    def looped(x):
        bump, n = start()
        for i in range(6):
            bump()
            x[i] += 1
        return x * n()

    def conditional(x):
        bump, n = start()
        if x[0] > 0:
            bump()
        return x * n()

    def repeated(x):
        bump, n = start()
        while x[0] > 0:
            bump()
            x[0] -= 1
        return x * n()

    x = np.arange(6.0)
    np.testing.assert_array_equal(sl.jit(looped, target="python")(x.copy()), looped(x.copy()))
    for function in (conditional, repeated):
        with pytest.raises(ComputeTypeError, match=r"line \d+ of \w+: .* changes "):
            sl.jit(function, target="python")(x.copy())


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators_from_before_a_loop(name: str) -> None:
    def looped(x):
        items = ITERATORS[name]()
        for i in range(6):
            x[i] += next(items)
        return x

    def conditional(x):
        items = ITERATORS[name]()
        if x[0] > 0:
            x += next(items)
        return x

    x = np.arange(6.0)
    np.testing.assert_array_equal(sl.jit(looped, target="python")(x.copy()), looped(x.copy()))
    with pytest.raises(ComputeTypeError, match="it is an iterator from before"):
        sl.jit(conditional, target="python")(x.copy())


def test_objects_in_c_stay_as_they_are() -> None:
    """The function ``default_rng`` has attributes that are read-only."""

    def drawn(x):
        y = np.random.default_rng(3).random()
        if x[0] > 0:
            y += 1
        for i in range(6):
            x[i] += y
        return x

    x = np.arange(6.0)
    np.testing.assert_array_equal(sl.jit(drawn, target="python")(x.copy()), drawn(x.copy()))


def test_functions_of_c_have_no_hash() -> None:
    tripled = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: 3 * x)

    def looped(x):
        for i in range(6):
            x[i] += tripled(0.5)
        return x

    x = np.arange(6.0)
    np.testing.assert_array_equal(sl.jit(looped, target="python")(x.copy()), looped(x.copy()))


def test_functions_of_c_take_no_traced_numbers() -> None:
    tripled = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: 3 * x)

    def called(x):
        return tripled(x[0])

    with pytest.raises(ComputeTypeError, match=r"(?s)of ctypes in called at.*outside of called"):
        sl.jit(called)(np.arange(6.0))


def test_objects_that_are_too_many_to_follow() -> None:
    many = [[k] for k in range(21_000)]

    def looped(x):
        for i in range(6):
            x[i] += len(many)
        return x

    x = np.arange(6.0)
    with pytest.warns(LoopWarning, match="looped can reach more than 20,000 objects"):
        np.testing.assert_array_equal(sl.jit(looped, target="python")(x.copy()), x + 21_000)
