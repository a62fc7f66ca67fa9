"""Windows that slide along a dimension, of convolutions and poolings, and their padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.shapes import extent
from schedlang.compute.boundary import pad
from schedlang.compute.tensor import Extent, Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.construct import as_expr
from schedlang.tvm.topi.checks import MEANINGS, SPATIAL, check_numbers, check_whole


@dataclass(frozen=True)
class Window:
    """A window of ``kernel`` elements, ``dilation`` apart, that moves by ``stride``.

    ``before`` and ``after`` are the elements of padding at the ends of the dimension.
    """

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def span(self) -> int:
        """The number of elements from the first of a window to its last."""
        return (self.kernel - 1) * self.dilation + 1

    def count(self, size: Extent) -> Extent:
        """Return the number of windows in a dimension of ``size`` elements with its padding."""
        room = as_expr(size) + (self.before + self.after - self.span)
        return extent(room // self.stride + 1 if self.stride > 1 else room + 1)

    def at(self, output: Expr, k: Axis) -> Expr:
        """Return the place in the padded dimension of element ``k`` of window ``output``."""
        place = output if self.stride == 1 else output * self.stride
        return place + (k if self.dilation == 1 else k * self.dilation)


def windows(
    asked: str, kernel: Sequence[int], stride: Any, padding: Any, dilation: Any
) -> tuple[Window, ...]:
    """Return a window for each extent of ``kernel``.

    ``stride`` and ``dilation`` are an integer, or one for each. :func:`paddings` says what
    ``padding`` may be.
    """
    count = len(kernel)
    check_numbers(asked, list(kernel), "kernel", (count,), 1)
    strides = check_numbers(asked, stride, "stride", (count,), 1)
    dilations = check_numbers(asked, dilation, "dilation", (count,), 1)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    widths = paddings(asked, padding, spans)
    return tuple(
        Window(k, s, d, before, after)
        for k, s, d, (before, after) in zip(kernel, strides, dilations, widths)
    )


def paddings(asked: str, given: Any, spans: Sequence[int]) -> list[tuple[int, int]]:
    """Return the padding before and after each dimension, whose windows have ``spans`` elements.

    ``given`` is an integer, one for each dimension, or the paddings before all dimensions and then
    the paddings after them: ``(top, left, bottom, right)``. ``"VALID"`` means no padding.
    ``"SAME"`` is one element less than the span, and the larger half comes first, as in TVM.
    """
    count = len(spans)
    if isinstance(given, str):
        name = given.upper()
        if name == "VALID":
            return [(0, 0)] * count
        if name == "SAME":
            return [(span // 2, (span - 1) // 2) for span in spans]
        raise ComputeError(
            f"{asked}: padding={given!r} is neither 'VALID' nor 'SAME'; give integers instead"
        )
    if isinstance(given, (tuple, list)) and any(isinstance(v, (tuple, list)) for v in given):
        raise ComputeTypeError(
            explain(
                f"{asked}: padding={given}",
                "it is not made of pairs",
                "Give the widths before all dimensions, then those after: "
                "(top, left, bottom, right).",
            )
        )
    widths = check_numbers(asked, given, "padding", (count, 2 * count), 0)
    return list(zip(widths[:count], widths[-count:]))


def output_count(
    asked: str,
    source: Tensor,
    letter: str,
    size: Extent,
    window: Window,
    count: Extent | None = None,
) -> Extent:
    """Return the number of windows along dimension ``letter``; refuse one that is too short.

    It is ``count``, by default the number of windows that lie in the dimension with its padding.
    """
    number = window.count(size) if count is None else count
    if isinstance(number, int) and number < 1:
        padding = f" and {window.before} + {window.after} of padding"
        span = f"{window.span} elements"
        if window.dilation > 1:
            span += f" ({window.kernel}, {window.dilation} apart)"
        raise ComputeError(
            explain(
                f"{asked} of {source.name}",
                f"its {MEANINGS[letter]} has {size} element{'s' * (size != 1)}"
                f"{padding if window.before + window.after else ''}, fewer than a window's {span}",
                "Pad it more, or use a smaller kernel.",
            )
        )
    return number


def slide(
    asked: str,
    data: Tensor,
    layout: str,
    kernel: Tensor,
    kernel_layout: str,
    stride: Any,
    padding: Any,
    dilation: Any,
) -> tuple[dict[str, Window], dict[str, Extent], Tensor]:
    """Return the windows of ``kernel`` over ``data``, how many there are, and the padded data.

    The keys of windows and of their numbers are the spatial letters of the layouts.
    """
    letters = [c for c in SPATIAL if c in layout]
    size, weights = dict(zip(layout, data.shape)), dict(zip(kernel_layout, kernel.shape))
    extents = [check_whole(asked, weights[c], f"dimension {c} of {kernel.name}") for c in letters]
    slid = dict(zip(letters, windows(asked, extents, stride, padding, dilation)))
    counts = {c: output_count(asked, data, c, size[c], w) for c, w in slid.items()}
    return (
        slid,
        counts,
        pad_windows(data, layout, {c: (w.before, w.after) for c, w in slid.items()}),
    )


def pad_windows(
    source: Tensor, layout: str, along: dict[str, tuple[int, int]], value: Any = None
) -> Tensor:
    """Return ``source`` with the padding ``along`` letters of its ``layout``, of ``value``.

    Without any padding it is ``source`` itself.
    """
    before, after = ([along.get(c, (0, 0))[side] for c in layout] for side in (0, 1))
    if not any(before) and not any(after):
        return source
    result = pad(source, before, after, value=value, name=automatic_name("pad_temp"))
    mark_automatic(result)
    return result
