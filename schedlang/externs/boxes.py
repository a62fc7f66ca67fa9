"""The boxes that a user's function reads and writes, from ``reads=`` and ``writes=``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from schedlang.compute.extern_op import Boxes, Ends
from schedlang.compute.tensor import Extent, Tensor, shape_text
from schedlang.errors import BoundsError, ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import ArrayRead, Axis, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.language.construct import as_expr

EXAMPLE = "reads=lambda y, x: np.s_[y.start:y.stop + 2, x.start:x.stop]"


def boxes_of(
    reads: Callable[..., Any],
    writes: Callable[..., Any] | None,
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
) -> Boxes:
    """Return what a call reads and writes for a box of ``outputs``, checked at any box."""
    shape = outputs[0].shape
    if any([to_lin(a) for a in t.shape] != [to_lin(b) for b in shape] for t in outputs):
        raise ComputeError(
            explain(
                f"sl.extern for {name}",
                "its outputs differ in shape, and a box is one for all of them",
                "Leave out reads=, so that one call computes them whole.",
            )
        )
    asked = tuple(
        (Axis(f"start{k}", extent), Axis(f"stop{k}", _one_more(extent)))
        for k, extent in enumerate(shape)
    )
    ranges, facts = Ranges(), list[Lin]()
    for (start, stop), extent in zip(asked, shape):
        size = to_lin(extent)
        ranges.learn(start, Lin.of(0), size - 1)
        ranges.learn(stop, Lin.of(1), size)
        facts += [Lin.of(start) + 1 - Lin.of(stop), Lin.of(1) - size]
    ranges = ranges.assuming(tuple(facts))
    job = _Reader(name, asked, ranges)
    spans = tuple(slice(start, stop) for start, stop in asked)
    written: Ends = asked
    if writes is not None:
        written = job.ends(_called(writes, "writes", name, spans), "writes", outputs[0])
        for k, ((low, high), (start, stop)) in enumerate(zip(written, asked)):
            if not (_at_least(start, low, ranges) and _at_least(high, stop, ranges)):
                job.refuse(
                    f"writes= gives {low}:{high} in dimension {k}, which does not contain "
                    f"{start}:{stop}, the box that is asked for"
                )
    given = _called(reads, "reads", name, spans)
    listed = given if isinstance(given, list) else [given]
    if len(listed) != len(inputs):
        raise ComputeTypeError(
            explain(
                f"sl.extern for {name}",
                f"reads= returns {len(listed)} ind{'ex' if len(listed) == 1 else 'ices'} for "
                f"{len(inputs)} inputs ({', '.join(t.name for t in inputs) or 'none'})",
                "Return a list with an index for each input: [np.s_[y, :], np.s_[:, x]].",
            )
        )
    read = tuple(job.ends(item, "reads", tensor) for item, tensor in zip(listed, inputs))
    return Boxes(asked, written, read)


def _one_more(extent: Extent) -> Extent:
    return to_expr(to_lin(extent) + 1) if isinstance(extent, Expr) else extent + 1


def _at_least(value: Expr, least: Expr, ranges: Ranges) -> bool:
    return ranges.nonneg(to_lin(value, ranges=ranges) - to_lin(least, ranges=ranges))


def _called(function: Any, what: str, name: str, spans: Sequence[slice]) -> Any:
    if not callable(function):
        raise ComputeTypeError(
            f"sl.extern for {name}: {what}= must be a function of the ranges of a box, got "
            f"{type(function).__name__}; write e.g. {EXAMPLE}"
        )
    try:
        return function(*spans)
    except TypeError as error:
        count = len(spans)
        raise ComputeTypeError(
            explain(
                f"sl.extern for {name}",
                f"{what}= is called with {count} slice{'s' * (count != 1)}, one for each dimension "
                f"of the output, and raises: {error}",
                f"Write e.g. {EXAMPLE}. A slice has .start and .stop.",
            )
        ) from error


class _Reader:
    """The reader of the indices that a function of the user's returns."""

    def __init__(self, name: str, asked: Sequence[tuple[Axis, Axis]], ranges: Ranges) -> None:
        self.name, self.ranges = name, ranges
        self.known = {axis for pair in asked for axis in pair}

    def refuse(self, why: str, hint: str = "") -> NoReturn:
        raise BoundsError(explain(f"sl.extern for {self.name}", why, hint))

    def ends(self, index: Any, what: str, tensor: Tensor) -> Ends:
        """Return an index of ``tensor``, a slice for each dimension, as ends in its bounds."""
        items = index if isinstance(index, tuple) else (index,)
        if len(items) != tensor.ndim:
            self.refuse(
                f"{what}= gives {len(items)} slice{'s' * (len(items) != 1)} for {tensor.name} of "
                f"shape {shape_text(tensor.shape)}",
                f"Give one for each dimension, and : for all of it, e.g. {EXAMPLE}.",
            )
        return tuple(
            self.span(item, k, extent, what, tensor)
            for k, (item, extent) in enumerate(zip(items, tensor.shape))
        )

    def span(
        self, item: Any, k: int, extent: Extent, what: str, tensor: Tensor
    ) -> tuple[Expr, Expr]:
        if not isinstance(item, slice) or item.step not in (None, 1):
            raise ComputeTypeError(
                explain(
                    f"sl.extern for {self.name}",
                    f"{what}= gives {item} in dimension {k} of {tensor.name}, which is not a slice "
                    "of step 1",
                    f"A box keeps all dimensions: write i:i + 1 for one index, e.g. {EXAMPLE}.",
                )
            )
        low = self.end(0 if item.start is None else item.start, what)
        high = self.end(extent if item.stop is None else item.stop, what)
        size = as_expr(extent)
        below = not _at_least(low, as_expr(0), self.ranges)
        if below or not _at_least(size, high, self.ranges):
            clamped = f"sl.max({low}, 0)" if below else f"sl.min({high}, {extent})"
            self.refuse(
                f"{what}= gives {low}:{high} in dimension {k} of {tensor.name}, which is not "
                f"always inside of 0..{extent}",
                f"Clamp it, with {clamped}, or give the function a larger input.",
            )
        if not _at_least(high, low, self.ranges):
            self.refuse(
                f"{what}= gives {low}:{high} in dimension {k} of {tensor.name}, which may end "
                "before it begins"
            )
        return low, high

    def end(self, value: Any, what: str) -> Expr:
        """Return an end of a box, which depends on the box that is asked for, and on sizes."""
        expr = as_expr(value)
        wrong = next((n for n in postorder([expr]) if not _is_known(n, self.known)), None)
        if wrong is not None or expr.dtype != "int64":
            raise ComputeTypeError(
                explain(
                    f"sl.extern for {self.name}",
                    f"{what}= gives the end {expr}, which is {expr.dtype}"
                    if wrong is None
                    else f"{what}= gives the end {expr}, which depends on {wrong}",
                    "An end is an integer made of the .start and .stop of the slices, and of "
                    "sizes.",
                )
            )
        return expr


def _is_known(node: Expr, known: set[Axis]) -> bool:
    """Return whether a call knows a part of an index: no element of a tensor, and no scalar."""
    if isinstance(node, Axis):
        return node in known
    return not isinstance(node, ArrayRead) and (not isinstance(node, Var) or node.is_size)
