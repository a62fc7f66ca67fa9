"""The walk over an expression that emits its text, for one element or for the lanes of a vector.

Each operation gets its dtype here, since numba's promotion differs from NumPy's: narrow integers
are cast back, float16 is rounded after each operation, and constants name their dtype.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.codegen.columns import column_text
from schedlang.codegen.context import Context, Lanes, Text
from schedlang.codegen.loads import load_text
from schedlang.expr import dtypes
from schedlang.expr.choices import DEEPEST_CHOICES, in_parts
from schedlang.expr.lazy import is_both, is_choice, regions_of
from schedlang.expr.linear import Lin, to_expr
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Select, Unary, Var
from schedlang.expr.printer import (
    ATOM,
    LOWEST,
    PRECEDENCE,
    UNARY,
    binary_text,
    is_index,
    number,
    paren,
)
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import Buffer, Load
from schedlang.ir.offsets import gathers, lane_step

if TYPE_CHECKING:
    from schedlang.codegen.expression import Expressions

LONGEST = 72
WIDEST = 76
DEEPEST = 12

FUNCTIONS = {
    "abs": "absolute", "round": "round_even", "min": "minimum", "max": "maximum",
}  # fmt: skip
_CALLED = {"//": "floordiv", "%": "mod", "**": "power", "<<": "left_shift", ">>": "right_shift"}
# numba's own operators tell LLVM that int64 never overflows; these intrinsics wrap around
_WRAPPING = {"+": "add", "-": "subtract", "*": "multiply"}


class Emission:
    """One walk over an expression graph."""

    def __init__(
        self,
        owner: Expressions,
        context: Context,
        known: Mapping[int, Text] | None = None,
        always: Container[int] = (),
    ) -> None:
        self.owner = owner
        self.always = always
        self.context = context
        self.uses: dict[int, int] = {}
        self.done: dict[int, Text] = dict(known or {})
        self.hoisted: dict[int, list[Expr]] = {}
        self.repeated: dict[tuple[Buffer, Lin], Text | None] = {}
        self.offsets: dict[int, Lin] = {}

    def run(self, root: Expr) -> Text:
        loads = choices = 0
        for node in postorder([root], self.done):
            loads += isinstance(node, Load)
            choices += is_choice(node)
            for child in node.children:
                self.uses[id(child)] = self.uses.get(id(child), 0) + 1
        if choices > 1:
            regions = regions_of(root, self.done)
            if choices > DEEPEST_CHOICES or regions.shared:
                changed, parts = in_parts(root, regions, self.done)
                if parts:
                    return self._in_parts(changed, parts)
            self.hoisted = regions.hoisted
        if loads > 1:
            self._find_repeated(root)
        return self._emit(root)

    def _in_parts(self, root: Expr, parts: Sequence[Expr]) -> Text:
        """Return the text of ``root``; ``parts`` get names first, and may use earlier parts."""
        known = dict(self.done)
        for part in parts:
            text = Emission(self.owner, self.context, known).run(part)
            known[id(part)] = self._named(text)
        return Emission(self.owner, self.context, known).run(root)

    def _offset(self, node: Load) -> Lin:
        found = self.offsets.get(id(node))
        if found is None:
            found = self.owner.offset(node.buffer, node.indices, self.context)
            self.offsets[id(node)] = found
        return found

    def _find_repeated(self, root: Expr) -> None:
        """Collect the elements that are read more than once unconditionally, to name them."""
        seen: set[tuple[Buffer, Lin]] = set()
        stack, visited = [root], set()
        while stack:
            node = stack.pop()
            if id(node) in visited:
                continue
            visited.add(id(node))
            if isinstance(node, Load):
                key = (node.buffer, self._offset(node))
                if key in seen:
                    self.repeated[key] = None
                seen.add(key)
            elif not self._known_index(node):
                stack.extend(self._eager(node))

    def _emit(self, root: Expr) -> Text:
        """Return the text of ``root``; operands come first, branches of a lazy Select do not."""
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if id(node) in self.done:
                continue
            if not ready:
                stack.append((node, True))
                stack.extend((c, False) for c in reversed(self._eager(node)))
                continue
            self.done[id(node)] = self._shorten(node, self._node(node))
        return self.done[id(root)]

    def _eager(self, node: Expr) -> tuple[Expr, ...]:
        if isinstance(node, Select) and node.lazy:
            return (node.cond, *self.hoisted.get(id(node), ()))
        if self._known_index(node):
            return ()
        if isinstance(node, Load):
            return ()
        return node.children

    def _shorten(self, node: Expr, text: Text) -> Text:
        """Return ``text``, or a name for it if it is used twice, too long or too deeply nested."""
        if isinstance(node, (Axis, Var, Const)) or (node.weak and len(text.text) < LONGEST):
            return text
        shared = (
            self.uses.get(id(node), 0) > 1
            and text.level != ATOM
            or (self.uses.get(id(node), 0) > 1 and "(" in text.text)
        )
        if not shared and len(text.text) <= LONGEST and text.depth <= DEEPEST:
            return text
        if self.uses.get(id(node), 0) == 0:
            return text
        return self._named_index(text) if is_index(node) else self._named(text)

    def _named_index(self, text: Text) -> Text:
        """Return a name for index arithmetic; equal text in this block has one name."""
        found = self.context.named.get(text.text)
        if found is None:
            found = self.context.named[text.text] = self._named(text)
        return found

    def _named(self, text: Text, wanted: str = "t") -> Text:
        name = self.owner.names.fresh(wanted)
        self.owner.line(f"{name} = {text.text}")
        return Text(name, ATOM, text.lanes)

    def _fitted(self, node: Binary, a: Text, b: Text) -> tuple[Text, Text]:
        """Return both operands; if they do not fit on a line, the longer one gets a name."""
        texts, sides = [a, b], (node.a, node.b)
        while len(texts[0].text) + len(texts[1].text) > WIDEST:
            k = 0 if len(texts[0].text) >= len(texts[1].text) else 1
            side = sides[k]
            wanted = f"{self.owner.names[side.buffer]}_el" if isinstance(side, Load) else "t"
            texts[k] = self.done[id(side)] = self._named(texts[k], wanted)
        return texts[0], texts[1]

    def _known_index(self, node: Expr) -> bool:
        """Return whether ``node`` is index arithmetic that the values of unrolled axes simplify."""
        if not self.context.values or not node.children or not is_index(node):
            return False
        inside = list(postorder([node]))
        known = any(isinstance(n, Axis) and n in self.context.values for n in inside)
        return known and all(is_index(n) and _folds(n) for n in inside)

    def _node(self, node: Expr) -> Text:
        if self._known_index(node):
            lin = to_lin(node, self.context.values)
            return self.owner.value(to_expr(lin), replace(self.context, values={}))
        if isinstance(node, Axis):
            return self._axis(node)
        if isinstance(node, Var):
            return Text(self.owner.names[node])
        if isinstance(node, Const):
            return self._const(node)
        if isinstance(node, Load):
            return self._load(node)
        if isinstance(node, Binary):
            return self._binary(node)
        if isinstance(node, Unary):
            return self._unary(node)
        if isinstance(node, Cast):
            return self._cast(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, Select):
            return self._lazy(node) if node.lazy else self._select(node)
        raise TypeError(f"no source for {type(node).__name__}")

    def _axis(self, axis: Axis) -> Text:
        lanes = self.context.lanes
        if lanes is not None and axis is lanes.axis:
            start = self.owner.value(to_expr(lanes.start), replace(self.context, lanes=None))
            iota = f"{self.owner.use('iota')}({lanes.count})"
            if lanes.start.const == 0:
                return Text(iota, ATOM, lanes.count)
            return Text(f"{iota} + {start.at(PRECEDENCE['+'] + 1)}", PRECEDENCE["+"], lanes.count)
        known = self.context.values.get(axis)
        if known is None:
            return Text(self.owner.names[axis])
        return self.owner.value(to_expr(known), replace(self.context, lanes=None))

    def _typed(self, dtype: str, inner: str) -> str:
        if dtype == "float16":
            return f"{self.owner.use('half')}({inner})"
        name = "boolean" if dtype == "bool" else dtype
        return f"{self.owner.use(name)}({inner})"

    def _const(self, node: Const) -> Text:
        literal = number(node.value)
        for word in ("inf", "nan"):
            if literal.lstrip("-") == word:
                self.owner.use(word)
        if node.dtype == "bool" or (node.dtype == "int64" and abs(node.value) < 2**63):
            return Text(literal, UNARY if literal.startswith("-") else ATOM)
        if node.dtype == "float16":
            literal = number(float(np.float16(node.value)))
            return Text(f"{self.owner.use('float32')}({literal})")
        return Text(self._typed(node.dtype, literal))

    def _load(self, node: Load) -> Text:
        kept = self.owner.kept(node.buffer, node.indices, self.context)
        if kept is not None:
            return kept
        if id(node) in self.always:
            column = column_text(self.owner, node, self.context)
            if column is not None:
                return column
        offset = self._offset(node)
        key = (node.buffer, offset)
        shared = self._shared(node, offset, self.context.mask)
        if shared is None and key not in self.repeated:
            return load_text(self.owner, node, offset, self.context)
        found = self.repeated.get(key) if shared is None else self.context.shared.get(shared)
        if found is None:
            text = load_text(self.owner, node, offset, self.context)
            found = self._named(text, f"{self.owner.names[node.buffer]}_el")
            if shared is not None:
                self.context.shared[shared] = found
            else:
                self.repeated[key] = found
        return found

    def _shared(self, node: Load, offset: Lin, under: Any) -> tuple[Any, ...] | None:
        """Return a key for a load that several unrolled copies repeat, ``under`` a mask or a test.

        Return ``None`` if the copies write the buffer, or if each copy reads another element.
        """
        context = self.context
        if node.buffer in context.written or not context.copies:
            return None
        own = set(postorder(node.indices))
        if all(axis in own for axis in context.copies):
            return None
        lanes = None if context.lanes is None else (context.lanes.count, context.lanes.start)
        return (node.buffer, offset, lanes, under)

    def _binary(self, node: Binary) -> Text:
        a, b = self.done[id(node.a)], self.done[id(node.b)]
        lanes, depth = max(a.lanes, b.lanes), max(a.depth, b.depth) + 1
        op = node.op
        if node.weak and node.dtype == "int64" and not (lanes and op in ("**", "<<", ">>")):
            tight = op in ("*", "//", "%")
            text, level = binary_text(op, (a.text, a.level), (b.text, b.level), tight)
            return Text(text, level, lanes, depth)
        if node.dtype == "bool" and op in ("+", "*"):
            op = "|" if op == "+" else "&"
        if lanes and {node.a.dtype, node.b.dtype} == {"int64", "float64"}:
            # an axis and a Python float: NumPy computes both as float64
            a, b = (Text(self._typed("float64", t.text), ATOM, t.lanes, t.depth) for t in (a, b))
        a, b = self._fitted(node, a, b)
        called = _CALLED.get(op)
        if node.dtype == "int64" and not lanes:
            called = called or _WRAPPING.get(op)
        if called:
            pair = ", ".join(self._wide(t, lanes) for t in (a, b))
            text, level = f"{self.owner.use(called)}({pair})", ATOM
        else:
            text, level = binary_text(op, (a.text, a.level), (b.text, b.level))
        compares = node.dtype == "bool"
        wrap = not compares and self._narrow(node.dtype) and not (lanes and node.dtype != "float16")
        if wrap:
            return Text(self._typed(node.dtype, text), ATOM, lanes, depth)
        return Text(text, level, lanes, depth)

    @staticmethod
    def _narrow(dtype: str) -> bool:
        """Return whether numba computes in a wider dtype than this one."""
        return dtype == "float16" or (dtypes.is_integer(dtype) and dtypes.itemsize(dtype) < 8)

    def _unary(self, node: Unary) -> Text:
        a = self.done[id(node.a)]
        depth = a.depth + 1
        if node.op == "~" and node.dtype == "bool" and not a.lanes:
            return Text(f"not {a.at(PRECEDENCE['<'])}", 2, 0, depth)
        text = f"{node.op}{a.at(UNARY)}"
        if not a.lanes and self._narrow(node.dtype) and node.dtype != "float16":
            return Text(self._typed(node.dtype, text), ATOM, 0, depth)
        if not a.lanes and node.dtype == "uint64":
            return Text(self._typed("uint64", text), ATOM, 0, depth)
        return Text(text, UNARY, a.lanes, depth)

    def _cast(self, node: Cast) -> Text:
        a = self.done[id(node.a)]
        depth = a.depth + 1
        if node.dtype == node.a.dtype:
            return a
        if node.dtype == "float16":
            text = (
                f"{self.owner.use('half' if node.a.dtype == 'float32' else 'half_from')}({a.text})"
            )
            return Text(text, ATOM, a.lanes, depth)
        if node.a.dtype == "float16" and node.dtype == "float32":
            return a
        return Text(self._typed(node.dtype, a.text), ATOM, a.lanes, depth)

    def _wide(self, text: Text, lanes: int) -> str:
        if text.lanes or not lanes:
            return text.text
        return f"{self.owner.use('broadcast')}({text.text}, {lanes})"

    def _call(self, node: Call) -> Text:
        args = [self.done[id(a)] for a in node.args]
        lanes, depth = max(a.lanes for a in args), max(a.depth for a in args) + 1
        if node.weak and node.dtype == "int64" and not lanes and node.fn in ("min", "max"):
            return Text(f"{node.fn}({', '.join(a.text for a in args)})", ATOM, 0, depth)
        name = FUNCTIONS.get(node.fn, node.fn)
        inner = ", ".join(self._wide(a, lanes) for a in args)
        text = f"{self.owner.use(name)}({inner})"
        if node.dtype == "float16":
            text = f"{self.owner.use('half')}({text})"
        return Text(text, ATOM, lanes, depth)

    def _select(self, node: Select) -> Text:
        cond, a, b = (self.done[id(c)] for c in node.children)
        lanes, depth = max(cond.lanes, a.lanes, b.lanes), max(cond.depth, a.depth, b.depth) + 1
        inner = ", ".join(self._wide(t, lanes) for t in (cond, a, b))
        return Text(f"{self.owner.use('select')}({inner})", ATOM, lanes, depth)

    def _lazy(self, node: Select) -> Text:
        """Emit a choice that evaluates one side alone: a conditional, or loads under a mask."""
        cond = self.done[id(node.cond)]
        lanes = self.context.lanes
        if cond.lanes:
            return self._masked_sides(node, cond)
        if lanes is not None and self._reads_a_vector(node, lanes):
            return self._tested(node, cond, lanes)
        # a name defined in a branch is undefined outside of it
        before, named = dict(self.done), dict(self.repeated)
        lines: list[tuple[list[str], Text]] = []
        around = self.context
        for side in (node.a, node.b):
            self.done, self.repeated = dict(before), dict(named)
            self.context = replace(around, copies={}, named=dict(around.named))
            collected: list[str] = []
            held, self.owner.line = self.owner.line, collected.append
            text = self._emit(side)
            self.owner.line = held
            lines.append((collected, text))
        self.done, self.repeated = before, named
        self.context = around
        (first, a), (second, b) = lines
        count, depth = max(a.lanes, b.lanes), max(cond.depth, a.depth, b.depth) + 1
        x, y = self._wide(a, count), self._wide(b, count)
        if not first and not second and is_both(node) and not count:
            return Text(f"{cond.at(2)} and {a.at(2)}", 2, 0, depth)
        if not first and not second:
            parts = [paren(x, a.level if x == a.text else ATOM, 2), cond.at(2),
                     paren(y, b.level if y == b.text else ATOM, 1)]  # fmt: skip
            return Text(f"{parts[0]} if {parts[1]} else {parts[2]}", LOWEST + 1, count, depth)
        name = self.owner.names.fresh("t")
        self.owner.line(f"if {cond.text}:")
        for line in (*first, f"{name} = {x}"):
            self.owner.line("    " + line)
        self.owner.line("else:")
        for line in (*second, f"{name} = {y}"):
            self.owner.line("    " + line)
        return Text(name, ATOM, count)

    def _reads_a_vector(self, node: Select, lanes: Lanes) -> bool:
        """Return whether ``node`` chooses between adjacent elements in memory and a constant.

        The index must read no tensor, since it is computed even where the test fails. Under a mask,
        a branch is emitted instead.
        """
        if not isinstance(node.a, Load) or not isinstance(node.b, Const):
            return False
        if not self.owner.tested or self.context.mask or self._is_kept(node.a):
            return False
        offset = self._offset(node.a)
        return lane_step(offset, lanes.axis) == 1 and not gathers(offset)

    def _tested(self, node: Select, cond: Text, lanes: Lanes) -> Text:
        """Return a vector load under a scalar test, as one call of ``vload_if``.

        With a branch, sums would not stay in registers.
        """
        load, use = node.a, self.owner.use
        assert isinstance(load, Load)
        test = self._mask(node.cond, cond)
        other = self._wide(self._emit(node.b), lanes.count)
        offset = self._offset(load)
        shared = self._shared(load, offset, (test, other))
        if shared in self.context.shared:
            return self.context.shared[shared]
        first = offset.substitute({lanes.axis: lanes.start})
        at = self.owner.index(first, self.context, load.buffer, load.indices)
        half = "_half" if load.dtype == "float16" else ""
        read = f"{use('vload_if' + half)}({test}, {self.owner.names[load.buffer]}, {at}, {other})"
        found = Text(read, ATOM, lanes.count, 1)
        if shared is not None:
            found = self._named(found, f"{self.owner.names[load.buffer]}_el")
            self.context.shared[shared] = found
        return found

    def _is_kept(self, node: Load) -> bool:
        """Return whether ``node`` reads a sum that the loop around keeps in registers."""
        return self.context.sums is not None and node.buffer in self.context.sums.buffers

    def _reads_or_is_zero(self, node: Select) -> bool:
        """Return whether ``node`` is an element or 0, which is what a masked load returns."""
        if not isinstance(node.a, Load) or not isinstance(node.b, Const):
            return False
        zero = node.b.value == 0 and not np.signbit(node.b.value)
        return zero and not self._is_kept(node.a)

    def _mask(self, node: Expr, cond: Text) -> str:
        """Return a name for a mask or test.

        Unrolled copies share it, unless it reads a buffer that they write.
        """
        written = self.context.written
        reads = (n.buffer for n in postorder([node]) if isinstance(n, Load))
        if not self.context.copies or any(buffer in written for buffer in reads):
            return self._named(cond, "m").text
        key = ("mask", cond.text)
        found = self.context.shared.get(key)
        if found is None:
            found = self.context.shared[key] = self._named(cond, "m")
        return found.text

    def _masked_sides(self, node: Select, cond: Text) -> Text:
        use = self.owner.use
        chosen = self._mask(node.cond, cond)
        # a load that was emitted before has no mask, so its other lanes are not 0
        read_here = id(node.a) not in self.done
        texts = []
        for side, mask in ((node.a, chosen), (node.b, f"~{chosen}")):
            if self.context.mask:
                mask = f"{mask} & {self.context.mask}"
            has_loads = any(isinstance(n, Load) for n in postorder([side], self.done))
            if has_loads and mask != chosen:
                named = self.owner.names.fresh("m")
                self.owner.line(f"{named} = {mask}")
                mask = named
            inner = self.context
            if has_loads:
                inner = replace(inner, mask=mask, leads=False)
            emission = Emission(self.owner, inner, self.done)
            texts.append(emission.run(side))
        if read_here and self._reads_or_is_zero(node) and texts[0].lanes:
            return texts[0]
        a, b = (self._wide(text, cond.lanes) for text in texts)
        return Text(f"{use('select')}({chosen}, {a}, {b})", ATOM, cond.lanes, 2)


def _folds(node: Expr) -> bool:
    """Return whether ``Lin`` has a form for ``node``; it has none for powers and shifts."""
    if isinstance(node, Binary):
        return node.op in ("+", "-", "*", "//", "%")
    return isinstance(node, (Axis, Var, Const)) or (
        isinstance(node, Call) and node.fn in ("min", "max")
    )
