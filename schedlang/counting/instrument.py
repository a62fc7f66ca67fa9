"""The pass that makes a machine nest count: a nest that runs the same statements, and more.

Most parts of a nest run a known number of times, so that multiplication counts them. A branch, a
mask, and a loop whose end is not a number get a counter in an array, the tally. If accesses are
reported, each is a call before the statement that makes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Optional

from schedlang.counting.regions import Region
from schedlang.counting.rows import KINDS, Access, Assignment, Instrumented, Row
from schedlang.counting.statement_stages import stages
from schedlang.counting.work import Work, operation
from schedlang.expr.dtypes import itemsize
from schedlang.intrinsics.dialect import NAMES
from schedlang.ir.nodes import Buffer
from schedlang.machine.identifiers import Names
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    INDEX,
    Alloc,
    Array,
    Body,
    Both,
    Cast,
    Choice,
    Fn,
    For,
    Function,
    If,
    Invoke,
    Let,
    Load,
    Num,
    Op,
    Order,
    Prefetch,
    Reg,
    Run,
    Stmt,
    Store,
    Type,
    Value,
    View,
)
from schedlang.machine.passes.serial import serial
from schedlang.machine.walks import children, is_endless, operations, parts, values, walk

# the first cells of the tally hold the offsets of a vector's lanes, then its mask, each in as many
# cells as the widest vector has lanes, at least so many; counters come after them
OFFSETS, FEWEST = 0, 64
# the parameters of a probe after the model
PARAMETERS = ("address", "size", "kind", "site")


def instrument(nest: MachineNest, report: bool) -> Instrumented:
    """Return ``nest``, whose parallel loops run in order, with counters in a tally.

    ``report`` adds a call of a probe for each access.
    """
    plain = serial(nest)
    return _Instrument(plain, report, stages(plain)).run()


@dataclass
class _Row:
    """A row under construction."""

    stmt: Stmt
    region: Region
    stage: str
    accesses: list[Access] = field(default_factory=list)
    work: Counter[tuple[Region, Work]] = field(default_factory=Counter)
    assignment: Optional[Assignment] = None
    inside: Optional[Region] = None
    end: int = 0
    # the slots of the masks that were counted
    masks: dict[tuple[int, Region], int] = field(default_factory=dict)

    def busy(self) -> int:
        return len(self.accesses) + sum(self.work.values())


class _Instrument:
    def __init__(self, nest: MachineNest, report: bool, stage: Mapping[Stmt, str]) -> None:
        self.nest = nest
        self.stage = stage
        self.names = Names((*NAMES, *nest.identifiers()))
        self.tally = _array(self.names.fresh("tally"))
        self.model = _array(self.names.fresh("model")) if report else None
        self.lane = Reg(self.names.fresh("lane"))
        self.probe = self.names.fresh("report") if report else ""
        self.orders: dict[str, Order] = {}
        # the registers that hold indices and what is computed from them alone
        self.indices = _indices(nest)
        self.lanes = max(FEWEST, _widest(nest))
        self.cells = 2 * self.lanes
        self.bases: dict[Array, int] = {}
        self.rows: list[_Row] = []
        self.sites: list[Access] = []
        self.calls: dict[str, list[Region]] = {}
        self.counts = False

    def run(self) -> Instrumented:
        functions: list[Function] = []
        places: dict[str, tuple[int, int]] = {}
        counters = (self.tally, *([self.model] if self.model else []))
        for function in self.nest.functions:
            start = len(self.rows)
            body = self.body(function.body, Region(function=function.name))
            parameters = (*function.parameters, *counters)
            functions.append(replace(function, parameters=parameters, body=tuple(body)))
            places[function.name] = start, len(self.rows)
        for array in self.nest.entry.parameters:
            if isinstance(array, Array):
                self.base(array)
        if self.model is not None:
            numbers = [Reg(self.names.fresh(name)) for name in PARAMETERS]
            functions.insert(0, Function(self.probe, (self.model, *numbers), ()))
        return Instrumented(
            MachineNest(tuple(functions)),
            self.nest,
            tuple(map(_frozen, self.rows)),
            places,
            {name: tuple(regions) for name, regions in self.calls.items()},
            self.bases,
            self.cells,
            tuple(self.sites),
            self.counts,
            self.probe,
        )

    def slot(self) -> int:
        self.cells += 1
        return self.cells - 1

    def base(self, array: Array) -> int:
        if array not in self.bases:
            self.bases[array] = self.slot()
        return self.bases[array]

    def body(self, body: Body, region: Region) -> list[Stmt]:
        counted: list[Stmt] = []
        for stmt in body:
            row = _Row(stmt, region, self.stage.get(stmt, ""))
            self.rows.append(row)
            counted += self.statement(stmt, region, row)
            row.end = len(self.rows)
        return counted

    def statement(self, stmt: Stmt, region: Region, row: _Row) -> list[Stmt]:
        """Return ``stmt`` after the statements that count and report it."""
        out: list[Stmt] = []
        if isinstance(stmt, Let):
            if isinstance(stmt.value, Order):
                self.orders[stmt.reg.name] = stmt.value
            if self.of_indices(stmt.value):
                self.indices.add(stmt.reg.name)
            self.value(stmt.value, region, row, out)
            if stmt.stage:
                mask = _mask_of(stmt)
                active = -1 if mask is None else self.active(mask, region, row, out)
                row.assignment = Assignment(stmt.stage, max(stmt.reg.type.lanes, 1), active)
        elif isinstance(stmt, Store):
            for value in (stmt.at, stmt.value, *([] if stmt.mask is None else [stmt.mask])):
                self.value(value, region, row, out)
            access = self.access(stmt, region, row, out)
            if stmt.stage:
                row.assignment = Assignment(stmt.stage, access.elements, access.active)
        elif isinstance(stmt, For):
            return self.loop(stmt, region, row)
        elif isinstance(stmt, If):
            return self.branch(stmt, region, row)
        elif isinstance(stmt, Prefetch):
            self.access(stmt, region, row, out)
        elif isinstance(stmt, (Alloc, View)):
            self.base(stmt.array)
        elif isinstance(stmt, Invoke):
            self.invoke(stmt, region, row, out)
        elif isinstance(stmt, Run):
            self.calls.setdefault(stmt.function, []).append(region)
            counters = (self.tally, *([self.model] if self.model else []))
            return [replace(stmt, args=(*stmt.args, *counters))]
        return [*out, stmt]

    def loop(self, stmt: For, region: Region, row: _Row) -> list[Stmt]:
        out: list[Stmt] = []
        for end in (stmt.start, stmt.stop):
            self.value(end, region, row, out)
        counter: list[Stmt] = []
        start, stop = stmt.start, stmt.stop
        if isinstance(start, Num) and isinstance(stop, Num) and stmt.again is None:
            ends = int(start.value), int(stop.value)
            inside = Region(region, times=len(range(*ends, stmt.step)))
        else:
            inside = self.counted(counter)
        row.inside = inside
        tested: list[Stmt] = []
        after: list[Stmt] = []
        if stmt.again is not None:
            self.value(stmt.again, inside, row, tested)
        if stmt.again is not None and is_endless(stmt):
            # the test that fails
            self.value(stmt.again, region, row, after)
        body = self.body(stmt.body, inside)
        return [*out, replace(stmt, body=(*counter, *tested, *body)), *after]

    def branch(self, stmt: If, region: Region, row: _Row) -> list[Stmt]:
        out: list[Stmt] = []
        self.value(stmt.cond, region, row, out)
        sides = []
        for side in (stmt.body, stmt.orelse):
            counter: list[Stmt] = []
            inside = self.counted(counter) if side else region
            sides.append((*counter, *self.body(side, inside)))
        return [*out, replace(stmt, body=sides[0], orelse=sides[1])]

    def counted(self, out: list[Stmt]) -> Region:
        """Return a region that counts its runs; append the statement that does."""
        slot = self.slot()
        self.counts = True
        out.append(self.add(slot, Num(1)))
        return Region(slot=slot)

    def add(self, slot: int, amount: Value) -> Stmt:
        return Store("store", self.tally, Num(slot), _sum(self.cell(Num(slot)), amount))

    def cell(self, at: Value) -> Load:
        return Load("load", self.tally, at, INDEX)

    def value(self, value: Value, region: Region, row: _Row, out: list[Stmt]) -> None:
        """Count the operations and loads of ``value``, in the order of evaluation."""
        if isinstance(value, Choice):
            self.value(value.cond, region, row, out)
            self.lazy(value.cond, (value.a, value.b), region, row, out)
            return
        if isinstance(value, Both):
            self.value(value.a, region, row, out)
            self.lazy(value.a, (value.b,), region, row, out)
            return
        for child in children(value):
            self.value(child, region, row, out)
        work = operation(value)
        if work is not None and not self.of_indices(value):
            row.work[region, work] += 1
        if isinstance(value, Load):
            if value.how == "vload_if":
                assert value.mask is not None
                self.load_if(value, value.mask, region, row, out)
            else:
                self.access(value, region, row, out)

    def of_indices(self, value: Value) -> bool:
        """Return whether ``value`` is computed from indices, sizes and constants alone."""
        for part in parts(value):
            if isinstance(part, Load) or part.type.dtype not in ("int64", "bool"):
                return False
            if isinstance(part, Reg) and part.name not in self.indices:
                return False
        return True

    def lazy(
        self, cond: Value, sides: Sequence[Value], region: Region, row: _Row, out: list[Stmt]
    ) -> None:
        """Count two values; only one of them is evaluated, the first if ``cond`` holds."""
        bodies: list[Body] = [(), ()]
        for k, side in enumerate(sides):
            before, counts = row.busy(), self.counts
            counter: list[Stmt] = []
            counted: list[Stmt] = []
            self.value(side, self.counted(counter), row, counted)
            if row.busy() > before:
                bodies[k] = (*counter, *counted)
            else:
                self.counts = counts
        if any(bodies):
            # a side without work still needs a statement
            empty = self.add(self.slot(), Num(0))
            out.append(If(cond, bodies[0] or (empty,), bodies[1]))

    def load_if(self, value: Load, cond: Value, region: Region, row: _Row, out: list[Stmt]) -> None:
        counter: list[Stmt] = []
        inside = self.counted(counter)
        counted: list[Stmt] = []
        self.access(replace(value, how="vload", mask=None, other=None), inside, row, counted)
        out.append(If(cond, (*counter, *counted)))

    def active(self, mask: Value, region: Region, row: _Row, out: list[Stmt]) -> int:
        """Return the slot that counts the lanes of ``mask``, which is now in the tally."""
        slot_of_mask = row.masks.get((id(mask), region))
        if slot_of_mask is not None:
            return slot_of_mask
        slot = row.masks[id(mask), region] = self.slot()
        self.counts = True
        lanes = mask.type.lanes
        bits = Cast(mask, Type("int64", lanes))
        out.append(Store("vstore", self.tally, Num(self.lanes), bits))
        each = self.cell(_sum(self.lane, Num(self.lanes)))
        out.append(For(self.lane, Num(lanes), (self.add(slot, each),)))
        return slot

    def access(
        self, node: Load | Store | Prefetch, region: Region, row: _Row, out: list[Stmt]
    ) -> Access:
        """Count a load, a store or a prefetch, and report it."""
        lanes = 0 if isinstance(node, Prefetch) else _type(node).lanes
        count = max(lanes, 1) * (max(node.columns, 1) if isinstance(node, Load) else 1)
        mask = None if isinstance(node, Prefetch) else node.mask
        active = -1 if mask is None else self.active(mask, region, row, out)
        kind = _kind(node)
        record = Access(kind, node.array, count, lanes, region, len(self.sites), active)
        self.sites.append(record)
        row.accesses.append(record)
        if self.model is not None:
            self.report(node, record, mask, out)
        return record

    def invoke(self, stmt: Invoke, region: Region, row: _Row, out: list[Stmt]) -> None:
        """Count the boxes of a call, each element once, and report them."""
        end = 0
        for k, (array, start) in enumerate(zip(stmt.given, stmt.starts)):
            middle = end + stmt.ranks[k]
            begin, end = end, middle + stmt.ranks[k]
            shape, steps = stmt.sizes[begin:middle], stmt.sizes[middle:end]
            count, active = _product(shape), -1
            if not isinstance(count, Num):
                self.counts, active = True, self.slot()
                out.append(self.add(active, count))
            kind = "load" if k < stmt.inputs else "store"
            most = int(count.value) if isinstance(count, Num) else array.buffer.size or 1
            access = Access(kind, array, most, 0, region, len(self.sites), active, True)
            self.sites.append(access)
            row.accesses.append(access)
            if k == stmt.inputs:
                row.assignment = Assignment(row.stage, most, active)
            if self.model is not None:
                if stmt.packed[k]:
                    shape, steps = (count,), (Num(1),)
                out += self.rows_of(access, start, shape, steps)

    def rows_of(
        self, access: Access, start: Value, shape: Sequence[Value], steps: Sequence[Value]
    ) -> list[Stmt]:
        """Return the reports of a box; rows without gaps are one access each."""
        size = itemsize(access.array.dtype)
        base = self.cell(Num(self.base(access.array)))
        loops = [Reg(self.names.fresh("row")) for _ in shape]
        length: Value = Num(1)
        if steps and steps[-1] == Num(1):
            loops, length = loops[:-1], shape[-1]
        at = start
        for index, step in zip(loops, steps):
            at = _sum(at, Op("*", index, step, INDEX, index=True))
        bytes_read = _product((length, Num(size)))
        body: Stmt = self.call(_offset(base, at, size), bytes_read, access)
        if not isinstance(length, Num):
            body = If(Op(">", length, Num(0), Type("bool"), index=True), (body,))
        for index, extent in reversed(list(zip(loops, shape))):
            body = For(index, extent, (body,))
        return [] if bytes_read == Num(0) else [body]

    def report(
        self, node: Load | Store | Prefetch, access: Access, mask: Value | None, out: list[Stmt]
    ) -> None:
        size, lanes = itemsize(node.array.dtype), access.lanes
        base = self.cell(Num(self.base(node.array)))
        if not lanes or (not node.at.type.lanes and "scatter" in _how(node)):
            out.append(self.call(_offset(base, node.at, size), size, access))
            return
        if node.at.type.lanes:
            out.append(Store("vstore", self.tally, Num(OFFSETS), node.at))
            each = self.call(_offset(base, self.cell(self.lane), size), size, access)
        else:
            columns = node.columns if isinstance(node, Load) else 0
            step = 1 if isinstance(node, Prefetch) else node.step
            start = _offset(base, node.at, size)
            if step == 1 and mask is None and not columns:
                out.append(self.call(start, self.reach(node, lanes) * size, access))
                return
            there = _offset(start, self.lane, step * size)
            each = self.call(there, max(columns, 1) * size, access)
        body: Stmt = each
        if mask is not None:
            bit = self.cell(_sum(self.lane, Num(self.lanes)))
            on = Op("!=", bit, Num(0), Type("bool"), index=True)
            body = If(on, (each,))
        out.append(For(self.lane, Num(lanes), (body,)))

    def reach(self, node: Load | Store | Prefetch, lanes: int) -> int:
        """Return how many adjacent elements a vector reads, from the first on."""
        order = node.order if isinstance(node, Load) else None
        if isinstance(order, Reg):
            order = self.orders.get(order.name)
        return 1 + max(order.lanes) if isinstance(order, Order) else lanes

    def call(self, address: Value, size: int | Value, access: Access) -> Stmt:
        """Return the call of the probe for ``size`` bytes at ``address``."""
        assert self.model is not None
        length = Num(size) if isinstance(size, int) else size
        numbers = (length, Num(KINDS.index(access.kind)), Num(access.site))
        return Run(self.probe, (self.model, address, *numbers))


def _how(node: Load | Store | Prefetch) -> str:
    return "" if isinstance(node, Prefetch) else node.how


def _kind(node: Load | Store | Prefetch) -> str:
    if isinstance(node, Store):
        return "stream" if node.how == "vstore_stream" else "store"
    return "load" if isinstance(node, Load) else "prefetch"


def _type(node: Load | Store) -> Type:
    return node.type if isinstance(node, Load) else node.value.type


def _mask_of(stmt: Let) -> Value | None:
    """Return the mask under which a sum in a register changes, if it has one."""
    value = stmt.value
    if isinstance(value, Fn) and value.name == "select" and value.args[2] == stmt.reg:
        return value.args[0] if value.args[0].type.lanes else None
    return None


def _offset(base: Value, at: Value, size: int) -> Value:
    """Return the address of the element ``at``, in bytes."""
    if isinstance(at, Num):
        return _sum(base, Num(at.value * size))
    return _sum(base, at if size == 1 else Op("*", at, Num(size), INDEX, index=True))


def _sum(a: Value, b: Value) -> Value:
    return Op("+", a, b, INDEX, index=True)


def _product(factors: Sequence[Value]) -> Value:
    """Return a product of indices, a number if all of them are numbers."""
    number, others = 1, list[Value]()
    for factor in factors:
        if isinstance(factor, Num):
            number *= int(factor.value)
        else:
            others.append(factor)
    if not others or not number:
        return Num(number)
    product = others[0]
    for factor in [*others[1:], *([Num(number)] if number != 1 else [])]:
        product = Op("*", product, factor, INDEX, index=True)
    return product


def _array(name: str) -> Array:
    return Array(name, Buffer(name, "int64", (1,)))


def _widest(nest: MachineNest) -> int:
    """Return the greatest number of lanes of a value in ``nest``."""
    lanes = 0
    for function in nest.functions:
        for stmt, _ in walk(function.body):
            for root in values(stmt):
                lanes = max(lanes, root.type.lanes, *(v.type.lanes for v in operations(root)))
    return lanes


def _indices(nest: MachineNest) -> set[str]:
    """Return the names of the indices of loops, and of the sizes that the entry is given."""
    names = {p.name for p in nest.entry.parameters if isinstance(p, Reg) and p.type == INDEX}
    for function in nest.functions:
        names |= {s.index.name for s, _ in walk(function.body) if isinstance(s, For)}
    return names


def _frozen(row: _Row) -> Row:
    return Row(
        row.stmt,
        row.region,
        row.stage,
        row.inside,
        tuple(row.accesses),
        dict(row.work),
        row.assignment,
        row.end,
    )
