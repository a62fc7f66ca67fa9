"""Small builders of networks from topi: outputs, and random arrays for the weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import schedlang as sl
from schedlang import topi


@dataclass
class Weights:
    """The weights of a network: placeholders with their arrays, and the layer of each stage."""

    dtype: str = "float32"
    params: dict[sl.Tensor, np.ndarray] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def add(self, name: str, *shape: int, positive: bool = False) -> sl.Tensor:
        """Return a weight of random values, small enough to keep activations of one size."""
        tensor = sl.placeholder(shape, self.dtype, name=name)
        fan = max(1, int(np.prod(shape[1:])))
        array = self.rng.standard_normal(shape) / np.sqrt(fan)
        self.params[tensor] = (np.abs(array) + 0.5 if positive else array).astype(self.dtype)
        return tensor


def conv(w: Weights, x: Any, name: str, channels: int, kernel: int, stride: int = 1,
         groups: int = 1) -> Any:  # fmt: skip
    """Return a convolution without bias, padded to keep the image's size at stride 1."""
    depthwise = groups == x.shape[1] > 1
    pad = kernel // 2
    if depthwise:
        weight = w.add(f"{name}_w", groups, channels // groups, kernel, kernel)
        made = topi.nn.depthwise_conv2d_nchw(x, weight, stride, pad, 1)
    elif groups > 1:
        weight = w.add(f"{name}_w", channels, x.shape[1] // groups, kernel, kernel)
        made = topi.nn.group_conv2d_nchw(x, weight, stride, pad, 1, groups)
    else:
        weight = w.add(f"{name}_w", channels, x.shape[1], kernel, kernel)
        made = topi.nn.conv2d_nchw(x, weight, stride, pad, 1)
    return sl.named(name, made)


def norm(w: Weights, x: Any, name: str) -> Any:
    """Return an inference batch norm over dimension 1."""
    parts = [w.add(f"{name}_{k}", x.shape[1], positive=k == "var")
             for k in ("gamma", "beta", "mean", "var")]  # fmt: skip
    with sl.named(name):
        return topi.nn.batch_norm(x, *parts)[0]


def unit(w: Weights, x: Any, name: str, channels: int, kernel: int, stride: int = 1,
         groups: int = 1, act: Callable[[Any], Any] | None = topi.nn.relu) -> Any:  # fmt: skip
    """Return a convolution, its batch norm and an activation."""
    made = norm(w, conv(w, x, f"{name}_conv", channels, kernel, stride, groups), f"{name}_bn")
    return made if act is None else sl.named(f"{name}_act", act(made))


def dense(w: Weights, x: Any, name: str, size: int) -> Any:
    """Return a dense layer with bias."""
    weight, bias = w.add(f"{name}_w", size, x.shape[-1]), w.add(f"{name}_b", size)
    with sl.named(name):
        return topi.nn.dense(x, weight, bias)


def basic(w: Weights, x: Any, name: str, channels: int, stride: int) -> Any:
    """Return a basic block of a ResNet (He et al., 2016)."""
    made = unit(w, x, f"{name}_1", channels, 3, stride)
    made = unit(w, made, f"{name}_2", channels, 3, act=None)
    return _residual(w, x, made, name, stride)


def bottleneck(w: Weights, x: Any, name: str, channels: int, stride: int) -> Any:
    """Return a bottleneck block of a ResNet, with the stride in its 3x3 convolution."""
    made = unit(w, x, f"{name}_1", channels, 1)
    made = unit(w, made, f"{name}_2", channels, 3, stride)
    made = unit(w, made, f"{name}_3", 4 * channels, 1, act=None)
    return _residual(w, x, made, name, stride)


def _residual(w: Weights, x: Any, made: Any, name: str, stride: int) -> Any:
    if x.shape != made.shape:
        x = unit(w, x, f"{name}_down", made.shape[1], 1, stride, act=None)
    return sl.named(f"{name}_out", topi.nn.relu(sl.named(f"{name}_add", topi.add(made, x))))


def resnet(
    blocks: Sequence[int], block: Callable[..., Any] = basic, size: int | tuple[int, int] = 32,
    width: int = 8, classes: int = 10, batch: int = 1,
) -> tuple[Any, sl.Tensor, dict[sl.Tensor, np.ndarray]]:  # fmt: skip
    """Return a ResNet, its input and its weights; ``blocks`` are those of each stage.

    ``size`` is that of either side of a picture, or its height and width.
    """
    w = Weights()
    edges = (size, size) if isinstance(size, int) else size
    image = sl.placeholder((batch, 3, *edges), name="image")
    x = unit(w, image, "stem", width, 7, 2)
    x = sl.named("stem_pool", topi.nn.pool2d(x, 3, 2, 1, 1, "max"))
    for stage, count in enumerate(blocks):
        for k in range(count):
            stride = 2 if stage and not k else 1
            x = block(w, x, f"layer{stage + 1}_{k}", width << stage, stride)
    with sl.named("pool"):
        x = topi.nn.global_pool(x, "avg")
    x = sl.named("flatten", topi.nn.flatten(x))
    return dense(w, x, "fc", classes), image, w.params


def inverted_residual(
    channels: int = 8, expand: int = 4, size: int = 10, stride: int = 1
) -> tuple[Any, sl.Tensor, dict[sl.Tensor, np.ndarray]]:
    """Return an inverted residual with squeeze and excite, as in EfficientNet."""
    w = Weights()
    x = sl.placeholder((1, channels, size, size), name="x")
    wide = unit(w, x, "expand", channels * expand, 1, act=topi.nn.silu)
    deep = unit(w, wide, "depthwise", channels * expand, 3, stride, channels * expand,
                topi.nn.silu)  # fmt: skip
    with sl.named("squeeze"):
        mean = topi.nn.global_pool(deep, "avg")
    down = sl.named("reduce_act", topi.nn.silu(biased(w, mean, "reduce", channels // 2)))
    gate = sl.named("gate", topi.sigmoid(biased(w, down, "excite", channels * expand)))
    scaled = sl.named("scale", topi.multiply(deep, gate))
    out = unit(w, scaled, "project", channels, 1, act=None)
    if stride == 1:
        out = sl.named("out", topi.add(out, x))
    return out, x, w.params


def biased(w: Weights, x: Any, name: str, channels: int) -> Any:
    """Return a 1x1 convolution with bias."""
    bias = w.add(f"{name}_b", channels, 1, 1)
    return sl.named(f"{name}_bias", topi.add(conv(w, x, name, channels, 1), bias))


def transformer(
    tokens: int = 6, width: int = 8, heads: int = 2
) -> tuple[Any, sl.Tensor, dict[sl.Tensor, np.ndarray]]:
    """Return a block of a vision transformer (pre-norm), with its softmax written out."""
    w = Weights()
    x = sl.placeholder((1, tokens, width), name="x")

    def normed(value: Any, name: str) -> Any:
        with sl.named(name):
            return topi.nn.layer_norm(value, w.add(f"{name}_g", width), w.add(f"{name}_b", width),
                                      axis=-1)  # fmt: skip

    qkv = dense(w, normed(x, "norm1"), "qkv", 3 * width)
    split = sl.named("heads", topi.reshape(qkv, (1, tokens, 3, heads, width // heads)))
    moved = sl.named("by_head", topi.transpose(split, (2, 0, 3, 1, 4)))
    flat = sl.named("flat", topi.reshape(moved, (3, heads, tokens, width // heads)))
    q, k, v = (sl.named(n, topi.squeeze(part, 0)) for n, part in zip("qkv", topi.split(flat, 3)))
    scores = sl.named("scores", topi.nn.batch_matmul(q, k))
    scaled = sl.named("scaled", topi.multiply(scores, (width // heads) ** -0.5))
    with sl.named("softmax"):
        weights = topi.nn.softmax(scaled)
    mixed = sl.named("mixed", topi.nn.batch_matmul(weights, v, transpose_b=False))
    back = sl.named("tokens", topi.reshape(topi.transpose(mixed, (1, 0, 2)), (1, tokens, width)))
    y = sl.named("add1", topi.add(dense(w, back, "proj", width), x))
    hidden = sl.named("gelu", topi.nn.gelu(dense(w, normed(y, "norm2"), "mlp1", 4 * width)))
    return sl.named("add2", topi.add(dense(w, hidden, "mlp2", width), y)), x, w.params


def tagger(
    steps: int = 4, words: int = 11, width: int = 5, hidden: int = 3, tags: int = 4
) -> tuple[Any, sl.Tensor, dict[sl.Tensor, np.ndarray]]:
    """Return an LSTM tagger: embedded words, two layers, and scores of tags."""
    w = Weights()
    text = sl.placeholder((steps, 1), "int64", name="text")
    x = sl.named("embed", topi.take(w.add("embedding", words, width), text, axis=0))
    for layer in range(2):
        size = width if layer == 0 else hidden
        parts = [w.add(f"lstm{layer}_{n}", *shape) for n, shape in (
            ("wi", (4 * hidden, size)), ("wh", (4 * hidden, hidden)), ("bi", (4 * hidden,)),
            ("bh", (4 * hidden,)))]  # fmt: skip
        with sl.named(f"lstm{layer}"):
            x = topi.nn.lstm(x, *parts)[0]
    scores = dense(w, x, "scores", tags)
    with sl.named("tags"):
        return topi.nn.log_softmax(scores), text, w.params


def mlp(
    batch: int = 4, sizes: Sequence[int] = (6, 16, 12, 3)
) -> tuple[Any, sl.Tensor, dict[sl.Tensor, np.ndarray]]:
    """Return a multi-layer perceptron with a softmax at its end."""
    w = Weights()
    x = made = sl.placeholder((batch, sizes[0]), name="x")
    for k, size in enumerate(sizes[1:]):
        made = dense(w, made, f"fc{k}", size)
        if k < len(sizes) - 2:
            made = sl.named(f"act{k}", topi.tanh(made))
    with sl.named("softmax"):
        return topi.nn.softmax(made), x, w.params


def input_for(x: Any) -> np.ndarray:
    """Return an array for the input of a network: words of its table, or normal numbers."""
    rng = np.random.default_rng(1)
    made = rng.integers(0, 11, x.shape) if x.dtype == "int64" else rng.standard_normal(x.shape)
    given: np.ndarray = made.astype(x.dtype)
    return given


def run_parts(
    parts: Any, values: dict[sl.Tensor, np.ndarray], **scalars: Any
) -> dict[sl.Tensor, np.ndarray]:
    """Return ``values`` of the inputs, and what the parts make of them one after the other."""
    known = dict(values)
    for part in parts:
        oracle = sl.reference(list(part.group.outputs))
        named = {v.name: scalars[v.name] for v in oracle.variables if v.name in scalars}
        found = oracle(*(known[t] for t in part.reads), **named)
        known.update(zip(part.writes, found if isinstance(found, tuple) else (found,)))
    return known
