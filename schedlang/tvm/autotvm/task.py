"""Templates and tasks: a registered function, its arguments, and the knobs that it defines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from random import Random
from typing import Any

from schedlang.autotune.knobs import Knobs, Rejected
from schedlang.autotune.space import Template
from schedlang.compute.data import structure
from schedlang.compute.tensor import Tensor
from schedlang.compute.work import needed_flops
from schedlang.errors import SchedlangError, TuningError, explain, nearest, warn_user
from schedlang.expr.nodes import Const
from schedlang.schedule.rename import take_steps
from schedlang.schedule.schedule import Schedule
from schedlang.signatures import public
from schedlang.target import Target, TargetLike
from schedlang.tvm.autotvm.config import ConfigEntity, ConfigSpace

# what a template returns: its schedule and the arguments of the kernel
Made = tuple[Schedule, Sequence[Tensor]]
# configurations that are tried for the space of a template whose first one is illegal
MOST_FIRST = 100
# templates by name; one belongs to the process, as in TVM
_TEMPLATES: dict[str, Callable[..., Made]] = {}
_CONFIG: ContextVar[ConfigSpace | None] = ContextVar("config", default=None)
# what decides the configuration of a template that is called outside of a search
Query = Callable[[Any, Any], "ConfigEntity | None"]
DISPATCH: ContextVar[Query | None] = ContextVar("dispatch", default=None)


@public
def template(task_name: Any, func: Callable[..., Made] | None = None) -> Any:
    """Register a template, a function that returns a schedule and the arguments of its kernel.

    Use it as a decorator with a name, ``@autotvm.template("matmul")``, or without one, which takes
    the name of the function. A call of the result takes its configuration from the enclosing
    ``autotvm.apply_history_best``; without one, every knob has its first value, and a
    ``UserWarning`` says so. A name that is registered again means the later function. Raise
    :class:`~schedlang.errors.TuningError` for what is neither a name nor a function.

    >>> import schedlang as sl
    >>> @template("doc/double")
    ... def double(n):
    ...     A = sl.placeholder((n,), name="A")
    ...     B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    ...     s, cfg = sl.schedule(B), get_config()
    ...     cfg.define_split("tile", B.op.axis[0], num_outputs=2)
    ...     _ = cfg["tile"].apply(s, B, B.op.axis[0])
    ...     return s, [A, B]
    >>> task = create("doc/double", args=(64,), target="llvm")
    >>> len(task.config_space)
    7
    >>> s, args = task.instantiate(task.config_space.get(3))
    >>> [axis.extent for axis in s[args[1]].leaf_axes]
    [8, 8]
    """
    if callable(task_name):
        return template(task_name.__name__, task_name)
    if not isinstance(task_name, str) or not task_name:
        raise TuningError(
            f'autotvm.template({task_name!r}): give a name, as in @autotvm.template("matmul")'
        )

    def register(function: Callable[..., Made]) -> Callable[..., Made]:
        if not callable(function):
            raise TuningError(
                f"autotvm.template({task_name!r}): decorate a function that returns a schedule and "
                "the arguments of its kernel"
            )

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Made:
            return _call(task_name, function, args, kwargs)

        call.task_name = task_name  # type: ignore[attr-defined]
        _TEMPLATES[task_name] = function
        return call

    return register if func is None else register(func)


def _call(name: str, function: Callable[..., Made], args: Any, kwargs: Any) -> Made:
    """Call a template outside of a search; inside of another one, it shares its configuration."""
    if _CONFIG.get() is not None:
        return function(*args, **kwargs)
    workload, query = workload_of(name, args), DISPATCH.get()
    config: ConfigSpace | None = None
    if query is not None and not kwargs:
        config = query(Target.current(), workload)
    if config is None:
        config = ConfigSpace()
        config.is_fallback = True
        warn_user(
            f"the template {workload_text(workload)} has no configuration: every knob has its "
            "first value; tune it, and call it in `with autotvm.apply_history_best(log):`",
            UserWarning,
        )
    with _configured(config):
        return function(*args, **kwargs)


@contextmanager
def _configured(config: ConfigSpace) -> Iterator[None]:
    token = _CONFIG.set(config)
    try:
        yield
    finally:
        _CONFIG.reset(token)


@public
def get_config() -> ConfigSpace:
    """Return the configuration of the template that runs now.

    Raise :class:`~schedlang.errors.TuningError` outside of a template.
    """
    config = _CONFIG.get()
    if config is None:
        raise TuningError(
            explain(
                "autotvm.get_config()",
                "no template runs now",
                'Call it in a function under @autotvm.template("name").',
            )
        )
    return config


def workload_of(name: str, args: Sequence[Any]) -> tuple[Any, ...]:
    """Return a template's name and its arguments as plain values.

    >>> workload_of("matmul", [64, (1, 1), "float32"])
    ('matmul', 64, (1, 1), 'float32')
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            return ("TENSOR", tuple(value.shape), value.dtype)
        if isinstance(value, (list, tuple)):
            return tuple(plain(item) for item in value)
        if isinstance(value, Const):
            return value.value
        if value is None or isinstance(value, (str, int, float)):
            return value
        raise TuningError(
            f"the template {name!r} is called with {value!r}: its arguments must be numbers, "
            "strings, None, tensors, and tuples of these, so that a log can name them"
        )

    return (name, *(plain(value) for value in args))


