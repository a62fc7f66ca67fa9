"""Reports: which operators of a graph run as networks, and which ones PyTorch runs, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schedlang.errors import amount, first_line


@dataclass(frozen=True)
class GraphReport:
    """The parts of one graph of ``torch.compile``.

    ``networks`` has the operators of each network, and ``eager`` the reason for each operator that
    PyTorch runs. ``why`` is the reason if PyTorch runs the whole graph, of ``count`` operators.
    ``sizes`` are the graph's symbolic ones, and ``compared`` is the number of weights that each
    call compares with copies.
    """

    name: str
    count: int
    networks: Sequence[Sequence[str]] = ()
    eager: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    sizes: Sequence[str] = ()
    compared: int = 0

    def __str__(self) -> str:
        """Return the report as text.

        >>> print(GraphReport("graph 0", 3, [["linear", "relu"]], {"sort_1": "no form here"}))
        graph 0, 3 operators: 1 network, 1 operator left to PyTorch
          network 0: 2 operators, linear, relu
          PyTorch: sort_1, since no form here
        >>> print(GraphReport("graph 1", 1, why="a gradient is recorded"))
        graph 1, 1 operator: left to PyTorch, since a gradient is recorded
        """
        title = f"{self.name}, {amount(self.count, 'operator')}"
        if self.why:
            return f"{title}: left to PyTorch, since {self.why}"
        left = f", {amount(len(self.eager), 'operator')} left to PyTorch" if self.eager else ""
        sizes = f", for any {', '.join(self.sizes)}" if self.sizes else ""
        lines = [f"{title}: {amount(len(self.networks), 'network')}{left}{sizes}"]
        for k, names in enumerate(self.networks):
            listed = ", ".join(names if len(names) <= 6 else [*names[:3], "...", *names[-2:]])
            lines.append(f"  network {k}: {amount(len(names), 'operator')}, {listed}")
        lines += [f"  PyTorch: {name}, since {why}" for name, why in self.eager.items()]
        if self.compared:
            lines.append(
                f"  each call compares {amount(self.compared, 'weight')} with copies: PyTorch "
                "counts no changes of tensors made under torch.inference_mode()"
            )
        return "\n".join(lines)


def reason_of(error: Exception) -> str:
    """Return the reason that an error gives, without what was asked.

    >>> from schedlang.errors import FrontendError
    >>> reason_of(FrontendError("from_torch: aten.sort, node sort: no form here\\n  Write it."))
    'no form here'
    """
    return first_line(error).rpartition(": ")[2]
