"""A trial of LLVM on code that may end its process: an instruction of the user's, in a child.

LLVM ends the process where it cannot assemble inline assembly, or has no code for a function on
the processor. The child reads a module from its standard input and writes the assembly; see the end
of this file.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from functools import lru_cache
from typing import NamedTuple

from schedlang.runtime.first_run import ILLEGAL, zeros

# seconds that LLVM takes at most for one instruction
LONGEST = 60.0


class Trial(NamedTuple):
    """The assembly of an instruction, or the compiler's words on why there is none.

    ``is_illegal`` if its first run met an instruction that the processor lacks.
    """

    assembly: str
    error: str = ""
    is_illegal: bool = False


@lru_cache(maxsize=64)
def compiled_alone(module: str, processor: str, features: str, run: str = "") -> Trial:
    """Return the assembly of a module, or why LLVM refuses it.

    ``processor`` and ``features`` are LLVM's names, as in ``"znver4"`` and ``"+avx512vnni"``. The
    function ``run``, if any, is called on vectors of zeros.
    """
    command = [sys.executable, "-m", __name__, processor, features, run]
    try:
        done = subprocess.run(
            command, input=module, capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return Trial("", f"LLVM takes more than {LONGEST:.0f} seconds")
    if done.stdout:
        # how else it ends says nothing, since zeros may not be what it takes
        return Trial(done.stdout, is_illegal=done.returncode in ILLEGAL)
    if done.returncode:
        return Trial("", done.stderr.strip() or f"LLVM ended with status {done.returncode}")
    return Trial(done.stdout)


def main(processor: str, features: str, run: str) -> None:
    """Compile the module in the standard input, write its assembly, and call a function of it."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()
    try:
        module = binding.parse_assembly(sys.stdin.read())
        module.verify()
    except RuntimeError as error:
        sys.exit(str(error))
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(cpu=processor, features=features, opt=2)
    # the assembler sees inline assembly when it writes an object
    machine.emit_object(module)
    sys.stdout.write(machine.emit_assembly(module))
    sys.stdout.flush()
    if run:
        operands = [*module.get_function(run).arguments]
        engine = binding.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        call = ctypes.CFUNCTYPE(None)(engine.get_function_address(run))
        # an operand is a vector of 64 bytes at most
        call(*(ctypes.c_void_p(zeros(64)) for _ in operands))


if __name__ == "__main__":
    main(*sys.argv[1:])
