"""``einsum``: sums of products in NumPy's notation, two operands at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from schedlang.arrays.contraction import contraction, label_extents
from schedlang.arrays.stages import tensor_of, view
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.compute.whole import traceable
from schedlang.errors import ComputeError, ComputeTypeError, explain

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# up to this many operands, all orders are compared
MOST_EXACT = 5


class _Call(NamedTuple):
    """The labels of each operand and of the result."""

    operands: list[Tensor]
    labels: list[tuple[str, ...]]
    output: tuple[str, ...]
    asked: str


@traceable
def einsum(*operands: Any, optimize: Any = None) -> Tensor:
    """Return the sums of products that ``operands`` describe in the notation of ``np.einsum``.

    The first operand is the subscripts: the labels of the dimensions of each tensor, and after
    ``->`` the labels of the result. Labels that the result lacks are summed over. Without ``->``
    the result has the labels that occur once, in alphabetical order. A label that a tensor has
    twice is its diagonal, and ``...`` are further dimensions, which broadcast. The labels name the
    axes.

    More than two tensors are contracted in pairs: in the order of ``np.einsum_path`` if all extents
    are numbers, else from left to right. ``optimize`` may be such a path, or False: then all are
    multiplied in one stage.

    Raises :class:`~schedlang.errors.ComputeError` for subscripts that do not fit the operands.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((2, 4, 8), name="A"), sl.placeholder((2, 8, 3), name="B")
    >>> sl.einsum("bij,bjk->bik", A, B)
    Tensor(einsum: float32[2, 4, 3])
    """
    call = _parse(operands)
    if len(call.operands) == 1:
        return _one(call)
    if len(call.operands) == 2 or optimize is False:
        return contraction("einsum", call.operands, call.labels, call.output, call.asked)
    return _in_pairs(call, _path(call, optimize))


def _one(call: _Call) -> Tensor:
    """Return the result for one operand: a view if nothing is summed over."""
    (source,), (labels,) = call.operands, call.labels
    if set(labels) - set(call.output):
        return contraction("einsum", call.operands, call.labels, call.output, call.asked)
    extents = label_extents([source], [labels], call.asked)
    return view(
        "einsum",
        source,
        tuple(extents[c] for c in call.output),
        lambda *axes: [axes[call.output.index(c)] for c in labels],
        list(call.output),
    )


def _path(call: _Call, optimize: Any) -> list[tuple[int, ...]]:
    """Return the order of contraction: the numbers of the operands of each step."""
    count = len(call.operands)
    if isinstance(optimize, (list, tuple)):
        steps = [tuple(s) for s in optimize if not isinstance(s, str)]
        return _checked_path(steps, count)
    if not all(isinstance(e, int) for t in call.operands for e in t.shape):
        # the result of each step is the last operand
        return [(0, 1), *((0, count - 1 - k) for k in range(1, count - 1))]
    names = {
        label: LETTERS[k]
        for k, label in enumerate(dict.fromkeys(label for own in call.labels for label in own))
    }
    subscripts = ",".join("".join(names[c] for c in own) for own in call.labels)
    subscripts += "->" + "".join(names[c] for c in call.output)
    shapes = [np.broadcast_to(np.empty(()), tuple(map(int, t.shape))) for t in call.operands]
    kind = optimize if isinstance(optimize, str) else None
    kind = kind or ("optimal" if count <= MOST_EXACT else "greedy")
    path = np.einsum_path(subscripts, *shapes, optimize=kind)[0]
    return [tuple(step) for step in path[1:]]


def _checked_path(steps: list[tuple[int, ...]], count: int) -> list[tuple[int, ...]]:
    remaining = count
    for step in steps:
        if len(set(step)) < len(step) or not all(0 <= k < remaining for k in step) or not step:
            raise ComputeError(
                f"sl.einsum(optimize={steps}): step {step} does not name operands of the "
                f"{remaining} "
                "that are left"
            )
        remaining -= len(step) - 1
    if remaining != 1:
        raise ComputeError(f"sl.einsum(optimize={steps}): {remaining} operands are left at the end")
    return steps


def _in_pairs(call: _Call, path: Sequence[tuple[int, ...]]) -> Tensor:
    operands, labels = list(call.operands), list(call.labels)
    for number, step in enumerate(path):
        positions = sorted(step)
        chosen = [operands[k] for k in positions]
        own = [labels[k] for k in positions]
        for k in reversed(positions):
            del operands[k], labels[k]
        needed = set(call.output).union(*labels)
        last = number == len(path) - 1
        result = (
            call.output
            if last
            else tuple(dict.fromkeys(c for each in own for c in each if c in needed))
        )
        operands.append(contraction("einsum", chosen, own, result, call.asked))
        labels.append(tuple(result))
    return operands[-1]


def _parse(given: tuple[Any, ...]) -> _Call:
    if not given:
        raise ComputeTypeError("sl.einsum(): give subscripts and tensors: sl.einsum('ij->ji', A)")
    text, values = _subscripts(given)
    asked = f"sl.einsum({text!r}, ...)"
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    operands = [tensor_of(v, asked) for v in values]
    if len(terms) != len(operands):
        raise ComputeError(
            f"{asked}: the subscripts name {len(terms)} operand{'s' * (len(terms) != 1)}, but "
            f"{len(operands)} are given"
        )
    for part in (*terms, output):
        _check_term(part, asked)
    extra = max((_ellipsis(t, term, asked) for t, term in zip(operands, terms)), default=0)
    dots = tuple(f"b{k}" for k in range(extra)) if extra > 1 else ("b",) * extra
    dots = _apart(dots, text)
    labels = []
    for tensor, term in zip(operands, terms):
        count = _ellipsis(tensor, term, asked)
        labels.append(_spread(term, dots[len(dots) - count :]))
    if arrow:
        result_labels = _spread(output, dots)
        if dots and "..." not in output:
            raise ComputeError(
                f"{asked}: the result lacks the dimensions of ...; write them: "
                f"{inputs}->...{output}"
            )
    else:
        used = inputs.replace("...", "").replace(",", "")
        result_labels = (*dots, *sorted(c for c in set(used) if used.count(c) == 1))
    _check_output(result_labels, labels, asked)
    return _Call(operands, labels, result_labels, asked)


def _subscripts(given: tuple[Any, ...]) -> tuple[str, Sequence[Any]]:
    """Return the subscripts as text, and the operands; NumPy takes lists of numbers, too."""
    if isinstance(given[0], str):
        return given[0].replace(" ", ""), given[1:]
    values = given[: len(given) // 2 * 2 : 2]
    lists = list(given[1 : len(values) * 2 : 2])
    if not lists or not all(isinstance(v, (list, tuple)) for v in lists):
        raise ComputeTypeError(
            explain(
                f"sl.einsum({type(given[0]).__name__}, ...)",
                "the first operand must be the subscripts",
                'Write sl.einsum("ij,jk->ik", A, B).',
            )
        )
    text = ",".join(_letters_of(v) for v in lists)
    if len(given) % 2:
        text += f"->{_letters_of(given[-1])}"
    return text, values


def _letters_of(numbers: Sequence[Any]) -> str:
    letters = []
    for number in numbers:
        if number is Ellipsis:
            letters.append("...")
        elif isinstance(number, int) and 0 <= number < len(LETTERS):
            letters.append(LETTERS[number])
        else:
            raise ComputeError(f"sl.einsum: {number!r} is not a label; give a number from 0 to 51")
    return "".join(letters)


def _check_term(term: str, asked: str) -> None:
    bare = term.replace("...", "", 1)
    for letter in bare:
        if letter not in LETTERS:
            hint = (
                "An ellipsis is three dots, once in each operand."
                if letter == "."
                else "Labels are single letters; operands are separated by commas, and the result "
                "follows ->."
            )
            raise ComputeError(explain(asked, f"{letter!r} is not a label", hint))


def _ellipsis(tensor: Tensor, term: str, asked: str) -> int:
    """Return how many dimensions of ``tensor`` the ellipsis of ``term`` stands for."""
    named = len(term.replace("...", "", 1))
    count = tensor.ndim - named
    if count < 0 or (count > 0 and "..." not in term):
        raise ComputeError(
            explain(
                asked,
                f"{term!r} labels {named} dimension{'s' * (named != 1)}, but {tensor.name} of "
                f"shape {shape_text(tensor.shape)} has {tensor.ndim}",
                "Label each dimension, or write ... for the dimensions that stay.",
            )
        )
    return count


def _spread(term: str, dots: tuple[str, ...]) -> tuple[str, ...]:
    """Return the labels of a term, including the labels of its ellipsis."""
    before, ellipsis, after = term.partition("...")
    return (*before, *(dots if ellipsis else ()), *after)


def _apart(dots: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Return labels of the ellipsis that differ from the letters of the subscripts."""
    return tuple(f"batch{k}" if d in text else d for k, d in enumerate(dots))


def _check_output(output: Sequence[str], labels: Sequence[Sequence[str]], asked: str) -> None:
    labels_of_inputs = {c for own in labels for c in own}
    for label in output:
        if label not in labels_of_inputs:
            raise ComputeError(f"{asked}: the result has the label {label!r}, but no operand has")
        if list(output).count(label) > 1:
            raise ComputeError(
                f"{asked}: the result has the label {label!r} twice; name each dimension once"
            )
