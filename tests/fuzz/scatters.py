"""Random scatters: updates at places that are axes, expressions of axes, or read from a tensor."""

from __future__ import annotations

import numpy as np

from tests.fuzz.values import (
    MOST_POINTS,
    MOST_SIZE,
    Ax,
    Graph,
    Made,
    condition_of,
    extent_of,
    index_of,
    lead_of,
    operand,
    placeholder,
    rounds,
)

KINDS = ("sum", "sum", "sum", "max", "min", "prod", "last", "last", "any", "argmax")


def random_scatter(g: Graph) -> None:
    """Add a scatter into one to three dimensions from a domain of one to three."""
    lead = lead_of(g)
    domain = [Ax(n, t, s) for n, t, s in zip("ijk", lead.shape, lead.size)][:3]
    if not domain:
        domain = [Ax("i", *extent_of(g))]
    shape, places = [], []
    for _ in range(g.rng.choice((1, 1, 2, 2, 3))):
        text, size, place = _dimension(g, domain)
        shape.append((text, size))
        places.append(place)
    if np.prod([s for _, s in shape]) > MOST_POINTS:
        return
    dtype = lead.dtype if g.chance(0.7) else g.rng.choice(g.dtypes)
    kind = g.rng.choice(KINDS)
    if (kind == "any") != (dtype == "bool") and kind != "last":
        kind = "any" if dtype == "bool" else "max"
    value, exact = operand(g, domain, dtype, lead)
    if kind == "argmax" and (not exact or any(a.text == "0" for a in domain)):
        kind = "max"
    if kind == "prod" and (rounds(dtype) or g.special):
        kind = "sum"
    if kind not in ("sum", "last") and dtype.startswith("complex"):
        kind = "sum"
    if kind in ("sum", "prod"):
        terms = int(np.prod([max(a.size, 1 if a.text.isdigit() else MOST_SIZE) for a in domain]))
        g.terms = max(g.terms, 2 * terms)
    more = ""
    if kind != "argmax" and g.chance(0.3):
        start = {"bool": "True"}.get(dtype, g.rng.choice(("1", "2")))
        if dtype not in ("bool", "int8", "uint8") and g.chance(0.5):
            names = "pqr"[: len(shape)]
            start = f"lambda {', '.join(names)}: {names[-1]} + 1"
        more += f", init={start}"
        g.kinds.add("init= of a scatter")
    if g.chance(0.25):
        more += f", where=lambda {_names(domain)}: {condition_of(g, domain)}"
    if _some_outside(g, shape, places, domain):
        more += ', mode="drop"'
        g.kinds.add("dropped updates")
    name = g.name("H")
    index = f"({', '.join(places)},)" if len(places) > 1 else places[0]
    g.lines.append(
        f"{name} = sl.scatter({_tuple(shape)}, {_tuple([(a.text, a.size) for a in domain])}, "
        f'lambda {_names(domain)}: ({index}, {value}), "{kind}"{more}, name="{name}")'
    )
    g.kinds |= {"scatter", f"scatter by {kind}"}
    made = "int64" if kind == "argmax" else dtype
    whole = exact and not rounds(made)
    g.tensors.append(
        Made(name, tuple(t for t, _ in shape), tuple(s for _, s in shape), made, whole)
    )


def _dimension(g: Graph, domain: list[Ax]) -> tuple[str, int, str]:
    """Return the extent of a dimension, as text and number, and an index within it."""
    axis = g.rng.choice(domain)
    if g.chance(0.35):
        return axis.text, axis.size, axis.name
    text, size = extent_of(g)
    while not text.isdigit() or not size:
        # an empty result takes no updates, and a size may be 0 at another call
        size = g.rng.choice((1, 2, 3, 5, 8))
        text = str(size)
    if g.chance(0.6):
        kind = g.rng.choice(("int32", "int64", "uint8", "int8"))
        table = placeholder(g, 1, kind, [(axis.text, axis.size)], (0, size))
        return text, size, f"{table.name}[{axis.name}]"
    return text, size, index_of(g, domain, text, size) or "0"


def _some_outside(
    g: Graph, shape: list[tuple[str, int]], places: list[str], domain: list[Ax]
) -> bool:
    """Move a place out of its dimension at some points, in a few cases; return whether it is."""
    if not g.chance(0.15):
        return False
    axis = g.rng.choice(domain)
    at = g.rng.randrange(len(places))
    places[at] = f"{places[at]} + {axis.name} - 1"
    return True


def _names(domain: list[Ax]) -> str:
    return ", ".join(a.name for a in domain)


def _tuple(extents: list[tuple[str, int]]) -> str:
    return f"({''.join(text + ', ' for text, _ in extents)})"
