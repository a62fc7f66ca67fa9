"""The full checks of a call's arguments, for all that has a :class:`Signature`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from schedlang.errors import CallError, CallTypeError
from schedlang.expr.dtypes import storage_dtype
from schedlang.runtime.arrays import HEAD, aligned_array, is_jax, like_library, without_expansion
from schedlang.runtime.parameters import Binder, Signature, scalar


class Checked(NamedTuple):
    """The arrays and scalars of a call after all checks, its sizes, and the outputs to return.

    Outputs that are ``new`` in this call become arrays of the library of ``first`` when they are
    returned.
    """

    arrays: list[Any]
    sizes: dict[str, int]
    results: list[Any]
    new: frozenset[int] = frozenset()
    first: Any = None

    @property
    def returned(self) -> Any:
        """The output of the call, or a tuple of several."""
        results = self.results
        if self.new and is_jax(self.first):
            # JAX has no arrays to write into
            results = [
                like_library(self.first, r) if k in self.new else r for k, r in enumerate(results)
            ]
        return results[0] if len(results) == 1 else tuple(results)


def checked_arguments(
    binder: Binder,
    args: Sequence[Any],
    named: Mapping[str, Any],
    view: Callable[[Any, str, bool], Any],
    fresh: Callable[[Any, tuple[int, ...], str], Any],
    elements: Callable[[Any], Any],
    check_sizes: Callable[[dict[str, int]], None],
) -> Checked:
    """Return what a call is given, after all checks.

    ``view`` returns an array of NumPy over an argument, ``fresh`` an output that is not given, in
    the library of the first array, and ``elements`` an array whose elements can be read.
    ``check_sizes`` raises for sizes that cannot be. Raises
    :class:`~schedlang.errors.CallError` or :class:`~schedlang.errors.CallTypeError` for arguments
    that do not fit, with advice.
    """
    try:
        return _checked(binder, args, named, view, fresh, elements, check_sizes)
    except (CallError, CallTypeError) as error:
        # a process whose calls are right imports no advice
        from schedlang.runtime.advice import advice

        hint = advice(binder, args, named, view)
        if not hint:
            raise
        raise type(error)(f"{error}\n  {hint}") from None


def _checked(
    binder: Binder,
    args: Sequence[Any],
    named: Mapping[str, Any],
    view: Callable[[Any, str, bool], Any],
    fresh: Callable[[Any, tuple[int, ...], str], Any],
    elements: Callable[[Any], Any],
    check_sizes: Callable[[dict[str, int]], None],
) -> Checked:
    parameters = binder.signature.parameters
    values = binder.order(args, named)
    arrays: list[Any] = []
    for k, (p, value) in enumerate(zip(parameters, values)):
        if value is None:
            arrays.append(None)
            continue
        if p.is_scalar:
            arrays.append(scalar(value, p.dtype, binder.places[k]))
            continue
        array = value
        if type(value) is not np.ndarray:
            array = view(value, binder.places[k], p.is_output)
            if p.name == HEAD and type(array) is np.ndarray and not p.is_output:
                array = without_expansion(value, array)
        dtype, shape, flags, alignment = binder.needed[k]
        fits = array.dtype == dtype and array.shape == shape and not flags & ~array.flags.num
        if not fits or alignment > 1:
            binder.check(k, array, value)
        arrays.append(array)
    sizes = binder.sizes(arrays) if binder.symbolic else {}
    arrays_given = (v for v, p in zip(values, parameters) if not p.is_scalar)
    first = next((v for v in arrays_given if hasattr(v, "dtype")), None)
    results: list[Any] = []
    new: set[int] = set()
    for k, p in enumerate(parameters):
        if not p.is_output:
            continue
        if values[k] is None:
            new.add(len(results))
            values[k] = fresh(first, binder.shape(p, sizes), p.dtype)
            output = values[k]
            # new tensors of PyTorch start on cache lines
            if p.alignment > 1 and type(output) is np.ndarray:
                output = values[k] = aligned_array(output.shape, output.dtype)
            arrays[k] = output if type(output) is np.ndarray else view(output, p.name, True)
            if p.alignment > 1:
                binder.check(k, arrays[k], output)
        results.append(values[k])
    if sizes:
        binder.check_derived(arrays, sizes)
        check_sizes(sizes)
    binder.check_overlap(arrays)
    if binder.has_facts:
        binder.check_facts([elements(a) for a in arrays], sizes)
    return Checked(arrays, sizes, results, frozenset(new), first)


def flat_arguments(
    signature: Signature, arrays: Sequence[Any], sizes: Mapping[str, int]
) -> list[Any]:
    """Return the arguments of the function that runs: flat arrays, scalars, then sizes."""
    flat: list[Any] = []
    for value, p in zip(arrays, signature.parameters):
        if p.is_scalar:
            flat.append(value)
        elif storage_dtype(p.dtype) != p.dtype:
            flat.append(value.reshape(-1).view(storage_dtype(p.dtype)))
        else:
            flat.append(value.reshape(-1))
    return flat + [sizes[n] for n in signature.sizes]
