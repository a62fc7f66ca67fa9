"""The peers: the implementations of the table, and the modules that have their code.

A peer's module has ``prepare(implementation, work, arrays, outs)``, which returns the call to
time. A call either writes ``outs`` and returns ``None``, or returns its results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from benchmarks.works import Work

Call = Callable[[], object]
# the threads of every implementation
THREADS = 2


@dataclass(frozen=True)
class Peer:
    """One implementation: its module, the packages it needs, and the kinds of work it has.

    Without ``kinds`` it has all kinds of the table of ``benchmarks/cpu.py``. ``families`` adds the
    kinds of ``works/families.py``.
    """

    implementation: str
    module: str
    packages: tuple[str, ...]
    kinds: frozenset[str] = frozenset()
    families: bool = False

    def has(self, work: Work) -> bool:
        if work.kind.startswith("family_"):
            return self.families
        return not self.kinds or work.kind in self.kinds

    def missing(self) -> str:
        absent = [p for p in self.packages if find_spec(p) is None]
        return f"{absent[0]} is not installed" if absent else ""


PEERS = (
    Peer("NumPy", "numpy_peer", ("numpy",)),
    Peer("numba loops", "numba_loops", ("numba",), families=True),
    Peer("torch eager", "torch_peer", ("torch",)),
    Peer("torch.compile", "torch_peer", ("torch",)),
    Peer("Halide Mullapudi2016", "halide_peer", ("halide",), families=True),
    Peer("Halide Adams2019", "halide_peer", ("halide",), families=True),
    Peer("Halide by hand", "halide_peer", ("halide",), frozenset({"box_blur", "jacobi", "chain"})),
)

__all__ = ["PEERS", "THREADS", "Call", "Peer"]
