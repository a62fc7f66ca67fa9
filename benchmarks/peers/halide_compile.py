"""Schedule a Halide pipeline and compile it, to an object file or in this process.

    python -m benchmarks.peers.halide_compile JSON

compiles to a file. The process has a limit on processor time, since Adams2019's search does not end
within reasonable time on some convolutions (halide/Halide #8577).
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import halide as hl

from benchmarks.peers import halide_algorithms, halide_families
from benchmarks.peers.halide_algorithms import F32
from benchmarks.peers.halide_host import host_target
from benchmarks.works import Work

ENTRY, THREADS = "peer", "2"
ALGORITHMS = {**halide_algorithms.ALGORITHMS, **halide_families.ALGORITHMS}
Shapes = dict[str, tuple[int, ...]]


def compile_object(
    algorithm: str, sizes: dict[str, int], inputs: Shapes, outputs: Shapes, file: str,
    scheduler: str, options: dict[str, str], seconds: int,
) -> None:  # fmt: skip
    """Compile an algorithm to ``file``. ``scheduler`` is empty if the algorithm has a schedule."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    parameters, pipeline = _pipeline(ALGORITHMS[algorithm], sizes, inputs, outputs)
    _schedule(pipeline, scheduler, options)
    pipeline.compile_to_object(file, parameters, ENTRY, _target())


def just_in_time(work: Work) -> Callable[[], object]:
    """Return the compilation, in this process, of a pipeline with its schedule.

    That one is by hand where we have one, and of Mullapudi2016 elsewhere.
    """
    by_hand = ALGORITHMS.get(f"{work.kind}_by_hand")
    make = by_hand or ALGORITHMS[work.kind]
    shapes = squeezed(work.inputs), squeezed(work.outputs)
    _, pipeline = _pipeline(make, dict(work.sizes), *shapes)
    _schedule(pipeline, "" if by_hand else "Mullapudi2016", {"parallelism": THREADS})
    return lambda: pipeline.compile_jit(_target())


def squeezed(shapes: Mapping[str, tuple[int, ...]]) -> Shapes:
    """Return the shapes without their dimensions of extent 1, which the algorithms leave out."""
    return {name: tuple(n for n in shape if n != 1) for name, shape in shapes.items()}


def _target() -> hl.Target:
    return host_target().with_feature(hl.TargetFeature.NoAsserts)


def _schedule(pipeline: Any, scheduler: str, options: dict[str, str]) -> None:
    if scheduler:
        root = Path(hl.__file__).parent
        (plugin,) = root.glob(f"lib*/*autoschedule_{scheduler.lower()}.*")
        hl.load_plugin(str(plugin))
        pipeline.apply_autoscheduler(_target(), hl.AutoschedulerParams(scheduler, options))


def _pipeline(make: Any, sizes: Any, inputs: Shapes, outputs: Shapes) -> tuple[list[Any], Any]:
    """Return the parameters and the pipeline for these shapes, with estimates for schedulers."""
    parameters = [hl.ImageParam(F32, len(shape), name) for name, shape in inputs.items()]
    for parameter, shape in zip(parameters, inputs.values()):
        _fix(parameter, shape)
        parameter.set_estimates([(0, n) for n in reversed(shape)])
    made = make(sizes, *parameters)
    results = made if isinstance(made, list) else [made]
    for result, shape in zip(results, outputs.values()):
        _fix(result.output_buffer(), shape)
        result.set_estimates([(0, n) for n in reversed(shape)])
    return parameters, hl.Pipeline(results)


def _fix(parameter: Any, shape: tuple[int, ...]) -> None:
    stride = 1
    parameter.set_host_alignment(64)
    for at, extent in enumerate(reversed(shape)):
        parameter.dim(at).set_bounds(0, extent).set_stride(stride)
        stride *= extent


if __name__ == "__main__":
    compile_object(**json.loads(sys.argv[1]))
