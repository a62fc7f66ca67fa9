"""The check of a user's function: calls with poison around the boxes that it may touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.compute.arguments import bind
from schedlang.compute.chunks import extent_of
from schedlang.compute.extern_op import Ends, ExternOp
from schedlang.compute.poison import POISONS, bits, fail, filled, run_in_poison
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Expr
from schedlang.host import check_whole

Box = tuple[slice, ...]


def check(op: ExternOp, arrays: Sequence[Any], cases: int, seed: int) -> None:
    """Raise :class:`VerifyError` if the function of ``op`` leaves its boxes."""
    check_whole(f"{op.name}.op.check", 0, cases=cases, seed=seed)
    inputs, sizes = bind(tuple(op.input_tensors), op.variables, arrays, {})
    given = [np.asarray(inputs[t], order="C") for t in op.inputs]
    shapes = [tuple(extent_of(e, sizes) for e in t.shape) for t in op.outputs]
    packed = op.boxes is None
    everything = _Call(op, given, [_all(a.shape) for a in given], [*map(_all, shapes)], packed)
    expected = everything.run("the whole output")
    if op.boxes is None or 0 in shapes[0]:
        return
    rng = np.random.default_rng(seed)
    for _ in range(cases):
        asked = [sorted(rng.choice(n + 1, 2, replace=False)) for n in shapes[0]]
        values: dict[Any, Any] = dict(sizes)
        for (start, stop), (low, high) in zip(op.boxes.asked, asked):
            values[start], values[stop] = int(low), int(high)
        written = _box(op.boxes.written, values)
        for (start, stop), span in zip(op.boxes.asked, written):
            values[start], values[stop] = span.start, span.stop
        read = [_box(ends, values) for ends in op.boxes.read]
        text = f"the box [{', '.join(f'{p.start}:{p.stop}' for p in written)}]"
        results = _Call(op, given, read, [written] * len(shapes), False).run(text)
        for tensor, result, full in zip(op.outputs, results, expected):
            part = np.asarray(full[written])
            if not np.allclose(result, part, rtol=1e-5, atol=1e-6, equal_nan=True):
                fail(
                    _title(op),
                    f"{text} of {tensor.name} differs from these elements of the whole output",
                    "Compute each element from the boxes alone; reads= must contain what it reads.",
                )


def _all(shape: tuple[int, ...]) -> Box:
    return tuple(slice(0, extent) for extent in shape)


def _box(ends: Ends, values: Mapping[Any, Any]) -> Box:
    def number(end: Expr) -> int:
        return int(evaluate(end, values))

    return tuple(slice(number(low), number(high)) for low, high in ends)


class _Call:
    """A call for a box of each array; all memory around the boxes has poison."""

    def __init__(
        self, op: ExternOp, given: Sequence[np.ndarray], read: Sequence[Box],
        written: Sequence[Box], packed: bool,
    ) -> None:  # fmt: skip
        self.op, self.given, self.read, self.written = op, given, read, written
        self.packed = packed

    def run(self, text: str) -> list[np.ndarray]:
        """Return the outputs of two calls, which have other poison; ``text`` names the box."""
        whole = all(box == _all(a.shape) for a, box in zip(self.given, self.read))
        inputs = "its inputs" if whole else "the boxes that reads= gives"
        results = [self._outputs(poison, text) for poison in POISONS]
        for tensor, one, other in zip(self.op.outputs, *results):
            different = np.argwhere(bits(one) != bits(other))
            if different.size:
                at = ", ".join(map(str, different[0][: one.ndim]))
                fail(
                    _title(self.op),
                    f"in {text}, element [{at}] of {tensor.name} is not written, or depends on "
                    "memory outside of the boxes",
                    f"Write each element of its outputs, from {inputs} alone.",
                )
        return results[0]

    def _outputs(self, poison: int, text: str) -> list[np.ndarray]:
        op = self.op
        inputs = [a[box] for a, box in zip(self.given, self.read)]
        outputs = [
            filled(tuple(p.stop - p.start for p in box), tensor.dtype, poison)
            for tensor, box in zip(op.outputs, self.written)
        ]
        names = [tensor.name for tensor in (*op.inputs, *op.outputs)]
        packed = [self.packed] * len(names)
        return run_in_poison(
            _title(op), op.function, inputs, outputs, names, packed, f"in {text}", poison
        )


def _title(op: ExternOp) -> str:
    return f"check of {op.name}, which {op.function.name} computes"
