"""Random numbers in traced functions: refused at the line that draws them, unless it is seeded."""

from __future__ import annotations

import cProfile
import random
import sys

import numpy as np
import pytest
from numpy.random import rand

import schedlang as sl
from schedlang.errors import ComputeError, ComputeTypeError

X = np.arange(6.0).reshape(2, 3)
RNG = np.random.default_rng(3)
BITS = np.random.PCG64(2)
OLD = np.random.RandomState(1)
BY_NAME = {"a": [np.random.default_rng(5)]}


class Noise:
    shared = np.random.default_rng(6)

    def __init__(self):
        self.rng = np.random.default_rng(7)

    def added(self, x):
        return x + self.rng.random(3)


NOISE = Noise()


def helper(x):
    return x + RNG.normal(size=3)


JITTED = sl.jit(helper, target="python")


def outer():
    rng = np.random.default_rng(4)

    def f(x):
        def body(i, c):
            return c + rng.random(3)

        return sl.fori_loop(0, 3, body, x)

    return f


def imported(x):
    import random as r

    return x + r.random()


def unseeded(x):
    rng = np.random.default_rng()
    return x + rng.random(3)


def seeded_by_none(x):
    rng = np.random.default_rng(None)
    return x + rng.random(3)


DRAWN = {
    "np.random.rand": lambda x: x + np.random.rand(3),
    "from numpy.random": lambda x: x + rand(3),
    "np.random.normal": lambda x: x + np.random.normal(),
    "np.random.seed": lambda x: (np.random.seed(3), x + np.random.rand(3))[1],
    "np.random.shuffle": lambda x: x[:, np.random.permutation(3)],
    "random.random": lambda x: x + random.random(),
    "random.randint": lambda x: x * random.randint(2, 30),
    "a module": imported,
    "a generator": lambda x: x + RNG.random(3),
    "a generator of the past": lambda x: x + OLD.rand(3),
    "its bits": lambda x: x + np.random.Generator(BITS).random(3),
    "a helper": helper,
    "a helper under jit": lambda x: JITTED(x),
    "a closure": outer(),
    "in a dict": lambda x: x + BY_NAME["a"][0].random(3),
    "an object": lambda x: NOISE.added(x),
    "a class": lambda x: x + Noise.shared.random(3),
    "no seed": unseeded,
    "the seed None": seeded_by_none,
    "RandomState()": lambda x: x + np.random.RandomState().rand(3),
    "random.Random()": lambda x: x + random.Random().random(),
    "random.SystemRandom()": lambda x: x + random.SystemRandom().random(),
}


@pytest.mark.parametrize("case", DRAWN)
def test_draws_are_refused_at_their_line(case):
    words = r"random numbers .*in .* at line \d+, `.*(rand|RNG|rng|NOISE|BY_NAME|BITS).*\n  Draw "
    before = sys.getprofile()
    with pytest.raises(ComputeTypeError, match=words):
        sl.jit(DRAWN[case], target="python")(X)
    assert sys.getprofile() is before


@pytest.mark.parametrize("case", ["np.random.normal", "random.randint", "a module", "its bits"])
def test_the_tensors_of_a_trace_draw_nothing(case):
    """Arrays of drawn numbers are refused as other data; single numbers are not seen there."""
    with pytest.raises((ComputeError, ComputeTypeError), match=r"line \d+.*\n.*as an argument"):
        sl.trace(DRAWN[case], sl.placeholder((2, 3), "float64", name="x"))


@pytest.mark.parametrize("given", [RNG, OLD, random.Random(3), NOISE, [RNG], {"r": RNG}])
def test_a_generator_among_the_arguments(given):
    def f(x, r):
        r = r[0] if isinstance(r, list) else r["r"] if isinstance(r, dict) else r
        if isinstance(r, Noise):
            return r.added(x)
        return x + r.random()

    with pytest.raises(ComputeTypeError, match=r"random numbers in f: .*\n  Draw outside"):
        sl.jit(f, target="python")(X, given)


def drawn_if(x, drawn):
    if drawn:
        x = x + RNG.random(3) + np.random.default_rng().random(3)
    return x * 2


SEEDED = {
    "default_rng(0)": lambda x: x + np.random.default_rng(0).random(3),
    "RandomState(0)": lambda x: x + np.random.RandomState(0).rand(3),
    "Random(3)": lambda x: x + random.Random(3).random(),
    "not drawn": lambda x: drawn_if(x, False),
    "a type": lambda x: x * (2 if isinstance(RNG, np.random.Generator) else 3),
}


@pytest.mark.parametrize("case", SEEDED)
def test_the_same_numbers_in_each_call(case):
    f = SEEDED[case]
    for _ in range(2):
        np.testing.assert_array_equal(sl.jit(f, target="python")(X), f(X))


class Slotted:
    __slots__ = ("rng", "unset")

    def __init__(self):
        self.rng = np.random.default_rng(8)


class Network:
    shared = np.random.default_rng(9)

    def __init__(self):
        self.noise, self.layers, self.slotted = Noise(), [{"first": Noise()}], Slotted()


NETWORK = Network()


@pytest.mark.parametrize(
    "function",
    [lambda x: NETWORK.noise.added(x), lambda x: NETWORK.layers[0]["first"].added(x),
     lambda x: x + NETWORK.slotted.rng.random(3), lambda x: x + NETWORK.shared.random(3)],
    ids=["attribute", "in containers", "slot", "class"],
)  # fmt: skip
def test_generators_of_objects_are_found(function):
    with pytest.raises(ComputeTypeError, match=r"random numbers in <lambda> at line \d+, `.*NETW"):
        sl.jit(function, target="python")(X)


def test_a_container_in_itself_is_searched():
    circle = [RNG]
    circle.append(circle)
    np.testing.assert_array_equal(sl.jit(lambda x: x * len(circle), target="python")(X), X * 2)
    with pytest.raises(ComputeTypeError, match="random numbers in <lambda> at line"):
        sl.jit(lambda x: x + circle[1][0].random(3), target="python")(X)


def test_under_a_profiler():
    with cProfile.Profile():
        with pytest.raises(ComputeTypeError, match="without a seed"):
            sl.jit(unseeded, target="python")(X)


def test_a_profile_function_is_put_back():
    seen = []

    def profile(*event):
        seen.append(event)

    sys.setprofile(profile)
    try:
        sl.jit(SEEDED["default_rng(0)"], target="python")(X)
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert seen
