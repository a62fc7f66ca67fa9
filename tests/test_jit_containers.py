"""Lists and dicts as arguments of traced functions: read, copied, and changed."""

from __future__ import annotations

import copy
import re
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, ComputeError, ComputeTypeError
from tests.test_jit import same

X = np.arange(6, dtype="float32").reshape(2, 3)
Pair = namedtuple("Pair", "first second")


def arguments():
    return {"x": X.copy(), "n": 2.5, "inner": [X + 1, {"y": X + 2}]}


def unchanged(d):
    d["x"][0] = 2
    d["x"] += 1
    d["inner"][1]["y"][:, 1] *= d["n"]
    d["inner"][0] -= 1
    return d.setdefault("x", 3) * 2, d.get("z") is None and isinstance(d, dict), len(d["inner"])


def copies(d):
    a, b, c, e = d.copy(), dict(d), {**d, "w": d["x"]}, d | {"v": d["x"] + 1}
    f, g = copy.copy(d), copy.deepcopy(d)
    a["u"], b["x"] = d["x"] * 2, 0
    c.pop("x")
    e.clear()
    f["x"] = d["x"] * 3
    g["x"][0] = 7
    g["inner"].append(d["x"])
    k, m = d["inner"][:], list(d["inner"]) + [d["x"]]
    k.pop()
    m[0] = copy.copy(d["x"])
    m[0][1] = -1
    del m[1]
    return a, b, c, e, f, g, k, m, copy.copy(d["inner"])


def by_class(d):
    """Ask for the very class, as functions of nested containers do."""
    if type(d) is dict:
        return type(d)((k, by_class(v)) for k, v in d.items())
    if type(d) in (list, tuple):
        made = type(d)(by_class(v) for v in d)
        made.append(len(made))
        return made
    return d * 2 if d.__class__ is np.ndarray else d


def restored(d):
    d["y"] = d["x"] * 2
    d["inner"].append(d["n"])
    return d.pop("y"), d["inner"].pop()


@pytest.mark.parametrize("function", [unchanged, copies, by_class, restored])
def test_containers_are_read_and_copied(function):
    theirs, ours = arguments(), arguments()
    wanted, got = function(theirs), sl.jit(function, target="python")(ours)
    same(got, wanted, 1e-6)
    same(ours, theirs, 1e-6)


def test_containers_of_the_function_change():
    def f(x, *more, **named):
        made, rows = {"x": x}, [x]
        made["y"] = more[0] + 1
        rows.append(named.pop("z"))
        named["w"] = x * 2
        rows[0] = rows[0] * 3
        return made, rows, named

    arrays = X, X + 1
    same(sl.jit(f, target="python")(*arrays, z=X + 2), f(*arrays, z=X + 2), 1e-6)


def augmented(d):
    d["inner"] += [d["x"]]


def deleted(d):
    del d["inner"][0]


def one_object_twice(d):
    d["new"] = new = [d["x"] + 1, ({"n": d["n"]}, "text")]
    d["again"] = new
    d["inner"][0] = d["x"]
    return d["x"] * 3, new[0]


def moved(d):
    d["y"], d["z"] = d.pop("inner"), d["n"]
    d["y"].reverse()


def views(d):
    d["row"] = d["x"][0]
    d["x"][0] += 1
    d["list"] = [np.arange(3), d["x"].sum(), True, None, 3.5]


CHANGES = {
    "a new key": lambda d: d.__setitem__("y", d["x"]),
    "a new value": lambda d: d.__setitem__("x", d["x"] * 2),
    "a number": lambda d: d.__setitem__("n", d["n"] * 0.5),
    "an element": lambda d: d["inner"].__setitem__(0, d["x"]),
    "a slice": lambda d: d["inner"].__setitem__(slice(0, 1), []),
    "append": lambda d: d["inner"].append(d["x"] + d["n"]),
    "extend": lambda d: d["inner"].extend([d["x"]]),
    "insert": lambda d: d["inner"].insert(0, d["x"]),
    "pop": lambda d: d["inner"].pop(),
    "clear a list": lambda d: d["inner"].clear(),
    "reverse": lambda d: d["inner"].reverse(),
    "+=": augmented,
    "del of a list": deleted,
    "a dict inside": lambda d: d["inner"][1].__setitem__("z", 1),
    "update": lambda d: d.update(x=d["x"] + 1),
    "pop a key": lambda d: d.pop("x"),
    "clear": lambda d: d.clear(),
    "setdefault": lambda d: d.setdefault("z", d["x"]),
    "|=": lambda d: d.__ior__({"z": 1}),
    "del": lambda d: d.__delitem__("x"),
    "past the methods": lambda d: (list.append(d["inner"], d["x"]), dict.update(d, z=d["x"]))[0],
    "one object twice": one_object_twice,
    "moved": moved,
    "views and other objects": views,
}


