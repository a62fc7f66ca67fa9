"""``compute``, which makes a tensor from a function of its axes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from itertools import count, islice
from types import FunctionType
from typing import Any

from schedlang.compute.bounds import check_reads
from schedlang.compute.index_overflow import check_index_arithmetic
from schedlang.compute.joint import join
from schedlang.compute.misfits import compute_refusal, is_function, shape_missing
from schedlang.compute.reduce import Reduction
from schedlang.compute.tensor import ComputeOp, Tensor, check_shape
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.names import check_name
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.language.construct import as_expr, settle
from schedlang.language.foreign import functions_of_user
from schedlang.signatures import refuses


@refuses(compute_refusal)
def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    *,
    tag: Any = "",
    attrs: Any = None,
    varargs_names: Any = None,
) -> Any:
    """Return a tensor whose element at ``(i, j, ...)`` is ``fcompute(i, j, ...)``.

    ``shape`` is a tuple of extents (integers or sizes); one extent is enough for 1-d, and ``()`` is
    0-d. ``fcompute`` takes one axis per dimension (or ``*idx``). It returns an expression, a
    reduction (``sl.sum(...)``), or a tuple of expressions or of reductions over the same axes for
    several outputs of one shape, computed in one loop; then a tuple of tensors is returned. The
    dtype is the dtype of the expression. te's ``tag``, ``attrs`` and ``varargs_names`` have
    no effect.

    Raises :class:`~schedlang.errors.ComputeError` for an axis of another computation,
    :class:`~schedlang.errors.BoundsError` for a read that is out of bounds.

    >>> import schedlang as sl
    >>> A = sl.placeholder((8, 8), name="A")
    >>> sl.compute((8, 8), lambda i, j: A[i, j] + A[j, i], name="B")
    Tensor(B: float32[8, 8])
    >>> k = sl.reduce_axis(8, name="k")
    >>> sl.compute((8,), lambda i: (sl.sum(A[i, k], axis=k), sl.max(A[i, k], axis=k)), name="C")
    (Tensor(C.v0: float32[8]), Tensor(C.v1: float32[8]))
    """
    if is_function(shape):
        raise shape_missing(shape, fcompute)
    if callable(name) and not callable(fcompute):
        raise ComputeTypeError(
            f"sl.compute({shape}, {fcompute}, ...): the shape must be one tuple; write "
            f"sl.compute(({shape}, {fcompute}), fcompute)"
        )
    check_name(name, "a tensor")
    extents = check_shape(shape, name)
    if not callable(fcompute):
        raise ComputeTypeError(
            f"sl.compute(shape, fcompute, name={name!r}): fcompute must be a function of the axes, "
            f"got {type(fcompute).__name__}; write e.g. lambda i, j: A[i, j] * 2"
        )
    axes = tuple(Axis(n, e) for n, e in zip(_axis_names(fcompute, len(extents), name), extents))
    try:
        with functions_of_user():
            result = fcompute(*axes)
    except NameError as error:
        # an undefined name that is neither the tensor's nor a local of the user is a typing error
        if error.name != name and "free variable" not in str(error):
            raise
        raise ComputeError(
            explain(
                f"sl.compute for {name}",
                f"its function reads {error.name}, which has no value yet",
                f"If {error.name} is this tensor itself, this is a recurrence: write sl.scan(init, "
                "update, state), where update reads earlier rows of state, a placeholder.",
            )
        ) from error
    except IndexError as error:
        # recognize NumPy's message for an index that is not an integer
        if not str(error).startswith(("only integers, slices", "arrays used as indices")):
            raise
        raise ComputeTypeError(
            explain(
                f"sl.compute for {name}",
                "it indexes a NumPy array with an axis, which has no value here",
                "Make the array an input: declare arr = sl.placeholder(shape, dtype, "
                'name="arr"), index arr, and pass the NumPy array to the kernel.',
            )
        ) from error
    return define(name, axes, result)


def define(
    name: str, axes: tuple[Axis, ...], result: Any, first: Mapping[Axis, int] | None = None
) -> Any:
    """Return the tensor, or the tensors, whose elements are ``result`` over data ``axes``.

    ``result`` is what the function given to :func:`compute` returns, and the errors are the same.
    Reads need not be in bounds at points of an axis before its ``first`` one.

    >>> from schedlang.compute.tensor import placeholder
    >>> A, i = placeholder((4,), name="A"), Axis("i", 4)
    >>> define("B", (i,), A[i] + 1)
    Tensor(B: float32[4])
    """
    several = isinstance(result, (tuple, list))
    if several and any(isinstance(r, Reduction) for r in result):
        result = result[0] if len(result) == 1 else join(name, result)
    op = _operation(name, axes, result)
    visible = result.visible if isinstance(result, Reduction) else len(op.body)
    return finish(op, visible, several, first)


def finish(
    op: ComputeOp, visible: int, several: bool = False, first: Mapping[Axis, int] | None = None
) -> Any:
    """Return the ``visible`` tensors of ``op``, one or a tuple, after checks of its expressions.

    A single one is returned alone, unless ``several`` asks for a tuple. Reads need not be in bounds
    at points of an axis before its ``first`` one.
    """
    check_leaves(op)
    name, kinds = op.name, [e.dtype for e in op.body]
    names = [name] if len(kinds) == 1 else [f"{name}.v{k}" for k in range(len(kinds))]
    outputs = tuple(Tensor(n, op.shape, t, op, k) for k, (n, t) in enumerate(zip(names, kinds)))
    op.outputs = outputs
    check_index_arithmetic(op)
    check_reads(op, first)
    if visible == 1 and not several:
        if len(outputs) > 1:
            outputs[0].name = name
        return outputs[0]
    return outputs[:visible]


def axis_names(function: Callable[..., Any], ndim: int) -> list[str]:
    """Return the names of ``ndim`` axes after the parameters of ``function``.

    There are fewer or more if the parameters do not fit.
    """
    names = _first_parameters(function, ndim)
    if names is None:
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            return [f"i{k}" for k in range(ndim)]
        names = _given_names(parameters, ndim)
    return names


def _axis_names(fcompute: Callable[..., Any], ndim: int, name: str) -> list[str]:
    names = axis_names(fcompute, ndim)
    if len(names) != ndim:
        raise ComputeError(
            explain(
                f"sl.compute for {name}",
                f"the shape has {ndim} dimension{'s' * (ndim != 1)}, but the lambda takes "
                f"{len(names)} ({', '.join(names) or 'none'})",
                "Give the lambda one parameter for each dimension, or *idx.",
            )
        )
    for axis in names:
        check_name(axis, "an axis")
    return names


def _first_parameters(fcompute: Callable[..., Any], ndim: int) -> list[str] | None:
    """Return the first ``ndim`` parameters of a plain function whose others have defaults.

    Return ``None`` for any other callable: :func:`inspect.signature`, which is slow, knows them.
    """
    if type(fcompute) is not FunctionType or fcompute.__dict__:
        return None
    code, defaults = fcompute.__code__, fcompute.__defaults__ or ()
    fits = code.co_argcount - len(defaults) <= ndim <= code.co_argcount
    several = code.co_flags & inspect.CO_VARARGS
    return list(code.co_varnames[:ndim]) if fits and not several else None


def _given_names(parameters: Mapping[str, inspect.Parameter], ndim: int) -> list[str]:
    """Return the names of ``ndim`` axes after ``parameters``; fewer or more if they do not fit."""
    names: list[str] = []
    for p in parameters.values():
        if p.kind is inspect.Parameter.VAR_POSITIONAL:
            stem = "i" if p.name in ("_", "args", "idx", "indices") else p.name
            numbered = (f"{stem}{k}" for k in count(len(names)))
            free = (n for n in numbered if n not in parameters)
            names += list(islice(free, max(0, ndim - len(names))))
        elif p.kind is inspect.Parameter.KEYWORD_ONLY or (
            p.default is not inspect.Parameter.empty and len(names) >= ndim
        ):
            continue
        else:
            names.append(p.name)
    return names


def _operation(name: str, axes: tuple[Axis, ...], result: Any) -> ComputeOp:
    if isinstance(result, (tuple, list)):
        if not result:
            raise ComputeError(
                f"sl.compute for {name}: the lambda returns an empty tuple; return one value or "
                "more"
            )
        return ComputeOp(name, axes, tuple(_value(name, r) for r in result))
    if isinstance(result, Reduction):
        return ComputeOp(
            name,
            axes,
            result.sources,
            result.axes,
            result.reducer,
            result.where,
            result.init,
            limits=result.limits,
        )
    return ComputeOp(name, axes, (_value(name, result),))


def _value(name: str, result: Any) -> Expr:
    if result is None:
        raise ComputeTypeError(
            f"sl.compute for {name}: the lambda returns None; return the value of an element"
        )
    return settle(as_expr(result))


def check_leaves(op: ComputeOp) -> None:
    """Raise ``ComputeError`` if the body uses an axis of another operation."""
    own = {*op.axis, *op.reduce_axis}
    inner = own.difference(op.scattered)
    starts = {id(root) for root in op.init or ()}
    for root in op.roots:
        for node in postorder([root]):
            if not isinstance(node, Axis) or node in (own if id(root) in starts else inner):
                continue
            if node.is_reduce:
                why = f"it uses the reduction axis {node.name} outside a reduction over it"
                hint = f"Reduce over it: sl.sum(..., axis={node.name})."
            else:
                why = f"it uses the axis {node.name}, which belongs to another computation"
                axis_list = ", ".join(a.name for a in op.axis) or "it has none"
                hint = f"Use the axes of this computation: {axis_list}."
            raise ComputeError(explain(f"{_call_of(op)} for {op.name}", why, hint))
    data = set(op.axis)
    for value in op.init or ():
        for node in postorder([value]):
            if isinstance(node, Axis) and node not in data:
                raise ComputeError(
                    f"{_call_of(op)} for {op.name}: init= uses {node.name}, but may use only data "
                    "axes"
                )


def _call_of(op: ComputeOp) -> str:
    return "sl.compute" if op.destination is None else "sl.scatter"
