"""Refusals of what needs known elements, which traced arrays do not have."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn, Union

import numpy as np

from schedlang.compute.tensor import NUMPY_METHODS, shape_text
from schedlang.errors import ComputeTypeError, MissingNameError, docs_page, explain, nearest
from schedlang.expr.nodes import Expr, Var
from schedlang.expr.number_refusals import instead_of, number_function
from schedlang.expr.visit import postorder
from schedlang.tracing.spans import of_lengths
from schedlang.tracing.trace import KNOWN, current, running_trace

# what to write, or a function of the user's line that says so
Hint = Union[str, Callable[[str], str]]

# the package through which rewritten code calls functions
_CALLER = "schedlang.tracing."
_STACKED = "A list of arrays becomes an array by np.stack([a, b])"
# "..." % x asks for numbers
_FORMATTED = re.compile(r"[\"'] *% *[(\w]")
_CALLED = re.compile(r"\b(?:np|numpy)\.([\w.]+)\(")
_TO_ARRAYS = {"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "require"}
_BY_NUMBERS = {"arange", "linspace", "zeros", "ones", "empty", "full", "eye", "identity", "tri"}


def _line() -> tuple[str, str]:
    """Return the function that is traced with the line that runs, and the text of that line."""
    trace = current()
    place = trace.place()
    if place is None:
        return trace.title, ""
    quoted = f", `{place.text}`" if place.text else ""
    return f"{trace.title} at line {place.line}{quoted}", place.text


def line_text() -> str:
    """Return the function that is traced with the line that runs."""
    return _line()[0]


def refuse_numpy_target() -> NoReturn:
    """Raise for a result that goes into an array of NumPy, by ``+=`` or by ``out=``."""
    where, text = _line()
    written = re.search(r"\bout\s*=(?!=)", text) or "copyto" in text
    raise ComputeTypeError(
        explain(
            f"{'out=' if written else 'an assignment'} in {where}",
            "it writes a result of the trace into an array of NumPy, which has known elements",
            "Make that array part of the trace: np.zeros_like(x), or np.zeros(shape, dtype, "
            "like=x), where x is an argument.",
        )
    )


def _asking() -> FrameType | None:
    """Return the frame that asks for a number: the user's line, or a function that it calls."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_CALLER):
        frame = frame.f_back
    return frame


def _refusing(what: str, hint: Hint, of_number: bool = False) -> Callable[..., NoReturn]:
    """Return a method that raises ``ComputeTypeError`` with the user's line.

    One ``of_number`` names the function that asks for a number, such as ``math.exp``.
    """

    def method(self: Any, *_: Any, **__: Any) -> NoReturn:
        where, text = _line()
        called = number_function(_asking()) if of_number else ""
        instead = instead_of(called)
        if called and not instead:
            called = ""
        asked = f"{called}()" if called else what
        length = of_lengths(self)
        if length is not None:
            refuse_number(asked, length, where)
        if of_number and _FORMATTED.search(text):
            refuse_format(self)
        library = current().library()
        if library:
            asked = f"{asked}, which {library} asks for,"
        raise ComputeTypeError(
            explain(
                f"{asked} of an array of shape {shape_text(self.extents)} in {where}",
                "its elements are unknown while the function is traced",
                _instead_of_library(library) if library
                else f"Write {instead}." if called
                else hint if isinstance(hint, str) else hint(text),
            )
        )  # fmt: skip

    return method


def refuse_number(asked: str, value: Expr, where: str) -> NoReturn:
    """Raise for a number or a truth value over lengths that are symbolic in this trace."""
    lengths = current().outermost.lengths
    used = {n: None for n in postorder([value]) if isinstance(n, Var)}
    raise ComputeTypeError(
        explain(
            f"{asked} of {value} in {where}",
            f"{' and '.join(f'{n} is {lengths[n].text}' for n in used)}, any length in this trace",
            "A trace of each length has the number: sl.jit(..., dynamic=False).",
        )
    )


def _instead_of_library(library: str) -> str:
    """Return what to write instead of the function of a library that knows arrays of NumPy only."""
    return (
        f"Write what the function of {library} computes with NumPy's functions, or call it outside "
        f"of {_called()} and pass its result as an argument."
    )


