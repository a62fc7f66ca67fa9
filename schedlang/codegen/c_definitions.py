"""The helpers that a C file uses, and no others: their headers' definitions, macros expanded.

The headers are C. Their macros in capitals make families of functions (``SL_MEMORY(f32, ...)``), of
which a kernel uses one or two, so that a reader would have to expand them to see what runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from schedlang.codegen.c_headers import header

# the headers of a C program; the first one has the types of scalars
HEADERS = ("c_helpers.h", "c_vectors.h", "c_half.h", "c_denormals.h", "c_program.h")
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_MACRO = re.compile(r"#define (\w+)\(([^)]*)\)\s*(.*)", re.DOTALL)
_CALL = re.compile(r"\s*(SL_[A-Z0-9_]+)\(")
_COMMENT = re.compile(r"\s*/\*.*?\*/", re.DOTALL)
# what a macro has in it that makes definitions
_DEFINES = re.compile(r"\btypedef\b|\bSL(?:_[A-Z]\w*)? ?(?:\(|sl_)")
# what stands above the definitions that only some kernels have
_OWN = "/* Vectors and other functions of this kernel. */"
# typedefs of scalars: a file writes the types that they stand for
_SCALAR = re.compile(r"typedef (\w+) (sl_\w+);")
# what each header of C is there for
_INCLUDES = {
    "math.h": re.compile(
        r"\b(?:INFINITY|NAN|is(?:nan|inf|finite)|(?:a?(?:sin|cos|tan)h?|atan2|exp[2]?|expm1|erfc?|"
        r"log(?:2|10|1p)?|sqrt|cbrt|pow|fmod|fma|fabs|floor|ceil|trunc|rint|round|copysign|hypot|"
        r"nextafter|[tl]gamma|fmin|fmax|ldexp)f?)\b"
    ),
    "stdint.h": re.compile(r"\bu?int(?:8|16|32|64|ptr)_t\b"),
    "stdio.h": re.compile(r"\bfprintf\b"),
    "stdlib.h": re.compile(r"\b(?:posix_memalign|malloc|free|abort)\b"),
    "string.h": re.compile(r"\b(?:memcpy|memset|size_t)\b"),
}


@dataclass(frozen=True)
class Definition:
    """Some lines of C that define ``names``, under the ``heading`` of a header's section."""

    names: tuple[str, ...]
    text: str
    heading: str = ""

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.text))


@dataclass(frozen=True)
class Macro:
    """A macro that makes definitions: its parameters and its body."""

    parameters: tuple[str, ...]
    body: str

    def of(self, arguments: Sequence[str]) -> str:
        """Return the body with ``arguments``, and the names that ``##`` joins as one."""
        given = dict(zip(self.parameters, arguments))
        replaced = _WORD.sub(lambda word: given.get(word[0], word[0]), self.body)
        return re.sub(r"\s*##\s*", "", replaced)


def used_definitions(
    helpers: Iterable[str], functions: Iterable[str], headers: tuple[str, ...] = HEADERS
) -> str:
    """Return what a C file of the texts ``functions`` needs before them.

    ``helpers`` are calls of the macros of ``headers``, and definitions that are written out.

    >>> print(used_definitions(["SL_VECTOR(f32, 8)"], ["void f(sl_f32_8 *a);"]))
    /* Vectors and other functions of this kernel. */
    typedef float sl_f32_8 __attribute__((vector_size(sizeof(float) * 8)));
    """
    common = _helpers(headers)[0]
    listed = [*common, *(d for text in helpers for d in _of_helper(text, headers))]
    by_name = {name: d for d in listed for name in d.names}
    wanted = [word for text in functions for word in _WORD.findall(text)]
    wanted += [word for d in listed if not d.names for word in d.words]
    used: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in by_name and name not in used:
            used.update(by_name[name].names)
            wanted += by_name[name].words
    kept = [d for d in listed if not d.names or not used.isdisjoint(d.names)]
    lines: list[str] = []
    heading = ""
    for definition in kept:
        if definition.heading not in ("", heading):
            lines.append(("\n" if lines else "") + definition.heading)
            heading = definition.heading
        lines.append(definition.text)
    return plain_types("\n".join(lines), headers[0])


def includes(texts: Sequence[str]) -> str:
    """Return the ``#include`` lines of the headers of C that ``texts`` use.

    >>> includes(["int64_t n = 4;"])
    '#include <stdint.h>'
    """
    used = (name for name, pattern in _INCLUDES.items() if any(map(pattern.search, texts)))
    return "\n".join(f"#include <{name}>" for name in used)


def plain_types(text: str, header_name: str = HEADERS[0]) -> str:
    """Return ``text`` with the types of C in place of the names that a header has for them.

    >>> plain_types("sl_f32 a; sl_f32_8 b;")
    'float a; sl_f32_8 b;'
    """
    pattern, kinds = _types(header_name)
    return pattern.sub(lambda name: kinds[name[0]], text)


