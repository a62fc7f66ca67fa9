"""Checks of the ``sizes`` argument: the values of symbolic sizes, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.autotune.text import whole
from schedlang.compute.graph import variables
from schedlang.compute.tensor import Tensor
from schedlang.errors import TuningError
from schedlang.expr.nodes import Var

# the same bound as on constant extents
LARGEST = 2**62


def size_values(call: str, sizes: Mapping[Any, int] | None) -> dict[str, int]:
    """Return ``sizes``, whose keys are names or ``sl.var``, by name.

    Raise :class:`~schedlang.errors.TuningError`, which names ``call``, for an invalid size.
    """
    if sizes is not None and not isinstance(sizes, Mapping):
        raise TuningError(f"{call}(sizes={sizes!r}): give a dict of names and integers")
    values: dict[Any, int] = {}
    sizes = sizes or {}
    for key, value in sizes.items():
        name = key.name if isinstance(key, Var) else key
        number = whole(value)
        argument = f"{call}(sizes={{{name!r}: {value!r}}})"
        if number is None or number < 0:
            raise TuningError(f"{argument}: give an integer, 0 or more")
        if number >= LARGEST:
            raise TuningError(
                f"{argument}: offsets would overflow 64-bit integers; give less than 2**62"
            )
        if name in values:
            raise TuningError(f"{call}(sizes={dict(sizes)}): the size {name!r} is given twice")
        values[name] = number
    return values


def checked_sizes(
    call: str,
    outputs: Sequence[Tensor],
    sizes: Mapping[Any, int] | None,
    every: bool = False,
    name: str = "",
) -> dict[str, int]:
    """Return the values of ``sizes`` by name, checked against the sizes that ``outputs`` have.

    With ``every``, each symbolic size must have a value. ``name`` is what messages call the
    computation, by default the names of ``outputs``.
    """
    given, names = size_values(call, sizes), name or ", ".join(t.name for t in outputs)
    known = [v.name for v in variables(outputs) if v.is_size]
    unknown = [name for name in given if name not in known]
    if unknown:
        has = f"give sizes={_dict_text(known)}" if known else "it has none; leave out sizes="
        raise TuningError(
            f"{call}(sizes={sizes}): there is no symbolic size {unknown[0]!r} in {names}; {has}"
        )
    missing = [name for name in known if name not in given]
    if every and missing:
        raise TuningError(
            f"{call}({names}): it has symbolic sizes; give the values to tune for, "
            f"sizes={_dict_text(missing)}"
        )
    return given


def _dict_text(names: Sequence[str]) -> str:
    return f"{{{', '.join(f'{name!r}: ...' for name in names)}}}"
