"""The short way of a call: plain arrays and scalars, and one kernel."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Signature
from typing import Any, Optional

import numpy as np

from schedlang.runtime.copies import lies_by_rows
from schedlang.runtime.kernel import Kernel
from schedlang.tracing.arguments import Given, Leaf
from schedlang.tracing.leaves import LEAF, Form, flatten, rebuilt
from schedlang.tracing.program import KernelCall
from schedlang.tracing.specialization import Specialization

# each value of these is traced on its own
_FIXED = (int, bool, str, type(None))
_COMPLEX = (complex, np.complex64, np.complex128)
# scalars of NumPy whose values may change; kernels get the opposite of a negative integer
_SIGNED = (np.int8, np.int16, np.int32, np.int64)
_SCALARS = (np.float32, np.float64, np.bool_, np.uint8, np.uint16, np.uint32, np.uint64)


@dataclass(frozen=True)
class Direct:
    """A specialization that is one call of ``kernel``.

    ``key`` is the key of the specialization. ``inputs`` are positions among the values of a call,
    followed by ``constants``; of those that are ``negative``, the kernel takes the opposite.
    ``outputs`` has the position of the argument that an output is, or ``None``, and ``shapes``
    their shapes and dtypes. The results ``copied`` go into arguments
    afterwards, each a position among the results with a position among the values.

    ``leaves`` are the leaves of ``form``: a position among the results of the kernel, or ``~k`` for
    the argument at ``k``, with the class of a number of Python. No two arrays in ``apart`` share
    memory.
    """

    key: Hashable
    specialization: Specialization
    kernel: Kernel
    inputs: tuple[int, ...]
    constants: tuple[Any, ...]
    negative: tuple[int, ...]
    outputs: tuple[Optional[int], ...]
    shapes: tuple[tuple[Any, Any], ...]
    copied: tuple[tuple[int, int], ...]
    leaves: tuple[tuple[int, Optional[type]], ...]
    form: Form
    written: tuple[int, ...]
    apart: tuple[tuple[int, int], ...]

    def fits(self, values: Sequence[Any]) -> bool:
        """Return whether the arrays of a call may be written."""
        for k in self.written:
            if not values[k].flags.writeable:
                return False
        for a, b in self.apart:
            one, other = values[a], values[b]
            if one is other:
                return False
            if one.base is None and other.base is None:
                continue
            if np.may_share_memory(one, other):
                return False
        return True

    def __call__(self, values: Sequence[Any]) -> Any:
        """Return the result of a call with ``values``, which :meth:`fits`."""
        given = (*values, *self.constants) if self.constants else values
        arguments = [given[k] for k in self.inputs]
        for k in self.negative:
            arguments[k] = -int(arguments[k])
        if self.written:
            arguments += [
                np.empty(*shape) if k is None else values[k]
                for k, shape in zip(self.outputs, self.shapes)
            ]
        result = self.kernel(*arguments)
        results = result if isinstance(result, tuple) else (result,)
        for k, argument in self.copied:
            np.copyto(values[argument], results[k])
        if self.form is LEAF:
            return _leaf(*self.leaves[0], results, values)
        return rebuilt(self.form, [_leaf(k, number, results, values) for k, number in self.leaves])


def _leaf(place: int, number: type | None, results: Sequence[Any], values: Sequence[Any]) -> Any:
    """Return an argument, an array, or a scalar in place of an array without dimensions."""
    if place < 0:
        return values[~place]
    result = results[place]
    if number is not None:
        return number(result)
    return result if result.ndim else result[()]


def plain_key(values: Sequence[Any], names: Sequence[str], static: bool) -> Hashable | None:
    """Return what tells calls apart whose arguments are plain: arrays of NumPy that lie row by row,
    and numbers, strings and ``None``.

    The last arguments have ``names``. Return ``None`` for other arguments, and for floats where
    some arguments are ``static``.
    """
    key: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            if not value.flags.c_contiguous:
                return None
            key.append((value.dtype, value.shape))
        elif kind in _FIXED:
            key.append((kind, value))
        elif kind in _COMPLEX:
            # 0j equals -0j
            key.append((kind, repr(value)))
        elif static:
            return None
        elif kind is float or kind in _SCALARS:
            key.append(kind)
        elif kind in _SIGNED:
            key.append((kind, value < 0))
        else:
            return None
    if names:
        key += names
    return tuple(key) if key else None


def direct(
    signature: Signature,
    args: Sequence[Any],
    named: Mapping[str, Any],
    key: Hashable,
    call: Given,
    specialization: Specialization,
) -> Direct | None:
    """Return the short way of a specialization for plain calls like this one, if it has one.

    ``key`` is the key of the specialization.

    Its program is a single kernel, which makes each result once, and the call has no more to check
    than the memory of arrays that are written.
    """
    program = specialization.program
    if (
        specialization.exponents
        or specialization.missed
        or specialization.changes
        or specialization.draws
        or len(program.steps) != 1
        or not all(lies_by_rows(a) for a in call.arrays if isinstance(a, np.ndarray))
    ):
        return None
    (step,) = program.steps
    places = _places(signature, args, named, call)
    if not isinstance(step, KernelCall) or places is None:
        return None
    count = len(args) + len(named)
    # what the call does not pass: defaults, and arrays of the function
    own = [k for k, place in enumerate(places) if place is None]
    behind = {k: count + at for at, k in enumerate(own)}
    sizes = specialization.sizes_of(call)
    # the sizes are the last inputs
    constants = (*(call.arrays[k] for k in own), *sizes.values(), *program.constants)
    first = program.inputs - len(sizes)
    later = len(sizes) + len(program.constants)
    behind |= {first + at: count + len(own) + at for at in range(later)}
    position = {**behind, **{k: place for k, place in enumerate(places) if place is not None}}

    results = [program.returned[k] for k, a in enumerate(specialization.returns) if a is None]
    results += [program.returned[k] for k, _, _ in specialization.written]
    if len({*results}) != len(results) or not {*results} <= {*step.outputs}:
        return None
    written = [position[argument] for _, argument, _ in specialization.written]
    returned = [a for a in specialization.returns if a is not None]
    if any(place >= count for place in (*written, *(position[a] for a in returned))):
        return None
    result_of = {place: k for k, place in enumerate(step.outputs)}
    outputs: list[int | None] = [None] * len(step.outputs)
    copied = []
    for k, argument, in_place in specialization.written:
        output = result_of[program.returned[k]]
        if in_place:
            outputs[output] = position[argument]
        else:
            copied.append((output, position[argument]))
    arrays = [position[k] for k, leaf in enumerate(call.leaves) if leaf.shape is not None]
    if written and any(place >= count for place in arrays):
        return None
    return Direct(
        key,
        specialization,
        step.kernel,
        tuple(position[k] for k in step.inputs),
        constants,
        tuple(
            at
            for at, k in enumerate(step.inputs)
            if k < len(places) and places[k] is not None and call.leaves[k].negative
        ),
        tuple(outputs),
        tuple((step.kernel.shape_of(p, sizes), p.dtype) for p in step.kernel.signature.outputs),
        tuple(copied),
        tuple(
            (result_of[program.returned[k]] if a is None else ~position[a], number)
            for (k, a), number in zip(enumerate(specialization.returns), specialization.numbers)
        ),
        LEAF if specialization.form == LEAF else specialization.form,
        tuple(written),
        tuple((a, b) for a in written for b in arrays if a != b and not (b in written and b < a)),
    )


def _places(
    signature: Signature, args: Sequence[Any], named: Mapping[str, Any], call: Given
) -> list[int | None] | None:
    """Return the position among the values of a call for each of its leaves.

    It is ``None`` for the leaf of a default. Return ``None`` for a call whose arguments are nested.
    """
    bound = signature.bind(*range(len(args)), **{n: k for k, n in enumerate(named, len(args))})
    places: list[int | None] = []
    for name, part in zip(signature.parameters, call.key):  # type: ignore[call-overload]
        if not isinstance(part, tuple):
            # the value is fixed
            continue
        described = part[1:]
        given, _ = flatten(bound.arguments[name]) if name in bound.arguments else ([], None)
        if given and len(given) != len(described):
            if described:
                return None
            continue
        leaves = zip(given or [None] * len(described), described)
        places += [place for place, leaf in leaves if isinstance(leaf, Leaf)]
    return places if len(places) == len(call.leaves) else None
