"""The sizes at which a module takes other branches than those that PyTorch exports.

PyTorch assumes that a symbolic size is 2 or more. Where ``forward`` compares such a size with 0 or
1, the exported program has one of the branches and no guard.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from schedlang.errors import FrontendError, explain
from schedlang.expr.nodes import Var
from schedlang.frontend.torch.examples import Dynamic, Examples, each_dynamic, leaves, own_sizes
from schedlang.frontend.torch.lines import line_of, line_of_call

# the least extent that PyTorch assumes for a symbolic size
_ASSUMED = 2
_RELATIONS = {
    "__eq__": "Eq", "__ne__": "Ne", "__lt__": "Lt", "__le__": "Le", "__gt__": "Gt", "__ge__": "Ge",
}  # fmt: skip
# the relation of the operand that is the result to the other one
_EXTREMES = {"__sym_max__": "Ge", "__sym_min__": "Le"}
_SQUEEZES = tuple(
    f"aten.{name}.{overload}"
    for name in ("squeeze", "squeeze_")
    for overload in ("dim", "dims", "default")
)


@dataclass(frozen=True)
class Comparison:
    """A comparison of sizes in ``forward``: PyTorch's expression, its outcome, the user's line."""

    expression: Any
    outcome: bool
    line: str


@contextmanager
def recorded_comparisons() -> Iterator[list[Comparison]]:
    """Yield a list that takes the comparisons of the user's lines in a ``with`` statement."""
    import torch

    comparisons: list[Comparison] = []
    symbolic: Any = torch.SymBool
    before = [
        (symbolic, "__bool__", symbolic.__bool__),
        *((torch.SymInt, name, getattr(torch.SymInt, name)) for name in (*_RELATIONS, *_EXTREMES)),
    ]
    try:
        for kind, name, method in before:
            recorded = _recorded(method, name, comparisons)
            # as a function of PyTorch's file: PyTorch tells errors the line of the first other file
            path = symbolic.__bool__.__code__.co_filename
            recorded.__code__ = recorded.__code__.replace(co_filename=path)
            setattr(kind, name, recorded)
        yield comparisons
    finally:
        for kind, name, method in before:
            setattr(kind, name, method)


def _recorded(method: Callable[..., Any], name: str, comparisons: list[Comparison]) -> Any:
    """Return a method of a symbolic size or bool that also adds to ``comparisons``."""
    import sympy
    import torch

    def add(expression: Any, outcome: bool, frame: Any) -> None:
        line = line_of_call(frame)
        if line:
            comparisons.append(Comparison(expression, outcome, line))

    def truth(value: Any) -> bool:
        outcome = method(value)
        add(value.node.expr, outcome, sys._getframe(1))
        return outcome

    def relation(size: Any, other: Any) -> Any:
        result = method(size, other)
        outcome = result.node.expr if isinstance(result, torch.SymBool) else None
        # to SymPy a size is positive, so that it forgets comparisons with 0
        if outcome is sympy.true or outcome is sympy.false:
            kind = getattr(sympy, _RELATIONS[name])
            compared = kind(_expression(size), _expression(other), evaluate=False)
            add(compared, bool(outcome), sys._getframe(1))
        return result

    def extreme(size: Any, other: Any) -> Any:
        result = method(size, other)
        operands, kind = (_expression(size), _expression(other)), getattr(sympy, _EXTREMES[name])
        # PyTorch knows which operand it is at each size from 2 on
        for chosen, left in (operands, operands[::-1]):
            if _expression(result) == chosen != left:
                add(kind(chosen, left, evaluate=False), True, sys._getframe(1))
        return result

    return relation if name in _RELATIONS else extreme if name in _EXTREMES else truth


def _expression(size: Any) -> Any:
    """Return PyTorch's expression of a symbolic size; a number is itself."""
    return getattr(getattr(size, "node", None), "expr", size)


