"""The exercises of "100 NumPy exercises" that compute with arrays, by their numbers.

The programs are written anew, as functions of the arrays that an exercise names or draws. Source of
the tasks: N. P. Rougier, "100 NumPy exercises". ``refused.py`` has those that are refused. The
numbers that are in neither compute nothing with arrays: they import, print versions and manuals, or
read files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

RNG = np.random.default_rng(11)
WINDOWS = np.lib.stride_tricks.sliding_window_view
RUNS: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def exercise(number: int, *arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the program of an exercise, with the arguments to call it with."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        RUNS[number] = function, arguments
        return function

    return register


MATRIX = RNG.random((5, 5))
VECTOR = RNG.random(10)
POINTS = RNG.random((10, 2))
WHOLE = RNG.integers(0, 10, 50)


@exercise(3, VECTOR)
def null_vector(x):
    return np.zeros(10)


@exercise(4, MATRIX)
def bytes_of(x):
    return x.size * x.itemsize


@exercise(6, VECTOR)
def null_but_the_fifth(x):
    z = np.zeros(10)
    z[4] = 1
    return z


@exercise(7, VECTOR)
def from_10_to_49(x):
    return np.arange(10, 50)


@exercise(8, VECTOR)
def reversed_vector(x):
    return x[::-1]


@exercise(9, np.arange(9))
def three_by_three(x):
    return x.reshape(3, 3)


@exercise(10, np.array([1, 2, 0, 0, 4, 0]))
def places_of_others_than_0(x):
    return np.nonzero(x)


@exercise(11, VECTOR)
def identity(x):
    return np.eye(3)


@exercise(13, MATRIX)
def both_extremes(x):
    return x.min(), x.max()


@exercise(14, VECTOR)
def average(x):
    return x.mean()


@exercise(15, MATRIX)
def border_of_ones(x):
    z = np.ones_like(x)
    z[1:-1, 1:-1] = 0
    return z


@exercise(16, MATRIX)
def border_of_zeros(x):
    return np.pad(x, 1, mode="constant", constant_values=0)


@exercise(17, np.array([np.nan, 1.0]))
def what_nan_is(x):
    return 0 * x, x == x, np.inf > x, x - x, np.isnan(x)


@exercise(18, np.arange(1, 5))
def below_the_diagonal(x):
    return np.diag(x, k=-1)


@exercise(19, VECTOR)
def checkerboard(x):
    z = np.zeros((8, 8), "int64")
    z[1::2, ::2] = 1
    z[::2, 1::2] = 1
    return z


@exercise(20, np.int64(99))
def the_hundredth(n):
    return np.unravel_index(n, (6, 7, 8))


@exercise(21, np.array([[0, 1], [1, 0]]))
def checkerboard_of_tiles(x):
    return np.tile(x, (4, 4))


@exercise(22, MATRIX)
def normalized(x):
    return (x - np.mean(x)) / np.std(x)


@exercise(24, RNG.random((5, 3)), RNG.random((3, 2)))
def product(x, y):
    return x @ y


@exercise(25, np.arange(11))
def negated_between(x):
    x[(x > 3) & (x < 8)] *= -1
    return x


@exercise(26, WHOLE)
def sums_of_a_range(x):
    return sum(range(5), -1), np.sum(range(5), -1), x + sum(range(5))


@exercise(27, np.arange(5))
def expressions_of_integers(z):
    return z**z, 2 << z >> 2, z < -z, 1j * z, z / 1 / 1


@exercise(28, np.array([0.0, np.nan]))
def divisions_of_zeros(x):
    return x / x, x.astype("float32").astype("float64")


@exercise(29, RNG.uniform(-10, 10, 10))
def away_from_zero(x):
    return np.copysign(np.ceil(np.abs(x)), x), np.where(x > 0, np.ceil(x), np.floor(x))


@exercise(30, RNG.integers(0, 10, 10), RNG.integers(0, 10, 10))
def in_common(x, y):
    return np.intersect1d(x, y)


@exercise(31, VECTOR)
def without_warnings(x):
    with np.errstate(all="ignore"):
        return x / np.zeros(10)


@exercise(32, np.array([-1.0, 4.0]))
def root_of_a_negative(x):
    return np.sqrt(x), (x + 0j) ** 0.5


@exercise(33, np.array([-1.0, 4.0]))
def two_kinds_of_roots(x):
    return np.sqrt(x) == np.emath.sqrt(-1)


@exercise(35, np.ones(3), np.full(3, 2.0))
def in_place(a, b):
    np.add(a, b, out=b)
    np.divide(a, 2, out=a)
    np.negative(a, out=a)
    np.multiply(a, b, out=a)
    return a


@exercise(36, RNG.uniform(0, 10, 10))
def integer_parts(x):
    return x - x % 1, x // 1, np.floor(x), x.astype(int), np.trunc(x)


@exercise(37, MATRIX)
def rows_that_count(x):
    z = np.zeros_like(x)
    z += np.arange(5)
    return z


@exercise(38, VECTOR)
def from_a_generator(x):
    return x + np.fromiter((k for k in range(10)), dtype=float, count=10)


@exercise(39, VECTOR)
def ends_left_out(x):
    return x + np.linspace(0, 1, 11, endpoint=False)[1:]


@exercise(40, VECTOR)
def sorted_vector(x):
    x.sort()
    return x


@exercise(41, VECTOR)
def summed(x):
    return np.add.reduce(x)


@exercise(42, VECTOR, VECTOR + 1e-9)
def are_equal(a, b):
    return np.allclose(a, b), np.array_equal(a, b)


@exercise(44, POINTS)
def to_polar(z):
    x, y = z[:, 0], z[:, 1]
    return np.sqrt(x**2 + y**2), np.arctan2(y, x)


@exercise(45, VECTOR)
def without_the_maximum(z):
    z[z.argmax()] = 0
    return z


@exercise(47, np.arange(8.0), np.arange(8.0) + 0.5)
def cauchy(x, y):
    c = 1.0 / np.subtract.outer(x, y)
    return c, np.linalg.det(c)


@exercise(48, MATRIX.astype("float32"))
def limits_of_dtypes(x):
    return [np.iinfo(t).max for t in (np.int8, np.int32)], x + np.finfo(x.dtype).eps


@exercise(50, np.arange(100.0), np.float64(41.3))
def closest(z, v):
    return z[np.abs(z - v).argmin()]


@exercise(52, POINTS)
def distances(z):
    x, y = np.atleast_2d(z[:, 0], z[:, 1])
    return np.sqrt((x - x.T) ** 2 + (y - y.T) ** 2)


@exercise(53, RNG.uniform(0, 100, 10).astype("float32"))
def to_integers(z):
    return z.astype(np.int32)


@exercise(55, MATRIX)
def enumerated(z):
    i, j = np.unravel_index(np.arange(z.size), z.shape)
    return i, j, z.reshape(-1)


@exercise(56, MATRIX)
def bell(z):
    x, y = np.meshgrid(np.linspace(-1, 1, 10), np.linspace(-1, 1, 10))
    d = np.sqrt(x * x + y * y)
    return np.exp(-((d - 0.0) ** 2 / (2.0 * z[0, 0] ** 2)))


@exercise(57, np.zeros((10, 10)), RNG.choice(100, 3, replace=False))
def placed(z, places):
    flat = z.reshape(-1)
    flat[places] = 1
    return z


@exercise(58, MATRIX)
def centred_rows(x):
    return x - x.mean(axis=1, keepdims=True)


@exercise(59, MATRIX)
def sorted_by_a_column(z):
    return z[z[:, 1].argsort()]


@exercise(60, RNG.integers(0, 3, (3, 10)))
def has_an_empty_column(z):
    return (~z.any(axis=0)).any()


@exercise(61, VECTOR, np.float64(0.5))
def nearest(z, v):
    return z.flatten()[np.abs(z - v).argmin()]


@exercise(62, np.arange(3).reshape(3, 1), np.arange(3).reshape(1, 3))
def sum_of_row_and_column(a, b):
    return a + b


@exercise(64, np.ones(10), RNG.integers(0, 10, 20))
def counted_in_place(z, places):
    np.add.at(z, places, 1)
    return z, z + np.bincount(places, minlength=len(z))


@exercise(65, np.array([1.0, 2, 3, 4, 5, 6]), np.array([1, 3, 9, 3, 4, 1]))
def accumulated(x, places):
    return np.bincount(places, x)


@exercise(66, RNG.integers(0, 4, (16, 16, 3)).astype("uint8"))
def colors(image):
    wide = image.astype("int64")
    return np.unique(wide[..., 0] * 65536 + wide[..., 1] * 256 + wide[..., 2]).size


@exercise(67, RNG.integers(0, 10, (3, 4, 3, 4)))
def sums_of_the_last_axes(a):
    return a.sum(axis=(-2, -1)), a.reshape(a.shape[:-2] + (-1,)).sum(axis=-1)


@exercise(68, RNG.random(100), RNG.integers(0, 10, 100))
def means_of_subsets(d, s):
    return np.bincount(s, weights=d) / np.bincount(s)


@exercise(69, MATRIX, MATRIX.T.copy())
def diagonal_of_a_product(a, b):
    return np.diag(a @ b), np.sum(a * b.T, axis=1), np.einsum("ij,ji->i", a, b)


@exercise(70, np.arange(1, 6))
def zeros_between(z):
    z0 = np.zeros(len(z) + (len(z) - 1) * 3)
    z0[::4] = z
    return z0


@exercise(71, RNG.random((5, 5, 3)), MATRIX)
def scaled_pixels(a, b):
    return a * b[:, :, None]


@exercise(72, MATRIX)
def swapped_rows(a):
    a[[0, 1]] = a[[1, 0]]
    return a


@exercise(73, RNG.integers(0, 20, (10, 3)))
def segments(faces):
    edges = np.roll(faces.repeat(2, axis=1), -1, axis=1).reshape(30, 2)
    edges = np.sort(edges, axis=1)
    return np.unique(edges[:, 0] * 20 + edges[:, 1])


@exercise(75, RNG.random(20))
def moving_average(a):
    total = np.cumsum(a)
    total[3:] = total[3:] - total[:-3]
    return total[2:] / 3, WINDOWS(a, 3).mean(axis=-1)


@exercise(76, np.arange(10))
def rows_of_windows(z):
    return WINDOWS(z, 3)


@exercise(77, RNG.integers(0, 2, 100).astype(bool), VECTOR)
def negated_in_place(flags, x):
    np.logical_not(flags, out=flags)
    np.negative(x, out=x)
    return flags, x


@exercise(78, POINTS, POINTS[::-1].copy() + 1, np.array([[0.3, 0.7]]))
def distances_to_lines(p0, p1, p):
    t = p1 - p0
    length = (t**2).sum(axis=1)
    u = -((p0[:, 0] - p[..., 0]) * t[:, 0] + (p0[:, 1] - p[..., 1]) * t[:, 1]) / length
    d = p0 + u.reshape(len(u), 1) * t - p
    return np.sqrt((d**2).sum(axis=1))


@exercise(79, POINTS, POINTS[::-1].copy() + 1, RNG.uniform(-10, 10, (4, 2)))
def distances_of_points_to_lines(p0, p1, p):
    return np.stack([distances_to_lines(p0, p1, p[k : k + 1]) for k in range(len(p))])


@exercise(80, RNG.integers(0, 10, (10, 10)))
def around_an_element(z):
    padded = np.pad(z, 2, constant_values=7)
    return padded[1:6, 7:12]


@exercise(81, np.arange(1, 15))
def strides_of_rows(z):
    return WINDOWS(z, 4)


@exercise(82, MATRIX)
def rank(z):
    return np.linalg.matrix_rank(z), np.sum(np.linalg.svdvals(z) > 1e-10)


@exercise(83, WHOLE)
def most_frequent(z):
    return np.bincount(z).argmax()


@exercise(84, RNG.integers(0, 5, (10, 10)))
def blocks(z):
    return WINDOWS(z, (3, 3))


@exercise(86, RNG.random((10, 20, 20)), RNG.random((10, 20, 1)))
def sum_of_products(m, v):
    return np.tensordot(m, v, axes=[[0, 2], [0, 1]])


@exercise(87, RNG.random((16, 16)))
def sums_of_blocks(z):
    return z.reshape(4, 4, 4, 4).sum(axis=(1, 3)), WINDOWS(z, (4, 4))[::4, ::4].sum(axis=(-2, -1))


@exercise(88, RNG.integers(0, 2, (16, 16)))
def life(z):
    for _ in range(3):
        n = (z[:-2, :-2] + z[:-2, 1:-1] + z[:-2, 2:] + z[1:-1, :-2] + z[1:-1, 2:]
             + z[2:, :-2] + z[2:, 1:-1] + z[2:, 2:])  # fmt: skip
        born = (n == 3) & (z[1:-1, 1:-1] == 0)
        stays = ((n == 2) | (n == 3)) & (z[1:-1, 1:-1] == 1)
        z[...] = 0
        z[1:-1, 1:-1][born | stays] = 1
    return z


@exercise(89, RNG.permutation(1000))
def largest(z):
    return z[np.argsort(z)[-5:]], np.sort(np.partition(-z, 5)[:5])


@exercise(90, np.arange(3), np.arange(4), np.arange(2))
def cartesian(a, b, c):
    return np.stack(np.meshgrid(a, b, c, indexing="ij"), axis=-1).reshape(-1, 3)


@exercise(92, VECTOR)
def cubes(x):
    return np.power(x, 3), x * x * x, np.einsum("i,i,i->i", x, x, x)


@exercise(93, RNG.integers(0, 5, (8, 3)), RNG.integers(0, 5, (2, 2)))
def rows_with_elements(a, b):
    c = a[..., None, None] == b
    return np.where(c.any((3, 1)).all(1))[0]


@exercise(94, RNG.integers(0, 3, (10, 3)))
def rows_of_unequal(z):
    return z[z.max(axis=1) != z.min(axis=1)]


@exercise(95, np.array([0, 1, 2, 3, 15, 16, 32, 64, 128]))
def in_binary(x):
    return ((x.reshape(-1, 1) & (2 ** np.arange(8))) != 0).astype(int)[:, ::-1]


@exercise(96, RNG.integers(0, 2, (6, 3)))
def unique_rows(z):
    return np.unique(z, axis=0)


@exercise(97, VECTOR, VECTOR + 1)
def by_einsum(a, b):
    return (np.einsum("i->", a), np.einsum("i,i->i", a, b), np.einsum("i,i", a, b),
            np.einsum("i,j->ij", a, b))  # fmt: skip


@exercise(98, np.cumsum(RNG.random(50)), np.cumsum(RNG.random(50)))
def equidistant(x, y):
    steps = np.sqrt(np.diff(x) ** 2 + np.diff(y) ** 2)
    r = np.zeros_like(x)
    r[1:] = np.cumsum(steps)
    places = r[-1] * np.linspace(0, 1, 20)
    return np.interp(places, r, x), np.interp(places, r, y)


@exercise(99, np.array([[1.0, 0, 3, 8], [2, 0, 1, 1], [1.5, 2.5, 1, 0]]))
def draws_of_a_multinomial(x):
    whole = np.logical_and.reduce(np.mod(x, 1) == 0, axis=-1)
    return x[whole & (x.sum(axis=-1) == 4)]


@exercise(100, RNG.random(100), RNG.integers(0, 100, (200, 100)))
def bootstrapped(x, places):
    return np.percentile(x[places].mean(axis=1), [2.5, 97.5])
