"""Operations and constants for computations with special values, as Python text."""

from __future__ import annotations

from random import Random

CONSTANTS = ("0.0", "-0.0", 'float("inf")', 'float("-inf")')


def special_pair(rng: Random, a: str, b: str, dtype: str, exact: bool) -> str:
    """Return an operation of two numbers that special values decide, for any but complex ones.

    ``exact`` says that neither was rounded: only then may the operation be discontinuous.
    """
    if not dtype.startswith(("float", "bfloat")):
        # by zero, by negative counts and powers, and beyond the width
        return rng.choice([f"({a} {op} {b})" for op in ("//", "%", "<<", ">>", "**")])
    forms = [f"sl.max({a}, {c})" for c in CONSTANTS] + [f"sl.min({c}, {a})" for c in CONSTANTS]
    forms += [f"np.{name}({a}, {b})" for name in ("fmax", "fmin")]
    forms.append(f"np.clip({a}, {rng.choice(CONSTANTS)}, 1)")
    if exact:
        forms += [f"np.fmod({a}, {b})", f"({a} % {b})", f"np.copysign({a}, {b})"] * 3
        forms += [f"np.sign({a})", f"np.heaviside({a}, {b})"]
        forms.append(f"sl.select(np.signbit({a}), {b}, {a})")
    return rng.choice(forms)


__all__ = ["special_pair"]
