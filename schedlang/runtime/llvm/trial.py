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

from schedlang.runtime.first_run import ILLEGAL, zeros
from schedlang.runtime.kept_trials import Trial, kept_trial

# seconds that LLVM takes at most for one instruction
LONGEST = 60.0


@lru_cache(maxsize=64)
def compiled_alone(module: str, processor: str, features: str, run: str = "") -> Trial:
    """Return the assembly of a module, or why LLVM refuses it.

    ``processor`` and ``features`` are LLVM's names, as in ``"znver4"`` and ``"+avx512vnni"``. The
    function ``run``, if any, is called on vectors of zeros.
    """
    facts = ["llvm", module, processor, features, run]
    return kept_trial(facts, lambda: _in_a_child(module, processor, features, run))


def _in_a_child(module: str, processor: str, features: str, run: str) -> Trial:
    """Return the trial of a module, which a child compiles."""
    command = [sys.executable, "-m", __name__, processor, features, run]
    try:
        done = subprocess.run(
            command, input=module, capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired as late:
        # the child writes the assembly before it calls the function
        written = late.stdout or ""
        if isinstance(written, bytes):
            # Windows alone decodes what a late child wrote
            written = written.decode(errors="replace")
        return Trial(written, complete=False) if written else Trial("", timeout=LONGEST)
    if done.returncode and not done.stdout:
        return Trial("", done.stderr.strip() or f"LLVM ended with status {done.returncode}")
    # how else it ends says nothing, since zeros may not be what it takes
    illegal = done.returncode in ILLEGAL
    return Trial(done.stdout, is_illegal=illegal, complete=illegal or not done.returncode)


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
