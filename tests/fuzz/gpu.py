"""Random schedules for GPUs, run in lockstep with every access checked.

A share of them also runs by the emulator, a share as emitted source in the simulator, a share on
this machine's GPU, and a share on a device of OpenCL.

``python -m tests.fuzz.gpu --cases N --seed S``.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from random import Random
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.compute.tensor import ComputeOp, ScanOp
from schedlang.errors import BuildError, LoweringError, SchedlangError
from schedlang.expr.dtypes import storage_dtype
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.program import Program
from schedlang.gpu_lowering.simt import ORDERS, simulate
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Barrier, Buffer, Exchange, walk
from schedlang.lowering.lower import lower_state
from schedlang.machine.lower import machine_kernels
from schedlang.machine.select.gpu import kernel_names
from schedlang.runtime import nvidia
from schedlang.target import Target
from tests.fuzz.case import given_arrays, iterations
from tests.fuzz.compare import compare, expected
from tests.fuzz.graphs import build, random_graph
from tests.fuzz.inputs import arrays
from tests.fuzz.interpret_program import interpret_program
from tests.fuzz.record import Case

MOST_ITERATIONS = 40_000
TARGET = Target("cuda", arch="sm_90")


class Binder:
    """A random scheduler that binds stages at root and attaches the others to their loops."""

    def __init__(self, rng: Random, s: Any, outputs: list[Any]) -> None:
        self.rng = rng
        self.s = s
        self.outputs = outputs
        # a warp or more is rare, since all extents are small
        wide = rng.random() < 0.15
        self.threads = {
            "x": rng.choice([32, 48, 64, 96] if wide else [1, 2, 3, 4, 5, 8, 16]),
            "y": rng.choice([1, 2, 3]),
        }
        self.applied = 0
        self.serial = False
        self.loops: list[tuple[Any, Any]] = []

    def run(self) -> None:
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            self.attempt(self.cache)
        names = list(reversed(list(self.s.state.stages)))
        for name in names:
            view = self.s[name]
            if isinstance(view.op, ScanOp):
                continue
            is_output = self.s.state.is_output(self.s.state.stages[name])
            inside = self.loops and not is_output and self.rng.random() < 0.75
            if inside and self.attempt(lambda v=view: self.attach(v)):
                self.attempt(lambda v=view: self.inner(v))
            elif not is_output and self.rng.random() < 0.2 and self.attempt(view.compute_inline):
                continue
            else:
                self.bind(view)

    def attempt(self, step: Any) -> bool:
        before = len(self.s.steps)
        try:
            step()
        except (SchedlangError, IndexError):
            return len(self.s.steps) > before
        self.applied += len(self.s.steps) - before
        return True

    def cache(self) -> None:
        stages = [v for v in self.s.stages if isinstance(v.op, ComputeOp)]
        view = self.rng.choice(stages)
        scope = self.rng.choice(["shared", "local", "global"])
        kind = self.rng.random()
        if kind < 0.5:
            tensor = self.rng.choice(list(view.op.input_tensors))
            self.s.cache_read(tensor, scope, [t for t in view.op.outputs])
        elif kind < 0.75:
            outputs = view.op.outputs
            self.s.cache_write(outputs[0] if len(outputs) == 1 else list(outputs), scope)
        else:
            axis = self.rng.choice(list(view.op.reduce_axis))
            _, inner = view.split(axis, self.rng.choice([2, 3, 4]))
            outputs = view.op.outputs
            self.s.rfactor(outputs[0] if len(outputs) == 1 else list(outputs), inner)

    def bind(self, view: Any) -> None:
        """Bind the data axes of a stage at root, and sometimes a reduction axis, to threads."""
        rng = self.rng
        if view.op.destination is not None:
            self.attempt(lambda: self.bind_scatter(view))
            return
        data = [a for a in view.op.axis if self.free(view, a)]
        across = bool(view.op.reduce_axis) and rng.random() < 0.4
        letters = ["y"] if across else ["x", "y"]
        if not data:
            data = [view.fuse()]
        elif len(data) > 1 and rng.random() < 0.5:
            data = [view.fuse(*data)]
        elif len(data) > 2:
            data = [data[0], view.fuse(*data[1:])]
        order: list[Any] = []
        rest: list[Any] = []
        blocks: list[Any] = []
        for letter, axis in zip(letters, reversed(data)):
            if rng.random() < 0.3:
                axis, inner = view.split(axis, rng.choice([2, 3, 4]))
                if rng.random() < 0.3:
                    self.attempt(lambda i=inner: view.bind(i, "vthread"))
                rest.append(inner)
            outer, thread = view.split(axis, self.threads[letter])
            view.bind(thread, f"threadIdx.{letter}")
            order.append(thread)
            if rng.random() < 0.85:
                view.bind(outer, f"blockIdx.{letter}")
                blocks.append(outer)
            else:
                rest.append(outer)
        left = [a for a in view.leaf_axes if not a.is_reduce and self.free(view, a)]
        left = [a for a in left if all(a is not b for b in (*order, *rest, *blocks))]
        for axis, letter in zip(left, "zyx"):
            used = [v for v in view._stage.kinds.values()]
            if f"blockIdx.{letter}" not in used:
                view.bind(axis, f"blockIdx.{letter}")
                blocks.append(axis)
                break
        if rng.random() < 0.85:
            self.attempt(lambda: view.reorder(*blocks, *order, *rest))
        if across:
            self.attempt(lambda: self.bind_reduction(view))
        elif view.op.reduce_axis and rng.random() < 0.6:
            axis = rng.choice(list(view.op.reduce_axis))
            self.attempt(lambda: view.split(axis, rng.choice([2, 3, 4])))
        if rng.random() < 0.3 and rest:
            what = rng.choice([view.vectorize, view.unroll])
            self.attempt(lambda: what(rest[-1]))
        self.loops += [(view, axis) for axis in view.leaf_axes]

    def bind_scatter(self, view: Any) -> None:
        """Bind the loops that initialize a scatter and those that update it, to the same threads.
        """
        op, rng = view.op, self.rng
        blocks = rng.random() < 0.7
        if rng.random() < 0.2:
            view.bind(view.fuse(), "blockIdx.z")
            blocks = False
        for axes in (op.scattered, op.reduce_axis):
            if axes and rng.random() < 0.95:
                whole = axes[0] if len(axes) == 1 else view.fuse(*axes)
                outer, thread = view.split(whole, self.threads["x"])
                self.attempt(lambda t=thread: view.bind(t, "threadIdx.x"))
                if blocks:
                    self.attempt(lambda o=outer: view.bind(o, "blockIdx.x"))
        rows = [a for a in op.axis if not any(a is b for b in op.scattered)]
        if rows and rng.random() < 0.5:
            outer, thread = view.split(rows[-1], self.threads["y"])
            self.attempt(lambda: view.bind(thread, "threadIdx.y"))
            if rng.random() < 0.5:
                self.attempt(lambda: view.bind(outer, "blockIdx.y"))
        if rng.random() < 0.3:
            self.attempt(lambda: view.reorder(*rng.sample(view.leaf_axes, 2)))
        self.loops += [(view, axis) for axis in view.leaf_axes]

    def free(self, view: Any, axis: Any) -> bool:
        """Return whether an axis can be split; the time axis of a scan cannot."""
        try:
            self.s.copy()[view._stage.name].split(axis, 2)
        except SchedlangError:
            return False
        return True

    def bind_reduction(self, view: Any) -> None:
        axis = self.rng.choice(list(view.op.reduce_axis))
        _, inner = view.split(axis, self.threads["x"])
        view.bind(inner, "threadIdx.x")

    def attach(self, view: Any) -> None:
        readers = [
            (owner, axis) for owner, axis in self.loops
            if self.s.state.dependences.depends(owner._stage.name, view._stage.name)
        ]  # fmt: skip
        owner, axis = self.rng.choice(readers)
        view.compute_at(owner, axis)
        self.serial = axis not in owner._stage.kinds
        if self.rng.random() < 0.7:
            view.set_scope(self.rng.choice(["shared", "shared", "shared", "local"]))

    def inner(self, view: Any) -> None:
        """Spread the loops of an attached stage over the threads of its block."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.65 and view.op.axis and view._stage.scope != "local":
            free = [a for a in view.op.axis if self.free(view, a)]
            axis = view.fuse(*free) if rng.random() < 0.6 else free[-1]
            if rng.random() < 0.3:
                axis, lanes = view.split(axis, rng.choice([2, 4]))
                self.attempt(lambda: view.vectorize(lanes))
            for letter in "xy" if rng.random() < 0.6 else "x":
                if self.threads[letter] == 1:
                    continue
                if rng.random() < 0.5:
                    axis, thread = view.split(axis, self.threads[letter])
                else:
                    thread, axis = view.split(axis, nparts=self.threads[letter])
                self.attempt(lambda t=thread, k=letter: view.bind(t, f"threadIdx.{k}"))
        elif kind < 0.8 and view.op.reduce_axis:
            self.attempt(lambda: self.bind_reduction(view))
        if self.serial and rng.random() < 0.4:
            stages = rng.randint(2, 5)
            self.attempt(rng.choice((view.double_buffer, lambda: view.pipeline(stages))))
        if rng.random() < 0.2 and view.op.axis:
            self.attempt(lambda: view.storage_align(rng.choice(list(view.op.axis)), 8, 1))
        if rng.random() < 0.2:
            self.attempt(lambda: view.unroll(view.leaf_axes[-1]))
        self.loops += [(view, axis) for axis in view.leaf_axes]


