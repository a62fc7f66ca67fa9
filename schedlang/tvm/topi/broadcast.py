"""Operations of two tensors, which broadcast by NumPy's rules; either may be a number.

Operands of different dtypes promote as in NumPy 2. Two numbers or expressions give an expression.

>>> import schedlang as sl
>>> A, b = sl.placeholder((3, 4), name="A"), sl.placeholder((4,), name="b")
>>> add(A, b), multiply(A, 2.0)
(Tensor(add: float32[3, 4]), Tensor(multiply: float32[3, 4]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.arrays.elementwise import elementwise
from schedlang.arrays.shaping import broadcast_to as broadcasted
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary
from schedlang.signatures import public
from schedlang.tvm import tir
from schedlang.tvm.topi.rules import operator, tensor
from schedlang.tvm.topi.stages import compute, names_of_user, stage_of


def _operation(name: str, value: Callable[[Any, Any], Any], what: str) -> Callable[[Any, Any], Any]:
    def operation(lhs: Any, rhs: Any) -> Any:
        result = elementwise(name, value, lhs, rhs, asked=f"topi.{name}")
        kinds = {type(v) for v in (lhs, rhs) if isinstance(v, (Tensor, Expr))}
        # of 0-d tensors, too, the result is a tensor
        is_element = kinds == {Tensor} and not isinstance(result, Tensor)
        return compute(name, (), lambda: result) if is_element else result

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"Return {what} of ``lhs`` and ``rhs``, which broadcast."
    return public(operation)


def _binary(name: str, op: str, what: str) -> Callable[[Any, Any], Any]:
    return _operation(name, lambda x, y: binary(op, x, y), what)


def _quotient(x: Any, y: Any) -> Any:
    with names_of_user("te.truncdiv", "topi.divide"):
        return tir.div(x, y)


def _truth(value: Any) -> Any:
    expr = as_expr(value)
    return expr if expr.dtype == "bool" else expr != 0


add = _binary("add", "+", "the sum")
subtract = _binary("subtract", "-", "the difference")
multiply = _binary("multiply", "*", "the product")
divide = _operation("divide", _quotient, "the quotient, of integers rounded toward zero as in te,")
floor_divide = _binary("floor_divide", "//", "the quotient rounded down")
mod = _operation("mod", tir.fmod, "the remainder with the sign of ``lhs``, as in te,")
floor_mod = _binary("floor_mod", "%", "the remainder with the sign of ``rhs``")
maximum = _operation("maximum", lambda x, y: call("max", x, y), "the larger, or NaN,")
minimum = _operation("minimum", lambda x, y: call("min", x, y), "the smaller, or NaN,")
power = _operation("power", lambda x, y: binary("**", x, y), "the power")
left_shift = _binary("left_shift", "<<", "the bits shifted left")
right_shift = _binary("right_shift", ">>", "the bits shifted right, which keeps the sign,")
equal = _binary("equal", "==", "whether they are equal,")
not_equal = _binary("not_equal", "!=", "whether they differ,")
less = _binary("less", "<", "whether the first is less,")
less_equal = _binary("less_equal", "<=", "whether the first is less or equal,")
greater = _binary("greater", ">", "whether the first is greater,")
greater_equal = _binary("greater_equal", ">=", "whether the first is greater or equal,")
bitwise_and = _binary("bitwise_and", "&", "the bits that both have")
bitwise_or = _binary("bitwise_or", "|", "the bits that one has")
bitwise_xor = _binary("bitwise_xor", "^", "the bits that differ")
logical_and = _operation(
    "logical_and", lambda x, y: binary("&", _truth(x), _truth(y)), "whether neither is 0,"
)
logical_or = _operation(
    "logical_or", lambda x, y: binary("|", _truth(x), _truth(y)), "whether one is not 0,"
)
logical_xor = _operation(
    "logical_xor", lambda x, y: binary("^", _truth(x), _truth(y)), "whether one alone is 0,"
)
# the names of TVM before 0.5
broadcast_add, broadcast_sub, broadcast_mul, broadcast_div = add, subtract, multiply, divide
broadcast_mod, broadcast_maximum, broadcast_minimum = mod, maximum, minimum
broadcast_pow = power


@operator(data=tensor())
def broadcast_to(data: Any, shape: Any) -> Tensor:
    """Return ``data`` broadcast to ``shape``.

    >>> import schedlang as sl
    >>> broadcast_to(sl.placeholder((3, 1), name="A"), (2, 3, 4))
    Tensor(broadcast: float32[2, 3, 4])
    """
    with names_of_user("np.broadcast_to", "topi.broadcast_to"):
        return stage_of(broadcasted(data, shape), data)
