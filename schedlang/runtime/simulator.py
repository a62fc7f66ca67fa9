"""A simulator that runs emitted GPU source in plain Python: slow, but a debugger can stop in it.

It runs the file that numba.cuda compiles. Each thread is a generator. It yields at
``cuda.syncthreads()``, and goes on when all threads of its block have come there. At ``exchange``,
``multiply_fragments`` and ``load_matrix`` it waits for the threads of its warp, so that a warp may
take a branch that others do not. Lines keep their numbers, so that breakpoints in the file work.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np

from schedlang.errors import VerifyError
from schedlang.expr.dtypes import array_dtype
from schedlang.instructions.declaration import Instruction, ValueEmission
from schedlang.instructions.emission import Assembly, Intrinsic, in_order
from schedlang.instructions.fragments import WARP, Fragment, WarpAssembly
from schedlang.instructions.python_function import PythonFunction
from schedlang.intrinsics.twins import gpu as twins
from schedlang.intrinsics.twins.memory import POISON
from schedlang.machine.evaluate import declared_value
from schedlang.parsing import parse_source

BARRIER = "barrier"


def launcher(path: Path, instructions: Iterable[Instruction] = ()) -> Callable[..., None]:
    """Return the function ``launch`` of an emitted file, for NumPy arrays.

    The ``instructions`` in it compute what they declare.
    """
    used = list(instructions)
    of_warps = {str(d.emit["cuda"]): d for d in used if d.of_warp and not d.loads_matrices}
    space = simulate_file(path, of_warps)
    space.update(_as_declared(d for d in used if not d.of_warp))
    return space["launch"]


def _as_declared(instructions: Iterable[Instruction]) -> dict[str, Callable[..., Any]]:
    """Return what the calls of instructions in a file run, by name."""
    functions: dict[str, Callable[..., Any]] = {}
    by_texts: dict[tuple[str, ...], Callable[..., Any]] = {}
    for declared in instructions:
        emission = declared.emit["cuda"]
        assert isinstance(emission, (Intrinsic, Assembly, PythonFunction))
        call, run = emission.call(declared), partial(_declared, declared, emission)
        if call.definition:
            functions[call.name] = run
        else:
            by_texts[call.texts] = run
            functions[call.name] = lambda *given: by_texts[given[:-1]](*given[-1])
    return functions


def _declared(declared: Instruction, emission: ValueEmission, *operands: Any) -> Any:
    """Return what an instruction declares of operands in the order of its emission."""
    positions = in_order(emission, range(len(operands)))
    placed = sorted(zip(positions, operands), key=lambda pair: pair[0])
    return declared_value(declared, [operand for _, operand in placed])


def simulate_file(
    path: Path, of_warps: Mapping[str, Instruction] = MappingProxyType({})
) -> dict[str, Any]:
    """Return what an emitted file defines, by name; its kernels take NumPy arrays.

    ``of_warps`` are the instructions of whole warps in it, by their mnemonics.
    """
    tree = parse_source(path.read_text(encoding="utf-8"), str(path))
    tree.body = [n for n in tree.body if not isinstance(n, (ast.Import, ast.ImportFrom))]
    imported = {name: getattr(twins, name) for name in dir(twins)}
    device = Device(of_warps)
    namespace: dict[str, Any] = {
        **imported, "inf": float("inf"), "nan": float("nan"), "np": np, "cuda": device,
        "SimpleNamespace": SimpleNamespace, "Product": Product, "Rows": Rows,
    }  # fmt: skip
    tree = ast.fix_missing_locations(_YieldInsert().visit(tree))
    exec(compile(tree, str(path), "exec"), namespace)
    return namespace


class _YieldInsert(ast.NodeTransformer):
    """A transformation that makes threads yield where they wait for others."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if node.decorator_list:
            # makes the kernel a generator even if no thread waits
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
        if name == "multiply_fragments":
            request = ast.Call(ast.Name("Product", ast.Load()), node.args, [])
            return ast.copy_location(ast.Yield(request), node)
        if name in ("load_matrix", "load_matrix_transposed"):
            transposed = ast.Constant(name != "load_matrix")
            request = ast.Call(ast.Name("Rows", ast.Load()), [*node.args, transposed], [])
            return ast.copy_location(ast.Yield(request), node)
        return node


Thread = Generator[Any, Any, None]


@dataclass(frozen=True, eq=False)
class Product:
    """The request of a thread: an instruction of its warp, and the registers of its operands."""

    mnemonic: str
    operands: tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Rows:
    """The request of a thread: its part of matrices, and the start of the row that it gives."""

    into: np.ndarray
    at: int
    source: np.ndarray
    start: int
    count: int
    transposed: bool


