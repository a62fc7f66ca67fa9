"""Warnings of dtypes that a user hardly wants: float64 by Python floats, products that wrap."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

from schedlang.compute.graph import operations, variables
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from schedlang.errors import PrecisionWarning, explain, warn_user
from schedlang.expr import dtypes
from schedlang.expr.nodes import Binary, Cast, Const, Expr
from schedlang.expr.visit import postorder, with_children

_warned: WeakSet[Operation] = WeakSet()


def warn_of_float64(outputs: Sequence[Tensor]) -> None:
    """Warn, once for a computation, if it uses float64 while no input or output is float64.

    By NumPy's rule an integer array times a Python float is float64, and so is ``uint8 * 0.299``
    here. A vector then has half as many lanes as with float32.
    """
    culprit = first_widening(outputs)
    if culprit is None or culprit[0] in _warned:
        return
    op, node = culprit
    warn_user(
        explain(
            f"{op.name} computes {_as_written(node)} in float64",
            "integers with Python floats give float64, as in NumPy, but no input or output is "
            "float64, and a vector holds only half as many float64 elements as float32",
            f"For float32 write {_narrower(node)}; for float64 {_narrower(node, 'float64')}.",
        ),
        PrecisionWarning,
    )
    # only now: a warning that the user turned into an error must come again
    _warned.add(op)


def warn_of_narrow_products(operand: Expr, dtype: str) -> None:
    """Warn of a product of small integers that wraps before its sum, which is wider, is taken.

    The sum's dtype does not reach into its operand, as in NumPy's ``np.sum(a * b, dtype=...)``.
    """
    narrow = operand.dtype
    if not (isinstance(operand, Binary) and operand.op == "*" and dtypes.is_integer(narrow)):
        return
    if dtypes.itemsize(narrow) > 2 or dtypes.itemsize(dtype) <= dtypes.itemsize(narrow):
        return
    factors = [_plain(c) for c in operand.children]
    wide = (str(c) if isinstance(c, Const) else f'{_called(c)}.astype("{dtype}")' for c in factors)
    warn_user(
        explain(
            f"the sum of {_as_written(operand)} is in {dtype}, its products are in {narrow}",
            f"a product over {dtypes.limits(narrow)[1]} wraps before it is added, as in NumPy",
            f"Write {' * '.join(wide)}.",
        ),
        PrecisionWarning,
    )


def first_widening(outputs: Sequence[Tensor]) -> tuple[ComputeOp, Expr] | None:
    """Return the first expression that turned integers into float64, and its operation.

    Return ``None`` if there is none, or if an input or output is float64.
    """
    order = operations(outputs)
    computed = [op for op in order if isinstance(op, ComputeOp)]
    culprit = next(((op, n) for op in computed for n in postorder(op.roots) if n.widened), None)
    if culprit is None:
        return None
    dtypes_of_ends = [op.dtype for op in order if isinstance(op, PlaceholderOp)]
    dtypes_of_ends += [t.dtype for t in outputs] + [v.dtype for v in variables(outputs)]
    return None if "float64" in dtypes_of_ends else culprit


def _narrower(node: Expr, dtype: str = "float32") -> str:
    """Return source for ``node`` that asks for ``dtype``."""
    if not isinstance(node, Binary):
        operand = next((c for c in map(_plain, node.children) if not isinstance(c, Const)), node)
        return f'{_called(operand)}.astype("{dtype}") instead of {operand}'
    a, b = _plain(node.a), _plain(node.b)
    number = next((c for c in (a, b) if isinstance(c, Const)), None)
    other = b if number is a else a
    if number is not None and node.op != "/":
        kinds = dtypes.promote(other.dtype, False, dtype, False)
        if kinds[0] == dtype:
            typed = f'sl.const({number}, "{dtype}")'
            pair = (typed, str(b)) if number is a else (str(a), typed)
            return f"{pair[0]} {node.op} {pair[1]}"
    typed = f'{_called(other)}.astype("{dtype}")'
    return f"{typed} {node.op} {b}" if other is a else f"{a} {node.op} {typed}"


def _plain(operand: Expr) -> Expr:
    """Return an operand without the conversion that the operation applied to it."""
    return operand.a if isinstance(operand, Cast) else operand


def _as_written(node: Expr) -> Expr:
    """Return ``node`` without the conversions of its operands."""
    return with_children(node, tuple(map(_plain, node.children)))


def _called(value: Expr) -> str:
    return str(value) if isinstance(value, Read) else f"({value})"
