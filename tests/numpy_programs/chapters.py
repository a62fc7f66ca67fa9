"""The programs of the chapters of "From Python to NumPy", written anew.

Source of the tasks: N. P. Rougier, "From Python to NumPy". The lists and classes of its last
chapters hold arrays and compute nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

RNG = np.random.default_rng(5)
RUNS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def program(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a program, with the arguments to call it with."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        RUNS[function.__name__] = function, arguments
        return function

    return register


@program(RNG.integers(0, 2, (12, 14)))
def game_of_life(cells):
    neighbours = np.zeros_like(cells)
    for _ in range(4):
        neighbours[1:-1, 1:-1] = (
            cells[:-2, :-2] + cells[:-2, 1:-1] + cells[:-2, 2:] + cells[1:-1, :-2]
            + cells[1:-1, 2:] + cells[2:, :-2] + cells[2:, 1:-1] + cells[2:, 2:]
        )  # fmt: skip
        stays = (cells == 1) & ((neighbours == 2) | (neighbours == 3))
        born = (cells == 0) & (neighbours == 3)
        cells[...] = 0
        cells[1:-1, 1:-1][(stays | born)[1:-1, 1:-1]] = 1
    return cells


@program(RNG.random((18, 18)), RNG.random((18, 18)))
def reaction_and_diffusion(u, v):
    feed, kill = 0.0545, 0.062

    def spread(z):
        return z[:-2, 1:-1] + z[1:-1, :-2] - 4 * z[1:-1, 1:-1] + z[1:-1, 2:] + z[2:, 1:-1]

    inner_u, inner_v = u[1:-1, 1:-1], v[1:-1, 1:-1]
    for _ in range(4):
        both = inner_u * inner_v * inner_v
        lu, lv = spread(u), spread(v)
        inner_u += 0.16 * lu - both + feed * (1 - inner_u)
        inner_v += 0.08 * lv + both - (feed + kill) * inner_v
    return u, v


@program(np.linspace(-2.25, 0.75, 23), np.linspace(-1.25, 1.25, 19))
def mandelbrot(x, y):
    c = x + y[:, None] * 1j
    n = np.zeros(c.shape, int)
    z = np.zeros(c.shape, "complex128")
    for k in range(10):
        inside = z.real**2 + z.imag**2 < 4.0
        n[inside] = k
        z[inside] = z[inside] ** 2 + c[inside]
    n[n == 9] = 0
    return n


@program(np.linspace(-2.25, 0.75, 11), np.linspace(-1.25, 1.25, 9))
def mandelbrot_of_living_points(x, y):
    c = (x + y[:, None] * 1j).reshape(-1)
    z, places = c.copy(), np.arange(99)
    n = np.zeros(99, int)
    for k in range(4):
        n[places] = k
        living = np.abs(z) < 2.0
        c, z, places = c[living], z[living], places[living]
        z = z * z + c
    return n


@program(RNG.uniform(0, 100, (20, 2)), RNG.normal(size=(20, 2)))
def boids(position, velocity):
    dx = np.subtract.outer(position[:, 0], position[:, 0])
    dy = np.subtract.outer(position[:, 1], position[:, 1])
    distance = np.hypot(dx, dy)
    near, far = ((distance > 0) & (distance < limit) for limit in (25, 50))
    near_count = np.maximum(near.sum(axis=1), 1).reshape(-1, 1)
    far_count = np.maximum(far.sum(axis=1), 1).reshape(-1, 1)

    def steered(target, count):
        norm = np.sqrt((target * target).sum(axis=1)).reshape(-1, 1)
        target = 3.0 * np.divide(target, norm, out=target, where=True)
        return np.where(count > 0, target - velocity, 0)

    together = steered(far @ position / far_count - position, far_count)
    aligned = steered(far @ velocity / far_count, far_count)
    away = np.dstack((dx, dy)) / np.where(distance > 0, distance, 1)[..., None] ** 2
    apart = steered((away * near[..., None]).sum(axis=1) / near_count, near_count)
    velocity += 1.5 * apart + aligned + together
    speed = np.sqrt((velocity**2).sum(axis=1)).reshape(-1, 1)
    velocity *= np.minimum(1.0, 2.0 / np.maximum(speed, 1e-9))
    position += velocity
    return position % 100


@program(RNG.random((30, 2)), RNG.random((7, 2)))
def k_nearest(points, queries):
    distances = ((queries[:, None, :] - points[None]) ** 2).sum(axis=-1)
    nearest = np.argpartition(distances, 4, axis=1)[:, :4]
    return np.sort(nearest, axis=1), np.take_along_axis(distances, nearest, axis=1).sum(axis=1)


WALLS = RNG.random((9, 9)) < 0.3


@program(WALLS)
def maze(walls):
    values = np.zeros(walls.shape)
    values[-2, -2] = 1
    around = values.copy()
    for _ in range(12):
        around[1:-1, 1:-1] = np.maximum(
            np.maximum(np.maximum(values[1:-1, 1:-1], 0.9 * values[:-2, 1:-1]),
                       np.maximum(0.9 * values[1:-1, :-2], 0.9 * values[1:-1, 2:])),
            0.9 * values[2:, 1:-1])  # fmt: skip
        values[1:-1, 1:-1] = np.where(walls[1:-1, 1:-1], 0, around[1:-1, 1:-1])
    return values, np.unravel_index(np.argmax(values), values.shape)


@program(RNG.integers(0, 2, 200) * 2 - 1, np.array([1, 1, -1]))
def steps_of_a_walk(steps, pattern):
    walk = np.cumsum(steps)
    windows = np.lib.stride_tricks.sliding_window_view(steps, 3)
    return walk, np.nonzero((windows == pattern).all(axis=1))[0]


@program(RNG.random((12, 12)), RNG.random((12, 12)), RNG.random((12, 12)))
def smoke(u, v, density):
    n = 12
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    x = np.clip(i - 0.1 * n * u, 0.5, n - 1.5)
    y = np.clip(j - 0.1 * n * v, 0.5, n - 1.5)
    i0, j0 = x.astype(int), y.astype(int)
    s1, t1 = x - i0, y - j0
    moved = (1 - s1) * ((1 - t1) * density[i0, j0] + t1 * density[i0, j0 + 1])
    moved = moved + s1 * ((1 - t1) * density[i0 + 1, j0] + t1 * density[i0 + 1, j0 + 1])
    for _ in range(3):
        moved[1:-1, 1:-1] = (
            density[1:-1, 1:-1]
            + 0.2 * (moved[:-2, 1:-1] + moved[2:, 1:-1] + moved[1:-1, :-2] + moved[1:-1, 2:])
        ) / 1.8
    return moved


@program(RNG.random((40, 2)))
def darts(points):
    distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=-1))
    earlier = np.tril(distances < 0.15, k=-1)
    return points[~earlier.any(axis=1)]


@program(RNG.integers(0, 20, 200))
def frequencies(words):
    values, counts = np.unique(words, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return values[order][:5], counts[order][:5]