def with_assumed_bounds(
    program: Any, examples: Examples, comparisons: Sequence[Comparison]
) -> Examples:
    """Return the examples, with bounds for sizes of which 0 or 1 would take another branch.

    Raises :class:`~schedlang.errors.FrontendError` where such a size is the user's own ``sl.var``.
    """
    own = own_sizes(examples)
    bounded: dict[Var, Var] = {}
    for symbol, size in _symbols(program, examples).items():
        for extent in reversed(range(size.least or 0, _ASSUMED)):
            line = _line_of_other_branch(program, symbol, extent, comparisons)
            if not line:
                continue
            if size in own:
                raise FrontendError(
                    explain(
                        f"from_torch with the symbolic size {size.name} at {line}",
                        f"{size.name} of {extent} takes another branch there, and PyTorch keeps "
                        f"the one of {_ASSUMED} or more",
                        f"Give a number as this extent of the input, and Dim({size.name!r}, "
                        f"min={extent + 1}) in dynamic_shapes.",
                    )
                )
            bounded[size] = replace(size, least=extent + 1)
            break
    if not bounded:
        return examples

    def with_bounds(dynamic: Dynamic) -> Dynamic:
        sizes = {k: bounded.get(size, size) for k, size in dynamic.sizes.items()}
        return replace(dynamic, sizes=sizes)

    return replace(examples, sizes=each_dynamic(examples.sizes, with_bounds))


def _symbols(program: Any, examples: Examples) -> dict[Any, Var]:
    """Return the size for which each of PyTorch's symbols stands."""
    specs = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    nodes = {node.name: node for node in program.graph.nodes}
    symbols: dict[Any, Var] = {}
    for spec, dynamic in zip(specs, leaves(examples.sizes)):
        if isinstance(dynamic, Dynamic):
            shape = nodes[spec.arg.name].meta["val"].shape
            for k, size in dynamic.sizes.items():
                expression = getattr(getattr(shape[k], "node", None), "expr", None)
                if expression is not None:
                    expression = expression / dynamic.factors.get(k, 1)
                    if expression.is_Symbol:
                        symbols[expression] = size
    return symbols


def _line_of_other_branch(
    program: Any, symbol: Any, extent: int, comparisons: Sequence[Comparison]
) -> str:
    """Return the user's line that does something else where ``symbol`` is ``extent``; or ""."""
    for one in comparisons:
        symbols = getattr(one.expression, "free_symbols", ())
        if symbol not in symbols:
            continue
        # a product of sizes may be 1 only where all of them are
        for sizes in ({symbol: extent}, dict.fromkeys(symbols, extent)):
            outcome = _at(one.expression, sizes)
            if outcome in (True, False) and bool(outcome) != one.outcome:
                return one.line
    for node in program.graph.nodes:
        if str(node.target) in _SQUEEZES and any(
            _at(expression, {symbol: extent}) == 1 for expression in _squeezed(node)
        ):
            return line_of(node) or str(node.target)
    return ""


def _at(expression: Any, sizes: Mapping[Any, int]) -> Any:
    """Return the value of an expression of PyTorch; ``None`` where it divides by 0, or below 0."""
    try:
        return expression.subs(sizes)
    except (AssertionError, ZeroDivisionError):
        return None


def squeezes_a_part(program: Any) -> bool:
    """Return whether a squeeze may remove an extent that sizes decide, such as ``n - 1``.

    It is 1 at a size above the bounds that :func:`with_assumed_bounds` knows.
    """
    squeezes = [node for node in program.graph.nodes if str(node.target) in _SQUEEZES]
    return any(not extent.is_Symbol for node in squeezes for extent in _squeezed(node))


def _squeezed(node: Any) -> list[Any]:
    """Return the symbolic extents that a squeeze would remove if they were 1."""
    shape = node.args[0].meta["val"].shape
    dims = node.args[1] if len(node.args) > 1 else range(len(shape))
    extents = [shape[d] for d in ([dims] if isinstance(dims, int) else dims)]
    return [extent.node.expr for extent in extents if not isinstance(extent, int)]
