"""The text of a network's module: header, imports, functions, the table of parameters, the entry.

The file is as that of a kernel (:mod:`.numba_file`). Its public function takes the bytes of all
parameters, which ``pack`` makes of arrays by their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from schedlang.codegen.listing import Line, Listing, apart, plain
from schedlang.codegen.numba_cpu import Source
from schedlang.codegen.numba_file import HELPERS as KERNEL_HELPERS
from schedlang.codegen.numba_file import argument_checks, helpers_of, imports, options
from schedlang.ir.nest import Nest
from schedlang.ir.printer import argument_text, header

WIDTH = 98
# the names that a file defines or uses beside those of kernels and the file of a kernel
HELPERS = (
    *KERNEL_HELPERS, "_bytes", "_root", "pack", "arrays", "config", "name", "start", "dtype",
    "shape", "PARAMS", "PARAM_BYTES", "ARENA_BYTES", "THREAD_BYTES",
)  # fmt: skip

BYTES = '''
def _bytes(size):
    """`size` new bytes, from a multiple of 64 on."""
    whole = np.empty(size + 64, "uint8")
    start = -whole.ctypes.data % 64
    return whole[start : start + size]
'''

PACK = '''
def pack(arrays):
    """The bytes of all parameters, of arrays by their names in PARAMS."""
    params = _bytes(PARAM_BYTES)
    for name, (start, dtype, shape) in PARAMS.items():
        flat = _array(arrays[name], name, dtype, shape)
        params[start : start + flat.nbytes] = flat.view("uint8")
    return params
'''


@dataclass(frozen=True)
class ParamPlace:
    """A parameter of a network, whose elements begin at byte ``start`` of the array of all."""

    name: str
    start: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Storage:
    """The memory of a module beside its arguments, in bytes; ``threads`` counts for each thread.

    ``params`` are the places in ``param_bytes``.
    """

    params: tuple[ParamPlace, ...] = ()
    param_bytes: int = 0
    arena: int = 0
    threads: int = 0


def printable(text: str) -> str:
    """Return ``text`` as one line of a comment, in Python or in C.

    >>> printable("layer1\\n.conv\\\\")
    'layer1 .conv/'
    """
    line = " ".join(text.replace("\\", "/").split())
    return "".join(c if c.isprintable() else "?" for c in line)


def network_head(nest: Nest, about: Sequence[str], mark: str = "#") -> str:
    """Return the comment at the top of a file: the signature of ``nest``, and what is ``about``."""
    lines = [header(nest), ""]
    for text in about:
        lines += wrap(printable(text), WIDTH - 2, break_on_hyphens=False) or [""]
    return "\n".join(f"{mark} {line}".rstrip() for line in lines) + "\n"


def with_comments(
    functions: Sequence[Sequence[Line]], names: Sequence[str],
    comments: Mapping[str, Sequence[str]], mark: str = "#",
) -> list[list[Line]]:  # fmt: skip
    """Return the lines of ``functions``, each with the comment of its name above it."""
    found: list[list[Line]] = []
    for lines, name in zip(functions, names):
        above = (wrap(printable(text), WIDTH - 2, subsequent_indent="    ", break_on_hyphens=False)
                 for text in comments.get(name, ()))  # fmt: skip
        found.append([*(Line(f"{mark} {line}") for text in above for line in text), *lines])
    return found


def render_network(
    nest: Nest, source: Source, functions: Sequence[Sequence[Line]], about: Sequence[str],
    storage: Storage, fastmath: bool, compiled: bool, alone: bool = True,
) -> Listing:  # fmt: skip
    """Return the file of a network whose arguments are those of ``nest``.

    ``functions`` are those of ``source`` with comments. The entry takes the arguments of ``nest``,
    and then what ``storage`` has. ``compiled`` chooses numba's intrinsics or their Python twins.
    Without ``alone`` the file has no public function: its memory is planned by the caller.
    """
    extra = any(arg.dtype == "bfloat16" for arg in nest.args)
    extra = extra or any(p.dtype == "bfloat16" for p in storage.params)
    given = imports(source, compiled, extra)
    if compiled and storage.threads:
        given = given.replace("from numba import njit", "from numba import config, njit", 1)
    head = network_head(nest, about)
    parts = [head, given, "", options(fastmath, compiled), *tables(storage)]
    public = _public(nest, source, storage, compiled) if alone else ""
    helpers = [*helpers_of(public), BYTES.strip()] if public or storage.params else []
    helpers += [PACK.strip()] if storage.params else []
    exported = [source.public] if alone else []
    exported += ["PARAMS", "pack"] if storage.params else []
    texts = [*helpers, *([public] if public else []), f"__all__ = {sorted(exported)}"]
    return Listing(tuple(apart([plain("\n".join(parts)), *functions, *map(plain, texts)], 2)))


def tables(storage: Storage) -> list[str]:
    """Return the constants of a file: the places of parameters, and numbers of bytes."""
    lines: list[str] = []
    if storage.params:
        lines += ["", "# each parameter: its first byte in `params`, its dtype and its shape"]
        lines.append("PARAMS = {")
        for p in storage.params:
            lines.append(f"    {p.name!r}: ({p.start}, {p.dtype!r}, {p.shape!r}),")
        lines += ["}", f"PARAM_BYTES = {storage.param_bytes}"]
    else:
        lines.append("")
    lines += [f"ARENA_BYTES = {storage.arena}"] if storage.arena else []
    lines += [f"THREAD_BYTES = {storage.threads}  # for each thread"] if storage.threads else []
    return lines if any(lines) else []


def _public(nest: Nest, source: Source, storage: Storage, compiled: bool) -> str:
    """Return the source of the public function, which takes and returns arrays."""
    count = len(nest.args) + len(nest.sizes)
    checks = argument_checks(nest, source.parameters[:count], frozenset())
    rest = iter(source.parameters[count:])
    results = ", ".join(argument_text(b) for b in nest.outputs)
    about, parameters = f"{results}; made here unless given.", list(checks.parameters)
    lines, given = list(checks.lines), list(checks.given)
    if storage.params:
        name = next(rest)
        parameters.append(f"*, {name}")
        about += f" `{name}` are those of `pack`."
        lines.append(f'    {name} = _array({name}, {name!r}, "uint8", (PARAM_BYTES,))')
        given.append(name)
    for size, text in ((storage.arena, "ARENA_BYTES"), (storage.threads, "THREAD_BYTES")):
        if size:
            each = text == "THREAD_BYTES" and compiled
            given.append(f"_bytes({text}{' * config.NUMBA_NUM_THREADS' if each else ''})")
            next(rest)
    return "\n".join([
        f"def {source.public}({', '.join(parameters)}):", f'    """{about}"""', *lines,
        *_call(source.entry, given), "    return result",
    ])  # fmt: skip


def _call(name: str, given: Iterable[str]) -> list[str]:
    """Return a call of ``name``, on several lines if it is long."""
    listed = list(given)
    line = f"    {name}({', '.join(listed)})"
    if len(line) <= WIDTH:
        return [line]
    inside = wrap(", ".join(listed) + ",", WIDTH - 8, break_long_words=False)
    return [f"    {name}(", *(f"        {part}" for part in inside), "    )"]


__all__ = [
    "BYTES",
    "HELPERS",
    "PACK",
    "ParamPlace",
    "Storage",
    "network_head",
    "printable",
    "render_network",
    "tables",
    "with_comments",
]
