"""The code of a kernel from its machine nest: to run, or to read with the lines of its file."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from llvmlite import ir

from schedlang.errors import names_text
from schedlang.runtime.code_listing import Source, asm_listing, functions_of, llvm_listings
from schedlang.runtime.collection import no_collection
from schedlang.runtime.llvm.entry import print_entry
from schedlang.runtime.llvm.failures import check_code, explained
from schedlang.runtime.llvm.functions import finish, print_functions
from schedlang.runtime.llvm.library import Subject
from schedlang.runtime.llvm.lines import FileLines, Lines, first_lines
from schedlang.runtime.llvm.objects import Job, Machine
from schedlang.runtime.llvm.parts import Part, Whole
from schedlang.runtime.llvm.pool import Pool, Task
from schedlang.runtime.llvm.symbols import symbol_of
from schedlang.runtime.numba_code import Code
from schedlang.runtime.numba_internals import (
    compiler_lock,
    config,
    cpu_context,
    linked_code,
    linking_to,
    machine_options,
)

# what the name of the function begins with that each thread of a parallel loop calls
WRAPPER = "__gufunc__."


# the headings of the parts of LLVM's code
BEFORE, AFTER = "; before LLVM's passes", "; after LLVM's passes"


class _Module(NamedTuple):
    """A part of a kernel as LLVM's code.

    numba links what it compiles for the part to ``library``. ``entry`` is none of other parts.
    """

    part: Part
    code: ir.Module
    library: Any
    entry: ir.Function | None

    @property
    def job(self) -> Job:
        """What is compiled, at the level of numba's own passes if that is lower."""
        text = str(self.code).encode()
        return min(self.part.level, int(config.OPT)), [text, *linked_code(self.library)]


def printed_part(
    subject: Subject, whole: Whole, part: Part, prefix: str, text: str = ""
) -> _Module:
    """Print the functions of a part, with lines if there is the ``text`` of their file.

    ``prefix`` is what the names of functions begin with.
    """
    library = cpu_context().codegen().create_library(subject.name)
    code = library.create_ir_module(subject.name)
    lines = FileLines(code, subject.path, first_lines(text)) if text else Lines()
    with linking_to(library):
        entry = print_functions(whole, part, code, prefix, lines)
    finish(code, subject.fastmath)
    return _Module(part, code, library, entry)


def submit_parts(
    pool: Pool, subject: Subject, whole: Whole, prefix: str, called: str
) -> list[Task]:
    """Let a pool compile a kernel, one part of which has the function ``called`` for Python."""
    tasks, parameters = [], whole.nest.entry.parameters
    # the objects of llvmlite refer to each other, and a search would meet all of them each time
    with no_collection():
        for part in whole.parts:
            module = printed_part(subject, whole, part, prefix)
            if module.entry is not None and subject.loop is not None:
                subject.loop.print(module.code, called, partial(_function, module.code, prefix))
            elif module.entry is not None:
                print_entry(module.code, called, subject.name, module.entry, parameters)
            what = names_text(sorted(part.called) or [subject.name])
            tasks.append(pool.submit(module.job, what))
    return tasks


def _function(module: ir.Module, prefix: str, name: str) -> ir.Function:
    """Return a printed function of a module by its name in the machine nest."""
    return module.get_global(symbol_of(prefix, name))


def code_of(subject: Subject, text: str) -> Code:
    """Return the code of a kernel, compiled in memory with the lines of its file, a ``text``."""
    nest = subject.nest()
    before, after, assembly = [], [], []
    with compiler_lock(), explained(subject, nest):
        whole, machine = Whole(nest), Machine(**machine_options())
        for part in whole.parts:
            level, modules = printed_part(subject, whole, part, "schedlang", text).job
            check_code(modules[0].decode("latin1"))
            module = machine.parsed(modules)
            before.append(str(module))
            machine.optimize(module, level)
            after.append(str(module))
            assembly.append(machine.assembly(module))
    names = {symbol_of("schedlang", f.name): f.name for f in nest.functions}
    symbols = [symbol for asm in assembly for symbol in functions_of(asm)]
    # the body of a parallel loop is inlined to what each thread calls
    bodies = {s: s.removeprefix(WRAPPER) for s in symbols if s.startswith(WRAPPER)}
    plain = Source(subject.path, [], names)
    names |= {symbol: plain.renamed(body) for symbol, body in bodies.items()}
    source = Source(subject.path, text.splitlines(), names)
    first, second = (
        "\n".join(llvm_listings(module, source) for module in modules)
        for modules in (before, after)
    )
    return Code(
        f"{BEFORE}\n\n{first}\n{AFTER}\n\n{second}",
        "\n".join(
            listing
            for asm in assembly
            for symbol in functions_of(asm)
            if (listing := asm_listing(asm, symbol, source))
        ),
    )
