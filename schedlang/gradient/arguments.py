"""The checks of what ``gradient`` is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.compute.graph import step_operations
from schedlang.compute.tensor import Operation, ScanOp, Tensor, shape_text, short_text
from schedlang.compute.whole import refuse_functions, refuse_traced
from schedlang.errors import ComputeError, ComputeTypeError, explain, text_of
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr, Var
from schedlang.index.simplify import to_lin


def check_sources(xs: Any) -> list[Tensor]:
    """Return the tensors to differentiate by as a list."""
    items = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    refuse_traced("sl.gradient", *items)
    refuse_functions("sl.gradient", *items)
    for item in items:
        if isinstance(item, Var) or (isinstance(item, Expr) and not isinstance(item, Tensor)):
            raise ComputeTypeError(
                explain(
                    f"sl.gradient(..., {item})",
                    f"{item} is a scalar or an element, and gradients are by whole tensors",
                    "Make a scalar argument a tensor of no dimensions: "
                    f'sl.placeholder((), name="{item}"), read as {item}[()].',
                )
            )
        if not isinstance(item, Tensor):
            raise ComputeTypeError(
                f"sl.gradient(..., {text_of(item)}): give a tensor, or a list of tensors, made by "
                "sl.placeholder, sl.compute or sl.scan"
            )
        _check_float(item, "a gradient by it")
    return items


def check_result(y: Any) -> None:
    """Raise unless ``y`` is a tensor of floats."""
    refuse_traced("sl.gradient", y)
    refuse_functions("sl.gradient", y)
    if isinstance(y, Expr):
        text = short_text(y)
        raise ComputeTypeError(
            explain(
                f"sl.gradient({text}, ...)",
                "it is an expression, and gradients are of tensors",
                f'Make it a tensor of no dimensions: loss = sl.named("loss", {text}), and '
                "sl.gradient(loss, ...).",
            )
        )
    if not isinstance(y, Tensor):
        raise ComputeTypeError(
            f"sl.gradient({text_of(y)}, ...): give the tensor to differentiate, made by sl.compute "
            "or sl.scan"
        )
    _check_float(y, "its gradient")


def _check_float(tensor: Tensor, what: str) -> None:
    if dtypes.is_complex(tensor.dtype):
        raise ComputeTypeError(
            explain(
                f"sl.gradient: tensor {tensor.name} is {tensor.dtype}",
                "gradients of complex numbers are not derived",
                "Compute with the real and the imaginary parts as two float tensors.",
            )
        )
    if not dtypes.is_float(tensor.dtype):
        raise ComputeTypeError(
            explain(
                f"sl.gradient: tensor {tensor.name} is {tensor.dtype}",
                f"{what} would be between integers",
                f"Make {tensor.name} float32 or float64.",
            )
        )


def check_head(y: Tensor, head: Any) -> None:
    """Raise unless ``head`` fits ``y``, or is left out for one element."""
    shape = [to_lin(n) for n in y.shape]
    if head is None:
        if any(n.const != 1 for n in shape):
            raise ComputeError(
                explain(
                    f"sl.gradient({y.name}, ...)",
                    f"{y.name} has the shape {shape_text(y.shape)}, and without a head it must be "
                    "one element",
                    f"Give the gradient of the loss by {y.name}: head="
                    f'sl.placeholder({shape_text(y.shape)}, "{y.dtype}", name="{y.name}_grad"). '
                    f"Or reduce {y.name} to one number, such as a sum.",
                )
            )
        return
    if not isinstance(head, Tensor):
        raise ComputeTypeError(
            f"sl.gradient({y.name}, ..., head={text_of(head)}): give a tensor of the shape of "
            f'{y.name}, such as sl.placeholder({shape_text(y.shape)}, "{y.dtype}", name="head")'
        )
    if [to_lin(n) for n in head.shape] != shape:
        raise ComputeError(
            f"sl.gradient({y.name}, ..., head={head.name}): {head.name} has the shape "
            f"{shape_text(head.shape)}, but {y.name} has {shape_text(y.shape)}; give both the same "
            "shape"
        )
    if head.dtype != y.dtype:
        raise ComputeTypeError(
            f"sl.gradient({y.name}, ..., head={head.name}): {head.name} is {head.dtype}, but "
            f"{y.name} is {y.dtype}; give both the same dtype"
        )


def steps_of(scan: ScanOp) -> list[Operation]:
    """Return the operations that a scan evaluates row by row."""
    return [*step_operations(scan), *(update.op for update in scan.update)]


def check_reached(
    y: Tensor,
    xs: Sequence[Tensor],
    rules: Mapping[Tensor, Any],
    order: Sequence[Operation],
    scans: Sequence[ScanOp],
    differentiated: Sequence[Operation] = (),
) -> None:
    """Raise for one of ``xs`` or ``rules`` that has no gradient in the computation of ``y``.

    ``order`` are all operations of ``y``, ``scans`` the recurrences among them, and
    ``differentiated`` the operations that have derivatives among them.
    """
    reached = set(order)
    for tensor in (*xs, *rules):
        scan = next((s for s in scans if tensor in s.state or tensor.op in steps_of(s)), None)
        if scan is not None:
            raise ComputeError(
                explain(
                    f"sl.gradient({y.name}, ...) with {tensor.name}",
                    f"{tensor.name} is a part of scan {scan.name} and exists only for the row that "
                    "is being computed",
                    f"Name the result of the scan, {scan.outputs[0].name}, or what its steps read.",
                )
            )
    for rule in rules:
        if rule.op not in reached:
            raise ComputeError(
                f"sl.gradient({y.name}, ..., rules={{{rule.name}: ...}}): {y.name} does not depend "
                f"on {rule.name}; leave out the rule"
            )
    reached.update(differentiated)
    for x in xs:
        if x.op not in reached:
            inputs = ", ".join(dict.fromkeys(op.name for op in order if not op.input_tensors))
            raise ComputeError(
                explain(
                    f"sl.gradient({y.name}, {x.name})",
                    f"{y.name} does not depend on {x.name}, so every derivative is 0",
                    f"Leave {x.name} out. {y.name} depends on {inputs or 'no input'}.",
                )
            )


def check_rules(rules: Any) -> Mapping[Tensor, Any]:
    """Return ``rules`` as a mapping from tensors to functions and ``None``."""
    if rules is None:
        return {}
    if not isinstance(rules, Mapping):
        raise ComputeTypeError(
            f"sl.gradient(..., rules={text_of(rules)}): give a dict from tensors to functions, or "
            "to "
            "None for a constant"
        )
    for tensor, rule in rules.items():
        if not isinstance(tensor, Tensor):
            raise ComputeTypeError(
                f"sl.gradient(..., rules={{{tensor!r}: ...}}): a rule belongs to a tensor"
            )
        if rule is not None and not callable(rule):
            raise ComputeTypeError(
                f"sl.gradient(..., rules={{{tensor.name}: {rule!r}}}): give a function of the "
                f"gradient of {tensor.name}, which returns the gradients of what it reads by "
                "tensor, or None"
            )
    return rules
