"""Quantized modules of PyTorch as computations: operators, layers and networks beside PyTorch."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import FrontendError
from schedlang.networks.integers import integer_sums
from tests.marks import slow_but

torch = pytest.importorskip("torch", reason="imports modules of PyTorch: the extra torch")

from tests.quantized_modules import (  # noqa: E402
    OPS,
    Layer,
    Pictures,
    perceptron,
    quantized,
    symmetric,
    with_powers_of_two,
    x86,
)
from tests.test_network_integers import DOT, operands  # noqa: E402
from tests.torch_models import Function  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def numbers(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def values(module: Any, *args: Any) -> tuple[Any, Any]:
    """Return the results of the import and of PyTorch, as lists of arrays."""
    with torch.no_grad():
        wanted = module(*args)
    results = sl.frontend.from_torch(module, args).reference(*(a.numpy() for a in args))
    both = (r if isinstance(r, tuple) else (r,) for r in (results, wanted))
    own, other = ([np.asarray(v) for v in r] for r in both)
    return own, other


# each dtype with the whole range, and with a part of it
RANGES = [
    (torch.uint8, 0, 255, 130), (torch.uint8, 0, 127, 64), (torch.int8, -128, 127, 0),
    (torch.int8, -127, 127, -9), (torch.int16, -300, 300, 5), (torch.int32, -(2**31), 2**31 - 1, 0),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "low", "high", "zero"), RANGES)
def test_operators_keep_each_bit(dtype: Any, low: int, high: int, zero: int) -> None:
    """Ties are rounded to even, and what is out of the range is limited.

    The last integer of 32 bits is no float32, and PyTorch's cast of the float after it overflows.
    """
    large = 1e30 if high < 2**24 else 1e5
    ties = torch.arange(-260, 260) * (0.0625 / 2)
    x = torch.cat([numbers(6, 100).flatten() * 9, ties, torch.tensor([large, -large])])
    x = x[: len(x) // 6 * 6].reshape(-1, 6)
    scales, zeros = torch.rand(6) * 0.1 + 0.01, torch.randint(low // 9, high // 9 + 1, (6,))
    whole = torch.tensor([0.0731]), torch.tensor([zero])

    def both(x: Any) -> Any:
        into, each = (0.0625, zero, low, high, dtype), (scales, zeros, 1, low, high, dtype)
        by_tensor = (*whole, low, high, dtype)
        q = OPS.quantize_per_tensor(x, *into)
        c = OPS.quantize_per_channel(x, *each)
        t = OPS.quantize_per_tensor.tensor(x, *by_tensor)
        without = (scales, None, 1, low, high, dtype)
        return (
            q, c, t, OPS.dequantize_per_tensor(q, *into), OPS.dequantize_per_channel(c, *each),
            OPS.dequantize_per_tensor.tensor(t, *by_tensor),
            OPS.dequantize_per_channel(c, *without),
        )  # fmt: skip

    for own, wanted in zip(*values(Function(both), x)):
        np.testing.assert_array_equal(own, wanted, strict=True)


@pytest.mark.parametrize("shift", [-9.0, 0.0, 9.0])
def test_scales_that_are_chosen_by_each_call(shift: float) -> None:
    def chosen(x: Any) -> Any:
        by_ends = OPS.choose_qparams(x, 0, 255, 2.0**-12, torch.uint8)
        around_0 = OPS.choose_qparams_symmetric(x, -127, 127, 2.0**-12, torch.int8)
        fixed = OPS.choose_qparams_symmetric(x * 0, 0, 255, 2.0**-12, torch.uint8)
        short = OPS.convert_element_type.no_fuse(x, torch.float16)
        return *by_ends, *around_0, *fixed, short

    for own, wanted in zip(*values(Function(chosen), numbers(3, 4, 5) + shift)):
        np.testing.assert_array_equal(own, wanted, strict=True)


LAYERS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "plain": ((1, 16, 9, 8), {"kernel": (32, 16, 3, 3)}),
    "int8-padded": ((1, 16, 9, 8), {
        "kernel": (32, 16, 3, 3), "data": "int8", "padding": 1, "stride": (2, 1)}),
    "groups": ((1, 16, 9, 8), {"kernel": (32, 4, 3, 3), "groups": 4}),
    "depthwise": ((1, 16, 9, 8), {"kernel": (16, 1, 3, 3), "groups": 16, "padding": 1}),
    "number": ((1, 16, 9, 8), {"kernel": (32, 16, 3, 3), "channels": False, "relu": False}),
    "seven-bits": ((3, 7, 5, 5), {"kernel": (13, 7, 2, 3), "most": 127}),
    "row": ((2, 5, 11), {"kernel": (7, 5, 3), "dilation": 2}),
    "matrix": ((5, 19), {"kernel": (13, 19)}),
    "matrix-int8": ((5, 19), {"kernel": (13, 19), "data": "int8", "channels": False}),
}  # fmt: skip


@pytest.mark.parametrize(("shape", "options"), LAYERS.values(), ids=LAYERS)
def test_a_layer_sums_integers(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    """PyTorch rounds its sum at each term, so an integer may be the neighbour of its own."""
    module, x = Layer(**options), numbers(*shape)
    with torch.no_grad():
        wanted = module(x).numpy()
    imported = sl.frontend.from_torch(module, x)
    outputs, (note,) = integer_sums(imported.outputs, imported.params)
    assert operands(outputs, note.stage) == DOT
    oracle = sl.reference(list(outputs))
    found = np.asarray(oracle(*(imported.params.get(t, x.numpy()) for t in oracle.inputs)))
    assert found.dtype == wanted.dtype
    difference = np.abs(found.astype(int) - wanted)
    assert difference.max() <= 1 and np.mean(difference > 0) < 0.01


def test_a_network_runs_the_integers_of_a_layer() -> None:
    shape, options = LAYERS["int8-padded"]
    module, x = Layer(**options), numbers(*shape)
    net = sl.network(sl.frontend.from_torch(module, x), database=None)
    sums = [s for part in net.partition.parts for s in part.stages if s.endswith("_rescaled")]
    assert len(sums) == 1
    with torch.no_grad():
        wanted = module(x).numpy()
    assert np.abs(net(x.numpy()).astype(int) - wanted).max() <= 1


NETWORKS: dict[str, tuple[Any, Any, tuple[int, ...], int]] = {
    "pictures": (Pictures, x86, (1, 3, 16, 16), 4),
    "pictures-int8": (Pictures, symmetric, (2, 3, 16, 16), 4),
    "perceptron": (perceptron, x86, (7, 24), 3),
    "perceptron-int8": (perceptron, symmetric, (7, 24), 3),
}


@pytest.mark.parametrize("network", slow_but(["perceptron", "perceptron-int8"], NETWORKS))
def test_a_network_of_torchao(network: str) -> None:
    """With powers of two as scales, no sum is rounded, and all bits are PyTorch's."""
    module, quantizer, shape, layers = NETWORKS[network]
    torch.manual_seed(1)
    exact, x = quantized(module(), quantizer(), *shape)
    exact = with_powers_of_two(exact)
    imported = sl.frontend.from_torch(exact, x)
    assert len(integer_sums(imported.outputs, imported.params)[1]) == layers
    with torch.no_grad():
        wanted = exact(x).numpy()
    assert len(np.unique(wanted)) > 4
    np.testing.assert_array_equal(sl.network(imported, database=None)(x.numpy()), wanted)


