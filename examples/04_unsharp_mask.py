"""Lesson 4: sharpen a picture with a sliding window, which computes each blurred line once.

The unsharp mask is sharp = image + amount * (image - blur(image)). compute_at computes the
horizontal blur for each line of the output. store_at keeps its lines for the next iterations,
which reuse them: Halide's sliding window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from lesson import milliseconds, photograph

import schedlang as sl

STRIP = 64


def unsharp(height: int, width: int) -> dict[str, Any]:
    """Return the stages of the unsharp mask, by name."""
    image = sl.placeholder((height, width), "uint8", name="image")
    amount = sl.var("amount", dtype="float32")
    grey = sl.compute((height, width), lambda y, x: sl.cast(image[y, x], "float32"), name="grey")
    padded = sl.pad(grey, 1, mode="edge", name="padded")
    rows = sl.compute(
        (height + 2, width),
        lambda y, x: (padded[y, x] + 2 * padded[y, x + 1] + padded[y, x + 2]) / 4,
        name="rows",
    )
    soft = sl.compute(
        (height, width), lambda y, x: (rows[y, x] + 2 * rows[y + 1, x] + rows[y + 2, x]) / 4,
        name="soft",
    )  # fmt: skip

    def sharpen(y: Any, x: Any) -> Any:
        value = grey[y, x] + amount * (grey[y, x] - soft[y, x])
        return sl.cast(sl.min(sl.max(sl.round(value), 0), 255), "uint8")

    sharp = sl.compute((height, width), sharpen, name="sharp")
    return dict(
        image=image, amount=amount, grey=grey, padded=padded, rows=rows, soft=soft, sharp=sharp
    )


def with_numpy(image: np.ndarray, amount: float) -> np.ndarray:
    height, width = image.shape
    wide = np.pad(image.astype(np.float32), 1, mode="edge")
    rows = (wide[:, :-2] + 2 * wide[:, 1:-1] + wide[:, 2:]) / 4
    soft = (rows[:-2] + 2 * rows[1:-1] + rows[2:]) / 4
    value = image + np.float32(amount) * (image - soft)
    return np.clip(np.round(value), 0, 255).astype(np.uint8)


def main() -> None:
    image = np.ascontiguousarray(photograph("flower.jpg")[:, :, 0])
    t = unsharp(*image.shape)
    sharp, rows, padded = t["sharp"], t["rows"], t["padded"]

    s = sl.schedule(sharp)
    # These are one short expression each: cheaper to compute again than to store.
    for name in ("grey", "soft"):
        s[t[name]].compute_inline()
    s[padded].compute_at(s[rows], s[rows].op.axis[0])
    y, x = s[sharp].op.axis
    strip, line = s[sharp].split(y, factor=STRIP)
    s[rows].compute_at(s[sharp], line)
    print(f"Without store_at, each line of the output computes 3 lines of rows:\n\n{s}\n")
    before = sl.build(s)
    s[rows].store_at(s[sharp], strip)
    print(f"With store_at, each line after the first computes 1 new line of rows:\n\n{s}\n")
    _, lanes = s[sharp].split(x, factor=16)
    s[sharp].vectorize(lanes)
    _, lanes = s[rows].split(s[rows].op.axis[1], factor=16)
    s[rows].vectorize(lanes)
    s[sharp].parallel(strip)
    after = sl.build(s)

    out = np.empty_like(image)
    for name, f in (("recomputed", before), ("sliding, vectorized and parallel", after)):
        pixels = f(image, 1.5, out).astype(np.int16)
        difference = np.abs(pixels - with_numpy(image, 1.5))
        # A fused multiply-add rounds once where NumPy rounds twice, so a few pixels differ by 1.
        assert difference.max() <= 1 and (difference > 0).mean() < 1e-4
        print(f"{name}: {milliseconds(f, image, 1.5, out):.3f} ms")
    print(f"NumPy: {milliseconds(with_numpy, image, 1.5):.3f} ms")


if __name__ == "__main__":
    main()

# Exercise: store rows at root instead (s[rows].store_root()) and leave out the parallel step.
# How much memory does rows take now? Why can the strips no longer run in parallel?
