"""The sizes that a computation refuses, and the checks of a loop nest against the sizes of a
call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedlang.compute.tensor import Tensor
from schedlang.errors import CallError, VerifyError
from schedlang.expr.nodes import Expr, Var
from schedlang.index.simplify import to_lin
from schedlang.index.sums import Sum
from schedlang.index.terms import terms_of
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Buffer, walk
from schedlang.ir.size_conditions import SizeCondition, size_conditions
from schedlang.ir.specialize import at_sizes
from schedlang.ir.verify import verify
from schedlang.runtime.advice import short_scans
from schedlang.runtime.parameters import Extent
from schedlang.runtime.size_checks import SizedStorage, given_text, refuse


def sized_storage(nest: Nest) -> SizedStorage:
    """Return the arrays of symbolic sizes that ``nest`` allocates.

    >>> import schedlang as sl
    >>> A = sl.placeholder((sl.var("n"), 4), name="A")
    >>> B = sl.compute(A.shape, lambda i, j: A[i, j] * 2, name="B")
    >>> C = sl.compute(A.shape, lambda i, j: B[i, 3 - j], name="C")
    >>> sized_storage(sl.lower(sl.schedule(C))).arrays
    (('B', 'float32', ('n', 4)),)
    """
    sizes = {*nest.sizes, *(a for a in nest.args if isinstance(a, Var) and a.is_size)}
    arrays: list[tuple[str, str, tuple[Extent, ...]]] = []
    extents: dict[str, Sum] = {}
    for stmt, _ in walk(nest.body):
        if not isinstance(stmt, Alloc) or stmt.buffer.size is not None:
            continue
        buffer = stmt.buffer
        symbolic = {str(e): to_lin(e) for e in buffer.shape if isinstance(e, Expr)}
        # sizes alone do not say how long an extent is that depends on a loop
        if all(leaf in sizes for lin in symbolic.values() for leaf in lin.leaves()):
            extents.update((text, terms_of(lin)) for text, lin in symbolic.items())
            shape = tuple(e if isinstance(e, int) else str(e) for e in buffer.shape)
            arrays.append((buffer.name, buffer.dtype, shape))
    return SizedStorage(tuple(arrays), extents)


def conditions_of(outputs: Sequence[Tensor]) -> tuple[SizeCondition, ...] | None:
    """Return the sizes that make the computation of ``outputs`` read what is not there.

    A scan may have too few rows, too. Return ``None`` if the sizes follow no conditions that can be
    written down. The computation counts, not a schedule of it: lowering adds no reads outside.

    >>> import schedlang as sl
    >>> A = sl.placeholder((sl.var("n"),), name="A")
    >>> last = sl.compute((1,), lambda i: A[A.shape[0] - 1], name="last")
    >>> [condition.where for condition in conditions_of([last])]
    [(((-1, ('n',)), (1, ())),)]
    """
    # a process whose kernels are proven does not import these
    from schedlang.lowering.lower import lower_state
    from schedlang.state.initial import initial_state

    of_reads = size_conditions(lower_state(initial_state(outputs)))
    return None if of_reads is None else (*short_scans(outputs), *of_reads)


def refused_sizes(nest: Nest, outputs: Sequence[Tensor]) -> tuple[SizeCondition, ...] | None:
    """Return the sizes that a file of ``nest``, which computes ``outputs``, refuses.

    Return ``None`` if it cannot refuse all: the sizes follow no conditions, or accesses to what the
    nest stores between stages are not proven.
    """
    argument_buffers = {arg for arg in nest.args if isinstance(arg, Buffer)}
    if any(access.needs_sizes and access.buffer not in argument_buffers for access in verify(nest)):
        return None
    return conditions_of(outputs)


def check_accesses(
    what: str, nest: Nest, conditions: Sequence[SizeCondition], sizes: Mapping[str, int]
) -> None:
    """Raise :class:`~schedlang.errors.CallError` if an access of ``nest`` may leave its array.

    ``what`` runs ``nest``, now at ``sizes``. ``conditions`` are the conditions that a file of its
    computation refuses sizes by.
    """
    refuse(what, conditions, sizes)
    sizes_text = given_text(sizes)
    try:
        unproven = [u for u in verify(at_sizes(nest, sizes)) if u.exact]
    except VerifyError as error:
        why = str(error).removeprefix(f"{nest.name}: ")
        raise CallError(f"{what} cannot run where {sizes_text}: {why}") from None
    if unproven:
        raise CallError(unproven[0].refusal(f"{what} where {sizes_text},"))
