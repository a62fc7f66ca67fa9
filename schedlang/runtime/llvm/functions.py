"""The functions of a machine nest as a module of LLVM's code."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from llvmlite import ir

from schedlang.intrinsics.memory import ALIGNMENT
from schedlang.intrinsics.simd import llvm_type
from schedlang.machine.nodes import Array, For, Function, Reg
from schedlang.machine.passes.outline import free
from schedlang.machine.walks import walk
from schedlang.runtime.llvm.dialect import I64, Context, type_of
from schedlang.runtime.llvm.lines import Lines
from schedlang.runtime.llvm.parts import Part, Whole, may_fail
from schedlang.runtime.llvm.statements import (
    STATUS,
    StatementPrinter,
    assigned_often,
    pointer_type,
)
from schedlang.runtime.llvm.symbols import symbol_of
from schedlang.runtime.llvm.traced import traced
from schedlang.runtime.numba_internals import cgutils, ready_context, with_flags
from schedlang.runtime.numba_parallel import launch_loop, launch_team
from schedlang.runtime.numba_team import emit_failed, emit_loop

# the place in a team of a printer of what a team runs: the team, and the number of the thread
Place = tuple[ir.Value, ir.Value]


def print_functions(
    whole: Whole, part: Part, module: ir.Module, prefix: str, lines: Lines
) -> ir.Function | None:
    """Print the functions of a part to ``module``, and return the entry, if the part has it.

    ``prefix`` is what the names of functions begin with.
    """
    nest, printed = whole.nest, _Printed(whole, module, prefix)
    functions = _Functions(Context(traced), printed, whole, lines)
    for function in nest.functions:
        if function.name not in part.functions:
            continue
        is_entry, target = function is nest.entry, printed[function.name]
        # as numba's: LLVM inlines it if that is worth it, even where it is called once
        if not is_entry and function.name not in part.called:
            target.linkage = "linkonce_odr"
        if is_entry or function.name in whole.shared:
            target.attributes.add("noinline")
        functions.define(function, target)
    return printed.get(nest.entry.name)


class _Printed(dict[str, ir.Function]):
    """The functions of a module by name, each of which is declared when it is first named."""

    def __init__(self, whole: Whole, module: ir.Module, prefix: str) -> None:
        super().__init__()
        self._whole, self._module, self._prefix = whole, module, prefix

    def __missing__(self, name: str) -> ir.Function:
        whole, first = self._whole, self._whole.named(name)
        if first != name:
            self[name] = self[first]
        else:
            symbol = symbol_of(self._prefix, name)
            before = [I64, I64] if whole.is_member(name) else []
            function = whole.by_name[name]
            self[name] = _declared(self._module, symbol, function, whole.failing, before)
        return self[name]


def finish(module: ir.Module, fastmath: bool) -> None:
    """Give all functions of ``module`` what they have in common: the freedom of their arithmetic.

    If one of them spills vectors, the stacks of all are aligned: a function that LLVM inlines has
    the stack of its caller.
    """
    aligned = any(function.attributes.alignstack for function in module.functions)
    flags = {"fast"} if fastmath else {"contract"}
    for function in module.functions:
        if "alwaysinline" not in function.attributes:
            with_flags(function, flags)
        if aligned and not function.is_declaration:
            function.attributes.alignstack = ALIGNMENT
            function.attributes.add("nounwind")


def _declared(
    module: ir.Module, name: str, function: Function, failing: Collection[str],
    before: Sequence[ir.Type] = (),
) -> ir.Function:  # fmt: skip
    kind = function_type(function.parameters, function.name in failing, before)
    return ir.Function(module, kind, name)


def function_type(
    parameters: Sequence[Array | Reg], fails: bool, before: Sequence[ir.Type] = ()
) -> ir.FunctionType:
    """Return the type of a function, which returns a status if it may lack memory."""
    kinds = [_parameter_type(p) for p in parameters]
    return ir.FunctionType(STATUS if fails else ir.VoidType(), [*before, *kinds])


def _parameter_type(parameter: Array | Reg) -> ir.Type:
    if isinstance(parameter, Array):
        return pointer_type(parameter)
    return llvm_type(type_of(parameter.type))


class _Functions:
    """The printer of the functions of one module."""

    def __init__(
        self, context: Context, printed: dict[str, ir.Function], whole: Whole, lines: Lines
    ) -> None:
        self.context, self.printed, self.whole, self.lines = context, printed, whole, lines
        self.failing = whole.failing

    def define(self, function: Function, target: ir.Function) -> None:
        """Print the body of a function.

        A team runs an entry that calls several functions with parallel loops, and parallel loops in
        another loop.
        """
        if self.whole.is_member(function.name):
            first = self.lines.of(function.name)
            self.body(target, function.parameters, function.body, first, team=True)
            return
        loops = [s for s, _ in walk(function.body) if isinstance(s, For)]
        serial = [loop for loop in loops if not loop.parallel]
        closely = len(serial) < len(loops) and any(
            isinstance(s, For) and s.parallel for loop in serial for s, _ in walk(loop.body)
        )
        if not closely and function.name not in self.whole.by_team:
            self.body(target, function.parameters, function.body, self.lines.of(function.name))
            return
        name = f"team.{target.name}"
        member = _declared(target.module, name, function, self.failing, [I64, I64])
        member.linkage = "internal"
        first = self.lines.of(function.name)
        self.body(member, function.parameters, function.body, first, team=True)
        self._team(target, member, first)

    def _team(self, target: ir.Function, member: ir.Function, line: int) -> None:
        """Print the function that starts a team, whose threads call ``member``."""
        builder = ir.IRBuilder(target.append_basic_block("entry"))
        self.lines.start(target, line)
        self.lines.at(builder, line)
        given = cgutils.make_anonymous_struct(builder, [*target.args])
        fails = target.ftype.return_type == STATUS

        def run(
            inside: ir.IRBuilder, team: ir.Value, number: ir.Value, given: ir.Value
        ) -> ir.Value:
            self.lines.start(inside.function, line)
            self.lines.at(inside, line)
            args = [inside.extract_value(given, k) for k in range(len(target.args))]
            status = inside.call(member, [team, number, *args])
            return cgutils.is_not_null(inside, status) if fails else ir.IntType(1)(0)

        team = launch_team(ready_context(), builder, member.name, given, run)
        if fails:
            builder.ret(builder.zext(emit_failed(builder, team), STATUS))
        else:
            builder.ret_void()

    def body(
        self, target: ir.Function, parameters: Sequence[Array | Reg], body: Any, line: int,
        team: bool = False,
    ) -> int:  # fmt: skip
        """Print a block as the body of a function, and return the line after it.

        ``line`` is the one before it.
        """
        target.attributes.add("nounwind")
        entry = target.append_basic_block("entry")
        builder = ir.IRBuilder(target.append_basic_block("body"))
        self.lines.start(target, line)
        place, own = (target.args[:2], target.args[2:]) if team else (None, target.args)
        known = {p.name: value for p, value in zip(parameters, own)}
        often = assigned_often(body, parameters)
        printer = _Printer(self, builder, known, often, line + 1, place)
        for parameter in parameters:
            if parameter.name in often and isinstance(parameter, Reg):
                printer.assign(parameter, known[parameter.name])
        printer.body(body)
        if target.ftype.return_type == STATUS:
            builder.ret(STATUS(0))
        else:
            builder.ret_void()
        ir.IRBuilder(entry).branch(entry.parent.blocks[1])
        return printer.line


class _Printer(StatementPrinter):
    """Printer of the statements of one function, whose parallel loops become functions."""

    def __init__(
        self, functions: _Functions, builder: ir.IRBuilder, known: Mapping[str, ir.Value],
        often: frozenset[str], line: int, place: Place | None,
    ) -> None:  # fmt: skip
        super().__init__(
            functions.context, builder, functions.printed, known, often, functions.lines.at, line
        )
        self._functions, self._place = functions, place

    def before(self, called: str) -> Sequence[ir.Value]:
        if not self._functions.whole.is_member(called):
            return ()
        assert self._place is not None
        return self._place

    def parallel(self, stmt: For) -> None:
        """Emit the launch of a parallel loop, whose body becomes a function."""
        builder = self.builder
        start, stop = self(stmt.start), self(stmt.stop)
        named = [n for n in free(stmt.body) if n.name != stmt.index.name]
        values = [self.array(n) if isinstance(n, Array) else self.register(n) for n in named]
        fails = may_fail(stmt.body, self._functions.failing)
        result = STATUS if fails else ir.VoidType()
        kind = ir.FunctionType(result, [I64, *(v.type for v in values)])
        name = builder.module.get_unique_name(f"{builder.function.name}.{stmt.index.name}")
        iteration = ir.Function(builder.module, kind, name)
        iteration.linkage = "internal"
        parameters, line = [stmt.index, *named], self.line - 1
        self.line = self._functions.body(iteration, parameters, stmt.body, line)
        failed = cgutils.alloca_once_value(builder, I64(0)) if fails else None
        shared = cgutils.make_anonymous_struct(
            builder, [start, *values, *([failed] if failed is not None else [])]
        )

        def each(inside: ir.IRBuilder, held: ir.Value, number: ir.Value) -> None:
            # an inlined function keeps its lines only where the caller has one
            self._functions.lines.start(inside.function, line)
            self._functions.lines.at(inside, line)
            first = inside.extract_value(held, 0)
            given = [inside.extract_value(held, k + 1) for k in range(len(values))]
            index = inside.add(first, inside.mul(number, I64(stmt.step)))
            status = inside.call(iteration, [index, *given])
            if fails:
                with inside.if_then(cgutils.is_not_null(inside, status), likely=False):
                    inside.store(I64(1), inside.extract_value(held, len(values) + 1))

        span = builder.add(builder.sub(stop, start), I64(stmt.step - 1))
        count = builder.sdiv(span, I64(stmt.step))
        if self._place is None:
            launch_loop(builder, name, count, shared, each)
        else:
            emit_loop(ready_context(), builder, *self._place, name, count, shared, each)
        if failed is not None:
            lacked = cgutils.is_not_null(builder, builder.load(failed))
            with builder.if_then(lacked, likely=False):
                self.fail()