def run_gpu_case(
    seed: str, index: int, compiled: bool = False, simulated: bool = False, features: Any = None,
    on_gpu: bool = False, by_opencl: bool = False,
) -> Case:  # fmt: skip
    """Run case ``index`` of the run ``seed``; an exception becomes its ``failure``.

    ``compiled`` also runs it by the emulator, ``simulated`` its emitted source in the simulator,
    ``on_gpu`` its machine code on this machine's GPU, and ``by_opencl`` it on a device of OpenCL.
    """
    rng = Random(f"gpu:{seed}:{index}")
    graph = random_graph(rng, symbolic=0.4)
    while "ties" in graph.kinds:
        # a reduction across threads picks any of several equal values
        graph = random_graph(rng, symbolic=0.4)
    case = Case(f"{seed}:{index}", graph)
    try:
        counted = Counter() if features is None else features
        _run(rng, case, compiled, simulated, on_gpu, by_opencl, counted)
    except Exception as error:
        case.outcome = "failed"
        case.failure = "".join(traceback.format_exception(error)[-8:])
    return case


def _run(
    rng: Random, case: Case, compiled: bool, simulated: bool, on_gpu: bool, by_opencl: bool,
    features: Counter[str],
) -> None:  # fmt: skip
    space = build(case.graph)
    outputs = [space[n] for n in case.graph.outputs]
    s = sl.schedule(outputs if len(outputs) > 1 else outputs[0])
    binder = Binder(rng, s, outputs)
    binder.run()
    case.source = s.as_python()
    try:
        nest = lower_state(s.state)
        program = device_program(nest, TARGET)
    except (BuildError, LoweringError) as error:
        case.outcome, case.failure = "not built", str(error)
        return
    sizes = case.graph.sizes
    if iterations(nest, sizes) > MOST_ITERATIONS:
        case.outcome = "too large"
        return
    note(features, program)
    values = arrays(case.graph, rng.randrange(2**31), sizes)
    wanted = expected(outputs, values, sizes)
    given = given_arrays(nest, values, sizes)
    known = {v: sizes[v.name] for v in nest.sizes}
    for order in ("forward", rng.choice(ORDERS[1:])):
        found = simulate(program, given, known, order, rng.randrange(1000))
        compare(nest, found.outputs, wanted, case.graph.terms, f"in lockstep, {order}")
    compare(nest, _in_machine_nests(s, nest, given, known, wanted), wanted, case.graph.terms,
            "machine nests")  # fmt: skip
    if compiled:
        results = _called(s, nest, given, wanted, "cuda-emulator")
        compare(nest, results, wanted, case.graph.terms, "emulated")
        features["by the emulator"] += 1
    if simulated:
        results = sl.build(s, target=TARGET).simulate(*given)
        results = results if isinstance(results, tuple) else (results,)
        compare(nest, results, wanted, case.graph.terms, "simulated")
        features["in the simulator"] += 1
    if on_gpu:
        results = _called(s, nest, given, wanted, this_gpu())
        compare(nest, results, wanted, case.graph.terms, "on the GPU")
        features["on the GPU"] += 1
    if by_opencl:
        compare(nest, _called(s, nest, given, wanted, "opencl"), wanted, case.graph.terms, "OpenCL")
        features["by OpenCL"] += 1
    case.outcome = "passed"