def _instead_of_test(text: str) -> str:
    """Return what to write instead of the truth value that a line asks for."""
    if text.startswith(("while ", "if ", "elif ")) and ":=" in text:
        return (
            "Assign the name in a line of its own before the test; of while (v := f(x)) > 0, "
            "write while True: v = f(x), and if not v > 0: break."
        )
    if text.startswith("while"):
        return (
            "Let the loop run a number of times that is known, sl.fori_loop(0, n, body, init), and "
            "keep what is finished with np.where(condition, new, old)."
        )
    if re.search(r"\bsorted\(", text):
        return "Write np.sort(x)."
    if not text or current().title == "<lambda>":
        why = "A lambda keeps no branches" if text else "Its source cannot be read"
        return (
            f"{why}: define it by def in a file, where an if on elements is a choice, or write "
            "np.where(condition, a, b)."
        )
    if re.search(r"(?<![\w.])(min|max)\(", text):
        return "Write np.max(x) or np.min(x), and np.maximum(a, b) or np.minimum(a, b)."
    instead = " instead of if" if re.search(r"\bif\b", text) else ""
    return (
        f"Choose with np.where(condition, a, b){instead}; an argument that decides what the "
        "function does is a Python number or is named in static_argnames."
    )


def _instead_of_array(text: str) -> str:
    """Return what to write instead of the NumPy array that a line makes of a traced one."""
    if _vectorizes():
        return (
            "np.vectorize has no form: NumPy's functions and operators take whole arrays, so call "
            "the function itself, f(x)."
        )
    if "as_strided(" in text:
        return (
            "A trace takes np.lib.stride_tricks.as_strided where it reads the source of a def; in "
            "a lambda, write np.lib.stride_tricks.sliding_window_view(x, window), or a slice."
        )
    if structured := _structured(text):
        return (
            f"{structured} is a structured array, and kernels compute with numbers: make an array "
            "of numbers for each field, and fill the fields with what the function returned."
        )
    names = _CALLED.findall(text)
    if any(name.startswith("random.") for name in names):
        return (
            "Draw from a generator that is an argument, rng.normal(size=x.shape) or "
            "rng.permutation(len(x)), and index with what it draws: x[order]."
        )
    if any(name.startswith("ma.") for name in names):
        return (
            "Keep the mask as an array of bools: np.where(mask, 0, x), or np.mean(x, where=~mask)."
        )
    if names and names[0] in _BY_NUMBERS:
        return KNOWN
    if names and names[0] in _TO_ARRAYS and not re.search(r"[(\[]\s*[\[(]", text):
        return f"It is an array already: leave np.{names[0]} out; np.copy(x) makes a new one."
    if names and names[0] in ("array", "asarray"):
        return f"{_STACKED}."
    if names and re.search(r"[(\[]\s*\[", text):
        return f"{_STACKED}: np.{names[0]}(np.stack([a, b]))."
    return (
        "Assign to an array of the trace: make it with np.zeros_like(x), or with np.zeros(shape, "
        "dtype, like=x), where x is an argument."
    )


def _structured(text: str) -> str:
    """Return the name of the structured array of whose fields a line writes one, or ``""``."""
    frame = _asking()
    values = {} if frame is None else frame.f_locals
    for name in re.findall(r"(\w+)\[\s*[\"']", text):
        if isinstance(values.get(name), np.ndarray) and values[name].dtype.names:
            return str(name)
    return ""


