"""TVM's packed functions: functions of Python that have a name, and calls of them in ``te.extern``.

A function of a name belongs to the process, as in TVM: a later program may ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from schedlang.errors import ComputeError, ComputeTypeError, explain, nearest, warn_user
from schedlang.expr.nodes import Const, Expr
from schedlang.signatures import public
from schedlang.tvm.buffers import Buffer

# functions that come with schedlang, and the modules that have them
IN_THE_BOX = {"tvm.contrib.cblas.matmul": "schedlang.tvm.contrib.cblas"}
_REGISTERED: dict[str, Callable[..., Any]] = {}


@dataclass(frozen=True, eq=False)
class Handle:
    """An input or an output of ``te.extern``, as its function gets it."""

    name: str
    shape: tuple[Any, ...]
    dtype: str

    @property
    def ndim(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, eq=False)
class InTheBox:
    """A packed function that comes with schedlang, which ``te.extern`` alone calls.

    ``function_for`` returns a function of arrays for the arguments of a call and its handles.
    """

    name: str
    function_for: Callable[[Sequence[Any], Sequence[Handle]], Callable[..., None]]

    def __call__(self, *args: Any) -> None:
        """Raise: this function is called in a kernel."""
        raise ComputeError(
            explain(
                f"a call of {self.name}",
                "a kernel calls this function, not Python",
                "Call it in te.extern, by tvm.tir.call_packed.",
            )
        )


@dataclass(frozen=True, eq=False)
class PackedCall:
    """A call of the packed function ``name`` with handles and numbers."""

    name: str
    args: tuple[Any, ...]


@public
def register_func(name: Any, f: Any = None, override: bool = False) -> Any:
    """Give a function of Python a name, by which ``tvm.tir.call_packed`` calls it.

    As a decorator without a function, ``@tvm.register_func("name")`` returns what it decorates; so
    does ``@tvm.register_func`` alone, which takes the function's own name. A call gives arrays of
    ``tvm.nd`` and numbers. Raise :class:`~schedlang.errors.ComputeError` for a name that another
    function has, unless ``override`` is true.

    >>> @register_func("doc.twice", override=True)
    ... def twice(x, y):
    ...     y.copyfrom(x.numpy() * 2)
    >>> get_global_func("doc.twice") is twice
    True
    """
    if callable(name):
        return register_func(name.__name__, name)
    if not isinstance(name, str) or not name:
        raise ComputeTypeError(
            f"tvm.register_func({name!r}): give a name as a string, or the function to register"
        )

    def register(function: Any) -> Any:
        if not callable(function):
            raise ComputeTypeError(
                f"tvm.register_func({name!r}): {type(function).__name__} cannot be called"
            )
        if (name in _REGISTERED or name in IN_THE_BOX) and not override:
            raise ComputeError(
                explain(
                    f"tvm.register_func({name!r})",
                    "a function has this name already",
                    "Give another name, or override=True.",
                )
            )
        if name.startswith("tvm_callback_"):
            warn_user(
                f"tvm.register_func({name!r}): no kernel calls it; TVM's compiler has this hook, "
                "and schedlang's kernels are functions of numba, whose source is f.source",
                UserWarning,
            )
        _REGISTERED[name] = function
        return function

    return register if f is None else register(f)


@public
def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """Return the function of a name; ``None`` if there is none and ``allow_missing`` is true.

    Otherwise raise :class:`~schedlang.errors.ComputeError`.
    """
    known = _REGISTERED.get(name)
    if known is not None:
        return known
    if name in IN_THE_BOX:
        return import_module(IN_THE_BOX[name]).PACKED
    if allow_missing:
        return None
    close = nearest(name, [*_REGISTERED, *IN_THE_BOX])
    raise ComputeError(
        explain(
            f"tvm.get_global_func({name!r})",
            f"nothing was registered by this name{close}",
            f'Register it first: @tvm.register_func("{name}").',
        )
    )


@public
def call_packed(name: str, *args: Any) -> PackedCall:
    """Return a call of a packed function, for ``te.extern`` and ``te.decl_tensor_intrin``.

    ``args`` are the arrays that their functions get, and numbers, strings or ``None``. Raise
    :class:`~schedlang.errors.ComputeTypeError` for other arguments.
    """
    if not isinstance(name, str):
        raise ComputeTypeError(
            f"tvm.tir.call_packed({type(name).__name__}, ...): the first argument is the name of a "
            "registered function"
        )
    given = []
    for arg in args:
        if isinstance(arg, Const):
            arg = arg.value
        kinds = (Handle, Buffer, int, float, str, type(None))
        if isinstance(arg, Expr) or not isinstance(arg, kinds):
            raise ComputeTypeError(
                explain(
                    f"tvm.tir.call_packed({name!r}, ...)",
                    f"the argument {arg} is neither an array of the function nor a number",
                    "Pass ins[k] or outs[k], and numbers that are known now.",
                )
            )
        given.append(arg)
    return PackedCall(name, tuple(given))


__all__ = ["call_packed", "get_global_func", "register_func"]
