"""The text of a network's module: header, imports, functions, the table of parameters, the entry.

The file is like the file of a kernel (:mod:`.numba_file`). Its public function takes the bytes of
all parameters, which ``pack`` makes of arrays by their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Optional

from schedlang.codegen.arena import arena_source
from schedlang.codegen.extern_text import ExternText, extern_text, table_line, unsaved
from schedlang.codegen.listing import Line, Listing, join_parts, plain
from schedlang.codegen.network_storage import Storage
from schedlang.codegen.numba_cpu import Source
from schedlang.codegen.numba_file import HELPERS as KERNEL_HELPERS
from schedlang.codegen.numba_file import (
    HOLDS,
    argument_checks,
    as_listing,
    imports,
    options,
    shape_source,
)
from schedlang.codegen.refused_sizes import Refusals
from schedlang.expr.dtypes import is_complex, itemsize, part_of
from schedlang.expr.nodes import Expr, Var
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Buffer
from schedlang.ir.printer import argument_text, header
from schedlang.machine.nest import MachineNest

WIDTH = 98
# the names that a file defines or uses besides the names of kernels and of a kernel's file
HELPERS = (
    *KERNEL_HELPERS, "_bytes", "_places", "_root", "arena_places", "pack", "arrays", "config",
    "lru_cache", "name", "start", "dtype", "shape", "PARAMS", "PARAM_BYTES", "FACTS", "ARENA_BYTES",
    "THREAD_BYTES",
)  # fmt: skip

BYTES = '''
def _bytes(size):
    """`size` new bytes, from a multiple of 64 on."""
    whole = np.empty(size + 64, "uint8")
    start = -whole.ctypes.data % 64
    return whole[start : start + size]
'''

_PLACES = '''
def _places(arrays):
    """The bytes that all `arrays` take, and for each its first byte and its number of elements.

    Each has its shape, the bytes of an element, and the first and the last call that uses it.
    """
    for shape, *_ in arrays:
        if min(shape, default=0) < 0:
            raise ValueError(f"an array between calls would have the shape {shape}")
    counts = [int(np.prod(shape, dtype=object)) for shape, *_ in arrays]
    blocks = [
        ((count * width + 63) // 64 * 64, first, last)
        for count, (_, width, first, last) in zip(counts, arrays)
    ]
    starts, size = arena_places(blocks)
    return max(64, size), np.array([*zip(starts, counts)], "int64").reshape(-1)
'''

# planning takes longer than the kernels of a small network
_PLACES_OF_THE_LAST_SIZES = "@lru_cache(maxsize=64)  # the plans of the last sizes stay"

_PACK = '''
def pack(arrays):
    """The bytes of all parameters, of arrays by their names in PARAMS."""
    params = _bytes(PARAM_BYTES)
    for name, (start, dtype, shape) in PARAMS.items():
        if name not in arrays:
            raise KeyError(f"the arrays given to pack have no weight {name}")
'''
_PACK_BFLOAT = """
        value = arrays[name]
        if dtype == "bfloat16" and value.dtype.kind == "V":
            value = value.view(dtype)  # np.load knows no bfloat16
        flat = _array(value, name, dtype, shape)
"""
_PACK_OTHERS = """
        flat = _array(arrays[name], name, dtype, shape)
"""
_PACK_FACTS = """
        if name in FACTS:
            _holds(flat, name, shape, *FACTS[name])
"""
_PACKED = """
        params[start : start + flat.nbytes] = flat.view("uint8")
    return params
