"""A kernel as HTML: the loop nest beside the source, whose lines light each other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlang.ir.html import Row, Scope, nest_html, nest_rows, top_scope
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Buffer
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Reg
from schedlang.machine.walks import defined_names, walk
from schedlang.markup.code import mark_code
from schedlang.markup.elements import folded_code
from schedlang.markup.fragment import fragment
from schedlang.markup.name_table import Name, NameTable
from schedlang.markup.text import escape

PYTHON = ("for", "in", "if", "else", "def", "return", "range", "prange", "pass", "and", "or", "not")
C = ("for", "if", "else", "static", "void", "const", "int", "restrict")


def kernel_html(
    title: str,
    nest: Nest,
    machine: MachineNest,
    source: str,
    numbers: Sequence[int | None],
    in_c: bool,
) -> str:
    """Return a kernel as a piece of a page, under a title.

    ``numbers`` holds, for each line of ``source``, the number of its statement of ``nest``.
    """
    names = NameTable()
    rows = nest_rows(nest, names)
    nest_part = nest_html(nest, names, linked=True)
    lines = source.removesuffix("\n").split("\n")
    first, end = _functions(lines, numbers)
    marked_source = _Source(
        rows, top_scope(nest, names), machine, names, _lines_around(rows, numbers)
    )
    keywords, note = (C, "//") if in_c else (PYTHON, "#")
    right = "".join(
        marked_source.line(line, number, keywords, note)
        for line, number in zip(lines[first:end], numbers[first:end])
    )
    parts = [
        f'<div class="head">{escape(title)}</div><div class="sides linked">',
        f'<div class="pane" role="group" aria-label="the loop nest">{nest_part}</div>',
        f'<div class="pane" role="group" aria-label="the source"><div class="block">{right}'
        "</div></div></div>",
        _hidden("the start of the file: schedule and loop nest", lines[:first]),
        _hidden("the rest of the file", lines[end:]),
    ]
    return fragment("".join(parts), len(names), len(rows))


def _hidden(title: str, lines: Sequence[str]) -> str:
    """Return lines of the file that are hidden at first; nothing if there are none."""
    text = "\n".join(lines).strip("\n")
    return folded_code(title, text) if text else ""


def _functions(lines: Sequence[str], numbers: Sequence[int | None]) -> tuple[int, int]:
    """Return where the functions of statements begin and end in the file."""
    own = [k for k, number in enumerate(numbers) if number is not None]
    if not own:
        return 0, len(lines)
    first, end = own[0], own[-1] + 1
    # up to the blank lines around: the head of a function comes from no statement
    while first and lines[first - 1]:
        first -= 1
    while end < len(lines) and lines[end]:
        end += 1
    return first, end


def _lines_around(
    rows: Sequence[Row], numbers: Sequence[int | None]
) -> Mapping[int, tuple[int, ...]]:
    """Return, for each statement, the ones around it that have no line of their own in the source.

    Such are vectorized and unrolled loops, since only copies of their bodies are left.
    """
    own = set(numbers)
    hidden_around: dict[int, tuple[int, ...]] = {}
    around: list[tuple[int, ...]] = [()]
    for number, row in enumerate(rows):
        del around[row.depth + 1 :]
        hidden_around[number] = around[row.depth]
        hidden = () if number in own else (number,)
        around.append((*around[row.depth], *hidden))
    return hidden_around


@dataclass
class _Source:
    """The printer of the lines of a source.

    ``around`` holds, for each statement, those around it that its lines are lit by, too.
    """

    rows: Sequence[Row]
    top: Scope
    machine: MachineNest
    names: NameTable
    around: Mapping[int, tuple[int, ...]]

    def __post_init__(self) -> None:
        self.registers = _registers(self.machine)
        self.known: dict[int, dict[str, Name]] = {}
        self.seen: set[str] = set()
        self.storage: dict[object, list[str]] = defaultdict(list)
        for thing, name in self.machine.names.items():
            if isinstance(thing, Buffer) and thing.tensor is not None:
                self.storage[thing.tensor].append(name)

    def line(self, text: str, number: int | None, keywords: Sequence[str], note: str) -> str:
        """Return a line as HTML."""
        scope = self.top if number is None else self.rows[number].scope
        names = dict(self.in_scope(scope))
        new = []
        for word in set(_words(text)) & self.registers.keys() - names.keys():
            # what a register is stands where it is defined, to keep the page small
            title = "" if word in self.seen else self.registers[word]
            names[word] = self.names.name(("register", word), title)
            new += [] if word in self.seen else [word]
            self.seen.add(word)
        code = mark_code(text, names, keywords, new, note)
        links = "" if number is None else f" n{number}"
        links += "".join(f" m{k}" for k in self.around.get(-1 if number is None else number, ()))
        focus = "" if number is None else ' tabindex="-1"'
        return f'<pre class="line{links}"{focus}>{code}</pre>'

    def in_scope(self, scope: Scope) -> Mapping[str, Name]:
        """Return the names of the source for what is in ``scope``."""
        if id(scope) not in self.known:
            names_in_scope: dict[str, Name] = {}
            for named in scope.values():
                name = named.name._replace(title="")
                thing = named.thing
                if thing in self.machine.names:
                    names_in_scope[self.machine.names[thing]] = name
                elif isinstance(thing, Buffer) and thing.tensor is not None:
                    # a pass replaced the buffer, for example by two copies
                    names_in_scope |= dict.fromkeys(self.storage[thing.tensor], name)
            self.known[id(scope)] = names_in_scope
        return self.known[id(scope)]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _registers(machine: MachineNest) -> dict[str, str]:
    """Return what each register is, by its name, which is unique in a file."""
    titles: dict[str, str] = {}
    for function in machine.functions:
        for stmt, _ in walk(function.body):
            for reg in defined_names(stmt):
                if isinstance(reg, Reg):
                    titles.setdefault(reg.name, f"{reg.name}: {reg.type}, a register")
    return titles
