"""The derivatives of an expression by the elements that it reads, in reverse order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Union

from schedlang.compute.read import Read, reads
from schedlang.errors import ComputeError, docs_page, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Select,
    Unary,
    Var,
)
from schedlang.expr.operators import COMPARISONS
from schedlang.expr.visit import postorder, with_children
from schedlang.gradient import functions
from schedlang.gradient.algebra import (
    choose,
    conjunction,
    convert,
    divide,
    inside,
    is_number,
    label,
    negative,
    number,
    plus,
    plus_under_common_guards,
    plus_under_guards,
    times,
    within,
)
from schedlang.index.simplify import to_lin
from schedlang.language.calls import call


class Traced:
    """The adjoint of an integer: it has no value, but integer casts before it are refused."""

    def __repr__(self) -> str:
        return "TRACED"


TRACED = Traced()
# the adjoint of a value: an expression, or TRACED if the value is an integer
Flow = Union[Expr, Traced]
Leaf = Union[Read, Var]


def pullback(
    stage: str,
    roots: Sequence[tuple[Expr, Flow]],
    active: Callable[[Leaf], bool],
    held_values: Mapping[int, Expr] | None = None,
) -> list[tuple[Leaf, Flow]]:
    """Return the reads in ``roots`` that are ``active``, each with its adjoint.

    Each root comes with its own adjoint. Equal reads are one, whose adjoint is the sum over its
    uses. ``known`` has, by ``id`` of a root, an expression that holds its value. An index and the
    condition of a choice have no derivative; neither have comparisons and roundings, whose
    derivative is 0 wherever it exists.

    Raises :class:`~schedlang.errors.ComputeError`, which names ``stage``, for a conversion of a
    float that depends on an active read to an integer.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> B = sl.compute((4,), lambda i: sl.exp(A[i]) * A[i], name="B")
    >>> [(read, flow)] = pullback("B", [(B.op.body[0], number(1, "float32"))], lambda leaf: True)
    >>> read, flow
    (A[i], exp(A[i]) + A[i] * exp(A[i]))
    """
    interned = _Interner()
    interned_roots = [interned(root) for root, _ in roots]
    values = {
        id(new): held_values[id(old)]
        for new, (old, _) in zip(interned_roots, roots)
        if held_values and id(old) in held_values
    }
    order = postorder(interned_roots)
    depends = _depends(order, active)
    flows: dict[int, Flow] = {}

    def add(node: Expr, flow: Flow) -> None:
        if id(node) not in depends or (isinstance(flow, Expr) and is_number(flow, 0)):
            return
        before = flows.get(id(node))
        if isinstance(flow, Expr) and isinstance(before, Expr):
            flow = _sum_at(node)(before, flow)
        flows[id(node)] = flow

    for root, (_, flow) in zip(interned_roots, roots):
        add(root, flow)
    leaves: list[tuple[Leaf, Flow]] = []
    for node in reversed(order):
        if id(node) not in flows:
            continue
        flow = flows[id(node)]
        if isinstance(node, (Read, Var)):
            leaves.append((node, flow))
        elif isinstance(flow, Traced):
            for child in value_children(node):
                _refuse_integers(stage, node, child, depends)
                add(child, TRACED)
        else:
            for child, part in _parts(node, flow, values.get(id(node), node), depends):
                _refuse_integers(stage, node, child, depends)
                if isinstance(part, Traced) and id(child) in depends:
                    _refuse_unknown(stage, node, child)
                add(child, part)
    return leaves[::-1]


def _sum_at(node: Expr) -> Callable[[Expr, Expr], Expr]:
    """Return how the adjoints of a node from two of its uses are added."""
    if not isinstance(node, (Read, Var)):
        return plus_under_guards
    looked_up = isinstance(node, Read) and any(True for _ in reads(node.indices))
    return plus_under_common_guards if looked_up else plus


class _Interner:
    """A function that returns equal expressions as one object."""

    def __init__(self) -> None:
        self._done: dict[int, Expr] = {}
        self._known: dict[object, Expr] = {}
        self._kept: list[Expr] = []

    def __call__(self, root: Expr) -> Expr:
        # ids stay unique while the originals live
        self._kept.append(root)
        for node in postorder([root]):
            if id(node) in self._done:
                continue
            copy = with_children(node, tuple(self._done[id(c)] for c in node.children))
            key: object
            if copy.weak and copy.dtype == "int64":
                key = to_lin(copy)
            elif isinstance(copy, Read):
                key = (label(copy), *(to_lin(i) for i in copy.indices))
            else:
                key = (label(copy), *(id(c) for c in copy.children))
            self._done[id(node)] = self._known.setdefault(key, copy)
            self._kept.append(node)
        return self._done[id(root)]


def value_children(node: Expr) -> tuple[Expr, ...]:
    """Return the children that the value of ``node`` follows by more than steps."""
    if isinstance(node, Read) or node.dtype == "bool":
        return ()
    if isinstance(node, Select):
        return (node.a, node.b)
    if isinstance(node, Cast) and node.a.dtype == "bool":
        return ()
    return node.children


def _depends(order: Sequence[Expr], active: Callable[[Leaf], bool]) -> set[int]:
    """Return the ``id`` of each node whose value depends on an active leaf."""
    dependent: set[int] = set()
    for node in order:
        if isinstance(node, (Read, Var)):
            if active(node):
                dependent.add(id(node))
        elif any(id(child) in dependent for child in value_children(node)):
            dependent.add(id(node))
    return dependent


def _refuse_integers(stage: str, node: Expr, child: Expr, depends: set[int]) -> None:
    """Raise if ``node`` makes an integer of the float ``child``, which depends on an input."""
    if id(child) not in depends or not dtypes.is_float(child.dtype):
        return
    if dtypes.is_float(node.dtype):
        return
    if dtypes.is_complex(node.dtype):
        raise ComputeError(
            explain(
                f"sl.gradient through stage {stage}",
                f"it computes with {child} as {node.dtype}, and gradients of complex numbers are "
                "not derived",
                "Compute with the real and the imaginary parts as two float tensors, or give the "
                f"derivative of the stage: sl.gradient(..., rules={{{stage}: ...}}).",
            )
        )
    raise ComputeError(
        explain(
            f"sl.gradient through stage {stage}",
            f"it converts {child} to {node.dtype}, and a conversion to integers has no derivative",
            f"If the derivative is meant to be 0, round without a conversion: sl.trunc({child}). "
            f"If {stage} is meant to be a constant, or to have another derivative, say so: "
            f"sl.gradient(..., rules={{{stage}: None}}) or a function "
            f"(see {docs_page('Gradients')}).",
        )
    )


def _refuse_unknown(stage: str, node: Expr, child: Expr) -> None:
    """Raise if ``node`` is a function of a float whose derivative is not known."""
    if dtypes.is_float(child.dtype):
        raise ComputeError(
            explain(
                f"sl.gradient through stage {stage}",
                f"the derivative of {node} is not known",
                f"Write it with other functions, or give the derivative of {stage}: "
                f"sl.gradient(..., rules={{{stage}: ...}}).",
            )
        )


def _parts(node: Expr, flow: Expr, value: Expr, depends: set[int]) -> Iterator[tuple[Expr, Flow]]:
    """Yield the children of ``node`` that may have an adjoint, each with its part.

    ``value`` is an expression of the value of ``node``. ``depends`` has the ``id`` of each node
    that depends on an active leaf.
    """
    if isinstance(node, Binary):
        yield from _of_binary(node, flow, value)
    elif isinstance(node, Unary):
        yield node.a, negative(flow)
    elif isinstance(node, Cast):
        if dtypes.is_float(node.a.dtype):
            yield node.a, convert(flow, node.a.dtype)
        elif node.a.dtype != "bool":
            yield node.a, TRACED
    elif isinstance(node, Select):
        yield node.a, within(flow, node.cond, True, node.lazy)
        yield node.b, within(flow, node.cond, False, node.lazy)
    elif isinstance(node, Call):
        yield from _of_call(node, flow, value, depends)


def _of_binary(node: Binary, flow: Expr, value: Expr) -> Iterator[tuple[Expr, Flow]]:
    a, b, op = node.a, node.b, node.op
    if op == "+":
        yield a, flow
        yield b, flow
    elif op == "-":
        yield a, flow
        yield b, negative(flow)
    elif op == "*":
        yield a, times(flow, b)
        yield b, times(flow, a)
    elif op == "/":
        yield a, divide(flow, b)
        yield b, negative(divide(times(flow, value), b))
    elif op == "**":
        yield from _of_power(node, flow, value)
    elif op == "%":
        yield a, flow
        yield b, negative(times(flow, Binary("//", a, b, node.dtype)))
    elif op not in ("//", *COMPARISONS):
        raise AssertionError(f"no derivative of {op}")


def _of_power(node: Binary, flow: Expr, value: Expr) -> Iterator[tuple[Expr, Flow]]:
    """Yield the parts of a power; at a base of 0 the limits from above, as in torch."""
    base, power, dtype = node.a, node.b, node.dtype
    if isinstance(power, Const):
        p = float(power.value)
        if p:
            rest = base if p == 2 else number(1, dtype)
            if p not in (1, 2):
                rest = Binary("**", base, number(p - 1, dtype), dtype)
            yield base, times(flow, times(rest, number(p, dtype)))
        return
    lower = Binary("**", base, Binary("-", power, number(1, dtype), dtype), dtype)
    zero = number(0, dtype)
    no_base = Binary("==", base, zero, "bool")
    # elsewhere, a power of 0 has the derivative 0 by the formula, whose own one is not 0
    neither = Binary("&", no_base, Binary("==", power, zero, "bool"), "bool")
    for child, is_zero, by in (
        (base, neither, times(power, lower)),
        (power, no_base, times(value, call("log", base))),
    ):

        def part(own: Expr, is_zero: Expr = is_zero, by: Expr = by) -> Expr:
            return choose(is_zero, zero, times(own, by), False)

        yield child, inside(flow, part)


def _of_call(node: Call, flow: Expr, value: Expr, depends: set[int]) -> Iterator[tuple[Expr, Flow]]:
    if node.fn in functions.FLAT:
        return
    if node.fn in ("min", "max"):
        yield from _of_extreme(node, flow, depends)
    elif node.fn == "abs":
        yield node.args[0], inside(flow, lambda own: _of_abs(node, own))
    elif node.fn == "atan2":
        yield from _of_angle(node, flow, value)
    elif node.fn not in functions.DIFFERENTIABLE:
        # such as a float of an integer's bits
        yield from ((argument, TRACED) for argument in node.args)
    else:
        for place, argument in enumerate(node.args):
            by = functions.derivative(node.fn, place, node.args, value)
            yield argument, times(flow, by)


def _of_angle(node: Call, flow: Expr, value: Expr) -> Iterator[tuple[Expr, Flow]]:
    """Yield the parts of the angle of a point; at the origin they are 0, as in torch."""
    zero = number(0, node.dtype)
    both_zero = conjunction(Binary("==", a, zero, "bool") for a in node.args)
    assert both_zero is not None
    for place, argument in enumerate(node.args):
        by = functions.derivative(node.fn, place, node.args, value)

        def part(own: Expr, by: Expr = by) -> Expr:
            return choose(both_zero, zero, times(own, by), False)

        yield argument, inside(flow, part)


def _of_extreme(node: Call, flow: Expr, depends: set[int]) -> Iterator[tuple[Expr, Flow]]:
    """Yield the parts of a minimum or maximum of two.

    Equal operands get half each, as in torch and JAX. A constant has no derivative, and where the
    other operand equals it, that one has none either: relu has the derivative 0 at 0.
    """
    none, op = number(0, node.dtype), ">" if node.fn == "max" else "<"
    for one, other in (node.args, node.args[::-1]):
        shares = id(other) in depends or not _is_constant(other)

        def part(own: Expr, a: Expr = one, b: Expr = other, shares: bool = shares) -> Expr:
            tied: Expr = none
            if shares:
                half = times(own, number(0.5, node.dtype))
                tied = choose(Binary("==", a, b, "bool"), half, none, False)
            return choose(Binary(op, a, b, "bool"), own, tied, False)

        yield one, inside(flow, part)


def _of_abs(node: Call, flow: Expr) -> Expr:
    (a,), none = node.args, number(0, node.dtype)
    below = choose(Binary("<", a, none, "bool"), negative(flow), none, False)
    return choose(Binary(">", a, none, "bool"), flow, below, False)


def _is_constant(value: Expr) -> bool:
    return not any(isinstance(node, Read) for node in postorder([value]))
