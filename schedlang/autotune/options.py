"""Checks of the arguments of ``autotune``, made before the search starts.

``call`` is the name of the function that was called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from inspect import signature
from numbers import Real
from typing import Any

import numpy as np

from schedlang.autotune.runner.task import Limits
from schedlang.autotune.text import whole
from schedlang.compute.extern_op import HOW_TO_SHARE, ExternOp
from schedlang.compute.facts import Facts, check_facts, facts_of
from schedlang.compute.graph import operations, placeholders, variables
from schedlang.compute.precision import warn_of_float64
from schedlang.compute.tensor import Tensor
from schedlang.compute.whole import refuse_functions, refuse_traced
from schedlang.errors import CallError, ComputeTypeError, TuningError, explain, first_line, text_of
from schedlang.expr.dtypes import array_dtype
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Expr, Var
from schedlang.schedule.schedule import Schedule, empty_schedule
from schedlang.target import Target

# bounds on the seconds of Limits.build and Limits.run
SHORTEST, LONGEST = 0.01, 86400


def checked_outputs(outputs: Any) -> tuple[Tensor, ...]:
    """Return the tensors to compute."""
    wanted = (outputs,) if isinstance(outputs, Tensor) else outputs
    listed = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    refuse_traced("sl.autotune", *listed)
    refuse_functions("sl.autotune", *listed)
    if isinstance(wanted, Schedule):
        raise TuningError(
            "autotune(schedule): give the tensor instead; the search makes its own schedules"
        )
    tensors = isinstance(wanted, (list, tuple)) and all(isinstance(t, Tensor) for t in wanted)
    if not tensors or not wanted:
        raise TuningError(
            f"autotune({text_of(outputs)}): give one or more tensors made by sl.compute or sl.scan"
        )
    _check_functions(wanted)
    warn_of_float64(empty_schedule(list(wanted), "autotune").outputs)
    return tuple(wanted)


def _check_functions(outputs: Sequence[Tensor]) -> None:
    """Raise for a function of the user's that the processes of candidates cannot have."""
    for op in operations(list(outputs)):
        if isinstance(op, ExternOp) and not op.function.is_shared:
            name = op.function.name
            raise ComputeTypeError(
                explain(
                    "sl.autotune",
                    f"{op.name} is computed by {name}, and candidates run in processes of their "
                    f"own, which do not know {name}: {op.function.why}",
                    HOW_TO_SHARE,
                )
            )


def checked_count(name: str, value: Any, least: int, call: str = "autotune") -> int:
    """Return an option that is a whole number."""
    number = whole(value)
    if number is None or number < least:
        raise TuningError(f"{call}({name}={value!r}): give an integer of {least} or more")
    return number


def checked_number(name: str, value: Any) -> float | None:
    """Return an option that is a number, or left out."""
    return _number(f"autotune({name}={value!r}): give a number, 0 or more", value)


def checked_seconds(name: str, value: Any, call: str = "autotune") -> float | None:
    """Return an option that is a number of seconds, or left out."""
    return _number(f"{call}({name}={value!r}): give a number of seconds, 0 or more", value)


def _number(message: str, value: Any) -> float | None:
    """Return ``value``.

    Raise :class:`~schedlang.errors.TuningError` unless it is a number, 0 or more.
    """
    if value is None:
        return None
    if not _is_number(value) or not 0 <= value < np.inf:
        raise TuningError(message)
    return float(value)


def check_objects(
    executor: Any, template: Any, workers: int | None, call: str = "autotune"
) -> None:
    """Raise :class:`~schedlang.errors.TuningError` for an unusable executor or template."""
    if executor is not None and not isinstance(executor, Executor):
        raise TuningError(
            f"{call}(executor={executor!r}): give a concurrent.futures.Executor, such as "
            "ProcessPoolExecutor(), or a dask Client's get_executor()"
        )
    if executor is not None and workers is not None:
        raise TuningError(
            f"autotune(executor=..., workers={workers}): the executor has its own workers; leave "
            "out workers="
        )
    if template is not None and not callable(template):
        raise TuningError(f"autotune(template={template!r}): give a function template(s, knobs)")
    if template is not None and not _takes_two(template):
        raise TuningError(
            f"autotune(template={template!r}): a template takes two parameters; give a function "
            "template(s, knobs)"
        )


def check_start(outputs: Sequence[Tensor], start: Any) -> None:
    """Raise :class:`~schedlang.errors.TuningError` unless ``start`` is a schedule of them."""
    if start is None:
        return
    if not isinstance(start, Schedule):
        raise TuningError(
            f"autotune(start={text_of(start)}): give a schedule of these outputs, such as "
            "sl.schedule(C) with some steps"
        )
    if list(start.outputs) != list(outputs):
        given, names = (", ".join(t.name for t in tensors) for tensors in (start.outputs, outputs))
        raise TuningError(
            f"autotune({names}, start=...): it is a schedule of {given}, another computation; "
            f"give one of {names}"
        )
    if start.state.arrays:
        raise TuningError(f"autotune(start=...): {changed_arguments(start)}")


