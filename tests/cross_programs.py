"""Programs of C for another processor: many kernels in one, run by an emulator with their data."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from random import Random
from shutil import which
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.expr.dtypes import register_dtype
from schedlang.ir.interpret import cooperative
from schedlang.ir.nest import Nest
from schedlang.lowering.lower import lower_state
from schedlang.runtime.c_toolchain import toolchain
from tests.fuzz.arguments import arguments
from tests.fuzz.case import COMPLEX_SHARE, MOST_ITERATIONS, given_arrays, iterations, oracle
from tests.fuzz.compare import expected
from tests.fuzz.graphs import build, random_graph
from tests.fuzz.inputs import arrays
from tests.fuzz.record import Case
from tests.fuzz.search import FEWEST, schedule_randomly
from tests.fuzz.steps import bound

ARM, WASM = "aarch64-linux-musl", "wasm32-wasi"
needs_zig = pytest.mark.skipif(find_spec("ziglang") is None, reason="ziglang is not installed")
needs_qemu = pytest.mark.skipif(which("qemu-aarch64") is None, reason="there is no qemu-aarch64")
needs_wasmtime = pytest.mark.skipif(
    find_spec("wasmtime") is None, reason="wasmtime is not installed"
)
UNWRITTEN = 77
# the static names of a file, which are the same in each
_STATIC = re.compile(r"\b((?:sl|run)_\w+|SL_RELEASED)")
_HEAD = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
static void *filled(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (!p || fread(p, 1, bytes, stdin) != bytes) exit(1);
  return p;
}
static void written(const void *p, size_t bytes) {
  if (fwrite(p, 1, bytes, stdout) != bytes) exit(2);
}
"""


