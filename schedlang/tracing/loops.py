"""``fori_loop``: a loop whose body is traced once, as a scan or as a loop on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, count
from types import CodeType
from typing import Any

import numpy as np

from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Expr, Var
from schedlang.index.linear import Lin, number_or_expr
from schedlang.index.simplify import to_lin
from schedlang.language.construct import as_expr, cast
from schedlang.signatures import public
from schedlang.tracing.array import TracedArray, array_of, plain, wrap
from schedlang.tracing.carried import (
    held,
    is_python_bool,
    is_weak,
    is_wider,
    python_numbers,
    widened,
)
from schedlang.tracing.carry_checks import LoopSource, check_aliases, check_fits, title_of
from schedlang.tracing.conditional import write_where
from schedlang.tracing.leaves import Form, flatten, is_traced, rebuilt
from schedlang.tracing.lifted import lifted
from schedlang.tracing.loop_bounds import bound
from schedlang.tracing.naming import name_stages
from schedlang.tracing.origins import origin
from schedlang.tracing.powers import refuse_exponent
from schedlang.tracing.python_numbers import bool_of_numpy, expression_of
from schedlang.tracing.rebound import is_array, new_or_before
from schedlang.tracing.recurrence import ends_early, host_reason, much_work, recurrence
from schedlang.tracing.remarks import remark
from schedlang.tracing.row_scans import row_scan
from schedlang.tracing.serial.kernel import refusal
from schedlang.tracing.serial.order import in_place, moving
from schedlang.tracing.spans import End, range_of
from schedlang.tracing.trace import (
    Carry,
    HostLoop,
    Trace,
    Value,
    run_as_current,
    running_trace,
    stand_in,
)
from schedlang.tracing.triangular import triangular


@public
def fori_loop(lo: int, hi: int, body: Callable[..., Any] | None = None, init: Any = None) -> Any:
    """Run ``body`` for each integer from ``lo`` to ``hi``, ``hi`` excluded.

    With ``init``, an array or a tuple, list or dict of them, ``body(i, carry)`` returns the next
    carry, of the same shapes and dtypes, and the last one is returned. Without it, ``body(i)``
    returns nothing and assigns to elements of arrays that were made before the loop:
    ``x[1:-1] = ...``.

    Above a function, ``@sl.fori_loop(lo, hi)`` runs the loop where it stands.

    In a function under :func:`~schedlang.jit` the body is traced once. A body of little work
    becomes the step of a scan, or a serial loop, inside of the kernel; any other becomes kernels of
    its own, which run in a loop on the host. ``i`` may be used in arithmetic and as an index.
    Anywhere else this is Python's ``for``.

    Raises :class:`~schedlang.errors.ComputeTypeError` for bounds that are not Python integers, and
    :class:`~schedlang.errors.ComputeError` for a carry whose shapes or dtypes change.

    Source: JAX's ``fori_loop``, with NumPy's assignments.

    >>> import schedlang as sl
    >>> fori_loop(1, 4, lambda i, x: x * i, 1)
    6
    """
    if body is None:
        return lambda given: fori_loop(lo, hi, given, init)
    trace = running_trace()
    lo, hi = bound(lo, "lo"), bound(hi, "hi")
    if trace is None:
        for i in range(lo, hi):
            if init is None:
                body(i)
            else:
                init = body(i, init)
        return init
    if not callable(body):
        raise ComputeTypeError(
            f"sl.fori_loop({lo}, {hi}, {body!r}): the body must be a function of i, or of i and "
            "the carry"
        )
    if lo >= hi:
        return init
    place = trace.place()
    where = f" at line {place.line}" if place else ""
    code = getattr(body, "__code__", None)
    return run_loop(trace, lo, hi, body, init, code, f"sl.fori_loop({lo}, {hi}){where}")


def run_loop(
    trace: Trace,
    lo: int,
    hi: End,
    body: Callable[..., Any],
    init: Any,
    code: CodeType | None,
    head: str,
    source: LoopSource | None = None,
    stops: bool = False,
) -> Any:
    """Return the carry after a loop over ``body``, whose statements have ``code``.

    If the loop ``stops``, iterations change nothing once the first part of the carry is false.
    ``head`` names the loop in ``f.loops``. ``source`` describes a loop of the user's source. One
    that is traced for the shapes of its names alone has no head, and returns ``init``.
    """
    leaves, form = flatten(init)
    starts = [_value(leaf) for leaf in leaves]
    loop, passed, numbers = _fitted(trace, lo, hi, body, leaves, starts, form, code, source)
    if not head:
        return init
    if source is not None:
        loop = replace(loop, user_index=source.index, stops=stops)
    values = python_numbers(_values(trace, loop, head, source is not None), numbers)
    for storage, value in zip(loop.storages, values[len(starts) :]):
        write_where(trace, storage, value)
    for k, (leaf, carry) in enumerate(zip(leaves, loop.carries)):
        if passed[k] == k and is_array(leaf) and carry.leaving is not _element(carry.entering):
            leaf.assign(values[k])
    arrays: dict[tuple[int, int], Any] = {}
    if isinstance(hi, int):
        arrays = {(k, hi - lo): leaf for k, leaf in enumerate(leaves) if is_array(leaf)}
    elif any(k != place for k, place in enumerate(passed) if place >= 0):
        raise ComputeError(f"{loop.body.title}: arrays of the carry change places")
    results = []
    for k, value in enumerate(values[: len(leaves)]):
        if not isinstance(hi, int):
            same = passed[k] == k and is_array(leaves[k])
            results.append(leaves[k] if same else _wrapped(value, leaves[k], _any_of(lo, hi)))
            continue
        place = origin(passed, k, hi - lo)
        if place not in arrays:
            arrays[place] = _like(leaves[k], value)
        results.append(arrays[place])
    return rebuilt(form, results)


def run_while(
    trace: Trace,
    test: Any,
    step: Callable[..., Any],
    init: Sequence[Any],
    code: CodeType,
    source: LoopSource,
) -> Sequence[Any]:
    """Return the carry after ``step`` ran as long as ``test`` holds, which it returns anew.

    The first name of its ``source`` stands for the test.
    """

    def body(_: Any, carry: Any) -> Any:
        again, parts = step(carry[1:])
        return (_truth(again), *parts)

    leaves, form = flatten((_truth(test), *init))
    starts = [_value(leaf) for leaf in leaves]
    loop, passed, numbers = _fitted(trace, 0, 1, body, leaves, starts, form, code, source)
    loop = replace(loop, tested=True)
    values = python_numbers(_values(trace, loop, f"line {source.line}", True), numbers)
    for storage, value in zip(loop.storages, values[len(starts) :]):
        write_where(trace, storage, value)
    results = []
    for k, (leaf, value) in enumerate(zip(leaves, values)):
        if passed[k] == k and is_array(leaf):
            leaf.assign(value)
            results.append(leaf)
        else:
            results.append(_wrapped(value, leaf, leaves[0]))
    return rebuilt(form, results)[1:]


def _wrapped(value: Value, before: Any, ran: Any) -> Any:
    """Return the array that a loop leaves in a name, which had one ``before``, if the loop ``ran``.
    """
    new = _like(before, value)
    return new_or_before(ran, new, before) if is_traced(ran) and is_array(before) else new


def _like(leaf: Any, value: Value) -> Any:
    """Return a value as an array of the trace if ``leaf`` is an array, which may have 0 axes."""
    return array_of(value) if is_array(leaf) or isinstance(leaf, np.ndarray) else wrap(value)


def _any_of(lo: int, hi: End) -> Any:
    """Return whether a loop has an iteration: true, or a scalar of bool over symbolic lengths."""
    least, _ = range_of(hi)
    return True if least is not None and least > lo else wrap(as_expr(hi) > lo)


def _truth(value: Any) -> Any:
    value = value if isinstance(value, TracedArray) else np.asarray(value)[()]
    return value if value.dtype == bool else value != 0


def _fitted(
    trace: Trace,
    lo: int,
    hi: End,
    body: Callable[..., Any],
    leaves: list[Any],
    starts: list[Value],
    form: Form,
    code: CodeType | None,
    source: LoopSource | None,
) -> tuple[HostLoop, list[int], set[int]]:
    """Return what :func:`_traced` does once each Python number has the dtype that follows it.

    The third result has the parts of the carry that are numbers of Python in all iterations.
    """
    loop, passed = _traced(trace, lo, hi, body, leaves, starts, form, code, source)
    first = starts
    while True:
        known, starts = starts, widened(starts, loop)
        if all(a is b for a, b in zip(known, starts)):
            break
        loop, passed = _traced(trace, lo, hi, body, leaves, starts, form, code, source)
    while any(is_wider(v, c) for v, c in zip(starts, loop.carries)):
        # a number of NumPy has the dtype that it has after an iteration from the beginning on
        starts = [
            cast(v, c.leaving.dtype) if is_wider(v, c) and isinstance(v, Expr) else v
            for v, c in zip(starts, loop.carries)
        ]
        loop, passed = _traced(trace, lo, hi, body, leaves, starts, form, code, source)
    while any(is_python_bool(v) and not is_python_bool(c.leaving)
              for v, c in zip(starts, loop.carries)):  # fmt: skip
        # a bool of Python that one of NumPy follows
        starts = [
            bool_of_numpy(v)
            if isinstance(v, Expr) and is_python_bool(v) and not is_python_bool(c.leaving)
            else v
            for v, c in zip(starts, loop.carries)
        ]
        loop, passed = _traced(trace, lo, hi, body, leaves, starts, form, code, source)
    numbers = {k for k, v in enumerate(starts) if is_weak(v) or is_python_bool(v)}
    loop = held(loop, first)
    for k, carry in enumerate(loop.carries[: len(starts)]):
        check_fits(carry, k, loop.body, source)
    return loop, passed, numbers


def _typed(value: Value, dtype: str) -> Value:
    """Return a value; a Python number has the ``dtype`` that the body knows."""
    return cast(value, dtype) if isinstance(value, Expr) and is_weak(value) else value


def _values(trace: Trace, loop: HostLoop, head: str, from_source: bool) -> list[Value]:
    """Return the values of the carries after a loop, which becomes a scan or runs on the host.

    One ``from_source`` becomes a map or a reduction if its iterations need no order.
    """
    ordered = ""
    if not loop.tested and not moving(loop):
        trace.forms.append(f"{head}: left out, since nothing that it computes is used")
        return [c.start for c in loop.carries]
    if loop.stops:
        ordered = "elements decide where it ends"
    elif from_source and not loop.tested and not loop.body.loops:
        unordered = lifted(trace, loop)
        if unordered.values is not None:
            name_stages(loop.body)
            said = f"{head}: {unordered.form}"
            trace.forms += [said, *_inner(loop)]
            remark(loop, unordered.values, said)
            return unordered.values
        triangle = triangular(loop)
        if triangle is not None:
            name_stages(loop.body)
            trace.forms.append(f"{head}: a triangular map")
            remark(loop, triangle, trace.forms[-1])
            return triangle
        ordered = unordered.reason
        by_rows = None if trace.rule.host else row_scan(loop)
        if by_rows is not None:
            name_stages(loop.body)
            rows = f"{_rows(loop)}, since {ordered}"
            trace.forms += [f"{head}: {rows}", *_inner(loop)]
            remark(loop, by_rows, f"{head}: {rows}")
            return by_rows
    reason = host_reason(loop, trace.rule)
    if loop.tested:
        reason = "the number of its iterations depends on elements"
    elif loop.stops and ends_early(trace.rule):
        reason = much_work(loop) or ordered
    if ends_early(trace.rule) and (in_place(loop) or (reason and not much_work(loop))):
        why = refusal(loop)
        if not why:
            inner = "its body has a serial loop" if loop.body.loops else ""
            since = inner or ordered or reason or "it assigns to parts of arrays"
            loop = replace(loop, form=f"{head}: serial inside the kernel, since {since}")
            trace.forms += [loop.form, *_inner(loop)]
            trace.loops.append(loop)
            remark(loop, [c.leaving for c in loop.carries], loop.form)
            return [_element(c.result) for c in loop.carries]
        reason = reason and why
    if reason and not trace.rule.host:
        raise ComputeError(
            explain(
                f"sl.trace({trace.title}, ...): {head}",
                f"{reason}, so it becomes kernels of its own, not a tensor",
                f"Trace the body alone, or take the kernels of sl.jit({trace.title}).",
            )
        )
    rows = _rows(loop) + (f", since {ordered}" if ordered else "")
    said = f"{head}: {f'on the host, since {reason}' if reason else rows}"
    trace.forms += [said, *_inner(loop)]
    if reason:
        trace.loops.append(loop)
        remark(loop, [c.leaving for c in loop.carries], said)
        return [_element(c.result) for c in loop.carries]
    name_stages(loop.body)
    values = [_element(t) for t in recurrence(loop)]
    remark(loop, values, said)
    return values


def _rows(loop: HostLoop) -> str:
    return f"a scan of {number_or_expr(to_lin(loop.hi) - loop.lo)} rows"


def _inner(loop: HostLoop) -> list[str]:
    """Return the lines about the loops in the body of a loop."""
    return [f"  {line}" for line in loop.body.forms]


def _traced(
    trace: Trace,
    lo: int,
    hi: End,
    body: Callable[..., Any],
    leaves: list[Any],
    starts: list[Value],
    form: Form,
    code: CodeType | None,
    source: LoopSource | None,
) -> tuple[HostLoop, list[int]]:
    """Return the loop over ``body``, whose carry begins with ``starts``, the values of ``leaves``.

    The index gets the name of the body's parameter, or of the ``source``.

    The second result has an entry for each part that the body returns: the position of the part
    that it takes which is the same array, or ``~j`` if the array is new and is also part ``j``.

    Arrays around the body that it assigns to are carries, too.
    """
    title = title_of(trace, source)
    inner = Trace(title, code, trace, statements=trace.statements, rule=trace.rule)
    inner.closed = trace.closed
    names = () if code is None else code.co_varnames[: code.co_argcount]
    own = "i" if source is None else source.index[0]
    own = names[0] if names and not names[0].startswith("_") else own
    # two indices of one kernel need two names
    used = {var.name for var in trace.indices()}
    index = Var(next(n for n in chain([own], map(f"{own}{{}}".format, count(1))) if n not in used))
    least = max(lo, 0)
    inner.spans[index] = (Lin.of(least), to_lin(hi) - 1 - min(lo, 0))
    inner.index[index] = (least, (range_of(hi)[1] or 0) - 1 - min(lo, 0))
    with run_as_current(inner):
        at = wrap(index if lo >= 0 else index + lo)
        stands = [stand_in(v, f"carry{k}") for k, v in enumerate(starts)]
        parts = [_like(leaf, value) for leaf, (_, value) in zip(leaves, stands)]
        carry = rebuilt(form, parts)
        returned = body(at) if form.kind is None else body(at, carry)
        next_leaves, left_form = flatten(returned)
        if form.kind is None and returned is not None:
            raise ComputeError(
                explain(
                    title,
                    "it returns a value, but the loop has no init, so nothing takes it",
                    "Return nothing and assign to arrays in place, or give init= and let the body "
                    "take and return the carry.",
                )
            )
        if left_form != form:
            raise ComputeError(
                explain(
                    title,
                    f"it takes a carry {form} and returns {left_form}",
                    "Return as many arrays as the body takes, in the same tuple, list or dict.",
                )
            )
        leaving = [_value(new) for new in next_leaves]
        passed = [_place_of(k, next_leaves, parts) for k in range(len(next_leaves))]
        same = [k == place for k, place in enumerate(passed)]
        check_aliases(inner, leaves, parts, [value for _, value in stands], same, source)
    inner.check_sure()
    carries = [
        Carry(start, entering, value, stand_in(start, f"after{k}")[0])
        for k, (start, (entering, _), value) in enumerate(zip(starts, stands, leaving))
    ]
    changed = tuple(s for s in inner.outer if s in inner.written)
    for storage in changed:
        if storage in inner.exponents:
            refuse_exponent(
                f"a power in {inner.exponents[storage]} of {title}",
                "the body assigns to the exponent",
            )
    for storage in changed:
        before = trace.read(storage)
        result, _ = stand_in(before, f"after{len(carries)}")
        carries.append(Carry(before, inner.outer[storage], inner.values[storage], result))
    around = ((s, t) for s, t in inner.outer.items() if s not in inner.written)
    read = tuple((_typed(trace.read(s), t.dtype), t) for s, t in around)
    return HostLoop(lo, hi, index, inner, tuple(carries), read, changed), passed


def _place_of(k: int, returned: list[Any], entering: list[TracedArray]) -> int:
    """Return where the array of part ``k`` is among those that a body takes, or ``~j`` if it is new
    and first stands at ``j`` among those that it returns.
    """
    new = returned[k]
    if not isinstance(new, TracedArray) or new.is_view:
        return ~k
    for j, old in enumerate(entering):
        if new.storage is old.storage:
            return j
    same = (
        j
        for j, other in enumerate(returned)
        if isinstance(other, TracedArray) and not other.is_view and other.storage is new.storage
    )
    return ~next(same)


def _element(tensor: Tensor) -> Value:
    return tensor if tensor.ndim else tensor[()]


def _value(leaf: Any) -> Value:
    value = plain(leaf)
    return value if isinstance(value, (Tensor, Expr)) else expression_of(value)


__all__ = ["fori_loop"]
