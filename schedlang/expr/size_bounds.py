"""The values that a symbolic size may have: as comparisons, and in words."""

from __future__ import annotations


def bounds(name: str, least: int, most: int | None) -> list[tuple[str, int, str]]:
    """Return the operator and the number that refuse a size, with the rule in words, by bound.

    >>> bounds("t", 0, 10)
    [('<', 0, 'sizes must be 0 or more'), ('>', 10, 't must be 10 or less')]
    >>> bounds("n", 1, None)
    [('<', 1, 'n must be 1 or more')]
    """
    lower = "<", least, f"{name if least else 'sizes'} must be {least} or more"
    return [lower] if most is None else [lower, (">", most, f"{name} must be {most} or less")]


def broken_bound(name: str, size: int, least: int, most: int | None) -> str:
    """Return the rule that ``size`` breaks, ``""`` if it is within its bounds.

    >>> broken_bound("t", 11, 0, 10), broken_bound("t", 10, 0, 10)
    ('t must be 10 or less', '')
    """
    for operator, number, rule in bounds(name, least, most):
        if size < number if operator == "<" else size > number:
            return rule
    return ""


def no_value(place: str, length: int | str, extent: str, size: str, factor: int) -> str:
    """Return that ``extent`` is ``length`` at no value of ``size``.

    ``extent`` is ``factor * size``, or something else where ``factor`` is 0.

    >>> no_value("dimension 0 of x", 7, "2*n", "n", 2)
    'dimension 0 of x is 7, but must be a multiple of 2: it is 2*n'
    >>> no_value("dimension 0 of x", 7, "n*n", "n", 0)
    'dimension 0 of x is 7, but n*n has that value for no n'
    """
    if factor:
        return f"{place} is {length}, but must be a multiple of {factor}: it is {extent}"
    return f"{place} is {length}, but {extent} has that value for no {size}"
