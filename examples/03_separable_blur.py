"""Lesson 3: a blur in two passes over a photograph, and three places for the first pass.

Rows blurred, then columns: where the rows live between the passes decides the time. At root they
go through memory; inlined they are computed again for each tap; attached to a strip of lines they
stay in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from lesson import milliseconds, photograph

import schedlang as sl

WEIGHTS = [1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16]
TAPS = len(WEIGHTS)


def blur(height: int, width: int) -> tuple[Any, Any, Any, Any]:
    """A 5 x 5 binomial blur of one colour; the edge is repeated outwards."""
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
        y, x = s[blurred].op.axis
        strip, line = s[blurred].split(y, factor=32)
        s[rows].compute_at(s[blurred], strip)
        # the padded line is stored, so that all lanes read neighbours from it
        s[padded].compute_at(s[rows], s[rows].op.axis[0])
        for stage in (rows, blurred):
            _, lanes = s[stage].split(s[stage].op.axis[1], factor=16)
            s[stage].vectorize(lanes)
        s[blurred].parallel(strip)
        return s

    for way in (at_root, inlined, in_strips):
        s = way()
        print(f"\n{way.__name__}\n\n{s}\n")
        f = sl.build(s)
        np.testing.assert_allclose(f(channel), expected, rtol=1e-5)
        out = np.empty_like(expected, dtype=np.float32)
        print(f"{way.__name__}: {milliseconds(f, channel, out):.3f} ms")


if __name__ == "__main__":
    main()

# Exercise: a strip of 32 lines computes 36 lines of rows. Make the strips 4 lines high, and 128.
# Which work is done twice, and when does the strip leave the first-level cache?
