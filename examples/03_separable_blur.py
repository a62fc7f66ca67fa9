"""Lesson 3: blur a photograph in two passes, and choose where to compute the first one.

The first pass blurs rows, the second blurs columns. Where we compute the first decides the time:

* at root, the whole picture passes through memory between the two;
* inlined, the first pass is computed again for each tap of the second;
* at a strip of lines, the blurred rows stay in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from lesson import milliseconds, photograph

import schedlang as sl

WEIGHTS = [1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16]
TAPS = len(WEIGHTS)


def blur(height: int, width: int) -> tuple[Any, Any, Any, Any]:
    """Declare a 5 x 5 binomial blur of one colour channel, with the edge pixels repeated."""
    image = sl.placeholder((height, width), "uint8", name="image")
    values = sl.compute(
        (height, width), lambda y, x: sl.cast(image[y, x], "float32"), name="values"
    )
    padded = sl.pad(values, TAPS // 2, mode="edge", name="padded")

    def across(y: Any, x: Any) -> Any:
        terms = [padded[y, x + t] * WEIGHTS[t] for t in range(TAPS)]
        return sum(terms[1:], terms[0])

    def down(y: Any, x: Any) -> Any:
        terms = [rows[y + t, x] * WEIGHTS[t] for t in range(TAPS)]
        return sum(terms[1:], terms[0])

    rows = sl.compute((height + TAPS - 1, width), across, name="rows")
    return values, padded, rows, sl.compute((height, width), down, name="blurred")


def main() -> None:
    picture = photograph("china.jpg")
    channel = np.ascontiguousarray(picture[:, :, 1])
    values, padded, rows, blurred = blur(*channel.shape)

    wide = np.pad(channel, TAPS // 2, mode="edge").astype(np.float32)
    height, width = channel.shape
    half = sum(w * wide[:, t : t + width] for t, w in enumerate(WEIGHTS))
    expected = sum(w * half[t : t + height] for t, w in enumerate(WEIGHTS))

    def at_root() -> sl.Schedule:
        s = sl.schedule(blurred)
        s[values].compute_inline()
        s[padded].compute_inline()
        return s

    def inlined() -> sl.Schedule:
        s = at_root()
        s[rows].compute_inline()
        return s

    def in_strips() -> sl.Schedule:
        s = sl.schedule(blurred)
        s[values].compute_inline()
        # Compute the rows that a strip of 32 lines needs, just before the strip.
        y, x = s[blurred].op.axis
        strip, line = s[blurred].split(y, factor=32)
        s[rows].compute_at(s[blurred], strip)
        # Store the padded line, so that the lanes of a vector read neighbouring elements.
        s[padded].compute_at(s[rows], s[rows].op.axis[0])
        # Vectorize both passes along a line, and run the strips in parallel.
        for stage in (rows, blurred):
            _, lanes = s[stage].split(s[stage].op.axis[1], factor=16)
            s[stage].vectorize(lanes)
        s[blurred].parallel(strip)
        return s

    for variant in (at_root, inlined, in_strips):
        s = variant()
        print(f"\n{variant.__name__}\n\n{s}\n")
        f = sl.build(s)
        np.testing.assert_allclose(f(channel), expected, rtol=1e-5)
        out = np.empty_like(expected, dtype=np.float32)
        print(f"{variant.__name__}: {milliseconds(f, channel, out):.3f} ms")


if __name__ == "__main__":
    main()

# Exercise: a strip of 32 lines computes 36 lines of rows. Try strips of 4 lines, then of 128.
# Which lines are computed twice? When does a strip no longer fit the first-level cache?