def changed_arguments(s: Schedule) -> str:
    """Return why a search cannot run a schedule that has arguments in other layouts."""
    names = ", ".join(tensor.name for tensor in s.state.arrays)
    return (
        f"transform_argument gives {names} another layout, and a search has arrays of the tensor's "
        "shape; take this step on the schedule that the search returns"
    )


def checked_limits(limits: Any, call: str = "autotune") -> Limits:
    """Return the limits of a candidate: ``limits``, or the defaults of :class:`Limits`."""
    if limits is None:
        return Limits()
    argument = f"{call}(limits={limits!r})"
    if not isinstance(limits, Limits):
        raise TuningError(f"{argument}: give Limits(build=..., run=..., memory=...)")
    for name in ("build", "run"):
        value = getattr(limits, name)
        if not _is_number(value) or not SHORTEST <= value <= LONGEST:
            raise TuningError(f"{argument}: give seconds from {SHORTEST} to {LONGEST} for {name}")
    memory = None if limits.memory is None else whole(limits.memory)
    if limits.memory is not None and (memory is None or not 0 <= memory < 1 << 60):
        raise TuningError(f"{argument}: memory must be an integer of bytes, or 0 for no limit")
    return Limits(float(limits.build), float(limits.run), memory)


def checked_inputs(
    outputs: Sequence[Tensor], inputs: Any, sizes: Mapping[str, int]
) -> tuple[np.ndarray[Any, Any], ...] | None:
    """Return the arrays to run on, in the order of the placeholders; ``None`` if none are given."""
    if inputs is None:
        return None
    needed = placeholders(outputs)
    names = [t.name for t in needed]
    wrong = ""
    if isinstance(inputs, Mapping):
        fits = set(inputs) == set(names) and len(inputs) == len(names)
        items = [inputs[n] for n in names] if fits else []
        wrong = _misnamed_text(inputs, names)
    else:
        fits = isinstance(inputs, (list, tuple)) and len(inputs) == len(names)
        items = list(inputs) if fits else []
    if not fits:
        raise TuningError(
            f"autotune(inputs=...): {wrong}give one array for each of {', '.join(names)}, by name "
            "or in this order"
        )
    known = {v: sizes[v.name] for v in variables(outputs) if v.name in sizes}
    given = tuple(_array(tensor.name, item) for tensor, item in zip(needed, items))
    for tensor, array in zip(needed, given):
        shape = tuple(int(evaluate(e, known)) if isinstance(e, Expr) else e for e in tensor.shape)
        if array.dtype != array_dtype(tensor.dtype) or array.shape != shape:
            raise TuningError(
                f"autotune(inputs=...): {tensor.name} must be {tensor.dtype} of shape {shape}, "
                f"not {array.dtype} of shape {array.shape}"
            )
        facts = facts_of(tensor)
        if facts is not None:
            _check_facts(tensor, facts, array, known)
    return given


def checked_cold(outputs: Sequence[Tensor], cold: Any, target: Target) -> tuple[str, ...]:
    """Return the names of inputs that come from memory in each call."""
    given = () if isinstance(cold, str) else tuple(cold)
    names = [t.name for t in placeholders(outputs)]
    wrong = [name for name in given if name not in names]
    if isinstance(cold, str) or wrong:
        raise TuningError(
            f"autotune(cold={cold!r}): give a list of names of inputs, which are {', '.join(names)}"
        )
    if given and not target.facts.host_arrays:
        raise TuningError(
            f"autotune(cold={cold!r}): a search for {target.kind} times kernels whose data are in "
            "the GPU's memory; leave out cold="
        )
    return given


def _check_facts(
    tensor: Tensor, facts: Facts, array: np.ndarray[Any, Any], known: Mapping[Var, int]
) -> None:
    def value_of(end: Any) -> int:
        return int(evaluate(end, known)) if isinstance(end, Expr) else end

    try:
        check_facts(tensor.name, facts, array, value_of)
    except CallError as error:
        raise TuningError(f"autotune(inputs=...): {error}") from None


def _array(name: str, item: Any) -> np.ndarray[Any, Any]:
    """Return an input as a NumPy array."""
    try:
        return np.asarray(item)
    except Exception as error:
        # any type: libraries differ in how they refuse an array on a GPU, or one with a gradient
        raise TuningError(
            f"autotune(inputs=...): NumPy cannot read {name} as an array: {first_line(error)}"
        ) from None


def _misnamed_text(inputs: Mapping[Any, Any], names: Sequence[str]) -> str:
    """Return a message about unknown and missing names, empty if the names of ``inputs`` fit."""
    unknown = [str(name) for name in inputs if name not in names]
    missing = [name for name in names if name not in inputs]
    listed = (("not an input", unknown), ("missing", missing))
    return "".join(f"{what}: {', '.join(wrong)}; " for what, wrong in listed if wrong)


def _takes_two(function: Any) -> bool:
    """Return whether a function can be called with two arguments, as far as ``inspect`` knows."""
    try:
        signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        # some builtins have no signature
        return True
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
