"""C source of the user's in a file of C, under names of its own, so that the file stands alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedlang.codegen.c_compiler import USER_HEADERS
from schedlang.compute.extern_op import ExternFunction
from schedlang.expr.dtypes import storage_dtype
from schedlang.machine.nest import MachineNest

C_TYPES = {
    "bool": "bool", "float32": "float", "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
PREFIX = "sl_extern"
# comments and directives, texts and characters, words and numbers, and any other sign
_TOKEN = re.compile(
    r"""//(?:\\\n|[^\n])*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
    r"""|[A-Za-z_]\w*|\d[\w.]*|\S""",
    re.DOTALL | re.MULTILINE,
)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_TAGGED = ("struct", "union", "enum")
# words before a bracket that name no function
_NO_NAMES = frozenset({
    "__attribute__", "__declspec", "_Alignas", "_Static_assert", "__typeof__", "typeof", "sizeof",
    "void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "bool",
    "_Bool",
})  # fmt: skip


@dataclass(frozen=True)
class CExterns:
    """The functions of C source that a nest calls: their ``names`` in its file, and its texts.

    ``declared`` stands before the functions of the kernel, ``defined`` after them.
    """

    names: Mapping[ExternFunction, str]
    declared: str
    defined: tuple[str, ...]


def c_externs(nest: MachineNest, fastmath: bool = False) -> CExterns:
    """Return what a file of C has of the functions that ``nest`` calls.

    A name of a source's own begins with ``sl_extern`` in the file, where no other name does.
    Under ``fastmath`` the source is compiled without it, as everywhere else.
    """
    functions = tuple(dict.fromkeys(s.function for s in nest.invoked if s.function.is_c))
    if not functions:
        return CExterns({}, "", ())
    prefix = PREFIX
    while any(prefix in function.source for function in functions):
        prefix += "_"
    names: dict[ExternFunction, str] = {}
    for number, function in enumerate(functions, 1):
        name = f"{prefix}_{function.name}"
        names[function] = f"{prefix}{number}_{function.name}" if name in names.values() else name
    table = nest.invoked[0].table.name
    lines = [f"#include <{name}>" for name in USER_HEADERS]
    lines.append(f"// {table}[0], 0 at first, becomes the position of the first one that fails")
    lines += [f"static {prototype(n, f.dtypes)};" for f, n in names.items()]
    texts = [_definition(f, n, f"{prefix}{k}") for k, (f, n) in enumerate(names.items(), 1)]
    if fastmath:
        texts.insert(0, _WITHOUT_FASTMATH)
    return CExterns(names, "\n".join(lines), tuple(texts))


_WITHOUT_FASTMATH = """\
#ifdef __clang__
#pragma float_control(precise, on)
#else
#pragma GCC optimize("no-associative-math,no-reciprocal-math,signed-zeros,trapping-math")
#pragma GCC optimize("no-finite-math-only")
#endif"""


def prototype(name: str, dtypes: Sequence[Sequence[str]]) -> str:
    """Return the declaration of a C function for arrays of ``dtypes``: the inputs', the outputs'.

    >>> prototype("twice", [["float32"], ["float64"]])
    'int twice(const float *, double *, const int64_t *)'
    """
    # instructions take short floats, as their bits
    inputs, outputs = ([C_TYPES[storage_dtype(d)] for d in kinds] for kinds in dtypes)
    kinds = [f"const {kind} *" for kind in inputs] + [f"{kind} *" for kind in outputs]
    return f"int {name}({', '.join([*kinds, 'const int64_t *'])})"


def _definition(function: ExternFunction, name: str, prefix: str) -> str:
    """Return C source, whose names at file scope stand for others, with a prefix, until its end."""
    source = function.source.strip("\n")
    own = {n: f"{prefix}_{n}" for n in file_scope(source) if n != function.name}
    swapped = {function.name: name, **own}
    defined = [f"#define {old} {new}" for old, new in swapped.items()]
    macros = dict.fromkeys(_MACRO.findall(source))
    dropped = [f"#undef {n}" for n in (*swapped, *(m for m in macros if m not in swapped))]
    return "\n".join([f"// {function.name}, a function of yours", *defined, source, *dropped])


