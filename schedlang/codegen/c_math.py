"""Math functions of float32 vectors in C, from the source of the CPU target's.

``intrinsics/cpu/vmath.py`` defines exp and its kin once, as Python over scalars or vectors. These
functions are straight lines of arithmetic, which C writes the same way over its vectors.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from schedlang.codegen.c_arithmetic import limit
from schedlang.expr.operators import OPERATORS
from schedlang.expr.printer import paren

# what functions of vmath.py are called there and in kernels
_END = "_single"
# the level of a call, and of a cast
_ATOM, _UNARY = 12, 11
_OPERATORS: Mapping[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&",
    ast.Lt: "<", ast.Gt: ">", ast.Eq: "==",
}  # fmt: skip
_LEVELS = {o.symbol: o.in_c for o in OPERATORS.values() if o.in_c}
# calls that are calls of helpers in C, and the macros that make these
_HELPERS = {
    "scaled": "SL_SCALED(@)", "absolute": "SL_ABSOLUTE(f32, @)", "copysign": "SL_COPYSIGN(f32, @)",
}  # fmt: skip
Printed = tuple[str, int]


@cache
def _source() -> tuple[Mapping[str, ast.FunctionDef], Mapping[str, Any]]:
    """Return the functions of vmath.py by the names in kernels, and its numbers."""
    text = files("schedlang").joinpath("intrinsics/cpu/vmath.py").read_text()
    functions: dict[str, ast.FunctionDef] = {}
    numbers: dict[str, Any] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name.endswith(_END):
            functions[node.name.removesuffix(_END)] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if isinstance(node.value, ast.Call) and ast.unparse(node.value.func).startswith("np."):
                numbers[node.targets[0].id] = _number(node.value)
    return functions, numbers


def has_vector_form(name: str) -> bool:
    """Return whether a function of float32 vectors is written here.

    >>> has_vector_form("exp"), has_vector_form("sin")
    (True, False)
    """
    return name in _source()[0]


@cache
def vector_functions(name: str, lanes: int) -> tuple[str, ...]:
    """Return the definition of a function of ``lanes`` float32, after those that it calls.

    A definition is C, or a call of a macro of ``c_vectors.h``.
    """
    translation = _Translation(lanes)
    text = translation.function(name)
    return (*translation.needed, text)


def _number(node: ast.AST) -> Any:
    """Return the value of ``np.float32(...)``, which has numbers and ``np.inf`` inside."""
    return eval(compile(ast.Expression(node), "vmath", "eval"), {"np": np})  # type: ignore[arg-type]


def _literal(value: Any) -> str:
    """Return a NumPy scalar as a C literal of its type."""
    if isinstance(value, np.integer):
        return str(value)
    if np.isnan(value):
        return "NAN"
    return "INFINITY" if np.isinf(value) else f"{value!s}f"


class _Translation:
    """Printer of functions over vectors of ``lanes`` float32; ``needed`` is what they use."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.kind = f"sl_f32_{lanes}"
        self.needed: dict[str, None] = {}

    def function(self, name: str) -> str:
        node = _source()[0][name]
        (parameter,) = (a.arg for a in node.args.args)
        known = {parameter}
        lines = [f"SL {self.kind} sl_{name}_f32_{self.lanes}({self.kind} {parameter}) {{"]
        lines.append("  SL_IN_ORDER")
        for stmt in node.body:
            if isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name):
                variable = stmt.targets[0].id
                whole = _is_whole(stmt.value)
                kind = f"sl_i32_{self.lanes}" if whole else self.kind
                # a test is a mask, as wide as an int32
                kind = f"sl_i32_{self.lanes}" if isinstance(stmt.value, ast.Compare) else kind
                declared = "" if variable in known else f"{kind} "
                known.add(variable)
                lines.append(f"  {declared}{variable} = {self.text(stmt.value)};")
            elif isinstance(stmt, ast.Return) and stmt.value is not None:
                lines.append(f"  return {self.text(stmt.value)};")
        return "\n".join([*lines, "}"])

    def text(self, node: ast.expr) -> str:
        return self.value(node)[0]

    def value(self, node: ast.expr) -> Printed:
        """Return the text of an expression, and its precedence."""
        if isinstance(node, ast.Name):
            number = _source()[1].get(node.id)
            return (node.id if number is None else _literal(number)), _ATOM
        if isinstance(node, ast.UnaryOp):
            operand = paren(*self.value(node.operand), _UNARY)
            return (operand[1:] if operand.startswith("-") else f"-{operand}"), _UNARY
        if isinstance(node, ast.BinOp):
            return self._binary(_OPERATORS[type(node.op)], node.left, node.right)
        if isinstance(node, ast.Compare):
            return self._binary(_OPERATORS[type(node.ops[0])], node.left, node.comparators[0])
        assert isinstance(node, ast.Call)
        return self._call(node)

    def _binary(self, op: str, a: ast.expr, b: ast.expr) -> Printed:
        level = _LEVELS[op]
        texts = paren(*self.value(a), level), paren(*self.value(b), level + 1)
        return f"{texts[0]} {op} {texts[1]}", level

    def _call(self, node: ast.Call) -> Printed:
        name, args = ast.unparse(node.func), node.args
        lanes = self.lanes
        if name.startswith("np."):
            literal = _literal(_number(node))
            return literal, _UNARY if literal.startswith("-") else _ATOM
        if name == "fma":
            product = ast.BinOp(args[0], ast.Mult(), args[1])
            text, level = self._binary("+", product, args[2])
            # fast math would leave out what is added to a number to round it
            return (f"SL_ORDERED({text})", _ATOM) if _is_rounding(args[2]) else (text, level)
        if name == "right_shift":
            return f"{self._at(args[0], 8)} >> {self.text(args[1])}", 8
        if name == "select" and (bound := _limit(args)):
            self._need(f"SL_VECTOR(i32, {lanes})", f"SL_CHOOSE(f32, i32, {lanes})")
            self._need(f"SL_SPLAT(f32, {lanes})", limit(bound, lanes))
            return f"sl_{bound}_f32_{lanes}({self.text(args[2])}, {self.text(args[1])})", _ATOM
        if name == "select":
            self._need(f"SL_VECTOR(i32, {lanes})", f"SL_CHOOSE(f32, i32, {lanes})")
            given = [self.text(args[0]), *map(self._vector, args[1:])]
            return f"sl_choose_f32_{lanes}({', '.join(given)})", _ATOM
        if name == "float32":
            return f"__builtin_convertvector({self.text(args[0])}, {self.kind})", _ATOM
        if name == "int32":
            return self.value(args[0])
        if name in ("float32_bits", "float32_from_bits"):
            self._need(f"SL_VECTOR(i32, {lanes})")
            kind = f"sl_i32_{lanes}" if name == "float32_bits" else self.kind
            return f"({kind}){self._at(args[0], _UNARY)}", _UNARY
        if name in _HELPERS:
            self._need(f"SL_VECTOR(i32, {lanes})", _HELPERS[name].replace("@", str(lanes)))
        else:
            self._need(*vector_functions(name, lanes))
        listed = ", ".join(map(self.text, args))
        return f"sl_{name}_f32_{lanes}({listed})", _ATOM

    def _vector(self, node: ast.expr) -> str:
        """Return the text of a value in all lanes."""
        inner = node.operand if isinstance(node, ast.UnaryOp) else node
        is_number = isinstance(inner, ast.Name) and inner.id in _source()[1]
        if not is_number:
            return self.text(node)
        self._need(f"SL_SPLAT(f32, {self.lanes})")
        return f"sl_splat_f32_{self.lanes}({self.text(node)})"

    def _at(self, node: ast.expr, least: int) -> str:
        return paren(*self.value(node), least)

    def _need(self, *texts: str) -> None:
        self.needed.update(dict.fromkeys((f"SL_VECTOR(f32, {self.lanes})", *texts)))


def _limit(args: Sequence[ast.expr]) -> str:
    """Return which limit ``select(x > y, y, x)`` sets, or an empty text."""
    test, a, b = args
    if isinstance(test, ast.Compare) and isinstance(a, ast.Name):
        sides = [ast.unparse(side) for side in (test.left, test.comparators[0])]
        if sides == [ast.unparse(b), a.id]:
            return {ast.Gt: "at_most", ast.Lt: "at_least"}.get(type(test.ops[0]), "")
    return ""


def _is_rounding(node: ast.expr) -> bool:
    """Return whether an addition of a number rounds to a whole number."""
    return isinstance(node, ast.Name) and node.id == "MAGIC"


def _is_whole(node: ast.expr) -> bool:
    """Return whether an expression is a cast to int32."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "int32"
