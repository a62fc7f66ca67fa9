"""The data of a module as JSON, and back: checked when read, never executed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, NoReturn

from schedlang.codegen.network_file import ParamPlace, Storage
from schedlang.errors import NetworkError, first_line
from schedlang.expr.dtypes import array_dtype
from schedlang.networks.memory import MemoryPlan, Placed
from schedlang.networks.program import CallData, ModuleData
from schedlang.runtime.parameters import Parameter, Signature
from schedlang.target import Target

FORMAT, VERSION = "schedlang.network_module", 1


def module_to_json(data: ModuleData) -> str:
    """Return the data of a module of fixed sizes, without its machine nest, as JSON text."""
    assert data.plan is not None
    signature = data.signature
    parameters = [
        [p.name, p.dtype, list(p.shape), p.is_output, p.is_scalar] for p in signature.parameters
    ]
    return json.dumps({
        "format": FORMAT, "version": VERSION, "public": data.public, "entry": data.entry,
        "text": data.text, "serial_text": data.serial_text, "fastmath": data.fastmath,
        "name": signature.name, "parameters": parameters, "storage": asdict(data.storage),
        "plan": asdict(data.plan), "calls": [asdict(call) for call in data.calls],
    })  # fmt: skip


def module_from_json(text: str, target: Target) -> ModuleData:
    """Return the data that :func:`module_to_json` wrote, of a module for ``target``.

    Raises :class:`~schedlang.errors.NetworkError` for any other text.
    """
    try:
        data = json.loads(text)
        if (data["format"], data["version"]) != (FORMAT, VERSION):
            _refuse("it has another format")
        parameters = tuple(
            Parameter(_text(n), _dtype(d), _shape(s), _flag(out), _flag(scalar))
            for n, d, s, out, scalar in data["parameters"]
        )
        signature = Signature(_text(data["name"]), parameters, (), frozenset(), {}, (), {})
        return ModuleData(
            _text(data["public"]), target, _text(data["entry"]), _text(data["text"]),
            _text(data["serial_text"]), signature, _storage(data["storage"]), _plan(data["plan"]),
            tuple(map(_call, data["calls"])), _flag(data["fastmath"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, NetworkError):
            raise
        _refuse(f"{type(error).__name__}: {first_line(error)}")


def _refuse(why: str) -> NoReturn:
    raise NetworkError(f"this is not the data of a network's module: {why}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        _refuse(f"{value!r} should be text")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        _refuse(f"{value!r} should be true or false")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _refuse(f"{value!r} should be a number, 0 or more")
    return value


def _dtype(value: Any) -> str:
    array_dtype(_text(value))
    return _text(value)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(map(_count, value))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(_text, value))


def _storage(data: Any) -> Storage:
    params = tuple(
        ParamPlace(_text(p["name"]), _count(p["start"]), _dtype(p["dtype"]), _shape(p["shape"]))
        for p in data["params"]
    )
    return Storage(params, _count(data["param_bytes"]), _count(data["arena"]),
                   _count(data["threads"]))  # fmt: skip


def _plan(data: Any) -> MemoryPlan:
    placed = []
    for p in data["placed"]:
        over = p["in_place_of"]
        placed.append(
            Placed(_text(p["name"]), _count(p["bytes"]), _count(p["first"]), _count(p["last"]),
                   _count(p["offset"]), None if over is None else _text(over))
        )  # fmt: skip
    return MemoryPlan(tuple(placed), _count(data["peak"]), _count(data["total"]),
                      _count(data["bound"]), _count(data["calls"]))  # fmt: skip


def _call(data: Any) -> CallData:
    first, last = data["lines"]
    return CallData(
        _text(data["name"]), _text(data["function"]), (_count(first), _count(last)),
        _texts(data["stages"]), _texts(data["layers"]),
    )  # fmt: skip


__all__ = ["module_from_json", "module_to_json"]
