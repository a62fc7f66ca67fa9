"""``torch.compile(model, backend="schedlang")``: graphs of PyTorch as networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

from schedlang.errors import CallTypeError, SchedlangError, TuningError, nearest
from schedlang.frontend.torch.module import from_torch
from schedlang.markup.progress import check_setting
from schedlang.networks.entry import network, target_of_network
from schedlang.torch.graphs import Bound, bound, is_weight, number_among, shared_output
from schedlang.torch.parts import divided
from schedlang.torch.report import GraphReport

# arguments of sl.network that are options of the backend, beside report
_OF_NETWORK = (
    "target", "database", "fold", "layouts", "winograd", "flush_denormals", "progress", "compiler",
)  # fmt: skip

# elements of a tensor that is compared with others: a copy of it costs less than a call of PyTorch
SHORT = 4096


class Backend:
    """A backend of ``torch.compile`` that runs graphs as networks: give it as ``backend=``.

    ``backend="schedlang"`` is the same, with ``options={...}`` for the arguments here, and with
    ``options={"report": print}``, a function that is called with the report of each graph.

    PyTorch cuts a model into graphs. At the first call of a graph, ``sl.frontend.from_torch``
    imports it, and it becomes one network; a graph with operators without a form becomes several,
    and PyTorch runs the rest. PyTorch runs a whole graph if a gradient is recorded, if it draws
    random numbers or changes its buffers, or if its tensors are not in the memory of the CPU.
    ``report`` says which, and why. A size that PyTorch makes symbolic is one in the network.

    A network has a copy of the weights. A call makes it anew after a change of a weight that
    PyTorch counts, as by ``load_state_dict``, an optimizer, or ``weight.copy_``, and of the
    statistics of a batch normalization. PyTorch counts no changes of weights that were made under
    ``torch.inference_mode()``, as by ``model.half()`` there: each call compares them with a copy,
    and the report says so. Changes through ``weight.data`` or a NumPy array are not seen: call
    ``torch.compiler.reset()`` after them.

    ``target`` and ``options`` are arguments of :func:`schedlang.network`. Raises
    :class:`~schedlang.errors.CallTypeError` for other options, and
    :class:`~schedlang.errors.BuildError` for a target that is unknown or runs no networks, and for
    a compiler that it lacks.

    >>> import schedlang as sl
    >>> backend = sl.torch.Backend()
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    >>> compiled = torch.compile(model, backend=backend)
    >>> with torch.no_grad():
    ...     same = torch.allclose(compiled(torch.ones(2, 4)), model(torch.ones(2, 4)), atol=1e-6)
    >>> same, print(backend.report)
    graph 0, 2 operators: 1 network
      network 0: 2 operators, linear, relu
    (True, None)
    """

    __name__ = "schedlang"

    def __init__(self, *, report: Callable[[str], Any] | None = None, **options: Any) -> None:
        for name in options:
            if name not in _OF_NETWORK:
                every = ("report", *_OF_NETWORK)
                raise CallTypeError(
                    f"the backend schedlang has no option {name!r}{nearest(name, every)}\n"
                    f"  The options are {', '.join(every)}."
                )
        if report is not None and not callable(report):
            raise CallTypeError(
                f"the option report={report!r} of the backend schedlang is not a function of text; "
                "give one, such as print"
            )
        # a graph whose network is refused is left to PyTorch, which would hide these
        target_of_network(options.get("target"), options.get("compiler", ""))
        check_setting("the backend schedlang", options.get("progress"))
        self._tell = report
        self._options = options
        self.graphs: list[CompiledGraph] = []

    @property
    def report(self) -> str:
        """The reports of all graphs so far, as text."""
        return "\n".join(str(graph.report) for graph in self.graphs)

    def __call__(self, graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return self.graph(f"graph {len(self.graphs)}", graph_module, example_inputs)

    def graph(self, name: str, graph_module: Any, example_inputs: Sequence[Any]) -> CompiledGraph:
        """Return what runs a graph, which reports call ``name``."""
        graph = CompiledGraph(name, graph_module, self._options, self._tell)
        self.graphs.append(graph)
        graph.leave_to_pytorch(_reason(graph_module, example_inputs))
        return graph


def compile_graph(
    graph_module: Any,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Return what ``torch.compile(..., backend="schedlang")`` calls for a graph."""
    if mode not in (None, "default"):
        raise CallTypeError(
            f"the backend schedlang has no mode {mode!r}: leave mode= out, and give options="
        )
    from torch._guards import CompileContext

    # PyTorch makes no backend of its own for each model: its number of a graph tells them apart
    number = CompileContext.current_compile_id()
    name = f"graph {0 if number is None else number}"
    return Backend(**(options or {})).graph(name, graph_module, example_inputs)


