"""The match of loops with the declaration of an instruction.

The loops must compute what the declaration says, on operands whose elements lie one after the
other in memory, in the order of the declaration. Expressions are compared part by part, where
operands of ``+`` and ``*`` may be exchanged, and indices by their polynomials.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Union

from schedlang.arrays.shapes import is_one
from schedlang.compute.read import Read
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Select, Unary, Var
from schedlang.index.linear import ZERO, Lin, depends, to_expr
from schedlang.index.simplify import to_lin
from schedlang.instructions.declaration import MEMORY, Instruction
from schedlang.instructions.emission import MemoryFunction
from schedlang.ir.nodes import Block, Buffer, For, Load, Note, Stmt, Store
from schedlang.ir.offsets import flat
from schedlang.ir.tile_starts import astray, elements_between, row_fault

ONE = Lin.of(1)
COMMUTATIVE = ("+", "*", "&", "|", "^")


@dataclass(frozen=True)
class Operand:
    """A tile of ``buffer``: the elements from the one at ``indices`` on, at offset ``first``.

    ``strides`` are the distances of elements along each dimension of the declared operand.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    first: Lin
    strides: tuple[Lin, ...]


@dataclass(frozen=True)
class Match:
    """Loops that compute an instruction: its ``operands`` and ``result``, and the ``store``.

    ``lanes`` is the loop over the elements of a result that is a vector of more than one.
    """

    operands: tuple[Operand, ...]
    result: Operand
    lanes: For | None
    inside: tuple[Axis, ...]
    store: Store

    def tiles(self, declared: Instruction) -> Iterator[tuple[Tensor, Operand]]:
        """Return the operands and the result of the declaration, each with its tile."""
        return zip((*declared.operands, declared.output), (*self.operands, self.result))


@dataclass(frozen=True)
class Mismatch:
    """Why loops do not compute an instruction, and what to do."""

    why: str
    hint: str = ""


Bound = Mapping[Tensor, Operand]


def match(
    loop: For, declared: Instruction, movable: Collection[Tensor] = ()
) -> Union[Match, Mismatch]:
    """Return how ``loop`` computes the instruction, or why it does not.

    ``movable`` are the tensors that ``set_scope`` can put into other memory, for the hint. Where
    operands can be taken in several ways, one must be in the right memory at the right addresses.
    """
    why: Mismatch | None = None
    fewest = 0
    for way in _ways(loop, declared):
        if isinstance(way, Mismatch):
            why = why or way
            continue
        faults = [*_elsewhere(way, loop, declared, movable), *_unaligned(way, declared)]
        if not faults:
            return way
        # a fault of place says more than why another order computes something else
        if not fewest or len(faults) < fewest:
            why, fewest = faults[0], len(faults)
    assert why is not None
    return why


def _elsewhere(
    matched: Match, loop: For, declared: Instruction, movable: Collection[Tensor]
) -> Iterator[Mismatch]:
    """Yield which operands are not in the memory in which the instruction needs them."""
    for tensor, operand in matched.tiles(declared):
        buffer, scope = operand.buffer, declared.scopes.get(tensor.name)
        if scope is None or buffer.scope == scope:
            continue
        if tensor is declared.output:
            hint = f'Tensorize the stage that s.cache_write({buffer.name}, "{scope}") returns'
        else:
            copy = f's.cache_read({buffer.name}, "{scope}", [{loop.stage}])'
            hint = f"Let it read a copy there, by {copy}"
        if buffer.tensor in movable:
            hint += f', or keep {buffer.name} there by set_scope("{scope}")'
        yield Mismatch(
            f"{buffer.name} is in {buffer.scope} memory, and {declared.name} needs "
            f"{tensor.name} in {scope} memory",
            f"{hint}.",
        )


