"""Tuned schedules, from files of steps in the worker's cache folder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import schedlang as sl
from benchmarks import schedules
from benchmarks.computations import KINDS, computation
from benchmarks.peers import Call
from benchmarks.works import Arrays, Work


def prepare(label: str, work: Work, arrays: Arrays, outs: Arrays) -> tuple[Call, dict[str, Any]]:
    tensors = tensors_of(work)
    path = steps_file(Path(os.environ["SCHEDLANG_CACHE"]), work, label)
    s = sl.Schedule.from_json(
        path.read_text(encoding="utf-8"), list(tensors[len(work.inputs) :])
    )
    kernel = sl.build(s, tensors, target=sl.Target("cpu")).compile()
    given = (*arrays.values(), *outs.values())

    def call() -> None:
        kernel(*given)

    return call, {}


def tensors_of(work: Work) -> Sequence[sl.Tensor]:
    """Return the tensors of a work: its inputs, then its outputs.

    If no computation is written without a schedule, they are those of the schedule by hand.
    """
    if work.kind in KINDS:
        return computation(work)
    return schedules.of(work)[schedules.MAIN].make(work, sl.Target("cpu"))[1]


def steps_file(folder: Path, work: Work, label: str) -> Path:
    """Return the file of the steps that were found under ``label``."""
    return folder / (re.sub(r"[^A-Za-z0-9]+", "-", f"{work.name} {label}") + ".json")
