"""Emitted GPU source run in plain Python, a generator a thread: slow, and open to a debugger.

The file is the one that numba.cuda compiles. Where it says ``cuda.syncthreads()`` a thread yields,
and goes on when all threads of its block are there; ``exchange`` yields too. Lines keep their
numbers, so that breakpoints in the file hold.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from schedlang.errors import VerifyError
from schedlang.runtime import device_twins
from schedlang.runtime.twins import POISON

BARRIER = "barrier"


def launcher(path: Path) -> Callable[..., None]:
    """Return the function ``launch`` of an emitted file, over NumPy arrays."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    tree.body = [n for n in tree.body if not isinstance(n, (ast.Import, ast.ImportFrom))]
    imported = {name: getattr(device_twins, name) for name in dir(device_twins)}
    device = Device()
    space: dict[str, Any] = {
        **imported, "inf": float("inf"), "nan": float("nan"), "np": np, "cuda": device
    }  # fmt: skip
    exec(compile(ast.fix_missing_locations(_Waits().visit(tree)), str(path), "exec"), space)
    launch: Callable[..., None] = space["launch"]
    return launch


class _Waits(ast.NodeTransformer):
    """Makes threads yield where they wait for others."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if node.decorator_list:
            # a kernel is a generator even where nothing waits
            last = ast.If(ast.Constant(False), [ast.Expr(ast.Yield(None))], [])
            node.body.append(ast.copy_location(last, node.body[-1]))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name == "cuda.syncthreads":
            return ast.copy_location(ast.Yield(ast.Constant(BARRIER)), node)
        if name == "exchange":
            return ast.copy_location(ast.Yield(ast.Tuple(node.args, ast.Load())), node)
        return node


Thread = Generator[Any, Any, None]


class Device:
    """Stands for ``numba.cuda``: indices of the thread that runs, arrays, kernels."""

    def __init__(self) -> None:
        self.blockIdx = SimpleNamespace(x=0, y=0, z=0)
        self.threadIdx = SimpleNamespace(x=0, y=0, z=0)
        self.shared = SimpleNamespace(array=self._shared)
        self.local = SimpleNamespace(array=_fresh)
        self._made: list[np.ndarray] = []
        self._position = 0
        self._dynamic = np.zeros(0, "uint8")

    def jit(self, **_: Any) -> Callable[[Callable[..., Thread]], Kernel]:
        return lambda function: Kernel(self, function)

    def device_array(self, shape: Any, dtype: Any, stream: Any = 0) -> np.ndarray:
        return _fresh(shape, dtype)

    def _shared(self, size: int, dtype: Any, alignment: int = 0) -> np.ndarray:
        """Return the arrays of a block, which its threads ask for in one order."""
        if not size:
            # what a launch gives beyond the static limit is one piece of memory
            return self._dynamic.view(dtype)
        if self._position == len(self._made):
            self._made.append(_fresh(size, dtype))
        found = self._made[self._position]
        self._position += 1
        return found

    def start_block(self, dynamic_bytes: int) -> None:
        self._made = []
        self._dynamic = np.full(dynamic_bytes, POISON["uint8"], "uint8")

    def start_thread(self, place: Sequence[int]) -> None:
        self._position = 0
        self.threadIdx.x, self.threadIdx.y, self.threadIdx.z = place


def _fresh(size: Any, dtype: Any, alignment: int = 0) -> np.ndarray:
    """Return storage that shows when it is read before it is written."""
    kind = np.dtype(dtype)
    return np.full(size, POISON[kind.name], kind)


class Kernel:
    """A kernel; ``kernel[grid, block, stream](*args)`` runs it block by block."""

    def __init__(self, device: Device, function: Callable[..., Thread]) -> None:
        self.device = device
        self.function = function

    def __getitem__(self, where: tuple[Any, ...]) -> Callable[..., None]:
        grid, block = ((*size, 1, 1)[:3] for size in where[:2])
        dynamic_bytes = where[3] if len(where) > 3 else 0

        def run(*args: Any) -> None:
            for z, y, x in product(*(range(n) for n in reversed(grid))):
                place = self.device.blockIdx
                place.x, place.y, place.z = x, y, z
                self.block(block, args, dynamic_bytes)

        return run

    def block(self, extents: Sequence[int], args: Sequence[Any], dynamic_bytes: int) -> None:
        device = self.device
        device.start_block(dynamic_bytes)
        places = [p[::-1] for p in product(*(range(n) for n in reversed(extents)))]
        threads = [self.function(*args) for _ in places]
        answers: list[Any] = [None] * len(threads)
        while True:
            asked: list[Any] = []
            for thread, place, answer in zip(threads, places, answers):
                device.start_thread(place)
                try:
                    asked.append(thread.send(answer))
                except StopIteration:
                    asked.append(StopIteration)
            kinds = {type(a) for a in asked}
            if len(kinds) > 1 or (kinds != {tuple} and len(set(asked)) > 1):
                raise VerifyError(
                    f"{self.function.__name__}: some threads of a block wait at a barrier that "
                    "others do not reach"
                )
            if asked[0] is StopIteration:
                return
            answers = _exchanged(asked) if kinds == {tuple} else [None] * len(threads)


def _exchanged(asked: Sequence[tuple[Any, int]]) -> list[Any]:
    """Return for each thread the value of the thread whose number differs in one bit."""
    partners = [number ^ distance for number, (_, distance) in enumerate(asked)]
    if max(partners) >= len(asked):
        raise VerifyError("a thread exchanges a value with an inactive thread of its warp")
    return [asked[p][0] for p in partners]


__all__ = ["launcher"]
