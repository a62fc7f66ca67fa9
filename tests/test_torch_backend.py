"""Models under ``torch.compile`` with our backend: parts, weights, sizes, reports."""

from __future__ import annotations

import configparser
import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import BuildError, CallTypeError, TuningError
from schedlang.torch.backend import Backend, Bits, compile_graph

torch = pytest.importorskip("torch", reason="compiles models of PyTorch: the extra torch")

from tests.torch_models import ResNet, ViT, randomized  # noqa: E402

nn, F = torch.nn, torch.nn.functional


class Head(nn.Module):  # type: ignore[misc, name-defined]
    """A layer with a buffer, whose result depends on the size of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, -1.0, 0.5]))

    def forward(self, x: Any) -> Any:
        return torch.relu(self.fc(x)) * self.scale + x.shape[0]


class GPTBlock(nn.Module):  # type: ignore[misc, name-defined]
    """A block of GPT-2: causal attention, and a perceptron with the GELU of a tanh."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wider, self.narrower = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        shape = batch, length, self.heads, width // self.heads
        q, k, v = (t.view(shape).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(width, 2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.projection(seen.reshape(batch, length, width))
        return x + self.narrower(F.gelu(self.wider(self.norm2(x)), approximate="tanh"))


class Divided(nn.Module):  # type: ignore[misc, name-defined]
    """A model with a decomposition in the middle, which has no form."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.first(x))
        q = torch.linalg.qr(y)[0]
        return torch.softmax(self.second(q) * 2, -1), y.sum()


def compiled(module: Any, **options: Any) -> tuple[Any, Backend]:
    torch._dynamo.reset()
    backend = Backend(target="python", database=None, **options)
    return torch.compile(module, backend=backend), backend


def check(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_graph_is_one_network() -> None:
    module = Head().eval()
    backend, x = Backend(target="python", database=None), torch.rand(2, 3)
    with torch.no_grad():
        graph = torch.fx.symbolic_trace(lambda x: torch.relu(x * 2 - 1))
        run = backend(graph, [x])
        assert backend.report == "graph 0: not called yet"
        check(run(x), graph(x))
    assert backend.report.startswith("graph 0, 3 operators: 1 network\n")
    with torch.enable_grad():
        left = backend(torch.fx.symbolic_trace(module), [x.requires_grad_()])
        assert left(x).requires_grad and "a gradient is recorded" in backend.report


@pytest.mark.slow
def test_weights_and_sizes() -> None:
    module = Head().eval()
    run, backend = compiled(module)
    with torch.no_grad():
        for batch in (2, 3, 5):
            x = torch.rand(batch, 3)
            check(run(x), module(x))
        # the second graph has a symbolic batch
        assert len(backend.graphs) == 2 and ": 1 network, for any" in str(backend.graphs[1].report)
        # weights that change in place, and one that is replaced
        module.fc.weight.mul_(3)
        check(run(x), module(x))
        module.load_state_dict(Head().state_dict())
        check(run(x), module(x))
        module.scale.zero_()
        check(run(x), module(x))
        module.fc.bias = nn.Parameter(torch.ones(4))
        check(run(x), module(x))
    assert re.match(r"graph 0, 4 operators: 1 network\n  network 0: 4 operators, linear, relu, mul",
                    backend.report)  # fmt: skip


@pytest.mark.slow
def test_statistics_that_pytorch_changes_without_a_count() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()).eval()
    run, backend = compiled(module)
    x = torch.rand(6, 3)
    with torch.no_grad():
        for _ in range(3):
            check(run(x), module.eval()(x))
            module.train()(x * 2)
            module.eval()
    assert len(backend.graphs) == 1 and ": 1 network\n" in backend.report


@pytest.mark.slow
def test_sizes_that_pytorch_learns_in_the_graph() -> None:
    def joined(x: Any, y: Any) -> Any:
        return torch.relu(x) * 2 + y.view(4, 4)

    run, backend = compiled(joined)
    x = torch.rand(4, 4)
    with torch.no_grad():
        for y in (torch.rand(16), torch.rand(4, 4)):
            check(run(x, y), joined(x, y))
    assert len(backend.graphs) == 2 and ": 1 network" in str(backend.graphs[1].report)


@pytest.mark.slow
def test_a_number_that_differs_from_call_to_call() -> None:
    def shifted(x: Any, n: int) -> Any:
        return torch.relu(x * n) + 1

    run, backend = compiled(shifted)
    with torch.no_grad():
        for n in (2, 5, 7, 9):
            x = torch.rand(3, 4)
            check(run(x, n), shifted(x, n))
    assert ": 1 network\n" in str(backend.graphs[0].report)
    assert "is a number, which may differ" in str(backend.graphs[1].report)


@pytest.mark.slow
@pytest.mark.parametrize("of_input", [True, False], ids=["input", "output"])
def test_outputs_that_share_memory(of_input: bool) -> None:
    def changed(x: Any) -> Any:
        z = torch.relu(x) + 1
        y = (x if of_input else z).view(-1)
        torch._dynamo.graph_break()
        y.add_(1)
        return x + z

    run, backend = compiled(changed)
    x = torch.rand(3, 4)
    with torch.no_grad():
        check(run(x.clone()), changed(x.clone()))
    assert "left to PyTorch, since its output y shares memory with" in backend.report


@pytest.mark.slow
def test_strided_inputs() -> None:
    module = Head().eval()
    run, _ = compiled(module)
    with torch.no_grad():
        x = torch.rand(3, 2).t()
        check(run(x), module(x))


@pytest.mark.slow
def test_a_graph_that_records_a_gradient_is_left_to_pytorch() -> None:
    module, reports = Head(), []
    run, backend = compiled(module, report=reports.append)
    run(torch.rand(2, 3)).sum().backward()
    assert module.fc.weight.grad is not None
    assert reports == [backend.report] and "a gradient is recorded" in backend.report
    assert "torch.no_grad()" in backend.report
    assert backend.graphs[0].networks == []


@pytest.mark.slow
def test_operators_without_a_form_are_left_to_pytorch() -> None:
    module, reports = Divided().eval(), []
    run, backend = compiled(module, report=reports.append)
    with torch.no_grad():
        x = torch.rand(5, 4)
        for one, other in zip(run(x), module(x)):
            check(one, other)
        module.second.weight.add_(1)
        check(run(x)[0], module(x)[0])
    first, *lines = backend.report.splitlines()
    assert first == "graph 0, 8 operators: 2 networks, 2 operators left to PyTorch"
    assert lines[0] == "  network 0: 2 operators, linear, relu"
    assert "  PyTorch: linalg_qr, since this operator has no form here" in lines
    assert reports == [backend.report] and len(backend.graphs[0].networks) == 2


@pytest.mark.slow
def test_a_graph_of_any_size_is_divided() -> None:
    """Restrictions that PyTorch finds, such as at least three rows, are in the parts' sizes."""
    module = Divided().eval()
    run, backend = compiled(module)
    with torch.no_grad():
        for rows in (7, 8, 9, 23):
            x = torch.rand(rows, 4)
            for one, other in zip(run(x), module(x)):
                check(one, other)
    assert len(backend.graphs) == 2
    first, *lines = str(backend.graphs[1].report).splitlines()
    assert re.match(r"graph 1, 8 operators: 2 networks, . operators left .*, for any \w+$", first)
    assert lines[0] == "  network 0: 2 operators, linear, relu"
    assert "  PyTorch: linalg_qr, since this operator has no form here" in lines


def test_weights_that_were_made_in_inference_mode() -> None:
    with torch.inference_mode():
        weight = torch.rand(4)
    backend, x = Backend(target="python", database=None), torch.rand(2, 4)
    graph = torch.fx.symbolic_trace(lambda x, weight: torch.relu(x) * weight)
    node = next(n for n in graph.graph.nodes if n.name == "weight")
    node.meta["tensor_dict"] = {"_dynamo_static_input_type": "guarded"}
    with torch.inference_mode():
        run = backend(graph, [x, weight])
        for change in (1.0, 3.0, float("nan")):
            weight[0] *= change
            torch.testing.assert_close(run(x, weight), graph(x, weight), equal_nan=True)
        # a weight that is NaN is one that has not changed
        ready = backend.graphs[0]._ready
        run(x, weight)
        assert backend.graphs[0]._ready is ready
    assert "each call compares 1 weight with copies" in backend.report


def test_a_lazy_conjugate_is_equal_to_its_copy() -> None:
    weight = torch.rand(3, dtype=torch.complex64).conj()
    for value in (weight, weight.imag):
        for tensors in ([value], [value, value.clone()]):
            bits = Bits.of(tensors)
            assert bits.are_of([t.clone() for t in tensors])
            assert not bits.are_of([*tensors[:-1], value + 1])


def test_bits_of_several_tensors() -> None:
    """A zero's sign and a dtype are changes, NaN is not, and a copy stays what it was."""
    tensors = [torch.tensor([0.0, float("nan")]), torch.tensor([1.5]), torch.rand(0)]
    bits = Bits.of(tensors)
    assert bits.are_of([t.clone() for t in tensors])
    assert not bits.are_of([tensors[0], tensors[1].half(), tensors[2]])
    tensors[0].neg_()
    assert not bits.are_of(tensors)


def test_a_graph_that_calls_modules_is_left_to_pytorch() -> None:
    """They may train, and a later call may find other weights in them."""
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)).train()
    backend, x = sl.torch.Backend(target="python", database=None), torch.ones(4, 3)
    with torch.no_grad():
        run = backend(torch.fx.symbolic_trace(model), [x])
        assert "it calls its module 0" in backend.report and model[1].training
        model[0].weight.zero_()
        model[0].bias.zero_()
        assert not run(x).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "statistics", "meta", "weights alone", "one operator"])
