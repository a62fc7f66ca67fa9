"""The code of a kernel from its machine nest: to run, or to read with the lines of its file."""

from __future__ import annotations

from typing import Any

from schedlang.machine.nest import MachineNest
from schedlang.runtime.code_listing import Source, asm_listing, functions_of, llvm_listings
from schedlang.runtime.llvm.entry import print_entry
from schedlang.runtime.llvm.failures import check_code, explained
from schedlang.runtime.llvm.functions import finish, print_functions
from schedlang.runtime.llvm.library import Library, Subject
from schedlang.runtime.llvm.lines import FileLines, Lines, first_lines
from schedlang.runtime.llvm.passes import level_of
from schedlang.runtime.llvm.symbols import symbol_of
from schedlang.runtime.numba_code import Code
from schedlang.runtime.numba_internals import cpu_context, global_compiler_lock, linking_to

# what the name of the function begins with that each thread of a parallel loop calls
WRAPPER = "__gufunc__."


# the headings of the parts of LLVM's code
BEFORE, AFTER = "; before LLVM's passes", "; after LLVM's passes"


class _Listed(Library):
    """The code of a kernel to read, which this process does not run.

    ``printed`` is the code before the passes.
    """

    printed = ""

    def _optimize_functions(self, ll_module: Any) -> None:
        super()._optimize_functions(ll_module)
        self.printed = str(ll_module)

    def _finalize_final_module(self) -> None:
        self._finalized = True


def print_module(
    subject: Subject, nest: MachineNest, library: Library, prefix: str, called: str
) -> None:
    """Print the functions of ``nest`` to ``library``, with the function ``called`` for Python."""
    module = library.create_ir_module(subject.name)
    library.level = level_of(nest)
    with linking_to(library):
        entry = print_functions(nest, module, prefix, Lines())
    finish(module, subject.fastmath)
    print_entry(module, called, subject.name, entry, nest.entry.parameters)
    library.add_ir_module(module)


def code_of(subject: Subject, text: str) -> Code:
    """Return the code of a kernel, compiled in memory with the lines of its file, a ``text``."""
    nest = subject.nest()
    with global_compiler_lock, explained(nest, subject.path, subject.fastmath):
        library = _Listed(cpu_context().codegen(), subject.name)
        library.level = level_of(nest)
        module = library.create_ir_module(subject.name)
        lines = FileLines(module, subject.path, first_lines(text))
        with linking_to(library):
            print_functions(nest, module, "schedlang", lines)
        finish(module, subject.fastmath)
        check_code(str(module))
        library.add_ir_module(module)
        library.finalize()
        optimized, asm = str(library.optimized), library.get_asm_str()
    names = {symbol_of("schedlang", f.name): f.name for f in nest.functions}
    symbols = functions_of(asm)
    # the body of a parallel loop is inlined to what each thread calls
    bodies = {s: s.removeprefix(WRAPPER) for s in symbols if s.startswith(WRAPPER)}
    plain = Source(subject.path, [], names)
    names |= {symbol: plain.renamed(body) for symbol, body in bodies.items()}
    source = Source(subject.path, text.splitlines(), names)
    return Code(
        f"{BEFORE}\n\n{llvm_listings(library.printed, source)}\n"
        f"{AFTER}\n\n{llvm_listings(optimized, source)}",
        "\n".join(filter(None, (asm_listing(asm, s, source) for s in symbols))),
    )
