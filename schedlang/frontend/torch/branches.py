"""The sizes at which a module takes other branches than those that PyTorch exports.

PyTorch assumes that a symbolic size is 2 or more. Where ``forward`` compares such a size with 1,
the exported program has one of the branches and no guard.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from schedlang.errors import FrontendError, explain
from schedlang.expr.nodes import Var
from schedlang.frontend.torch.examples import Dynamic, Examples, leaves, rebuilt
from schedlang.frontend.torch.lines import line_of, line_of_call

# the least extent that PyTorch assumes for a symbolic size
_ASSUMED = 2
_SQUEEZES = ("aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default")


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
    evaluate = symbolic.__bool__

    def recorded(value: Any) -> bool:
        outcome = evaluate(value)
        line = line_of_call(sys._getframe(1))
        if line:
            comparisons.append(Comparison(value.node.expr, outcome, line))
        return outcome

    # as a function of PyTorch's file: PyTorch tells errors the line of the first other file
    recorded.__code__ = recorded.__code__.replace(co_filename=evaluate.__code__.co_filename)
    symbolic.__bool__ = recorded
    try:
        yield comparisons
    finally:
        symbolic.__bool__ = evaluate


def with_assumed_bounds(
    program: Any, examples: Examples, comparisons: Sequence[Comparison]
) -> Examples:
    """Return the examples, with bounds for sizes at which 1 would take another branch.

    Raises :class:`~schedlang.errors.FrontendError` where such a size is the user's own ``sl.var``.
    """
    symbols = _symbols(program, examples)
    lines: dict[Var, str] = {}
    for symbol, size in symbols.items():
        if (size.least or 0) < _ASSUMED:
            line = _line_of_other_branch(program, symbol, comparisons)
            if line:
                lines[size] = line
    if not lines:
        return examples
    own = {size for tensor in examples.declared.values() for size in tensor.shape}
    for size, line in lines.items():
        if size in own:
            raise FrontendError(
                explain(
                    f"from_torch with the symbolic size {size.name} at {line}",
                    f"{size.name} of 1 takes another branch there, and PyTorch keeps the one of "
                    f"{_ASSUMED} or more",
                    f"Give a number as this extent of the input, and Dim({size.name!r}, "
                    f"min={_ASSUMED}) in dynamic_shapes.",
                )
            )
    bounded = {size: replace(size, least=_ASSUMED) for size in lines}
    return replace(examples, sizes=_bounded(examples.sizes, bounded))


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
                if expression is not None and expression.is_Symbol:
                    symbols[expression] = size
    return symbols


def _line_of_other_branch(program: Any, symbol: Any, comparisons: Sequence[Comparison]) -> str:
    """Return the user's line that does something else where ``symbol`` is 1; "" without one."""
    for one in comparisons:
        outcome = getattr(one.expression, "subs", lambda *_: None)({symbol: 1})
        if outcome in (True, False) and bool(outcome) != one.outcome:
            return one.line
    for node in program.graph.nodes:
        if str(node.target) in _SQUEEZES and any(
            expression.subs({symbol: 1}) == 1 for expression in _squeezed(node)
        ):
            return line_of(node) or str(node.target)
    return ""


def _squeezed(node: Any) -> list[Any]:
    """Return the symbolic extents that a squeeze would remove if they were 1."""
    shape = node.args[0].meta["val"].shape
    dims = node.args[1] if len(node.args) > 1 else range(len(shape))
    extents = [shape[d] for d in ([dims] if isinstance(dims, int) else dims)]
    return [extent.node.expr for extent in extents if not isinstance(extent, int)]


def _bounded(sizes: Any, bounded: Mapping[Var, Var]) -> Any:
    """Return sizes in their containers, with others in place of some."""
    if isinstance(sizes, (tuple, list)):
        return rebuilt(sizes, [_bounded(part, bounded) for part in sizes])
    if isinstance(sizes, Mapping):
        return {key: _bounded(part, bounded) for key, part in sizes.items()}
    if not isinstance(sizes, Dynamic):
        return sizes
    return replace(sizes, sizes={k: bounded.get(size, size) for k, size in sizes.sizes.items()})
