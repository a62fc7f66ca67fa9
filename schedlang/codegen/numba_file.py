"""The text of a kernel's file: header, imports, functions, and the public function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Optional

from schedlang.codegen import address_checks
from schedlang.codegen.extern_text import HELPERS as EXTERN_HELPERS
from schedlang.codegen.extern_text import ExternText, extern_text, table_line, unsaved
from schedlang.codegen.listing import Line, Listing, join_parts, plain
from schedlang.codegen.numba_cpu import Source
from schedlang.codegen.numba_launch import launches
from schedlang.codegen.refused_sizes import Refusals, refusal_lines
from schedlang.compute.facts import facts_of
from schedlang.diagnostics.order_hint import order_hints
from schedlang.expr.dtypes import SHORT_FLOATS, storage_dtype
from schedlang.expr.nodes import Expr, Var
from schedlang.expr.printer import text
from schedlang.expr.size_bounds import bounds, no_value
from schedlang.index.linear import Lin, to_expr
from schedlang.index.solving import factor_of
from schedlang.ir.addresses import addresses_needed
from schedlang.ir.aliasing import in_place_pairs
from schedlang.ir.arguments import arguments_apart
from schedlang.ir.array_rules import RULES, ArrayRule
from schedlang.ir.nest import Nest, functions_of
from schedlang.ir.nodes import Buffer
from schedlang.ir.printer import argument_text, header
from schedlang.ir.specialize import size_equations
from schedlang.machine.file_names import KEPT_BY_NUMBA

_WIDTH = 98

# the names that a file defines or uses beside the kernel's own
HELPERS = (
    "_array", "_apart", "_given", "_holds", "result", "lru_cache", *EXTERN_HELPERS,
    *address_checks.NAMES,
)  # fmt: skip


def array_checks(test: Callable[[ArrayRule], str], rules: Iterable[ArrayRule] = RULES) -> str:
    """Return the lines that refuse a ``value`` of another dtype or shape, or against the rules.

    ``test`` returns the text of the test of a rule, and "" where there is none.
    """
    lines = [
        "    if value.dtype != dtype or value.shape != shape:",
        '        given = f"{value.dtype} of shape {value.shape}"',
        '        raise TypeError(f"{name} must be a {dtype} array of shape {shape}, got {given}")',
    ]
    for rule in rules:
        if test(rule):
            lines.append(f"    if {'written and ' * rule.written}not value.{test(rule)}:")
            lines.append(f'        raise ValueError(f"{{name}} is {rule.broken}: {rule.fix}")')
    return "\n".join(lines)


def apart_function(parameters: str, known: str, shared: str) -> str:
    """Return the function that refuses an output which shares memory with another array.

    Its ``parameters`` begin with the two arrays. ``known`` is a line before the test ``shared``.
    """
    return f'''
def _apart({parameters}):
    """Refuse an output that shares memory with another array."""
    {known}
    if {shared}:
        raise ValueError(f"{{names}} overlap: pass a copy of one")
'''


ARRAY = '''
def _array(value, name, dtype, shape, written=False):
    """`value` flat, if it is a C-contiguous array of this dtype and shape."""
    if hasattr(value, "__array_interface__"):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array of {dtype}, got {type(value)}")
{CHECKS}
    return value.reshape(-1)
'''.replace("{CHECKS}", array_checks(lambda rule: f"flags.{rule.flag}"))

_APART = apart_function(
    "a, b, names, same_is_fine",
    "same = a.ctypes.data == b.ctypes.data and a.nbytes == b.nbytes",
    "np.may_share_memory(a, b) and not (same and same_is_fine)",
)

HOLDS = '''
def _holds(value, name, shape, monotonic, within=None):
    """Refuse an array of which a declared fact does not hold."""
    low, high = within or (0, 0)
    if value.size and within and not low <= value.min() <= value.max() <= high:
        raise ValueError(f"each element of {name} must lie in {low}..{high}")
    rows = value.reshape(shape)
    if monotonic and (rows[..., 1:] < rows[..., :-1]).any():
        raise ValueError(f"no element of {name} may be less than the one before it")
'''

GIVEN = '''
def _given(out, outputs):
    """The arrays of `out`, one or a tuple, for `outputs`, of which none is given by name."""
    arrays = [*out] if len(outputs) > 1 and isinstance(out, (tuple, list)) else [out]
    if len(arrays) != len(outputs):
        names = ", ".join(outputs)
        raise TypeError(f"out= has {len(arrays)} of the outputs; give an array for each: {names}")
    for name, value in outputs.items():
        if value is not None:
            raise TypeError(f"{name} is given twice, by out= and by name")
    return arrays
'''

ROOT = '''
def _root(extent, length):
    """The `n` with `extent(n) == length`; where there is none, the next."""
    n = 0
    while extent(n) < length:
        n += 1
    return n
'''


def render(
    nest: Nest,
    source: Source,
    steps: str,
    fastmath: bool,
    compiled: bool,
    shown: str,
    refused: Sequence[Refusals] = (),
) -> Listing:
    """Return the file; ``compiled`` chooses numba's intrinsics or their Python twins.

    ``shown`` is the loop nest that its header shows, and ``refused`` are sizes that it refuses.
    """
    head = header_lines(nest, steps, shown, order_hints(nest))
    extra = any(arg.dtype == "bfloat16" for arg in nest.args)
    parts = [head, imports(source, compiled, extra), "", options(fastmath, compiled)]
    called: Optional[ExternText] = None
    if source.nest.invoked:
        if not compiled or unsaved(source.nest.called):
            # this process alone knows functions that the entry calls
            lines = join_parts([plain("\n".join(parts)), *source.definitions, *source.functions], 2)
            return as_listing(source, source.functions, lines)
        functions = {*(f.name for f in source.nest.functions), *functions_of(nest)}
        called = extern_text(source.nest, {source.public, *functions})
        head_parts = [head, imports(source, compiled, extra, helpers=called.helpers)]
        parts = [*head_parts, *parts[2:]]
    public, helpers = _public(nest, source, refused, called)
    last = f"__all__ = [{source.public!r}]"
    texts = [plain(text) for text in (*helpers, public, last)]
    lines = join_parts([plain("\n".join(parts)), *source.definitions, *source.functions, *texts], 2)
    return as_listing(source, source.functions, lines)


def as_listing(
    source: Source, functions: Sequence[Sequence[Line]], lines: Sequence[Line]
) -> Listing:
    """Return the file of these ``lines``; ``functions`` are the functions of ``source`` in it."""
    return Listing(tuple(lines), launches(source.nest, functions, lines))


def render_functions(source: Source, head: str, fastmath: bool, compiled: bool) -> Listing:
    """Return a file with the functions alone, under ``head``, one line of text."""
    parts = [f"# {head}", "", imports(source, compiled), "", options(fastmath, compiled)]
    lines = join_parts([plain("\n".join(parts)), *source.definitions, *source.functions], 2)
    return as_listing(source, source.functions, lines)


def options(fastmath: bool, compiled: bool) -> str:
    """Return the line with the options of ``njit``."""
    if not compiled:
        return "OPTIONS = {}"
    flags = "True" if fastmath else '{"contract"}'
    return f'OPTIONS = dict({KEPT_BY_NUMBA}nogil=True, error_model="numpy", fastmath={flags})'


def header_lines(
    nest: Nest, steps: str, shown: str, hints: Sequence[str] = (), mark: str = "#"
) -> str:
    """Return the comment at the top of a file, whose lines begin with ``mark``.

    It holds the signature, the schedule, the loop nest as ``shown``, and ``hints``.
    """
    lines = [header(nest), "", "Schedule:", *("    " + x for x in steps.rstrip().splitlines())]
    lines += ["", "Loop nest:", *("    " + x for x in shown.splitlines()[2:])]
    for hint in hints:
        lines += ["", *wrap(hint, _WIDTH - 2, break_on_hyphens=False)]
    return "\n".join(f"{mark} {line}".rstrip() for line in lines) + "\n"


def imports(
    source: Source,
    compiled: bool,
    ml_dtypes: bool = False,
    config: bool = False,
    caches: bool = False,
    helpers: Sequence[str] = (),
) -> str:
    """Return the import statements.

    ``ml_dtypes`` has the bfloat16 of NumPy's arrays, and ``config`` numba's number of threads. A
    file that ``caches`` results of a function imports ``lru_cache``. ``helpers`` make the functions
    of the user's.
    """
    lines = ["from functools import lru_cache"] if caches or helpers else []
    lines += [f"from math import {', '.join(source.math)}"] if source.math else []
    lines += [""] if lines else []
    lines += ["import ml_dtypes  # NumPy's bfloat16"] if ml_dtypes else []
    lines.append("import numpy as np")
    names = list(source.intrinsics)
    if compiled:
        of_numba = [*["config"] * config, "njit", *["prange"] * source.parallel]
        lines.append(f"from numba import {', '.join(of_numba)}")
    else:
        names = sorted({*names, "njit", *(["prange"] if source.parallel else [])})
    module = f"schedlang.intrinsics.{'cpu' if compiled else 'twins'}"
    if names:
        lines += ["", *wrap_items(f"from {module} import (", names, ")")]
    if helpers:
        lines.append(f"from {module}.foreign import {', '.join(helpers)}")
    return "\n".join(lines)


def wrap_items(opening: str, items: list[str], closing: str) -> list[str]:
    """Return ``items`` between brackets, on one line if they fit and wrapped otherwise."""
    flat = opening[:-1] + ", ".join(items) if opening.endswith("import (") else ""
    if flat and len(flat) <= _WIDTH:
        return [flat]
    lines, line = [opening], "   "
    for item in items:
        if len(line) + len(item) + 2 > _WIDTH:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return [*lines, line, closing]


def shape_source(buffer: Buffer, sizes: Mapping[Expr, str]) -> str:
    """Return the source of the shape of an array, a tuple; ``sizes`` are the names of sizes."""
    items = [str(e) if isinstance(e, int) else text(e, lambda v: sizes[v]) for e in buffer.shape]
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _dtype(buffer: Buffer) -> str:
    return repr(buffer.dtype)


def _solve(extent: Lin, size: Var, length: str, sizes: Mapping[Expr, str]) -> str:
    """Return source that solves ``extent == length`` for ``size``."""
    coef = extent.terms.get((size,), 0)
    rest = extent - Lin.of(size) * coef
    if _is_searched(extent, size):
        body = text(to_expr(extent), lambda v: sizes[v])
        return f"_root(lambda {sizes[size]}: {body}, {length})"
    if rest.terms:
        offset = text(to_expr(rest), lambda v: sizes[v])
        length = f"{length} - {offset}" if rest.const is not None else f"{length} - ({offset})"
    if coef == 1:
        return length
    return f"({length})//{coef}" if rest.terms else f"{length}//{coef}"


def _is_searched(extent: Lin, size: Var) -> bool:
    """Return whether ``_root`` solves for ``size``, since no division does: ``n*n``."""
    rest = extent - Lin.of(size) * extent.terms.get((size,), 0)
    return any(leaf is size for leaf in rest.leaves())


@dataclass(frozen=True)
class Checks:
    """The parameters of a function that takes arrays, its lines, and what it passes on.

    ``keywords`` are the parameters that are only given by name. ``helpers`` are the sources of the
    functions that the lines call.
    """

    parameters: list[str]
    keywords: list[str]
    lines: list[str]
    given: list[str]
    helpers: list[str]


def _public(
    nest: Nest, source: Source, refused: Sequence[Refusals], called: Optional[ExternText] = None
) -> tuple[str, list[str]]:
    """Return the source of the public function, and the sources of the functions that it calls.

    It takes and returns arrays. It computes sizes from shapes, and allocates the outputs that the
    caller does not pass. ``called`` are the functions of the user's.
    """
    checks = argument_checks(nest, source.parameters, in_place_pairs(nest), refused)
    results = ", ".join(argument_text(b) for b in nest.outputs)
    listed = [*checks.parameters, *(["*", *checks.keywords] if checks.keywords else [])]
    lines = [f"def {source.public}({', '.join(listed)}):"]
    lines += [f'    """{results}; made here unless given."""', *checks.lines]
    given, helpers = checks.given, checks.helpers
    after = list[str]()
    if called is not None:
        table, helpers = source.parameters[-1], [*called.texts, *helpers]
        given = [*given, table]
        lines.append(table_line(table))
        after = [f"    _succeeded({table}, {called.names!r})"]
    lines += [f"    {source.entry}({', '.join(given)})", *after, "    return result"]
    return "\n".join(lines), helpers


def argument_checks(
    nest: Nest,
    listed: Sequence[str],
    in_place: frozenset[tuple[int, int]],
    refused: Sequence[Refusals] = (),
) -> Checks:
    """Return the checks of the arguments of ``nest``, whose names are ``listed``, then its sizes.

    ``in_place`` are the pairs of them that may be one array, and ``refused`` are sizes that cannot
    be. The lines leave the outputs in ``result``.
    """
    names, addresses = dict(zip(nest.args, listed)), addresses_needed(nest.body, nest.args)
    inputs = [a for a in nest.args if a not in nest.outputs]
    signature = [names[a] for a in inputs] + [f"{names[b]}=None" for b in nest.outputs]
    size_names = dict(zip(nest.sizes, listed[len(nest.args) :]))
    sizes: dict[Expr, str] = {a: n for a, n in names.items() if isinstance(a, Var)}
    for size, name in size_names.items():
        sizes[size] = name
    keywords, lines = out_argument([names[b] for b in nest.outputs], [*names.values()])
    lines += size_lines(nest, names, sizes)
    for output in nest.outputs:
        shape = shape_source(output, sizes)
        allocation = address_checks.allocation(addresses, output, shape, _dtype(output))
        lines += [f"    if {names[output]} is None:", f"        {names[output]} = {allocation}"]
    result = ", ".join(names[b] for b in nest.outputs)
    if any(isinstance(a, Buffer) for a in nest.args):
        lines.append(f"    result = {result}")
    operands = []
    for arg in nest.args:
        if isinstance(arg, Var):
            if arg.is_size:
                lines += checks_of_bounds(arg, names[arg])
            kind = "bool_" if arg.dtype == "bool" else arg.dtype
            scalar = f"np.{kind}({names[arg]})"
            if kind == "bfloat16":
                scalar = f"ml_dtypes.bfloat16({names[arg]})"
            operands.append(f"np.float32({scalar})" if kind in SHORT_FLOATS else scalar)
            continue
        suffix = ", written=True" if arg in nest.outputs else ""
        checked = f"{arg.name!r}, {_dtype(arg)}, {shape_source(arg, sizes)}{suffix}"
        lines.append(f"    {names[arg]} = _array({names[arg]}, {checked})")
        if arg in addresses:
            unit, written = addresses[arg], arg in nest.outputs
            lines.append(f"    {address_checks.check(arg, names[arg], unit, written)}")
        flat = storage_dtype(arg.dtype)
        operands.append(names[arg] + (f'.view("{flat}")' if flat != arg.dtype else ""))
    by_name = {v.name: name for v, name in sizes.items() if isinstance(v, Var)}
    lines += refusal_lines(refused, by_name)
    facts = _fact_checks(nest, names, sizes)
    lines += [*facts, *_overlap_checks(nest, names, in_place)]
    operands += [size_names[v] for v in nest.sizes]
    starts = address_checks.helpers(addresses, nest.outputs)
    helpers = [ARRAY, *starts, _APART, *size_helpers(nest, keywords), *[HOLDS] * bool(facts)]
    return Checks(signature, keywords, lines, operands, [helper.strip() for helper in helpers])


def size_helpers(nest: Nest, out: Sequence[str]) -> list[str]:
    """Return the helpers that the lines of :func:`out_argument` and :func:`size_lines` call.

    ``out`` is the parameter of that name, if there is one.
    """
    searched = any(_is_searched(e.extent, e.size) for e in size_equations(nest))
    return [*[GIVEN] * bool(out), *[ROOT] * searched]


def out_argument(outputs: Sequence[str], taken: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the parameter ``out``, and the lines that give its arrays the names in ``outputs``.

    Return nothing if ``taken``, the names of the arguments, has an ``out`` of its own. A size of
    that name is computed behind these lines.

    >>> out_argument(["C"], ["A", "C"])
    (['out=None'], ['    if out is not None:', "        (C,) = _given(out, {'C': C})"])
    """
    if "out" in taken or not outputs:
        return [], []
    by_name = ", ".join(f"{name!r}: {name}" for name in outputs)
    targets = f"({', '.join(outputs)}{',' if len(outputs) == 1 else ''})"
    lines = ["    if out is not None:", f"        {targets} = _given(out, {{{by_name}}})"]
    return ["out=None"], lines


