"""The result of a lab, and the file that holds it."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any, get_type_hints

from schedlang.errors import CallError, explain

ENDING = ".lab.json"


@dataclass(frozen=True)
class LabResult:
    """The result of a lab: who, what, and what was measured on which machine.

    ``message`` says what is wrong with a kernel that is not ``correct``. ``seconds`` is the fastest
    call of the kernel, ``reference_seconds`` is the call of the reference in turns, and
    ``counts`` are counts of the kernel. ``code`` has the steps of the schedule.
    """

    lab: str
    author: str
    correct: bool
    points: float
    most_points: float
    message: str
    seconds: float
    reference_seconds: float
    counts: dict[str, int]
    machine: str
    version: str
    code: str

    @property
    def speedup(self) -> float:
        """The time of the reference over the time of the kernel; 0 if it was not timed."""
        return self.reference_seconds / self.seconds if self.seconds else 0.0


def write_result(result: LabResult, folder: Path) -> Path:
    """Write a result to ``<author>.<lab>.lab.json`` in a folder, and return the path.

    Characters other than letters, digits, ``-`` and ``_`` are escaped, as ``%20``. A result of the
    same author and lab is replaced, as a whole. Raise :class:`~schedlang.errors.CallError` if
    the system refuses.
    """
    path = folder / f"{_file_name(result.author)}.{_file_name(result.lab)}{ENDING}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=folder) as beside:
            whole = Path(beside) / "result"
            text = json.dumps(asdict(result), indent=1, ensure_ascii=False)
            whole.write_text(f"{text}\n", "utf-8")
            whole.replace(path)
    except OSError as error:
        raise CallError(f"lab(folder={str(folder)!r}): {error.strerror or error}") from None
    return path


def read_result(path: Path) -> LabResult:
    """Return the result in a file.

    Raise :class:`~schedlang.errors.CallError` if it holds none.
    """
    try:
        fields = json.loads(path.read_text("utf-8"))
        if not isinstance(fields, dict):
            raise ValueError("it is not an object of JSON")
        _check_fields(fields)
        return LabResult(**fields)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CallError(
            explain(
                f"results: {path}",
                f"it holds no result of a lab: {error}",
                "Remove it, or let its author run the lab again.",
            )
        ) from None


def _check_fields(fields: dict[str, Any]) -> None:
    """Raise ``ValueError`` for a field of another type, and for a number that no lab gives.

    A student may have written the file by hand.
    """
    for name, kind in get_type_hints(LabResult).items():
        value: Any = fields.get(name)
        if kind is float and type(value) in (int, float):
            right = 0 <= value < inf
        elif isinstance(value, dict):
            right = kind == dict[str, int] and all(
                type(n) is int and k.isprintable() for k, n in value.items()
            )
        else:
            # a text for a table is one line, which moves no cursor
            free = name in ("message", "code") or str(value).isprintable()
            right = type(value) is kind and (kind is not str or free)
        if not right:
            raise ValueError(f"its {name} is not what a lab writes")
    points, most = float(fields["points"]), float(fields["most_points"])
    if points > most:
        raise ValueError("it has more points than its lab gives")


def _file_name(text: str) -> str:
    """Return a text as a part of the name of a file; no two texts have the same.

    >>> _file_name("Ada-Lovelace"), _file_name("Ada Lovelace"), _file_name("../x")
    ('Ada-Lovelace', 'Ada%20Lovelace', '%2E%2E%2Fx')
    """

    def escaped(character: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in character[0].encode("utf-8", "surrogatepass"))

    return re.sub(r"[^\w-]", escaped, text) or "%"
