"""One random case: a computation, a schedule, every check."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.compute.graph import operations
from schedlang.compute.reference import reference
from schedlang.compute.tensor import ComputeOp, PlaceholderOp, Tensor
from schedlang.errors import BuildError, LoweringError, SchedlangError
from schedlang.expr.nodes import Var
from schedlang.expr.visit import postorder
from schedlang.ir.interpret import cooperative, interpret
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, For, If, Store
from schedlang.ir.verify import verify
from schedlang.lowering.lower import lower_state
from tests.fuzz.graphs import arrays, build, random_graph
from tests.fuzz.steps import Impossible, attempt, bound, weights
from tests.fuzz.values import Graph

STEPS = (5, 6, 6, 7, 8, 10)
MOST_ITERATIONS = 60_000
MOST = 0.05
EPS = {"float16": 2e-3, "float32": 3e-6, "float64": 1e-12}


class Mismatch(Exception):
    """A check that failed."""


@dataclass
class Case:
    """What a case did; ``failure`` says what went wrong."""

    key: str
    graph: Graph
    source: str = ""
    applied: list[str] = field(default_factory=list)
    refused: int = 0
    undone: int = 0
    built: list[str] = field(default_factory=list)
    outcome: str = "passed"
    failure: str = ""

    @property
    def snippet(self) -> str:
        return f"import numpy as np\nimport schedlang as sl\n{self.graph.source}{self.source}"


def run_case(seed: int | str, index: int, targets: Sequence[str] = (), texts: bool = True) -> Case:
    """Case ``index`` of the run ``seed``; whatever it raises becomes its ``failure``."""
    key = f"{seed}:{index}"
    rng = Random(key)
    case = Case(key, random_graph(rng))
    s = None
    try:
        space = build(case.graph)
        outputs = [space[n] for n in case.graph.outputs]
        s = schedule_randomly(rng, case, outputs, texts)
        try:
            case.source = s.as_python()
        except Exception:
            case.source = (
                f"s = sl.Schedule.from_json({s.to_json()!r}, [{', '.join(case.graph.outputs)}])\n"
            )
            raise
        check(rng, case, s, space, outputs, targets, texts)
        if len(case.applied) < min(STEPS):
            case.outcome = "too few steps"
    except LoweringError as error:
        case.outcome, case.failure = "not lowered", str(error)
    except BuildError as error:
        case.outcome, case.failure = "not built", str(error)
    except Exception as error:
        case.outcome = "failed"
        case.failure = "".join(traceback.format_exception(error)[-6:])
    return case


def schedule_randomly(rng: Random, case: Case, outputs: list[Any], prints: bool) -> Any:
    """At least five accepted steps, where that many can be found."""
    s = sl.schedule(outputs if len(outputs) > 1 else outputs[0])
    wanted, chosen = rng.choice(STEPS), weights(rng)
    texts = [str(s)] if prints else []
    for _ in range(wanted * 12):
        if len(s.steps) >= wanted:
            break
        primitive = rng.choices(list(chosen), list(chosen.values()))[0]
        before = s.copy()
        try:
            attempt(rng, s, primitive)
        except Impossible:
            continue
        except SchedlangError:
            case.refused += 1
            if len(s.steps) != len(before.steps) or (prints and str(s) != texts[-1]):
                raise Mismatch(f"a refused {primitive} changed the schedule") from None
            continue
        case.applied.append(primitive)
        case.source = s.to_json()
        if prints:
            texts.append(str(s))
        if rng.random() < 0.97:
            try:
                lower_state(s.state)
            except LoweringError:
                s = before
                case.undone += 1
                case.applied.pop()
                texts[-1:] = ()
    for count, text in enumerate(texts):
        if str(s.at(count)) != text:
            raise Mismatch(f"s.at({count}) prints another nest than it did")
    return s


def check(
    rng: Random,
    case: Case,
    s: Any,
    space: dict[str, Any],
    outputs: list[Any],
    targets: Sequence[str],
    texts: bool,
) -> None:
    """The nest of ``s`` against the reference, and its text and data forms against itself."""
    nest = lower_state(s.state)
    text = str(s)
    if texts:
        check_texts(s, text, space, outputs)
    verify(nest)
    values = arrays(case.graph, rng.randrange(2**31))
    expected = _expected(case, outputs, values)
    given = _given(case, nest, values)
    tally = iterations(nest, case.graph.sizes)
    if tally > MOST_ITERATIONS:
        case.outcome = "too large"
        return
    orders = ["forward"]
    if any(k in text for k in ("parallel ", "vectorize ", "vthread ", "Idx.")):
        orders.append(rng.choice(("reverse", "shuffle")))
    if cooperative(nest):
        case.outcome = "shared by threads"
        return
    for order in orders:
        run = interpret(nest, given, order, rng.randrange(1000))
        compare(case, nest, run.outputs, expected, f"interpreted {order}")
    if targets and not bound(s):
        for target in targets:
            compare(
                case,
                nest,
                _built(case, s, nest, target, given, expected),
                expected,
                f'target="{target}"',
            )


def check_texts(s: Any, text: str, space: dict[str, Any], outputs: list[Any]) -> None:
    """The schedule's two written forms give the nest that prints as ``text``."""
    again = sl.Schedule.from_json(s.to_json(), outputs if len(outputs) > 1 else outputs[0])
    if str(again) != text:
        raise Mismatch("from_json(to_json()) prints another nest")
    replayed = dict(space)
    for t in s.state.outputs:
        replayed.setdefault(t.name.replace(".", "_"), t)
    exec(s.as_python(), replayed)
    if str(replayed["s"]) != text:
        raise Mismatch(f"as_python() prints another nest:\n{replayed['s']}")