def _in_machine_nests(
    s: Any, nest: Nest, given: list[Any], known: Any, wanted: Any
) -> tuple[Any, ...]:
    """Return the outputs of the kernels' machine nests, in the interpreter."""
    program = device_program(nest, TARGET)
    names = kernel_names(program, [])
    inputs, values, outputs = iter(given), dict(known), []
    for arg in nest.args:
        if isinstance(arg, Buffer) and arg in nest.outputs and arg.tensor is not None:
            outputs.append(np.zeros_like(wanted[arg.tensor.name]))
            value = outputs[-1]
        else:
            value = next(inputs)
        if isinstance(arg, Buffer):
            flat = np.ascontiguousarray(value).reshape(-1)
            values[arg] = flat.view(storage_dtype(arg.dtype))
        else:
            values[arg] = np.dtype(arg.dtype).type(value)
    kernels = machine_kernels(program, TARGET, nest.name, names)
    interpret_program(program, kernels, values)
    return tuple(outputs)


def _called(
    s: Any, nest: Nest, given: list[Any], wanted: Any, target: Target | str
) -> tuple[Any, ...]:
    """Return the outputs of a call of the kernel that is built for ``target``."""
    outputs = [np.zeros_like(wanted[b.tensor.name]) for b in nest.outputs if b.tensor is not None]
    results = sl.build(s, target=target)(*given, *outputs)
    return results if isinstance(results, tuple) else (results,)


