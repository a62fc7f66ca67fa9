"""Modules that cannot become computations: each error names the layer, the line, and what to do."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import FrontendError
from schedlang.frontend import from_torch

torch = pytest.importorskip("torch", reason="imports modules of PyTorch: the extra torch")

from torch.nn.attention.flex_attention import flex_attention  # noqa: E402

from tests.torch_models import Function, ResNet, Tagger  # noqa: E402

nn, F = torch.nn, torch.nn.functional
X = torch.ones(3, 3)


def refused(module: Any, *args: Any, **options: Any) -> str:
    """Return the message with which the import of ``module`` is refused."""
    with pytest.raises(FrontendError) as caught:
        from_torch(module, args or (X,), **options)
    return str(caught.value)


@torch.library.custom_op("schedlang_test::bump", mutates_args={"x"})  # type: ignore[misc, untyped-decorator]
def bump(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1) * 2


@bump.register_fake  # type: ignore[misc, untyped-decorator]
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Loop(nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        while x.mean() < 1:
            x = x * 2
        return x


class Checked(nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        assert x.min() > -100
        return x * 2


class Sized(nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        if 3 < x.shape[0] < 8:
            return x + 1
        return x if x.shape[0] > 7 else -x


class Counter(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x + self.calls


class Typed(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(3, 3).to(dtype))

    def forward(self, x: Any) -> Any:
        return x + self.table.to(x.dtype)


@pytest.mark.parametrize(
    ("module", "layer"),
    [
        (lambda: ResNet(), "layer bn1 (BatchNorm2d) is in training mode"),
        (lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)), "layer 1 (Dropout)"),
        (lambda: Tagger(), "layer rnn (LSTM) is in training mode"),
        (lambda: nn.MultiheadAttention(4, 2, dropout=0.1), "MultiheadAttention is in training"),
        (lambda: nn.InstanceNorm1d(3, track_running_stats=True), "updates its statistics"),
    ],
)
def test_training_mode(module: Callable[[], Any], layer: str) -> None:
    message = refused(module())
    assert layer in message and "Call module.eval() first." in message


def test_layers_that_train_as_they_evaluate_are_taken() -> None:
    model = from_torch(nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.0)).train(), X)
    assert model.outputs[0].shape == (3, 2)


def test_control_flow_that_depends_on_data_names_the_line_and_the_layer(
    capfd: pytest.CaptureFixture[str],
) -> None:
    message = refused(nn.Sequential(nn.Linear(3, 3), Loop()).eval())
    assert "test_from_torch_refusals.py:" in message and "while x.mean() < 1:" in message
    assert "(layer 1)" in message and "torch.where" in message
    checked = refused(nn.Sequential(nn.Linear(3, 3), Checked()).eval())
    assert "as in an if, an assert" in checked and "Leave the assert out of forward." in checked
    # PyTorch's own report of it would hide the message
    assert capfd.readouterr() == ("", "")


def test_all_operators_without_a_form_are_named() -> None:
    head = Function(lambda x: torch.mode(x)[0] + torch.mode(x, 0)[0] + torch.linalg.det(x))
    message = refused(nn.Sequential(nn.Linear(3, 3), head).eval())
    assert message.startswith("from_torch: aten.mode.default, node mode of layer 1 (")
    assert "torch_models.py" in message
    assert "aten.mode.default (2 nodes), aten._linalg_det.default" in message


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: torch.ops.aten._print("x") or x, ["aten._print.default of layer 1", "printing"]),
        (
            lambda x: torch.cond(x.sum() > 2, torch.sin, torch.cos, (x,)),
            ["from_torch: cond of layer 1", "by the values of a tensor", "torch.where"],
        ),
        (
            lambda x: bump(x + 1),
            ["from_torch: schedlang_test.bump.default of layer 1", "this operator has no form"],
        ),
        pytest.param(
            lambda x: flex_attention(x[None, None], x[None, None], x[None, None])[0, 0],
            ["flex_attention", "no form here"],
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_operators_inside_of_a_wrapper_are_named_as_the_user_knows_them(
    function: Callable[..., Any], words: list[str]
) -> None:
    message = refused(nn.Sequential(nn.Linear(3, 3), Function(function)).eval())
    assert all(word in message for word in words), message
    assert "torch_models.py" in message
    for inner in ("with_effects", "true_graph", "eval_with_key", "auto_functionalized"):
        assert inner not in message
    assert ("for each of its rows" in message) == ("cond" in message)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x[x > 0], ["aten.index.Tensor", "a mask selects", "torch.where(mask"]),
        (lambda x: x * x.sum().item(), ["makes a number of the value of a", "out .item()"]),
        (lambda x: x.nonzero(), ["aten.nonzero", "depends on the values of a tensor"]),
        (lambda x: F.dropout(x, 0.5), ["native_dropout", "draws no random numbers"]),
        (lambda x: x + torch.rand_like(x), ["rand_like", "draws no random numbers"]),
        (lambda x: x.add_(1), ["changes the input", "Return the new value"]),
        (lambda x: (x, x.shape[0]), ["an output is 3", "Return tensors alone"]),
        (lambda x: None, ["returns no tensor"]),
        (lambda x: torch.complex(x, x).abs(), ["makes complex numbers", "imaginary part"]),
        (lambda x: torch.sort(x.expand(1, -1, -1).flatten().repeat(500)), ["compares all pairs"]),
        (lambda x: torch.index_put(x, (x > 0,), x[0]), ["a mask selects", "torch.where(mask"]),
        (lambda x: F.interpolate(x[None, None], scale_factor=1.5), ["scale_factor=1.5", "size="]),
        (lambda x: F.interpolate(x[None, None].byte(), 2, mode="bilinear", antialias=True),
         ["rounded integer weights", ".float()"]),
        (lambda x: F.conv1d(x, x), ["torch.export failed", "module(*example_inputs) runs"]),
    ],
)  # fmt: skip
def test_operators(function: Callable[..., Any], words: list[str]) -> None:
    message = refused(Function(function))
    assert all(word in message for word in words), message


def test_operands_of_two_dtypes() -> None:
    """PyTorch exports these products, but does not run them."""
    half = torch.zeros(2, 4, dtype=torch.float16)
    said = "its operands are float16 and float32, which PyTorch does not multiply"
    assert said in refused(nn.Linear(4, 4).eval(), half)
    for function in (torch.mm, torch.matmul):
        assert said in refused(Function(function), half, torch.zeros(4, 4)), function


def test_a_weight_that_changes() -> None:
    embedding = nn.Embedding(3, 2, max_norm=1.0).eval()
    assert "changes the weight weight" in refused(embedding, torch.tensor([1, 2]))


def test_a_buffer_that_changes() -> None:
    assert "changes the buffer calls" in refused(Counter().eval())


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (lambda: Typed(torch.complex64), ["table is complex64", "real numbers"]),
        (lambda: Typed(torch.float8_e4m3fn), ["table is float8_e4m3fn", ".float()"]),
        (lambda: nn.Linear(3, 3, device="meta"), ["weight weight is on the device meta"]),
        (
            lambda: nn.Sequential(torch.ao.nn.quantized.Linear(3, 3)),
            ["layer 0 is quantized", "before its quantization"],
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_weights_without_values(module: Callable[[], Any], words: list[str]) -> None:
    message = refused(module().eval())
    assert all(word in message for word in words), message


def test_inputs() -> None:
    linear = nn.Linear(4, 4).eval()
    assert "[3, 3] X [4, 4]" in refused(linear)
    assert "too many positional arguments" in refused(linear, X, X)
    assert "unexpected keyword argument 'y'" in refused(linear, X, kwargs={"y": X})
    assert "complex64" in refused(nn.ReLU().eval(), X.to(torch.complex64))
    dates = np.zeros(3, "datetime64[s]")
    assert r"dtype datetime64[s], which PyTorch does not have" in refused(linear, dates)
    computed = sl.placeholder((3,), name="A") + 1
    assert "is computed" in refused(nn.ReLU().eval(), computed)
    A = sl.placeholder((3,), name="A")
    B = sl.placeholder((3,), name="A")
    assert "two inputs are called A" in refused(Function(lambda a, b: a + b), A, B)


def test_sizes() -> None:
    add = Function(lambda x, y: x.sum() + y.sum())
    assert "batch=3 must be a name or a size" in refused(add, X, X, batch=3)
    assert "it is 3 in one example input, and 2 in another" in refused(
        add, X, torch.ones(2, 2), batch="n"
    )
    assert "names 'z', but the example inputs are args" in refused(
        add, X, X, dynamic_shapes={"z": {0: "n"}}
    )
    assert "needs a name" in refused(nn.ReLU().eval(), X, dynamic_shapes=[{0: 2.5}])
    named = refused(nn.ReLU().eval(), X, batch="1n")
    assert "from_torch: batch='1n': " in named and "a Python identifier\n  Write batch=" in named
    assert "dimension 5 is to be the size n" in refused(
        nn.ReLU().eval(), X, dynamic_shapes=[{5: "n"}]
    )
    pairs = Function(lambda x: x[0] + x[1])
    for shapes, words in (
        (3, "must be a dict"), ([None, None, None], "has 3 entries"),
        ([[[{0: "n"}]]], "one entry for each"), ([[[{"x": "n"}, None]]], "its symbolic dimensions"),
    ):  # fmt: skip
        assert words in refused(pairs, [X, X], dynamic_shapes=shapes)
    longer = sl.placeholder((sl.var("n") + 1,), name="A")
    assert "a size of its own" in refused(nn.ReLU().eval(), longer)
    n, other = sl.var("n"), sl.var("n")
    pair = sl.placeholder((n,), name="A"), sl.placeholder((other,), name="B")
    assert "two sizes are called n" in refused(add, *pair)


@pytest.mark.parametrize("module, rows, words", [
    (Function(lambda x: x.view(9)), 3, ["the module fixes n at 3", "x.flatten(1)"]),
    (Function(lambda x: x + torch.ones(4, 3)), 4, ["the module fixes n at 4", "leave out batch="]),
    (Sized().eval(), 3, ["only for n of at most 3", "refusals.py:", "if 3 < x.shape[0] < 8"]),
    (nn.Sequential(nn.ReLU(), Sized()).eval(), 5, ["only for n from 4 to 7", "(layer 1)"]),
    (nn.Sequential(Sized(), Sized()).eval(), 9, ["only for n of 8 or more", "refusals.py:"]),
])  # fmt: skip
def test_a_forward_that_depends_on_a_size(module: Any, rows: int, words: list[str]) -> None:
    message = refused(module, torch.ones(rows, 3), batch="n")
    assert "with the symbolic size n" in message and "guard" not in message
    assert all(word in message for word in words), message


class Masked(nn.Module):
    def __init__(self, causal: bool | None) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder, self.causal = nn.TransformerEncoder(layer, 1), causal

    def forward(self, x: Any, mask: Any) -> Any:
        return self.encoder(x, mask=mask, is_causal=self.causal)


def test_a_mask_that_may_be_causal() -> None:
    given = torch.randn(2, 5, 8), nn.Transformer.generate_square_subsequent_mask(5)
    message = refused(Masked(None).eval(), *given)
    assert "TransformerEncoder compares its mask with a causal one" in message
    assert "pass is_causal=, True or False" in message
    module = Masked(False).eval()
    result = from_torch(module, given).reference(*(t.numpy() for t in given))
    with torch.no_grad():
        np.testing.assert_allclose(result, module(*given).numpy(), rtol=1e-4, atol=1e-5)


def test_what_is_no_module() -> None:
    assert "it takes a torch.nn.Module" in refused(torch.relu)


def test_the_documentation_lists_the_operators() -> None:
    from schedlang.frontend.torch.operators import FAMILIES

    docs = Path(__file__).parent.parent / "docs"
    text = (docs / "reference" / "importers.md").read_text("utf-8")
    (page,) = re.findall(r"(?ms)^### Operators of PyTorch\n(.*?)^## ", text)
    titles = {family.__name__.rpartition(".")[2] for family in FAMILIES}
    assert {*re.findall(r"(?m)^\| (\w+) \|", page)} == titles | {"family"}
    for family in FAMILIES:
        title = family.__name__.rpartition(".")[2]
        (row,) = re.findall(rf"^\| {title} \| (.*) \|$", page, re.M)
        without_overload = {n.rpartition(".")[0] or n for n in family.OPERATORS}
        assert {*re.findall("`([^`]+)`", row)} == without_overload


def test_the_missing_extra_is_named() -> None:
    script = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "import schedlang as sl\n"
        "assert 'schedlang.frontend' not in sys.modules\n"
        "try:\n"
        "    sl.frontend.from_torch(None, ())\n"
        "except sl.errors.MissingExtraError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == (
        'sl.frontend.from_torch needs PyTorch: pip install "schedlang[torch]" installs it.\n'
    ), done.stderr


def test_parts_of_an_import_that_do_not_fit() -> None:
    A, W = sl.placeholder((2, 3), name="A"), sl.placeholder((3,), name="W")
    B = A + W
    value = np.ones(3, "float32")
    make = sl.frontend.Imported
    for parts, words in (
        (((), (A,), {}), "computes nothing"),
        (((B, B), (A,), {W: value}), "given twice"),
        (((B,), (A,), {}), "W is read, but is neither an input nor a parameter"),
        (((B,), (A, W), {W: value}), "two inputs or parameters have the same name"),
        (((B,), (A,), {W: np.ones(4, "float32")}), "shape (4,)"),
        (((B,), (A,), {W: np.ones(3)}), "dtype float64"),
        (((B,), (B,), {W: value}), "is computed"),
    ):
        with pytest.raises(FrontendError) as caught:
            make(*parts)
        assert words in str(caught.value)
    model = make((B,), (A,), {W: value})
    with pytest.raises(sl.errors.CallTypeError, match="the model takes: A: float32"):
        model.reference()
