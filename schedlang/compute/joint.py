"""Several reductions over the same axes as one: one loop, several outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from schedlang.compute.read import Read
from schedlang.compute.reduce import Reduction
from schedlang.compute.reducer import Part, Reducer
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import ComputeError, explain
from schedlang.expr.nodes import Axis, Const, Expr, Var
from schedlang.expr.visit import postorder, rewrite


def join(name: str, results: Sequence[Any]) -> Reduction:
    """Return ``results``, the reductions that the lambda of stage ``name`` returns, as one.

    Its values are those that the user sees, in order, and then the extreme values of ``argmin`` and
    ``argmax``. A reduction without ``init=`` starts from its identity.

    Raises :class:`~schedlang.errors.ComputeError` if a result is not a reduction, or if two have
    different axes or conditions.
    """
    first = results[0]
    for result in results:
        if not isinstance(result, Reduction):
            raise _mixed(name, results)
    for other in results[1:]:
        _check_axes(name, first, other)
        _check_where(name, first, other)
    places = _places(results)
    count = sum(map(len, places))
    sources: list[Any] = [None] * count
    starts: list[Any] = [None] * count
    for result, own in zip(results, places):
        start = result.reducer.identity if result.init is None else result.init
        for place, source, value in zip(own, result.sources, start):
            sources[place], starts[place] = source, value
    init = None if all(r.init is None for r in results) else tuple(starts)
    reducer = joint([Part(r.reducer, own, r.visible) for r, own in zip(results, places)])
    visible = sum(r.visible for r in results)
    return Reduction(reducer, tuple(sources), first.axes, first.where, init, visible, first.limits)


def joint(parts: Sequence[Part]) -> Reducer:
    """Return the reducer that applies each of ``parts`` to its own values.

    >>> from schedlang.compute.reduce import simple
    >>> both = joint([Part(simple("sum", "float32"), (0,)), Part(simple("max", "int8"), (1,))])
    >>> both.name, [v.dtype for v in both.lhs], [c.value for c in both.identity]
    ('sum_max', ['float32', 'int8'], [0.0, -128])
    """
    count = sum(len(part.places) for part in parts)
    lhs: list[Any] = [None] * count
    rhs: list[Any] = [None] * count
    result: list[Any] = [None] * count
    identity: list[Any] = [None] * count
    for part in parts:
        own, swap = part.reducer, {}
        for place, x, y, unit in zip(part.places, own.lhs, own.rhs, own.identity):
            # two parts may be one reduction, whose operands would be the same
            swap[x] = lhs[place] = Var(f"x{place}", x.dtype, weak=False)
            swap[y] = rhs[place] = Var(f"y{place}", y.dtype, weak=False)
            identity[place] = unit
        memo: dict[int, Expr] = {}
        for place, value in zip(part.places, own.result):
            result[place] = rewrite(value, lambda n, s=swap: s.get(n), memo)  # type: ignore[misc]
    each = [part.reducer for part in parts]
    return Reducer(
        "_".join(r.name for r in each),
        tuple(lhs),
        tuple(rhs),
        tuple(result),
        tuple(identity),
        vouched=all(r.vouched for r in each),
        ties=next((r.ties for r in each if r.ties), ""),
        identity_ties=next((r.identity_ties for r in each if r.identity_ties), ""),
        restarts=next((r.restarts for r in each if r.restarts), ""),
        parts=tuple(parts),
    )


def alone(op: ComputeOp, part: Part) -> ComputeOp:
    """Return the operation that computes only one ``part`` of the reducer of ``op``.

    A start that is the identity is left out.
    """
    body = tuple(op.body[k] for k in part.places)
    outputs = tuple(op.outputs[k] for k in part.places)
    init = None if op.init is None else tuple(op.init[k] for k in part.places)
    if init is not None and all(v is unit for v, unit in zip(init, part.reducer.identity)):
        init = None
    return replace(op, body=body, reducer=part.reducer, init=init, outputs=outputs)


def shown_outputs(op: ComputeOp) -> tuple[Tensor, ...]:
    """Return the outputs that the user sees: argmin and argmax hide the extreme value."""
    if op.reducer is not None and op.reducer.parts:
        return op.outputs[: sum(part.visible for part in op.reducer.parts)]
    selecting = op.reducer is not None and op.reducer.name in ("argmin", "argmax")
    return op.outputs[:1] if selecting and len(op.outputs) == 2 else op.outputs


def _places(results: Sequence[Reduction]) -> list[tuple[int, ...]]:
    """Return the positions of each reduction's values: first those that the user sees, in order."""
    visible, hidden = 0, sum(r.visible for r in results)
    places = []
    for result in results:
        more = len(result.sources) - result.visible
        own = (*range(visible, visible + result.visible), *range(hidden, hidden + more))
        visible, hidden = visible + result.visible, hidden + more
        places.append(own)
    return places


