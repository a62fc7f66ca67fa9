"""The LLVM code of an emitted file, compiled again in memory with line tables.

A kernel that numba loads from its cache on disk has machine code only, and none of LLVM's. The line
tables are directives alone (``dbg_directives_only``, as for CUDA's ``lineinfo``). numba's option
``debug=True`` would store every variable to memory.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from schedlang.parsing import parse_source
from schedlang.runtime.code_listing import Source, asm_listing, llvm_listing


@dataclass(frozen=True)
class Code:
    """LLVM's code after its passes, and the assembly, each with the lines of the source between."""

    llvm: str
    asm: str


def code_of(path: Path, entry: str, functions: Sequence[str], kinds: Sequence[Any]) -> Code:
    """Return the code of the ``functions`` of the file at ``path``.

    ``entry`` is the one that is called, and ``kinds`` are numba's types of its parameters.
    """
    from schedlang.runtime.numba_internals import compiled_by_types

    text = path.read_text(encoding="utf-8")
    names = _in_memory(text, path)
    with warnings.catch_warnings():
        # numba misses the source of its own functions around a parallel loop
        warnings.filterwarnings("ignore", message="Could not find source for function")
        names[entry].compile(tuple(kinds))
    # equal functions are one
    different = dict.fromkeys(names[name] for name in functions)
    compiled = [o for function in different for o in compiled_by_types(function).values()]
    symbols = {o.fndesc.llvm_func_name: o.fndesc.qualname.rpartition(".")[2] for o in compiled}
    source = Source(path, text.splitlines(), symbols)
    pairs = [(o.library, o.fndesc.llvm_func_name) for o in compiled]
    return Code(
        "\n".join(
            llvm_listing(library.get_llvm_str(), symbol, source) for library, symbol in pairs
        ),
        "\n".join(asm_listing(library.get_asm_str(), symbol, source) for library, symbol in pairs),
    )


def _in_memory(text: str, path: Path) -> dict[str, Any]:
    """Run a file whose functions are compiled with line tables, and are not cached on disk."""
    tree = parse_source(text, str(path))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "OPTIONS":
            changed = parse_source(f"{{**({ast.unparse(node.value)}), **_CHANGES}}").body[0]
            assert isinstance(changed, ast.Expr)
            for part in ast.walk(changed):
                ast.copy_location(part, node)
            node.value = changed.value
    changes = {"cache": False, "pipeline_class": _line_compiler()}
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path), "_CHANGES": changes}
    exec(compile(tree, str(path), "exec"), names)
    return names


@lru_cache(maxsize=1)
def _line_compiler() -> type:
    """Return numba's compiler with line tables."""
    from schedlang.runtime.numba_internals import Compiler

    class LineCompiler(Compiler):
        """numba's compiler, which also writes which line each instruction comes from."""

        def __init__(
            self,
            typingctx: Any,
            targetctx: Any,
            library: Any,
            args: Any,
            return_type: Any,
            flags: Any,
            locals: Any,  # noqa: A002
        ) -> None:
            flags = flags.copy()
            flags.debuginfo = flags.dbg_directives_only = True
            super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    return LineCompiler
