"""Random networks of topi's layers: pictures, rows and sequences, with branches and weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from numba import njit

import schedlang as sl
from schedlang import te, topi
from schedlang.tvm.tir import ir_builder
from tests.networks import Weights, conv, dense, norm

ACTIVATIONS: tuple[Callable[[Any], Any], ...] = (
    topi.nn.relu, topi.sigmoid, topi.tanh, topi.nn.gelu, topi.nn.silu, topi.nn.elu,
    topi.nn.hard_swish, topi.negative, topi.abs,
)  # fmt: skip


@dataclass
class Draft:
    """A network that grows: its values so far, the last one at the end."""

    rng: Random
    weights: Weights = field(default_factory=Weights)
    values: list[Any] = field(default_factory=list)
    stages: int = 0

    @property
    def last(self) -> Any:
        return self.values[-1]

    def name(self, what: str) -> str:
        self.stages += 1
        return f"{what}{self.stages}"

    def add(self, what: str, make: Callable[[], Any]) -> None:
        """Add the value that ``make`` returns, as one stage or as a layer of several."""
        with sl.named(self.name(what)):
            self.values.append(make())

    def earlier(self, fits: Callable[[Any], bool]) -> Any:
        """Return an earlier value that ``fits``, ``None`` without one."""
        fitting = [v for v in self.values[:-1] if fits(v)]
        return self.rng.choice(fitting) if fitting else None


# layers of pictures: (batch, channels, rows, columns)


def convolution(d: Draft) -> None:
    x = d.last
    kernel = d.rng.choice((1, 1, 3, 3, 5))
    channels = d.rng.choice((3, 4, 8, 16))
    groups = d.rng.choice((1, 1, 1, x.shape[1]))
    channels = x.shape[1] if groups > 1 else channels
    stride = d.rng.choice((1, 1, 2))
    d.values.append(conv(d.weights, x, d.name("conv"), channels, kernel, stride, groups))


def batch_norm(d: Draft) -> None:
    d.values.append(norm(d.weights, d.last, d.name("norm")))


def pooling(d: Draft) -> None:
    kind, size = d.rng.choice(("max", "avg")), d.rng.choice((2, 3))
    d.add("pool", lambda: topi.nn.pool2d(d.last, size, d.rng.choice((1, 2)), 1, size // 2, kind))


def upsampling(d: Draft) -> None:
    d.add("up", lambda: topi.nn.upsampling(d.last, 2, 2, method="nearest_neighbor"))


def channels_joined(d: Draft) -> None:
    x = d.last
    other = d.earlier(lambda v: v.shape[2:] == x.shape[2:])
    if other is not None:
        d.add("cat", lambda: topi.concatenate((x, other), axis=1))


def squeeze(d: Draft) -> None:
    x = d.last
    mean = sl.named(d.name("mean"), topi.nn.global_pool(x, "avg"))
    gate = conv(d.weights, mean, d.name("excite"), x.shape[1], 1)
    d.add("scale", lambda: topi.multiply(x, topi.sigmoid(gate)))


def flattened(d: Draft) -> None:
    x = d.last
    if x.shape[1] * x.shape[2] * x.shape[3] <= 600:
        d.add("flat", lambda: topi.nn.flatten(x))
    else:
        d.add("pooled", lambda: topi.nn.flatten(topi.nn.global_pool(x, "avg")))


# layers of rows and of sequences: (batch, features) and (batch, steps, features)


def linear(d: Draft) -> None:
    d.values.append(dense(d.weights, d.last, d.name("fc"), d.rng.choice((3, 8, 16))))


def layer_norm(d: Draft) -> None:
    x = d.last
    name = d.name("rows")
    g, b = (d.weights.add(f"{name}_{k}", x.shape[-1]) for k in "gb")
    with sl.named(name):
        d.values.append(topi.nn.layer_norm(x, g, b, axis=-1))


def softmax(d: Draft) -> None:
    d.add("softmax", lambda: topi.nn.softmax(d.last))


def attention(d: Draft) -> None:
    x = d.last
    if len(x.shape) != 3:
        return
    q, k, v = (dense(d.weights, x, d.name(n), 8) for n in ("query", "key", "value"))
    scores = sl.named(d.name("scores"), topi.nn.batch_matmul(q, k))
    d.add("weights", lambda: topi.nn.softmax(topi.multiply(scores, 8**-0.5)))
    d.add("mixed", lambda: topi.nn.batch_matmul(d.last, v, transpose_b=False))


# layers of any value


def activation(d: Draft) -> None:
    act = d.rng.choice(ACTIVATIONS)
    d.add("act", lambda: act(d.last))


def added(d: Draft) -> None:
    x = d.last
    other = d.earlier(lambda v: v.shape == x.shape)
    if other is not None:
        combine = d.rng.choice((topi.add, topi.subtract, topi.multiply, topi.maximum))
        d.add("sum", lambda: combine(x, other))


def lambda_stage(d: Draft) -> None:
    x, k = d.last, d.rng.randrange(3)
    last = x.shape[-1] - 1
    bodies: tuple[Callable[..., Any], ...] = (
        lambda *at: x[at] * 0.5 + 1,
        lambda *at: sl.select(x[at] > 0, x[at], x[at] * 0.25),
        lambda *at: x[(*at[:-1], last - at[-1])],
    )
    d.values.append(sl.compute(x.shape, bodies[k], name=d.name("own")))


# functions of users: each element is added to half of the one before it in its row


@njit
def decayed(a, out):
    rows, results = a.reshape((-1, a.shape[-1])), out.reshape((-1, a.shape[-1]))
    for i in range(rows.shape[0]):
        total = np.float32(0)
        for j in range(rows.shape[1]):
            total = total * np.float32(0.5) + rows[i, j]
            results[i, j] = total


def decayed_on_host(a, out):
    decayed.py_func(np.ascontiguousarray(a), out)


DECAYED = """
int %s(const float *a, float *out, const int64_t *sizes) {
    int64_t rows = 1, columns = sizes[%d];
    for (int k = 0; k < %d; k++) rows *= sizes[k];
    for (int64_t i = 0; i < rows; i++) {
        float total = 0;
        for (int64_t j = 0; j < columns; j++)
            out[i * columns + j] = total = total * 0.5f + a[i * columns + j];
    }
    return 0;
}
"""


def function(d: Draft) -> None:
    """Add a function of numba, of Python or of C, or a program of te."""
    x, name = d.last, d.name("call")
    last = len(x.shape) - 1
    in_c = DECAYED % (name, last, last)
    how = d.rng.choice((decayed, decayed_on_host, in_c, program))
    if how is not program:
        d.values.append(sl.extern(x.shape, [x], how, name=name))
    elif isinstance(x.shape[0], int):
        d.values.append(te.extern(x.shape, [x], program, name=name))


def program(ins: Any, outs: Any) -> Any:
    ib = ir_builder.create()
    a, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    columns = ins[0].shape[-1]
    with ib.for_range(0, int(np.prod(ins[0].shape[:-1])), name="i", kind="parallel") as i:
        total = ib.allocate("float32", (1,), name="total", scope="local")
        total[0] = 0.0
        with ib.for_range(0, columns, name="j") as j:
            total[0] = total[0] * 0.5 + a[i * columns + j]
            out[i * columns + j] = total[0]
    return ib.get()


ANY = (activation, activation, added, lambda_stage, function)
PICTURE = (convolution, convolution, convolution, batch_norm, pooling, upsampling,
           channels_joined, squeeze, *ANY)  # fmt: skip
ROWS = (linear, linear, layer_norm, softmax, attention, *ANY)
MOST_ELEMENTS = 4000


@dataclass(frozen=True)
class RandomNetwork:
    """A network: its outputs, inputs and weights, and the sizes of its calls."""

    outputs: tuple[Any, ...]
    inputs: tuple[Any, ...]
    params: dict[Any, np.ndarray]
    batches: tuple[int, ...]
    layers: tuple[str, ...]


def random_network(rng: Random) -> RandomNetwork:
    """Return a network of two to eight layers, with a fixed or a symbolic batch."""
    d = Draft(rng)
    symbolic = rng.random() < 0.3
    batch: Any = sl.var("n") if symbolic else rng.choice((1, 1, 2, 3))
    picture = rng.random() < 0.65
    size = rng.choice((5, 6, 8))
    if picture:
        shape: tuple[Any, ...] = (batch, rng.choice((3, 4, 8)), size, rng.choice((size, 7)))
    else:
        shape = rng.choice(((batch, 12), (batch, 5, 8)))
    d.values.append(sl.placeholder(shape, name="x"))
    layers = []
    for _ in range(rng.randint(2, 8)):
        layer = rng.choice(PICTURE if picture else ROWS)
        if int(np.prod(d.last.shape[1:])) > MOST_ELEMENTS and layer is not pooling:
            continue
        layer(d)
        layers.append(layer.__name__)
        if picture and rng.random() < 0.1:
            flattened(d)
            layers.append("flattened")
            picture = False
    if len(d.values) == 1:
        activation(d)
    outputs = [d.last]
    if rng.random() < 0.3 and len(d.values) > 2:
        other = rng.choice(d.values[1:-1])
        if other not in outputs:
            outputs.append(other)
    batches = tuple(rng.sample((1, 2, 3, 5), 2)) if symbolic else (batch,)
    return RandomNetwork(tuple(outputs), (d.values[0],), d.weights.params, batches, tuple(layers))


__all__ = ["RandomNetwork", "random_network"]