def _mixed(name: str, results: Sequence[Any]) -> ComputeError:
    number, other = next((k, r) for k, r in enumerate(results) if not isinstance(r, Reduction))
    text = f", {other}," if isinstance(other, Expr) and len(str(other)) <= 40 else ""
    return ComputeError(
        explain(
            f"sl.compute for {name}",
            f"the lambda returns reductions, but value {number}{text} is none, and the loop of a "
            "reduction computes only reductions",
            "Compute that value in a stage of its own; the two stages may share loops by "
            "compute_at.",
        )
    )


def _check_axes(name: str, first: Reduction, other: Reduction) -> None:
    same = set(first.axes) == set(other.axes)
    if same and (first.axes == other.axes or not (first.reducer.ties or other.reducer.ties)):
        return
    names = [", ".join(a.name for a in r.axes) for r in (first, other)]
    why = f"sl.{first.reducer.name} is over {names[0]}, but sl.{other.reducer.name} over "
    why += f"another axis named {names[1]}" if names[0] == names[1] else names[1]
    why += ", and reductions of one lambda share their loops"
    hint = "Pass the same axes to each, or compute each in a stage of its own."
    if same:
        why += ", whose order decides which of equal values wins"
        hint = f"Give both the axes in one order: axis=[{names[0]}]."
    raise ComputeError(explain(f"sl.compute for {name}", why, hint))


def _check_where(name: str, first: Reduction, other: Reduction) -> None:
    if first.where is None and other.where is None:
        return
    if first.where is not None and other.where is not None and equal(first.where, other.where):
        return
    texts = [
        f"sl.{r.reducer.name} {'has no where=' if r.where is None else f'has where={r.where}'}"
        for r in (first, other)
    ]
    neutral = {"sum": "0", "prod": "1"}
    hint = "Give all reductions of one lambda the same where="
    conditional = next(
        (r for r in (other, first) if r.where is not None and r.reducer.name in neutral), None
    )
    if conditional is not None:
        unit = neutral[conditional.reducer.name]
        hint += f", or fold it into the value: sl.select({conditional.where}, ..., {unit})"
    raise ComputeError(
        explain(
            f"sl.compute for {name}",
            f"{texts[0]}, but {texts[1]}; reductions that share a loop leave out the same elements",
            f"{hint}. Or compute each in a stage of its own.",
        )
    )


def equal(a: Expr, b: Expr) -> bool:
    """Return whether two expressions are written alike, over the same axes, sizes and tensors.

    >>> from schedlang.compute.tensor import placeholder
    >>> A, i, j = placeholder((4,), name="A"), Axis("i", 4), Axis("i", 4)
    >>> equal(A[i] > 0, A[i] > 0), equal(A[i] > 0, A[j] > 0)
    (True, False)
    """
    numbers: dict[Any, int] = {}
    return number_nodes(a, numbers)[id(a)] == number_nodes(b, numbers)[id(b)]


def number_nodes(root: Expr, numbers: dict[Any, int]) -> dict[int, int]:
    """Return a number of each node below ``root`` by its id, the same for those written alike.

    ``numbers`` has the numbers of earlier expressions; new ones are added.
    """
    number_of: dict[int, int] = {}
    for node in postorder([root]):
        key = (_head(node), *(number_of[id(child)] for child in node.children))
        number_of[id(node)] = numbers.setdefault(key, len(numbers))
    return number_of


def _head(node: Expr) -> Any:
    """Return what tells a node from others with the same children."""
    if isinstance(node, (Axis, Var)):
        return node
    if isinstance(node, Read):
        return node.tensor.op, node.tensor.value_index
    if isinstance(node, Const):
        return repr(node.value), node.dtype, node.weak
    what = getattr(node, "op", getattr(node, "fn", None))
    return type(node), what, node.dtype, node.weak, getattr(node, "lazy", None)
