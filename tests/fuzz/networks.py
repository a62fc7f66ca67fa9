"""``python -m tests.fuzz.networks --cases N``: random networks beside the oracle.

Each has random layers, functions of users among them, options, and stages that are cut or fused, a
fixed or a symbolic batch. Its results must be those of ``sl.reference``, also after a pickle, from
the cache folder, or from a saved folder. Every tenth case is compiled.
"""

from __future__ import annotations

import pickle
import re
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import operations
from schedlang.errors import NetworkError
from tests.fuzz.network_graphs import RandomNetwork, random_network
from tests.fuzz.record import Mismatch
from tests.fuzz.tactics import command

# a database that does not exist: the model decides
NONE = "none.jsonl"
# names in a refusal, which differ from case to case
NAMES = r"'\w+'|\b\w+\d+\b"
# Winograd's filtering and other orders of sums round differently
TOLERANCE = 2e-3


def run_case(seed: str, index: int, counts: Counter[str]) -> str:
    """Run a case and return its failure, or an empty string."""
    rng = Random(f"networks:{seed}:{index}")
    case = random_network(rng)
    kind = rng.choice(("cpu", "c")) if index % 10 == 0 else "python"
    options: dict[str, Any] = {
        "fold": rng.random() < 0.8, "layouts": rng.random() < 0.8, "winograd": rng.random() < 0.8,
    }  # fmt: skip
    target = sl.Target(kind, vector_bytes=rng.choice((16, 32)))
    try:
        net, overrides = _network(rng, case, target, options, counts)
        _check(rng, case, net, {**options, **overrides}, counts)
    except Exception as error:
        trace = "".join(traceback.format_exception(error)[-6:])
        return f"--- {seed}:{index} {target} {options}\n{case.layers} {case.inputs}\n{trace}"
    counts.update(f"layer {name}" for name in set(case.layers))
    counts[f"right on {kind}"] += 1
    return ""


def _network(
    rng: Random, case: RandomNetwork, target: sl.Target, options: dict[str, Any],
    counts: Counter[str],
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """Return the network, and the stages that are cut or fused in it, where that is allowed."""
    net = _of(case, target, options)
    names = [name for part in net.partition for name in part.stages]
    overrides: dict[str, Any] = {}
    if rng.random() < 0.3:
        overrides["cut"] = [rng.choice(names)]
    if rng.random() < 0.3 and len(names) > 1:
        overrides["fuse"] = [rng.sample(names, 2)]
    if not overrides:
        return net, {}
    try:
        net = _of(case, target, {**options, **overrides})
    except NetworkError as refused:
        counts[f"refused: {re.sub(NAMES, '...', str(refused))[:60]}"] += 1
        return net, {}
    counts.update(f"with {name}" for name in overrides)
    return net, overrides


def _of(case: RandomNetwork, target: sl.Target, options: dict[str, Any]) -> Any:
    return sl.network(list(case.outputs), case.params, target=target, database=NONE, **options)


def _check(
    rng: Random, case: RandomNetwork, net: Any, options: dict[str, Any], counts: Counter[str]
) -> None:
    oracle = sl.reference(list(case.outputs))
    calls = []
    for batch in case.batches:
        values = np.random.default_rng(rng.randrange(2**31))
        shapes = [(batch, *t.shape[1:]) for t in case.inputs]
        given = [values.standard_normal(shape).astype("float32") for shape in shapes]
        named = {t.name: a for t, a in (*zip(case.inputs, given), *case.params.items())}
        used = {t.name: named[t.name] for t in oracle.inputs}
        expected = oracle(**used, **{v.name: batch for v in oracle.variables})
        calls.append((given, expected if isinstance(expected, tuple) else (expected,)))
    _compare(net, calls, "built")
    way = rng.choice(("", "", "pickled", "saved", "cached"))
    if way == "pickled":
        _compare(pickle.loads(pickle.dumps(net)), calls, way)
    elif way == "saved":
        # a network for target="python" is not saved, but what was saved runs there
        where = sl.Target("cpu", vector_bytes=net.target.vector_bytes)
        with tempfile.TemporaryDirectory() as folder:
            named = {op.function.name: op.outputs[0] for op in _calls(case)}
            try:
                saved = _of(case, where, options).save(Path(folder) / "net")
            except NetworkError as refused:
                assert "it is a function of Python" in str(refused) and named
                counts["refused: a function of Python"] += 1
                return
            _compare(sl.load(saved, target=net.target, functions=named), calls, way)
    elif way == "cached":
        _compare(_of(case, net.target, options), calls, way)
    if way:
        counts[way] += 1


def _calls(case: RandomNetwork) -> list[ExternOp]:
    return [op for op in operations(case.outputs) if isinstance(op, ExternOp)]


def _compare(net: Any, calls: Sequence[tuple[Any, Any]], how: str) -> None:
    for given, expected in calls:
        results = net(*given)
        results = results if isinstance(results, tuple) else (results,)
        for value, wanted in zip(results, expected):
            if value.shape != wanted.shape or value.dtype != wanted.dtype:
                raise Mismatch(f"{how}: {value.dtype}{value.shape}, not {wanted.shape}")
            scale = float(np.abs(wanted).max(initial=1.0))
            close = np.isclose(value, wanted, rtol=TOLERANCE, atol=TOLERANCE * scale)
            if not close.all():
                worst = float(np.abs(value - wanted).max())
                raise Mismatch(f"{how}: a result differs by {worst} of {scale}")


def main(argv: list[str] | None = None) -> int:
    return command("tests.fuzz.networks", __doc__, run_case, argv)


if __name__ == "__main__":
    sys.exit(main())
