"""A function of NumPy that is called on the host: its row in a table, and a call of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Optional

import numpy as np

from schedlang.errors import CallError, explain

# the shape of a result, or a list with the shapes of several
Shapes = Any
# the dtype and the shape of a result; an extent that only the elements tell is None
Form = tuple[str, Sequence[Optional[int]]]


@dataclass(frozen=True)
class Row:
    """The way to call a function of NumPy on the host.

    ``parameters`` are NumPy's, in order, and ``arrays`` the ones among them that are arrays.
    ``shape`` takes the shapes of the arrays and the other arguments by name, and returns the shape
    of the result, or a list of shapes for several results. ``trial`` has arguments to take for the
    trial call, whose arrays have ``extent`` elements in each dimension. ``leading`` says how many
    parameters NumPy takes by position.
    """

    parameters: str
    arrays: str
    shape: Callable[..., Shapes]
    trial: Mapping[str, Any] = field(default_factory=dict)
    leading: int = 1
    extent: int = 1

    @property
    def names(self) -> list[str]:
        return self.parameters.split()


def written(name: str) -> str:
    """Return the function ``name`` as users write it: ``np.linalg.solve``."""
    return name if name.startswith("scipy.") else f"np.{name}"


def function_named(name: str) -> Callable[..., Any]:
    """Return the function of NumPy, or of SciPy, with this name.

    >>> function_named("linalg.det") is np.linalg.det
    True
    """
    path = name if name.startswith("scipy.") else f"numpy.{name}"
    module, _, last = path.rpartition(".")
    function: Callable[..., Any] = getattr(import_module(module), last)
    return function


@dataclass(frozen=True)
class NumpyCall:
    """A call of a function of NumPy: data, which a name and arguments describe.

    ``arrays`` are the parameters that are arrays of the computation, and ``options`` the other
    arguments. NumPy takes the ``leading`` parameters by position.
    """

    name: str
    leading: tuple[str, ...]
    arrays: tuple[str, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def result(self, *arrays: Any) -> Any:
        """Return what NumPy returns for ``arrays``."""
        named = {**dict(zip(self.arrays, arrays)), **dict(self.options)}
        leading = [named.pop(n) for n in self.leading]
        return function_named(self.name)(*leading, **named)

    def results(self, forms: Sequence[Form], *arrays: Any) -> list[np.ndarray]:
        """Return the results as new arrays whose elements lie row by row.

        Raises :class:`~schedlang.errors.CallError` for a result of another form than in ``forms``.
        """
        values = [np.asarray(v, order="C") for v in listed(self.result(*arrays))]
        for value, form in zip(values, forms):
            self._check(value, form)
        return [v.copy() if _is_shared(v, arrays) else v for v in values]

    def write(self, *arrays: np.ndarray) -> None:
        """Call the function with the first of ``arrays``, and write its results into the others.

        Raises :class:`~schedlang.errors.CallError` for a result of another shape or dtype.
        """
        count = len(self.arrays)
        values = [np.asarray(v) for v in listed(self.result(*arrays[:count]))]
        for out, value in zip(arrays[count:], values):
            self._check(value, (out.dtype.name, out.shape))
            out[...] = value

    def _check(self, value: np.ndarray, form: Form) -> None:
        dtype, shape = form
        fits = all(e is None or e == n for e, n in zip(shape, value.shape))
        if value.dtype != dtype or value.ndim != len(shape) or not fits:
            raise CallError(
                explain(
                    f"{written(self.name)} on the host",
                    f"it returns {value.dtype} of shape {value.shape}, and the stage has {dtype} "
                    f"of shape {tuple(shape)}",
                    _INSTEAD.get(self.name, "This is a fault of schedlang: please report it."),
                )
            )


# what to write where the elements decide about the form of a result
_COMPLEX = "An eigenvalue is complex: convert before, A.astype('complex128')."
_INSTEAD = {
    "bincount": "An element is minlength or more: give a larger minlength.",
    "linalg.eig": _COMPLEX,
    "linalg.eigvals": _COMPLEX,
}


def listed(value: Any) -> list[Any]:
    """Return the results of a call, one or a tuple of them, as a list."""
    return [*value] if isinstance(value, tuple) else [value]


def _is_shared(value: np.ndarray, arrays: Sequence[Any]) -> bool:
    return any(np.may_share_memory(value, a) for a in arrays)