def _unaligned(matched: Match, declared: Instruction) -> Iterator[Mismatch]:
    """Yield which operands may start at an address that the instruction does not take."""
    for tensor, operand in matched.tiles(declared):
        alignment, buffer = declared.alignment.get(tensor.name, 1), operand.buffer
        if alignment == 1 or not (distance := astray(buffer, operand.first, alignment)):
            continue
        own = "cache_write" if tensor is declared.output else "cache_read"
        unit = elements_between(buffer, alignment)
        yield Mismatch(
            f"tiles of {buffer.name} start {distance}, and {declared.name} needs {tensor.name} at "
            f"multiples of {alignment} bytes",
            f"Split by multiples of {unit} elements, pad rows to such a multiple by storage_align, "
            f"or pack tiles by transform_layout; {own} gives {buffer.name} a stage for these.",
        )


def _ways(loop: For, declared: Instruction) -> Iterator[Union[Match, Mismatch]]:
    """Yield each way to take the operands of an instruction from ``loop``, and what fails."""
    loops, stmt = _chain(loop)
    if not isinstance(stmt, Store):
        yield stmt
        return
    inside = tuple(f.axis for f in loops)
    loops = [f for f in loops if not is_one(f.extent)]
    mismatch = _different_loops(loops, declared) or _different_store(stmt, declared)
    if mismatch is not None:
        yield mismatch
        return
    for axes in _assignments(loops, declared):
        compared = _Comparison(declared, axes, inside)
        for bound in compared.expressions(stmt.values[0], declared.op.body[0], {}):
            operands = tuple(bound[tensor] for tensor in declared.operands)
            yield _with_result(compared, loops, stmt, operands)
        if compared.reason is not None:
            yield compared.reason


def _with_result(
    compared: _Comparison, loops: Sequence[For], store: Store, operands: tuple[Operand, ...]
) -> Union[Match, Mismatch]:
    """Return the match with these operands, unless ``store`` does not write such a result."""
    declared, inside = compared.declared, compared.inside
    op, buffer = declared.op, store.buffers[0]
    if declared.has_strides:
        tile = compared.strided(buffer, store.indices, declared.output, op.axis)
        if tile is None:
            assert compared.reason is not None
            return compared.reason
        different = _different_strides(declared, operands, tile)
        return different or Match(operands, tile, None, inside, store)
    # a result of one element has no loop
    lanes = next((f for f in loops if f.axis is compared.axes.get(op.axis[0])), None)
    apart = _coefficients(flat(buffer, store.indices), inside)
    if lanes is not None and apart != {lanes.axis: 1}:
        return Mismatch(
            f"the elements of {buffer.name} are {_steps(apart, inside)} apart, and "
            f"{declared.name} writes adjacent ones",
            f"Let {lanes.axis.name} run along the last dimension of {buffer.name}.",
        )
    result = _origin(buffer, store.indices, inside, (ONE,))
    return Match(operands, result, lanes, inside, store)


def _origin(
    buffer: Buffer, indices: Sequence[Expr], inside: Sequence[Axis], strides: tuple[Lin, ...]
) -> Operand:
    """Return the tile from the element on where all axes ``inside`` are 0."""
    origin: dict[Axis | Var, Lin] = {axis: ZERO for axis in inside}
    first = tuple(to_lin(i).substitute(origin) for i in indices)
    return Operand(
        buffer, tuple(map(to_expr, first)), flat(buffer, indices).substitute(origin), strides
    )


def _different_strides(
    declared: Instruction, operands: Sequence[Operand], result: Operand
) -> Mismatch | None:
    """Return why a function in memory cannot take arrays with these strides."""
    emission = declared.emit.get(MEMORY)
    if not isinstance(emission, MemoryFunction):
        return None
    tensors = (*declared.operands, declared.output)
    for tensor, operand, wanted in zip(tensors, (*operands, result), emission.strides):
        for dim, (size, own, needed) in enumerate(zip(tensor.shape, operand.strides, wanted)):
            if needed is not None and size != 1 and own != Lin.of(needed):
                return Mismatch(
                    f"the elements of {operand.buffer.name} are {to_expr(own)} apart along "
                    f"dimension {dim} of {tensor.name}, and {declared.name} needs {needed}",
                    "Let the function take any stride there, or pack the array: cache_read gives "
                    "it a stage, and transform_layout the order.",
                )
    return None


