"""A signature as plain data, for files: written as JSON, and checked when it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from schedlang.compute.data_fields import as_bound, as_dtype, as_flag, as_list, shorten
from schedlang.errors import ComputeError
from schedlang.host import ALIGNMENTS
from schedlang.index.sums import Factor, Sum
from schedlang.runtime.parameters import Extent, Parameter, Signature


def to_data(signature: Signature) -> dict[str, Any]:
    """Return ``signature`` as lists, dicts, texts and integers."""
    data: dict[str, Any] = {
        "name": signature.name,
        "parameters": [_shown(p) for p in signature.parameters],
        "sizes": list(signature.sizes),
        "in_place": sorted(map(list, signature.in_place)),
        "extents": {name: _listed(terms) for name, terms in signature.extents.items()},
        "solved": [list(where) for where in signature.solved],
        "single": dict(signature.single),
        "least": dict(signature.least),
        "most": dict(signature.most),
    }
    return {key: value for key, value in data.items() if value}


def _shown(p: Parameter) -> dict[str, Any]:
    data = {
        "name": p.name, "dtype": p.dtype, "shape": list(p.shape), "output": p.is_output,
        "scalar": p.is_scalar, "monotonic": p.monotonic,
        "within": None if p.within is None else list(p.within),
        "alignment": p.alignment if p.alignment > 1 else None,
    }  # fmt: skip
    return {key: value for key, value in data.items() if value}


def from_data(data: Any) -> Signature:
    """Return the signature that :func:`to_data` wrote.

    Raise :class:`~schedlang.errors.ComputeError` for data that :func:`to_data` does not write.

    >>> from schedlang.runtime.parameters import Parameter, Signature
    >>> A = Parameter("A", "float32", ("n",))
    >>> s = Signature("f", (A,), ("n",), frozenset(), {}, (), {}, {"n": 1}, {"n": 9})
    >>> from_data(to_data(s)) == s
    True
    """
    fields = _as_dict(data, "a signature")

    def listed(name: str) -> Sequence[Any]:
        return as_list(fields.get(name, []), name)

    def named(name: str) -> dict[str, Any]:
        return _as_dict(fields.get(name, {}), name)

    parameters = tuple(map(_parameter, listed("parameters")))
    solved = tuple(map(_place, listed("solved")))
    for name, position, dim in solved:
        if position >= len(parameters) or dim >= len(parameters[position].shape):
            raise ComputeError(f"{shorten(name)} is an extent of argument {position}, which is not")
    pairs = frozenset((_as_count(a), _as_count(b)) for a, b in map(_pair, listed("in_place")))
    if any(k >= len(parameters) for pair in pairs for k in pair):
        raise ComputeError("an array that is in place is not an argument")
    return Signature(
        _as_text(fields.get("name")),
        parameters,
        tuple(map(_as_text, listed("sizes"))),
        pairs,
        {name: _as_sum(terms) for name, terms in named("extents").items()},
        solved,
        {name: _as_text(size) for name, size in named("single").items()},
        {name: as_bound(number) for name, number in named("least").items()},
        {name: as_bound(number) for name, number in named("most").items()},
    )


def _listed(terms: Sum) -> list[Any]:
    return [
        [coef, [f if isinstance(f, str) else [f[0], [_listed(a) for a in f[1]]] for f in factors]]
        for coef, factors in terms
    ]


def _as_sum(data: Any) -> Sum:
    terms = (_pair(term) for term in as_list(data, "an extent"))
    return tuple(
        (_as_integer(coef), tuple(map(_as_factor, as_list(factors, "factors"))))
        for coef, factors in terms
    )


def _as_factor(data: Any) -> Factor:
    if isinstance(data, str):
        return data
    op, args = _pair(data)
    if op not in ("//", "%", "min", "max"):
        raise ComputeError(f"{shorten(op)} is not an operation of sizes")
    operands = as_list(args, "operands") if op in ("min", "max") else _pair(args)
    if len(operands) < 2:
        raise ComputeError(f"{op} of the data has {len(operands)} operands")
    return op, tuple(map(_as_sum, operands))


def _parameter(data: Any) -> Parameter:
    fields = _as_dict(data, "a parameter")
    flags = (as_flag(fields.get(name, False)) for name in ("output", "scalar", "monotonic"))
    output, is_scalar, monotonic = flags
    ends = fields.get("within")
    within = None if ends is None else tuple(map(_as_end, _pair(ends)))
    shape = tuple(map(_as_extent, as_list(fields.get("shape", []), "a shape")))
    name, dtype = _as_text(fields.get("name")), as_dtype(fields.get("dtype"))
    bytes_ = _as_count(fields.get("alignment", 1))
    if bytes_ not in ALIGNMENTS:
        raise ComputeError(f"{shorten(name)} cannot start at multiples of {bytes_} bytes")
    return Parameter(name, dtype, shape, output, is_scalar, monotonic, cast(Any, within), bytes_)


def _place(data: Any) -> tuple[str, int, int]:
    place = as_list(data, "a size's place")
    if len(place) != 3:
        raise ComputeError(f"{shorten(place)} is not a size's place")
    return _as_text(place[0]), _as_count(place[1]), _as_count(place[2])


def _pair(data: Any) -> Sequence[Any]:
    pair = as_list(data, "a pair")
    if len(pair) != 2:
        raise ComputeError(f"{shorten(pair)} is not a pair")
    return pair


def _as_end(data: Any) -> Extent:
    return data if isinstance(data, str) else _as_integer(data)


def _as_extent(data: Any) -> Extent:
    return data if isinstance(data, str) else _as_count(data)


def _as_count(data: Any) -> int:
    if _as_integer(data) < 0:
        raise ComputeError(f"{data} is not a size")
    return int(data)


def _as_integer(data: Any) -> int:
    if type(data) is not int:
        raise ComputeError(f"{shorten(data)} is not an integer")
    return data


def _as_text(data: Any) -> str:
    if not isinstance(data, str):
        raise ComputeError(f"{shorten(data)} is not a text")
    return data


def _as_dict(data: Any, what: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ComputeError(f"{what} of the data is {shorten(data)}, not a dict")
    return data
