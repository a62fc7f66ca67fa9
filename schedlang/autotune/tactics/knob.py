"""The description of a knob, from which its row in ``docs/knobs.md`` is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Knob:
    """A knob that tactics ask for.

    * ``name``: its name in candidates. A capital letter stands for a stage or a tensor, ``i`` for
      an axis.
    * ``values``: the values that it can have; a text describes those that depend on the stage.
    """

    name: str
    values: str | tuple[Any, ...]
    meaning: str