def _chain(loop: For) -> tuple[list[For], Union[Store, Mismatch]]:
    """Return the loops from ``loop`` inwards and the store in them, or why there is more."""
    loops: list[For] = []
    stmt: Stmt = loop
    while True:
        if isinstance(stmt, Block):
            inner = [s for s in stmt.stmts if not isinstance(s, Note)]
            if len(inner) != 1:
                return loops, Mismatch(
                    f"{loops[-1].axis.name} holds {len(inner)} statements, and an instruction "
                    "replaces one update",
                    "Compute other stages at a loop further out.",
                )
            (stmt,) = inner
        elif isinstance(stmt, For):
            loops.append(stmt)
            stmt = stmt.body
        elif isinstance(stmt, Store):
            return loops, stmt
        else:
            return loops, Mismatch(
                f"a test stands inside of {loops[0].axis.name}, and an instruction computes all of "
                "its elements",
                'Split with tail="cut", which leaves the rest to loops of its own, or by factors '
                "that divide the extents.",
            )


def _different_loops(loops: Sequence[For], declared: Instruction) -> Mismatch | None:
    """Return why the loops are more, fewer or of other lengths than the declaration's axes."""
    wanted = sorted((a.is_reduce, _extent(a)) for a in looped_axes(declared))
    own = sorted((f.axis.is_reduce, f.extent) for f in loops if isinstance(f.extent, int))
    plain = next((f for f in loops if f.kind not in ("serial", "tensorize")), None)
    if plain is not None:
        return Mismatch(
            f"{plain.axis.name} has the annotation {plain.kind}, and the instruction replaces it",
            "Annotate loops outside of the instruction alone.",
        )
    if own == wanted and len(own) == len(loops):
        return None
    theirs = ", ".join(f"{a.name} in 0..{a.extent}" for a in looped_axes(declared))
    ours = ", ".join(f"{f.axis.name} in 0..{f.extent}" for f in loops)
    splits = " and ".join(
        f"{'a reduction' if a.is_reduce else 'a data'} axis by {a.extent}"
        for a in looped_axes(declared)
    )
    return Mismatch(
        f"the loops from there inwards are {ours}, and {declared.name} has {theirs}",
        f"Split {splits}, and reorder the inner loops to the end.",
    )


def looped_axes(declared: Instruction) -> list[Axis]:
    """Return the axes of a declaration that have more than one value, and so a loop."""
    return [a for a in (*declared.op.axis, *declared.op.reduce_axis) if a.extent != 1]


def _extent(axis: Axis) -> int:
    assert isinstance(axis.extent, int)
    return axis.extent


def _different_store(store: Store, declared: Instruction) -> Mismatch | None:
    """Return why a store is not of the kind that the declaration has."""
    op, output = declared.op, declared.output
    if len(store.buffers) != 1 or store.scatters:
        return Mismatch("the stage writes several values or computed places, and an instruction "
                        "writes one vector")  # fmt: skip
    if store.buffers[0].dtype != output.dtype:
        return Mismatch(
            f"{store.buffers[0].name} is {store.buffers[0].dtype}, and the result of "
            f"{declared.name} is {output.dtype}",
            f'Compute it in {output.dtype}, as in A[i, k].astype("{output.dtype}").',
        )
    ours = "" if store.reducer is None else store.reducer.name
    theirs = "" if op.reducer is None else op.reducer.name
    if ours != theirs:
        shown = [f"reduces by {name}" if name else "reduces nothing" for name in (ours, theirs)]
        return Mismatch(f"the stage {shown[0]}, and {declared.name} {shown[1]}")
    return None


def _assignments(loops: Sequence[For], declared: Instruction) -> Iterator[Mapping[Axis, Axis]]:
    """Yield each way to take loops of equal extent for the axes of the declaration."""
    data = [f for f in loops if not f.axis.is_reduce]
    steps = [f for f in loops if f.axis.is_reduce]
    axes = looped_axes(declared)
    for lanes in permutations(data):
        for own in permutations(steps):
            pairs = list(zip(axes, (*lanes, *own)))
            if all(f.extent == a.extent for a, f in pairs):
                yield {a: f.axis for a, f in pairs}


