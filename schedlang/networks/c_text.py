"""A network as a C program: the texts of its source and of its header."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlang.codegen.c_definitions import includes, plain_types, used_definitions
from schedlang.codegen.c_externs import c_externs
from schedlang.codegen.c_headers import header
from schedlang.codegen.c_hosted import ProgramPrinter
from schedlang.codegen.c_source import INDENT
from schedlang.codegen.network_file import with_comments
from schedlang.expr.dtypes import is_complex, itemsize, part_of
from schedlang.machine.alignment import BYTES
from schedlang.machine.nodes import Array, Reg
from schedlang.markup.sizes import bytes_text
from schedlang.networks.c_linking import CLinked
from schedlang.networks.c_main import main_source
from schedlang.networks.c_weights import WeightsFile
from schedlang.networks.sized_memory import SizedMemory
from schedlang.runtime.c_checks import Checks, dlpack_type, value_text
from schedlang.runtime.c_program import (
    FUNCTION_CODE,
    NO_MEMORY_CODE,
    SIZES_CODE,
    WORDS,
    apart_from,
    argument,
    checked_function,
    checks_of,
    declared,
    error_lines,
    header_file,
    heading,
)

# how the names of the functions end
ENDS = ("open", "open_bytes", "run", "run_checked", "close", "error")
# the codes of opening, as codegen/c_network.h names them, and their words
OPENING = {
    4: ("SL_UNREADABLE", "the file of weights cannot be read"),
    5: ("SL_NOT_WEIGHTS", "it is not a file of weights, or has another version"),
    6: ("SL_OTHER_NETWORK", "the weights belong to another network"),
    7: ("SL_DAMAGED", "the file of weights is damaged or cut off"),
    8: ("SL_OTHER_VALUES", "a weight has values with which the program was not checked"),
    9: ("SL_NOT_OPEN", "the network is NULL: open it first"),
}


@dataclass(frozen=True)
class NetworkProgram:
    """A network as C: the texts of its header, of its source, and of a program that runs it."""

    header: str
    source: str
    main: str


def network_program(
    network: CLinked, file: WeightsFile, fixed: Mapping[str, int], name: str, build: str
) -> NetworkProgram:
    """Return a network as the C program ``name``; ``build`` is the command that compiles it.

    ``fixed`` are the checksums of weights that decide indices, or that have facts: the program
    takes no other values for them.
    """
    nest, signature = network.nest, network.signature
    public_names = {name, "net", *(f"{name}_{end}" for end in ENDS)}
    parameters = apart_from(nest.entry.parameters, public_names)
    checks = checks_of(parameters, signature, network.refused)
    externs = c_externs(nest)
    printer = ProgramPrinter(nest, externs)
    functions = [printer.function(f, False) for f in nest.functions]
    commented = with_comments(functions, nest, network.comments, "//")
    run, space = _run(network, parameters, checks, name, printer)
    public = _public(network, parameters, checks, name)
    loader = _of(name, "c_network.h")
    texts = [line.text for lines in functions for line in lines]
    helpers = used_definitions(printer.helpers(), [*texts, loader, space, *run, *flatten(public)])
    heads = includes([helpers, externs.declared, loader, *texts])
    parts = [
        network.head.rstrip("\n"),
        f'#include "{name}.h"\n{heads}',
        _constants(file),
        helpers,
        _table(file, fixed),
        loader,
        space,
        externs.declared,
        *(plain_types("\n".join(line.text for line in lines)) for lines in commented),
        *(plain_types("\n".join(lines)) for lines in (run, *public)),
        *externs.defined,
    ]
    return NetworkProgram(
        _header(file, checks, name, build, [run, *public]),
        "\n\n".join(filter(None, parts)) + "\n",
        main_source(parameters[: _count(network)], checks, name),
    )


def flatten(functions: Sequence[Sequence[str]]) -> list[str]:
    return [line for lines in functions for line in lines]


def _of(name: str, text: str) -> str:
    """Return a header of helpers for the network ``name``."""
    return re.sub(r"\bNAME(?=_|\b)", name, header(text))


def _constants(file: WeightsFile) -> str:
    """Return the codes of errors, and the numbers of the file of weights."""
    values = {
        "SL_NO_MEMORY": NO_MEMORY_CODE,
        **{macro: code for code, (macro, _) in OPENING.items()},
        "SL_FILE_BYTES": f"{file.size}u",
        "SL_WEIGHT_BYTES": f"{file.nbytes}u",
        "SL_WEIGHTS": f"{len(file.weights)}u",
        "SL_BOOL": dlpack_type("bool")[0] << 8 | dlpack_type("bool")[1],
    }
    return "\n".join(f"#define {macro} {value}" for macro, value in values.items())


def _table(file: WeightsFile, fixed: Mapping[str, int]) -> str:
    """Return the hash of the network, and the table that its weights must have."""
    rows = []
    for w in file.weights:
        shape = ", ".join(map(str, w.shape)) or "0"
        only = f"1, {fixed[w.name]:#x}u" if w.name in fixed else "0, 0"
        name = _literal(w.name)
        numbers = f"{w.start}u, {w.nbytes}u, {w.dtype}, {len(w.shape)}"
        rows.append(f"  {{{name}, {numbers}, {{{shape}}}, {only}}},")
    most = max((len(w.shape) for w in file.weights), default=1)
    return "\n".join(
        [
            f"static const uint8_t sl_hash[] = {{{', '.join(map(str, file.hash))}}};",
            "/* A fixed weight decides an index, or has facts of sl.assume: the program was",
            "   checked with the elements of this sum, and takes no others. */",
            "static const struct sl_weight {",
            "  const char *name;",
            "  uint64_t start, bytes;",
            "  uint32_t dtype, rank;",
            f"  uint64_t shape[{max(most, 1)}];",
            "  int fixed;",
            "  uint64_t sum;",
            "} sl_weights[] = {",
            *rows,
            "  {0},",
            "};",
        ]
    )


def _literal(name: str) -> str:
    """Return a name as a literal of C in which any other letter than ASCII's is an octal number.

    >>> print(_literal("conv1.weight?"))
    "conv1.weight\\077"
    """
    safe = "".join(
        chr(b) if b < 128 and (chr(b).isalnum() or chr(b) in " _.,:-/") else f"\\{b:03o}"
        for b in name.encode()
    )
    return f'"{safe}"'


def _run(
    network: CLinked, parameters: Sequence[Array | Reg], checks: Checks, name: str,
    printer: ProgramPrinter,
) -> tuple[list[str], str]:  # fmt: skip
    """Return the lines of the function that runs the network, and the helpers for its workspace."""
    nest, storage, memory = network.nest, network.storage, network.sized
    count = _count(network)
    rest = iter(parameters[count:])
    listed = [declared(p, k, checks) for k, p in enumerate(parameters[:count])]
    passed = [argument(p, k, checks) for k, p in enumerate(parameters[:count])]
    before = ["if (!net) return SL_NOT_OPEN;"]
    after, helpers, codes = list[str](), list[str](), list[str]()
    if tests := checks.of_sizes():
        before.append(f"if ({' || '.join(tests)}) return {SIZES_CODE};")
    if nest.invoked:
        table = next(rest).name
        before.append(f"sl_i64 {table}[1] = {{0}};")
        passed.append(table)
        codes.append(f"{table}[0] ? {FUNCTION_CODE}")
    if storage.param_bytes:
        next(rest)
        passed.append("(sl_u8 *)net->weights")
    size = str(storage.arena)
    if memory is not None and memory.names:
        size = "sl_bytes"
        before += _planned(memory, checks)
        helpers.append(_places(memory))
    if memory is not None and not memory.names:
        passed += ["NULL", "NULL"]
    elif storage.arena or memory is not None:
        next(rest)
        helpers.append(_of(name, "c_workspace.h"))
        before.append(f"void *sl_space = sl_workspace(net, {size});")
        before.append("if (!sl_space) return SL_NO_MEMORY;")
        passed.append("sl_space")
        after.append("sl_leave(net, sl_space);")
        passed += ["sl_places"] * (memory is not None)
    call = printer.call(nest.entry.name, passed)
    if nest.entry.name in printer.hosted:
        before.append("const schedlang_host *sl_host = net->host;")
        call = f"int sl_failed = {call}"
        codes.insert(0, "sl_failed ? SL_NO_MEMORY")
    result = f"return {' : '.join([*codes, '0'])};"
    head = f"int {name}_run({', '.join([f'{name} *net', *listed])}) {{"
    lines = [head, *(INDENT + line for line in [*before, f"{call};", *after, result]), "}"]
    return lines, "\n\n".join(helpers)


def _count(network: CLinked) -> int:
    """Return the number of parameters that a call gives."""
    return len(network.signature.parameters) + len(network.signature.sizes)


def _planned(memory: SizedMemory, checks: Checks) -> list[str]:
    """Return the statements that place the arrays between kernels at the sizes of a call."""
    lives = (*memory.lives, *((s.first, s.last) for s in memory.scratch))
    rows = []
    for (dtype, shape), (first, last) in zip(_arrays(memory), lives):
        extents = ", ".join(_extent(e, memory, checks) for e in shape) or "0"
        rows.append(f"{INDENT}{{{{{extents}}}, {len(shape)}, {itemsize(dtype)}, {first}, {last}}},")
    return [
        "sl_i64 sl_places[2 * SL_ARRAYS];",
        "const struct sl_array sl_arrays[] = {",
        *rows,
        "};",
        "sl_i64 sl_bytes = sl_planned(sl_arrays, sl_places);",
        f"if (sl_bytes < 0) return {SIZES_CODE};",
    ]


def _arrays(memory: SizedMemory) -> list[tuple[str, tuple[int | str, ...]]]:
    """Return the dtype and the shape of each array between kernels, in the order of ``memory``."""
    arrays: list[tuple[str, tuple[int | str, ...]]] = []
    for p in memory.tensors:
        # a complex number is two
        parts = is_complex(p.dtype)
        arrays.append((part_of(p.dtype), (*p.shape, 2)) if parts else (p.dtype, p.shape))
    return [*arrays, *((BYTES, (s.bytes,)) for s in memory.scratch)]


def _extent(extent: int | str, memory: SizedMemory, checks: Checks) -> str:
    if isinstance(extent, int):
        return str(extent)
    terms = memory.signature.extents.get(extent)
    return checks.sizes[extent] if terms is None else value_text(terms, checks.sizes)


def _places(memory: SizedMemory) -> str:
    arrays = _arrays(memory)
    most = max((len(shape) for _, shape in arrays), default=1)
    return f"#define SL_ARRAYS {len(arrays)}\n#define SL_MOST_DIMENSIONS {max(most, 1)}\n" + header(
        "c_places.h"
    )


def _public(
    network: CLinked, parameters: Sequence[Array | Reg], checks: Checks, name: str
) -> list[list[str]]:
    """Return the lines of the other functions that are of this network's arguments."""
    given = parameters[: _count(network)]
    first = f"{name} *net"
    checked = checked_function(f"{name}_run", f"{name}_run_checked", given, checks, first)
    words = {NO_MEMORY_CODE: WORDS[NO_MEMORY_CODE]}
    words |= {SIZES_CODE: WORDS[SIZES_CODE]} if checks.of_sizes() or network.sized else {}
    words |= {FUNCTION_CODE: WORDS[FUNCTION_CODE]} if network.nest.invoked else {}
    words |= {code: text for code, (_, text) in OPENING.items()}
    error = [f"const char *{name}_error(int code) {{", *error_lines(checks, words)]
    return [[f[0], *(INDENT + line for line in f[1:]), "}"] for f in (checked, error)]