def shown(value):
    """Return nested containers with arrays as bytes, and the classes of all parts."""
    if isinstance(value, dict):
        return [(k, shown(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [shown(v) for v in value]
    array = np.asarray(value)
    return (
        type(value),
        array.dtype,
        array.shape,
        value if array.dtype == object else array.tolist(),
    )


@pytest.mark.parametrize("case", CHANGES)
def test_changes_are_stored_by_each_call(case):
    function = CHANGES[case]
    traced = sl.jit(function, target="python")
    for k in range(2):
        theirs, ours = arguments(), arguments()
        for given in (theirs, ours):
            given["x"] += k
            given["n"] += k
        inner, deep = ours["inner"], ours["inner"][1]
        assert shown(traced(ours)) == shown(function(theirs))
        assert shown(ours) == shown(theirs)
        if "inner" in ours:
            assert ours["inner"] is inner
        assert not inner or case == "pop" or any(part is deep for part in inner)


def test_what_stays_is_the_callers_own_object():
    class Marked:
        def __eq__(self, other):
            return isinstance(other, Marked)

        def __hash__(self):
            return 1

    def f(d):
        d["z"] = d["x"] * 2
        d["kept"], d["list"][0] = d["m"], d["m"]

    traced = sl.jit(f, target="python")
    for _ in range(2):
        d = {"x": X.copy(), "m": Marked(), "list": [1]}
        mark, x = d["m"], d["x"]
        traced(d)
        assert d["m"] is mark is d["kept"] is d["list"][0] and d["x"] is x
    assert len(traced.specializations) == 1


def test_one_new_list_stays_one():
    d = arguments()
    sl.jit(one_object_twice, target="python")(d)
    assert d["new"] is d["again"] and d["inner"][0] is d["x"]


def test_the_tensors_of_a_trace_are_stored():
    def f(d):
        d["y"] = d["x"] * 2

    d = {"x": X}
    assert sl.trace(f, d) is None
    np.testing.assert_array_equal(sl.build(sl.schedule(d["y"]), target="python")(X), X * 2)


def test_a_mutable_default_is_of_the_caller():
    def f(x, seen=[]):  # noqa: B006
        seen.append(x * 1)
        return len(seen)

    def g(x, seen=[]):  # noqa: B006
        seen.append(x * 1)
        return len(seen)

    traced = sl.jit(f, target="python")
    for k in range(3):
        assert traced(X + k) == g(X + k)
    same(f.__defaults__, g.__defaults__, 1e-6)


def stored_in_a_loop(d):
    def body(i, c):
        d["last"] = i * 2
        return c + 1

    return sl.fori_loop(0, 3, body, d["x"])


def appended_in_a_loop(d):
    @sl.fori_loop(0, 3)
    def body(i):
        d["inner"].append(2)
        d["x"][0] += i


@pytest.mark.parametrize(
    ("function", "name"), [(stored_in_a_loop, "d"), (appended_in_a_loop, "d['inner']")]
)
def test_changes_in_the_body_of_a_loop_are_refused(function, name):
    words = rf"a change of {re.escape(name)} in the body of .*traced once(.|\n)*rows\[i\] = value"
    with pytest.raises(ComputeError, match=words):
        sl.jit(function, target="python")(arguments())


def test_one_container_as_two_arguments():
    f = sl.jit(lambda a, b: a.append(b[0] * 2), target="python")
    one = [X]
    with pytest.raises(CallError, match=r"<lambda> changes a: this list stands twice(.|\n)*list"):
        f(one, one)
    assert len(one) == 1
    f(one, [X])
    assert len(one) == 2


def test_a_container_of_another_class_with_arrays():
    def f(d):
        d["y"] = OrderedDict(a=d["x"])

    with pytest.raises(ComputeTypeError, match="OrderedDict of arrays is stored"):
        sl.jit(f, target="python")(arguments())


def test_named_tuples_are_stored_and_hold_containers():
    def f(pair, d):
        pair.first.append(pair.second * 2)
        d["svd"] = np.linalg.svd(pair.second)
        d["pair"] = Pair(pair.second + 1, [pair.second])
        d["chosen"] = pair.second[pair.second > 2]
        return pair

    ours, theirs = ((Pair([], X.copy()), {}) for _ in range(2))
    same(sl.jit(f, target="python")(*ours), f(*theirs), 1e-5)
    same(ours, theirs, 1e-5)
    assert type(ours[1]["pair"]) is Pair and type(ours[1]["svd"]) is type(theirs[1]["svd"])
