"""One random case: a computation, a schedule, and every check of them."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.compute.graph import operations
from schedlang.compute.tensor import PlaceholderOp
from schedlang.errors import BuildError
from schedlang.expr import dtypes
from schedlang.expr.dtypes import storage_dtype
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Var
from schedlang.ir.interpret import cooperative, interpret
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, For, If, Store
from schedlang.lowering.lower import lower_state
from schedlang.machine.lower import machine_nest
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Op
from schedlang.machine.walks import operations as parts_of
from schedlang.machine.walks import values, walk
from tests.fuzz.arguments import arguments
from tests.fuzz.attach import check_attach_order
from tests.fuzz.compare import compare, expected, scalar
from tests.fuzz.counts import check_counts
from tests.fuzz.coverage import note_graph, note_kernel, note_nest
from tests.fuzz.derived import instructions_of
from tests.fuzz.externs import by_numpy
from tests.fuzz.graphs import build, random_graph
from tests.fuzz.inputs import arrays, other_sizes
from tests.fuzz.proofs import check_proofs, check_proofs_at
from tests.fuzz.record import Case, Mismatch
from tests.fuzz.scans import check_refused
from tests.fuzz.search import FEWEST, schedule_randomly
from tests.fuzz.steps import bound
from tests.fuzz.values import Graph
from tests.machine_interpreter import interpret_machine

MOST_ITERATIONS = 60_000
MOST_GRAPHS = 10
# the share of computations with complex numbers
COMPLEX_SHARE = 0.06
UNWRITTEN = 77
ORDERED = ("parallel ", "vectorize ", "vthread ", "Idx.")


def run_case(
    seed: int | str, index: int, targets: Sequence[str] = (), texts: bool = True,
    externs: float = 0.0, scans: float = 0.0,
) -> Case:  # fmt: skip
    """Run case ``index`` of the run ``seed``; an exception becomes its ``failure``.

    Replace a computation for which five steps cannot be found. A share ``externs`` of the stages
    are functions of users, and each computation has one; ``scans`` is the same for scans.
    """
    key = f"{seed}:{index}"
    rng = Random(key)
    for _ in range(MOST_GRAPHS):
        graph = random_graph(rng, complexes=COMPLEX_SHARE, externs=externs, scans=scans)
        while (externs and "extern" not in graph.kinds) or (
            scans and graph.kinds.isdisjoint(("scan", "scan of two states"))
        ):
            graph = random_graph(rng, complexes=COMPLEX_SHARE, externs=externs, scans=scans)
        case = Case(key, graph)
        try:
            _run(rng, case, targets, texts)
        except Exception as error:
            case.outcome = "failed"
            case.failure = "".join(traceback.format_exception(error)[-6:])
        if case.outcome != "too few steps":
            break
    return case


def _run(rng: Random, case: Case, targets: Sequence[str], texts: bool) -> None:
    space = build(case.graph)
    check_refused(case.graph, space)
    case.counts["computations refused"] += len(case.graph.refused)
    outputs = [space[n] for n in case.graph.outputs]
    s = schedule_randomly(rng, case, outputs, texts)
    if len(case.applied) < FEWEST:
        case.outcome = "too few steps"
        return
    try:
        case.source = s.as_python()
    except Exception:
        case.source = (
            f"s = sl.Schedule.from_json({s.to_json()!r}, [{', '.join(case.graph.outputs)}])\n"
        )
        raise
    args = arguments(case, s)
    nest = lower_state(s.state, args)
    note_graph(case)
    note_nest(case, nest, case.source)
    if texts:
        check_texts(rng, case, s, str(s), space, outputs)
    check_proofs(case, nest)
    if args is not None:
        outputs = [t for t in args if t in s.state.defined]
    check_results(rng, case, s, nest, oracle(case.graph, outputs), targets)


def oracle(g: Graph, outputs: list[Any]) -> list[Any]:
    """Return the tensors that the reference computes: functions of users are NumPy's there."""
    if "extern" not in g.kinds:
        return outputs
    space = build(by_numpy(g))
    ops = operations([space[name] for name in g.outputs])
    known = {t.name: t for op in ops for t in getattr(op, "outputs", ())}
    # a step may have made an intermediate that is an argument
    return [known[t.name] for t in outputs] if {t.name for t in outputs} <= {*known} else outputs


