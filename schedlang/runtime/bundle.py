"""Make a kernel file self-contained: copy the intrinsics that it uses into its text.

The definitions come from the source of :mod:`schedlang.intrinsics`: what a kernel imports, what
these definitions refer to, and the operators that the kernel applies to vectors.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from schedlang import intrinsics
from schedlang.expr.functions import definitions
from schedlang.parsing import parse_source

PACKAGE = "schedlang.intrinsics.cpu"
# in order of dependence: each module imports only from the ones before it
SHARED = (
    "simd", "operators", "elementary", "predicates", "lanes", "half", "bfloat", "bits", "saturated",
    "memory", "scratch", "masked", "scattered", "transposed", "hints", "instructions",
)  # fmt: skip
MODULES = (*SHARED, "cpu/clock", "cpu/conditional", "cpu/denormals", "cpu/extern", "cpu/foreign",
           "cpu/libm", "cpu/scaling", "cpu/tables", "cpu/vmath")  # fmt: skip
DEVICE_PACKAGE = "schedlang.intrinsics.gpu"
DEVICE_MODULES = (
    *SHARED, "gpu/libdevice", "gpu/warp", "gpu/atomics", "gpu/copies", "gpu/matrices",
    "gpu/products",
)  # fmt: skip
# the constant of a module that names functions which are compiled like a kernel
COMPILED = "COMPILED"
OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.USub: "neg",
    ast.Invert: "invert",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}


@dataclass
class Piece:
    """A top-level statement of a module."""

    name: str
    text: str
    uses: set[str]
    extends: set[str] = field(default_factory=set)
    operators: set[str] = field(default_factory=set)


@dataclass
class Library:
    """The top-level statements of all modules, and the import of each name from elsewhere."""

    pieces: list[Piece]
    imports: dict[str, ast.stmt]


def bundle(source: str, package: str = PACKAGE) -> str:
    """Return `source` with its import of the intrinsics replaced by their definitions.

    The result needs only numba and NumPy, and numba-cuda for a GPU. A definition whose name the
    kernel file also defines gets an underscore.
    """
    tree = parse_source(source)
    imports = [
        node
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package)
    ]
    if not imports:
        return source
    names = {alias.name for node in imports for alias in node.names}
    library = read_library(DEVICE_MODULES if package == DEVICE_PACKAGE else MODULES)
    pieces = closure(library, names, operators_of(tree), makes_vectors(names))
    defined = {p.name for p in pieces}
    if unknown := sorted(names - defined):
        raise ValueError(f"{package} has no {', '.join(unknown)}")
    text = "\n\n\n".join([imports_of(library, pieces), *paragraphs(pieces)])
    for name in sorted(own_names(tree) & defined - names):
        text = rename(text, name, f"{name}_")
    lines = source.splitlines()
    for node in reversed(imports):
        last = node.end_lineno or node.lineno
        lines[node.lineno - 1 : last] = [text, ""] if node is imports[0] else []
    return with_future_import("\n".join(lines) + "\n", tree)


@cache
def read_library(modules: tuple[str, ...] = MODULES) -> Library:
    """Return the top-level statements of the modules; of equal names the last one counts."""
    library = Library([], {})
    for module in modules:
        text = (Path(intrinsics.__file__).parent / f"{module}.py").read_text(encoding="utf-8")
        text += "\n".join(definitions(module).values())
        lines, tree = text.splitlines(), parse_source(text)
        declared = declaration(tree)
        compiled = ast.literal_eval(declared.value) if declared else ()
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                if not ast.unparse(node).startswith("from schedlang"):
                    library.imports.update({a.asname or a.name: node for a in node.names})
            elif not is_docstring(node) and node is not declared:
                definition = piece(node, lines, compiled)
                library.pieces += [definition] if definition.name != "__all__" else []
    return library


def declaration(tree: ast.Module) -> ast.Assign | None:
    """Return the statement of a module that names functions which are compiled like a kernel."""
    assigned = (node for node in tree.body if isinstance(node, ast.Assign))
    return next((node for node in assigned if ast.unparse(node.targets[0]) == COMPILED), None)


def piece(node: ast.stmt, lines: list[str], compiled: Iterable[str]) -> Piece:
    """Return a top-level statement, with the comment above it, as a :class:`Piece`.

    The operators of functions that are ``compiled`` count, like the operators of a kernel.
    """
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)]) - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    text = "\n".join(lines[first : node.end_lineno])
    name = getattr(node, "name", "")
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
    result = Piece(name, text, free_names(node) - {name})
    calls = [d for d in decorators if isinstance(d, ast.Call)]
    result.extends = {a.id for call in calls for a in call.args if isinstance(a, ast.Name)}
    if isinstance(node, ast.Expr):
        result.operators = {
            n.attr
            for n in ast.walk(node)
            if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "operator"
        }
    if isinstance(node, ast.FunctionDef) and name in compiled:
        result.operators = operators_of(node)
    return result


def free_names(node: ast.stmt) -> set[str]:
    """Return the names that a statement reads and does not bind itself."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    bound = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    bound.update(n.arg for n in ast.walk(node) if isinstance(n, ast.arg))
    return {n.id for n in names} - bound


