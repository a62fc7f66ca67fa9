"""Lesson 5: find the Harris corners of a photograph, with a graph of stages in strips of lines.

The stages are the gradients, sums of their products over a window, and the response. We inline
the sums, and store for each strip the gradients, which many neighbours read. The lesson draws the
corners into the file that you name, harris_corners.png by default.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from lesson import milliseconds, photograph

import schedlang as sl
from schedlang.errors import missing_extra

STRIP, LANES = 32, 16


def harris(height: int, width: int) -> dict[str, Any]:
    """Return the stages by name. Each window shrinks the picture by 2."""
    G = sl.placeholder((height, width), name="G")
    dx = sl.compute(
        (height - 2, width - 2),
        lambda y, x: (G[y, x + 2] - G[y, x] + 2 * (G[y + 1, x + 2] - G[y + 1, x])
                      + G[y + 2, x + 2] - G[y + 2, x]) / 8,
        name="dx",
    )  # fmt: skip
    dy = sl.compute(
        (height - 2, width - 2),
        lambda y, x: (G[y + 2, x] - G[y, x] + 2 * (G[y + 2, x + 1] - G[y, x + 1])
                      + G[y + 2, x + 2] - G[y, x + 2]) / 8,
        name="dy",
    )  # fmt: skip

    def window(first: Any, second: Any, name: str) -> Any:
        def total(y: Any, x: Any) -> Any:
            terms = [first[y + v, x + u] * second[y + v, x + u] for v in range(3) for u in range(3)]
            return sum(terms[1:], terms[0])

        return sl.compute((height - 4, width - 4), total, name=name)

    xx, xy, yy = window(dx, dx, "xx"), window(dx, dy, "xy"), window(dy, dy, "yy")

    def respond(y: Any, x: Any) -> Any:
        trace = xx[y, x] + yy[y, x]
        return xx[y, x] * yy[y, x] - xy[y, x] * xy[y, x] - 0.04 * trace * trace

    R = sl.compute((height - 4, width - 4), respond, name="R")
    return dict(G=G, dx=dx, dy=dy, xx=xx, xy=xy, yy=yy, R=R)


def with_numpy(g: np.ndarray) -> np.ndarray:
    dx = (g[:, 2:] - g[:, :-2])[:-2] + 2 * (g[:, 2:] - g[:, :-2])[1:-1] + (g[:, 2:] - g[:, :-2])[2:]
    dy = (g[2:] - g[:-2])[:, :-2] + 2 * (g[2:] - g[:-2])[:, 1:-1] + (g[2:] - g[:-2])[:, 2:]
    dx, dy = dx / 8, dy / 8

    def window(p: np.ndarray) -> np.ndarray:
        h, w = p.shape
        return sum(p[v : v + h - 2, u : u + w - 2] for v in range(3) for u in range(3))

    xx, xy, yy = window(dx * dx), window(dx * dy), window(dy * dy)
    return xx * yy - xy * xy - np.float32(0.04) * (xx + yy) ** 2


def draw(picture: np.ndarray, y: np.ndarray, x: np.ndarray, path: str) -> None:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit(missing_extra("matplotlib", "examples", "This lesson")) from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5.4), layout="constrained")
    axes.imshow(picture)
    axes.scatter(x, y, s=12, facecolors="none", edgecolors="red", linewidths=0.7)
    axes.set_title(f"{len(x)} Harris corners")
    axes.set_axis_off()
    figure.savefig(path, dpi=120)


def main(path: str) -> None:
    picture = photograph("china.jpg")
    grey = np.ascontiguousarray(picture.mean(axis=2, dtype=np.float32) / 255)
    t = harris(*grey.shape)
    R = t["R"]

    plain = sl.schedule(R)
    s = sl.schedule(R)
    # Split the response into strips of lines, and vectorize its lines.
    y, x = s[R].op.axis
    strip, line = s[R].split(y, factor=STRIP)
    _, lanes = s[R].split(x, factor=LANES)
    s[R].vectorize(lanes)
    for name in ("xx", "xy", "yy"):
        s[t[name]].compute_inline()
    for name in ("dx", "dy"):
        # Nine elements of each sum read a gradient, so it pays to store it for the strip.
        s[t[name]].compute_at(s[R], strip)
        _, lanes = s[t[name]].split(s[t[name]].op.axis[1], factor=LANES)
        s[t[name]].vectorize(lanes)
    s[R].parallel(strip)
    print(f"{s}\n")

    expected = with_numpy(grey)
    out = np.empty_like(expected)
    for name, schedule in (("each stage at root", plain), ("in strips", s)):
        f = sl.build(schedule)
        np.testing.assert_allclose(f(grey, out), expected, rtol=1e-3, atol=1e-7)
        print(f"{name}: {milliseconds(f, grey, out):.3f} ms")
    print(f"NumPy: {milliseconds(with_numpy, grey):.3f} ms")

    # A corner has the largest response in its 9 x 9 neighbourhood, and one above a threshold.
    blocks = np.lib.stride_tricks.sliding_window_view(np.pad(out, 4), (9, 9)).max(axis=(2, 3))
    ys, xs = np.nonzero((out == blocks) & (out > 0.05 * out.max()))
    assert 20 < len(ys) < 2000
    draw(picture, ys + 2, xs + 2, path)
    print(f"drew {len(ys)} corners into {path}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "harris_corners.png")

# Exercise: compute xx, xy and yy at the strip too, instead of inlining them. Which buffers does the
# nest now store, and is it faster?
