"""The walk over an expression that computes its value, for one element or the lanes of a vector.

Values get their types here, and registers if an expression uses them twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.expr import dtypes
from schedlang.expr.bfloat import convert_values
from schedlang.expr.choices import DEEPEST_CHOICES, in_parts
from schedlang.expr.functions import FUNCTIONS
from schedlang.expr.lazy import is_both, regions_of
from schedlang.expr.nodes import Axis, Binary, Call, Const, Expr, Select, Unary, Var
from schedlang.expr.nodes import Cast as CastExpr
from schedlang.expr.operators import ON_INDICES
from schedlang.expr.printer import is_index
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin, to_expr
from schedlang.index.simplify import to_lin
from schedlang.ir.instructed import Instructed, Tile
from schedlang.ir.nodes import Buffer, Lanes
from schedlang.ir.nodes import Load as LoadExpr
from schedlang.ir.offsets import gathers, lane_step
from schedlang.machine.nodes import (
    Both,
    Cast,
    Choice,
    Column,
    Fn,
    If,
    Iota,
    Let,
    Load,
    Neg,
    Num,
    Op,
    Reg,
    Stmt,
    Type,
    Value,
)
from schedlang.machine.nodes import Instructed as InstructedValue
from schedlang.machine.select.context import Context
from schedlang.machine.select.loads import load
from schedlang.machine.select.transposes import column
from schedlang.machine.select.uses import Uses, uses_in
from schedlang.machine.select.values import Values
from schedlang.machine.text import CALLED
from schedlang.machine.walks import wide

# the function whose arguments are expressions to compute together; it is never emitted
TOGETHER = "values"


def is_exact(op: str, b: Value, lanes: int = 0) -> bool:
    """Return whether an operator on indices has the value that it has on integers of Python.

    Powers and shifts may wrap around, as int64 does: a shift by 64 is defined, a power is not.
    """
    if op not in ("**", "<<", ">>"):
        return True
    return op != "**" and not lanes and isinstance(b, Num) and 0 <= b.value < 64


class Evaluation:
    """One walk over an expression graph."""

    def __init__(
        self,
        owner: Values,
        context: Context,
        known: Mapping[int, Value] | None = None,
    ) -> None:
        self.owner = owner
        self.context = context
        self.uses: Mapping[int, int] = {}
        self.done: dict[int, Value] = dict(known or {})
        self.hoisted: dict[int, list[Expr]] = {}
        self.repeated: dict[tuple[Buffer, Lin], Value | None] = {}
        self.offsets: dict[int, Lin] = {}

    def run(self, root: Expr) -> Value:
        uses = uses_in(root, self.done) if self.done else self.owner.uses_in(root)
        self.uses = uses.times
        if uses.order is not None:
            return self._run_in_order(root, uses)
        if uses.choices > 1:
            regions = regions_of(root, self.done)
            if uses.choices > DEEPEST_CHOICES or regions.shared:
                changed, parts = in_parts(root, regions, self.done)
                if parts:
                    return self._in_parts(changed, parts)
            self.hoisted = regions.hoisted
        if uses.loads > 1:
            self._find_repeated(root)
        return self._emit(root)

    def _run_in_order(self, root: Expr, uses: Uses) -> Value:
        """Return the value of ``root``, whose parts have one order at each place."""
        elements: set[tuple[Buffer, Lin]] = set()
        for node in uses.alike:
            key = (node.buffer, self._offset(node))
            if key in elements:
                self.repeated[key] = None
            elements.add(key)
        for part in uses.order or ():
            self.done[id(part)] = self._named(part, self._made(part))
        return self.done[id(root)]

    def run_together(self, roots: Sequence[Expr]) -> tuple[Value, ...]:
        """Return the values of ``roots``; what they share is computed once."""
        joined = self.run(Call(TOGETHER, tuple(roots), roots[0].dtype))
        assert isinstance(joined, Fn) and joined.name == TOGETHER
        return joined.args

    def _in_parts(self, root: Expr, parts: Sequence[Expr]) -> Value:
        """Return the value of ``root``; its ``parts``, which may use earlier ones, get names."""
        evaluated = dict(self.done)
        for part in parts:
            value = Evaluation(self.owner, self.context, evaluated).run(part)
            evaluated[id(part)] = self.owner.let(value)
        return Evaluation(self.owner, self.context, evaluated).run(root)

    def _offset(self, node: LoadExpr) -> Lin:
        flat_offset = self.offsets.get(id(node))
        if flat_offset is None:
            flat_offset = self.owner.offset(node.buffer, node.indices, self.context)
            self.offsets[id(node)] = flat_offset
        return flat_offset

    def _find_repeated(self, root: Expr) -> None:
        """Collect the elements that are read more than once unconditionally, to name them."""
        elements: set[tuple[Buffer, Lin]] = set()
        stack, visited = [root], set()
        while stack:
            node = stack.pop()
            if id(node) in visited:
                continue
            visited.add(id(node))
            if isinstance(node, LoadExpr):
                key = (node.buffer, self._offset(node))
                if key in elements:
                    self.repeated[key] = None
                elements.add(key)
            elif not self._known_index(node):
                stack.extend(self._eager(node))

    def _emit(self, root: Expr) -> Value:
        """Return the value of ``root``; operands come first, the sides of a lazy choice do not."""
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if id(node) in self.done:
                continue
            operands = () if ready else self._eager(node)
            if operands:
                stack.append((node, True))
                stack.extend([(c, False) for c in reversed(operands)])
                continue
            self.done[id(node)] = self._named(node, self._node(node))
        return self.done[id(root)]

    def _eager(self, node: Expr) -> tuple[Expr, ...]:
        children = node.children
        if not children or isinstance(node, LoadExpr):
            return ()
        if isinstance(node, Select) and node.lazy:
            return (node.cond, *self.hoisted.get(id(node), ()))
        return () if self._known_index(node) else children

    def _named(self, node: Expr, value: Value) -> Value:
        """Return ``value``, or a register if it is used twice and more than index arithmetic."""
        if node.weak or self.uses.get(id(node), 0) < 2 or _is_atom(value):
            return value
        return self.owner.let(value)

    def _known_index(self, node: Expr) -> bool:
        """Return whether ``node`` is index arithmetic that the values of unrolled axes simplify."""
        if not self.context.values or not node.children or not is_index(node):
            return False
        inside = postorder([node])
        is_unrolled = any(isinstance(n, Axis) and n in self.context.values for n in inside)
        return is_unrolled and all(is_index(n) and _folds(n) for n in inside)

    def _node(self, node: Expr) -> Value:
        if self._known_index(node):
            lin = to_lin(node, self.context.values)
            return self.owner.value(to_expr(lin), self.context._replace(values={}))
        return self._made(node)

    def _made(self, node: Expr) -> Value:
        """Return the value of ``node``, whose operands have theirs."""
        if isinstance(node, Axis):
            return self._axis(node)
        if isinstance(node, Var):
            return self.owner.reg(node)
        if isinstance(node, Const):
            short = node.dtype in dtypes.SHORT_FLOATS
            value = float(convert_values(node.value, node.dtype)) if short else node.value
            return Num(value, Type(node.dtype))
        if isinstance(node, LoadExpr):
            return self._load(node)
        if isinstance(node, Binary):
            return self._binary(node)
        if isinstance(node, Unary):
            a = self.done[id(node.a)]
            return Neg(node.op, a, Type(node.dtype, a.type.lanes))
        if isinstance(node, CastExpr):
            a = self.done[id(node.a)]
            return a if node.dtype == node.a.dtype else Cast(a, Type(node.dtype, a.type.lanes))
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, Select):
            return self._lazy(node) if node.lazy else self._select(node)
        raise TypeError(f"no value for {type(node).__name__}")

    def _axis(self, axis: Axis) -> Value:
        context, lanes = self.context, self.context.lanes
        if lanes is not None and axis is lanes.axis:
            iota = Iota(Type("int64", lanes.count))
            if lanes.start.const == 0:
                return iota
            start = self.owner.value(to_expr(lanes.start), context.scalar)
            return Op("+", iota, start, iota.type, index=True)
        position = context.values.get(axis)
        if position is None:
            return self.owner.reg(axis)
        return self.owner.value(to_expr(position), context.scalar)

    def _load(self, node: LoadExpr) -> Value:
        register = self.owner.kept(node.buffer, node.indices, self.context)
        if register is not None:
            return register
        shared_value = column(self.owner, node, self.context) or self._part(node)
        if shared_value is not None:
            return shared_value
        offset = self._offset(node)
        key: tuple[Any, ...] = (node.buffer, offset)
        names: dict[Any, Any] = self.repeated
        group = self.context.copies
        if group is not None and node in group.shared:
            key, names = self._load_key(node, offset, self.context.mask), group.known
        elif key not in names:
            return load(self.owner, node, offset, self.context)
        name = names.get(key)
        if name is None:
            value = load(self.owner, node, offset, self.context)
            name = names[key] = self.owner.let(value, self._element(node))
        return name

    def _part(self, node: LoadExpr) -> Value | None:
        """Return the real or imaginary parts of adjacent complex numbers, loaded as one vector.

        Return ``None`` for any other load.
        """
        whole, lanes = node.buffer.whole, self.context.lanes
        if whole is None or lanes is None or self.context.mask is not None:
            return None
        offset = self._offset(node)
        if not self.owner.shuffled or gathers(offset) or lane_step(offset, lanes.axis) != 2:
            return None
        base = offset - node.buffer.part
        key: tuple[Any, ...] = (whole, base)
        names: dict[Any, Any] = self.repeated
        group = self.context.copies
        if group is not None and node in group.shared:
            key, names = ("parts", whole, base, lanes.count, lanes.start), group.known
        if key not in names:
            array, kind = self.owner.array(whole), Type(node.dtype, lanes.count)
            at = self.owner.index(base.substitute({lanes.axis: lanes.start}), self.context)
            reg = self.owner.fresh(f"{array.name}_parts", kind)
            value = Load("vload_columns", array, at, kind, step=2, columns=2)
            self.owner.emit(Let(reg, value, number=self.owner.number))
            names[key] = reg
        return Column(names[key], node.buffer.part)

    def _load_key(self, node: LoadExpr, offset: Lin, under: Any) -> tuple[Any, ...]:
        """Return a key for a load that copies share, ``under`` a mask or a test."""
        lanes = self.context.lanes
        at = None if lanes is None else (lanes.count, lanes.start)
        return (node.buffer, offset, at, under, node.count if isinstance(node, Tile) else 0)

    def _element(self, node: LoadExpr) -> str:
        """Return a name for a register that holds an element."""
        return f"{self.owner.array(node.buffer).name}_el"

    def _binary(self, node: Binary) -> Value:
        a, b, op = self.done[id(node.a)], self.done[id(node.b)], node.op
        kind = Type(node.dtype, max(a.type.lanes, b.type.lanes))
        if is_index(node) and is_exact(op, b, kind.lanes):
            return Op(op, a, b, kind, index=True)
        if node.dtype == "bool" and op in ("+", "*"):
            op = "|" if op == "+" else "&"
        if kind.lanes and {node.a.dtype, node.b.dtype} == {"int64", "float64"}:
            # an axis and a Python float: NumPy computes both as float64
            a, b = (Cast(v, Type("float64", v.type.lanes)) for v in (a, b))
        if op in CALLED:
            a, b = wide(a, kind.lanes), wide(b, kind.lanes)
        return _rounded(Op(op, a, b, _register_type(kind)), kind)

    def _call(self, node: Call) -> Value:
        args = [self.done[id(a)] for a in node.args]
        if isinstance(node, Instructed):
            lanes, declared, emission = self.context.lanes, node.instruction, node.emission
            assert declared is not None and emission is not None
            kind = Type(node.dtype, 0 if lanes is None else lanes.count)
            return InstructedValue(declared, emission, tuple(args), kind)
        if node.fn == TOGETHER:
            return Fn(TOGETHER, tuple(args), Type(node.dtype))
        kind = Type(node.dtype, _lanes(*args))
        if node.weak and node.dtype == "int64" and not kind.lanes and node.fn in ("min", "max"):
            return Fn(node.fn, tuple(args), kind, index=True)
        wider = tuple(wide(a, kind.lanes) for a in args)
        # a pass makes calls of intrinsics besides the functions of the language
        name = FUNCTIONS[node.fn].called if node.fn in FUNCTIONS else node.fn
        return _rounded(Fn(name, wider, _register_type(kind)), kind)

    def _select(self, node: Select) -> Value:
        return _selected(node.dtype, *(self.done[id(c)] for c in node.children))

    def _lazy(self, node: Select) -> Value:
        """Return a choice that evaluates one side alone: a conditional, or loads under a mask."""
        cond = self.done[id(node.cond)]
        lanes = self.context.lanes
        if cond.type.lanes:
            return self._masked_sides(node, cond)
        if lanes is not None and self._reads_a_vector(node, lanes):
            return self._tested(node, cond, lanes)
        # a register assigned in a branch is undefined outside of it
        before, named = dict(self.done), dict(self.repeated)
        sides: list[tuple[list[Stmt], Value]] = []
        around = self.context
        for side in (node.a, node.b):
            self.done, self.repeated = dict(before), dict(named)
            self.context = around._replace(copies=None)
            with self.owner.collected() as stmts:
                sides.append((stmts, self._emit(side)))
        self.done, self.repeated = before, named
        self.context = around
        (first, a), (second, b) = sides
        kind = Type(node.dtype, _lanes(a, b))
        x, y = wide(a, kind.lanes), wide(b, kind.lanes)
        if not first and not second:
            if is_both(node) and not kind.lanes:
                return Both(cond, a)
            return Choice(cond, x, y, kind)
        result = self.owner.fresh("t", kind)
        number = self.owner.number
        body = (*first, Let(result, x, number=number))
        orelse = (*second, Let(result, y, number=number))
        self.owner.emit(If(cond, body, orelse, result=result, number=number))
        return result

    def _reads_a_vector(self, node: Select, lanes: Lanes) -> bool:
        """Return whether ``node`` chooses between adjacent elements in memory and a constant.

        The index must read no tensor, since it is computed even where the test fails. Under a mask,
        a branch is emitted instead.
        """
        if not isinstance(node.a, LoadExpr) or not isinstance(node.b, Const):
            return False
        if not self.owner.tested or self.context.mask or self._is_kept(node.a):
            return False
        offset = self._offset(node.a)
        return lane_step(offset, lanes.axis) == 1 and not gathers(offset)

    def _tested(self, node: Select, cond: Value, lanes: Lanes) -> Value:
        """Return a vector load under a scalar test, as one ``vload_if``.

        With a branch, sums would not stay in registers.
        """
        read = node.a
        assert isinstance(read, LoadExpr)
        test = self._mask(node.cond, cond)
        other = wide(self._emit(node.b), lanes.count)
        offset = self._offset(read)
        group = self.context.copies
        shared = group is not None and read in group.shared
        key = self._load_key(read, offset, (test, other))
        if group is not None and shared and key in group.known:
            return group.known[key]
        first = offset.substitute({lanes.axis: lanes.start})
        at = self.owner.index(first, self.context, read.buffer, read.indices)
        array, kind = self.owner.array(read.buffer), Type(read.dtype, lanes.count)
        value_: Value = Load("vload_if", array, at, kind, mask=test, other=other)
        if group is not None and shared:
            value_ = group.known[key] = self.owner.let(value_, self._element(read))
        return value_

    def _is_kept(self, node: LoadExpr) -> bool:
        """Return whether ``node`` reads a sum that the loop around keeps in registers."""
        return self.context.sums is not None and node.buffer in self.context.sums.buffers

    def _reads_or_is_zero(self, node: Select) -> bool:
        """Return whether ``node`` is an element or 0, which is what a masked load returns."""
        if not isinstance(node.a, LoadExpr) or not isinstance(node.b, Const):
            return False
        zero = node.b.value == 0 and not np.signbit(node.b.value)
        return zero and not self._is_kept(node.a)

    def _mask(self, node: Expr, cond: Value) -> Value:
        """Return a register for a mask or test, which unrolled copies may share."""
        group = self.context.copies
        if group is None or node not in group.shared:
            return self.owner.let(cond, "m")
        key = ("mask", cond)
        register = group.known.get(key)
        if register is None:
            register = group.known[key] = self.owner.let(cond, "m")
        return register

    def _masked_sides(self, node: Select, cond: Value) -> Value:
        chosen = self._mask(node.cond, cond)
        # a load that was evaluated before has no mask, so its other lanes are not 0
        read_here = id(node.a) not in self.done
        values = []
        for side, mask in ((node.a, chosen), (node.b, Neg("~", chosen, chosen.type))):
            if self.context.mask is not None:
                mask = Op("&", mask, self.context.mask, mask.type)
            has_loads = any(isinstance(n, LoadExpr) for n in postorder([side], self.done))
            if has_loads and mask != chosen:
                mask = self.owner.let(mask, "m")
            inner = self.context
            if has_loads:
                inner = inner._replace(mask=mask, leads=False)
            values.append(Evaluation(self.owner, inner, self.done).run(side))
        if read_here and self._reads_or_is_zero(node) and values[0].type.lanes:
            return values[0]
        return _selected(node.dtype, chosen, *values)


def _is_atom(value: Value) -> bool:
    """Return whether ``value`` is as short as the register that would hold it."""
    if isinstance(value, Cast):
        # short floats are held as float32
        held = value.type.dtype == "float32" and value.a.type.dtype in dtypes.SHORT_FLOATS
        return held and _is_atom(value.a)
    if isinstance(value, Column):
        # each use of a bfloat16 column converts its bits
        return value.type.dtype != "bfloat16"
    return isinstance(value, (Reg, Num))


def _lanes(*operands: Value) -> int:
    return max(v.type.lanes for v in operands)


def _register_type(kind: Type) -> Type:
    """Return the type that a value is computed in: float32 for short floats."""
    return Type(dtypes.register_dtype(kind.dtype), kind.lanes)


def _rounded(value: Value, type_: Type) -> Value:
    """Return ``value`` as ``type_``."""
    return value if value.type == type_ else Cast(value, type_)


def _selected(dtype: str, cond: Value, a: Value, b: Value) -> Value:
    lanes = _lanes(cond, a, b)
    args = tuple(wide(v, lanes) for v in (cond, a, b))
    return Fn("select", args, Type(dtype, lanes))


def _folds(node: Expr) -> bool:
    """Return whether ``Lin`` has a form for ``node``; it has none for powers and shifts."""
    if isinstance(node, Binary):
        return node.op in ON_INDICES
    return isinstance(node, (Axis, Var, Const)) or (
        isinstance(node, Call) and node.fn in ("min", "max")
    )