class _Comparison:
    """A comparison of expressions, with ``axes`` of the nest for the axes of the declaration."""

    def __init__(
        self, declared: Instruction, axes: Mapping[Axis, Axis], inside: tuple[Axis, ...]
    ) -> None:
        self.declared, self.axes, self.inside = declared, axes, inside
        self.reason: Mismatch | None = None
        self.likeness = (False, -1)

    def expressions(self, ours: Expr, theirs: Expr, bound: Bound) -> Iterator[Bound]:
        """Yield the operands of each way in which two expressions are equal."""
        if isinstance(theirs, Read):
            known = self._operand(ours, theirs, bound)
            if known is not None:
                yield known
            return
        if isinstance(ours, Const) and isinstance(theirs, Const):
            if ours.value == theirs.value and ours.dtype == theirs.dtype:
                yield bound
            else:
                self._fail(f"{ours} stands for {theirs}")
            return
        if type(ours) is not type(theirs) or not _same_operation(ours, theirs):
            self._fail(f"{ours} is another operation than {theirs}")
            return
        orders = [ours.children]
        if isinstance(ours, Binary) and ours.op in COMMUTATIVE:
            orders.append(ours.children[::-1])
        for order in orders:
            yield from self._all([*zip(order, theirs.children)], bound)

    def _all(self, pairs: Sequence[tuple[Expr, Expr]], bound: Bound) -> Iterator[Bound]:
        """Yield the operands of each way in which the expressions of all pairs are equal."""
        if not pairs:
            yield bound
            return
        for known in self.expressions(*pairs[0], bound):
            yield from self._all(pairs[1:], known)

    def _operand(self, ours: Expr, theirs: Read, bound: Bound) -> Bound | None:
        """Return the operands with the one that a read of the declaration stands for."""
        tensor = theirs.tensor
        if not isinstance(ours, Load):
            self._fail(f"{ours} stands for an element of {tensor.name}")
            return None
        if ours.dtype != tensor.dtype:
            # says more than that it moves along other axes, when it stands for another operand
            if (True, len(bound) - 1) > self.likeness:
                self.likeness, self.reason = (True, len(bound) - 1), None
                self._fail(
                    f"{ours.buffer.name} is {ours.dtype}, and {tensor.name} is {tensor.dtype}"
                )
            return None
        if self.declared.has_strides:
            tile_of = self.in_rows if self.declared.loads_matrices else self.strided
            tile = tile_of(ours.buffer, ours.indices, tensor, theirs.indices)
            return None if tile is None else self._bound(tensor, tile, bound)
        own = flat(ours.buffer, ours.indices)
        first = own - self._offset(theirs)
        if any(depends(leaf, self.inside) for leaf in first.leaves()):
            steps = _coefficients(own, self.inside)
            wanted = _coefficients(self._offset(theirs), self.inside)
            # the order of factors in which most else fits tells the user most
            likeness = steps.keys() == wanted.keys(), len(bound)
            if likeness <= self.likeness:
                return None
            self.likeness = likeness
            self.reason = Mismatch(
                f"{ours.buffer.name} steps by {_steps(steps, self.inside)}, and operand "
                f"{tensor.name} of {self.declared.name} by {_steps(wanted, self.inside)}",
                f"Pack {ours.buffer.name}: cache_read gives it a stage, and transform_layout puts "
                "the elements of a tile one after the other.",
            )
            return None
        # the declaration reads the first element of an operand where all axes are 0
        tile = _origin(ours.buffer, ours.indices, self.inside, packed_strides(tensor))
        return self._bound(tensor, tile, bound)

    def _bound(self, tensor: Tensor, tile: Operand, bound: Bound) -> Bound | None:
        """Return the operands with ``tile`` for ``tensor``, unless another one stands for it."""
        known = bound.get(tensor)
        if known is None:
            return {**bound, tensor: tile}
        same = known.buffer is tile.buffer and (known.first, known.strides) == (
            tile.first, tile.strides
        )  # fmt: skip
        if not same:
            self._fail(f"{tensor.name} would be two arrays")
        return bound if same else None

    def strided(
        self, buffer: Buffer, indices: Sequence[Expr], tensor: Tensor, axes: Sequence[Expr]
    ) -> Operand | None:
        """Return the tile of ``buffer`` that stands for ``tensor``, whose dimensions are ``axes``.

        Its elements are a fixed distance apart along each of them, also if it depends on sizes.
        """
        own, used = flat(buffer, indices), list[Axis]()
        strides: list[Lin] = []
        rest = own
        for index in axes:
            axis = self.axes.get(index) if isinstance(index, Axis) else None
            if axis is None:
                strides.append(ONE)
                continue
            used.append(axis)
            strides.append(own.substitute({axis: Lin.of(axis) + 1}) - own)
            rest = rest - strides[-1] * Lin.of(axis)
        fixed = [rest, *strides]
        if any(depends(leaf, self.inside) for lin in fixed for leaf in lin.leaves()):
            apart = _steps(_coefficients(own, self.inside), self.inside)
            self.reason = self.reason or Mismatch(
                f"the elements of {buffer.name} are {apart} apart, and {self.declared.name} takes "
                f"{tensor.name} with a fixed distance along each dimension",
                f"Pack {buffer.name}: cache_read gives it a stage, and transform_layout the order.",
            )
            return None
        if len({*used}) < len(used):
            self._fail(f"{tensor.name} has an axis in two dimensions")
            return None
        return _origin(buffer, indices, self.inside, tuple(strides))

    def in_rows(
        self, buffer: Buffer, indices: Sequence[Expr], tensor: Tensor, axes: Sequence[Expr]
    ) -> Operand | None:
        """Return the tile of ``buffer`` whose rows, along the last of ``axes``, a warp loads."""
        assert isinstance(axes[-1], Axis)
        fault = row_fault(self.declared.name, buffer, indices, self.axes[axes[-1]])
        if fault is not None:
            self.reason = self.reason or Mismatch(*fault)
            return None
        return _origin(buffer, indices, self.inside, ())

    def _offset(self, read: Read) -> Lin:
        """Return the place of an element of an operand, over the axes of the nest."""
        total, step = Lin.of(0), 1
        swap: dict[Axis | Var, Lin] = {
            axis: Lin.of(self.axes[axis]) if axis in self.axes else ZERO
            for axis in (*self.declared.op.axis, *self.declared.op.reduce_axis)
        }
        for index, extent in zip(reversed(read.indices), reversed(read.tensor.shape)):
            assert isinstance(extent, int)
            total = total + to_lin(index).substitute(swap) * step
            step *= extent
        return total

    def _fail(self, why: str) -> None:
        # only messages load it
        from schedlang.ir.instruction_text import formula

        text = f"it does not compute what {self.declared.name} does: {why}"
        self.reason = self.reason or Mismatch(text, f"It is {formula(self.declared)}.")


