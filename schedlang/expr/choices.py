"""Choices that are nested deeper than Python's indentation allows, or shared between branches."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from schedlang.expr import dtypes
from schedlang.expr.lazy import Region, Regions, both, is_choice
from schedlang.expr.nodes import (
    ArrayRead,
    Axis,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Select,
    Unary,
    Var,
)
from schedlang.expr.visit import postorder, with_children

DEEPEST_CHOICES = 16


def in_parts(root: Expr, regions: Regions, known: Container[int] = ()) -> tuple[Expr, list[Expr]]:
    """Return ``root`` rewritten, and the parts of it to evaluate and name first, in order.

    A part that several branches need, and a choice at every 16th level of nesting, is cut out of
    ``root``. It becomes a flag, which is true where evaluation reaches the part, and a value, which
    is evaluated only if the flag is true. So no value is written twice, and the nesting of choices
    is bounded. ``regions`` are the regions of ``root``. Nodes whose ``id`` is ``known`` have a name
    already. A part whose flag depends on its own value is evaluated always if each of its nodes
    has a value always, else where it is used.

    >>> from schedlang.language.construct import select
    >>> from schedlang.expr.lazy import regions_of
    >>> from schedlang.expr.nodes import Var
    >>> x = Var("x", "float32", weak=False)
    >>> nested = x
    >>> for k in range(40):
    ...     nested = select(x > k, nested + 1, x, lazy=True)
    >>> changed, parts = in_parts(nested, regions_of(nested))
    >>> [part.dtype for part in parts]
    ['bool', 'bool', 'float32', 'float32']
    """
    order = postorder([root], known)
    cuts = _deep_choices(order, regions) | dict(regions.shared)
    while cuts:
        rewriter = _Rewriter({id(n): n for n in order}, regions, cuts, known)
        cyclic = rewriter.run(root)
        if cyclic is None:
            rewritten = rewriter.copies[id(root)]
            named = {id(n) for n in (*rewriter.flags.values(), *rewriter.values)}
            return rewritten, [n for n in postorder([rewritten], known) if id(n) in named]
        if all(map(_is_total, postorder([rewriter.nodes[cyclic]], known))):
            cuts[cyclic] = ()
        else:
            del cuts[cyclic]
    return root, []


# operators that have a value whatever their operands
_TOTAL = ("+", "-", "*", "==", "!=", "<", "<=", ">", ">=", "&", "|", "^")


def _is_total(node: Expr) -> bool:
    """Return whether ``node`` has a value, and little work, also where no branch needs it."""
    if isinstance(node, ArrayRead):
        return not node.children
    if isinstance(node, Binary):
        return node.op in _TOTAL
    if isinstance(node, Cast):
        return not (dtypes.is_integer(node.dtype) and dtypes.is_float(node.a.dtype))
    if isinstance(node, Call):
        return node.fn in ("min", "max")
    return isinstance(node, (Axis, Const, Select, Unary, Var))


# the regions that need each part which is cut out, by id; a part without one is evaluated always
Cuts = dict[int, tuple[Region, ...]]
# "flag" or "node", and the id of a part or node
Task = tuple[str, int]


def _deep_choices(order: list[Expr], regions: Regions) -> Cuts:
    """Return the choices at every 16th level of nesting, each with its region."""
    level: dict[int, int] = {}
    cuts: Cuts = {}
    for node in reversed(order):
        if not is_choice(node) or id(node) not in regions.place:
            continue
        region = regions.place[id(node)]
        level[id(node)] = above = level[region[0]] + 1 if region[1] else 0
        if above and above % DEEPEST_CHOICES == 0:
            cuts[id(node)] = (region,)
    return cuts


@dataclass
class _Rewriter:
    """Rewriter of an expression, with a flag and a value for each cut."""

    nodes: Mapping[int, Expr]
    regions: Regions
    cuts: Cuts
    known: Container[int]
    copies: dict[int, Expr] = field(default_factory=dict)
    flags: dict[int, Expr] = field(default_factory=dict)
    values: list[Expr] = field(default_factory=list)

    def run(self, root: Expr) -> int | None:
        """Rewrite ``root`` into ``copies``; return a cut whose flag needs its value, if any."""
        stack: list[tuple[Task, bool]] = [(("node", id(root)), False)]
        # a dict keeps the order, in which the last flag is one of the cycle
        open_tasks: dict[Task, None] = {}
        while stack:
            task, ready = stack.pop()
            what, key = task
            if key in (self.flags if what == "flag" else self.copies):
                continue
            if ready:
                del open_tasks[task]
                self._finish(what, key)
                continue
            if task in open_tasks:
                flags = (k for w, k in reversed(open_tasks) if w == "flag")
                return key if self.cuts.get(key) else next(flags)
            open_tasks[task] = None
            stack.append((task, True))
            stack.extend((needed, False) for needed in reversed(self._needs(what, key)))
        return None

    def _needs(self, what: str, key: int) -> list[Task]:
        if what == "flag":
            tasks: list[Task] = []
            for steps, last in self._paths(key):
                tasks += [] if last is None else [("flag", last)]
                tasks += [("node", id(self._choice(c).cond)) for c, _ in steps]
            return tasks
        if key in self.known:
            return []
        children: list[Task] = [("node", id(c)) for c in self.nodes[key].children]
        return [("flag", key), *children] if self.cuts.get(key) else children

    def _finish(self, what: str, key: int) -> None:
        node = self.nodes[key]
        if what == "flag":
            self.flags[key] = self._flag(key)
            return
        if key in self.known:
            self.copies[key] = node
            return
        new = with_children(node, tuple(self.copies[id(c)] for c in node.children))
        if self.cuts.get(key):
            unused = Const(False if node.dtype == "bool" else 0, node.dtype)
            new = Select(self.flags[key], new, unused, node.dtype, lazy=True)
        if key in self.cuts:
            self.values.append(new)
        self.copies[key] = new

    def _choice(self, key: int) -> Select:
        node = self.nodes[key]
        assert isinstance(node, Select)
        return node

    def _paths(self, key: int) -> list[tuple[tuple[Region, ...], int | None]]:
        """Return the ways out of the regions of a cut: sides of choices, inner to outer.

        Each goes up to a cut, which comes with it, or to the whole expression (``None``). A part
        that several regions need, and that is left where it is used, is reached from each of them.
        """
        paths: list[tuple[tuple[Region, ...], int | None]] = []
        waiting: list[tuple[tuple[Region, ...], Region]] = [
            ((), region) for region in reversed(self.cuts[key])
        ]
        while waiting:
            steps, region = waiting.pop()
            part, side = region
            steps = (*steps, region) if side else steps
            if part in self.cuts:
                paths.append((steps, part if self.cuts[part] else None))
            elif side:
                waiting.append((steps, self.regions.place[part]))
            elif part in self.regions.shared:
                waiting += [(steps, use) for use in reversed(self.regions.shared[part])]
            else:
                paths.append((steps, None))
        return paths

    def _flag(self, key: int) -> Expr:
        """Return the flag of a cut: true where evaluation reaches it from one of its regions."""
        reached: Expr | None = None
        for steps, last in self._paths(key):
            flag = None if last is None else self.flags[last]
            for choice, side in reversed(steps):
                cond = self.copies[id(self._choice(choice).cond)]
                cond = cond if side == 1 else Unary("~", cond, "bool")
                flag = cond if flag is None else both(flag, cond)
            flag = Const(True, "bool") if flag is None else flag
            reached = flag if reached is None else Binary("|", reached, flag, "bool")
        assert reached is not None
        return reached