def check_texts(
    rng: Random, case: Case, s: Any, text: str, space: dict[str, Any], outputs: list[Any]
) -> None:
    """Check that the schedule as JSON and as Python gives the nest that prints as ``text``."""
    root = outputs if len(outputs) > 1 else outputs[0]
    again = sl.Schedule.from_json(s.to_json(), root, instructions_of(s))
    if str(again) != text:
        raise Mismatch("from_json(to_json()) prints another nest")
    replayed = {**space, **{i.name: i for i in instructions_of(s)}}
    for t in s.state.outputs:
        replayed.setdefault(t.name.replace(".", "_"), t)
    given = dict(replayed)
    exec(case.source, replayed)
    if str(replayed["s"]) != text:
        raise Mismatch(f"as_python() prints another nest:\n{replayed['s']}")
    if check_attach_order(rng, case.source, text, given):
        case.features.add("attached in another order")


def check_results(
    rng: Random, case: Case, s: Any, nest: Nest, outputs: list[Any], targets: Sequence[str]
) -> None:
    """Check the nest and each kernel against the reference, at all sizes of the case."""
    threads = bound(s) or cooperative(nest)
    kernels = {} if threads else built(rng, case, s, targets, nest)
    tensorized = instructions_of(s) and not threads
    others = other_sizes(rng, case.graph)
    # the first sizes again, to find state that calls at other sizes left behind
    every = [case.graph.sizes, *others, *([case.graph.sizes] if others else [])]
    for position, sizes in enumerate(every):
        if iterations(nest, sizes) > MOST_ITERATIONS:
            if not position:
                case.outcome = "too large"
                return
            continue
        if sizes:
            check_proofs_at(case, nest, sizes)
        _note_sizes(case, sizes, position)
        data = arrays(case.graph, rng.randrange(2**31), sizes)
        wanted = expected(outputs, data, sizes)
        given = given_arrays(nest, data, sizes)
        if cooperative(nest):
            case.outcome = "shared by threads"
        elif position < len(every) - 1 or not others:
            interpreted(rng, case, nest, given, wanted)
        if tensorized:
            # no processor has these instructions; C is a language that they have a form in
            machine = machine_nest(nest, sl.Target("c"), "kernel", ())
            run = machine_run(rng, nest, machine, given, wanted, sizes)
            compare(nest, run, wanted, case.graph.terms, f"instructions{_at(sizes)}")
            case.counts["machine nests with instructions run"] += 1
        results: dict[str, tuple[np.ndarray, ...]] = {}
        for target, kernel in kernels.items():
            found = _called(case, nest, kernel, given, wanted)
            compare(nest, found, wanted, case.graph.terms, f'target="{target}"{_at(sizes)}')
            results[target] = found
            if target == "numba" and "cpu" in results:
                check_same(case, kernel.machine_nest, results["cpu"], found)
            if target == "python":
                run = machine_run(rng, nest, kernel.machine_nest, given, wanted, sizes)
                compare(nest, run, wanted, case.graph.terms, f"machine nest{_at(sizes)}")
                case.counts["machine nests run"] += 1


def built(
    rng: Random, case: Case, s: Any, targets: Sequence[str], nest: Nest
) -> dict[str, Any]:
    """Return a kernel for each of ``targets``; none if one of them refuses the schedule.

    The target "python" has vectors of a random width: small rows fill several narrow ones. The
    target "library" is a C program that is saved and loaded.
    """
    kernels = {}
    args = [a if isinstance(a, Var) else a.tensor for a in nest.args]
    narrow = sl.Target("python", vector_bytes=rng.choice((4, 16, 64)))
    for target in targets:
        try:
            if target == "numba":
                kernels[target] = sl.build(s, args, target="cpu", compiler="numba")
            elif target == "library":
                kernels[target] = library(sl.build(s, args))
                continue
            else:
                kernels[target] = sl.build(s, args, target=narrow if target == "python" else target)
        except BuildError as error:
            case.outcome, case.failure = "not built", str(error)
            return {}
        case.counts[f"built for {target}"] += 1
        note_kernel(case, kernels[target].source)
    return kernels


def library(kernel: Any) -> Any:
    """Return a kernel as a library of C, saved and loaded."""
    with tempfile.TemporaryDirectory() as folder:
        return sl.load_module(kernel.save(Path(folder) / "kernel.so"))


def check_same(
    case: Case, machine: MachineNest, found: Sequence[np.ndarray], by_numba: Sequence[np.ndarray]
) -> None:
    """Check that LLVM's kernel gives the bits of numba's, where no product can fuse with a sum."""
    different = any(a.tobytes() != b.tobytes() for a, b in zip(found, by_numba))
    case.counts["equal bits" if not different else "other bits"] += 1
    if different and not contracts(machine):
        raise Mismatch("LLVM's kernel gives other bits than numba's")


