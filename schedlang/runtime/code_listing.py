"""Assembly and LLVM's code of one function as readable text, with the lines of its source between.

The code is compiled with line tables. Here each change of line becomes a comment with that line,
and everything else that is for assemblers and debuggers is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from platform import machine

_LABEL = re.compile(r'^"?([^\s":]+)"?:')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]*)"')
_CONSTANT = re.compile(r"^\.?LC(?:PI)?\d+(?:_\d+)?$")
# numba's function around the body of a parallel loop
_WRAPPER = re.compile(r"(__gufunc__)\.[\w.]+")
# the metadata of an instruction, by a number that only the whole module explains
_METADATA = re.compile(r",? ![\w.]+ !\d+")


@dataclass(frozen=True)
class Source:
    """The file that was compiled: its path, its lines, and the name to show for each symbol."""

    path: Path
    lines: Sequence[str]
    names: Mapping[str, str]

    def quoted(self, number: int) -> str:
        """Return a line by its number, from 1 on."""
        return self.lines[number - 1].strip() if number <= len(self.lines) else ""

    def renamed(self, text: str) -> str:
        """Return ``text`` with the names to show in place of the symbols."""
        for symbol in sorted(self.names, key=len, reverse=True):
            name = self.names[symbol]
            text = text.replace(f'"{symbol}"', name).replace(symbol, name)
        return text


def asm_listing(asm: str, symbol: str, source: Source) -> str:
    """Return the function ``symbol`` in assembly as a listing; nothing if it is not there."""
    lines = asm.splitlines()
    files = {m[1]: Path(m[2]).name for line in lines if (m := _FILE.match(line))}
    own = {number for number, name in files.items() if name == source.path.name}
    body = _readable(_function(lines, symbol), own, source)
    if not body:
        return ""
    title = source.names.get(symbol, symbol)
    text = "\n".join([f"{title}:", *body, *_used(_constants(lines), body)])
    return _WRAPPER.sub(r"\1", source.renamed(text)) + "\n"


def functions_of(asm: str) -> list[str]:
    """Return the names of the functions in assembly."""
    return re.findall(r'^\s*\.type\s+"?([^\s",]+)"?,\s*[@%]function', asm, re.MULTILINE)


def _function(lines: Sequence[str], symbol: str) -> list[str]:
    """Return the lines of a function, without its label."""
    start = next((k for k, line in enumerate(lines) if _label(line) == symbol), None)
    if start is None:
        return []
    body: list[str] = []
    for line in lines[start + 1 :]:
        if re.match(r"^\.?L?func_end\d+:", line) or re.match(r"^\s*\.(size|cfi_endproc)\b", line):
            break
        body.append(line)
    return body


def _label(line: str) -> str:
    match = _LABEL.match(line)
    return match[1] if match else ""


def _readable(body: Sequence[str], own: set[str], source: Source) -> list[str]:
    """Return instructions, the labels that they name, and comments where the line changes."""
    mark = "//" if machine().lower() in ("aarch64", "arm64") else "#"
    code = [line for line in body if not re.match(r"^\s*(\.|#|$)", line) and not _label(line)]
    named = set(re.findall(r"[.\w$]+", "\n".join(code)))
    text_lines: list[str] = []
    last_number = 0
    for line in body:
        place, label = _LOC.match(line), _label(line)
        if place:
            number = int(place[2])
            if place[1] in own and number and number != last_number:
                last_number = number
                text_lines.append(f"    {mark} {number}: {source.quoted(number)}")
        elif label:
            text_lines += [f"{label}:"] if label in named else []
        elif not re.match(r"^\s*(\.|#|$)", line):
            # the compiler's own comments end some lines
            text = re.split(r"\s+(?:#|//) ", line)[0].strip().replace("\t", " ")
            text_lines.append(f"    {text}")
    return _without_idle_comments(text_lines, mark)


def _without_idle_comments(lines: Sequence[str], mark: str) -> list[str]:
    """Return ``lines`` without the comments that no instruction follows."""
    rest: list[str] = []
    for line in lines:
        comment = line.startswith(f"    {mark} ")
        if comment and rest and rest[-1].startswith(f"    {mark} "):
            rest.pop()
        rest.append(line)
    return rest


def _constants(lines: Sequence[str]) -> dict[str, str]:
    """Return the constants that instructions load, each with its directives, by label."""
    constants: dict[str, str] = {}
    label = ""
    for line in lines:
        name = _label(line)
        if name:
            label = name if _CONSTANT.match(name) else ""
        elif label and re.match(r"^\s*\.(long|quad|byte|short|value|zero|ascii|octa)\b", line):
            text = re.sub(r"\s+", " ", line.strip())
            constants[label] = f"{constants[label]}, {text}" if label in constants else text
        elif re.match(r"^\s*\.(section|text)\b", line):
            label = ""
    return constants


def _used(constants: Mapping[str, str], body: Sequence[str]) -> Iterator[str]:
    text = "\n".join(body)
    for label, value in constants.items():
        if re.search(rf"(?<![\w.]){re.escape(label)}(?!\w)", text):
            yield f"{label}: {value}"


def llvm_listing(module: str, symbol: str, source: Source) -> str:
    """Return the function ``symbol`` of LLVM's code as a listing; nothing if it is not there."""
    lines = module.splitlines()
    places = _places(lines, source.path.name)
    body: list[str] = []
    last_number = 0
    for line in _definition(lines, symbol):
        if re.match(r"^\s+(#dbg_|(tail )?call void @llvm\.dbg\.)", line):
            continue
        place = re.search(r"!dbg !(\d+)", line)
        number = places.get(place[1], 0) if place else 0
        if number and number != last_number:
            last_number = number
            body.append(f"  ; {number}: {source.quoted(number)}")
        body.append(_plain(line))
    text = source.renamed("\n".join(body))
    return _WRAPPER.sub(r"\1", text) + "\n" if body else ""