def closure(
    library: Library, names: Iterable[str], operators: set[str], vectors: bool
) -> list[Piece]:
    """Return the statements that define `names`, those they use, and those that extend these.

    ``@register_model(Vec)`` extends ``Vec``. With ``vectors``, the statements that register one of
    ``operators`` are kept too.
    """
    by_name = {p.name: p for p in library.pieces if p.name}
    needed: set[int] = set()
    operators = set(operators)

    def keep(p: Piece) -> bool:
        if id(p) in needed:
            return False
        needed.add(id(p))
        operators.update(p.operators)
        for name in p.uses & by_name.keys():
            keep(by_name[name])
        return True

    for name in set(names) & by_name.keys():
        keep(by_name[name])
    growing = True
    while growing:
        growing = False
        needed_names = {p.name for p in library.pieces if id(p) in needed}
        for p in library.pieces:
            registers = not p.name and vectors and bool(p.operators & operators)
            if registers or p.extends & needed_names:
                growing |= keep(p)
    return [p for p in library.pieces if id(p) in needed]


def operators_of(tree: ast.AST) -> set[str]:
    """Return the operators in a syntax tree, by their names in the module `operator`."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign):
            names.add("i" + OPERATORS.get(type(node.op), "").rstrip("_"))
        elif isinstance(node, ast.operator | ast.unaryop | ast.cmpop):
            names.add(OPERATORS.get(type(node), ""))
    return names - {"", "i"}


def makes_vectors(names: Iterable[str]) -> bool:
    """Return whether some of these intrinsics make vectors."""
    return any(n.startswith("v") or n in ("broadcast", "iota") for n in names)


def paragraphs(pieces: list[Piece]) -> Iterator[str]:
    """Yield each definition by itself, and each run of other statements as one paragraph."""
    run: list[str] = []
    for p in pieces:
        if p.text.startswith(("@", "def ", "class ")):
            if run:
                yield "\n".join(run)
                run = []
            yield p.text
        else:
            run.append(p.text)
    if run:
        yield "\n".join(run)


def imports_of(library: Library, pieces: list[Piece]) -> str:
    """Return import statements for the names that definitions take from elsewhere."""
    plain: set[str] = set()
    grouped: dict[str, set[str]] = {}
    for name in sorted(set().union(*(p.uses for p in pieces)) & library.imports.keys()):
        node = library.imports[name]
        if isinstance(node, ast.ImportFrom):
            grouped.setdefault(node.module or "", set()).update(
                ast.unparse(a) for a in node.names if (a.asname or a.name) == name
            )
        elif isinstance(node, ast.Import):
            plain.update(f"import {ast.unparse(a)}" for a in node.names)
    froms = [f"from {m} import {', '.join(sorted(names))}" for m, names in sorted(grouped.items())]
    return "\n".join([*sorted(plain), *froms])


def own_names(tree: ast.Module) -> set[str]:
    """Return the names that a kernel file defines at its top level."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom):
            bound = (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
            names.update(bound, (a.asname or a.name for a in getattr(node, "names", [])))
    return names


def rename(text: str, old: str, new: str) -> str:
    """Return `text` with the name `old` written as `new`; attributes and keywords stay."""
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    depth, positions = 0, []
    for before, token, after in zip([tokens[0], *tokens], tokens, tokens[1:], strict=False):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
        elif (token.string, token.type) == (old, tokenize.NAME) and before.string != ".":
            keyword = depth and after.string == "="
            positions += [] if keyword else [token.start]
    for row, column in reversed(positions):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + new + line[column + len(old) :]
    return "".join(lines)


def with_future_import(text: str, tree: ast.Module) -> str:
    """Return `text` with ``from __future__ import annotations``, so that none is evaluated."""
    if any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in tree.body):
        return text
    lines = text.splitlines(keepends=True)
    at = (tree.body[0].end_lineno or 0) if is_docstring(tree.body[0]) else 0
    lines.insert(at, ("\n" if at else "") + "from __future__ import annotations\n\n")
    return "".join(lines)


def is_docstring(node: ast.stmt) -> bool:
    """Return whether a statement is only a constant, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
