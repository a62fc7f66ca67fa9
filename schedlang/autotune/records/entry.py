"""One line of a tuning database, written and read with every field checked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from schedlang.autotune.record import OUTCOMES, Trial, Where, facts_of
from schedlang.compute.rename import Names

FORMAT = "schedlang.tuning"
VERSION = 1
# the most bytes of a line that is written, or read into memory
LONGEST = 4 << 20
_LONGEST_DETAIL = 2000
_OP = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """A trial, the place that its time holds for, and the name of its kernel.

    * ``differs``: how ``where`` differs from the place asked for, in words.
    * ``names``: the names in the tuned computation, empty if they were not recorded.
    * ``line``: the number of its line in the file at ``path``.
    * ``again``: the number of a later line whose trial was right too, if there is one.
    """

    where: Where
    name: str
    trial: Trial
    differs: tuple[str, ...] = ()
    names: Names = Names()
    line: int = 0
    path: str = ""
    again: int = 0

    @property
    def seconds(self) -> float | None:
        """The time of the trial; ``None`` if it failed or was not timed."""
        return self.trial.seconds


def to_line(entry: Entry) -> bytes:
    """Return the line of ``entry``; raise ``ValueError`` where :func:`from_line` would refuse it.

    >>> where = Where("0" * 64, (), "cpu", "a machine", (("numba", "0.62"),))
    >>> entry = Entry(where, "C", Trial(0, "ok", "{}", seconds=1.5))
    >>> from_line(to_line(entry)).seconds
    1.5
    """
    where, trial = entry.where, entry.trial
    # messages of a compiler or the system may hold any characters, at any length
    detail = trial.detail.encode("utf-8", "replace").decode()[:_LONGEST_DETAIL]
    data = {
        "format": FORMAT,
        "version": VERSION,
        "name": entry.name,
        "op": where.op,
        "extents": where.extents,
        "sizes": dict(where.sizes),
        "target": where.target,
        "machine": where.machine,
        "versions": dict(where.versions),
        "compiler": where.compiler,
        "names": {"parts": entry.names.parts, "sizes": entry.names.sizes},
        "trial": {
            "number": trial.number,
            "outcome": trial.outcome,
            "seconds": trial.seconds,
            "estimate": trial.estimate,
            "took": trial.took,
            "detail": detail,
            "source": trial.source,
            "strategy": trial.strategy,
            "template": trial.template,
            "raced": trial.raced,
            "margin": trial.margin,
            "first": trial.first,
            "loud": trial.disturbed,
            "first_loud": trial.first_disturbed,
            "checked": trial.checked,
            "limits": trial.limits,
            "decisions": dict(trial.decisions),
            "steps": trial.steps,
        },
    }
    try:
        line = json.dumps(data, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if len(line) > LONGEST:
        raise ValueError(f"its line would have {len(line)} bytes, of at most {LONGEST}")
    from_line(line)
    return line


def from_line(line: bytes) -> Entry:
    """Return the entry of a line, checked field by field.

    Raise ``ValueError`` with the reason for an invalid line.
    """
    try:
        data = json.loads(line.decode("utf-8"), parse_constant=_no_number, object_pairs_hook=_once)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        # some of json's messages end in "at"
        message = error.msg.removesuffix(" at")
        raise ValueError(f"it is not JSON ({message} at character {error.pos})") from None
    fields = _Fields(data, "it")
    if fields.data.get("format") != FORMAT:
        raise ValueError(f'its "format" is not "{FORMAT}"')
    version = fields.data.get("version")
    if type(version) is not int or version != VERSION:
        raise ValueError(f"it has version {_short(version)}; only version {VERSION} can be read")
    op = fields.text("op")
    if not _OP.fullmatch(op):
        raise ValueError('its "op" is not the key of a computation')
    sizes, versions = fields.inner("sizes"), fields.inner("versions")
    target = fields.text("target")
    where = Where(
        op,
        tuple((name, sizes.integer(name)) for name in sorted(sizes.data)),
        target,
        fields.text("machine"),
        tuple((name, versions.text(name)) for name in sorted(versions.data)),
        fields.integers("extents"),
        # searches of older versions had no choice
        fields.optional_text("compiler") or facts_of(target).compiler_named(""),
    )
    names = fields.inner("names")
    return Entry(
        where,
        fields.text("name"),
        _trial(fields.inner("trial")),
        names=Names(names.texts("parts"), names.texts("sizes")),
    )


def _trial(fields: _Fields) -> Trial:
    outcome = fields.text("outcome")
    if outcome not in OUTCOMES:
        raise ValueError(f"its outcome {_short(outcome)} is unknown")
    seconds = fields.number("seconds")
    first = fields.number("first") if "first" in fields.data else None
    for time in (seconds, first):
        if time is not None and time <= 0:
            raise ValueError(f"its seconds are {time}, which is not a time")
    if seconds is not None and outcome != "ok":
        raise ValueError(f'it has seconds, but its outcome is "{outcome}"')
    # searches of older versions had none
    margin = (fields.number("margin") or 0.0) if "margin" in fields.data else 0.0
    if margin < 0:
        raise ValueError(f"its margin is {margin}, which is less than 0")
    took = fields.number("took")
    if took is None or took < 0:
        raise ValueError('its "took" is not a time')
    decisions = fields.inner("decisions").data
    _check_plain(decisions)
    return Trial(
        fields.integer("number"),
        outcome,
        fields.text("steps"),
        decisions,
        seconds,
        fields.number("estimate"),
        fields.text("detail"),
        fields.text("source"),
        fields.text("strategy"),
        took,
        resumed=True,
        template=fields.text("template"),
        raced=fields.flag("raced"),
        margin=margin,
        first=first,
        disturbed=fields.flag("loud"),
        first_disturbed=fields.flag("first_loud"),
        checked=fields.optional_text("checked"),
        limits=fields.optional_text("limits"),
    )


class _Fields:
    """A JSON object of the line, with a checked getter for each type of field."""

    def __init__(self, data: Any, what: str) -> None:
        if not isinstance(data, dict):
            raise ValueError(f"{what} is not an object")
        self.data = data

    def get(self, key: str) -> Any:
        if key not in self.data:
            raise ValueError(f'it has no "{key}"')
        return self.data[key]

    def inner(self, key: str) -> _Fields:
        return _Fields(self.get(key), f'its "{key}"')

    def text(self, key: str) -> str:
        return _text(self.get(key), key)

    def optional_text(self, key: str) -> str:
        """Return a text field, empty if it is missing, as in lines of older versions."""
        return self.text(key) if key in self.data else ""

    def items(self, key: str) -> list[Any]:
        items = self.get(key)
        if not isinstance(items, list):
            raise ValueError(f'its "{key}" is not a list')
        return items

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(_text(item, key) for item in self.items(key))

    def integer(self, key: str) -> int:
        return _count(self.get(key), key)

    def integers(self, key: str) -> tuple[int, ...]:
        return tuple(_count(item, key) for item in self.items(key))

    def flag(self, key: str) -> bool:
        """Return a boolean field, False if it is missing, as in lines of older versions."""
        flag = self.data.get(key, False)
        if not isinstance(flag, bool):
            raise ValueError(f"its {_short(key)} is not true or false")
        return flag

    def number(self, key: str) -> float | None:
        number = self.get(key)
        if number is None:
            return None
        if type(number) is int and abs(number) < 2**63:
            return float(number)
        if type(number) is not float or not math.isfinite(number):
            raise ValueError(f"its {_short(key)} is not a number: {_short(number)}")
        return number


def _count(value: Any, key: str) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"its {_short(key)} is not a count: {_short(value)}")
    return value


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"its {_short(key)} is not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"its {_short(key)} is not text: it has half a character") from None
    return value


def _check_plain(decisions: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless all decisions are numbers, text, booleans, None or lists."""
    stack = list(decisions.values())
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += value
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError("a decision is not a finite number")
        elif not (value is None or isinstance(value, (bool, int, float, str))):
            raise ValueError("a decision is an object")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict; raise ``ValueError`` for a repeated key."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("it gives a field twice")
    return fields


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"it contains {text}, which is not a number")


def _short(value: Any) -> str:
    """Return a value as short, escaped text for a message."""
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__}"
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