def workload_text(workload: Sequence[Any]) -> str:
    """Return the text of a workload in a log.

    >>> workload_text(("matmul", 64, "float32"))
    "matmul(64, 'float32')"
    """
    return f"{workload[0]}({', '.join(map(repr, workload[1:]))})"


def recorded_name(workload: Sequence[Any]) -> str:
    """Return the name of a workload's template in a tuning database."""
    return f"autotvm.{workload_text(workload)}"


@dataclass
class Task:
    """A template with its arguments and a target, and the space of its knobs.

    ``outputs`` are the tensors that it computes, ``flop`` counts its operations.
    """

    name: str
    args: tuple[Any, ...]
    target: Target
    func: Callable[..., Made] = field(repr=False)
    config_space: ConfigSpace = field(repr=False)
    outputs: tuple[Tensor, ...] = field(repr=False)

    @property
    def workload(self) -> tuple[Any, ...]:
        return workload_of(self.name, self.args)

    @property
    def flop(self) -> float:
        return self.config_space.flop or float(needed_flops(self.outputs) or 0)

    def instantiate(self, config: ConfigSpace) -> Made:
        """Return the schedule of a configuration, and the arguments of its kernel.

        Raise :class:`~schedlang.errors.ScheduleError` for an illegal step.
        """
        config.errors.clear()
        return run_template(self.func, self.args, self.target, config)

    def template(self) -> Template:
        """Return this task as a template of :func:`schedlang.autotune`."""
        expected = structure(self.outputs)

        def candidate(s: Schedule, knobs: Knobs) -> None:
            config = ConfigSpace(knobs.choice)
            schedule, _ = run_template(self.func, self.args, self.target, config)
            if config.errors:
                raise Rejected(config.errors[0])
            if structure(schedule.outputs) != expected:
                raise TuningError(
                    f"the template {workload_text(self.workload)} computes something else with "
                    f"{dict(knobs.decisions)}: a knob may change the schedule, and not what it "
                    "computes; make it an argument of the template, and a task of each value"
                )
            take_steps(schedule, s)

        # the name of its trials
        candidate.__module__, _, candidate.__qualname__ = recorded_name(self.workload).partition(
            "."
        )
        return candidate


def run_template(
    function: Callable[..., Made], args: Sequence[Any], target: Target, config: ConfigSpace
) -> Made:
    """Return what a template makes of a configuration, for its target."""
    with target, _configured(config):
        result = function(*args)
    if isinstance(result, (list, tuple)) and len(result) == 2 and isinstance(result[0], Schedule):
        schedule, arguments = result
        return schedule, list(arguments)
    raise TuningError(
        f"the template {getattr(function, '__name__', function)} returns {result!r}: return its "
        "schedule and the list of the kernel's arguments, as in `return s, [A, B, C]`"
    )


@public
def create(
    task_name: Any, args: Sequence[Any], target: TargetLike | None = None,
    target_host: TargetLike | None = None,
) -> Task:  # fmt: skip
    """Return the task of a template, by its name or itself, for some arguments and a target.

    The template is called once, to learn its knobs. Raise
    :class:`~schedlang.errors.TuningError` for an unknown template, and the error of the template if
    the configurations that were tried are all illegal.
    """
    name = getattr(task_name, "task_name", task_name)
    function = _TEMPLATES.get(name) if isinstance(name, str) else None
    if function is None:
        raise TuningError(
            explain(
                f"autotvm.task.create({name!r}, ...)",
                f"no template has this name{nearest(str(name), _TEMPLATES)}",
                f'Register it first: @autotvm.template("{name}").',
            )
        )
    where, arguments = Target.of(target), _given(args)
    refused: SchedlangError | None = None
    for attempt in range(MOST_FIRST):
        config = ConfigSpace(Knobs(rng=Random(attempt)).choice) if attempt else ConfigSpace()
        try:
            schedule, _ = run_template(function, arguments, where, config)
        except TuningError:
            raise
        except SchedlangError as error:
            # another configuration may be legal, unless the template has no knobs
            refused = refused or error
            if config.space_map:
                continue
            raise
        return Task(name, arguments, where, function, config, schedule.outputs)
    assert refused is not None
    raise refused


def _given(args: Any) -> tuple[Any, ...]:
    if not isinstance(args, (list, tuple)):
        raise TuningError(f"autotvm.task.create(..., args={args!r}): give a list of arguments")
    return tuple(args)


def known_template(name: str) -> bool:
    """Return whether a template of this name is registered."""
    return name in _TEMPLATES


__all__ = ["Task", "create", "get_config", "template"]
