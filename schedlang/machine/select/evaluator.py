"""The values of expressions, of offsets into arrays, and of sums in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedlang.expr.nodes import Axis, Binary, Const, Expr, Var
from schedlang.expr.printer import is_index
from schedlang.index.linear import Lin, Product, to_expr
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import Buffer
from schedlang.ir.offsets import indices_of_sum, lane_step, offset_of, strides, sum_of_axes
from schedlang.machine.identifiers import Names
from schedlang.machine.nodes import INDEX, Num, Op, Reg, Type, Value
from schedlang.machine.select.builder import Builder
from schedlang.machine.select.context import Context, Group
from schedlang.machine.select.expressions import Evaluation, is_exact
from schedlang.machine.select.sums import Sum
from schedlang.machine.select.uses import Uses, ordered_uses_in
from schedlang.machine.text import Printer, is_short

# nested operations of an index that is translated by recursion
DEEPEST_INDEX = 6
# terms of an index that are added without an expression in between
MOST_TERMS = 8


def no_alignment(buffer: Buffer, first: Lin, count: int) -> bool:
    """Return ``False``, since a CPU needs no alignment for access to a vector."""
    return False


class Evaluator(Builder):
    """A builder of values (:class:`~schedlang.machine.select.values.Values`).

    Statements for what a value uses twice come before it.
    """

    def __init__(
        self,
        names: Names,
        aligned: Callable[[Buffer, Lin, int], bool] = no_alignment,
        tested: bool = True,
        shuffled: bool = True,
    ) -> None:
        super().__init__(names)
        self.aligned = aligned
        self.tested = tested
        self.shuffled = shuffled
        self._regs: dict[Axis | Var, Reg] = {}
        # offsets by the objects that they depend on, which are kept so that their ids stay theirs
        self._offsets: dict[tuple[int, int, int], tuple[Lin, object, object]] = {}
        # by the expression, which copies evaluate several times
        self._uses: dict[Expr, Uses] = {}

    def reg(self, scalar: Axis | Var) -> Reg:
        """Return the register of a loop's index, a size or a scalar argument."""
        register = self._regs.get(scalar)
        if register is None or register.name != self.names[scalar]:
            register = self._regs[scalar] = Reg(self.names[scalar], Type(scalar.dtype))
        return register

    def value(self, root: Expr, context: Context) -> Value:
        """Return the value of ``root``, after statements for what it uses twice."""
        if is_index(root):
            index_value = self._index(root, context, DEEPEST_INDEX)
            if index_value is not None:
                return index_value
        return Evaluation(self, context).run(root)

    def values(self, roots: Sequence[Expr], context: Context) -> tuple[Value, ...]:
        """Return the values of ``roots``, after statements for what they use twice."""
        if len(roots) == 1 or all(isinstance(root, Const) for root in roots):
            return tuple(self.value(root, context) for root in roots)
        return Evaluation(self, context).run_together(roots)

    def uses_in(self, root: Expr) -> Uses:
        """Return the uses in an expression before anything of it is evaluated."""
        known = self._uses.get(root)
        if known is None:
            known = self._uses[root] = ordered_uses_in(root)
        return known

    def _index(self, node: Expr, context: Context, depth: int) -> Value | None:
        """Return index arithmetic without the walk of :class:`Evaluation`.

        Return ``None`` if it is nested deeper than ``depth``, or has more than operations on loop
        indices, sizes and constants. Most offsets are such.
        """
        if isinstance(node, Binary):
            if not depth or not is_index(node):
                return None
            a = self._index(node.a, context, depth - 1)
            b = None if a is None else self._index(node.b, context, depth - 1)
            if a is None or b is None or not is_exact(node.op, b):
                return None
            return _index_op(node.op, a, b)
        if isinstance(node, Axis):
            lanes = context.lanes
            has_value = node in context.values or (lanes is not None and node is lanes.axis)
            return None if has_value else self.reg(node)
        if isinstance(node, Const):
            return Num(node.value) if is_index(node) else None
        return self.reg(node) if isinstance(node, Var) and is_index(node) else None

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...], context: Context) -> Lin:
        """Return the flat element offset of ``buffer[indices]``."""
        values = context.values
        key = (id(buffer), id(indices), id(values))
        entry = self._offsets.get(key)
        if entry is None or entry[1] is not indices or entry[2] is not values:
            flat_offset = offset_of(buffer, indices, values)
            entry = self._offsets[key] = flat_offset, indices, values
        return entry[0]

    def forget_offsets(self) -> None:
        """Forget the offsets that were computed; the accesses of one statement share some."""
        self._offsets.clear()

    def index(
        self,
        lin: Lin,
        context: Context,
        buffer: Buffer | None = None,
        indices: tuple[Expr, ...] = (),
    ) -> Value:
        """Return a scalar index; an offset into ``buffer`` has a term a dimension."""
        if buffer is not None:
            named_offset = context.offsets.get((buffer, lin))
            if named_offset is not None:
                return named_offset
            if context.copies is not None and lin.const is None:
                based = self._based(lin, context, buffer, indices, context.copies)
                if based is not None:
                    return based
        if buffer is not None and len(indices) > 1:
            parts = _parts_of(lin, context, buffer, indices)
            if parts is not None:
                return self._by_dimension(parts, strides(buffer), context.scalar, buffer.part)
        return self._polynomial(lin, context.scalar)

    def _polynomial(self, lin: Lin, context: Context) -> Value:
        """Return the value of ``lin`` for one element, in the order of ``to_expr``.

        Most are sums of a few loop indices, which need no expression in between.
        """
        items = [(p, c) for p, c in lin.terms.items() if p]
        if len(items) > MOST_TERMS or any(
            coef < 0
            or len(product) > 1
            or not isinstance(product[0], (Axis, Var))
            or product[0] in context.values
            for product, coef in items
        ):
            return self.value(to_expr(lin), context)
        if len(items) > 1:
            items.sort(key=_coefficient)
        total: Value | None = None
        for (atom,), coef in items:
            assert isinstance(atom, (Axis, Var))
            term: Value = self.reg(atom)
            if coef != 1:
                term = _index_op("*", term, Num(coef))
            total = term if total is None else _index_op("+", total, term)
        number = lin.terms.get((), 0)
        if total is None:
            return Num(number)
        return total if not number else _plus(total, number)

    def _based(
        self, lin: Lin, context: Context, buffer: Buffer, indices: tuple[Expr, ...], group: Group
    ) -> Value | None:
        """Return ``lin`` as one object that unrolled copies have in common, plus a constant.

        Return ``None`` for the lanes of a loop over vectors, which each copy has for itself, and
        for a common part that is short: ``(i + 1)*8`` says more than ``i*8 + 8``.
        """
        lanes, number = context.lanes, lin.terms.get((), 0)
        if lanes is not None and lanes.start.const is None:
            return None
        rest = lin - number
        if rest not in group.bases:
            before = len(self.stmts)
            based = self.index(rest, context._replace(copies=None), buffer, indices)
            if len(self.stmts) > before:
                # its registers may hold elements that the next copy finds changed
                return based if not number else _plus(based, number)
            group.bases[rest] = None if is_short(based, Printer()) else based
        base = group.bases[rest]
        return base if base is None or not number else _plus(base, number)

    def kept(self, buffer: Buffer, indices: tuple[Expr, ...], context: Context) -> Reg | None:
        """Return the register that holds ``buffer[indices]``, if the loop around keeps that sum."""
        sums, lanes = context.sums, context.lanes
        if sums is None or buffer not in sums.buffers:
            return None
        offset = self.offset(buffer, indices, context)
        first = offset if lanes is None else offset.substitute({lanes.axis: lanes.start})
        count = 0 if lanes is None else lanes.count
        step = 1 if lanes is None else lane_step(offset, lanes.axis)
        assert step is not None, "the lanes of a kept sum are a constant distance apart"
        own_sum = sums.named.get((buffer, first, count, step))
        if own_sum is None:
            reg = self.fresh(f"{self.array(buffer).name}_sum", Type(buffer.dtype, count))
            # the offset stands before the loop, so registers of the copies in it may not be used
            at = self.index(first, context._replace(copies=None), buffer, indices)
            own_sum = Sum(reg, at, self.number)
            sums.named[buffer, first, count, step] = own_sum
        return own_sum.reg

    def _by_dimension(
        self, parts: Sequence[Lin], steps: Sequence[Lin], context: Context, first: int = 0
    ) -> Value:
        """Return an offset as ``row*1024 + column``: a term a dimension, constants at the end."""
        rest = Lin.of(first)
        total: Value | None = None
        for part, step in zip(parts, steps):
            if part.const is not None or step.const == 1:
                rest = rest + part * step
                continue
            if len(part.terms) == 1:
                term = self._polynomial(part * step, context)
            else:
                row = self._polynomial(part, context)
                term = _index_op("*", row, self._polynomial(step, context))
            total = term if total is None else _index_op("+", total, term)
        if total is None:
            return self._polynomial(rest, context)
        if not rest.terms:
            return total
        if rest.const is not None and rest.const < 0:
            return _index_op("-", total, Num(-rest.const))
        return _added(total, self._polynomial(rest, context))