def file_scope(source: str) -> list[str]:
    """Return the names that C source declares outside of its functions, in order.

    Without those that it declares and that a library defines, such as ``double sqrt(double);``.

    >>> file_scope('''
    ... #include <math.h>
    ... struct point { float x, y; };
    ... typedef struct point point_t;
    ... enum { SMALL, LARGE = 4 };
    ... static const float weights[2] = {0.5f, LARGE};
    ... static float scaled(float a) { float b = a * 2; return b; }
    ... int B(const float *a, float *out, const int64_t *sizes) { return 0; }
    ... ''')
    ['point', 'point_t', 'SMALL', 'LARGE', 'weights', 'scaled', 'B']
    """
    names: dict[str, None] = {}
    own: set[str] = set()
    for declaration in _declarations(source):
        declared = dict.fromkeys(_declared(declaration))
        names |= declared
        own |= {*declared} - _defined_elsewhere(declaration)
    return [name for name in names if name in own]


def _defined_elsewhere(signs: list[str]) -> set[str]:
    """Return the names that one declaration leaves to a definition: functions, and ``extern``."""
    if signs[-1] != ";" or {"static", "typedef"} & {*signs}:
        return set()
    if "extern" in signs:
        return {*signs}
    return {name for name, after in zip(signs, signs[1:]) if after == "("}


def _declarations(source: str) -> Iterator[list[str]]:
    """Yield the signs of each declaration at file scope, with the body of a function as ``{}``."""
    signs: list[str] = []
    depth = 0
    for token in _TOKEN.findall(source):
        if token.startswith(("//", "/*")) or token.lstrip().startswith("#"):
            continue
        depth -= token in ("}", ")", "]")
        signs.append(token)
        is_body = token == "}" and depth == 0 and _is_function(signs)
        depth += token in ("{", "(", "[")
        if depth == 0 and (token == ";" or is_body):
            yield signs
            signs = []


def _is_function(signs: list[str]) -> bool:
    """Return whether the braces that end a declaration are the body of a function."""
    depth = 0
    for at in range(len(signs) - 1, -1, -1):
        depth += (signs[at] == "}") - (signs[at] == "{")
        if depth == 0:
            return at > 0 and signs[at - 1] == ")" and "=" not in signs[:at]
    return False


def _declared(signs: list[str]) -> Iterator[str]:
    """Yield the names that one declaration declares: its tag, its constants, its declarators."""
    depth, braces, kind = 0, list[str](), ""
    initializer = False
    for at, sign in enumerate(signs):
        before = signs[at - 1] if at else ""
        after = signs[at + 1] if at + 1 < len(signs) else ""
        if sign in ("{", "(", "["):
            depth += 1
            braces.append(kind if sign == "{" else sign)
            kind = ""
        elif sign in ("}", ")", "]"):
            depth -= 1
            braces.pop()
        elif depth == 0 and sign in ("=", ","):
            initializer = sign == "="
        elif not _WORD.fullmatch(sign):
            continue
        elif sign in _TAGGED:
            kind = sign
        elif before in _TAGGED and after == "{" and not depth:
            yield sign
        elif braces == ["enum"] and before in ("{", ","):
            yield sign
        elif initializer or sign in _NO_NAMES:
            continue
        elif after == "(" and signs[at + 2 : at + 3] == ["*"]:
            # the type of what a pointer to a function returns
            continue
        elif depth == 0 and after in ("(", "[", "=", ",", ";", "") and before:
            yield sign
        elif braces == ["("] and before == "*" and signs[at - 2] == "(" and after in (")", "["):
            # a pointer to a function
            yield sign


__all__ = ["C_TYPES", "CExterns", "c_externs", "file_scope", "prototype"]
