"""Random numbers in traced functions: drawn from an argument by each call, else refused."""

from __future__ import annotations

import cProfile
import random
import sys

import numpy as np
import pytest
from numpy.random import rand

import schedlang as sl
from schedlang.errors import ComputeError, ComputeTypeError
from tests.test_jit import same

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
    with pytest.raises((ComputeError, ComputeTypeError), match=r"line \d+.*\n.*an argument"):
        sl.trace(DRAWN[case], sl.placeholder((2, 3), "float64", name="x"))


@pytest.mark.parametrize("given", [random.Random(3), NOISE])
def test_a_generator_of_python_or_in_an_object_among_the_arguments(given):
    def f(x, r):
        return r.added(x) if isinstance(r, Noise) else x + r.random()

    with pytest.raises(ComputeTypeError, match=r"random numbers in f: .*\n  Draw from an arg"):
        sl.jit(f, target="python")(X, given)


def several(x, r):
    y = x * r.normal(2, 0.5, 3) + r.standard_normal(x.shape)
    if isinstance(r, np.random.Generator):
        y += r.integers(0, 9, 3) - r.random(dtype="float32")
    return y[:, r.permutation(3)], r.choice(5, size=2), r.uniform(), r.exponential(size=(2, 1))


DRAWN_FROM_ARGUMENTS = {
    "several": several,
    "the old class": (several, np.random.RandomState),
    "numbers alone": lambda x, r: (r.random(), r.random(4)),
    "written": lambda x, r: x.__iadd__(r.poisson(3, x.shape)),
    "a branch": lambda x, r: x + (r.random(3) if isinstance(r, np.random.Generator) else 1),
    "of a covariance": lambda x, r: r.multivariate_normal([0, 1, 2], np.eye(3)) + x,
    "unused": lambda x, r: x + 0 * r.random(),
}


@pytest.mark.parametrize("case", DRAWN_FROM_ARGUMENTS)
def test_each_call_draws_from_its_argument(case):
    """The numbers are NumPy's, and each call goes on where the one before it stopped."""
    function, make = DRAWN_FROM_ARGUMENTS[case], np.random.default_rng
    if isinstance(function, tuple):
        function, make = function
    traced = sl.jit(function, target="python")
    ours, theirs = make(3), make(3)
    for _ in range(3):
        same(traced(X.copy(), ours), function(X.copy(), theirs), 1e-12)
    assert ours.random() == theirs.random()
    assert len(traced.specializations) == 1


def test_generators_in_containers():
    def f(x, r, *, other):
        return x + r["a"][0].random(3) - other.random(3) + r["a"][0].random()

    traced = sl.jit(f, target="python")
    generators = [[np.random.default_rng(k) for k in (1, 2)] for _ in range(2)]
    for one, two in generators:
        wanted = f(X, {"a": [one]}, other=two)
    ours = [np.random.default_rng(k) for k in (1, 2)]
    np.testing.assert_array_equal(traced(X, {"a": [ours[0]]}, other=ours[1]), wanted)
    # one generator in two places
    a, b = np.random.default_rng(0), np.random.default_rng(0)
    for _ in range(2):
        wanted = f(X, {"a": [a]}, other=a)
        np.testing.assert_array_equal(traced(X, {"a": [b]}, other=b), wanted)


def drawn_in_a_loop(x, r):
    return sl.fori_loop(0, 3, lambda i, c: c + r.random(3), x)


REFUSED = {
    "shuffle": (lambda x, r: r.shuffle(x), r"r\.permutation\(len\(x\)\)"),
    "permutation": (lambda x, r: r.permutation(x), r"x\[r\.permutation\(len\(x\)\)\]"),
    "choice": (lambda x, r: r.choice(x), r"x\[r\.choice\(len\(x\)\)\]"),
    "a mean that is an element": (lambda x, r: r.normal(x[0, 0]), r"mean \+ scale \* r\.standard"),
    "out": (lambda x, r: r.random(out=np.zeros(3)) + x, r"x\[\.\.\.\] = r\.random"),
    "bytes": (lambda x, r: x + len(r.bytes(3)), "dtype uint8"),
    "a loop": (drawn_in_a_loop, r"each iteration draws other numbers(.|\n)*noise\[i\]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_draws_that_a_trace_refuses(case):
    function, words = REFUSED[case]
    with pytest.raises(ComputeTypeError, match=rf"^r\.\w+\(\.\.\.\) in .*: (.|\n)*{words}"):
        sl.jit(function, target="python")(X.copy(), np.random.default_rng(1))


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
