"""Programs of NPBench, written anew: the function, its inputs, and what ``sl.jit`` asks to change.

Source: Ziogas et al., "NPBench: A Benchmarking Suite for High-Performance NumPy", ICS 2021;
PolyBench 4.2; and for weather stencils the COSMO model's horizontal diffusion. A program that runs
as it stands has no ``jitted``. For the others, ``changed`` lists the lines that differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import schedlang as sl

Inputs = Callable[[np.random.Generator], tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """One program: ``inputs`` returns the arguments; some functions write into them.

    A program of a clone of NPBench has a ``title``, and ``files`` with other tools' versions.
    """

    function: Callable[..., Any]
    inputs: Inputs
    jitted: Callable[..., Any] | None = None
    changed: tuple[str, ...] = ()
    title: str = ""
    files: Any = None

    @property
    def name(self) -> str:
        return self.title or self.function.__name__


def gemm(alpha, beta, C, A, B):
    C[:] = alpha * A @ B + beta * C


def k2mm(alpha, beta, A, B, C, D):
    D[:] = alpha * A @ B @ C + beta * D


def k3mm(A, B, C, D):
    return A @ B @ C @ D


def atax(A, x):
    return (A @ x) @ A


def bicg(A, p, r):
    return r @ A, A @ p


def gesummv(alpha, beta, A, B, x):
    return alpha * A @ x + beta * B @ x


def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A += np.outer(u1, v1) + np.outer(u2, v2)
    x += beta * y @ A + z
    w += alpha * A @ x


def mvt(x1, x2, y_1, y_2, A):
    x1 += A @ y_1
    x2 += y_2 @ A


def doitgen(NR, NQ, NP, A, C4):
    A[:] = np.reshape(np.reshape(A, (NR, NQ, 1, NP)) @ C4, (NR, NQ, NP))


def clipping(array_1, array_2, a, b, c):
    return np.clip(array_1, 2, 10) * a + array_2 * b + c


def arc_distance(theta_1, phi_1, theta_2, phi_2):
    temp = (
        np.sin((theta_2 - theta_1) / 2) ** 2
        + np.cos(theta_1) * np.cos(theta_2) * np.sin((phi_2 - phi_1) / 2) ** 2
    )
    return 2 * np.arctan2(np.sqrt(temp), np.sqrt(1 - temp))


def softmax(x):
    tmp_max = np.max(x, axis=-1, keepdims=True)
    tmp_out = np.exp(x - tmp_max)
    tmp_sum = np.sum(tmp_out, axis=-1, keepdims=True)
    return tmp_out / tmp_sum


def relu(x):
    return np.maximum(x, 0)


def mlp(input, w1, b1, w2, b2, w3, b3):  # noqa: A002
    x = relu(input @ w1 + b1)
    x = relu(x @ w2 + b2)
    return softmax(x @ w3 + b3)


def hdiff(in_field, out_field, coeff):
    I, J = out_field.shape[0], out_field.shape[1]  # noqa: E741
    lap_field = 4.0 * in_field[1 : I + 3, 1 : J + 3, :] - (
        in_field[2 : I + 4, 1 : J + 3, :]
        + in_field[0 : I + 2, 1 : J + 3, :]
        + in_field[1 : I + 3, 2 : J + 4, :]
        + in_field[1 : I + 3, 0 : J + 2, :]
    )
    res = lap_field[1:, 1 : J + 1, :] - lap_field[:-1, 1 : J + 1, :]
    flx_field = np.where(
        res * (in_field[2 : I + 3, 2 : J + 2, :] - in_field[1 : I + 2, 2 : J + 2, :]) > 0, 0, res
    )
    res = lap_field[1 : I + 1, 1:, :] - lap_field[1 : I + 1, :-1, :]
    fly_field = np.where(
        res * (in_field[2 : I + 2, 2 : J + 3, :] - in_field[2 : I + 2, 1 : J + 2, :]) > 0, 0, res
    )
    out_field[:, :, :] = in_field[2 : I + 2, 2 : J + 2, :] - coeff[:, :, :] * (
        flx_field[1:, :, :] - flx_field[:-1, :, :] + fly_field[:, 1:, :] - fly_field[:, :-1, :]
    )


def jacobi_1d(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])


def jacobi_1d_jitted(TSTEPS, A, B):
    @sl.fori_loop(1, TSTEPS)
    def step(t):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])


def jacobi_2d(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        B[1:-1, 1:-1] = 0.2 * (
            A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1]
        )
        A[1:-1, 1:-1] = 0.2 * (
            B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1]
        )


def jacobi_2d_jitted(TSTEPS, A, B):
    @sl.fori_loop(1, TSTEPS)
    def step(t):
        B[1:-1, 1:-1] = 0.2 * (
            A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1]
        )
        A[1:-1, 1:-1] = 0.2 * (
            B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1]
        )


def spread(X):
    """Return one step of heat conduction for the inner points."""
    return (
        0.125 * (X[2:, 1:-1, 1:-1] - 2.0 * X[1:-1, 1:-1, 1:-1] + X[:-2, 1:-1, 1:-1])
        + 0.125 * (X[1:-1, 2:, 1:-1] - 2.0 * X[1:-1, 1:-1, 1:-1] + X[1:-1, :-2, 1:-1])
        + 0.125 * (X[1:-1, 1:-1, 2:] - 2.0 * X[1:-1, 1:-1, 1:-1] + X[1:-1, 1:-1, :-2])
        + X[1:-1, 1:-1, 1:-1]
    )


def heat_3d(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        B[1:-1, 1:-1, 1:-1] = spread(A)
        A[1:-1, 1:-1, 1:-1] = spread(B)


def heat_3d_jitted(TSTEPS, A, B):
    @sl.fori_loop(1, TSTEPS)
    def step(t):
        B[1:-1, 1:-1, 1:-1] = spread(A)
        A[1:-1, 1:-1, 1:-1] = spread(B)


def fdtd_2d(TMAX, ex, ey, hz, _fict_):
    for t in range(TMAX):
        ey[0, :] = _fict_[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def fdtd_2d_jitted(TMAX, ex, ey, hz, _fict_):
    @sl.fori_loop(0, TMAX)
    def step(t):
        ey[0, :] = _fict_[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def floyd_warshall(path):
    for k in range(path.shape[0]):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))


def floyd_warshall_jitted(path):
    @sl.fori_loop(0, path.shape[0])
    def step(k):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))


def covariance(M, float_n, data):
    mean = np.mean(data, axis=0)
    data -= mean
    cov = np.zeros((M, M), dtype=data.dtype)
    for i in range(M):
        cov[i:M, i] = cov[i, i:M] = data[:, i] @ data[:, i:M] / (float_n - 1.0)
    return cov


def covariance_jitted(M, float_n, data):
    mean = np.mean(data, axis=0)
    data -= mean
    cov = data.T @ data / (float_n - 1.0)
    return cov


def go_fast(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


def go_fast_jitted(a):
    trace = np.sum(np.tanh(np.diagonal(a)))
    return a + trace


def accelerations(pos, mass, G, softening):
    x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inv_r3 = dx**2 + dy**2 + dz**2 + softening**2
    inv_r3[inv_r3 > 0] = inv_r3[inv_r3 > 0] ** (-1.5)
    ax = G * (dx * inv_r3) @ mass
    ay = G * (dy * inv_r3) @ mass
    az = G * (dz * inv_r3) @ mass
    return np.hstack((ax, ay, az))


def energies(pos, vel, mass, G):
    KE = 0.5 * np.sum(mass * vel**2)
    x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inv_r = np.sqrt(dx**2 + dy**2 + dz**2)
    inv_r[inv_r > 0] = 1.0 / inv_r[inv_r > 0]
    PE = G * np.sum(np.triu(-(mass * mass.T) * inv_r, 1))
    return KE, PE


def nbody(mass, pos, vel, Nt, dt, G, softening):
    vel -= np.mean(mass * vel, axis=0) / np.mean(mass)
    acc = accelerations(pos, mass, G, softening)
    KE = np.empty(Nt + 1)
    PE = np.empty(Nt + 1)
    KE[0], PE[0] = energies(pos, vel, mass, G)
    for i in range(Nt):
        vel += acc * dt / 2.0
        pos += vel * dt
        acc[:] = accelerations(pos, mass, G, softening)
        vel += acc * dt / 2.0
        KE[i + 1], PE[i + 1] = energies(pos, vel, mass, G)
    return KE, PE


def nbody_jitted(mass, pos, vel, Nt, dt, G, softening):
    vel -= np.mean(mass * vel, axis=0) / np.mean(mass)
    acc = accelerations(pos, mass, G, softening)
    KE = np.empty(Nt + 1, like=pos)
    PE = np.empty(Nt + 1, like=pos)
    KE[0], PE[0] = energies(pos, vel, mass, G)

    @sl.fori_loop(0, Nt)
    def step(i):
        nonlocal vel, pos
        vel += acc * dt / 2.0
        pos += vel * dt
        acc[:] = accelerations(pos, mass, G, softening)
        vel += acc * dt / 2.0
        KE[i + 1], PE[i + 1] = energies(pos, vel, mass, G)

    return KE, PE


def small(n: int, small_size: bool) -> int:
    """Return an extent, or about a twentieth of it for a quick check."""
    return max(n // 20, 5) if small_size else n


def programs(quick: bool = False) -> list[Program]:
    """Return all programs, at NPBench's sizes S, or smaller ones for a ``quick`` check."""

    def sized(*extents: int) -> tuple[int, ...]:
        return tuple(small(n, quick) for n in extents)

    def arrays(*shapes: tuple[int, ...]) -> Inputs:
        return lambda rng: tuple(rng.random(sized(*shape)) for shape in shapes)

    def after(first: tuple[Any, ...], *shapes: tuple[int, ...]) -> Inputs:
        return lambda rng: (*first, *arrays(*shapes)(rng))

    n = 1000
    vectors = [(n,)] * 8
    steps = {k: small(v, quick) for k, v in {"1d": 800, "2d": 50, "3d": 25, "f": 20}.items()}
    NR, NQ, NP = sized(60, 60, 128)
    loop = ("for t in range(...):  ->  @sl.fori_loop(...) and def step(t):",)

    def body_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
        count = small(25, False)
        mass = 20.0 * np.ones((count, 1)) / count
        return mass, rng.normal(size=(count, 3)), rng.normal(size=(count, 3)), 40, 0.05, 1.0, 0.1

    def path_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
        (side,) = sized(200)
        return (rng.integers(1, 1000, size=(side, side)).astype("int32"),)

    def features(rng: np.random.Generator) -> tuple[Any, ...]:
        sizes = sized(8, 30000 // 16, 2000, 2000, 100)
        batch, *widths = sizes
        made = [rng.random((batch, widths[0])).astype("float32")]
        for a, b in zip(widths, widths[1:]):
            made += [rng.random((a, b)).astype("float32"), rng.random(b).astype("float32")]
        return tuple(made)

    return [
        Program(gemm, after((1.5, 1.2), (1000, 1100), (1000, 1200), (1200, 1100))),
        Program(k2mm, after((1.5, 1.2), (800, 900), (900, 850), (850, 950), (800, 950))),
        Program(k3mm, arrays((800, 1000), (1000, 850), (850, 900), (900, 950))),
        Program(atax, arrays((4000, 5000), (5000,))),
        Program(bicg, arrays((4000, 5000), (5000,), (4000,))),
        Program(gesummv, after((1.5, 1.2), (2000, 2000), (2000, 2000), (2000,))),
        Program(gemver, after((1.5, 1.2), (n, n), *vectors)),
        Program(mvt, arrays((5500,), (5500,), (5500,), (5500,), (5500, 5500))),
        Program(doitgen, lambda rng: (NR, NQ, NP, rng.random((NR, NQ, NP)), rng.random((NP, NP)))),
        Program(clipping, lambda rng: (
            rng.integers(0, 1000, sized(2000, 2000)), rng.integers(0, 1000, sized(2000, 2000)),
            np.int64(4), np.int64(3), np.int64(9),
        )),
        Program(arc_distance, arrays(*[(100_000,)] * 4)),
        Program(softmax, lambda rng: (rng.random((*sized(16, 16), *sized(128, 128)), "float32"),)),
        Program(mlp, features),
        Program(hdiff, lambda rng: tuple(
            rng.random(shape) for shape in _fields(*sized(64, 64), *sized(60))
        )),
        Program(jacobi_1d, after((steps["1d"],), (3200,), (3200,)), jacobi_1d_jitted, loop),
        Program(jacobi_2d, after((steps["2d"],), (150, 150), (150, 150)), jacobi_2d_jitted, loop),
        Program(heat_3d, after((steps["3d"],), (25,) * 3, (25,) * 3), heat_3d_jitted, loop),
        Program(
            fdtd_2d,
            lambda rng: (
                steps["f"], *(rng.random(sized(200, 220)) for _ in range(3)), rng.random(steps["f"])
            ),
            fdtd_2d_jitted, loop,
        ),
        Program(floyd_warshall, path_inputs, floyd_warshall_jitted, loop),
        Program(
            covariance,
            lambda rng: (*sized(500), float(sized(600)[0]), rng.random(sized(600, 500))),
            covariance_jitted,
            ("cov = np.zeros((M, M), dtype=data.dtype)  ->  cov = data.T @ data / (float_n - 1.0)",
             "for i in range(M): ...                   ->  (left out)"),
        ),
        Program(
            go_fast, arrays((2000, 2000)), go_fast_jitted,
            ("trace = 0.0               ->  trace = np.sum(np.tanh(np.diagonal(a)))",
             "for i in range(...): ...  ->  (left out)"),
        ),
        Program(
            nbody, body_inputs, nbody_jitted,
            ("KE = np.empty(Nt + 1)  ->  KE = np.empty(Nt + 1, like=pos)", "PE = ...  ->  the same",
             "for i in range(Nt):    ->  @sl.fori_loop(0, Nt), def step(i):, nonlocal vel, pos"),
        ),
    ]  # fmt: skip


def _fields(I: int, J: int, K: int) -> tuple[tuple[int, ...], ...]:  # noqa: E741
    return (I + 4, J + 4, K), (I, J, K), (I, J, K)
