"""Lists and dicts as arguments of traced functions: read, copied, and not changed."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeTypeError
from tests.test_jit import same

X = np.arange(6, dtype="float32").reshape(2, 3)


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


CHANGES = {
    "d['y'] = ...": lambda d: d.__setitem__("y", d["x"]),
    "d['x'] = ...": lambda d: d.__setitem__("x", d["x"] * 2),
    "d['n'] = ...": lambda d: d.__setitem__("n", d["n"] + 1),
    "d['inner'][0] = ...": lambda d: d["inner"].__setitem__(0, d["x"]),
    "d['inner'][slice(0, 1, None)] = ...": lambda d: d["inner"].__setitem__(slice(0, 1), []),
    "d['inner'].append(...)": lambda d: d["inner"].append(d["x"]),
    "d['inner'].extend(...)": lambda d: d["inner"].extend([d["x"]]),
    "d['inner'].insert(...)": lambda d: d["inner"].insert(0, d["x"]),
    "d['inner'].pop(...)": lambda d: d["inner"].pop(),
    "d['inner'].remove(...)": lambda d: d["inner"].remove(d["inner"][0]),
    "d['inner'].clear(...)": lambda d: d["inner"].clear(),
    "d['inner'].sort(...)": lambda d: d["inner"].sort(key=lambda v: isinstance(v, np.ndarray)),
    "d['inner'].reverse(...)": lambda d: d["inner"].reverse(),
    "d['inner'] += ...": augmented,
    "del d['inner'][...]": deleted,
    "d['inner'][1]['z'] = ...": lambda d: d["inner"][1].__setitem__("z", 1),
    "d.update(...)": lambda d: d.update(x=d["x"] + 1),
    "d.pop(...)": lambda d: d.pop("x"),
    "d.popitem(...)": lambda d: d.popitem(),
    "d.clear(...)": lambda d: d.clear(),
    "d.setdefault('z')": lambda d: d.setdefault("z", d["x"]),
    "d |= ...": lambda d: d.__ior__({"z": 1}),
    "del d[...]": lambda d: d.__delitem__("x"),
}


@pytest.mark.parametrize("asked", CHANGES)
def test_changes_are_refused_at_their_line(asked):
    match = rf"{re.escape(asked)} in \w*(<lambda>)? at line \d+, `.*of the caller(.|\n)*Return what"
    with pytest.raises(ComputeTypeError, match=match):
        sl.jit(CHANGES[asked], target="python")(arguments())
    with pytest.raises(ComputeTypeError, match=match):
        sl.trace(CHANGES[asked], arguments())


@pytest.mark.parametrize(
    "function",
    [lambda d: list.append(d["inner"], d["x"]), lambda d: dict.update(d, z=d["x"]),
     lambda d: list.pop(d["inner"]), lambda d: list.reverse(d["inner"])],
    ids=["append", "update", "pop", "reverse"],
)  # fmt: skip
def test_changes_past_the_methods_are_refused(function):
    with pytest.raises(ComputeTypeError, match=r"a change of d(\['inner'\])? in <lambda>: d"):
        sl.jit(function, target="python")(arguments())


def test_a_copy_by_class_changes_beside_a_change_that_is_refused():
    def f(d):
        made = type(d)(d)
        made["z"] = type(d["inner"])(d["inner"])
        made["z"].append(1)
        d["y"] = made["x"]

    match = r"d\['y'\] = ... in f at line \d+, `d\[.y.\] = made"
    with pytest.raises(ComputeTypeError, match=match):
        sl.jit(f, target="python")(arguments())


def test_a_mutable_default_is_of_the_caller():
    def f(x, seen=[]):  # noqa: B006
        seen.append(x)
        return x

    with pytest.raises(ComputeTypeError, match=r"seen\.append\(\.\.\.\) in f at line"):
        sl.jit(f, target="python")(X)