@dataclass(frozen=True, eq=False)
class Bits:
    """A copy of the bits of tensors of one dtype, one behind the other: NaN equals itself."""

    dtype: Any
    words: Any

    @staticmethod
    def of(tensors: Sequence[Any]) -> Bits:
        """Return the bits of tensors: one of any shape, or several of one dimension."""
        return Bits(tensors[0].dtype, _words(tensors).clone())

    def are_of(self, tensors: Sequence[Any]) -> bool:
        """Return whether tensors have these bits."""
        import torch

        same = all(t.dtype == self.dtype for t in tensors)
        return same and bool(torch.equal(_words(tensors), self.words))


@dataclass(frozen=True, eq=False)
class Ready:
    """A function that runs a graph, and the positions of its inputs among the graph's.

    ``weights`` are those for which it holds: positions, tensors, and PyTorch's count of changes.
    ``compared`` are those that may change without a count, by groups of positions, with their bits.
    """

    run: Callable[..., Any]
    inputs: tuple[int, ...]
    weights: tuple[tuple[int, Any, int], ...] = ()
    compared: tuple[tuple[tuple[int, ...], Bits], ...] = ()

    def holds(self, args: Sequence[Any]) -> bool:
        """Return whether the weights among the graph's inputs are the same as before."""
        return all(args[k] is w and w._version == v for k, w, v in self.weights) and all(
            bits.are_of([args[k] for k in positions]) for positions, bits in self.compared
        )


@dataclass(eq=False)
class CompiledGraph:
    """A graph of ``torch.compile``: call it with the inputs of the graph."""

    name: str
    graph_module: Any
    options: Mapping[str, Any]
    tell: Callable[[str], Any] | None
    report: GraphReport | str = ""
    _ready: Ready | None = None
    _lock: Any = field(default_factory=RLock)

    def __post_init__(self) -> None:
        self.report = f"{self.name}: not called yet"

    @property
    def networks(self) -> list[Any]:
        """The networks of the graph, none before its first call."""
        return [] if self._ready is None else list(getattr(self._ready.run, "networks", ()))

    def __call__(self, *args: Any) -> Any:
        ready = self._ready
        if ready is None or not ready.holds(args):
            ready = self._prepare(args)
        return ready.run(*[args[k] for k in ready.inputs])

    def leave_to_pytorch(self, why: str) -> None:
        """Let PyTorch run the whole graph for the reason ``why``, if there is one."""
        if why:
            graph = self.graph_module.graph
            self._told(GraphReport(self.name, len(_calls(graph)), why=why))
            self._ready = Ready(self.graph_module.forward, tuple(range(len(_placeholders(graph)))))

    def _prepare(self, args: Sequence[Any]) -> Ready:
        from torch._dynamo.convert_frame import compile_lock

        # an export changes classes of PyTorch for a moment, which a compilation of PyTorch reads
        with compile_lock, self._lock:
            if self._ready is not None and self._ready.holds(args):
                # another thread was first
                return self._ready
            own = bound(self.graph_module, args)
            # before the import, which another thread's changes may meet
            copies = tuple((g, Bits.of([args[k] for k in g])) for g in _groups(own.uncounted, args))
            counts = {k: w._version for k, w in own.weights.items() if not w.is_inference()}
            run, report = self._networks(own, [args[k] for k in own.inputs])
            if run is None:
                self.leave_to_pytorch(report.why)
            else:
                compared = sum(w.is_inference() for w in own.weights.values())
                self._told(replace(report, compared=compared))
                counted = tuple((k, own.weights[k], count) for k, count in counts.items())
                self._ready = Ready(run, own.inputs, counted, copies)
            assert self._ready is not None
            return self._ready

    def _networks(
        self, own: Bound, inputs: Sequence[Any]
    ) -> tuple[Callable[..., Any] | None, GraphReport]:
        """Return what runs the graph, and the report; ``None`` if PyTorch has to."""
        names = [_operator(node) for node in _calls(self.graph_module.graph)]
        sizes = sorted({name for dimensions in own.dynamic for name in dimensions.values()})
        dynamic = [d or None for d in own.dynamic] if sizes else None
        try:
            imported = from_torch(own.module, tuple(inputs), dynamic_shapes=dynamic)
            net = network(imported, name="graph", **self.options)
            return Whole(net), GraphReport(self.name, len(names), [names], sizes=sizes)
        except TuningError:
            # of the database, an option of the user's
            raise
        except SchedlangError:
            return divided(self.name, own.module, tuple(inputs), dynamic, self.options)

    def _told(self, report: GraphReport) -> None:
        if str(report) != str(self.report) and self.tell is not None:
            self.tell(str(report))
        self.report = report