def _parts_of(
    lin: Lin, context: Context, buffer: Buffer, indices: tuple[Expr, ...]
) -> list[Lin] | None:
    """Return the index of each dimension if ``lin`` is the offset of ``buffer[indices]``."""
    values, lanes = context.values, context.lanes
    if lanes is not None:
        values = {**values, lanes.axis: lanes.start}
    plain = sum_of_axes(buffer, indices)
    if plain is not None:
        if plain.substitute(values) != lin:
            return None
        return [index.substitute(values) for index in indices_of_sum(indices)]
    parts = [to_lin(i, values) for i in indices]
    joined = Lin.of(buffer.part)
    for part, step in zip(parts, strides(buffer)):
        joined = joined + part * step
    return parts if joined == lin else None


def _coefficient(item: tuple[Product, int]) -> int:
    """Return a key that sorts the terms of a polynomial, the largest coefficient first."""
    return -item[1]


def _index_op(op: str, a: Value, b: Value) -> Op:
    return Op(op, a, b, INDEX, index=True)


def _plus(value: Value, number: int) -> Op:
    return _index_op("-" if number < 0 else "+", value, Num(abs(number)))


def _added(left: Value, right: Value) -> Value:
    """Return the sum, with the terms of ``right`` added one after the other."""
    if isinstance(right, Op) and right.index and right.op in ("+", "-"):
        return _index_op(right.op, _added(left, right.a), right.b)
    return _index_op("+", left, right)
