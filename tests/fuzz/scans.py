"""Random scans: recurrences over rows that are computed, and some over rows that are not yet."""

from __future__ import annotations

import warnings
from typing import Any

from schedlang.errors import BoundsError, ComputeError, UnprovenWarning
from tests.fuzz.record import Mismatch
from tests.fuzz.values import MOST_SIZE, SMALL, Graph, Made, need, placeholder, rounds

# rows of a state that step t of T may read; Python evaluates them too
ROWS = (
    "t - 1", "t - 2", "t//2",
    "sl.max(t - 3, 0)", "sl.max(t - 1 - t % 2, 0)", "sl.max((t - 1)//2*2, 0)",
    "t", "t - t % 2", "sl.min(t + 1, {T} - 1)", "{T} - 1 - t", "sl.max({T} - 1 - t, 0)", "{T} - 1",
)  # fmt: skip


def is_earlier(row: str, first: int, steps: tuple[str, int]) -> bool:
    """Return whether ``row`` lies before row t, and in the tensor, in each step t from ``first``.

    A symbolic number of steps may be any.
    """
    text, size = steps
    sizes = [size] if text.isdigit() else range(first, MOST_SIZE + 1)
    return all(
        0 <= eval(row.format(T=size), {"sl": _Numbers, "t": t}) < t
        for size in sizes
        for t in range(first, size)
    )


class _Numbers:
    """The functions of ``ROWS``, on numbers."""

    min, max = min, max


def random_scan(g: Graph, rows_first: bool = False) -> None:
    """Add a scan with one or two states, sometimes with a stage between state and update.

    With ``rows_first``, a stage may read it with the rows of the result along its time.
    """
    rng = g.rng
    size = rng.choice((2, 3, 5, 7))
    steps = (str(size), size)
    size = rng.choice((0, 1, 1, 3, 4, 7)) if g.extents is SMALL else rng.choice((1, 3, 4, 7))
    width = (str(size), size)
    symbolic = [(n, v) for n, v in g.sizes.items() if v > 0]
    if symbolic and g.chance(0.4):
        steps = rng.choice(symbolic)
    if symbolic and g.chance(0.4):
        width = rng.choice(symbolic)
    dtype = rng.choice([t for t in ("float32", "int32", "int8", "complex64") if t in set(g.dtypes)])
    x = placeholder(g, 2, dtype, [steps, width])
    rows = 2 if steps[1] > 2 and g.chance(0.3) else 1
    need(g, steps[0], rows)
    count = rng.choice((1, 1, 2))
    g.kinds.add("scan" if count == 1 else "scan of two states")
    shape, across, length = (steps[1], width[1]), width[0], steps[0]
    states, inits, updates = [], [], []
    for _ in range(count):
        state = g.name("S")
        g.lines.append(f'{state} = sl.placeholder(({length}, {across}), "{dtype}", name="{state}")')
        init = g.name("I")
        g.lines.append(
            f'{init} = sl.compute(({rows}, {across}), lambda t, i: {x.name}[t, i], name="{init}")'
        )
        states.append(state)
        inits.append(init)
    call = f"sl.compute(({length}, {across}), lambda t, i: "
    for k in range(count):
        before = f"{states[k]}[t - 1, i]"
        if count > 1:
            before = f"({before} + {states[1 - k]}[t - 1, {across} - 1 - i])"
        if rows == 2 and g.chance(0.5):
            before = f"({before} + {states[k]}[t - 2, i])"
        if g.chance(0.3):
            before = f"({before} + {x.name}[sl.max(t - {rows + 1}, 0), i])"
        if g.chance(0.3):
            row = rng.choice([f for f in ROWS if is_earlier(f, rows, steps)])
            before = f"({before} + {states[k]}[{row.format(T=length)}, i])"
            g.kinds.add("scan of other earlier rows")
        if k and g.chance(0.4):
            before = f"({before} + {updates[0]}[t, i])"
        if g.chance(0.4):
            mid = g.name("D")
            g.lines.append(f'{mid} = {call}{before} + {x.name}[t, i], name="{mid}")')
            reads = f"{mid}[t, i]" if g.chance(0.5) else f"{mid}[t, {across} - 1 - i] + {mid}[t, i]"
        else:
            reads = before
        if rounds(dtype):
            reads = f"({reads}) * 0.5"
        update = g.name("U")
        g.lines.append(f'{update} = {call}{reads} + {x.name}[t, i], name="{update}")')
        updates.append(update)
    late = [f for f in ROWS if not is_earlier(f, rows, steps)]
    # an empty row reads nothing
    if late and g.chance(0.5) and str(across) != "0":
        row = rng.choice(late).format(T=length)
        g.refused.append(
            f"late = {call}{states[0]}[{row}, i] + {x.name}[t, i])\n"
            f"sl.scan({inits[0]}, late, {states[0]}, inputs=[{x.name}])\n"
        )
    name = g.name("N")
    exact = not rounds(dtype)
    made = [name] if count == 1 else [f"{name}_v{k}" for k in range(count)]
    if count > 1 and g.chance(0.5):
        # an update may precede the one that it reads
        inits, updates, states = inits[::-1], updates[::-1], states[::-1]
    join = [f"[{', '.join(v)}]" if count > 1 else v[0] for v in (inits, updates, states)]
    g.lines.append(
        f'{", ".join(made)} = sl.scan({", ".join(join)}, inputs=[{x.name}], name="{name}")'
    )
    for n in made:
        g.tensors.append(Made(n, (length, across), shape, dtype, exact))
    if rows_first and g.chance(0.6):
        turned = g.name("V")
        read = " + ".join(f"{n}[t, i]" for n in made)
        g.lines.append(
            f'{turned} = sl.compute(({across}, {length}), lambda i, t: {read}, name="{turned}")'
        )
        g.tensors.append(Made(turned, (across, length), shape[::-1], dtype, exact))


def check_refused(g: Graph, space: dict[str, Any]) -> None:
    """Check that each computation in ``g.refused`` raises an error or warns."""
    for text in g.refused:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnprovenWarning)
            try:
                exec(text, dict(space))
            except (BoundsError, ComputeError, UnprovenWarning):
                continue
        raise Mismatch(f"accepted in silence:\n{text}")


__all__ = ["check_refused", "random_scan"]
