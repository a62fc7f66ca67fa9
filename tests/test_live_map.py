"""The map of placements: counts by hand, each place against NumPy, what one step keeps."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.hints.places import producers
from schedlang.live.places import AGAIN, EARLIER, MOST_STAGES, NOW, STEP, STORED
from schedlang.live.session import Session

pytestmark = pytest.mark.slow

TARGET = sl.Target("cpu", vector_bytes=32)


def blur(height: int, width: int) -> sl.Schedule:
    X = sl.placeholder((height + 2, width + 2), name="X")
    H = sl.compute((height + 2, width), lambda i, j: X[i, j] + X[i, j + 1] + X[i, j + 2], name="H")
    V = sl.compute((height, width), lambda i, j: H[i, j] + H[i + 1, j] + H[i + 2, j], name="V")
    return sl.schedule(V)


def mapped(s: sl.Schedule) -> tuple[Session, list[dict[str, Any]]]:
    session = Session(s, measure=False, target=TARGET)
    while session.work():
        pass
    (view,) = (m for m in session.hello() if m["type"] == "view" and m["number"] == 0)
    json.dumps(view, allow_nan=False)
    return session, view["places"]


def test_the_places_of_a_blur_have_the_counts_that_one_can_compute() -> None:
    n, m = 24, 32
    _, (stage,) = mapped(blur(n, m))
    assert stage["stage"] == "H" and stage["loops"] == ["i of V", "j of V"]
    shown = {(p["compute"], p["store"]): (p["computed"], p["bytes"]) for p in stage["places"]}
    elements = (n + 2) * m
    # three rows, or elements, for each of V; a window keeps them in a power of two of rows
    assert shown == {
        ("root", "root"): (elements, elements * 4),
        ("inline", "inline"): (3 * n * m, 0),
        (0, 0): (3 * n * m, 3 * m * 4),
        (0, "root"): (elements, 4 * m * 4),
        (1, 1): (3 * n * m, 3 * 4),
        (1, 0): (3 * n * m, 3 * m * 4),
        (1, "root"): (elements, 4 * m * 4),
    }
    assert all(p["distinct"] == elements and not p["bound"] for p in stage["places"])
    assert [p["now"] for p in stage["places"]].count(True) == 1 and stage["places"][0]["now"]


def test_each_place_computes_the_blur() -> None:
    session, (stage,) = mapped(blur(6, 8))
    x = np.random.default_rng(0).integers(0, 9, (8, 10)).astype("float32")
    h = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
    expected = h[:-2] + h[1:-1] + h[2:]
    for place in stage["places"]:
        session.receive({"do": "put", "number": 0, "place": place["number"]})
        s = session.schedule
        np.testing.assert_array_equal(sl.build(s, target="python")(x), expected, str(place))
        # the code of the step leads to the same schedule
        if place["code"]:
            t = blur(6, 8)
            tensors = {name: t.stages[k].outputs[0] for k, name in enumerate("HV")}
            exec(place["code"], {"s": t, **tensors})
            assert str(t) == str(s)
        session.receive({"do": "go", "to": 0})


def cells(part: dict[str, Any]) -> np.ndarray:
    flat = np.frombuffer(base64.b64decode(part["cells"]), np.uint8)
    return flat.reshape(part["rows"], part["columns"])


def test_a_window_is_shown_in_its_steady_state() -> None:
    n, m = 24, 32
    _, (stage,) = mapped(blur(n, m))
    by_place = {(p["compute"], p["store"]): p["moment"] for p in stage["places"]}
    sliding, again = by_place[0, "root"], by_place[0, 0]
    assert sliding["element"] == [n // 2, m // 2] and sliding["loops"] == [f"i = {n // 2}"]
    above = cells(sliding["above"])
    rows = np.arange(above.shape[0]) + sliding["above"]["row"]
    kinds, stored = above & 3, (above & STORED) > 0
    # the rows i and i + 1 were computed earlier, row i + 2 is new, and four rows have a place
    assert set(rows[(kinds == NOW).any(1)]) == {n // 2 + 2}
    assert set(rows[stored.any(1)]) == {n // 2 - 1, n // 2, n // 2 + 1, n // 2 + 2}
    assert (kinds[rows < n // 2 + 2] == EARLIER).all() and not (kinds[rows > n // 2 + 2]).any()
    assert set(rows[((above & STEP) > 0).any(1)]) == {n // 2, n // 2 + 1, n // 2 + 2}
    # without storage outside of the loop, two of the three rows are computed again
    above = cells(again["above"])
    rows = np.arange(above.shape[0]) + again["above"]["row"]
    assert set(rows[((above & 3) == AGAIN).any(1)]) == {n // 2, n // 2 + 1}
    below = cells(sliding["below"])
    assert int(((below & STEP) > 0).sum()) == 1


def test_three_stages_have_a_map_each_and_one_stage_has_none() -> None:
    A = sl.placeholder((16, 16), name="A")
    B = sl.compute((16, 16), lambda i, j: A[i, j] + 1, name="B")
    C = sl.compute((16, 16), lambda i, j: B[i, j] * 2, name="C")
    D = sl.compute((14, 16), lambda i, j: C[i, j] + C[i + 2, j], name="D")
    _, stages = mapped(sl.schedule(D))
    assert [stage["stage"] for stage in stages] == ["B", "C"]
    assert stages[0]["loops"] == ["i of C", "j of C"] and stages[1]["loops"] == ["i of D", "j of D"]
    _, alone = mapped(sl.schedule(B))
    assert alone == []
    # a scan keeps the rows of its parts
    X = sl.placeholder((9, 4), name="X")
    first = sl.compute((1, 4), lambda t, j: X[0, j], name="first")
    before = sl.placeholder((9, 4), name="before")
    rest = sl.compute((9, 4), lambda t, j: before[t - 1, j] + X[t, j], name="rest")
    assert producers(sl.schedule(sl.scan(first, rest, before, name="total"))) == []


def test_the_last_of_many_stages_have_a_map() -> None:
    stage = sl.placeholder((8,), name="A")
    for number in range(MOST_STAGES + 3):
        stage = sl.compute((8,), lambda i, one=stage: one[i] + 1, name=f"S{number}")
    session, stages = mapped(sl.schedule(stage))
    assert [one["stage"] for one in stages] == [f"S{n}" for n in range(2, MOST_STAGES + 2)]
    assert next(m for m in session.hello() if m["type"] == "view")["unmapped"] == 2


def test_a_computation_too_large_for_pictures_has_counts() -> None:
    n = 2048
    _, (stage,) = mapped(blur(n, n))
    by_place = {(p["compute"], p["store"]): p for p in stage["places"]}
    sliding = by_place[0, "root"]
    assert sliding["moment"] is None and "a picture follows" in sliding["why"]
    assert (sliding["computed"], sliding["bytes"]) == ((n + 2) * n, 4 * n * 4)
    assert by_place[0, 0]["computed"] == 3 * n * n


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ({"do": "put", "number": 0, "place": 99}, "not known yet"),
        ({"do": "put", "number": 0, "place": True}, "not known yet"),
        ({"do": "preview", "number": 0, "place": 99}, "not known yet"),
        ({"do": "moment", "number": 0, "place": 0, "element": "x"}, "a list of numbers"),
        ({"do": "moment", "number": 0, "place": 0, "element": [9, 9]}, "has the shape"),
    ],
)
def test_a_wrong_place_is_a_message(message: Any, what: str) -> None:
    session, _ = mapped(blur(6, 8))
    (told,) = session.receive(message)
    assert told["type"] == "problem" and what in told["text"]
    assert len(session.history.states) == 1


def test_another_iteration_is_shown_when_asked() -> None:
    session, (stage,) = mapped(blur(24, 32))
    number = next(p["number"] for p in stage["places"] if (p["compute"], p["store"]) == (0, "root"))
    (told,) = session.receive({"do": "moment", "number": 0, "place": number, "element": [0, 5]})
    above = cells(told["moment"]["above"])
    # the first row of V computes three rows of H
    assert told["moment"]["element"] == [0, 5] and ((above[:3] & 3) == NOW).all()
    assert not (above[3:] & 3).any()