@dataclass
class Program:
    """A program in ``folder`` for ``target``, which calls kernels with the data of its input."""

    folder: Path
    target: sl.Target
    sources: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    outputs: list[list[np.ndarray]] = field(default_factory=list)

    def add(self, kernel: Any, args: Sequence[Any]) -> None:
        """Save ``kernel``, and call it with ``args``, as a call in Python would."""
        name = f"k{len(self.sources)}"
        source = kernel.save(self.folder / f"{name}.c").read_text()
        # nothing here calls the form that checks tensors, and it takes most of the time to compile
        source = source[: source.index(f"\nint {name}_checked(")]
        self.sources.append(_STATIC.sub(rf"\1_{name}", source))
        checked = kernel._checked(args, {})
        given, outputs = list[str](), list[np.ndarray]()
        lines = [f"static void call_{name}(void) {{"]
        flat = kernel._flat(checked.arrays, checked.sizes)
        parameters = [*kernel.signature.parameters, *[None] * len(kernel.signature.sizes)]
        for position, (value, p) in enumerate(zip(flat, parameters)):
            own = f"a{position}"
            is_number = p is None or p.is_scalar
            if is_number:
                kind = np.dtype("int64" if p is None else register_dtype(p.dtype))
                value = np.array(value, kind)
            elif p.is_output:
                value.view("uint8")[...] = UNWRITTEN
                outputs.append(value)
            lines.append(f"  void *{own} = filled({value.nbytes});")
            given.append(f"*({_c_type(value.dtype)} *){own}" if is_number else own)
            self.data.append(value.tobytes())
        lines.append(f"  int code = {name}({', '.join(given)});\n  written(&code, 4);")
        for position, (value, p) in enumerate(zip(flat, parameters)):
            if p is not None and p.is_output:
                lines.append(f"  written(a{position}, {value.nbytes});")
        self.calls.append("\n".join([*lines, "}"]))
        self.outputs.append([out for out, p in zip(checked.arrays, parameters) if p.is_output])

    def run(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Compile the program, run it, and yield the outputs of each kernel."""
        calls = "".join(f"  call_k{k}();\n" for k in range(len(self.calls)))
        # one file, since a compiler that starts for each would take most of the time
        text = [*self.sources, _HEAD, *self.calls, f"int main(void) {{\n{calls}}}\n"]
        main = self.folder / "main.c"
        main.write_text("\n".join(text))
        tools, program = toolchain(self.target), self.folder / "program"
        files = [str(main), "-lm", "-o", str(program)]
        command = [*tools.command, *tools.options(False), *files]
        built = subprocess.run(command, capture_output=True, text=True)
        assert built.returncode == 0, built.stderr
        said = emulated(self.target.triple, program, b"".join(self.data))
        at = 0
        for outputs in self.outputs:
            assert int.from_bytes(said[at : at + 4], "little") == 0
            at += 4
            results = []
            for like in outputs:
                results.append(
                    np.frombuffer(said, like.dtype, like.size, at).reshape(like.shape)
                )
                at += like.nbytes
            yield tuple(results)
        assert at == len(said)


def _c_type(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "b":
        return "uint8_t"
    return {"float32": "float", "float64": "double"}.get(dtype.name, f"{dtype.name}_t")


def emulated(triple: str, program: Path, data: bytes = b"", args: Sequence[str] = ()) -> bytes:
    """Return what a program for ``triple`` writes if it reads ``data``, run in its folder."""
    if triple.startswith("wasm32"):
        return _by_wasmtime(program, data, args)
    ran = subprocess.run(
        [f"qemu-{triple.partition('-')[0]}", "-cpu", "max,sve-default-vector-length=32",
         str(program), *args],
        input=data, capture_output=True, cwd=program.parent,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def _by_wasmtime(program: Path, data: bytes, args: Sequence[str]) -> bytes:
    import wasmtime

    read, write = program.with_suffix(".in"), program.with_suffix(".out")
    read.write_bytes(data)
    engine = wasmtime.Engine()
    linker, store, config = wasmtime.Linker(engine), wasmtime.Store(engine), wasmtime.WasiConfig()
    linker.define_wasi()
    config.stdin_file, config.stdout_file = str(read), str(write)
    config.argv = [program.name, *args]
    config.preopen_dir(str(program.parent), ".")
    store.set_wasi(config)
    module = wasmtime.Module.from_file(engine, str(program))
    start = linker.instantiate(store, module).exports(store)["_start"]
    assert isinstance(start, wasmtime.Func)
    try:
        start(store)
    except wasmtime.ExitTrap as ended:
        assert ended.code == 0, ended.code
    return write.read_bytes()


@dataclass(frozen=True)
class Scheduled:
    """A random computation with a schedule, the arrays of a call, and what NumPy says of it."""

    case: Case
    schedule: Any
    nest: Nest
    given: Sequence[Any]
    wanted: Mapping[str, np.ndarray]

    def built(self, target: sl.Target) -> Any:
        """Return the kernel for a target."""
        args = [getattr(a, "tensor", a) for a in self.nest.args]
        return sl.build(self.schedule, args, target=target)

    @property
    def args(self) -> list[Any]:
        outputs = [np.zeros_like(self.wanted[b.tensor.name]) for b in self.nest.outputs]
        return [*self.given, *outputs]


def scheduled_cases(seed: str) -> Iterator[Scheduled]:
    """Yield random schedules without end, of loops that a CPU runs in short time."""
    index = 0
    while True:
        index += 1
        rng = Random(f"{seed}:{index}")
        case = Case(f"{seed}:{index}", random_graph(rng, complexes=COMPLEX_SHARE))
        space = build(case.graph)
        outputs = [space[n] for n in case.graph.outputs]
        s = schedule_randomly(rng, case, outputs, False)
        sizes = case.graph.sizes
        if len(case.applied) < FEWEST or bound(s):
            continue
        args = arguments(case, s)
        nest = lower_state(s.state, args)
        if cooperative(nest) or iterations(nest, sizes) > MOST_ITERATIONS:
            continue
        if args is not None:
            outputs = [t for t in args if t in s.state.defined]
        data = arrays(case.graph, rng.randrange(2**31), sizes)
        wanted = expected(oracle(case.graph, outputs), data, sizes)
        yield Scheduled(case, s, nest, given_arrays(nest, data, sizes), wanted)