"""


@dataclass(frozen=True)
class Between:
    """An array between calls whose place depends on sizes.

    It is in use from call ``first`` to call ``last``.
    """

    buffer: Buffer
    first: int
    last: int


@dataclass(frozen=True)
class NetworkFile:
    """The parts of a network's file beside its kernels.

    It takes the arguments of ``nest``, and its entry takes behind them what ``storage`` has. The
    comment at the top has ``about``. ``between`` are the arrays between calls, if their places
    depend on the sizes of a call. The public function refuses the sizes ``refused``.
    """

    nest: Nest
    about: str
    storage: Storage
    fastmath: bool
    between: Optional[Sequence[Between]] = None
    refused: tuple[Refusals, ...] = ()


def printable(text: str) -> str:
    """Return ``text`` as one line of a comment, in Python or in C.

    >>> printable("layer1\\n.conv\\\\")
    'layer1 .conv/'
    """
    line = " ".join(text.replace("\\", "/").split())
    return "".join(c if c.isprintable() else "?" for c in line)


def network_head(file: NetworkFile, mark: str = "#") -> str:
    """Return the comment at the top of a file: its arguments, and what it is about."""
    about = wrap(printable(file.about), WIDTH - 2, break_on_hyphens=False)
    lines = [header(file.nest), "", *about]
    return "\n".join(f"{mark} {line}".rstrip() for line in lines) + "\n"


def with_comments(
    functions: Sequence[Sequence[Line]],
    nest: MachineNest,
    comments: Mapping[str, Sequence[str]],
    mark: str = "#",
) -> list[list[Line]]:
    """Return the lines of the functions of ``nest``, each with the comment of its name above it."""
    listed: list[list[Line]] = []
    for lines, name in zip(functions, (f.name for f in nest.functions)):
        above = (
            wrap(printable(text), WIDTH - 2, subsequent_indent="    ", break_on_hyphens=False)
            for text in comments.get(name, ())
        )
        listed.append([*(Line(f"{mark} {line}") for text in above for line in text), *lines])
    return listed


def render_network(
    file: NetworkFile, source: Source, functions: Sequence[Sequence[Line]], compiled: bool
) -> Listing:
    """Return a file of Python.

    ``functions`` are the functions of ``source`` with comments. ``compiled`` chooses numba's
    intrinsics or their Python twins. Without a public function, it is part of a process that has
    functions of users.
    """
    storage = file.storage
    nest = source.nest
    here = bool(nest.invoked) and (not compiled or bool(unsaved(nest.called)))
    names = {source.public, *(f.name for f in nest.functions)}
    called = extern_text(nest, names) if nest.invoked and not here else None
    extra = any(arg.dtype == "bfloat16" for arg in file.nest.args)
    extra = extra or any(p.dtype == "bfloat16" for p in storage.params)
    sized = file.between is not None
    config, own = compiled and storage.threads > 0, () if called is None else called.helpers
    import_lines = imports(source, compiled, extra, config, sized, own)
    head = network_head(file)
    parts = [head, import_lines, "", options(file.fastmath, compiled), *tables(storage)]
    if here:
        lines = join_parts([plain("\n".join(parts)), *source.definitions, *functions], 2)
        return as_listing(source, functions, lines)
    public, helpers = _public(file, source, compiled, called)
    helpers = list(dict.fromkeys([*helpers, *pack_helpers(storage), BYTES.strip()]))
    if sized:
        planner, places = place_sources()
        helpers += [planner, f"{_PLACES_OF_THE_LAST_SIZES}\n{places}"]
    helpers += [pack_source(storage)] if storage.params else []
    exported = [source.public, *(["PARAMS", "pack"] if storage.params else [])]
    texts = [*helpers, public, f"__all__ = {sorted(exported)}"]
    lines = join_parts(
        [plain("\n".join(parts)), *source.definitions, *functions, *map(plain, texts)], 2
    )
    return as_listing(source, functions, lines)


def place_sources() -> list[str]:
    """Return the functions that plan the arena at the sizes of a call."""
    return [arena_source(), _PLACES.strip()]


def pack_source(storage: Storage) -> str:
    """Return the function that packs parameters."""
    flat = _PACK_BFLOAT if any(p.dtype == "bfloat16" for p in storage.params) else _PACK_OTHERS
    facts = [_PACK_FACTS] * bool(pack_helpers(storage))
    return "\n".join(part.strip("\n") for part in (_PACK, flat, *facts, _PACKED))


def pack_helpers(storage: Storage) -> list[str]:
    """Return the functions that :func:`pack_source` calls for some parameters alone."""
    return [HOLDS.strip()] * any(p.has_facts for p in storage.params)


def tables(storage: Storage) -> list[str]:
    """Return the constants of a file: the places of parameters, and numbers of bytes."""
    lines: list[str] = []
    if storage.params:
        lines += ["", "# each parameter: its first byte in `params`, its dtype and its shape"]
        lines.append("PARAMS = {")
        for p in storage.params:
            lines.append(f"    {p.name!r}: ({p.start}, {p.dtype!r}, {p.shape!r}),")
        lines += ["}", f"PARAM_BYTES = {storage.param_bytes}"]
        facts = [
            f"    {p.name!r}: ({p.monotonic}, {p.within})," for p in storage.params if p.has_facts
        ]
        about = "# what must hold: whether no element of a row is less than the one before, and"
        above = [about, "# the least and the largest element", "FACTS = {"]
        lines += [*above, *facts, "}"] if facts else []
    else:
        lines.append("")
    lines += [f"ARENA_BYTES = {storage.arena}"] if storage.arena else []
    lines += [f"THREAD_BYTES = {storage.threads}  # for each thread"] if storage.threads else []
    return lines if any(lines) else []


def _public(
    file: NetworkFile, source: Source, compiled: bool, called: Optional[ExternText]
) -> tuple[str, list[str]]:
    """Return the source of the public function, and the sources of the functions that it calls.

    It takes and returns arrays. ``called`` are the functions of users.
    """
    nest, storage, between = file.nest, file.storage, file.between
    count = len(nest.args) + len(nest.sizes)
    checks = argument_checks(nest, source.parameters[:count], frozenset(), file.refused)
    rest = iter(source.parameters[count:])
    results = ", ".join(argument_text(b) for b in nest.outputs)
    about, parameters = f"{results}; made here unless given.", list(checks.parameters)
    lines, operands = list(checks.lines), list(checks.given)
    keywords, helpers, after = list(checks.keywords), checks.helpers, list[str]()
    if called is not None:
        table, helpers = next(rest), [*called.texts, *helpers]
        lines.append(table_line(table))
        after.append(f"    _succeeded({table}, {called.names!r})")
        operands.append(table)
    if storage.params:
        name = next(rest)
        keywords.append(name)
        about += f" `{name}` come from `pack`."
        description = repr(f"{name}, the result of pack(arrays),")
        lines.append(f'    {name} = _array({name}, {description}, "uint8", (PARAM_BYTES,))')
        operands.append(name)
    arena_at = len(operands)
    if storage.arena:
        operands.append("_bytes(ARENA_BYTES)")
        next(rest)
    elif between is not None:
        operands.append(next(rest))
    if storage.threads:
        operands.append(f"_bytes(THREAD_BYTES{' * config.NUMBA_NUM_THREADS' if compiled else ''})")
        next(rest)
    if between is not None:
        arena, places = operands[arena_at], next(rest)
        pairs = zip((*nest.args, *nest.sizes), source.parameters)
        sizes: dict[Expr, str] = {size: name for size, name in pairs if isinstance(size, Var)}
        lines += [f"    {arena}, {places} = _places((", *lives(between, sizes), "    ))"]
        lines.append(f"    {arena} = _bytes({arena})")
        operands.append(places)
    parameters += ["*", *keywords] if keywords else []
    text = "\n".join(
        [
            f"def {source.public}({', '.join(parameters)}):",
            f'    """{about}"""',
            *lines,
            *_call(source.entry, operands),
            *after,
            "    return result",
        ]
    )
    return text, helpers


def lives(between: Sequence[Between], sizes: Mapping[Expr, str]) -> list[str]:
    """Return a line for each array between calls: its shape, width, first and last call."""
    lines = []
    for array in between:
        buffer, dtype = array.buffer, array.buffer.dtype
        if is_complex(dtype):
            # two numbers, as in kernels
            buffer, dtype = replace(buffer, shape=(*buffer.shape, 2)), part_of(dtype)
        shape = shape_source(buffer, sizes)
        lines.append(
            f"        ({shape}, {itemsize(dtype)}, {array.first}, {array.last}),"
            f"  # {printable(buffer.name)}"
        )
    return lines


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
    "Between",
    "NetworkFile",
    "lives",
    "network_head",
    "pack_helpers",
    "pack_source",
    "place_sources",
    "printable",
    "render_network",
    "tables",
    "with_comments",
]
