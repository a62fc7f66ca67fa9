"""A program of C that runs a network on files, and the file by which ``make`` builds it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from schedlang.codegen.c_compiler import GCC_OPTIONS
from schedlang.codegen.c_definitions import plain_types, used_definitions
from schedlang.codegen.c_source import INDENT
from schedlang.codegen.c_values import TAGS, memory
from schedlang.expr.dtypes import SHORT_FLOATS, is_complex, is_float
from schedlang.machine.nodes import Array, Reg
from schedlang.runtime.c_checks import Checks
from schedlang.runtime.c_toolchain import Toolchain, program_suffix

_MAIN = """\
/* ./NAME NAME.weights ARGUMENTS: run NAME on files of numbers, one call after the other.
   The arguments are NAME_run's: paths of files, and numbers. An input has the elements of all calls
   as they are in memory; the results go to the files of outputs, or are printed for "-". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "NAME.h"

static FILE *sl_opened(const char *path, const char *how) {
    FILE *file = *how == 'r' || strcmp(path, "-") ? fopen(path, how) : stdout;
    if (!file) perror(path), exit(1);
    return file;
}

static int sl_next(void *array, size_t bytes, FILE *file) {
    size_t read = fread(array, 1, bytes, file);
    if (read && read < bytes) fprintf(stderr, "a file ends within an array\\n"), exit(1);
    return bytes && read == bytes;
}
COUNTER
int main(int argc, char **argv) {
    if (argc != COUNT) return fprintf(stderr, "usage: %s NAME.weights ARGUMENTS\\n", argv[0]), 2;
    struct NAME *net;
    int code = NAME_open(argv[1], NULL, &net);
    if (code) return fprintf(stderr, "%s: %s\\n", argv[1], NAME_error(code)), 1;
DECLARED
    LOOP {
WRITTEN
    }
    if (code) fprintf(stderr, "NAME: %s\\n", NAME_error(code));
CLOSED
    NAME_close(net);
    return code != 0;
}
"""

# what it has if a size is an argument
_COUNTER = """
static size_t sl_counted(double elements) {
    if (elements >= 0 && elements < (double)(SIZE_MAX / 16)) return (size_t)elements;
    fprintf(stderr, "there are no arrays of these sizes\\n"), exit(1);
}
"""
# the variables of main, and the functions of C that it calls
_TAKEN = (
    "net code argc argv k runs main calloc exit ferror fflush fopen fprintf fread free fwrite "
    "perror printf stderr stdout strcmp strtod strtoll"
).split()


def main_source(parameters: Sequence[Array | Reg], checks: Checks, name: str) -> str:
    """Return the source of a program that runs the network ``name``.

    ``parameters`` are what its function takes.
    """
    taken = {*_TAKEN}
    numbers, arrays, inputs, written, closed = (list[str]() for _ in range(5))
    names: dict[str, str] = {}
    for p in parameters:
        own = p.name
        while not taken.isdisjoint({own, f"{own}_count", f"{own}_file"}):
            own += "_"
        names[p.name] = own
        taken |= {own, f"{own}_count", f"{own}_file"}
    sizes = {size: names[own] for size, own in checks.sizes.items()}
    checks = Checks(checks.signature, checks.names, sizes, ())
    for position, p in enumerate(parameters):
        own, given = names[p.name], f"argv[{position + 2}]"
        if isinstance(p, Reg):
            dtype = p.type.dtype
            read = f"strtod({given}, NULL)" if is_float(dtype) else f"strtoll({given}, NULL, 10)"
            numbers.append(f"sl_{TAGS[dtype]} {own} = (sl_{TAGS[dtype]}){read};")
            continue
        parameter = checks.signature.parameters[position]
        extents = [checks.extent(e) for e in parameter.shape]
        extents = [f"({e})" if " " in e else e for e in extents]
        count = " * ".join([*extents, *["2"] * is_complex(parameter.dtype)]) or "1"
        known = all(isinstance(e, int) and e for e in parameter.shape)
        if known:
            arrays.append(f"static {memory(p.dtype)} {own}[{count}];")
        else:
            arrays += [
                f"size_t {own}_count = sl_counted((double){count});",
                f"{memory(p.dtype)} *{own} = calloc({own}_count + 1, sizeof *{own});",
                f"if (!{own}) return 1;",
            ]
            closed.append(f"free({own});")
        size = f"sizeof {own}" if known else f"{own}_count * sizeof *{own}"
        how = "wb" if parameter.is_output else "rb"
        arrays.append(f'FILE *{own}_file = sl_opened({given}, "{how}");')
        if not parameter.is_output:
            inputs.append(f"sl_next({own}, {size}, {own}_file)")
            continue
        last = f"sizeof {own} / sizeof *{own}" if known else f"{own}_count"
        row = extents[-1] if extents and extents[-1] != "0" else "1"
        written += [
            f"for (size_t k = 0; {own}_file == stdout && k < {last}; k++)",
            f"{INDENT}{_printed(p.dtype, own, row)}",
            f"if ({own}_file != stdout) fwrite({own}, 1, {size}, {own}_file);",
        ]
        closed.append(f"if (fflush({own}_file) || ferror({own}_file)) perror({given}), code = 1;")
    runs = f"!(code = {name}_run(net, {', '.join(names.values())}))"
    loop = f"while ({' && '.join([*inputs, runs])})"
    if not inputs:
        loop = f"for (int runs = 0; runs < 1 && {runs}; runs++)"
    texts = {
        "COUNTER": _counter(arrays),
        "COUNT": str(len(parameters) + 2),
        "ARGUMENTS": " ".join(names.values()),
        "DECLARED": "\n".join(INDENT + line for line in [*numbers, *arrays]),
        "LOOP": loop,
        "WRITTEN": "\n".join(2 * INDENT + line for line in written),
        "CLOSED": "\n".join(INDENT + line for line in closed),
        "NAME": name,
    }
    places = re.compile(rf"\b({'|'.join(texts)})(?=\b|_)")
    return plain_types(places.sub(lambda place: texts[place[1]], _MAIN))


def _counter(arrays: Sequence[str]) -> str:
    """Return what the statements ``arrays`` need to count elements."""
    if not any("sl_counted" in line for line in arrays):
        return ""
    helpers = used_definitions([], arrays)
    return (f"\n{helpers}\n" if helpers else "") + _COUNTER


def _printed(dtype: str, name: str, row: str) -> str:
    """Return the statement that prints an element, and ends the line after each ``row`` of them."""
    value, form = f"{name}[k]", '%" PRId64 "'
    if dtype in SHORT_FLOATS:
        value, form = f"(unsigned){value}", "0x%04x"
    elif is_float(dtype):
        value, form = f"(double){value}", "%.9g" if dtype == "float32" else "%.17g"
    elif dtype == "uint64":
        form = '%" PRIu64 "'
    else:
        value = f"(int64_t){value}"
    if row == "1":
        return f'printf("{form}\\n", {value});'
    # a row of a size counts in int64_t
    row = row if row.isdigit() else f"(size_t){row}"
    return f"printf(\"{form}%c\", {value}, (k + 1) % {row} ? ' ' : '\\n');"


def makefile(name: str, tools: Toolchain, triple: str) -> str:
    """Return the file by which GNU make builds the program of ``main.c``, maybe for a triple."""
    program, flags = name + program_suffix(triple), f"CFLAGS = {' '.join(tools.options(False))}"
    if triple:
        # zig's programs have the names of functions of the C library otherwise
        head = f"""\
# make builds {program} for {triple}, by zig: the first program takes it a minute
CC = {tools.shown}
{flags} -s
"""
    else:
        gcc = f"$(if $(findstring clang,$(shell $(CC) --version)),,{' '.join(GCC_OPTIONS)})"
        head = f"""\
# make builds {program}; with CC=clang, it leaves out what GCC alone knows
{flags}
GCC = {gcc}
"""
    return f"""\
{head}
{program}: main.c {name}.c {name}.h
\t$(CC) $(CFLAGS) {"" if triple else "$(GCC) "}-o $@ main.c {name}.c -lm
"""


__all__ = ["main_source", "makefile"]