def _header(
    file: WeightsFile, checks: Checks, name: str, build: str,
    functions: Sequence[Sequence[str]],
) -> str:  # fmt: skip
    comment = [
        *heading(f"{name}_run", checks.signature, build),
        f"{name}_open maps the file of weights, {name}.weights ({bytes_text(file.size)}), where",
        f"there is mmap, and reads it elsewhere; {name}_open_bytes takes such a file in memory.",
        "Both check all of it. The file, the bytes and the host must stay as they are until the",
        "network is closed. The host may be NULL: malloc then gives the memory, and OpenMP the",
        "threads.",
        "",
        f"{name}_run takes contiguous arrays, row by row; outputs overlap no other array. It",
        f"trusts its caller, but for sizes; {name}_run_checked takes tensors of DLPack and checks",
        "them all. Threads may call both at once for one network. Each function returns 0, or a",
        f"code that {name}_error says in words.",
    ]
    host = "const schedlang_host *host"
    declarations = [
        f"typedef struct {name} {name};",
        f"int {name}_open(const char *path, {host}, struct {name} **net);",
        f"int {name}_open_bytes(const void *bytes, size_t size, {host}, struct {name} **net);",
        f"void {name}_close({name} *net);",
        *(plain_types(f"{lines[0].removesuffix(' {')};") for lines in functions),
    ]
    return header_file(name, comment, declarations, True)


__all__ = ["ENDS", "network_program"]