def _vectorizes() -> bool:
    """Return whether a function that np.vectorize made is being called."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if isinstance(frame.f_locals.get("self"), np.vectorize):
            return True
    return False


def _called() -> str:
    """Return the function that is traced as calls name it."""
    title = current().title
    return title if title.isidentifier() else "f"


def refuse_c_function(function: Any) -> NoReturn:
    """Raise for a function of ctypes that is called with arrays or numbers of a trace."""
    where, _ = _line()
    name = getattr(function, "__name__", "a function")
    raise ComputeTypeError(
        explain(
            f"{name} of ctypes in {where}",
            "it takes known numbers and addresses, and its arguments are unknown while the "
            "function is traced",
            f"Write a function of NumPy in its place, such as np.cos(x) for cos, or call it "
            f"outside of {_called()} and pass its result as an argument.",
        )
    )


def refuse_element(array: Any) -> NoReturn:
    """Raise for an array of a traced function whose elements a lambda over axes reads."""
    where, _ = _line()
    title = _called()
    raise ComputeTypeError(
        explain(
            f"an element of an array of shape {shape_text(array.extents)} in {where}",
            "sl.compute, sl.scatter and sl.scan read tensors, and the arrays of a traced function "
            "(sl.jit, sl.trace) are not tensors",
            f"In {title}, write NumPy's functions of whole arrays, np.add.at for sl.scatter, and "
            f"sl.fori_loop for sl.scan. Or take the tensors of {title} without this line, "
            f"T = sl.trace({title}, ...), and write sl.compute over T.",
        )
    )


def refuse_outside(array: Any, asked: str) -> NoReturn:
    """Raise for an array of a traced function in ``asked``, which takes tensors."""
    where, _ = _line()
    title = _called()
    raise ComputeTypeError(
        explain(
            f"{asked} of an array of shape {shape_text(array.extents)} in {where}",
            f"{asked} takes tensors, and the arrays of a traced function (sl.jit, sl.trace) are "
            "not tensors",
            f"Call it outside: T = sl.trace({title}, ...) returns the tensors that it computes "
            f"without this line, and {asked} takes them.",
        )
    )


def missing_attribute(kind: type, name: str) -> ComputeTypeError | MissingNameError:
    """Return the error for an attribute that arrays of a traced function lack.

    The error for an attribute of NumPy's arrays does not derive from ``AttributeError``, so that
    ``hasattr`` does not say that the attribute is absent.
    """
    asked = f"an array of a traced function has no attribute {name!r}"
    if running_trace() is not None and name in dir(np.ndarray) and not name.startswith("_"):
        where, text = _line()
        asked = f"an array of a traced function has no attribute {name!r} (in {where})"
        if name == "view" and re.search(r"\b(as)?matrix\(|\bbmat\(", text):
            raise ComputeTypeError(
                explain(
                    f"a matrix of a traced array in {where}",
                    "the operators of np.matrix differ from the operators of a trace's arrays",
                    "Use the array: x @ y is the product of matrices.",
                )
            )
        listed = f"write it with other functions; {docs_page('NumPy code')} lists them"
        hint = _METHODS.get(name, listed)
        return ComputeTypeError(f"{asked}, unlike NumPy's arrays: {hint}")
    close = nearest(name, (n for n in dir(kind) if not n.startswith("_")))
    return MissingNameError(
        f"{asked}{close}; {docs_page('NumPy code')} lists the functions of NumPy that take one"
    )


_METHODS = {
    **{name: NUMPY_METHODS[name] for name in (
        "ptp", "choose", "view", "byteswap")},
    **dict.fromkeys(("put", "itemset"), "write x[indices] = values"),
    "resize": "write x = np.resize(x, shape)",
    **dict.fromkeys(("flat", "base"), "write x.reshape(-1), and assign to x itself"),
    **dict.fromkeys(("tobytes", "tofile", "dump", "dumps", "data", "ctypes", "flags"),
                    "return the array, and take it of what the function returned"),
}  # fmt: skip
_refuse_truth = _refusing("the truth value", _instead_of_test)


def _truth(self: Any, *_: Any, **__: Any) -> NoReturn:
    """Raise for a truth value, in NumPy's words for an array of several elements."""
    extents = self.extents
    if not extents or any(not isinstance(e, int) for e in extents) or np.prod(extents) == 1:
        _refuse_truth(self)
    raise ComputeTypeError(
        explain(
            f"the truth value of an array of shape {shape_text(extents)} in {line_text()}",
            "it is ambiguous if the array has more than one element, as in NumPy",
            "Use np.any(x) or np.all(x), or choose element by element: np.where(x, a, b).",
        )
    )


UNKNOWN = {
    "__bool__": _truth,
    "__float__": _refusing(
        "float()", "Convert with .astype(np.float32); use np.sqrt for math.sqrt.", True
    ),
    "__complex__": _refusing("complex()", "Convert with .astype(np.complex128).", True),
    "__round__": _refusing("round()", "Write np.round."),
    "__trunc__": _refusing("math.trunc()", "Write np.trunc."),
    "__int__": _refusing("int()", "Convert with .astype(np.int64).", True),
    "__index__": _refusing("an integer", KNOWN, True),
    "item": _refusing(".item()", "Leave .item() out: a 0-d array is used like a number."),
    "tolist": _refusing(".tolist()", "Return the array, and convert what the function returned."),
    "__array__": _refusing("a NumPy array", _instead_of_array),
}
refuse_format = _refusing(
    "the text", "Return the value, and print or format what the function returned."
)
refuse_length = _refusing(
    "len()", "Its length is known between the kernels alone. Use x.size or x.shape[0] as numbers."
)