def _built(
    case: Case, s: Any, nest: Nest, target: str, given: list[Any], expected: dict[str, np.ndarray]
) -> tuple[np.ndarray, ...]:
    kernel = sl.build(s, target=target)
    case.built.append(target)
    outputs = []
    # sizes that no input determines are found from the outputs
    if case.graph.sizes or case.graph.chance(0.2):
        outputs = [
            np.zeros_like(expected[b.tensor.name]) for b in nest.outputs if b.tensor is not None
        ]
    results = kernel(*given, *outputs)
    return results if isinstance(results, tuple) else (results,)


def _expected(
    case: Case, outputs: list[Any], values: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    oracle = reference(outputs)
    named: dict[str, Any] = {t.name: values[t.name] for t in oracle.inputs}
    named |= {v.name: _scalar(case, v) for v in oracle.variables}
    found = oracle(**named)
    found = found if isinstance(found, tuple) else (found,)
    return {t.name: v for t, v in zip(outputs, found)}


def _scalar(case: Case, variable: Any) -> Any:
    return case.graph.sizes[variable.name] if variable.is_size else np.float32(0.5)


def _given(case: Case, nest: Nest, values: dict[str, np.ndarray]) -> list[Any]:
    given = []
    for arg in nest.args:
        if isinstance(arg, Buffer) and arg in nest.outputs:
            continue
        tensor = getattr(arg, "tensor", None)
        if tensor is not None and isinstance(tensor.op, PlaceholderOp):
            given.append(values[tensor.name])
        else:
            given.append(_scalar(case, arg))
    return given


def compare(
    case: Case, nest: Nest, found: tuple[np.ndarray, ...], expected: dict[str, np.ndarray], how: str
) -> None:
    for buffer, got in zip(nest.outputs, found):
        assert buffer.tensor is not None
        want = expected[buffer.tensor.name]
        if got.shape != want.shape or got.dtype != want.dtype:
            raise Mismatch(
                f"{how}: {buffer.name} is {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
            )
        if not np.issubdtype(want.dtype, np.floating):
            same = np.asarray(got == want)
        else:
            tolerance = min(MOST, coarsest(buffer.tensor) * max(4, case.graph.terms))
            finite = np.abs(want[np.isfinite(want)]).max(initial=1.0)
            with np.errstate(all="ignore"):
                same = np.isclose(
                    got, want, rtol=tolerance, atol=tolerance * float(finite), equal_nan=True
                )
        if not same.all():
            at = tuple(int(k) for k in np.argwhere(~same)[0])
            raise Mismatch(
                f"{how}: {buffer.name}{list(at)} is {got[at]}, the reference says {want[at]} "
                f"({int((~same).sum())} of {same.size} differ)"
            )


def coarsest(tensor: Tensor) -> float:
    """The rounding of the narrowest float dtype on the way to ``tensor``."""
    kinds = {tensor.dtype}
    for op in operations([tensor]):
        roots = op.roots if isinstance(op, ComputeOp) else ()
        kinds |= {node.dtype for node in postorder(roots)}
    return max(EPS[k] for k in kinds if k in EPS)


def iterations(nest: Nest, sizes: dict[str, int]) -> int:
    """About how many statements a run of ``nest`` executes."""
    from schedlang.expr.evaluate import evaluate

    bound_ = {v: sizes[v.name] for v in (*nest.sizes, *nest.args) if isinstance(v, Var) and v.weak}
    total = 0
    stack: list[tuple[Any, int]] = [(nest.body, 1)]
    while stack:
        stmt, times = stack.pop()
        if isinstance(stmt, Block):
            stack += [(x, times) for x in stmt.stmts]
        elif isinstance(stmt, If):
            stack.append((stmt.body, times))
        elif isinstance(stmt, For):
            extent = (
                stmt.extent if isinstance(stmt.extent, int) else int(evaluate(stmt.extent, bound_))
            )
            total += times * extent
            stack.append((stmt.body, times * max(extent, 0)))
        elif isinstance(stmt, Store):
            total += times * 3
    return total


__all__ = ["Case", "Mismatch", "run_case"]
