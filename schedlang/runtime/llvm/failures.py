"""Errors of LLVM as errors of a kernel: which statement it is, what to do, and where the code is.

The code of a kernel has no lines. So it is printed again with them when LLVM refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import binding

from schedlang.errors import BuildError, SchedlangError, explain
from schedlang.machine.nest import MachineNest
from schedlang.runtime.cache_files import write_whole
from schedlang.runtime.llvm.functions import finish, print_functions
from schedlang.runtime.llvm.library import Subject
from schedlang.runtime.llvm.lines import FileLines, first_lines
from schedlang.runtime.llvm.parts import Whole
from schedlang.runtime.numba_internals import cgutils, cpu_context, linking_to


@contextmanager
def explained(subject: Subject, nest: MachineNest) -> Iterator[None]:
    """Raise :class:`~schedlang.errors.BuildError` for what LLVM, or its printer, raises inside.

    The message names the kernel, whose machine nest is ``nest``, and the statement of its file.
    """
    try:
        yield
    except (SchedlangError, MemoryError):
        raise
    except Exception as error:
        raise _refusal(subject, nest, error) from error


def _refusal(subject: Subject, nest: MachineNest, error: Exception) -> BuildError:
    path = subject.path
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    library = cpu_context().codegen().create_library(nest.entry.name)
    module = library.create_ir_module(nest.entry.name)
    lines = FileLines(module, path, first_lines(text))
    number = 0
    try:
        with linking_to(library):
            whole = Whole(nest)
            print_functions(whole, whole.one, module, "schedlang", lines)
        finish(module, subject.fastmath)
    except Exception:
        number = lines.last
    code = cgutils.normalize_ir_text(str(module))
    number = number or _refused_line(code)
    statement = text.splitlines()[number - 1 : number]
    kept = path.with_suffix(".ll")
    try:
        write_whole(kept, code.encode())
        report = f"report this with LLVM's code, which is in {kept}."
    except OSError:
        report = "report this."
    at = f", at {statement[0].strip()}" if statement else ""
    return BuildError(
        explain(
            f"kernel {subject.kernel}{at}",
            f"LLVM does not compile it ({_reason(error)})",
            f'Give compiler="numba", and {report}',
        )
    )


def _reason(error: Exception) -> str:
    """Return the first line that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = next((line for line in lines if "error:" in line), lines[0] if lines else "")
    return message.rpartition("error:")[2].strip() or type(error).__name__


def check_code(code: str) -> None:
    """Raise :class:`RuntimeError` for code with lines that is wrong.

    With debugging information LLVM would end the process instead.
    """
    binding.parse_assembly(_without_debugging(code)).verify()


def _without_debugging(code: str) -> str:
    """Return code in which instructions have a node ``!line`` with the number of their line."""
    text = re.sub(r"^!llvm\.(dbg\.cu|module\.flags) = .*$", "", code, flags=re.MULTILINE)
    text = re.sub(r"= !DILocation\(.*\bline: (\d+).*\)$", r"= !{i32 \1}", text, flags=re.MULTILINE)
    text = re.sub(r"= (?:distinct )?!DI\w+\(.*\)$", "= !{}", text, flags=re.MULTILINE)
    return text.replace("!dbg !", "!line !")


def _refused_line(code: str) -> int:
    """Return the line of the file whose code LLVM refuses; 0 if it cannot be told."""
    text = _without_debugging(code)
    try:
        module = binding.parse_assembly(text)
    except RuntimeError as error:
        place = re.search(r":(\d+):\d+: error", str(error))
        return _line(text, text.splitlines()[int(place[1]) - 1]) if place else 0
    try:
        module.verify()
    except RuntimeError as error:
        # the verifier has numbers of its own for the nodes
        return _line(str(module), str(error))
    return 0


def _line(code: str, quoted: str) -> int:
    """Return the line of the file that belongs to an instruction, which is ``quoted``."""
    number = re.search(r"!line !(\d+)", quoted)
    place = number and re.search(rf"^!{number[1]} = !\{{i32 (\d+)\}}$", code, re.MULTILINE)
    return int(place[1]) if place else 0
