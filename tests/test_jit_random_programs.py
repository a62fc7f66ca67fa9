"""Random NumPy programs under ``sl.jit`` beside NumPy, and programs that were wrong once.

``python -m tests.fuzz.programs`` runs more.
"""

from __future__ import annotations

import pytest

from tests.fuzz.program_coverage import features_of
from tests.fuzz.program_text import random_program
from tests.fuzz.programs import described, difference, outcome_of

VECTOR, MATRIX = "float64[6]", "float64[6,6]"
# sources of functions, with their arguments
RIGHT = {
    "a name that an iteration keeps from an earlier one": (
        """
def program(a, b):
    for i in range(5):
        if i % 2 == 0:
            q = b[i, i]
        a += q
    return a
""",
        {"a": "int32[6,6]", "b": "uint16[6,6]"},
    ),
    "elements by a mask, which the loop leaves": (
        """
def program(x, a):
    for i in range(1, 6):
        v = np.hypot(a[a == 1], x[0])
    return v
""",
        {"x": VECTOR, "a": MATRIX},
    ),
    "an array changed in place beside a name that only the loop assigns": (
        """
def program(x):
    for i in range(6):
        j = 2
        x *= j * 2
    return j, x
""",
        {"x": "complex128[6]"},
    ),
    "a name of the whole array, which is written after the loop": (
        """
def program(a):
    for i in range(len(a)):
        v = a
    a[0, -1] -= 2
    return v
""",
        {"a": MATRIX},
    ),
    "a view, which is written after the loop": (
        """
def program(x, y):
    for r in reversed(y):
        v = x[-2::-1]
    x[0] += 1
    v[1] = 5
    return v, x
""",
        {"x": VECTOR, "y": VECTOR},
    ),
    "a view of the view of the iteration before": (
        """
def program(x):
    v = x
    for i in range(1, 6):
        v = v[::-1]
        v[0] += i
    return v, x
""",
        {"x": VECTOR},
    ),
    "the last index of a loop that may be empty": (
        """
def program(x):
    j = 9
    for i in range(5):
        for j in range(2, i):
            x[j] += 1
        x[i] += j
    return j, x
""",
        {"x": "int64[5]"},
    ),
    "the last index of a loop that is empty at last": (
        """
def program(x):
    k = 7
    for j in range(5):
        for k in range(j + 1, 3):
            pass
    for i in range(1, 5, 2):
        for j in range(i + 1):
            for m in range(j + 1, 3):
                pass
    return k, m
""",
        {"x": "int64[5]"},
    ),
    "a view at an element of an array, in loops within others": (
        """
def program(c, g, x):
    v = c[g[0]]
    for i in range(5):
        w = c[g[1]]
        for j in range(i):
            w[g[j], :j] += x[j]
            v[g[1], 1] += 0.25
            bump(v[::-1])
    return v
""",
        {"c": "float64[2,4,6]", "g": "index[4]", "x": VECTOR},
    ),
    "arrays of arrays and numbers": (
        """
def program(x):
    y = np.array([1, x[0], x.sum()])
    a, b = np.asarray(x), np.array(x)
    a[0], b[1] = 5, 6
    c = np.array([[x[0]], [np.float64(2)]])
    d, e = np.float64(x[2]) * x, np.ascontiguousarray(x[::-1])
    e[0] = 9
    f = np.array([x, [1, 2, 3, 4, 5, 6]]), np.array([1, x[0]], dtype="int32"), np.asarray(x[0])
    return y, a, b, c, d, e, f, np.int64(x), np.array([float(x[0]), 2], copy=True)
""",
        {"x": "float32[6]"},
    ),
    "conversions of scalars": (
        """
def program(x):
    q, r = divmod(x[0], 2)
    a, b = round(x[1] * 0.3), round(x[2], 1)
    return q, r, a, b, bool(x[3]), any(x > 1), all(x > 1), complex(x[4])
""",
        {"x": VECTOR},
    ),
    "out= under a mask": (
        """
def program(x, b, m):
    np.multiply(x, 2, out=x, where=m)
    np.add(b, 1, out=b, where=x > 0)
    y = np.divide(x, x - 1, out=np.zeros_like(x), where=x != 1)
    np.negative(x, out=x[::-1], where=m)
    v = x.view()
    v[0] = 3
    return y
""",
        {"x": VECTOR, "b": "int64[6]", "m": "bool[6]"},
    ),
    "integers of Python that loops count": (
        """
def program(x, u):
    count, s = 0, 0
    t = x[0] * 0
    for i in range(6):
        count += i
        s += x[i]
        k = i * 2
        for j in range(i):
            x[j] += 1
    while t < 3:
        t += 1
        count += 1
    return x * count, u + count, s, x * j, u[0] + j, x * k, u[0] + k
""",
        {"x": "float32[6]", "u": "uint8[6]"},
    ),
    "the last index of a loop, which no name has before": (
        """
def program(x):
    for i in range(5):
        for j in range(4 - i):
            x[j] += 1
    return j, x
""",
        {"x": "int64[5]"},
    ),
    "an item that the body assigns to, read after the loop": (
        """
def program(x):
    for r in x:
        r *= 0.5
    return r
""",
        {"x": VECTOR},
    ),
    "the last element of an array that the body changes": (
        """
def program(x):
    for r in x[1:]:
        bump(x.T)
    return r, x
""",
        {"x": "int64[6]"},
    ),
    "numbers of NumPy that get a wider dtype in a loop": (
        """
def program(x, u, f):
    p, q, r, t = x[0], u[0] > 3, u[1], f[0] * 0
    while t < 3:
        p += 0.5
        t += 1
        f[1] += p
    for i in range(6):
        r = r * 0.5 + x[i] * f[i]
        for j in range(i):
            q = q + f[j]
    return p, q, r, t
""",
        {"x": "int64[6]", "u": "uint8[6]", "f": "float32[6]"},
    ),
    "a name that the last iterations leave as it was": (
        """
def program(y):
    for i in range(6):
        for j in range(6):
            for k in range(i + 1, 6):
                v = y[: j + 1]
    return k, v
""",
        {"y": VECTOR},
    ),
    "names that no iteration assigns": (
        """
def program(y):
    s = t = u = 0.5
    v = y * 2
    for i in range(6):
        if y[i] > 9:
            s, v = y[i], y * i
        if y[i] < 9:
            continue
        t = y[i]
    for i in range(6):
        for j in range(2, i):
            if y[j] > 9:
                u = y[j]
    return s, t, u, v
""",
        {"y": VECTOR},
    ),
    "names that only a while on elements assigns": (
        """
def program(x):
    k = x[0] * 0
    while k < 3:
        v, w = x + k, (k, k * 2)
        n = 3
        for i in range(4):
            x[i] += 1
        k += 1
    return v, w, n, x * i, i
""",
        {"x": "float32[6]"},
    ),
    "numbers of Python take the dtype of what they meet": (
        """
def program(x):
    q = x[-1]
    q += float(x[0])
    return q, int(x[2]) + x, float(x[1]) * x, np.int32(2) + int(x[3]), int(x[1])
""",
        {"x": "float32[6]"},
    ),
    "an element of a reshaped view that fills it": (
        """
def program(x, y):
    for r in x:
        y.reshape(-1)[1:] = y[..., 0]
""",
        {"x": VECTOR, "y": VECTOR},
    ),
    "slices without elements in the last iterations": (
        """
def program(c, y):
    for i in range(1, -1, -1):
        c[-1, 1:-1] %= y
    for i in range(0, 6, 2):
        v = c[i + 1 :, :1, i + 1 :]
    np.cumsum(v, axis=-1, out=v)
    return v
""",
        {"c": "float64[2,2,5]F", "y": "float64[5]"},
    ),
    "a view whose rank grows in each iteration": (
        """
def program(x):
    v = x
    for i in range(7):
        v = v[..., None]
        v[0] += 1
    return v
""",
        {"x": VECTOR},
    ),
    "names of a tuple, which are read after the loop": (
        """
def program(x, a):
    i = 9
    for i, r in enumerate(x):
        a[i] += r
    for k, (p, q) in enumerate(zip(x, a)):
        pass
    return i, r, k, p, q
""",
        {"x": VECTOR, "a": MATRIX},
    ),
    "folds into arrays of other dtypes": (
        """
def program(x, y, u, p):
    np.sum(x, axis=0, out=y[:1][0, ...])
    np.add.accumulate(u, out=p)
    np.prod(u, keepdims=True, out=p[:1])
    np.max(u, keepdims=True, out=y[1:2])
    return y, p
""",
        {"x": "float32[6]", "y": VECTOR, "u": "uint8[6]", "p": "float32[6]"},
    ),
    "a copy of an array that the loop changes after it reads the copy": (
        """
def program(x, a):
    v = x.T.reshape(-1, 1)[::2].ravel()
    for i in range(3):
        a[i, i] = v[i - 2]
        for j in range(4, 0, -1):
            x[j] = a[j - 1, -1]
""",
        {"x": VECTOR, "a": MATRIX},
    ),
    "a float that integers follow, if there are any": (
        """
def program(a, n):
    for i in range(1, 8):
        s = 0.5
        for j in range(i, n):
            a, s = a + 0, a[i - 2, -1]
    return s
""",
        {"a": "int64[6,6]", "n": "6"},
    ),
    "a number of Python beside arrays of several dtypes": (
        """
def program(m):
    return np.select([np.square(m) > 1, m[1] > 1], [np.square(m), m[1]], 0)
""",
        {"m": "bool[6]"},
    ),
    "a diagonal": (
        """
def program(a, b, x):
    np.fill_diagonal(a, x[:2])
    np.fill_diagonal(b[:, 1:], 2.5)
""",
        {"a": MATRIX, "b": "float64[4,6]", "x": VECTOR},
    ),
    "the last index of a loop with a break, which is empty at last": (
        """
def program(x):
    for j in range(8):
        for k in range(j, len(x)):
            if x[k] > 5:
                break
            x[k] += 1
    return j, k
""",
        {"x": VECTOR},
    ),
    "the last row of a slice, which is empty at last": (
        """
def program(x, y):
    r = q = 9.0
    for i in range(5):
        for r in y[: 4 - i]:
            x[i] += r
        for q in y[i + 1 :]:
            if q > 0.5:
                break
            x[i] += q
        x[0] += r + q
    return x, r, q
""",
        {"x": "float64[5]", "y": "float64[5]"},
    ),
    "scans one after the other, of which one number is not used": (
        """
def program(y, t):
    for i in range(4, -1, -1):
        for r in y:
            for j in range(5, -1, -1):
                t = t * 0.5 + i
                y[y > 0] -= i
    return r
""",
        {"y": "int64[2]", "t": "0.5"},
    ),
    "a scan that reads an array before and after an assignment": (
        """
def program(x, m):
    for i in range(5):
        for j in range(i):
            q = m[j - 2]
            m[1] += x[j]
            for k in range(len(m)):
                v = m * x[1]
                q += k
    return v, q
""",
        {"x": "int64[7]", "m": "int64[7]"},
    ),
    "a condition on elements that assignments under it change": (
        """
def program(x):
    for i in range(1, 4):
        j = 3
        if x[i] >= x[2]:
            for j in range(0, 5, 2):
                x[0], x[-1] = x[-1], x[0]
    return j
""",
        {"x": "int32[4]"},
    ),
    "a column that gets elements of a row of the same array": (
        """
def program(a):
    for i in range(6):
        a[:-1, i - 2] = a[1, :-1]
""",
        {"a": MATRIX},
    ),
    "one element that fills a slice in each iteration": (
        """
def program(x, y):
    for r in x:
        y[1::2] = y[2]
""",
        {"x": VECTOR, "y": "bool[6]"},
    ),
    "views of one element, left by loops": (
        """
def program(x, y):
    for i in range(1, 3):
        for j in range(i, 4):
            q = y[..., -1 - j]
    r = x[..., 0]
    for i in range(len(x)):
        for j in range(i, 5):
            p = x[..., j]
        p += i
    y[1:] = x[1:]
    x[3] = 9
    return q, r, p
""",
        {"x": "float64[6]", "y": "float64[6]"},
    ),
}
REFUSED = {
    "a name that may be unassigned where it is read": (
        """
def program(x, y):
    for i in range(6):
        if x[i] < 0.2:
            s = x[i] + 1
        else:
            y[i] = s
    return y
""",
        {"x": "np.arange(6.0)", "y": VECTOR},
        "Assign to s before the loop or the if",
    ),
    "a maximum that is an array or a number": (
        """
def program(x, y):
    s = x[0]
    for j in range(5):
        s = max(s, y[..., 0])
        s += y[j - 1]
    return s, y
""",
        {"x": VECTOR, "y": VECTOR},
        "Write np.maximum(a, b)",
    ),
    "a negative number among those that have no sign": (
        """
def program(y, g):
    np.maximum.at(y, g, -1)
""",
        {"y": "uint32[6]", "g": "index[6]"},
        "convert it with",
    ),
    "a side that never runs, and cannot": (
        """
def program(x):
    v = np.arange(6)
    if x[0] > 9:
        x[0] = v[0, 1]
""",
        {"x": VECTOR},
        "one side raises IndexError: too many indices",
    ),
    "a view that a while on elements leaves": (
        """
def program(x):
    v = x
    while v[0] < 4:
        v = x[::-1]
        v += 1
    x[3] = 7
    return v
""",
        {"x": VECTOR},
        "v shares memory with another array",
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_programs_that_were_wrong(case: str) -> None:
    source, kinds = RIGHT[case]
    outcome = outcome_of(source, kinds)
    assert outcome.kind == "right", outcome.text


@pytest.mark.parametrize("case", REFUSED)
def test_programs_that_are_refused(case: str) -> None:
    source, kinds, words = REFUSED[case]
    outcome = outcome_of(source, kinds)
    assert outcome.kind == "refused" and words in outcome.text, outcome.text


def compared(seed: str, index: int, **options: bool) -> set[str] | None:
    """Return the features of a random program, ``None`` if it is refused; raise if it is wrong."""
    program = random_program(seed, index)
    outcome = outcome_of(program.source, program.kinds, **options)
    assert outcome.kind != "failed", described(program, outcome)
    return features_of(program, outcome.loops) if outcome.kind == "right" else None


def test_random_programs() -> None:
    ran = [f for index in range(15) if (f := compared("tests 2", index)) is not None]
    assert len(ran) > 10
    assert set().union(*ran) > {
        "for over a range", "for over rows", "loop in a loop", "if", "view", "write to an element",
        "write to a slice", "write in place", "write under a mask", "mask", "gather", "out=",
        "while", "scan", "serial loop", "float32", "float64", "int32", "int64", "bool",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_random_programs(part: int) -> None:
    ran = sum(
        compared("slow tests", index) is not None for index in range(70 * part, 70 * part + 70)
    )
    assert ran > 45


@pytest.mark.slow
def test_random_programs_as_they_are_scheduled() -> None:
    for index in range(30):
        compared("scheduled", index, scheduled=True)


@pytest.mark.parametrize(
    ("found", "wanted", "words"),
    [(1.0, 2.0, "is 1.0, not 2.0"), ((1.0,), (1.0, 2.0), "not"), ([1.0], [1], "")],
)
def test_differences(found: object, wanted: object, words: str) -> None:
    """Results of another value or form differ; a number of Python may be an int or a float."""
    problem = difference(found, wanted, coarse=False)
    assert words in problem and bool(words) == bool(problem)
