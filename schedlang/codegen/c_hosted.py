"""The functions of a kernel in a C program of its own, which return error codes.

The functions of the kernel stand as ``target="c"`` prints them. Those that need memory, or that
start a parallel loop, also take the ``host``, whose functions they may use for both, and return a
code.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.codegen.c_externs import CExterns
from schedlang.codegen.c_source import INDENT, Printer
from schedlang.codegen.c_values import memory
from schedlang.codegen.listing import Line
from schedlang.machine import nodes as m
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Array, Body, Function, Reg, Stmt
from schedlang.machine.walks import arrays, bound, defined_names, parts, values, walk

NO_MEMORY = "return SL_NO_MEMORY;"


class ProgramPrinter(Printer):
    """Printer of functions; those in ``hosted`` take the host and return a code.

    A parallel loop calls the function of its body by way of the host, which starts the threads.
    """

    def __init__(self, nest: MachineNest, externs: CExterns) -> None:
        super().__init__()
        self.externs = externs.names
        self.names = {f.name: f"run_{f.name}" for f in nest.functions}
        self.hosted = _hosted(nest.functions)
        self.tasks: list[Line] = []
        self.loops = 0
        self.failure = NO_MEMORY
        # the register of the mode that a return has to restore
        self.mode = ""

    def head(self, function: Function, public: bool, listed: Sequence[str]) -> str:
        if function.name not in self.hosted:
            return super().head(function, False, listed)
        parameters = ", ".join(["const schedlang_host *sl_host", *listed])
        return f"static int {self.names[function.name]}({parameters}) {{"

    def function(self, function: Function, public: bool) -> list[Line]:
        lines = super().function(function, False)
        tasks, self.tasks = self.tasks, []
        used = {variable.name for variable in _free_variables(function.body)}
        for p in function.parameters:
            if p.name not in used:
                lines.insert(1, Line(f"{INDENT}(void){p.name};", function.number))
        if function.name in self.hosted:
            lines.insert(-1, Line(f"{INDENT}return 0;", function.number))
        return [*tasks, *lines]

    def statement(self, stmt: Stmt, depth: int, known: set[str]) -> list[Line]:
        if isinstance(stmt, m.For) and stmt.parallel:
            texts = self._parallel(stmt, known)
        elif isinstance(stmt, m.Alloc) and stmt.place != "stack":
            name, kind = stmt.array.name, memory(stmt.array.dtype)
            size = f"({self.text(stmt.count)}) * (sl_i64)sizeof({kind})"
            texts = [
                f"SL_RELEASED {kind} *{name} = sl_given_memory(sl_host, {size});",
                f"if (!{name}) {self._failed()}",
            ]
        elif isinstance(stmt, m.Run) and stmt.function in self.hosted:
            texts = [f"if ({self._line(stmt, known)}) {self._failed()}"]
        else:
            if isinstance(stmt, m.Let) and isinstance(stmt.value, m.Fn):
                modes = {"flush_denormals": stmt.reg.name, "restore_mode": ""}
                self.mode = modes.get(stmt.value.name, self.mode)
            return super().statement(stmt, depth, known)
        return [Line(INDENT * depth + text, stmt.number) for text in texts]

    def call(self, name: str, arguments: Sequence[str]) -> str:
        host = ["sl_host"] if name in self.hosted else []
        return super().call(name, [*host, *arguments])

    def _failed(self) -> str:
        """Return the statement for a call that has no memory."""
        if not self.mode:
            return self.failure
        return f"{{ sl_restore_mode_i64({self.mode}); {self.failure} }}"

    def _parallel(self, loop: m.For, known: set[str]) -> list[str]:
        """Return the statements of a parallel loop, and keep the function of its body."""
        self.loops += 1
        task, index, number = f"sl_task_{self.loops}", loop.index.name, loop.number
        free = [v for v in _free_variables(loop.body, loop.index) if not self.is_unread(v.name)]
        fields = {variable.name: self.declared(variable) for variable in free}
        outer, self.failure = self.failure, "{ sl_given->sl_failed = 1; return; }"
        body = self.body(loop.body, 1, {*known, index})
        self.failure = outer
        uses_host = _needs_host(loop.body, self.hosted)
        if uses_host:
            fields["sl_host"] = "const schedlang_host *sl_host"
        texts = [
            f"struct {task} {{",
            *(f"{INDENT}{declared};" for declared in fields.values()),
            *([f"{INDENT}_Atomic int sl_failed;"] if uses_host else []),
            "};",
            f"static void {task}(void *sl_data, sl_i64 {index}) {{",
            f"{INDENT}struct {task} *sl_given = sl_data;",
            *(f"{INDENT}{declared} = sl_given->{name};" for name, declared in fields.items()),
        ]
        self.tasks += [*(Line(t, number) for t in texts), *body, Line("}", number), Line("")]
        given = ", ".join([*fields, *(["0"] if uses_host else [])])
        ends = f"{self.text(loop.start)}, {self.text(loop.stop)}"
        called = f"sl_parallel_for(sl_host, {ends}, {task}, &sl_loop_{self.loops});"
        failed = [f"if (sl_loop_{self.loops}.sl_failed) {self._failed()}"] if uses_host else []
        return [f"struct {task} sl_loop_{self.loops} = {{{given}}};", called, *failed]


def _hosted(functions: Sequence[Function]) -> frozenset[str]:
    """Return the functions that need the host; a function stands behind those that it calls."""
    hosted: frozenset[str] = frozenset()
    for function in functions:
        if _needs_host(function.body, hosted):
            hosted |= {function.name}
    return hosted


def _needs_host(body: Body, hosted: frozenset[str]) -> bool:
    """Return whether ``body`` allocates memory, starts a parallel loop, or calls a function of
    ``hosted``."""
    return any(
        (isinstance(stmt, m.Alloc) and stmt.place != "stack")
        or (isinstance(stmt, m.For) and stmt.parallel)
        or (isinstance(stmt, m.Run) and stmt.function in hosted)
        for stmt, _ in walk(body)
    )


def _free_variables(body: Body, *defined: Reg) -> list[Array | Reg]:
    """Return the arrays and registers that ``body`` reads or writes and does not define, in order.

    Those in ``defined`` are left out.
    """
    variables: dict[str, Array | Reg] = {}
    names = {variable.name for variable in defined}
    for stmt, _ in walk(body):
        names |= {variable.name for variable in (*bound(stmt), *defined_names(stmt))}
        if isinstance(stmt, m.Hint):
            # a hint about arrays does not read them
            continue
        inside = [v for root in values(stmt) for v in parts(root)]
        read = [*arrays(stmt), *(v.array for v in inside if isinstance(v, m.Load)), *inside]
        variables.update({v.name: v for v in read if isinstance(v, (Array, Reg))})
    return [variable for name, variable in variables.items() if name not in names]
