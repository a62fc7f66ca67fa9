"""The lines of the emitted file, as the debugging information of LLVM's code.

They are the lines at which the file prints the statements. Code that is kept in the cache has none:
the listings of a kernel compile it again with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llvmlite import ir


class Lines:
    """No lines: the code has no debugging information."""

    def of(self, function: str) -> int:
        """Return the line of the file at which a function begins."""
        return 0

    def start(self, function: ir.Function, line: int) -> None:
        """Note a function that is printed next, of the file's ``line``."""

    def at(self, builder: ir.IRBuilder, line: int) -> None:
        """Note the line of what the builder emits next."""


class FileLines(Lines):
    """The lines of the file at ``path``, whose functions begin at ``first``.

    ``last`` is the line that was noted last.
    """

    last = 0

    def __init__(self, module: ir.Module, path: Path, first: Mapping[str, int]) -> None:
        self._module, self._first = module, first
        # the scope of each function
        self._scopes: dict[str, Any] = {}
        self._file = self._node("DIFile", filename=path.name, directory=str(path.parent))
        self._unit = self._node(
            "DICompileUnit", distinct=True, language=ir.DIToken("DW_LANG_C_plus_plus"),
            file=self._file, producer="schedlang", runtimeVersion=0, isOptimized=True,
            emissionKind=3,
        )  # fmt: skip
        module.add_named_metadata("llvm.dbg.cu", self._unit)
        i32 = ir.IntType(32)
        flags = module.add_named_metadata("llvm.module.flags")
        for name, version in ("Dwarf Version", 4), ("Debug Info Version", 3):
            flags.add(module.add_metadata([i32(2), ir.MetaDataString(module, name), i32(version)]))
        self._type = self._node("DISubroutineType", types=module.add_metadata([None]))

    def _node(self, kind: str, distinct: bool = False, **fields: Any) -> Any:
        return self._module.add_debug_info(kind, fields, is_distinct=distinct)

    def of(self, function: str) -> int:
        return self._first[function]

    def start(self, function: ir.Function, line: int) -> None:
        scope = self._node(
            "DISubprogram", distinct=True, name=function.name, linkageName=function.name,
            scope=self._file, file=self._file, line=line, type=self._type, isLocal=True,
            isDefinition=True, scopeLine=line, isOptimized=True, unit=self._unit,
        )  # fmt: skip
        function.set_metadata("dbg", scope)
        self._scopes[function.name] = scope

    def at(self, builder: ir.IRBuilder, line: int) -> None:
        self.last = line
        scope = self._scopes[builder.function.name]
        builder.debug_metadata = self._node("DILocation", line=line, column=1, scope=scope)


def first_lines(text: str) -> dict[str, int]:
    """Return the line of each function of a file with this ``text``."""
    lines = enumerate(text.split("\n"), 1)
    return {line[4:].partition("(")[0]: number for number, line in lines if line.startswith("def ")}
