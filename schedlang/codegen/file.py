"""The whole text of a kernel's file: header, imports, functions, one public function."""

from __future__ import annotations

from schedlang.codegen.cpu import Source
from schedlang.codegen.names import identifier
from schedlang.expr.linear import Lin
from schedlang.expr.nodes import Expr, Var
from schedlang.expr.printer import text
from schedlang.expr.simplify import only_size, to_lin
from schedlang.ir.nodes import Buffer, Nest
from schedlang.ir.printer import argument_text, header

_WIDTH = 98

_ARRAY = '''
def _array(value, name, dtype, shape):
    """`value` flat, if it is a C-contiguous array of this dtype and shape."""
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.shape != shape:
        given = f"{getattr(value, 'dtype', type(value).__name__)}{getattr(value, 'shape', '')}"
        raise TypeError(f"{name} must be a {dtype} array of shape {shape}, got {given}")
    if not value.flags.c_contiguous:
        raise ValueError(f"{name} is strided: pass np.ascontiguousarray({name})")
    return value.reshape(-1)
'''


def render(nest: Nest, source: Source, steps: str, fastmath: bool, compiled: bool) -> str:
    """The file's text; ``compiled`` chooses numba's intrinsics or their Python twins."""
    parts = [_header(nest, steps), _imports(source, compiled), ""]
    if compiled:
        flags = "True" if fastmath else '{"contract"}'
        parts.append(
            f'OPTIONS = dict(cache=True, nogil=True, error_model="numpy", fastmath={flags})'
        )
    else:
        parts.append("OPTIONS = {}")
    body = "\n\n\n".join([*source.functions, _ARRAY.strip(), _public(nest, source)])
    return "\n".join(parts) + "\n\n\n" + body + "\n"


def _header(nest: Nest, steps: str) -> str:
    lines = [header(nest), "", "Schedule:", *("    " + x for x in steps.rstrip().splitlines())]
    lines += ["", "Loop nest:", *("    " + x for x in str(nest).splitlines()[2:])]
    return "\n".join(f"# {line}".rstrip() for line in lines) + "\n"


def _imports(source: Source, compiled: bool) -> str:
    lines = [f"from math import {', '.join(source.math)}", ""] if source.math else []
    lines.append("import numpy as np")
    names = list(source.intrinsics)
    if compiled:
        lines.append(f"from numba import njit{', prange' if source.parallel else ''}")
    else:
        names = sorted({*names, "njit", *(["prange"] if source.parallel else [])})
    module = "schedlang.runtime.intrinsics" if compiled else "schedlang.runtime.twins"
    if names:
        lines += ["", *wrapped(f"from {module} import (", names, ")")]
    return "\n".join(lines)


def wrapped(opening: str, items: list[str], closing: str) -> list[str]:
    """``items`` between brackets, broken over lines where they are too long for one."""
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


def _shape(buffer: Buffer) -> str:
    items = [str(e) if isinstance(e, int) else text(e, _leaf) for e in buffer.shape]
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _leaf(node: Expr) -> str:
    assert isinstance(node, Var)
    return identifier(node.name)


def _dtype(buffer: Buffer) -> str:
    return repr(buffer.dtype)


def _solved(extent: Lin, size: Var, length: str) -> str:
    """``n`` from ``a*n + b == length``."""
    shifted = f"{length} - {extent.offset}" if extent.offset else length
    coef = extent.terms[(size,)]
    return shifted if coef == 1 else f"({shifted})//{coef}"


def _public(nest: Nest, source: Source) -> str:
    """A plain function over arrays: sizes from shapes, outputs made when left out."""
    names = dict(zip(nest.args, source.parameters))
    inputs = [a for a in nest.args if a not in nest.outputs]
    signature = [names[a] for a in inputs] + [f"{names[b]}=None" for b in nest.outputs]
    results = ", ".join(argument_text(b) for b in nest.outputs)
    lines = [f"def {source.public}({', '.join(signature)}):"]
    lines.append(f'    """{results}; made here unless given."""')
    size_names = dict(zip(nest.sizes, source.parameters[len(nest.args) :]))
    wanted = set(nest.sizes)
    for arg in inputs:
        for k, extent in enumerate(arg.shape if isinstance(arg, Buffer) else ()):
            size = only_size(to_lin(extent))
            if size in wanted:
                wanted.discard(size)
                length = f"{names[arg]}.shape[{k}]"
                lines.append(f"    {size_names[size]} = {_solved(to_lin(extent), size, length)}")
    for output in nest.outputs:
        made = f"np.empty({_shape(output)}, {_dtype(output)})"
        lines += [f"    if {names[output]} is None:", f"        {names[output]} = {made}"]
    given = []
    for arg in nest.args:
        if isinstance(arg, Var):
            kind = "float32" if arg.dtype == "float16" else arg.dtype
            given.append(f"np.{kind if kind != 'bool' else 'bool_'}({names[arg]})")
            continue
        view = '.view("uint16")' if arg.dtype == "float16" else ""
        checked = f"_array({names[arg]}, {arg.name!r}, {_dtype(arg)}, {_shape(arg)}){view}"
        given.append(checked)
    given += [size_names[v] for v in nest.sizes]
    lines += [f"    {source.entry}(", *(f"        {g}," for g in given), "    )"]
    lines.append(f"    return {', '.join(names[b] for b in nest.outputs)}")
    return "\n".join(lines)
