"""Advice on a refused call: passed sizes, another order or batch, scans that are too short."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from schedlang.compute.argument_order import fit_in_another_order
from schedlang.compute.arrays import as_numpy
from schedlang.compute.graph import operations
from schedlang.compute.tensor import ScanOp, Tensor
from schedlang.errors import CallError, CallTypeError, SchedlangError
from schedlang.expr.nodes import Var
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.index.terms import terms_of
from schedlang.ir.size_conditions import SizeCondition
from schedlang.runtime.parameters import Binder, Signature, scalar

# what a network is given, so that its calls take any batch
_ANY_BATCH = (
    'To take any batch, build the network with a size: from_torch(..., batch="n"), '
    'from_onnx(..., shapes={name of the dimension: sl.var("n")}), or sl.var("n") in the shape of a '
    "placeholder."
)


def advice(
    binder: Binder, args: Sequence[Any], named: Mapping[str, Any], view: Callable[..., Any]
) -> str:
    """Return what to change in a call that ``binder`` refused; ``""`` if nothing is known.

    ``view`` returns an argument as an array, or raises an error.
    """
    text = _sizes(binder.signature, args, named)
    if not text and not named:
        text = _order(binder, args, view)
    if not text and binder.what == "network":
        text = _batch(binder, args, named, view)
    if not text and binder.what == "kernel":
        text = _copies(binder, args, named)
    return text


def _copies(binder: Binder, args: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Return advice if the call passes a strided array of the host."""
    for value in (*args, *named.values()):
        try:
            array = as_numpy(value, "an argument")
        except SchedlangError:
            # an array of a GPU, or no array
            continue
        if not array.flags.c_contiguous:
            return "Or call f.accepting_copies() of this kernel f, which copies such arrays."
    return ""


def _sizes(signature: Signature, args: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Return advice if the call passes a size that is found from shapes."""
    parameters = signature.parameters
    parameter_names = {p.name for p in parameters}
    sizes = [n for n in signature.sizes if n not in parameter_names]
    numbers = [v for v in args if isinstance(v, (Real, Var))]
    surplus = len(numbers) > sum(p.is_scalar for p in parameters)
    surplus = surplus and any(isinstance(v, (Integral, Var)) for v in numbers)
    if not sizes or not (surplus or any(n in named for n in sizes)):
        return ""
    which = "The size" if len(sizes) == 1 else "The sizes"
    verb, passed = ("is found", "is not") if len(sizes) == 1 else ("are found", "are not")
    return (
        f"{which} {', '.join(sizes)} {verb} from the shapes of the arrays and {passed} passed: "
        f"the kernel takes {', '.join(p.name for p in parameters)}."
    )


def _order(binder: Binder, args: Sequence[Any], view: Callable[..., Any]) -> str:
    """Return advice if the arguments fit in another order."""
    try:
        values = binder.order(args, {})
    except CallTypeError:
        return ""
    slots = [k for k, value in enumerate(values) if value is not None]
    arguments = [(values[k], _viewed(values[k], view)) for k in slots]
    if not fit_in_another_order(
        len(slots), lambda order: _fits(binder, slots, [arguments[k] for k in order])
    ):
        return ""
    names = ", ".join(binder.signature.parameters[k].name for k in slots)
    return f"The arguments fit in another order: the kernel takes {names}, in that order."


def _batch(
    binder: Binder, args: Sequence[Any], named: Mapping[str, Any], view: Callable[..., Any]
) -> str:
    """Return advice if all inputs fit but for their first extents, one number in place of another.

    A network whose input has only one dimension has no batch.
    """
    try:
        values = binder.order(args, named)
    except CallTypeError:
        return ""
    expected, actual, most = set[int](), set[int](), 0
    for k, (p, value) in enumerate(zip(binder.signature.parameters, values)):
        if p.is_output or p.is_scalar:
            continue
        array = _viewed(value, view)
        if array is None or array.dtype != binder.needed[k].dtype or array.ndim != len(p.shape):
            return ""
        wrong = [d for d, e in enumerate(p.shape) if isinstance(e, int) and e != array.shape[d]]
        if wrong not in ([], [0]):
            return ""
        if p.shape and isinstance(p.shape[0], int):
            expected.add(p.shape[0])
            actual.add(array.shape[0])
            most = max(most, array.ndim)
    other = len(expected) == len(actual) == 1 and expected != actual
    return _ANY_BATCH if other and most > 1 else ""


def _viewed(value: Any, view: Callable[..., Any]) -> Any:
    """Return ``value`` as an array; ``None`` if it is none."""
    try:
        return view(value, "", False)
    except SchedlangError:
        return None


def _fits(binder: Binder, slots: Sequence[int], given: Sequence[tuple[Any, Any]]) -> bool:
    """Return whether the arguments, each with its array, fit the parameters at ``slots``."""
    parameters = binder.signature.parameters
    bound: list[Any] = [None] * len(parameters)
    try:
        for k, (value, array) in zip(slots, given):
            if parameters[k].is_scalar:
                bound[k] = scalar(value, parameters[k].dtype, "")
                continue
            if array is None:
                return False
            binder.check(k, array, value)
            bound[k] = array
        sizes = binder.sizes(bound) if binder.symbolic else {}
        binder.check_derived(bound, sizes)
    except (CallError, CallTypeError):
        return False
    return True


def short_scans(outputs: Sequence[Tensor]) -> list[SizeCondition]:
    """Return the sizes at which a scan behind ``outputs`` has too few rows, with advice."""
    conditions = []
    for op in operations(outputs):
        steps = to_lin(op.scan_axis.extent) if isinstance(op, ScanOp) else Lin.of(0)
        if not isinstance(op, ScanOp) or steps.const is not None:
            continue
        init, length = op.init[0], op.state[0].shape[0]
        advised = f"\n  Choose sizes for which {length} is at least {init.shape[0]}."
        rows = terms_of(to_lin(length))
        for one in (True, False):
            why = (
                f"scan {op.name} would have ",
                rows,
                f" row{'s' * (not one)}, but its init {init.name} has {init.shape[0]}{advised}",
            )
            only = (rows, terms_of(-to_lin(length) + 2)) if one else ()
            conditions.append(SizeCondition((terms_of(-steps), *only), why))
    return conditions
