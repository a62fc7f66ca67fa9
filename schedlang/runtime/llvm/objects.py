"""From LLVM's code to an object file: in this process, or in a child, which runs this file.

A child imports llvmlite alone, so that it starts in a tenth of a second. What it reads and what it
answers are numbers and bytes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from llvmlite import binding

# an object file follows, or an error of LLVM
OBJECT, ERROR = 0, 1
# what takes a job: the level of the passes, and the modules as :meth:`Machine.parsed` takes them
Job = tuple[int, Sequence[bytes]]


class Machine:
    """LLVM's passes and its generator of machine code, with options that are data.

    ``target`` are the options of ``create_target_machine``, and ``passes`` the options of the
    pipeline.
    """

    def __init__(self, target: Mapping[str, Any], passes: Mapping[str, Any]) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        binding.initialize_native_asmparser()
        native = binding.Target.from_triple(binding.get_process_triple())
        self._machine = native.create_target_machine(**target)
        self._passes = passes

    def parsed(self, modules: Sequence[bytes]) -> Any:
        """Return the text of a module, linked with the bitcode of others behind it."""
        text, *linked = modules
        own = binding.parse_assembly(text.decode("latin1"))
        own.verify()
        module = binding.parse_assembly("")
        module.triple, module.data_layout = own.triple, str(self._machine.target_data)
        # linking puts functions in another order, as in numba
        for other in (own, *map(binding.parse_bitcode, linked)):
            other.data_layout = module.data_layout
            module.link_in(other)
        return module

    def optimize(self, module: Any, level: int) -> None:
        """Optimize a module by the passes of a level."""
        options = binding.create_pipeline_tuning_options(level)
        options.speed_level = level
        for name, value in self._passes.items():
            setattr(options, name, value)
        builder = binding.create_pass_builder(self._machine, options)
        builder.getModulePassManager().run(module, builder)
        module.verify()

    def assembly(self, module: Any) -> str:
        """Return a module as assembly."""
        return str(self._machine.emit_assembly(module))

    def object_of(self, job: Job) -> bytes:
        """Return the object file of a job."""
        level, modules = job
        module = self.parsed(modules)
        self.optimize(module, level)
        return bytes(self._machine.emit_object(module))


def send(pipe: IO[bytes], number: int, blocks: Sequence[bytes]) -> None:
    """Write a number, the sizes of blocks of bytes, and the blocks."""
    pipe.write(" ".join(map(str, [number, *map(len, blocks)])).encode() + b"\n")
    pipe.writelines(blocks)
    pipe.flush()


def receive(pipe: IO[bytes]) -> tuple[int, list[bytes]]:
    """Read what :func:`send` wrote; raise :class:`ValueError` if it ends before."""
    number, *sizes = map(int, pipe.readline().split())
    blocks = [pipe.read(size) for size in sizes]
    if [*map(len, blocks)] != sizes:
        raise ValueError("a block is not complete")
    return number, blocks


def serve(jobs: IO[bytes], answers: IO[bytes], machine: Machine) -> None:
    """Answer jobs until there are no more."""
    while True:
        job = receive(jobs)
        try:
            send(answers, OBJECT, [machine.object_of(job)])
        except RuntimeError as error:
            send(answers, ERROR, [str(error).encode()])


def _main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    # what LLVM prints must not be taken for an answer
    os.dup2(2, 1)
    with suppress(ValueError, BrokenPipeError):
        serve(sys.stdin.buffer, answers, Machine(**json.loads(sys.argv[-1])))
    # without waiting for what Python does at its end
    os._exit(0)


if __name__ == "__main__":
    _main()
