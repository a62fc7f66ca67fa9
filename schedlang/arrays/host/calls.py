"""Calls of NumPy's functions on the host, as stages."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.arrays.host.row import NumpyCall, Row, listed, written
from schedlang.arrays.joining import stack
from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.stages import tensor_of
from schedlang.compute.extern_op import HOST, ExternFunction, ExternOp
from schedlang.compute.tensor import Shape, Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Const, Expr, Var

# NumPy's errors for arguments that do not fit
_REFUSALS = (TypeError, ValueError, IndexError, np.linalg.LinAlgError)


def on_host(name: str, row: Row, size: Var | None = None, /, **arguments: Any) -> Any:
    """Return the stage that calls ``np.<name>``, or the tuple of its results.

    ``size`` is the extent that only the elements tell, for a row that has one.

    Raises :class:`~schedlang.errors.ComputeError` or :class:`~schedlang.errors.ComputeTypeError`
    for what NumPy refuses, and for arguments that only a call knows.
    """
    asked = written(name)
    given = {n: arguments.pop(n) for n in row.arrays.split() if arguments.get(n) is not None}
    tensors = {n: _array(v, asked) for n, v in given.items() if _is_unknown(v)}
    options = {
        n: _known(v, n, asked) for n, v in {**arguments, **given}.items() if n not in tensors
    }
    for tensor in tensors.values():
        _check_dtype(tensor, asked)
    result = _trial(name, row, tensors, options, asked)
    late = {} if size is None else {"size": size}
    shapes = row.shape(
        **late,
        **{n: t.shape for n, t in tensors.items()},
        **{n: np.shape(v) if n in given and np.ndim(v) else v for n, v in options.items()},
    )
    arrays = tuple(n for n in row.names if n in tensors)
    call = NumpyCall(name, tuple(row.names[: row.leading]), arrays, tuple(options.items()))
    outputs = stage_of(
        call,
        [tensors[n] for n in arrays],
        shapes if isinstance(shapes, list) else [shapes],
        [np.asarray(v).dtype.name for v in listed(result)],
    )
    if not isinstance(result, tuple):
        return outputs[0]
    return result._make(outputs) if hasattr(result, "_make") else outputs


def stage_of(
    call: NumpyCall, inputs: Sequence[Tensor], shapes: Sequence[Shape], dtypes: Sequence[str]
) -> tuple[Tensor, ...]:
    """Return the results of a call, as the outputs of one stage."""
    name = automatic_name(call.name.rpartition(".")[2])
    names = [f"{name}.v{k}" for k in range(len(shapes))] if len(shapes) > 1 else [name]
    outputs = tuple(
        Tensor(n, tuple(s), d, None, k) for k, (n, s, d) in enumerate(zip(names, shapes, dtypes))
    )
    options = tuple(f"{n}={v!r}" for n, v in call.options)
    function = ExternFunction(
        written(call.name), HOST, call, call.write, (tuple(t.dtype for t in inputs), tuple(dtypes)),
        why="NumPy computes it in this process", options=options,
    )  # fmt: skip
    op = ExternOp(name, tuple(inputs), function, None, outputs)
    for tensor in outputs:
        tensor.op = op
    mark_automatic(outputs[0])
    return outputs


def _array(value: Any, asked: str) -> Tensor:
    """Return an array of the computation; a list of arrays becomes one, as in NumPy."""
    return stack(value) if isinstance(value, (list, tuple)) else tensor_of(value, asked)


def _is_unknown(value: Any) -> bool:
    parts = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(v, (Tensor, Expr)) and not isinstance(v, Const) for v in parts)


def _known(value: Any, name: str, asked: str) -> Any:
    """Return an argument that is not an array of the computation, as NumPy takes it."""
    if isinstance(value, Const):
        return value.value if value.weak else np.dtype(value.dtype).type(value.value)
    if _is_unknown(value):
        raise ComputeTypeError(
            explain(
                f"{asked}({name}=...)",
                f"{name} is {value}, which only a call knows",
                f"Give {name} as a number of Python, or name it in static_argnames.",
            )
        )
    return value


def _check_dtype(tensor: Tensor, asked: str) -> None:
    if tensor.dtype == "bfloat16":
        raise ComputeTypeError(
            explain(
                f"{asked} of {tensor.name}, which is bfloat16",
                "NumPy computes it, and has no bfloat16",
                f"Convert before and after: {asked}(A.astype('float32'), ...).",
            )
        )


def _trial(
    name: str, row: Row, tensors: Mapping[str, Tensor], options: Mapping[str, Any], asked: str
) -> Any:
    """Return what NumPy returns for small arrays, of the dtypes and dimensions given."""
    small = {n: np.ones((row.extent,) * t.ndim, t.dtype) for n, t in tensors.items()}
    for parameter in row.arrays.split():
        known: Any = options.get(parameter)
        if np.ndim(known):
            small[parameter] = np.ones((row.extent,) * np.ndim(known), np.asarray(known).dtype)
    small |= {n: v for n, v in row.trial.items() if n in tensors or n in options}
    arguments = {**options, **small}
    call = NumpyCall(name, tuple(row.names[: row.leading]), (), tuple(arguments.items()))
    return numpy_result(asked, call.result)


def numpy_result(asked: str, function: Callable[..., Any], *args: Any) -> Any:
    """Return what NumPy returns; what it refuses is refused as ``asked``."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return function(*args)
    except _REFUSALS as error:
        kind = ComputeTypeError if isinstance(error, TypeError) else ComputeError
        said = str(error).rstrip(".")
        raise kind(explain(asked, f"NumPy refuses it: {said}", "Change the argument.")) from None
