"""The functions of one operand of the language, of each element of a tensor.

Type checkers read ``functions.pyi``, which ``pytest tests/test_functions.py --update-golden``
writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.arrays.elementwise import array
from schedlang.compute.tensor import Tensor
from schedlang.expr.functions import FUNCTIONS
from schedlang.language.calls import call
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_tensor


def function(name: str, value: Callable[[Any], Any], returns: str) -> Callable[[Any], Tensor]:
    """Return ``topi.<name>``, which returns ``value`` of each element of a tensor."""

    def of_elements(x: Any) -> Tensor:
        check_tensor(f"topi.{name}", x, "x")
        return array(name, value, x, asked=f"topi.{name}")

    of_elements.__name__ = of_elements.__qualname__ = name
    of_elements.__doc__ = f"Return {returns}, for each element ``x`` of a tensor, in its shape."
    return public(of_elements)


def _of_row(name: str) -> Callable[[Any], Tensor]:
    return function(name, lambda v: call(name, v), FUNCTIONS[name].returns)


# te's round is another one, with ties away from zero
__all__ = [
    f.name
    for f in FUNCTIONS.values()
    if f.returns and f.arity == 1 and f.name not in ("round", "conj", "real", "imag")
]
globals().update({name: _of_row(name) for name in __all__})
