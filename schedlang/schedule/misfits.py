"""Refusals of primitives whose call lacks an argument, or has one that they do not take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypeVar

from schedlang.errors import ScheduleTypeError, explain, subscript
from schedlang.expr.nodes import Axis
from schedlang.signatures import Misfit, misfit, refuses
from schedlang.state.primitives.arguments import names, text_of

if TYPE_CHECKING:
    from schedlang.schedule.stage import StageView

Method = TypeVar("Method", bound=Callable[..., Any])

# methods whose axis is not one of the loops of the stage
_OF_OTHERS = ("compute_at", "store_at", "storage_align")
# what stands for an argument that is missing, other than its name
_STAND_INS = {"parent": "s[T]", "thread": "'threadIdx.x'", "scope": "'local'"}


def of_stage(method: Method) -> Method:
    """Return a method of a stage that refuses a call with missing or unknown arguments."""
    return refuses(_refused_of_stage)(method)


def of_schedule(method: Method) -> Method:
    """Return a method of a schedule that refuses a call with missing or unknown arguments."""
    return refuses(_refused_of_schedule)(method)


def _refused_of_stage(
    method: Callable[..., Any], args: tuple[StageView, ...], named: Mapping[str, Any]
) -> ScheduleTypeError:
    stage, name = args[0], method.__name__
    loops = stage.leaf_axes if name not in _OF_OTHERS else []
    asked = f"{name}({_listed(args[1:], named)}) on stage {stage.name}"
    return _refused(method, args, named, asked, f"{subscript(stage.name)}.{name}", loops)


def _refused_of_schedule(
    method: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]
) -> ScheduleTypeError:
    name = method.__name__
    asked = f"{name}({_listed(args[1:], named)})"
    return _refused(method, args, named, asked, f"s.{name}", [])


def _refused(
    method: Callable[..., Any],
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    asked: str,
    called: str,
    loops: Sequence[Axis],
) -> ScheduleTypeError:
    """Return the error; ``called`` is how a script calls the method, with axes of ``loops``."""
    parameters = [p for p in signature(method).parameters.values() if p.name != "self"]
    over = {p.name for p in parameters if p.annotation == "Axis" and loops}
    by_name = _by_name(parameters, over, args[1:])
    call_misfit = (
        misfit(method, args[:1], {**by_name, **named}) if by_name else misfit(method, args, named)
    )
    if call_misfit.why:
        parameter_names = ", ".join(p.name for p in parameters)
        hint = (
            f"Its arguments: {called}({parameter_names})."
            if parameter_names
            else f"Write {called}()."
        )
        return ScheduleTypeError(explain(asked, call_misfit.why, hint))
    few = sum(name in over for name in call_misfit.missing) < 2
    missing = [f"the loop{'s' * (not few)}" if n in over else n for n in call_misfit.missing]
    listed = " and ".join(dict.fromkeys(missing))
    why = f"{listed} {'is' if len(missing) == 1 else 'are'} missing"
    hint = f"Write {called}({_written(parameters, call_misfit, over, loops, named)})."
    if over.intersection(call_misfit.missing):
        hint += f" The loops are {names(loops)}."
    elif "parent" in call_misfit.missing:
        hint += " The first is a stage that reads this one, the second a loop of that stage."
    return ScheduleTypeError(explain(asked, why, hint))


def _by_name(
    parameters: Sequence[Parameter], over: set[str], args: Sequence[Any]
) -> dict[str, Any]:
    """Return the arguments of ``tile(i, 4, 4)`` by name: integers are factors, and no loop of two.

    Return none if each argument is at its place.
    """
    rest, by_name, skipped = list(args), {}, False
    for p in parameters:
        if not rest:
            break
        if p.name in over and isinstance(rest[0], int):
            skipped = True
            continue
        by_name[p.name] = rest.pop(0)
    return by_name if skipped and not rest else {}


def _written(
    parameters: Sequence[Parameter],
    misfit: Misfit,
    over: set[str],
    loops: Sequence[Axis],
    named: Mapping[str, Any],
) -> str:
    """Return the arguments given, with the first free loops in place of missing ones."""
    free = [a for a in loops if not any(a is value for value in misfit.given.values())]
    parts: list[str] = []
    by_name = False
    for name in (p.name for p in parameters):
        if name in misfit.given:
            value = text_of(misfit.given[name])
        elif name in misfit.missing:
            value = free.pop(0).name if name in over and free else _STAND_INS.get(name, name)
        else:
            continue
        by_name |= name in named
        parts.append(f"{name}={value}" if by_name else value)
    return ", ".join(parts)


def _listed(args: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Return the arguments of a call as text."""
    return ", ".join([*map(text_of, args), *(f"{n}={text_of(v)}" for n, v in named.items())])
