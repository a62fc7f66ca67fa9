"""PyTorch's gradients of a convolution: those that its autograd calls, without the tape."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.peers import Call
from benchmarks.works import Arrays, Work


def start_worker() -> None:
    """Turn gradients off in the process of a worker."""
    torch.set_grad_enabled(False)


def prepare(_: str, work: Work, arrays: Arrays, outs: Arrays) -> Call:
    """Return a call that allocates its result, as the operator has no ``out=``."""
    given = {name: torch.from_numpy(array) for name, array in arrays.items()}
    made = {name: torch.from_numpy(array) for name, array in outs.items()}
    # the operator reads only the shape of the operand whose gradient it computes
    x, w = given.get("x", made.get("dx")), given.get("w", made.get("dw"))
    stride, pad = (work.sizes[n] for n in ("stride", "pad"))
    mask = ["dx" in made, "dw" in made, False]
    backward: Any = torch.ops.aten.convolution_backward

    def call() -> Any:
        found = backward(
            given["g"], x, w, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0],
            work.sizes["groups"], mask,
        )  # fmt: skip
        return found[0] if mask[0] else found[1]

    return call
