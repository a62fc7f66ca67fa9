"""The text of users' functions in a kernel's file, which then needs nothing of their program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import indent, wrap

from schedlang.codegen.c_compiler import COMPILERS, GCC_OPTIONS, OPTIONS, user_head
from schedlang.compute.extern_op import NUMBA, ExternFunction
from schedlang.machine.nest import MachineNest

# the names of helpers in a file, and of functions that it defines with the names of the user's
HELPERS = (
    "c_function", "numba_function", "_functions", "_succeeded", "COMPILERS", "C_OPTIONS",
    "GCC_OPTIONS",
)  # fmt: skip
MAKER = "_make_"

SUCCEEDED = '''
def _succeeded(functions, names):
    """Raise if a function failed; the first element is its position."""
    if functions[0]:
        name = names[functions[0] - 1]
        raise RuntimeError(f"{name} failed, which the kernel calls: the output is not complete")
'''


THREE, TWO = "\n\n\n", "\n\n"


def _assigned(name: str, words: Sequence[str]) -> str:
    """Return the assignment of a tuple of words, on as many lines as it takes."""
    lines = wrap(", ".join(map(repr, words)), 94, break_long_words=False, break_on_hyphens=False)
    return "\n".join([f"{name} = (", *(f"    {line}" for line in lines), ")"])


_C_COMPILER = "\n".join(
    (
        f"COMPILERS = {COMPILERS!r}",
        _assigned("C_OPTIONS", OPTIONS),
        f"GCC_OPTIONS = {GCC_OPTIONS!r}",
    )
)


@dataclass(frozen=True)
class ExternText:
    """The functions of a file: the helpers that they use, their texts, and their names in order."""

    helpers: tuple[str, ...]
    texts: tuple[str, ...]
    names: tuple[str, ...]


HOW_TO_SAVE = (
    "Give the text of its C source, or a function of numba.njit that needs nothing of its program."
)


def unsaved(functions: Iterable[ExternFunction]) -> str:
    """Return why a file cannot hold one of ``functions``, or an empty text."""
    for function in functions:
        if not function.is_c and function.kind != NUMBA:
            why = function.why if function.kind == "address" else "it is a function of Python"
            return f"no file holds {function.name}: {why}"
        if not function.source:
            return f"no file holds {function.name}: {function.why}"
    return ""


def extern_text(nest: MachineNest, taken: Iterable[str] = ()) -> ExternText:
    """Return the functions that ``nest`` calls, by their positions in its table.

    The file has functions of the names ``taken``.
    """
    by_position = {stmt.position: stmt for stmt in nest.invoked}
    called = [by_position[k] for k in sorted(by_position)]
    makers: dict[ExternFunction, str] = {}
    texts, helpers, addresses = list[str](), dict[str, None](), list[str]()
    names = {*taken}
    for stmt in called:
        function = stmt.function
        if function not in makers:
            maker, number = f"{MAKER}{function.name}", 1
            while maker in names:
                number += 1
                maker = f"{MAKER}{function.name}_{number}"
            makers[function] = maker
            names.add(maker)
            texts.append(_maker(function, maker))
        helper = "c_function" if function.is_c else "numba_function"
        helpers[helper] = None
        given = [f"{makers[function]}()"]
        if function.is_c:
            given = [repr(function.name), *given, "COMPILERS", "C_OPTIONS", "GCC_OPTIONS"]
        else:
            boxes = tuple((a.dtype, n, p) for a, n, p in zip(stmt.given, stmt.ranks, stmt.packed))
            given.append(repr(boxes))
        addresses.append(f"        {helper}({', '.join(given)}),")
    if "c_function" in helpers:
        texts.insert(0, _C_COMPILER)
    functions = [
        "@lru_cache(maxsize=1)",
        "def _functions():",
        '    """The functions that the kernel calls, each with its address."""',
        "    return [",
        *addresses,
        "    ]",
    ]
    texts += ["\n".join(functions), SUCCEEDED.strip()]
    return ExternText(tuple(sorted(helpers)), tuple(texts), tuple(s.function.name for s in called))


def table_line(table: str) -> str:
    """Return the line of a public function that makes the ``table`` of the addresses."""
    addresses = "*(address for address, _ in _functions())"
    return f'    {table} = np.array([0, {addresses}], "int64")'


def _maker(function: ExternFunction, maker: str) -> str:
    """Return the definition of ``maker``, which returns a function or its C source.

    What the text of a function defines is local there, so that it hides no name of the file.
    """
    lines = ["@lru_cache(maxsize=1)", f"def {maker}():"]
    if function.is_c:
        source = f"{user_head()}{function.source.rstrip()}\n"
        lines += [f'    """The C source of {function.name}."""', f"    return {_quoted(source)}"]
    else:
        lines += [
            f'    """The function {function.name}."""',
            # blank lines stand alone inside of a function
            f"{indent(function.source, '    ').replace(THREE, TWO)}\n",
            f"    return {function.name}",
        ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Return a text as a string of Python, over several lines if it can be."""
    if "'''" in text or set(text) & set("\r\0"):
        return repr(text)
    return f"{'r' if chr(92) in text else ''}'''{text}'''"


__all__ = ["HELPERS", "HOW_TO_SAVE", "ExternText", "extern_text", "table_line", "unsaved"]