def packed_strides(tensor: Tensor) -> tuple[Lin, ...]:
    """Return the strides of a tensor whose elements lie one after the other."""
    strides: list[Lin] = []
    step = 1
    for extent in reversed(tensor.shape):
        strides.insert(0, Lin.of(step))
        assert isinstance(extent, int)
        step *= extent
    return tuple(strides)


def _same_operation(ours: Expr, theirs: Expr) -> bool:
    if ours.dtype != theirs.dtype or len(ours.children) != len(theirs.children):
        return False
    if isinstance(ours, (Binary, Unary)) and isinstance(theirs, (Binary, Unary)):
        return ours.op == theirs.op
    if isinstance(ours, Call) and isinstance(theirs, Call):
        return ours.fn == theirs.fn
    return isinstance(ours, (Cast, Select))


def _coefficients(offset: Lin, axes: Sequence[Axis]) -> dict[Axis, int | None]:
    """Return the distance between elements along each of ``axes`` that moves ``offset``."""
    steps: dict[Axis, int | None] = {}
    for axis in axes:
        difference = offset.substitute({axis: Lin.of(axis) + 1}) - offset
        if difference.const != 0:
            steps[axis] = difference.const
    return steps


def _steps(steps: Mapping[Axis, int | None], axes: Sequence[Axis]) -> str:
    """Return distances as ``4 along i and 1 along k``."""
    parts = [
        f"{'an uneven distance' if steps.get(a, 0) is None else steps.get(a, 0)} along {a.name}"
        for a in axes
    ]
    return " and ".join(parts)
