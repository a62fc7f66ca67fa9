"""The data of a module as JSON values, so that it can be stored beside its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from schedlang.codegen.network_file import ParamPlace, Storage
from schedlang.errors import BuildError
from schedlang.networks.memory import MemoryPlan, Placed
from schedlang.networks.program import CallData, ModuleData
from schedlang.runtime.parameters import Parameter, Signature
from schedlang.target import Target

FORMAT = 1


def to_data(data: ModuleData) -> dict[str, Any]:
    """Return what ``data`` says besides its texts and its machine nest, as JSON values."""
    signature = asdict(data.signature)
    signature["in_place"] = sorted(data.signature.in_place)
    return {
        "format": FORMAT, "public": data.public, "target": data.target.kind, "entry": data.entry,
        "signature": signature, "storage": asdict(data.storage), "plan": asdict(data.plan),
        "calls": [asdict(call) for call in data.calls], "fastmath": data.fastmath,
    }  # fmt: skip


def from_data(found: Mapping[str, Any], text: str, serial_text: str = "") -> ModuleData:
    """Return the data of a module from :func:`to_data` and from its texts.

    Raises :class:`~schedlang.errors.BuildError` for what :func:`to_data` does not return.
    """
    if found.get("format") != FORMAT:
        raise BuildError(
            f"the data of a network have format {found.get('format')!r}, but this version of "
            f"schedlang reads {FORMAT}: save the network again"
        )
    try:
        signature = dict(found["signature"])
        parameters = tuple(Parameter(**_tuples(p)) for p in signature.pop("parameters"))
        in_place = frozenset(_tuples(signature.pop("in_place")))
        storage, plan = dict(found["storage"]), dict(found["plan"])
        params = tuple(ParamPlace(**_tuples(p)) for p in storage.pop("params"))
        placed = tuple(Placed(**p) for p in plan.pop("placed"))
        return ModuleData(
            str(found["public"]), Target(str(found["target"])), str(found["entry"]), text,
            serial_text,
            Signature(parameters=parameters, in_place=in_place, **_tuples(signature)),
            Storage(params, **storage), MemoryPlan(placed, **plan),
            tuple(CallData(**_tuples(c)) for c in found["calls"]), bool(found["fastmath"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BuildError(
            f"the data of a network are damaged ({type(error).__name__}: {error}): save the "
            "network again"
        ) from None


def _tuples(value: Any) -> Any:
    """Return a JSON value with tuples in place of lists."""
    if isinstance(value, (list, tuple)):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, Mapping):
        return {key: _tuples(item) for key, item in value.items()}
    return value


__all__ = ["FORMAT", "from_data", "to_data"]