@lru_cache(maxsize=2)
def _types(header_name: str) -> tuple[re.Pattern[str], dict[str, str]]:
    names = {name: kind for kind, name in _SCALAR.findall(header(header_name))}
    return re.compile(rf"\b(?:{'|'.join(names)})\b"), names


@lru_cache(maxsize=2)
def _helpers(headers: tuple[str, ...]) -> tuple[tuple[Definition, ...], Mapping[str, Macro]]:
    """Return the definitions of the headers, and the macros that make others."""
    macros: dict[str, Macro] = {}
    texts = (_SCALAR.sub("", header(name)) for name in headers)
    definitions = [d for text in texts for d in _parsed(text, macros)]
    return tuple(definitions), macros


@lru_cache(maxsize=1024)
def _expanded(call: str, headers: tuple[str, ...]) -> tuple[Definition, ...]:
    return tuple(_parsed(call, dict(_helpers(headers)[1]), _OWN))


def _of_helper(text: str, headers: tuple[str, ...]) -> Sequence[Definition]:
    call, macros = _CALL.match(text), _helpers(headers)[1]
    # a definition that is written out may have words of the user's
    return _expanded(text, headers) if call and call[1] in macros else [Definition((), text, _OWN)]


def _parsed(text: str, macros: dict[str, Macro], heading: str = "") -> Iterator[Definition]:
    """Yield the definitions of ``text``; add its macros that make others to ``macros``."""
    rest, comment = text, ""
    while rest := rest.lstrip("\n ") if not rest.strip() else rest.lstrip():
        if not rest.strip():
            return
        if match := _COMMENT.match(rest):
            rest = rest[match.end() :]
            if rest.startswith("\n\n"):
                heading, comment = match[0].strip(), ""
            else:
                comment = match[0].strip() + "\n"
            continue
        if (call := _CALL.match(rest)) and call[1] in macros:
            end = _closing(rest, call.end() - 1)
            arguments = [a.strip() for a in _split(rest[call.end() : end])]
            yield from _parsed(macros[call[1]].of(arguments), macros, heading)
            rest = rest[end + 1 :]
            continue
        end = _end(rest)
        piece, rest = rest[:end], rest[end:]
        if piece.startswith("#include"):
            continue
        macro = _MACRO.match(piece)
        if macro and macro[1].isupper() and _DEFINES.search(macro[3]):
            lines = (line.rstrip("\\").rstrip() for line in macro[3].splitlines())
            body = "\n".join(line.removeprefix("  ") for line in lines)
            macros[macro[1]] = Macro(tuple(p.strip() for p in macro[2].split(",")), body)
        else:
            yield Definition(_names(piece), comment + _tidy(piece), heading)
        comment = ""


def _end(text: str) -> int:
    """Return where the first definition of ``text`` ends: a block, a directive or a statement."""
    if text.startswith("#if"):
        return text.index("#endif") + len("#endif")
    if text.startswith("#"):
        match = re.match(r"(?:.*\\\n)*.*", text)
        assert match
        return match.end()
    brace, semicolon = text.find("{"), text.find(";")
    if brace < 0 or 0 <= semicolon < brace:
        return semicolon + 1
    return _closing(text, brace) + 1


def _closing(text: str, start: int) -> int:
    """Return where the bracket at ``start`` is closed."""
    depth = 0
    for match in re.compile(r"[(){}\[\]]").finditer(text, start):
        depth += 1 if match[0] in "({[" else -1
        if depth == 0:
            return match.start()
    raise AssertionError(f"an open bracket: {text[start : start + 60]}")


def _split(arguments: str) -> list[str]:
    """Return the arguments of a call of a macro."""
    parts, depth = [""], 0
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _names(piece: str) -> tuple[str, ...]:
    """Return what a piece of C defines."""
    if piece.startswith("#if"):
        names = r"(?<=#define )SL_\w+|\bsl_\w+(?=\()|(?<=typedef long long )sl_\w+"
        return tuple(dict.fromkeys(re.findall(names, piece)))
    if piece.startswith("#define"):
        return (_WORD.findall(piece)[1],)
    if piece.startswith("typedef"):
        words = _WORD.findall(piece.split("__attribute__")[0])
        return (words[-1],)
    match = re.search(r"(\w+)\(", piece.removeprefix("SL "))
    assert match, piece
    return (match[1],)


def _tidy(piece: str) -> str:
    """Return a piece without the brackets that an empty argument of a macro leaves."""
    return re.sub(r"([=:] )\((\w+\[[^()]*\])\)(?= :|;)", r"\1\2", piece)
