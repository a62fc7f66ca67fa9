"""The loop of a ufunc, as NumPy calls it: with the address and the step of each operand.

NumPy gives pointers, the number of elements, and the steps in bytes. The kernel has two functions:
one for contiguous arrays, in vectors, and one without, which is inlined for one element at a time.
The loop chooses:

* All operands are contiguous: the first function.
* Some inputs are one element, with the step 0, and outputs are contiguous: the same, on blocks, for
  which a buffer holds copies of that element.
* Operands have other steps: the first function, on as many elements as a vector has lanes. They are
  copied one by one, which LLVM turns into a vector in a register.
* An output shares memory with another operand at another place, as in ``reduce`` and
  ``accumulate``, or fewer elements are left: the second function, for one element after the other.

Many elements are computed by several threads, if ``may_fork`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from llvmlite import ir

from schedlang.runtime.llvm.dialect import I64
from schedlang.runtime.numba_internals import cgutils
from schedlang.runtime.numba_parallel import launch_loop

BYTE = ir.IntType(8)
POINTER = BYTE.as_pointer()
BIT = ir.IntType(1)
# the type of a loop: pointers, dimensions, steps, and the data of the ufunc
LOOP = ir.FunctionType(
    ir.VoidType(), [POINTER.as_pointer(), I64.as_pointer(), I64.as_pointer(), POINTER]
)
# the symbols of what clears the processor's flags of floating-point errors, and of a byte that is 0
# where numba's threads may not be launched
CLEAR_FLAGS, MAY_FORK = "schedlang_clear_floating_point_flags", "schedlang_ufuncs_may_fork"
# bytes of the buffers of a block, and its most elements; not measured
BUFFER, MOST = 1 << 15, 1024
# elements of a chunk that one thread computes, and from which number on there are several threads.
# nobody has measured these values
CHUNK, FORKED = 1 << 15, 1 << 16


@dataclass(frozen=True)
class UfuncLoop:
    """The form of a loop: ``sizes`` of elements in bytes, the inputs' first, and their count.

    ``contiguous`` and ``element`` are the names of the two functions, and ``lanes`` the elements
    that the first one computes at once. ``floats`` says whether an element may set flags of
    floating-point errors, and ``forks`` whether many elements are computed by several threads.
    """

    sizes: tuple[int, ...]
    inputs: int
    contiguous: str
    element: str
    lanes: int = 1
    floats: bool = True
    forks: bool = True

    def print(self, module: ir.Module, symbol: str, function: Callable[[str], ir.Function]) -> None:
        """Print the loop as the function ``symbol``; ``function`` has the kernel's by name."""
        _Loop(self, module, symbol, function).print()


