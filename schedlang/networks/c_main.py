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

_MAIN = """\
/* Run NAME on files of numbers, one call after the other:

     ./NAME NAME.weights ARGUMENTS

   The arguments are NAME_run's: paths of files, and numbers. An input has the elements of all calls
   as they are in memory; the results go to the files of outputs, or are printed for "-". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "NAME.h"

static FILE *sl_opened(const char *path, const char *how) {
    if (*how == 'w' && !strcmp(path, "-")) return NULL;
    FILE *file = fopen(path, how);
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
    if (argc != COUNT) {
        fprintf(stderr, "usage: %s NAME.weights ARGUMENTS\\n", argv[0]);
        return 2;
    }
    struct NAME *net;
    int code = NAME_open(argv[1], NULL, &net);
    if (code) {
        fprintf(stderr, "%s: %s\\n", argv[1], NAME_error(code));
        return 1;
    }
DECLARED
    LOOP {
        if ((code = NAME_run(net, GIVEN))) break;
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
    "net code argc argv k runs main calloc exit fclose fopen fprintf fread free fwrite perror "
    "printf strcmp strtod strtoll"
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
        known = all(isinstance(e, int) for e in parameter.shape)
        extents = [f"({e})" if " " in e else e for e in extents]
        count = " * ".join([*extents, *["2"] * is_complex(parameter.dtype)]) or "1"
        arrays += [
            f"size_t {own}_count = {count if known else f'sl_counted((double){count})'};",
            f"{memory(p.dtype)} *{own} = calloc({own}_count + 1, sizeof *{own});",
        ]
        how = "wb" if parameter.is_output else "rb"
        arrays.append(f'FILE *{own}_file = sl_opened({given}, "{how}");')
        arrays.append(f"if (!{own}) return 1;")
        if parameter.is_output:
            written += [
                f"if ({own}_file && fwrite({own}, sizeof *{own}, {own}_count, {own}_file) < "
                f"{own}_count)",
                f"{INDENT}perror({given}), exit(1);",
                f"for (size_t k = 0; !{own}_file && k < {own}_count; k++)",
                f"{INDENT}{_printed(p.dtype, own, extents[-1] if extents else '1')}",
            ]
            closed.append(f"if ({own}_file && fclose({own}_file)) perror({given}), code = 1;")
        else:
            inputs.append(f"sl_next({own}, {own}_count * sizeof *{own}, {own}_file)")
            closed.append(f"fclose({own}_file);")
        closed.append(f"free({own});")
    loop = f"while ({' && '.join(inputs)})" if inputs else "for (int runs = 0; runs < 1; runs++)"
    texts = {
        "COUNTER": _counter(arrays),
        "COUNT": str(len(parameters) + 2),
        "ARGUMENTS": " ".join(names.values()),
        "DECLARED": "\n".join(INDENT + line for line in [*numbers, *arrays]),
        "LOOP": loop,
        "GIVEN": ", ".join(names.values()),
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
    value, form = f"{name}[k]", '"%" PRId64 "%c"'
    if dtype in SHORT_FLOATS:
        value, form = f"(unsigned){value}", '"0x%04x%c"'
    elif is_float(dtype):
        value, form = f"(double){value}", '"%.9g%c"' if dtype == "float32" else '"%.17g%c"'
    elif dtype == "uint64":
        form = '"%" PRIu64 "%c"'
    else:
        value = f"(int64_t){value}"
    # a row of a size counts in int64_t
    row = row if row.isdigit() else f"(size_t){row}"
    return f"printf({form}, {value}, (k + 1) % {row} ? ' ' : '\\n');"


def makefile(name: str, options: Sequence[str]) -> str:
    """Return the file by which GNU make builds the program of ``main.c``."""
    return f"""\
# make builds {name}; with CC=clang, it leaves out what GCC alone knows
CFLAGS = {" ".join(options)}
GCC = $(if $(findstring clang,$(shell $(CC) --version)),,{" ".join(GCC_OPTIONS)})

{name}: main.c {name}.c {name}.h
\t$(CC) $(CFLAGS) $(GCC) -o $@ main.c {name}.c -lm
"""


__all__ = ["main_source", "makefile"]