def checks_of_bounds(size: Var, name: str) -> list[str]:
    """Return checks that raise for a size beyond its bounds, which proofs assume."""
    lines: list[str] = []
    for operator, number, rule in bounds(name, size.least, size.most):
        lines += [
            f"    if {name} {operator} {number}:",
            f'        raise ValueError(f"{name} is {{{name}}}, but {rule}")',
        ]
    return lines


def size_lines(
    nest: Nest, names: Mapping[Buffer | Var, str], sizes: Mapping[Expr, str]
) -> list[str]:
    """Return lines that compute each size from a shape.

    A size that no input's shape determines comes from an output, which the caller must then pass.
    """
    lines: list[str] = []
    for equation in size_equations(nest):
        arg, size = nest.args[equation.arg], equation.size
        if arg in nest.outputs:
            why = repr(f"{names[arg]} must be given: no input determines {sizes[size]}")
            lines += [f"    if {names[arg]} is None:", f"        raise TypeError({why})"]
        length = f"{names[arg]}.shape[{equation.dim}]"
        factor = factor_of(equation.extent, size)
        if factor > 1:
            place = f"dimension {equation.dim} of {names[arg]}"
            why = no_value(place, f"{{{length}}}", str(equation.extent), size.name, factor)
            lines += [f"    if {length} % {factor}:", f'        raise ValueError(f"{why}")']
        lines.append(f"    {sizes[size]} = {_solve(equation.extent, size, length, sizes)}")
        if equation.extent != Lin.of(size) or size.least or size.most is not None:
            lines += checks_of_bounds(size, sizes[size])
    return lines


