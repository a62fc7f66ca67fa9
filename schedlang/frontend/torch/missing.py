"""The error for nodes of a graph that have no form here: where they are, why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.errors import FrontendError, docs_page, explain
from schedlang.frontend.torch.layers import Layer, count_occurrences, word_of
from schedlang.frontend.torch.lines import line_of

# what results depend on data: their number, or what is computed after them
_OF_DATA = ("nonzero", "masked_select", "unique_dim", "_unique2", "unique_consecutive", "bincount")
_RANDOM = ("rand", "randn", "randint", "randperm", "bernoulli", "native_dropout", "multinomial",
           "normal", "uniform", "rand_like", "randn_like", "randint_like")  # fmt: skip
# PyTorch's wrapper of an operator that does more than compute its result
_EFFECTS = "with_effects"
# the start of the names of its wrappers of operators that change their operands
_CHANGES = "auto_functionalized"
# operators that call functions by the values of a tensor, or for each row
_CONTROL_FLOW = ("cond", "while_loop", "while_loop_stack_output", "map", "map_impl", "scan",
                 "associative_scan")  # fmt: skip


def without_form(nodes: Sequence[Any], layers: Mapping[Any, Layer]) -> FrontendError:
    """Return the error for ``nodes``, the calls of a graph that have no form.

    It says why of the first one, and lists the operators of all.
    """
    # functions that torch.cond and its like are given are not operators
    calls = [node for node in nodes if node.op == "call_function"] or list(nodes)
    first = calls[0]
    names = list(count_occurrences(operator_of(node) for node in calls))
    why, hint = _reason(first)
    others = f"All operators without a form: {', '.join(names)}.\n" if len(names) > 1 else ""
    return FrontendError(explain(f"from_torch: {_place(first, layers)}", why, f"{others}{hint}"))


def _place(node: Any, layers: Mapping[Any, Layer]) -> str:
    """Return the operator of a node with its layer and its line."""
    operator, line = operator_of(node), line_of(node)
    # of these, the node has the name of a wrapper inside PyTorch
    inner = _is_wrapped(node) or _is_higher_order(node)
    named = "" if inner else f", node {node.name}"
    path = layers[node].path if node in layers else ""
    layer = f" of layer {path}" if path else ""
    return f"{operator}{named}{layer}" + (f" ({line})" if line else "")


def operator_of(node: Any) -> str:
    """Return the operator of a call as users know it: ``aten.sort.default``, ``cond``."""
    if _is_wrapped(node):
        return str(node.args[1])
    if word_of(node).startswith(_CHANGES) and node.args:
        return str(node.args[0])
    if _is_higher_order(node):
        return word_of(node).removesuffix("_impl")
    return str(node.target)


def _reason(node: Any) -> tuple[str, str]:
    """Return why a node has no form, and what to do."""
    if _is_wrapped(node):
        return (
            "it does more than compute a result, such as printing, and a network only computes",
            "Leave it out of forward.",
        )
    if _is_higher_order(node) and word_of(node) in _CONTROL_FLOW:
        return (
            "it calls functions by the values of a tensor, or for each of its rows, and a network "
            "computes the same for all values",
            "Compute both sides and choose by torch.where, or write it with operators of whole "
            "tensors.",
        )
    if getattr(getattr(node.meta.get("val"), "dtype", None), "is_complex", False):
        return (
            "it makes complex numbers, and a network computes with real numbers",
            "Keep the real and the imaginary part in tensors of their own.",
        )
    if word_of(node) in ("_local_scalar_dense", "item"):
        return (
            "it makes a number of the value of a tensor, and a network computes the same for all "
            "values",
            "Leave out .item() or float(): you can multiply, add and compare a tensor of one "
            "element like a number.",
        )
    if word_of(node) in _OF_DATA:
        return (
            "its result depends on the values of a tensor, and a network computes the same for "
            "all values",
            "Keep all elements, and choose between values: torch.where(x > 0, x, 0).",
        )
    listed = docs_page("Importers: PyTorch and ONNX")
    hint = f"Write it with operators that have a form; {listed} lists them."
    if word_of(node) in _RANDOM:
        hint = "A network draws no random numbers: call module.eval(), or pass them as an input."
    return "this operator has no form here", hint


def _is_wrapped(node: Any) -> bool:
    return word_of(node) == _EFFECTS


def _is_higher_order(node: Any) -> bool:
    """Return whether a call is given functions or operators, like PyTorch's wrappers."""
    kinds = {kind.__name__ for kind in type(node.target).__mro__}
    return "HigherOrderOperator" in kinds and not _is_wrapped(node)