class _Loop:
    def __init__(
        self, form: UfuncLoop, module: ir.Module, symbol: str,
        function: Callable[[str], ir.Function],
    ) -> None:  # fmt: skip
        self.form, self.module, self.symbol = form, module, symbol
        self.contiguous, self.element = function(form.contiguous), function(form.element)
        self.element.attributes.add("alwaysinline")
        self.count = len(form.sizes)

    def print(self) -> None:
        target = ir.Function(self.module, LOOP, self.symbol)
        target.attributes.add("nounwind")
        builder = ir.IRBuilder(target.append_basic_block("entry"))
        pointers, dimensions, steps, _ = target.args
        n = builder.load(dimensions)
        places = [builder.load(builder.gep(pointers, [I64(k)])) for k in range(self.count)]
        apart = [builder.load(builder.gep(steps, [I64(k)])) for k in range(self.count)]
        independent = self._independent(builder, n, places, apart)
        part = self._part()
        if self.form.forks:
            large = builder.icmp_signed(">=", n, I64(FORKED))
            with builder.if_then(builder.and_(independent, large), likely=False):
                with builder.if_then(may_fork(builder)):
                    self._launch(builder, part, n, places, apart)
                    self._end(builder)
        builder.call(part, [independent, n, *places, *apart])
        self._end(builder)

    def _end(self, builder: ir.IRBuilder) -> None:
        if self.form.floats:
            clear_flags(builder)
        builder.ret_void()

    def _independent(
        self, builder: ir.IRBuilder, n: ir.Value, places: Sequence[ir.Value],
        steps: Sequence[ir.Value],
    ) -> ir.Value:  # fmt: skip
        """Emit whether no output shares memory with another operand, or only element by element.

        Several outputs, which are stored one after the other, share none.
        """
        first = [builder.ptrtoint(place, I64) for place in places]
        last = builder.sub(n, I64(1))
        low, high = [], []
        for start, step, size in zip(first, steps, self.form.sizes):
            span = builder.mul(step, last)
            negative = builder.icmp_signed("<", span, I64(0))
            low.append(builder.add(start, builder.select(negative, span, I64(0))))
            end = builder.add(start, builder.select(negative, I64(0), span))
            high.append(builder.add(end, I64(size)))
        holds: ir.Value = BIT(1)
        for out in range(self.form.inputs, self.count):
            moves = builder.icmp_signed("!=", steps[out], I64(0))
            single = builder.icmp_signed("<=", n, I64(1))
            holds = builder.and_(holds, builder.or_(moves, single))
            for other in range(out):
                before = builder.icmp_unsigned("<=", high[out], low[other])
                behind = builder.icmp_unsigned("<=", high[other], low[out])
                fits = builder.or_(before, behind)
                if self.count - self.form.inputs == 1:
                    equal = builder.and_(
                        builder.icmp_unsigned("==", first[out], first[other]),
                        builder.icmp_signed("==", steps[out], steps[other]),
                    )
                    fits = builder.or_(fits, equal)
                holds = builder.and_(holds, fits)
        return holds

    def _launch(
        self, builder: ir.IRBuilder, part: ir.Function, n: ir.Value, places: Sequence[ir.Value],
        steps: Sequence[ir.Value],
    ) -> None:  # fmt: skip
        """Emit the launch of threads, each of which computes chunks of elements."""
        chunks = builder.sdiv(builder.add(n, I64(CHUNK - 1)), I64(CHUNK))
        shared = cgutils.make_anonymous_struct(builder, [n, *places, *steps])

        def each(inside: ir.IRBuilder, held: ir.Value, number: ir.Value) -> None:
            n, *rest = [inside.extract_value(held, k) for k in range(1 + 2 * self.count)]
            steps = rest[self.count :]
            start = inside.mul(number, I64(CHUNK))
            left = inside.sub(n, start)
            own = inside.select(inside.icmp_signed("<", left, I64(CHUNK)), left, I64(CHUNK))
            places = [inside.gep(p, [inside.mul(start, step)]) for p, step in zip(rest, steps)]
            inside.call(part, [BIT(1), own, *places, *steps])

        launch_loop(builder, self.symbol, chunks, shared, each)

    def _part(self) -> ir.Function:
        """Print the function that computes elements on one thread, and return it."""
        kind = ir.FunctionType(
            ir.VoidType(), [BIT, I64, *[POINTER] * self.count, *[I64] * self.count]
        )
        target = ir.Function(self.module, kind, f"part.{self.symbol}")
        target.linkage = "internal"
        target.attributes.add("nounwind")
        builder = ir.IRBuilder(target.append_basic_block("entry"))
        independent, n, *rest = target.args
        places, steps = rest[: self.count], rest[self.count :]
        adjacent = [
            builder.icmp_signed("==", step, I64(size))
            for step, size in zip(steps, self.form.sizes)
        ]
        with builder.if_then(_all(builder, [independent, *adjacent])):
            self._call(builder, places, n)
            builder.ret_void()
        blocks = [independent, *adjacent[self.form.inputs :]]
        for step, follows in zip(steps, adjacent[: self.form.inputs]):
            blocks.append(builder.or_(follows, builder.icmp_signed("==", step, I64(0))))
        with builder.if_then(_all(builder, blocks)):
            self._blocks(builder, n, places, steps, adjacent)
            builder.ret_void()
        first = I64(0)
        if self.form.lanes > 1:
            whole = builder.and_(n, I64(-self.form.lanes))
            first = builder.select(independent, whole, I64(0))
            follow = _all(builder, adjacent[self.form.inputs :])
            with builder.if_else(follow) as (then, otherwise):
                with then:
                    self._vectors(builder, first, places, steps, stored=True)
                with otherwise:
                    self._vectors(builder, first, places, steps, stored=False)
        with cgutils.for_range_slice(builder, first, n, I64(1), I64) as (at, _):
            self._element(builder, at, places, steps)
        builder.ret_void()
        return target

    def _vectors(
        self, builder: ir.IRBuilder, n: ir.Value, places: Sequence[ir.Value],
        steps: Sequence[ir.Value], stored: bool,
    ) -> None:  # fmt: skip
        """Emit calls of the contiguous function for the elements of one vector after the other.

        The calls store the results where ``stored``, for contiguous outputs; else to buffers.
        """
        form = self.form
        buffers = [cgutils.alloca_once(builder, _word(s), size=form.lanes) for s in form.sizes]
        with cgutils.for_range_slice(builder, I64(0), n, I64(form.lanes), I64) as (start, _):
            here = [builder.gep(p, [builder.mul(start, s)]) for p, s in zip(places, steps)]
            rows = [*zip(here, steps, buffers, map(_word, form.sizes))]
            for place, step, buffer, word in rows[: form.inputs]:
                for lane, source in enumerate(self._strided(builder, place, step)):
                    element = builder.load(builder.bitcast(source, word.as_pointer()), align=1)
                    builder.store(element, builder.gep(buffer, [I64(lane)]))
            operands = [*buffers[: form.inputs], *(here if stored else buffers)[form.inputs :]]
            given = map(builder.bitcast, operands, self.contiguous.function_type.args)
            # in line, LLVM keeps the copies in registers
            builder.call(self.contiguous, [*given, I64(form.lanes)], attrs=("alwaysinline",))
            for place, step, buffer, word in [] if stored else rows[form.inputs :]:
                for lane, target in enumerate(self._strided(builder, place, step)):
                    element = builder.load(builder.gep(buffer, [I64(lane)]))
                    builder.store(element, builder.bitcast(target, word.as_pointer()), align=1)

    def _strided(
        self, builder: ir.IRBuilder, place: ir.Value, step: ir.Value
    ) -> Iterator[ir.Value]:
        """Emit the addresses of a vector's elements, from one pair to the next.

        Multiples of several steps would take more registers than there are.
        """
        pair = builder.add(step, step)
        for _ in range(self.form.lanes // 2):
            yield place
            yield builder.gep(place, [step])
            place = builder.gep(place, [pair])

    def _element(
        self, builder: ir.IRBuilder, at: ir.Value, places: Sequence[ir.Value],
        steps: Sequence[ir.Value],
    ) -> None:  # fmt: skip
        """Emit what computes one element, from copies of the inputs' elements.

        An output may be an input: all inputs are read before an output is written.
        """
        here = [builder.gep(p, [builder.mul(at, step)]) for p, step in zip(places, steps)]
        for k in range(self.form.inputs):
            word = _word(self.form.sizes[k])
            own = cgutils.alloca_once(builder, word)
            element = builder.load(builder.bitcast(here[k], word.as_pointer()), align=1)
            builder.store(element, own)
            here[k] = own
        kinds = self.element.function_type.args
        builder.call(self.element, [*map(builder.bitcast, here, kinds), I64(1)])

    def _call(self, builder: ir.IRBuilder, places: Sequence[ir.Value], n: ir.Value) -> None:
        """Emit a call of the function for contiguous arrays."""
        kinds = self.contiguous.function_type.args
        builder.call(self.contiguous, [*map(builder.bitcast, places, kinds), n])

    def _blocks(
        self, builder: ir.IRBuilder, n: ir.Value, places: Sequence[ir.Value],
        steps: Sequence[ir.Value], adjacent: Sequence[ir.Value],
    ) -> None:  # fmt: skip
        """Emit calls of the contiguous function, block by block, with copies of some inputs."""
        form = self.form
        total = sum(form.sizes[: form.inputs])
        length = max(min(MOST, BUFFER // max(total, 1)) // 64, 1) * 64
        buffers = [
            builder.bitcast(cgutils.alloca_once(builder, word, size=length), POINTER)
            for word in map(_word, form.sizes[: form.inputs])
        ]
        for k, buffer in enumerate(buffers):
            # copies of one element serve all blocks
            with builder.if_then(builder.icmp_signed("==", steps[k], I64(0))):
                short = builder.icmp_signed("<", n, I64(length))
                count = builder.select(short, n, I64(length))
                self._repeat(builder, k, buffer, places[k], count)
        with cgutils.for_range_slice(builder, I64(0), n, I64(length), I64) as (start, _):
            left = builder.sub(n, start)
            short = builder.icmp_signed("<", left, I64(length))
            count = builder.select(short, left, I64(length))
            here = [builder.gep(p, [builder.mul(start, s)]) for p, s in zip(places, steps)]
            for k, buffer in enumerate(buffers):
                here[k] = builder.select(adjacent[k], here[k], buffer)
            self._call(builder, here, count)

    def _repeat(
        self, builder: ir.IRBuilder, k: int, buffer: ir.Value, place: ir.Value, count: ir.Value
    ) -> None:
        """Emit ``count`` copies of one element to a buffer."""
        word = _word(self.form.sizes[k]).as_pointer()
        element = builder.load(builder.bitcast(place, word), align=1)
        target = builder.bitcast(buffer, word)
        with cgutils.for_range(builder, count) as loop:
            builder.store(element, builder.gep(target, [loop.index]))


def _word(size: int) -> ir.Type:
    """Return the type by which an element of ``size`` bytes is copied."""
    return ir.IntType(8 * size)


def _all(builder: ir.IRBuilder, conditions: Sequence[ir.Value]) -> ir.Value:
    """Emit whether all conditions hold."""
    holds, *others = conditions
    for other in others:
        holds = builder.and_(holds, other)
    return holds


def may_fork(builder: ir.IRBuilder) -> ir.Value:
    """Emit whether several threads may compute elements, and there are several."""
    module = builder.module
    known = module.globals.get(MAY_FORK)
    allowed = ir.GlobalVariable(module, BYTE, MAY_FORK) if known is None else known
    allows = builder.icmp_unsigned("!=", builder.load(allowed), BYTE(0))
    kind = ir.FunctionType(I64, [])
    threads = builder.call(cgutils.get_or_insert_function(module, kind, "get_num_threads"), [])
    return builder.and_(allows, builder.icmp_signed(">", threads, I64(1)))


def clear_flags(builder: ir.IRBuilder) -> None:
    """Emit that the flags of floating-point errors are cleared.

    Lanes that nothing stores would set them, and NumPy would warn of what did not happen.
    """
    kind = ir.FunctionType(ir.VoidType(), [])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, CLEAR_FLAGS), [])


__all__ = ["CLEAR_FLAGS", "LOOP", "MAY_FORK", "UfuncLoop", "clear_flags", "may_fork"]