def contracts(machine: MachineNest) -> bool:
    """Return whether a product of floats may be fused with a sum: it is rounded or not."""
    names = {
        v.op for function in machine.functions for stmt, _ in walk(function.body)
        for value in values(stmt) for v in parts_of(value)
        if isinstance(v, Op) and dtypes.is_float(v.type.dtype)
    }  # fmt: skip
    return "*" in names and bool(names & {"+", "-"})


def interpreted(
    rng: Random, case: Case, nest: Nest, given: list[Any], wanted: Mapping[str, np.ndarray]
) -> None:
    orders = ["forward"]
    text = str(nest)
    if any(k in text for k in ORDERED):
        orders.append(rng.choice(("reverse", "shuffle")))
    for order in orders:
        run = interpret(nest, given, order, rng.randrange(1000))
        compare(nest, run.outputs, wanted, case.graph.terms, f"interpreted {order}")


def machine_run(
    rng: Random, nest: Nest, machine: MachineNest, given: list[Any],
    wanted: Mapping[str, np.ndarray], sizes: Mapping[str, int],
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Return the outputs of the nest ``machine``, in the interpreter."""
    inputs = iter(given)
    outputs: list[np.ndarray] = []
    args: list[Any] = []
    for arg in nest.args:
        if isinstance(arg, Buffer) and arg in nest.outputs and arg.tensor is not None:
            outputs.append(np.full_like(wanted[arg.tensor.name], UNWRITTEN))
            value: Any = outputs[-1]
        else:
            value = next(inputs)
        if isinstance(arg, Buffer):
            flat = np.ascontiguousarray(value).reshape(-1)
            args.append(flat.view(storage_dtype(arg.dtype)))
        else:
            args.append(np.dtype(arg.dtype).type(value))
    args += [sizes[v.name] for v in nest.sizes]
    if machine.invoked:
        by_position = {stmt.position: stmt.function.run for stmt in machine.invoked}
        args.append([None, *(by_position[k] for k in sorted(by_position))])
    work = interpret_machine(machine, args, rng)
    check_counts(machine, args, work)
    return tuple(outputs)


def _at(sizes: Mapping[str, int]) -> str:
    return f" at {dict(sizes)}" if sizes else ""


def _note_sizes(case: Case, sizes: Mapping[str, int], position: int) -> None:
    if sizes:
        case.counts["calls at given sizes"] += 1
        case.features |= {f"size {n} at the call" for n in (0, 1) if n in sizes.values()}
        case.features |= {"several sizes"} if position else set()


def _called(
    case: Case, nest: Nest, kernel: Any, given: list[Any], wanted: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, ...]:
    outputs = []
    # a kernel needs outputs to find sizes that no input determines
    if case.graph.sizes or case.graph.chance(0.2):
        outputs = [
            np.full_like(wanted[b.tensor.name], UNWRITTEN)
            for b in nest.outputs
            if b.tensor is not None
        ]
    results = kernel(*given, *outputs)
    return results if isinstance(results, tuple) else (results,)


def given_arrays(nest: Nest, values: dict[str, np.ndarray], sizes: Mapping[str, int]) -> list[Any]:
    given = []
    for arg in nest.args:
        if isinstance(arg, Buffer) and arg in nest.outputs:
            continue
        tensor = getattr(arg, "tensor", None)
        if tensor is not None and isinstance(tensor.op, PlaceholderOp):
            given.append(values[tensor.name])
        else:
            given.append(scalar(arg, sizes))
    return given


def iterations(nest: Nest, sizes: Mapping[str, int]) -> int:
    """Estimate how many statements a run of ``nest`` executes."""
    known = {v: sizes[v.name] for v in (*nest.sizes, *nest.args) if isinstance(v, Var) and v.weak}
    total = 0
    stack: list[tuple[Any, int]] = [(nest.body, 1)]
    while stack:
        stmt, times = stack.pop()
        if isinstance(stmt, Block):
            stack += [(x, times) for x in stmt.stmts]
        elif isinstance(stmt, If):
            stack.append((stmt.body, times))
        elif isinstance(stmt, For):
            extent = stmt.extent
            count = extent if isinstance(extent, int) else int(evaluate(extent, known))
            total += times * count
            stack.append((stmt.body, times * max(count, 0)))
        elif isinstance(stmt, Store):
            total += times * 3
    return total


__all__ = ["Case", "Mismatch", "given_arrays", "oracle", "run_case"]
