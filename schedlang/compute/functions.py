"""The functions of one operand, and of two, that rows of :mod:`schedlang.expr.functions` define.

Type checkers read ``functions.pyi``, which ``pytest tests/test_functions.py --update-golden``
writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.compute.whole import elementwise, traceable
from schedlang.expr.functions import FUNCTIONS, Function
from schedlang.language.calls import call


def _public(row: Function) -> Callable[..., Any]:
    def of_one(x: Any) -> Any:
        return elementwise(row.name, lambda v: call(row.name, v), x)

    def of_two(x: Any, y: Any) -> Any:
        return elementwise(row.name, lambda a, b: call(row.name, a, b), x, y)

    function: Callable[..., Any] = of_one if row.arity == 1 else of_two
    function.__name__ = function.__qualname__ = row.name
    integers = "Integers are computed in the float dtype NumPy would use.\n    "
    function.__doc__ = (
        f"Return {row.returns}.\n\n    {integers if row.rule == 'float' else ''}"
        "For a whole tensor, return a tensor.\n    "
    )
    return traceable(function)


__all__ = [f.name for f in FUNCTIONS.values() if f.returns]
globals().update({name: _public(FUNCTIONS[name]) for name in __all__})
