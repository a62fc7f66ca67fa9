"""A kernel as a C program of its own: its file, its header, and the functions that others call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from schedlang.codegen.c_definitions import includes, plain_types, used_definitions
from schedlang.codegen.c_externs import c_externs
from schedlang.codegen.c_headers import header
from schedlang.codegen.c_hosted import ProgramPrinter
from schedlang.codegen.c_source import INDENT
from schedlang.codegen.c_values import TAGS, memory
from schedlang.codegen.refused_sizes import Refusals
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Array, Reg
from schedlang.runtime.c_checks import PER_ARGUMENT, Checks, c_string
from schedlang.runtime.parameters import Parameter, Signature
from schedlang.runtime.signature_data import to_data

# before the data of a program, in its library; before the hash and the processor at its end; and
# the format of the data
MARK, SEAL, FORMAT = "schedlang kernel", b"schedlang sha256 ", 1
# how the names of the other functions end
ENDS = ("with", "checked", "error")
# the codes that name no argument, and how many rules each argument has
NO_MEMORY_CODE, SIZES_CODE, FUNCTION_CODE, RULES = 1, 2, 3, 9
WORDS: Mapping[int, str] = {
    NO_MEMORY_CODE: "there is no memory for its temporary arrays",
    SIZES_CODE: "it cannot run with these sizes",
    FUNCTION_CODE: "a function of yours failed",
}


@dataclass(frozen=True)
class Program:
    """A kernel as C: the texts of its header and of its source."""

    header: str
    source: str


def sealed(content: bytes, processor: str) -> bytes:
    """Return a library with its hash and its processor at its end, for ``load_module``."""
    return content + SEAL + f"{hashlib.sha256(content).hexdigest()} {processor}".encode()


def c_program(
    nest: MachineNest, signature: Signature, refused: tuple[Refusals, ...], name: str, head: str,
    build: str, fastmath: bool = False,
) -> Program:  # fmt: skip
    """Return a kernel as the C program ``name``; ``head`` is its comment, ``build`` its command.

    Its functions are ``name``, ``name_with`` for one that takes a host, ``name_checked`` for
    tensors of DLPack, and ``name_error``, which says a code in words.
    """
    public_names = {name, *(f"{name}_{end}" for end in ENDS)}
    parameters = apart_from(nest.entry.parameters, public_names)
    checks = checks_of(parameters, signature, refused)
    externs = c_externs(nest, fastmath)
    printer = ProgramPrinter(nest, externs)
    functions = [printer.function(f, False) for f in nest.functions]
    hosted = nest.entry.name in printer.hosted
    public = _public(nest, parameters, checks, name, printer)
    texts = [line.text for lines in functions for line in lines]
    texts += [line for lines in public for line in lines]
    helpers = used_definitions(printer.helpers(), texts)
    heads = includes([helpers, externs.declared, *texts])
    data = {"format": FORMAT, "function": name, "signature": to_data(checks.signature)}
    signed = f"{MARK} {json.dumps(data)}"
    said = f"static const char sl_signature[] __attribute__((used)) =\n    {c_string(signed)};"
    parts = [
        head.rstrip("\n"),
        "\n".join([f'#include "{name}.h"', *([heads] if heads else [])]),
        f"#define SL_NO_MEMORY {NO_MEMORY_CODE}" if hosted else "",
        helpers,
        externs.declared,
        *(plain_types("\n".join(line.text for line in lines)) for lines in functions),
        *(plain_types("\n".join(lines)) for lines in public),
        *externs.defined,
        f"/* What sl.load_module reads in a library that f.save wrote. */\n{said}",
    ]
    declarations = [plain_types(f"{lines[0].removesuffix(' {')};") for lines in public]
    return Program(
        _header(checks, name, build, declarations, hosted), "\n\n".join(filter(None, parts)) + "\n"
    )


def apart_from(
    parameters: Sequence[Array | Reg], public_names: Collection[str]
) -> list[Array | Reg]:
    """Return the parameters, with other names for those that the public functions have."""
    taken = {p.name for p in parameters}
    apart: list[Array | Reg] = []
    for p in parameters:
        own = p.name
        while own in public_names or (own != p.name and own in taken):
            own += "_"
        apart.append(replace(p, name=own))
        taken.add(own)
    return apart


def checks_of(
    parameters: Sequence[Array | Reg], signature: Signature, refused: tuple[Refusals, ...]
) -> Checks:
    """Return the checks of a program whose functions take ``parameters``, and maybe more."""
    names = [p.name for p in parameters]
    count = len(signature.parameters)
    sizes = dict(zip(signature.sizes, names[count:]))
    sizes |= {p.name: name for p, name in zip(signature.parameters, names) if p.is_size}
    return Checks(signature, tuple(names[:count]), sizes, refused)


def _public(
    nest: MachineNest, parameters: Sequence[Array | Reg], checks: Checks, name: str,
    printer: ProgramPrinter,
) -> list[list[str]]:  # fmt: skip
    """Return the lines of the functions that others call."""
    hosted = nest.entry.name in printer.hosted
    table = parameters[-1].name if nest.invoked else ""
    parameters = parameters[: len(parameters) - bool(table)]
    given = [declared(p, k, checks) for k, p in enumerate(parameters)]
    passed = [argument(p, k, checks) for k, p in enumerate(parameters)]
    call = printer.call(nest.entry.name, [*passed, *([table] if table else [])])
    body = [f"sl_i64 {table}[1] = {{0}};"] if table else []
    if tests := checks.of_sizes():
        body.append(f"if ({' || '.join(tests)}) return {SIZES_CODE};")
    if hosted:
        body.append(f"if ({call}) return SL_NO_MEMORY;")
    else:
        body.append(f"{call};")
    body.append(f"return {table}[0] ? {FUNCTION_CODE} : 0;" if table else "return 0;")
    names = [p.name for p in parameters]
    host = "const schedlang_host *sl_host"
    functions = []
    if hosted:
        functions.append([f"int {name}_with({', '.join([host, *given])}) {{", *body])
        body = [f"return {name}_with({', '.join(['NULL', *names])});"]
    functions.append([f"int {name}({', '.join(given)}) {{", *body])
    functions.append(checked_function(name, f"{name}_checked", parameters, checks))
    words = WORDS if table else {c: text for c, text in WORDS.items() if c != FUNCTION_CODE}
    functions.append([f"const char *{name}_error(int code) {{", *error_lines(checks, words)])
    return [[f[0], *(INDENT + line for line in f[1:]), "}"] for f in functions]


def checked_function(
    function: str, name: str, parameters: Sequence[Array | Reg], checks: Checks,
    first: str = "",
) -> list[str]:  # fmt: skip
    """Return the first line of ``name``, and what it runs before it calls ``function``.

    It takes tensors of DLPack for the arrays. Both take ``first``, a declaration, before them.
    """
    tensors, arguments = ([first], [first.split("*")[-1]]) if first else ([], [])
    from_tensors = {checks.sizes[size] for size in checks.origins}
    for position, parameter in enumerate(parameters):
        if isinstance(parameter, Array):
            tensors.append(f"const DLTensor *{parameter.name}")
            arguments.append(f"sl_elements({parameter.name})")
        else:
            arguments.append(parameter.name)
            if parameter.name not in from_tensors:
                tensors.append(declared(parameter, position, checks))
    listed = ", ".join(tensors) or "void"
    call = f"return {function}({', '.join(arguments)});"
    return [f"int {name}({listed}) {{", *checks.of_tensors(), call]


def declared(parameter: Array | Reg, position: int, checks: Checks) -> str:
    """Return the declaration of a parameter of a public function."""
    if isinstance(parameter, Reg):
        return f"sl_{TAGS[parameter.type.dtype]} {parameter.name}"
    signature = checks.signature
    const = "" if signature.parameters[position].is_output else "const "
    shared = any(position in pair for pair in signature.in_place)
    return f"{const}{memory(parameter.dtype)} *{'' if shared else '__restrict '}{parameter.name}"


def argument(parameter: Array | Reg, position: int, checks: Checks) -> str:
    """Return what a public function passes for a parameter to the kernel."""
    if isinstance(parameter, Reg) or checks.signature.parameters[position].is_output:
        return parameter.name
    return f"({memory(parameter.dtype)} *){parameter.name}"


def error_lines(checks: Checks, words: Mapping[int, str]) -> list[str]:
    """Return what says a code in words; ``words`` has the codes that name no argument."""
    rows, known = checks.words(), {**words, **checks.of_addresses()}
    return [
        f"static const char *const sl_words[][{RULES}] = {{",
        *(INDENT + row for row in rows),
        "};",
        'if (code == 0) return "no error";',
        *(f"if (code == {code}) return {c_string(text)};" for code, text in known.items()),
        f"int argument = code / {PER_ARGUMENT}, rule = code % {PER_ARGUMENT};",
        f"if (argument < 1 || argument > {len(rows)} || rule < 1 || rule > {RULES})",
        f'{INDENT}return "an unknown code";',
        "return sl_words[argument - 1][rule - 1];",
    ]


def _header(
    checks: Checks, name: str, build: str, declarations: Sequence[str], hosted: bool
) -> str:
    signature = checks.signature
    comment = [
        *heading(name, signature, build),
        f"Arrays are contiguous, row by row; outputs overlap no other array{_in_place(signature)}.",
        f"Each function returns 0, or a code that {name}_error says in words. {name} checks sizes",
        f"only; {name}_checked takes tensors of DLPack and checks all of them.",
    ]
    if hosted:
        comment.append(f"{name}_with takes its memory and threads from a host. All are re-entrant.")
    return header_file(name, comment, declarations, hosted)


def heading(function: str, signature: Signature, build: str) -> list[str]:
    """Return the first lines of a header: what a function takes, and the command that builds it."""
    return [
        f"{function}({', '.join([*(p.name for p in signature.parameters), *signature.sizes])})",
        "",
        *(f"{'output' if p.is_output else 'input '} {p}{_start(p)}" for p in signature.parameters),
        *(f"size   {size}: int64" for size in signature.sizes),
        "",
        "Build:",
        *(f"  {line}" for line in build.splitlines()),
        "",
    ]


def _start(p: Parameter) -> str:
    return f", aligned to {p.alignment} bytes" if p.alignment > 1 else ""


def header_file(
    name: str, comment: Sequence[str], declarations: Sequence[str], hosted: bool
) -> str:
    """Return a header of ``declarations``; functions of a ``hosted`` program take a host."""
    guard = f"{name.upper()}_H"
    texts = [
        f"/* {comment[0]}\n" + "\n".join(f"   {line}".rstrip() for line in comment[1:]) + " */",
        f"#ifndef SCHEDLANG_{guard}\n#define SCHEDLANG_{guard}",
        "#include <stddef.h>\n#include <stdint.h>",
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        header("c_dlpack.h"),
        *([header("c_host.h")] if hosted else []),
        "\n".join(declarations),
        "#ifdef __cplusplus\n}\n#endif\n#endif",
    ]
    return "\n\n".join(texts) + "\n"


def _in_place(signature: Signature) -> str:
    names = [signature.parameters[k].name for k in sorted({pair[1] for pair in signature.in_place})]
    return f", but may be all of {' or '.join(names)}" if names else ""
