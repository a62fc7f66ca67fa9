"""The two gradients of each convolution of the table: by its input and by its weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.works import convolution
from benchmarks.works.convolution import windows
from benchmarks.works.linear import DRIFT
from benchmarks.works.work import Work

BY_INPUT, BY_WEIGHTS = "gradient_by_input", "gradient_by_weights"


def gradients(work: Work) -> tuple[Work, Work]:
    """Return the gradients of a convolution by ``x`` and by ``w``, given that of its result, ``g``.

    A depthwise convolution has as many groups as channels.
    """
    x, w, g = work.inputs["x"], work.inputs["w"], work.outputs["y"]
    depthwise = work.kind == "depthwise"
    sizes = {**work.sizes, "groups": x[1] if depthwise else 1}
    k, stride, pad = (sizes[n] for n in ("k", "stride", "pad"))

    def by_input(g: Any, w: Any) -> Any:
        groups = sizes["groups"]
        padded = np.zeros((x[0], x[1], x[2] + 2 * pad, x[3] + 2 * pad))
        grouped = g.reshape(g.shape[0], groups, -1, *g.shape[2:])
        taps = w.reshape(groups, -1, *w.shape[1:])
        reach = stride * (g.shape[2] - 1) + 1
        for i in range(k):
            for j in range(k):
                part = np.einsum("ngoyx,goc->ngcyx", grouped, taps[..., i, j], optimize=True)
                rows, columns = slice(i, i + reach, stride), slice(j, j + reach, stride)
                padded[:, :, rows, columns] += part.reshape(x[0], x[1], *part.shape[3:])
        return padded[:, :, pad : pad + x[2], pad : pad + x[3]]

    def by_weights(g: Any, x: Any) -> Any:
        total = np.zeros(w)
        for image, back in zip(x, g):
            seen = windows(image, k, stride, pad)
            if depthwise:
                total[:, 0] += np.einsum("cyxij,cyx->cij", seen, back)
            else:
                flat = seen.transpose(1, 2, 0, 3, 4).reshape(back[0].size, -1)
                total += (back.reshape(w[0], -1) @ flat).reshape(w)
        return total

    outputs = work.outputs["y"][2]
    return (
        replace(
            work, name=f"{work.name} by input", kind=BY_INPUT, sizes=sizes,
            inputs={"g": g, "w": w}, outputs={"dx": x}, oracle=by_input,
            atol=DRIFT * w[0] * k * k,
        ),
        replace(
            work, name=f"{work.name} by weights", kind=BY_WEIGHTS, sizes=sizes,
            inputs={"g": g, "x": x}, outputs={"dw": w}, oracle=by_weights,
            atol=DRIFT * x[0] * outputs * outputs,
        ),
    )  # fmt: skip


GRADIENTS: tuple[Work, ...] = tuple(
    made for work in convolution.WORKS for made in gradients(work)
)