class Device:
    """The stand-in for ``numba.cuda``: indices of the running thread, arrays, kernels."""

    def __init__(self, of_warps: Mapping[str, Instruction]) -> None:
        self.of_warps = of_warps
        self.blockIdx = SimpleNamespace(x=0, y=0, z=0)
        self.threadIdx = SimpleNamespace(x=0, y=0, z=0)
        self.shared = SimpleNamespace(array=self._shared)
        self.local = SimpleNamespace(array=_fresh)
        self._shared_arrays: list[np.ndarray] = []
        self._position = 0
        self._dynamic = np.zeros(0, "uint8")

    def jit(self, **_: Any) -> Callable[[Callable[..., Thread]], Kernel]:
        return lambda function: Kernel(self, function)

    def device_array(self, shape: Any, dtype: Any, stream: Any = 0) -> np.ndarray:
        return _fresh(shape, dtype)

    def _shared(self, size: int, dtype: Any, alignment: int = 0) -> np.ndarray:
        """Return the next shared array of a block; its threads ask for them in the same order."""
        if not size:
            # dynamic shared memory is one array
            return self._dynamic.view(dtype)
        if self._position == len(self._shared_arrays):
            self._shared_arrays.append(_fresh(size, dtype))
        array = self._shared_arrays[self._position]
        self._position += 1
        return array

    def start_block(self, dynamic_bytes: int) -> None:
        self._shared_arrays = []
        self._dynamic = np.full(dynamic_bytes, POISON["uint8"], "uint8")

    def start_thread(self, place: Sequence[int]) -> None:
        self._position = 0
        self.threadIdx.x, self.threadIdx.y, self.threadIdx.z = place


def _fresh(size: Any, dtype: Any, alignment: int = 0) -> np.ndarray:
    """Return an array of poison values, which make a read before the first write show."""
    kind = np.dtype(dtype)
    return np.full(size, POISON[kind.name], kind)


class Kernel:
    """A simulated kernel; ``kernel[grid, block, stream](*args)`` runs it block by block."""

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
        warps = [slice(first, first + WARP) for first in range(0, len(threads), WARP)]
        while True:
            ends = [self.warp(threads[warp], places[warp]) for warp in warps]
            if len({*ends}) > 1:
                raise VerifyError(_apart(self.function.__name__))
            if ends[0] is StopIteration:
                return

    def warp(self, threads: Sequence[Thread], places: Sequence[Sequence[int]]) -> Any:
        """Run the threads of a warp to the next barrier, or to their end; return which it is."""
        device, name = self.device, self.function.__name__
        answers: Sequence[Any] = [None] * len(threads)
        while True:
            requests: list[Any] = []
            for thread, place, answer in zip(threads, places, answers):
                device.start_thread(place)
                try:
                    requests.append(thread.send(answer))
                except StopIteration:
                    requests.append(StopIteration)
            kinds = {type(a) for a in requests}
            ends = [r for r in requests if r is StopIteration or r == BARRIER]
            if len(ends) == len(requests) and len({*ends}) == 1:
                return ends[0]
            if len(kinds) > 1 or ends:
                apart = len(ends) == len(requests)
                raise VerifyError(_apart(name) if apart else _of_some(name))
            if kinds == {tuple}:
                answers = _exchanged(requests)
            elif kinds == {Product}:
                answers = _multiplied(requests, device.of_warps)
            else:
                answers = _loaded(requests)


def _apart(name: str) -> str:
    return f"{name}: some threads of a block wait at a barrier that others do not reach"


def _of_some(name: str) -> str:
    return (
        f"{name}: some threads of a warp come to an exchange or an instruction of the whole warp "
        "that others do not reach"
    )


def _multiplied(
    requests: Sequence[Product], of_warps: Mapping[str, Instruction]
) -> list[np.ndarray]:
    """Return the registers of the result of each thread, whose warps compute one instruction."""
    answers: list[np.ndarray] = []
    for first in range(0, len(requests), WARP):
        warp = requests[first : first + WARP]
        (mnemonic,) = {request.mnemonic for request in warp}
        declared = of_warps[mnemonic]
        emission = declared.emit["cuda"]
        assert isinstance(emission, WarpAssembly)
        tensors = (declared.output, *declared.operands)
        tiles = []
        for tensor, fragment, *rows in zip(
            tensors, emission.fragments, *(request.operands for request in warp)
        ):
            tile = np.empty(fragment.shape, array_dtype(tensor.dtype))
            tile[_holders(fragment)] = np.stack(rows).view(tile.dtype)
            tiles.append(tile)
        result = declared_value(declared, tiles)
        answers += list(result[_holders(emission.fragments[0])])
    return answers


def _loaded(requests: Sequence[Rows]) -> list[None]:
    """Give each thread its part of the matrices that its warp loads, as PTX ISA draws it."""
    unit = 16 // requests[0].source.itemsize
    each = 4 // requests[0].source.itemsize
    for first in range(0, len(requests), WARP):
        warp = requests[first : first + WARP]
        for lane, own in enumerate(warp):
            for place in range(own.count):
                matrix, part = divmod(place, each)
                row, column = lane // 4, lane % 4 * each + part
                if own.transposed:
                    row, column = column, row
                start = warp[8 * matrix + row].start
                twins.aligned(start, unit)
                own.into[own.at + place] = own.source[start + column]
    return [None] * len(requests)


def _holders(fragment: Fragment) -> tuple[np.ndarray, ...]:
    """Return the indices of the elements by lane and register."""
    return fragment.element(*np.indices((WARP, fragment.registers)))


def _exchanged(requests: Sequence[tuple[Any, int]]) -> list[Any]:
    """Return for each thread the value of the thread whose number differs in one bit."""
    partners = [number ^ distance for number, (_, distance) in enumerate(requests)]
    if max(partners) >= len(requests):
        raise VerifyError("a thread exchanges a value with an inactive thread of its warp")
    return [requests[p][0] for p in partners]
