"""The methods, operators and protocols of NumPy's arrays, set on ``Tensor``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from schedlang.arrays import choices, indexing, shaping
from schedlang.arrays.calls import call_form
from schedlang.arrays.elementwise import array, elementwise
from schedlang.arrays.functions import ELEMENTWISE, FORMS
from schedlang.arrays.operands import axis_in
from schedlang.arrays.operators import OPERATORS
from schedlang.arrays.refused import refuse_function
from schedlang.arrays.shapes import size_of
from schedlang.arrays.ufuncs import apply
from schedlang.compute.tensor import Extent, Tensor
from schedlang.expr.dtypes import is_complex
from schedlang.expr.nodes import Expr
from schedlang.language.calls import call
from schedlang.language.construct import binary
from schedlang.language.foreign import NUMBA_TYPE
from schedlang.language.numpy_functions import name_of, refuse_numpy
from schedlang.language.torch_functions import torch_function

# methods with the arguments of NumPy's functions of the same name
SAME = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "clip", "copy", "cumprod",
    "cumsum", "diagonal", "dot", "max", "mean", "min", "prod", "ravel", "repeat", "round",
    "searchsorted", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var",
)  # fmt: skip


# what NumPy's functions say of the shape of a scalar
_OF_SCALARS: dict[str, Any] = {"shape": (), "ndim": 0, "size": 1}


def _same(name: str) -> Callable[..., Any]:
    form = FORMS[name]

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return call_form(f"{self.name}.{name}", form, (self, *args), kwargs)

    listed = ", ".join(form.names[1:])
    method.__doc__ = f"Return ``np.{name}`` of this tensor, with its arguments ({listed})."
    return method


def _reshape(self: Tensor, *shape: Any, **kwargs: Any) -> Tensor:
    """Return ``np.reshape`` of this tensor; the extents may be given one by one."""
    extents = shape[0] if len(shape) == 1 else shape
    return call_form(f"{self.name}.reshape", FORMS["reshape"], (self, extents), kwargs)


def _transpose(self: Tensor, *axes: Any) -> Tensor:
    """Return ``np.transpose`` of this tensor; the axes may be given one by one."""
    return shaping.transpose(self, axes[0] if len(axes) == 1 else axes or None)


def _flatten(self: Tensor) -> Tensor:
    """Return ``np.ravel`` of this tensor."""
    return shaping.ravel(self)


def _astype(self: Tensor, dtype: Any, copy: bool = True) -> Tensor:
    """Return this tensor converted to ``dtype``, by the rules of NumPy's ``astype``.

    Without ``copy``, a tensor that has this dtype already is returned itself.
    """
    return choices.astype(self, dtype, copy)


def _conj(self: Tensor) -> Any:
    """Return ``np.conjugate`` of this tensor, or the tensor itself if it is real."""
    if not is_complex(self.dtype):
        return self
    return elementwise("conjugate", lambda z: call("conj", z), self)


def _equal(self: Tensor, other: Any) -> Any:
    """Return ``np.equal`` with ``other``; ``==`` compares bare tensors by identity."""
    return array("equal", lambda x, y: binary("==", x, y), self, other)


def _array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    return apply(ufunc, method, inputs, kwargs)


def _array_function(self: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    name = name_of(function)
    if name in ("shape", "ndim", "size") and args and args[0] is self:
        return getattr(self, name)
    return _function_of(f"tensor {self.name}", function, args, kwargs)


def _ufunc_of_expr(self: Expr, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Call ``ufunc`` of an element of a computation, or of a 0-d array."""
    plain = method == "__call__" and not kwargs
    if plain or any(isinstance(v, Expr) and axis_in(v) is not None for v in inputs):
        return _plain_ufunc(self, ufunc, method, *inputs, **kwargs)
    return apply(ufunc, method, inputs, kwargs)


def _function_of_expr(self: Expr, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Call NumPy's ``function`` of an expression: of an element, or of a 0-d array."""
    what, name = f"the expression {self}", name_of(function)
    if name in _OF_SCALARS:
        return _OF_SCALARS[name]
    if axis_in(self) is not None and name not in ELEMENTWISE:
        note = f"Outside of sl.compute, np.{name} takes whole tensors." if name in FORMS else ""
        refuse_numpy(name, what, note)
    return _function_of(what, function, args, kwargs)


def _function_of(what: str, function: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    name = name_of(function)
    form = FORMS.get(name)
    if form is None:
        refuse_function(name, what)
    return call_form(f"np.{name}", form, args, kwargs)


def _size(self: Tensor) -> Extent:
    """Return the number of elements, an integer or an expression over sizes."""
    return size_of(self.shape)


METHODS: dict[str, Callable[..., Any]] = {
    **{name: _same(name) for name in SAME},
    **OPERATORS,
    "__getitem__": indexing.get,
    "_elementwise": lambda self, word, function, *values: array(
        word, function, *values, asked=f"sl.{word}"
    ),
    "__array_ufunc__": _array_ufunc,
    "__array_function__": _array_function,
    "astype": _astype,
    "conj": _conj,
    "conjugate": _conj,
    "equal": _equal,
    "flatten": _flatten,
    "reshape": _reshape,
    "transpose": _transpose,
}
PROPERTIES: dict[str, Callable[[Tensor], Any]] = {
    "T": shaping.transpose,
    "mT": shaping.matrix_transpose,
    "size": _size,
    "real": choices.real,
    "imag": choices.imag,
}

for _name, _method in METHODS.items():
    _method.__name__ = _name
    _method.__qualname__ = f"Tensor.{_name}"
    setattr(Tensor, _name, _method)
for _name, _method in PROPERTIES.items():
    setattr(Tensor, _name, property(_method))
Tensor._numba_type_ = NUMBA_TYPE  # type: ignore[attr-defined]
Tensor.__torch_function__ = classmethod(torch_function)  # type: ignore[attr-defined]
Expr.__torch_function__ = classmethod(torch_function)  # type: ignore[attr-defined]
_plain_ufunc = Expr.__array_ufunc__  # type: ignore[attr-defined]
Expr.__array_ufunc__ = _ufunc_of_expr  # type: ignore[attr-defined]
Expr.__array_function__ = _function_of_expr  # type: ignore[attr-defined]
