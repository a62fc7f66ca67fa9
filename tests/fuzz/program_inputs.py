"""The function of a random NumPy program's text, and arguments for it."""

from __future__ import annotations

import ast
import linecache
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np

# the time of a run by NumPy, which a loop that ends takes much less of
SECONDS = 0.3
NUMBERS = count()


class _Apart(ast.NodeTransformer):
    """Gives an assignment to elements a copy of the array on its right side.

    NumPy assigns to a vector element by element, also one that it reads with other strides: after
    ``a[:-1, 2] = a[1, :-1]``, elements have values that it wrote. schedlang reads all elements
    first, as NumPy does for arrays of more dimensions and for ufuncs.
    """

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        if any(isinstance(target, ast.Subscript) for target in node.targets):
            node.value = ast.Call(ast.Name("_apart", ast.Load()), [node.value], [])
        return node


def _apart(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def function_of(text: str, helpers: dict[str, Any], read: bool = False) -> Callable[..., Any]:
    """Return the function of a source; if it is to be ``read``, its lines can be found later.

    NumPy runs one that is not, and whose assignments read all elements before they write one.
    """
    path = f"<random program {next(NUMBERS) if read else 0}>"
    names: dict[str, Any] = {"np": np, **helpers}
    tree = ast.parse(text)
    if read:
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    else:
        tree = ast.fix_missing_locations(_Apart().visit(tree))
        names["_apart"] = _apart
    exec(compile(tree, path, "exec"), names)
    function: Callable[..., Any] = names["program"]
    return function


def made(kinds: dict[str, str], seed: int) -> dict[str, Any]:
    """Return arguments: ``float64[4,3]``, ``index[5]`` below 2, numbers, and orders of elements.

    ``x of a`` is the argument ``a`` again, and ``x[1:] of a`` a view of it.
    """
    random = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    for name, kind in kinds.items():
        how, _, other = kind.rpartition(" of ")
        if how:
            values[name] = eval(how, {"x": values[other]})
            continue
        what, _, rest = kind.partition("[")
        if not rest:
            values[name] = eval(kind)
            continue
        shape_text, _, order = rest.partition("]")
        shape = tuple(int(n) for n in shape_text.split(",") if n)
        if what == "index":
            values[name] = random.integers(0, 2, shape)
            continue
        quarters = random.integers(-8, 9, shape)
        if what == "bool":
            array = quarters > 0
        elif what.startswith("complex"):
            array = (quarters / 4 + 1j * random.integers(-8, 9, shape) / 4).astype(what)
        elif what.startswith("float"):
            array = (quarters / 4).astype(what)
        elif what.startswith("uint"):
            array = np.abs(quarters).astype(what)
        else:
            array = quarters.astype(what)
        # an array without dimensions is one, too
        values[name] = laid_out(np.asarray(array), order)
    return values


@contextmanager
def process_time(seconds: float = SECONDS) -> Iterator[None]:
    """Raise ``TimeoutError`` if a part takes longer than ``seconds`` of this process's time."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"it takes longer than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def laid_out(array: np.ndarray, order: str) -> np.ndarray:
    if order == "F":
        return np.asfortranarray(array)
    if order == "reversed":
        return np.flip(np.flip(array).copy())
    if order == "apart":
        return np.repeat(array, 2, -1)[..., ::2]
    return array
