"""The arguments of a call, matched to placeholders, sizes and scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from schedlang.compute.arrays import as_numpy
from schedlang.compute.conversions import as_dtype
from schedlang.compute.tensor import Extent, Tensor, declaration, shape_text
from schedlang.errors import CallError, CallTypeError
from schedlang.expr import dtypes
from schedlang.expr.bfloat import as_float32, convert_values
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Var
from schedlang.expr.size_bounds import broken_bound, no_value
from schedlang.index.linear import Lin, to_expr
from schedlang.index.simplify import to_lin
from schedlang.index.solving import determined_size, factor_of
from schedlang.index.sums import solve


def bind(
    tensors: Sequence[Tensor],
    variables: Sequence[Var],
    args: Sequence[Any],
    named: Mapping[str, Any],
) -> tuple[dict[Tensor, np.ndarray], dict[Var, Any]]:
    """Return the checked array of each tensor and the checked value of each variable.

    ``args`` are arrays for ``tensors``, then values for the variables that no shape determines.
    ``named`` has arguments passed by name.
    """
    arrays = _arrays(tensors, args[: len(tensors)], named)
    values = _named_values(tensors, variables, named)
    sizes = [v for v in variables if v.is_size]
    _solve(arrays, values, sizes)
    solved = [v for v in sizes if v in values and v.name not in named]
    rest = list(args[len(tensors) :])
    for variable in variables:
        if variable not in values and rest:
            values[variable] = _scalar(variable, rest.pop(0))
    if rest:
        count = len(args) - len(rest)
        passed = [v for v in variables if v not in solved]
        raise CallTypeError(
            f"{len(args)} arguments were given, but at most {count} are taken: "
            f"{_listed(tensors, passed)}{_from_shapes(solved)}"
        )
    _solve(arrays, values, sizes)
    missing = [v for v in variables if v not in values]
    if missing:
        _check_solvable(arrays, missing)
        what = "size" if missing[0].is_size else "scalar"
        raise CallTypeError(
            f"{what} {missing[0].name} is not given, and the shape of no argument determines it: "
            f"pass {missing[0].name}=..."
        )
    for size in sizes:
        rule = broken_bound(size.name, int(values[size]), size.least, size.most)
        if rule:
            raise CallError(f"{size.name} is {values[size]}, but {rule}")
    for tensor, array in arrays.items():
        _check_shape(tensor, array, values)
    return arrays, values


def _arrays(
    tensors: Sequence[Tensor], args: Sequence[Any], named: Mapping[str, Any]
) -> dict[Tensor, np.ndarray]:
    arrays = {}
    names = [t.name for t in tensors]
    for position, tensor in enumerate(tensors):
        if position < len(args):
            if tensor.name in named and names.count(tensor.name) == 1:
                raise CallTypeError(f"{tensor.name} is given twice, by position and by name")
            value = args[position]
        elif tensor.name not in named:
            raise CallTypeError(
                f"{tensor.name} is not given: pass {len(tensors)} "
                f"array{'s' * (len(tensors) != 1)}, {', '.join(map(declaration, tensors))}"
            )
        elif names.count(tensor.name) > 1:
            raise CallTypeError(
                f"several placeholders are named {tensor.name}: pass them by position"
            )
        else:
            value = named[tensor.name]
        arrays[tensor] = _array(tensor, value)
    return arrays


def _array(tensor: Tensor, value: Any) -> np.ndarray:
    if tensor.ndim and isinstance(value, (Real, Var)):
        leaves = dict.fromkeys(v for e in tensor.shape for v in to_lin(e).leaves())
        sizes = [v for v in leaves if isinstance(v, Var)]
        raise CallTypeError(
            f"{tensor.name} has shape {shape_text(tensor.shape)}, got {value}: pass an array"
            f"{_from_shapes(sizes)}"
        )
    # the reference takes lists and numbers, too
    listed = isinstance(value, (list, tuple, int, float))
    array = np.asarray(value) if listed else as_numpy(value, tensor.name)
    if array.dtype.name != tensor.dtype or not array.dtype.isnative:
        raise CallTypeError(
            f"{tensor.name} is {tensor.dtype}, got {array.dtype}: convert it with "
            f"{as_dtype(value, tensor.name, tensor.dtype)}"
        )
    if array.ndim != tensor.ndim:
        raise CallError(
            f"{tensor.name} has shape {shape_text(tensor.shape)}, of {tensor.ndim} "
            f"dimension{'s' * (tensor.ndim != 1)}, got an array of shape {array.shape}"
        )
    return array


def _named_values(
    tensors: Sequence[Tensor], variables: Sequence[Var], named: Mapping[str, Any]
) -> dict[Var, Any]:
    names = [v.name for v in variables]
    tensor_names = {t.name for t in tensors}
    values = {}
    for name, value in named.items():
        if name in tensor_names:
            continue
        if names.count(name) != 1:
            why = "names several variables" if name in names else "names no argument"
            raise CallTypeError(f"{name}= {why}: {_listed(tensors, variables)}")
        variable = variables[names.index(name)]
        values[variable] = _scalar(variable, value)
    return values


def _scalar(variable: Var, value: Any) -> Any:
    try:
        number = np.asarray(as_float32(value))[()]
    except ValueError:
        number = np.zeros(2)
    kind = getattr(number, "dtype", np.dtype(object)).kind
    kind_of_variable = dtypes.kind(variable.dtype)
    if np.ndim(number) or kind not in "biuf" or (kind == "f") > (kind_of_variable == "f"):
        raise CallTypeError(f"{variable.name} is a scalar of {variable.dtype}, got {value!r}")
    if kind_of_variable in "iu":
        low, high = dtypes.limits(variable.dtype)
        low = 0 if variable.is_size else low
        if not low <= int(number) <= high:
            raise CallError(
                f"{variable.name} is {int(number)}, but {variable.dtype} holds {low}..{high}"
            )
    if kind_of_variable == "b" and kind != "b":
        raise CallTypeError(f"{variable.name} is a bool, got {value!r}")
    return convert_values(number, variable.dtype)


def _solve(
    arrays: Mapping[Tensor, np.ndarray], values: dict[Var, Any], sizes: Sequence[Var]
) -> None:
    """Add the sizes that shapes determine to ``values``.

    Each pass solves the extents with one unknown size, until a pass finds none.
    """
    equations = [
        (e, n)
        for t, a in arrays.items()
        for e, n in zip(t.shape, a.shape)
        if not isinstance(e, int)
    ]
    progress = any(v not in values for v in sizes)
    while progress:
        progress = False
        for extent, actual in equations:
            solution = single_unknown(extent, actual, values)
            if solution is not None:
                values[solution[0]] = np.int64(solution[1])
                progress = True


def single_unknown(
    extent: Extent, actual: int, values: Mapping[Var, Any]
) -> tuple[Var, int] | None:
    """Return the only unknown size of ``extent`` and its value; ``None`` if not determined."""
    sizes = {v: Lin.of(int(n)) for v, n in values.items() if v.is_size}
    lin = to_lin(extent, sizes)
    size = determined_size(lin, ())
    if size is None:
        return None
    root = solve(lambda n: int(evaluate(to_expr(lin), {size: n})), actual)
    return None if root is None or root < 0 else (size, root)


def _check_solvable(arrays: Mapping[Tensor, np.ndarray], missing: Sequence[Var]) -> None:
    """Raise for an extent that alone would determine a missing size, but has its value for none."""
    for tensor, array in arrays.items():
        for k, (extent, actual) in enumerate(zip(tensor.shape, array.shape)):
            lin = to_lin(extent)
            size = determined_size(lin, ())
            if size is not None and size in missing:
                place = f"dimension {k} of {tensor.name}"
                why = no_value(place, actual, str(extent), size.name, factor_of(lin, size))
                raise CallError(f"no input determines {size}: {why}")


def _check_shape(tensor: Tensor, array: np.ndarray, values: Mapping[Var, Any]) -> None:
    expected = tuple(e if isinstance(e, int) else int(evaluate(e, values)) for e in tensor.shape)
    if array.shape != expected:
        symbolic = "" if all(isinstance(e, int) for e in tensor.shape) else f" = {expected}"
        raise CallError(
            f"{tensor.name} has shape {shape_text(tensor.shape)}{symbolic}, got an array of shape "
            f"{array.shape}"
        )


def _from_shapes(sizes: Sequence[Var]) -> str:
    """Return the end of a message that says that ``sizes`` are not passed."""
    names = ", ".join(v.name for v in sizes)
    return f"; the shapes of the arrays give {names}" if names else ""


def _listed(tensors: Sequence[Tensor], variables: Sequence[Var]) -> str:
    names = [*map(declaration, tensors), *(f"{v.name}: {v.dtype}" for v in variables)]
    return f"the arguments are {', '.join(names)}" if names else "it reads no arguments"
