"""The parameters of a kernel as data, and the checks of a call's arguments.

What only some calls need is imported when it is asked for: a process that loads a network imports
no tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Optional, Union

import numpy as np

from schedlang.errors import CallError, CallTypeError
from schedlang.expr import dtypes
from schedlang.expr.bfloat import as_float32, round_to_bfloat16
from schedlang.expr.dtypes import array_dtype, storage_dtype
from schedlang.expr.size_bounds import broken_bound, no_value
from schedlang.index.sums import Sum, solve, value_of
from schedlang.ir.array_rules import ADDRESS, Needed, broken_rule, flags_needed, pairs_apart
from schedlang.runtime.constant_arrays import CheckedArrays

Extent = Union[int, str]


@dataclass(frozen=True)
class Parameter:
    """One parameter; ``shape`` has integers, names of sizes, and expressions of sizes as text.

    ``monotonic`` and ``within`` are the facts that ``sl.assume`` declared of its elements. An array
    starts at a multiple of ``alignment`` bytes.
    """

    name: str
    dtype: str
    shape: tuple[Extent, ...]
    is_output: bool = False
    is_scalar: bool = False
    monotonic: bool = False
    within: Optional[tuple[Extent, Extent]] = None
    alignment: int = 1

    @property
    def has_facts(self) -> bool:
        return self.monotonic or self.within is not None

    @property
    def fixed(self) -> tuple[int, ...] | None:
        """The shape, if no sizes are in it."""
        whole = tuple(e for e in self.shape if isinstance(e, int))
        return whole if len(whole) == len(self.shape) else None

    @property
    def needed(self) -> Needed:
        """The rules for the array."""
        dtype, flags = array_dtype(self.dtype), flags_needed(self.is_output)
        return Needed(dtype, self.fixed, flags, self.alignment)

    @property
    def is_plain(self) -> bool:
        """True for an array whose memory and shape are all that a call checks, and passes on."""
        return self.is_whole and storage_dtype(self.dtype) == self.dtype

    @property
    def is_whole(self) -> bool:
        """True for an array whose memory and shape are all that a call checks."""
        whole = self.fixed is not None and not self.is_scalar and not self.has_facts
        return whole and self.alignment == 1

    @property
    def parts(self) -> np.dtype | None:
        """The dtype of the parts of complex elements, which a call passes on."""
        return np.dtype(storage_dtype(self.dtype)) if dtypes.is_complex(self.dtype) else None

    @property
    def is_plain_scalar(self) -> bool:
        """True for a scalar that is passed on as a NumPy scalar of its dtype."""
        return self.is_scalar and self.dtype not in dtypes.SHORT_FLOATS

    @property
    def is_size(self) -> bool:
        """True if this is a size passed as an argument: an integer variable."""
        return self.is_scalar and self.dtype == "int64"

    def __str__(self) -> str:
        if self.is_scalar:
            return f"{self.name}: {self.dtype}"
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Signature:
    """All parameters in order, the sizes found from shapes, and which arrays may be the same.

    ``in_place`` has pairs of positions, of an output and of an input that may be the same array.
    ``extents`` gives derived extents (such as ``n + 1`` or ``n//2``) as data. ``solved`` lists
    sizes in the order in which they are found, each with the position and the dimension of the
    argument that determines it. ``single`` gives, for a derived extent of one size, that size.
    ``least`` and ``most`` have the bounds of sizes that have other bounds than 0 and none.
    """

    name: str
    parameters: tuple[Parameter, ...]
    sizes: tuple[str, ...]
    in_place: frozenset[tuple[int, int]]
    extents: Mapping[str, Sum]
    solved: tuple[tuple[str, int, int], ...]
    single: Mapping[str, str]
    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if not p.is_output)

    @property
    def outputs(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.is_output)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The positions of each output and of each other array, which are apart or in place."""
        return pairs_apart([None if p.is_scalar else p.is_output for p in self.parameters])

    @property
    def is_plain(self) -> bool:
        """True if all parameters are plain arrays, and no sizes are passed on."""
        return not self.sizes and all(p.is_plain for p in self.parameters)

    @property
    def given_sizes(self) -> tuple[str, ...]:
        """The names of all sizes of a call: those passed as arguments, then those from shapes."""
        passed = [p.name for p in self.parameters if p.is_size]
        return tuple(dict.fromkeys((*passed, *self.sizes)))

    def bounds(self, size: str) -> tuple[int, int | None]:
        """Return the least and the largest value of a size."""
        return self.least.get(size, 0), self.most.get(size)


class Binder:
    """The checks of arguments against a signature.

    Between calls it remembers which constant arrays have the facts that were declared of them.
    """

    def __init__(self, signature: Signature, what: str = "kernel") -> None:
        self.signature = signature
        self.what = what
        # a size may be an argument that no shape uses
        self.symbolic = any(p.fixed is None or p.is_size for p in signature.parameters)
        self.has_facts = any(p.has_facts for p in signature.parameters)
        self.places = [
            f"{self.title}: argument {k} ({p})" for k, p in enumerate(signature.parameters)
        ]
        self.pairs = signature.pairs
        self._checked = CheckedArrays()

    @cached_property
    def needed(self) -> list[Needed]:
        """The rules for the array of each parameter."""
        return [p.needed for p in self.signature.parameters]

    def order(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return all arguments in parameter order; outputs that are not given are ``None``."""
        parameters = self.signature.parameters
        inputs = [k for k, p in enumerate(parameters) if not p.is_output]
        if len(args) == len(parameters):
            slots = list(range(len(parameters)))
        elif len(args) <= len(inputs):
            slots = inputs[: len(args)]
        else:
            slots = inputs + [k for k, p in enumerate(parameters) if p.is_output]
            if len(args) > len(slots):
                self._refuse_count(len(args))
            slots = slots[: len(args)]
        values: list[Any] = [None] * len(parameters)
        for slot, value in zip(slots, args):
            values[slot] = value
        names = {p.name: k for k, p in enumerate(parameters)}
        for name, value in self._by_name(named).items():
            if name not in names:
                raise CallTypeError(
                    f"{self.title} has no argument {name!r}; it takes {self.listing}"
                )
            if values[names[name]] is not None:
                raise CallTypeError(f"{self.title}: argument {name!r} is given twice")
            values[names[name]] = value
        for k in inputs:
            if values[k] is None:
                self._refuse_count(len(args) + len(named), parameters[k].name)
        return values

    def _by_name(self, named: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return named arguments with the arrays of ``out`` under the names of the outputs.

        ``out`` is an array, a tuple with one for each of several outputs, or ``None``, as if it
        were not given. It has no such meaning if an argument is called ``out``.
        """
        if "out" not in named or any(p.name == "out" for p in self.signature.parameters):
            return named
        others = {name: value for name, value in named.items() if name != "out"}
        out, names = named["out"], [p.name for p in self.signature.outputs]
        if out is None:
            return others
        arrays = out if isinstance(out, (tuple, list)) and len(names) > 1 else [out]
        if len(arrays) != len(names):
            raise CallTypeError(
                f"{self.title}: out= has {len(arrays)} of its outputs; give an array for each: "
                f"{', '.join(names)}"
            )
        twice = next((name for name in names if name in others), None)
        if twice is not None:
            raise CallTypeError(f"{self.title}: {twice} is given twice, by out= and by name")
        return {**others, **dict(zip(names, arrays))}

    @property
    def title(self) -> str:
        return f"{self.what} {self.signature.name}"

    @property
    def listing(self) -> str:
        return ", ".join(map(str, self.signature.parameters))

    def _refuse_count(self, given: int, missing: str = "") -> None:
        """Raise ``CallTypeError`` for a wrong number of arguments."""
        without = f", {missing} is missing" if missing else ""
        inputs, outputs = len(self.signature.inputs), len(self.signature.outputs)
        raise CallTypeError(
            f"{self.title} takes {inputs} input{'s' * (inputs != 1)} and may take {outputs} "
            f"output{'s' * (outputs != 1)}, got {given}{without}; it takes {self.listing}"
        )

    def check(self, position: int, value: np.ndarray, given: Any) -> None:
        """Check dtype, rank, fixed extents, contiguity, writability, address of one array.

        ``given`` is the argument whose memory it is; errors say what to do in the library of
        ``given``.
        """
        p, where = self.signature.parameters[position], self.places[position]
        needed = self.needed[position]
        if value.dtype != needed.dtype:
            self._refuse_dtype(position, value.dtype, given)
        self._check_shape(position, value.shape)
        missing = needed.flags & ~value.flags.num
        if missing:
            why = broken_rule(missing).message(value, given, p.name, p.is_output)
            raise CallError(f"{where} is {why}")
        if ADDRESS.broken_by(value, needed.alignment):
            raise CallError(f"{where} is {ADDRESS.message(p.name, needed.alignment, p.is_output)}")

    def check_form(self, position: int, shape: Sequence[Any], dtype: str, given: Any) -> None:
        """Check dtype, rank and fixed extents of an array without memory."""
        if dtype != self.signature.parameters[position].dtype:
            self._refuse_dtype(position, dtype, given)
        self._check_shape(position, tuple(shape))

    def _refuse_dtype(self, position: int, dtype: Any, given: Any) -> None:
        from schedlang.compute.conversions import as_dtype

        p, where = self.signature.parameters[position], self.places[position]
        fix = (
            f"pass an array of {p.dtype} to write into"
            if p.is_output
            else (f"convert it with {as_dtype(given, p.name, p.dtype)}")
        )
        raise CallTypeError(f"{where} got dtype {dtype}: {fix}")

    def _check_shape(self, position: int, shape: tuple[Any, ...]) -> None:
        """Check the rank and the fixed extents of an array."""
        p, where = self.signature.parameters[position], self.places[position]
        if len(shape) != len(p.shape):
            raise CallError(f"{where} got shape {shape}, {_of_rank(shape, p)}")
        for k, extent in enumerate(p.shape):
            if isinstance(extent, int) and shape[k] != extent:
                raise CallError(f"{where} got shape {shape}: dimension {k} must be {extent}")

    def sizes(self, values: Sequence[Any]) -> dict[str, int]:
        """Return the value of each size; raise ``CallError`` if arguments disagree."""
        numbers: dict[str, int] = {}
        origin: dict[str, str] = {}
        for p, value in zip(self.signature.parameters, values):
            if p.is_size:
                numbers[p.name], origin[p.name] = int(value), "its own argument"
        for p, value in zip(self.signature.parameters, values):
            if value is None or p.is_scalar:
                continue
            for k, extent in enumerate(p.shape):
                if isinstance(extent, int):
                    continue
                solved = self._single_size(extent, value.shape[k])
                if solved is None:
                    continue
                extent, size = solved
                if numbers.setdefault(extent, size) != size:
                    raise CallError(
                        f"{self.title}: {extent} is {numbers[extent]} in {origin[extent]} and "
                        f"{size} in dimension {k} of {p.name}"
                    )
                origin.setdefault(extent, f"dimension {k} of {p.name}")
        unsolved = self._solve(values, numbers, origin)
        for name, size in numbers.items():
            if rule := broken_bound(name, size, *self.signature.bounds(name)):
                raise CallError(f"{self.title}: {name} is {size} in {origin[name]}, but {rule}")
        for name in self.signature.sizes:
            if name not in numbers:
                why = unsolved.get(name, "pass the output array too")
                raise CallError(f"{self.title}: no input determines {name}: {why}")
        return numbers

    def _solve(
        self, values: Sequence[Any], sizes: dict[str, int], origin: dict[str, str]
    ) -> dict[str, str]:
        """Add to ``found`` the sizes that derived extents determine.

        Return, by the size's name, why a size could not be found.
        """
        why: dict[str, str] = {}
        for name, position, dim in self.signature.solved:
            value, p = values[position], self.signature.parameters[position]
            extent = p.shape[dim]
            if name in sizes or value is None or isinstance(extent, int):
                continue
            size = self._root(extent, name, value.shape[dim], sizes)
            if size is None:
                # not an error yet: an output may determine the size
                terms = self.signature.extents[extent]
                factor = terms[0][0] if [product for _, product in terms] == [(name,)] else 0
                place = f"dimension {dim} of {p.name}"
                why[name] = no_value(place, value.shape[dim], extent, name, factor)
                continue
            sizes[name], origin[name] = size, f"dimension {dim} of {p.name}"
        return why

    def _root(self, extent: str, name: str, length: int, known: Mapping[str, int]) -> int | None:
        """Return the value of size ``name`` that makes ``extent`` equal ``length``.

        Return ``None`` if none does, or if another size in ``extent`` is not known.
        """
        terms = self.signature.extents.get(extent)
        if terms is None:
            return length
        sizes = dict(known)

        def at(size: int) -> int:
            sizes[name] = size
            return value_of(terms, sizes)

        try:
            return solve(at, length)
        except KeyError:
            # another size in this extent is not known
            return None

    def _single_size(self, extent: str, length: int) -> tuple[str, int] | None:
        """Return the name and the value of the size in an extent that has only one."""
        if extent not in self.signature.extents:
            return extent, length
        name = self.signature.single.get(extent)
        size = None if name is None else self._root(extent, name, length, {})
        return None if name is None or size is None else (name, size)

    def shape(self, p: Parameter, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of a parameter for given sizes."""
        extents = tuple(e if isinstance(e, int) else self._extent(e, sizes) for e in p.shape)
        if any(e < 0 for e in extents):
            sizes_text = ", ".join(f"{n}={v}" for n, v in sizes.items())
            negative = next(str(e) for e, n in zip(p.shape, extents) if n < 0)
            raise CallError(
                f"{self.title}: {p} would have shape {extents} where {sizes_text}; write the "
                f"extent as sl.max({negative}, 0) to get an empty array there"
            )
        return extents

    def _extent(self, extent: str, sizes: Mapping[str, int]) -> int:
        terms = self.signature.extents.get(extent)
        return sizes[extent] if terms is None else value_of(terms, sizes)

    def check_derived(self, values: Sequence[Any], sizes: Mapping[str, int]) -> None:
        """Check the shapes of arrays against extents that are expressions of sizes."""
        for k, (p, value) in enumerate(zip(self.signature.parameters, values)):
            if p.is_scalar or value is None or self.needed[k].shape is not None:
                continue
            shape_needed = self.shape(p, sizes)
            if value.shape != shape_needed:
                sizes_text = ", ".join(f"{n}={v}" for n, v in sizes.items())
                raise CallError(
                    f"{self.places[k]} got shape {value.shape}, needs {shape_needed} where "
                    f"{sizes_text}"
                )

    def check_facts(self, values: Sequence[Any], sizes: Mapping[str, int]) -> None:
        """Check what ``sl.assume`` declared of the elements of arrays.

        A constant array is checked once, while the ends of its range are the same.
        """
        from schedlang.compute.facts import Facts, check_facts

        for k, (p, value) in enumerate(zip(self.signature.parameters, values)):
            if not p.has_facts:
                continue
            ends = None if p.within is None else tuple(self._end(e, sizes) for e in p.within)
            if self._checked.has(k, value, ends):
                continue
            facts = Facts(p.monotonic, p.within)  # type: ignore[arg-type]
            check_facts(p.name, facts, value, lambda e: self._end(e, sizes))
            self._checked.add(k, value, ends)

    def _end(self, end: Any, sizes: Mapping[str, int]) -> int:
        return end if isinstance(end, int) else self._extent(end, sizes)

    def check_overlap(self, values: Sequence[Any]) -> None:
        """Check that no output overlaps another array, except pairs that are safe in place."""
        for i, k in self.pairs:
            a, b = values[i], values[k]
            if not (a.nbytes and b.nbytes and np.may_share_memory(a, b)):
                continue
            same = a.ctypes.data == b.ctypes.data and a.nbytes == b.nbytes
            if same and (i, k) in self.signature.in_place:
                continue
            p, q = self.signature.parameters[i], self.signature.parameters[k]
            why = "which is still read after the output is written in part"
            if q.is_output:
                why = "which is an output too"
            raise CallError(
                f"{self.title}: output {p.name} overlaps {q.name}, {why}: pass another array, or "
                f"{q.name}.copy()"
            )


def _of_rank(shape: tuple[int, ...], wanted: Parameter) -> str:
    """Return how many dimensions an array has, which are too few or many, and what to pass."""
    count = f"which has {len(shape)} dimension{'' if len(shape) == 1 else 's'}"
    first, rest = wanted.shape[:1], wanted.shape[1:]
    fits = len(rest) == len(shape) and all(
        own == n or not isinstance(own, int) for own, n in zip(rest, shape)
    )
    batch = [extent for extent in first if extent == 1 or isinstance(extent, str)]
    if not (fits and batch) or wanted.is_output:
        return count
    return f"{count}: for the first dimension, a batch of one, pass {wanted.name}[None]"


def scalar(value: Any, dtype: str, what: str) -> Any:
    """Return a scalar argument in its dtype; short floats as float32, rounded to the dtype."""
    if getattr(value, "shape", ()) != ():
        raise CallTypeError(f"{what} is a scalar, got an array of shape {value.shape}")
    number: Any = value.item() if isinstance(value, np.ndarray) else as_float32(value)
    kind = dtypes.kind(dtype)
    described, accepted = f"{what} is {_with_article(dtype)}", _accepted_values(dtype)
    if not isinstance(number, _ACCEPTED[kind]):
        raise CallTypeError(f"{described}, got {value!r}: pass {accepted}")
    too_large = CallTypeError(f"{described}, which cannot hold {value!r}: pass {accepted}")
    with np.errstate(over="ignore"):
        try:
            converted: Any = number_of(dtype, number)
            overflowed = kind == "f" and bool(np.isinf(converted)) and not np.isinf(float(number))
        except OverflowError:
            raise too_large from None
        except (TypeError, ValueError):
            raise CallTypeError(f"{described}, got {value!r}: pass {accepted}") from None
    # a NumPy integer that does not fit wraps silently
    if int(converted) != int(number) if kind in "iu" else overflowed:
        raise too_large
    return np.float32(converted) if dtype in dtypes.SHORT_FLOATS else converted


def number_of(dtype: str, number: Any) -> Any:
    """Return a number as a NumPy scalar of ``dtype``; a bfloat16 as float32."""
    return round_to_bfloat16(number) if dtype == "bfloat16" else np.dtype(dtype).type(number)


_ACCEPTED: dict[str, Any] = {
    "f": (int, float, np.number),
    "b": (bool, np.bool_),
    "i": (int, np.integer),
    "u": (int, np.integer),
}


def _with_article(dtype: str) -> str:
    return f"{'an' if dtype.startswith('i') else 'a'} {dtype}"


def _accepted_values(dtype: str) -> str:
    """Return a phrase for the values that a scalar of ``dtype`` accepts."""
    if dtype == "bool":
        return "True or False"
    if dtypes.is_float(dtype):
        return f"a number of at most {dtypes.largest(dtype):.6g} in magnitude"
    low, high = dtypes.limits(dtype)
    return f"an integer, {low}..{high}"
