"""Messages of traced functions speak of NumPy's functions and of whole arrays."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import schedlang as sl
from schedlang.arrays.functions import FORMS
from schedlang.errors import SchedlangError
from schedlang.language.ufuncs import has_form
from schedlang.tracing.wording import reworded

X = np.arange(12.0).reshape(3, 4)
MESSAGES = {
    "an operator": (lambda x: x & 1, r"^x & 1: bitwise operators take integers"),
    "an operand": (lambda x: x[:, 1] << x[:, 0], r"^x\[:, 1\] << x\[:, 0\]: bitwise"),
    "an order": (lambda x: x * 1j > 1, r"no order\n.*z\.real, z\.imag, np\.abs\(z\)"),
    "a function": (lambda x: np.round(x * 1j), r"^np\.rint\([^\[]*\): it takes no complex"),
    "a largest element": (lambda x: (x * 1j).max(), r"^np\.max of .*\n.*np\.max\(np\.abs\(z\)\)"),
    "a pair": (lambda x: np.clip(x * 1j, x, 1), r"^np\.(maximum|minimum)\("),
    "an einsum": (lambda x: np.einsum("ij,jk", x, x), r"^np\.einsum\('ij,jk', \.\.\.\)"),
    "a conversion": (lambda x: (x * 1j).astype("float32"), r"astype|imaginary"),
    "text": (lambda x: x + "a", r"'a' cannot .*: use a number or an array"),
    "an extent": (lambda x: x.reshape("a"), r"must be an integer$"),
    "an operand of a product": (lambda x: np.dot(x, ("a", 1)), "is an array or a number"),
}  # fmt: skip
# what a user of NumPy has not written
FOREIGN = re.compile(
    r"sl\.(?!fori_loop|jit\b|trace\b)\w+|\[[ijklmn](, [ijklmn])*\]|axis=k"
    r"|\btensors?\b(?! of sl\.trace)"
)


@pytest.mark.parametrize("case", MESSAGES)
def test_messages(case):
    function, words = MESSAGES[case]
    with pytest.raises(SchedlangError, match=words) as caught:
        sl.jit(function, target="python").specialized(X)
    assert not FOREIGN.search(re.sub("`[^`]*`", "", str(caught.value)))


def test_messages_of_tensors_keep_their_words():
    A = sl.placeholder((3, 4), name="A")
    with pytest.raises(SchedlangError, match=r"A\[i, j\] & 1"):
        A & 1  # noqa: B018 - what is tested
    with pytest.raises(SchedlangError, match=r"sl\.abs\(z\)"):
        A * 1j < 1  # noqa: B015 - what is tested


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("x[i, j] + y[j]: no\n  Write `x[i]`, sl.exp(x).", "x + y: no\n  Write `x[i]`, np.exp(x)."),
        ("a: b\n  Do c; or use sl.compute.", "a: b\n  Do c."),
        ("a: b\n  Use sl.compute; or do c.", "a: b\n  Do c."),
        ("a: b\n  Use sl.placeholder.", "a: b"),
        ("sl.schedule(x): b\n  Call sl.schedule elsewhere.",
         "sl.schedule(x): b\n  Call sl.schedule elsewhere."),
    ],
)  # fmt: skip
def test_reworded(message, expected):
    assert reworded(message) == expected


ARGUMENTS = ([X * 1j], [X * 1j, X], [X, "a"], [X.astype("int64"), 1.5])


def test_no_function_advises_what_numpy_lacks():
    """Every function and ufunc with a form, with arguments that most refuse."""
    functions = {f"np.{n}": _function(n) for n in FORMS}
    functions |= {n: f for n, f in vars(np).items() if isinstance(f, np.ufunc) and has_form(n)}
    refused = 0
    for name, function in functions.items():
        for args in ARGUMENTS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    sl.trace(function, *args)
                except SchedlangError as error:
                    refused += 1
                    text = re.sub("`[^`]*`", "", str(error))
                    assert not FOREIGN.search(text), (name, text)
                except (TypeError, ValueError, AttributeError, IndexError):
                    # NumPy's own refusal of the arguments
                    continue
    assert refused > 100


def _function(name):
    function = np if name != "sliding_window_view" else np.lib.stride_tricks
    for part in name.split("."):
        function = getattr(function, part)
    return lambda *args: function(*args)


def test_no_hints_on_strides_for_schedules_that_nobody_wrote():
    x = np.ones((512, 512), "float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sl.jit(lambda x: (x * 2).T + x).specialized(x)
