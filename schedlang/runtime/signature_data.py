"""A signature as plain data, for files: written as JSON, and checked when it is read."""

from __future__ import annotations

from typing import Any

from schedlang.errors import SchedlangError
from schedlang.expr import dtypes
from schedlang.index.sums import Sum
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
    }
    return {key: value for key, value in data.items() if value}


def _shown(p: Parameter) -> dict[str, Any]:
    data = {
        "name": p.name, "dtype": p.dtype, "shape": list(p.shape), "output": p.is_output,
        "scalar": p.is_scalar, "monotonic": p.monotonic,
        "within": None if p.within is None else list(p.within),
    }  # fmt: skip
    return {key: value for key, value in data.items() if value}


def from_data(data: Any) -> Signature:
    """Return the signature that :func:`to_data` wrote.

    Raise ``ValueError`` or ``TypeError`` for data that :func:`to_data` does not write.

    >>> from schedlang.runtime.parameters import Parameter, Signature
    >>> A = Parameter("A", "float32", ("n",))
    >>> s = Signature("f", (A,), ("n",), frozenset(), {}, (), {}, {"n": 1})
    >>> from_data(to_data(s)) == s
    True
    """
    _is(data, dict)
    parameters = tuple(_parameter(p) for p in _is(data.get("parameters"), list))
    count = len(parameters)
    extents = {_text(k): _sum(v) for k, v in _is(data.get("extents", {}), dict).items()}
    solved = []
    for name, position, dim in _is(data.get("solved", []), list):
        if not (_whole(position) < count and _whole(dim) < len(parameters[position].shape)):
            raise ValueError(f"a size is solved from argument {position}, which is not there")
        solved.append((_text(name), position, dim))
    pairs = frozenset((_whole(a), _whole(b)) for a, b in _is(data.get("in_place", []), list))
    if any(k >= count for pair in pairs for k in pair):
        raise ValueError("an array that is in place is not there")
    return Signature(
        _text(data.get("name")),
        parameters,
        tuple(_text(n) for n in _is(data.get("sizes", []), list)),
        pairs,
        extents,
        tuple(solved),
        {_text(k): _text(v) for k, v in _is(data.get("single", {}), dict).items()},
        {_text(k): _whole(v) for k, v in _is(data.get("least", {}), dict).items()},
    )


def _listed(terms: Sum) -> list[Any]:
    return [
        [coef, [f if isinstance(f, str) else [f[0], [_listed(a) for a in f[1]]] for f in factors]]
        for coef, factors in terms
    ]


def _sum(data: Any) -> Sum:
    terms = []
    for coef, factors in _is(data, list):
        if type(coef) is not int:
            raise TypeError(f"a coefficient is {coef!r}")
        terms.append((coef, tuple(_factor(f) for f in _is(factors, list))))
    return tuple(terms)


def _factor(data: Any) -> Any:
    if isinstance(data, str):
        return data
    op, args = _is(data, list)
    if op not in ("//", "%", "min", "max") or len(_is(args, list)) != 2:
        raise ValueError(f"an operation of sizes is {op!r}")
    return op, tuple(_sum(a) for a in args)


def _parameter(data: Any) -> Parameter:
    _is(data, dict)
    try:
        dtype = dtypes.canonical(_text(data.get("dtype")))
    except SchedlangError as error:
        raise ValueError(str(error)) from None
    within = data.get("within")
    ends = None if within is None else tuple(_end(e) for e in _is(within, list))
    if ends is not None and len(ends) != 2:
        raise ValueError(f"a range has {len(ends)} ends")
    shape = tuple(_extent(e) for e in _is(data.get("shape", []), list))
    output, is_scalar, monotonic = (_flag(data, n) for n in ("output", "scalar", "monotonic"))
    return Parameter(_text(data.get("name")), dtype, shape, output, is_scalar, monotonic, ends)


def _flag(data: Any, name: str) -> bool:
    flag = data.get(name, False)
    if type(flag) is not bool:
        raise TypeError(f"{name} is {flag!r}")
    return flag


def _end(data: Any) -> Extent:
    return data if type(data) is int else _extent(data)


def _extent(data: Any) -> Extent:
    return data if isinstance(data, str) else _whole(data)


def _whole(data: Any) -> int:
    if type(data) is not int or data < 0:
        raise ValueError(f"{data!r} is not a size")
    return data


def _text(data: Any) -> str:
    if not isinstance(data, str):
        raise TypeError(f"{data!r} is not a text")
    return data


def _is(data: Any, kind: type) -> Any:
    if not isinstance(data, kind):
        raise TypeError(f"{data!r} is not a {kind.__name__}")
    return data