@dataclass(frozen=True)
class Whole:
    """A network that computes a whole graph."""

    network: Any

    @property
    def networks(self) -> list[Any]:
        return [self.network]

    def __call__(self, *args: Any) -> Any:
        return self.network(*[a if a.is_contiguous() else a.contiguous() for a in args])


def _words(tensors: Sequence[Any]) -> Any:
    """Return the elements of tensors as integers, in a copy if there are several."""
    import torch

    joined = tensors[0] if len(tensors) == 1 else torch.cat([*tensors])
    # a view may be conjugate or negative lazily, which its bits do not say
    joined = joined.resolve_conj().resolve_neg()
    if joined.is_complex():
        joined = torch.view_as_real(joined)
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return joined.view(words[joined.element_size()])


def _groups(positions: Sequence[int], args: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return the positions of tensors by groups that are compared in one call of PyTorch."""
    groups: dict[Any, list[int]] = {}
    for k in positions:
        is_short = args[k].dim() == 1 and args[k].numel() <= SHORT
        groups.setdefault(args[k].dtype if is_short else k, []).append(k)
    return [tuple(group) for group in groups.values()]


def _reason(graph_module: Any, example_inputs: Sequence[Any]) -> str:
    """Return why PyTorch has to run a graph, "" if it need not."""
    import torch

    tensors = [v for v in example_inputs if isinstance(v, torch.Tensor)]
    if torch.is_grad_enabled() and any(v.requires_grad for v in tensors):
        return (
            "a gradient is recorded, and a network has none: for inference, call the model under "
            "torch.no_grad() or torch.inference_mode()"
        )
    if any(v.device.type != "cpu" for v in tensors):
        device = next(v.device for v in tensors if v.device.type != "cpu")
        return f"a tensor is on {device}, and its networks run on the CPU"
    if not _calls(graph_module.graph):
        return "it has no operators"
    inputs = zip(_placeholders(graph_module.graph), example_inputs)
    if not any(isinstance(v, torch.Tensor) and not is_weight(n, v) for n, v in inputs):
        return "it has no inputs but weights"
    module = next((n.target for n in graph_module.graph.nodes if n.op == "call_module"), None)
    if module is not None:
        return f"it calls its module {module}, whose weights and mode a later call may find changed"
    number = number_among(graph_module.graph, example_inputs)
    if number:
        return f"its input {number} is a number, which may differ from call to call"
    shared = shared_output(graph_module.graph)
    if shared is not None:
        return f"its output {shared[0]} shares memory with {shared[1]}, and a network copies"
    return ""


def _calls(graph: Any) -> list[Any]:
    return [node for node in graph.nodes if node.op.startswith("call_")]


def _operator(node: Any) -> str:
    """Return the operator, the method or the layer that a node calls."""
    return str(getattr(node.target, "__name__", node.target))


def _placeholders(graph: Any) -> list[Any]:
    return [node for node in graph.nodes if node.op == "placeholder"]


__all__ = ["Backend"]
