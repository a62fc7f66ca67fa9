"""Reductions with a combiner of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

import numpy as np

from schedlang.compute.combiner_laws import exceptions_of
from schedlang.compute.read import Read
from schedlang.compute.reduce import Reduction, reduction, source_of
from schedlang.compute.reducer import Reducer
from schedlang.errors import ComputeError, ComputeTypeError, SchedlangError, explain
from schedlang.expr import dtypes
from schedlang.expr.evaluate import evaluate
from schedlang.expr.names import check_name
from schedlang.expr.nodes import Axis, Const, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.language.construct import as_expr, const, convert
from schedlang.language.foreign import functions_of_user
from schedlang.signatures import public


@public
def comm_reducer(
    fcombine: Callable[..., Any],
    fidentity: Callable[..., Any],
    name: str = "reduce",
    *,
    samples: Sequence[Any] | None = None,
    trusted: bool = False,
    gradient: str | None = None,
) -> Callable[..., Reduction]:
    """Return a custom reduction that combines with ``fcombine(x, y)`` from ``fidentity(dtype)``.

    For tuples, ``x`` and ``y`` are tuples and ``fidentity`` takes one dtype for each part. An
    identity is any expression of a constant value.

    The combiner must be commutative and associative. Both are tested on states that the reduction
    can have: values of what it reduces, folded from the identity. A combiner that fails raises
    :class:`~schedlang.errors.ComputeError`. One failure is allowed: a combiner may fail to commute
    where the values it compares are equal. Then the first element wins while a schedule keeps the
    order, and a step that changes the order warns (:class:`~schedlang.errors.OrderWarning`). A step
    that adds partial results warns if the result depends on the identity that they start from.

    ``samples`` is a list of elements (numbers, or tuples of them) to test in place of sampled ones,
    for a combiner that is valid only for certain inputs. ``trusted`` skips the tests.

    ``gradient="fold"`` says that ``sl.gradient`` may differentiate the combiner, as it stands, in
    each step of the reduction. Without it, ``sl.gradient`` refuses the stage unless a rule is
    given.

    >>> multiply = comm_reducer(lambda x, y: x * y, lambda t: 1.0, name="multiply")
    """
    check_name(name, "a reducer")
    _check_functions(name, fcombine, fidentity)
    if not isinstance(trusted, bool):
        raise ComputeTypeError(f"reducer {name}: trusted is {trusted!r}; give True or False")
    if gradient not in (None, "fold"):
        raise ComputeError(
            f'reducer {name}: gradient is {gradient!r}; give "fold" to differentiate the combiner '
            "step by step, or nothing"
        )

    return _CustomReducer(name, fcombine, fidentity, samples, trusted, gradient or "")


@dataclass(frozen=True, eq=False)
class _CustomReducer:
    """The result of :func:`comm_reducer`; it pickles if its functions do."""

    name: str
    fcombine: Callable[..., Any]
    fidentity: Callable[..., Any]
    samples: Optional[Sequence[Any]]
    trusted: bool
    gradient: str

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(
        self, expr: Any, axis: Any = None, where: Any = None, init: Any = None
    ) -> Reduction:
        """Return the reduction of an expression, or of a tuple of them, over axes."""
        name = self.name
        parts = expr if isinstance(expr, (tuple, list)) else (expr,)
        sources = tuple(source_of(p, None) for p in parts)
        if not sources:
            raise ComputeError(
                f"sl.{name}((), ...): there is nothing to reduce; give an expression, or a tuple "
                "of one or more"
            )
        reducer = _custom(name, self.fcombine, self.fidentity, [s.dtype for s in sources])
        reduced = reduction(reducer, sources, axis, where, init, len(sources))
        if not self.trusted:
            exceptions = exceptions_of(
                reducer, reduced.sources, reduced.where, reduced.init, self.samples
            )
            reducer = replace(reducer, **exceptions._asdict())
        reduced.reducer = replace(
            reducer, vouched=self.trusted or self.samples is not None, gradient=self.gradient
        )
        return reduced


def _check_functions(name: str, fcombine: Any, fidentity: Any) -> None:
    """Raise unless ``fcombine`` is a function of two operands, and ``fidentity`` a function."""
    examples = {"fcombine": "lambda x, y: x + y", "fidentity": "lambda dtype: 0"}
    for asked, function in (("fcombine", fcombine), ("fidentity", fidentity)):
        if not callable(function):
            raise ComputeTypeError(
                f"reducer {name}: {asked} is {function!r}, not a function; write e.g. "
                f"{asked}={examples[asked]}"
            )
    if not _accepts(fcombine, 2):
        raise ComputeTypeError(
            f"reducer {name}: fcombine cannot be called as fcombine(x, y); it combines two values, "
            f"e.g. {examples['fcombine']}, which are tuples if the reduction is of tuples"
        )


def _custom(
    name: str, fcombine: Callable[..., Any], fidentity: Callable[..., Any], kinds: Sequence[str]
) -> Reducer:
    if any(dtypes.is_complex(t) for t in kinds):
        raise ComputeTypeError(
            explain(
                f"reducer {name}",
                "a reducer of the user's combines no complex numbers",
                "Reduce the tuple (z.real, z.imag), or use sl.sum or sl.prod.",
            )
        )
    lhs = tuple(Var(f"x{k}", t, weak=False) for k, t in enumerate(kinds))
    rhs = tuple(Var(f"y{k}", t, weak=False) for k, t in enumerate(kinds))
    combined = _combined(name, fcombine, lhs, rhs)
    results = combined if isinstance(combined, (tuple, list)) else (combined,)
    identities = _called(name, fidentity, kinds)
    starts = identities if isinstance(identities, (tuple, list)) else (identities,)
    if len(results) != len(kinds) or len(starts) != len(kinds):
        raise ComputeError(
            f"reducer {name}: it has {len(kinds)} operand{'s' * (len(kinds) != 1)}, but fcombine "
            f"returns {len(results)} and fidentity {len(starts)}; return one value for each"
        )
    result = tuple(
        _check_result(name, _returned(name, "fcombine", r), t) for r, t in zip(results, kinds)
    )
    _refuse_others(name, result, {*lhs, *rhs})
    identity = tuple(
        _identity(name, _returned(name, "fidentity", v), t) for v, t in zip(starts, kinds)
    )
    return Reducer(name, lhs, rhs, result, identity)


def _combined(name: str, fcombine: Any, lhs: tuple[Var, ...], rhs: tuple[Var, ...]) -> Any:
    single = len(lhs) == 1
    try:
        with functions_of_user():
            return fcombine(lhs[0], rhs[0]) if single else fcombine(lhs, rhs)
    except (TypeError, IndexError) as error:
        if isinstance(error, SchedlangError):
            raise
        operands = "x and y are single values" if single else f"x and y have {len(lhs)} parts each"
        raise ComputeTypeError(
            explain(
                f"reducer {name}",
                f"fcombine(x, y) fails with {type(error).__name__}: {error}",
                f"Here {operands}, since that is how many values the reduction is given.",
            )
        ) from error


def _called(name: str, fidentity: Any, kinds: Sequence[str]) -> Any:
    if _accepts(fidentity, len(kinds)):
        return fidentity(*kinds)
    if _accepts(fidentity, 1):
        return fidentity(kinds[0])
    count = len(kinds)
    example = "lambda dtype: 0" if count == 1 else "lambda *dtypes: (0, ...)"
    raise ComputeTypeError(
        f"reducer {name}: fidentity cannot be called with {count} dtype{'s' * (count != 1)}; it "
        f"takes the dtype of each value, e.g. {example}"
    )


def _returned(name: str, function: str, value: Any) -> Expr:
    try:
        return as_expr(value)
    except ComputeTypeError as error:
        raise ComputeTypeError(f"the result of {function} of reducer {name}: {error}") from None


def _refuse_others(name: str, result: tuple[Expr, ...], operands: set[Var]) -> None:
    """Raise if a combiner uses an axis, a size, a scalar or a tensor."""
    for node in postorder(result):
        leaf = isinstance(node, (Axis, Read)) or (isinstance(node, Var) and node not in operands)
        if leaf:
            raise ComputeError(
                explain(
                    f"reducer {name}",
                    f"fcombine uses {node}, but may use only its operands and constants",
                    f"Use {node} in the expression to reduce, or in a later stage that reads the "
                    "result. Or reduce tuples that have it as a part.",
                )
            )


def _accepts(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        # a function in C may not tell its parameters
        return True
    return True


def _check_result(name: str, value: Expr, dtype: str) -> Expr:
    if value.weak:
        return convert(value, dtype)
    if value.dtype != dtype:
        raise ComputeTypeError(
            f"reducer {name}: fcombine returns {value.dtype} for an operand of {dtype}; cast it "
            f"with sl.cast(..., {dtype!r})"
        )
    return value


def _identity(name: str, unit: Expr, dtype: str) -> Const:
    """Return the value of a constant expression, in ``dtype``."""
    if any(isinstance(n, (Axis, Var, Read)) for n in postorder([unit])):
        raise ComputeError(
            f"reducer {name}: the identity {unit} is not a constant; give a constant, and use "
            "init= to start a reduction from another value"
        )
    with np.errstate(all="ignore"):
        return const(evaluate(unit, {}).item(), dtype)


__all__ = ["comm_reducer"]