def _fact_checks(
    nest: Nest, names: Mapping[Buffer | Var, str], sizes: Mapping[Expr, str]
) -> list[str]:
    """Return a line for each input with facts that ``sl.assume`` declared."""
    lines = []
    for arg in nest.args:
        facts = facts_of(arg.tensor) if isinstance(arg, Buffer) and arg.tensor is not None else None
        if facts is None or arg in nest.outputs:
            continue
        assert isinstance(arg, Buffer)
        operands = [names[arg], repr(arg.name), shape_source(arg, sizes), str(facts.monotonic)]
        if facts.within is not None:
            ends = (
                str(e) if isinstance(e, int) else text(e, lambda v: sizes[v]) for e in facts.within
            )
            operands.append(f"({', '.join(ends)})")
        lines.append(f"    _holds({', '.join(operands)})")
    return lines


def _overlap_checks(
    nest: Nest, names: Mapping[Buffer | Var, str], in_place: frozenset[tuple[int, int]]
) -> list[str]:
    """Return a line that checks each output against each other array for shared memory.

    Pairs that are computed in place may be the same array.
    """
    lines = []
    for i, k in arguments_apart(nest):
        out, other = nest.args[i], nest.args[k]
        what = repr(f"{out.name} and {other.name}")
        lines.append(f"    _apart({names[out]}, {names[other]}, {what}, {(i, k) in in_place})")
    return lines