def llvm_listings(module: str, source: Source) -> str:
    """Return all functions of LLVM's code as listings."""
    names = re.findall(r'^define [^@]*@("[^"]+"|[^"(]+)\(', module, re.MULTILINE)
    return "\n".join(llvm_listing(module, name.strip('"'), source) for name in names)


def _definition(lines: Sequence[str], symbol: str) -> Iterator[str]:
    """Yield the lines of the function ``symbol``."""
    name = re.compile(rf'^define .*@"?{re.escape(symbol)}"?\(')
    start = next((k for k, line in enumerate(lines) if name.match(line)), len(lines))
    for line in lines[start:]:
        yield line
        if line == "}":
            return


def _plain(line: str) -> str:
    line = _METADATA.sub("", line)
    if line.startswith("define"):
        return re.sub(r"(?: local_unnamed_addr)?(?: #\d+)? \{$", " {", line)
    return re.sub(r" #\d+$", "", line)


def _places(lines: Sequence[str], name: str) -> dict[str, int]:
    """Return the line in the file ``name`` of each location, by the number of the location.

    If code was inlined from another file, its location is the location of the call.
    """
    files, scopes = set(), {}
    locations: dict[str, tuple[int, str, str]] = {}
    for line in lines:
        if match := re.match(r'^!(\d+) = !DIFile\(filename: "([^"]*)"', line):
            if Path(match[2]).name == name:
                files.add(match[1])
        elif match := re.match(r"^!(\d+) = (?:distinct )?!DI(?:Subprogram|LexicalBlock)\(", line):
            file = re.search(r"file: !(\d+)", line)
            scopes[match[1]] = file[1] if file else ""
        elif match := re.match(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+)", line):
            scope = re.search(r"scope: !(\d+)", line)
            call = re.search(r"inlinedAt: !(\d+)", line)
            locations[match[1]] = int(match[2]), scope[1] if scope else "", call[1] if call else ""
    places = {}
    for number in locations:
        at = number
        while at:
            line_number, scope_number, call_number = locations.get(at, (0, "", ""))
            if scopes.get(scope_number) in files and line_number:
                places[number] = line_number
                break
            at = call_number
    return places