def test_graphs_that_are_left_to_pytorch_whole(name: str) -> None:
    parts = {
        "random": (nn.Dropout(0.5), r"no form here"),
        "statistics": (nn.BatchNorm1d(3), r"forward changes the buffer"),
        "meta": (nn.Linear(3, 3, device="meta"), r"on meta, and its networks run on the CPU"),
        "weights alone": (_Alone(), "it has no inputs but weights"),
        "one operator": (_Complex(), "no computation|real numbers|complex|no form"),
    }
    module, message = parts[name]
    run, backend = compiled(module)
    x = torch.ones(4, 3, device="meta" if name == "meta" else "cpu")
    with torch.no_grad():
        result = run(x)
    assert result.shape == module(x).shape
    assert re.search(f"left to PyTorch, since .*({message})", backend.report), backend.report


class _Alone(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> Any:
        return self.weight * 2


class _Complex(nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return torch.fft.rfft(x).abs()


@pytest.mark.slow
def test_random_numbers_stay_random() -> None:
    run, _ = compiled(nn.Dropout(0.5))
    with torch.no_grad():
        x = torch.ones(64)
        assert not torch.equal(run(x), run(x))


def test_options_that_are_refused() -> None:
    with pytest.raises(CallTypeError, match="no option 'databse'; did you mean 'database'"):
        Backend(databse=None)
    with pytest.raises(CallTypeError, match=r"mean 'report'\?\n  The options are report, "):
        Backend(reprot=print)
    with pytest.raises(CallTypeError, match=r"report=True of the backend .* such as print"):
        Backend(report=True)
    with pytest.raises(BuildError, match="unknown target 'cud'"):
        Backend(target="cud")
    with pytest.raises(BuildError, match="this target runs kernels, and no networks"):
        Backend(target="opencl")
    with pytest.raises(BuildError, match="compiler='gcc' for target='python'"):
        Backend(target="python", compiler="gcc")
    with pytest.raises(BuildError, match="the backend schedlang.*progress=3"):
        Backend(progress=3)
    with pytest.raises(CallTypeError, match="has no mode 'max-autotune'"):
        compile_graph(None, (), mode="max-autotune")


def test_the_name_of_the_backend_is_an_entry_point() -> None:
    setup = configparser.ConfigParser()
    setup.read(Path(sl.__file__).parents[1] / "setup.cfg")
    name, _, value = setup["options.entry_points"]["torch_dynamo_backends"].strip().partition(" = ")
    assert name == "schedlang"
    assert EntryPoint(name, value, "torch_dynamo_backends").load() is compile_graph


@pytest.mark.slow
def test_options_by_name() -> None:
    reports: list[str] = []
    torch._dynamo.reset()
    module = Head().eval()
    run = torch.compile(
        module, backend=compile_graph,
        options={"target": "python", "database": None, "report": reports.append},
    )  # fmt: skip
    with torch.no_grad():
        x = torch.rand(2, 3)
        check(run(x), module(x))
        run(torch.rand(3, 3))
    # PyTorch's number of the model, and of its compilation
    numbers = [re.match(r"graph (\d+)/(\d+), 4 operators: 1 network", r) for r in reports]
    assert [n and n[2] for n in numbers] == ["0", "1"]
    # whole, and in parts
    for model, given in ((module, x), (Divided().eval(), torch.rand(5, 4))):
        torch._dynamo.reset()
        run = torch.compile(model, backend=Backend(target="python", database=3))
        with torch.no_grad(), pytest.raises(TuningError, match="database=3"):
            run(given)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet", "vit", "gpt"])
def test_models_are_one_network(name: str) -> None:
    module, x = {
        "resnet": lambda: (ResNet(bottleneck=True), torch.rand(1, 3, 32, 32)),
        "vit": lambda: (ViT(), torch.rand(1, 3, 32, 32)),
        "gpt": lambda: (GPTBlock(24, 3), torch.rand(2, 7, 24)),
    }[name]()
    module = randomized(module).eval()
    torch._dynamo.reset()
    backend = Backend()
    run = torch.compile(module, backend=backend, fullgraph=True)
    with torch.no_grad():
        check(run(x), module(x))
        assert len(backend.graphs) == 1 and ": 1 network\n" in backend.report
        assert "PyTorch:" not in backend.report
        own = sl.network(sl.frontend.from_torch(module, x))
        (net,) = backend.graphs[0].networks
        assert [part.kind for part in net.partition] == [part.kind for part in own.partition]