def this_gpu() -> Target:
    """Return the target for the current GPU."""
    capability = nvidia.driver().get_current_device().compute_capability
    return Target("cuda", arch="sm_{}{}".format(*capability))


def note(features: Counter[str], program: Program) -> None:
    """Count the features of the program."""
    inside = [s for launch in program.launches for s, _ in walk(launch.body)]
    features["several kernels"] += len(program.launches) > 1
    features["barriers"] += any(isinstance(s, Barrier) for s in inside)
    features["exchanges"] += any(isinstance(s, Exchange) for s in inside)
    features["shared storage"] += any(launch.shared for launch in program.launches)
    text = program.nest.buffers
    features["double buffers"] += any(b.copies > 1 and not b.asynchronous for b in text)
    features["pipelines"] += any(b.asynchronous for b in text)
    features["virtual threads"] += any(x.kind == "vthread" for x in program.nest.loops)
    features["reductions across threads"] += any(
        x.kind == "thread" and x.axis.is_reduce for x in program.nest.loops
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.gpu", description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--failures", type=int, default=1)
    parser.add_argument("--compiled-share", type=float, default=0.02)
    parser.add_argument("--simulated-share", type=float, default=0.25)
    parser.add_argument("--gpu-share", type=float, default=0.0, help="needs an NVIDIA GPU")
    parser.add_argument("--opencl-share", type=float, default=0.0, help="needs pyopencl")
    options = parser.parse_args(argv)
    started, outcomes, features = time.monotonic(), Counter(), Counter()
    unbuilt: Counter[str] = Counter()
    for index in range(options.start, options.start + options.cases):
        if time.monotonic() - started > options.minutes * 60:
            break
        shares = (options.compiled_share, options.simulated_share, options.gpu_share,
                  options.opencl_share)  # fmt: skip
        compiled, simulated, on_gpu, by_opencl = (index % 1000 < 1000 * share for share in shares)
        case = run_gpu_case(options.seed, index, compiled, simulated, features, on_gpu, by_opencl)
        outcomes[case.outcome] += 1
        if case.outcome == "not built":
            unbuilt[case.failure.partition("\n")[0].partition(": ")[2][:70]] += 1
        if case.outcome == "failed":
            print(f"--- case {case.key}\n{case.snippet}\n{case.failure}", flush=True)
            if outcomes["failed"] >= options.failures:
                break
    took = time.monotonic() - started
    said = ", ".join(f"{n} {k}" for k, n in outcomes.most_common())
    print(f"{sum(outcomes.values())} cases in {took:.0f} s: {said}")
    print(", ".join(f"{n} {k}" for k, n in features.most_common()))
    for reason, count in unbuilt.most_common(12):
        print(f"  {count} not built: {reason}")
    return int(bool(outcomes["failed"]))


if __name__ == "__main__":
    sys.exit(main())