@pytest.mark.parametrize("quantizer", [x86, symmetric])
def test_scales_of_each_call_in_a_network(quantizer: Any) -> None:
    """The data of a product have a scale and a zero point that their own values decide."""
    torch.manual_seed(2)
    module, x = quantized(perceptron(), quantizer(dynamic=True), 7, 24)
    imported = sl.frontend.from_torch(module, x)
    assert len(integer_sums(imported.outputs, imported.params)[1]) == 3
    with torch.no_grad():
        wanted = module(x).numpy()
    net = sl.network(imported, database=None)
    np.testing.assert_allclose(net(x.numpy()), wanted, rtol=0, atol=ONE_STEP * np.abs(wanted).max())


# a value of the layer before, of 8 bits, may be the neighbour of PyTorch's own
ONE_STEP = 1 / 127


@pytest.mark.slow
def test_layers_keep_their_names() -> None:
    floats = Pictures().eval()
    module, x = quantized(Pictures(), x86(), 1, 3, 16, 16)
    own, other = (sl.frontend.from_torch(m, x) for m in (floats, module))
    assert {"conv1", "conv2", "conv3", "fc"} <= {*own.layers.values()} & {*other.layers.values()}
    error = sl.frontend.quantization_error(
        sl.frontend.from_torch(floats, x), other, x.numpy(), target="python"
    )
    assert "conv1" in error.layers


@pytest.mark.parametrize(("call", "words"), [
    (lambda x: OPS.quantize_per_token(x, x[:, :1], x[:, :1].long(), -128, 127, torch.int8),
     "quantized_decomposed.quantize_per_token.default, node quantize_per_token"),
    (lambda x: OPS.choose_qparams(x.half(), 0, 255, 1e-5, torch.uint8)[0],
     "its input is float16, and scales are chosen for float32"),
])  # fmt: skip
def test_what_has_no_form(call: Any, words: str) -> None:
    with pytest.raises(FrontendError, match=words):
        sl.frontend.from_torch(Function(call), numbers(4, 4))


@pytest.mark.slow
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "rounded"])
def test_resnet18(exact: bool) -> None:
    """Rounding to neighbours changes the results less than the quantization did."""
    if find_spec("torchvision") is None:
        pytest.skip("quantizes a network of torchvision")
    from benchmarks.peers.network_models import vision

    torch.manual_seed(0)
    floats = vision().models.resnet18(weights=None).eval()
    module, x = quantized(floats, symmetric(), 1, 3, 64, 64)
    if exact:
        module = with_powers_of_two(module)
    with torch.no_grad():
        wanted, plain = module(x).numpy(), floats(x).numpy()
    net = sl.network(sl.frontend.from_torch(module, x), database=None)
    sums = [s for part in net.partition.parts for s in part.stages if s.endswith("_rescaled")]
    assert len(sums) == 21
    found = net(x.numpy())
    if exact:
        np.testing.assert_array_equal(found, wanted)
    else:
        own, of_floats = (float(np.linalg.norm(v - wanted)) for v in (found, plain))
        assert own < of_floats / 2
