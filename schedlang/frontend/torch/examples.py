"""Example inputs of a module: tensors, or placeholders that say shape and dtype, with sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from schedlang.arrays.shapes import extent
from schedlang.compute.tensor import Extent, PlaceholderOp, Tensor, shape_text, var
from schedlang.errors import FrontendError, explain
from schedlang.expr.nodes import Expr, Var
from schedlang.frontend.multiples import Multiples
from schedlang.index.simplify import to_lin

# the largest size of PyTorch and of a kernel
LARGEST = 2**63 - 1
# extents of symbolic sizes while PyTorch traces a module: batches, and other dimensions
_BATCH, _LENGTH = 3, 64


@dataclass(frozen=True)
class Dynamic:
    """The symbolic dimensions of one input: from dimension to size.

    ``dims`` has the ``torch.export.Dim`` of dimensions for which the user gave one, and ``factors``
    the number of dimensions that are ``number * size``.
    """

    sizes: Mapping[int, Var]
    dims: Mapping[int, Any] = field(default_factory=dict)
    factors: Mapping[int, int] = field(default_factory=dict)

    def extents(self) -> dict[int, Extent]:
        """Return the symbolic dimensions as extents."""
        return {k: extent(size * self.factors.get(k, 1)) for k, size in self.sizes.items()}


@dataclass(frozen=True)
class Examples:
    """The arguments with which a module is traced.

    ``args`` and ``kwargs`` are torch's tensors and constants, in tuples, lists and dicts. ``sizes``
    has, by the names of the module's parameters and in the same containers, a :class:`Dynamic` for
    each tensor, ``None`` for a constant. ``declared`` are the placeholders that tensors stand for,
    by the ``id`` of the tensor.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    sizes: Mapping[str, Any]
    declared: Mapping[int, Tensor] = field(default_factory=dict)


def examples_of(
    module: Any,
    example_inputs: Any,
    kwargs: Mapping[str, Any] | None,
    batch: Any,
    dynamic_shapes: Any,
) -> Examples:
    """Return the arguments of ``module.forward`` by name, with tensors for placeholders.

    Raises :class:`~schedlang.errors.FrontendError` for arguments that it does not take.
    """
    inputs = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind(*inputs, **(kwargs or {}))
    except TypeError as error:
        raise FrontendError(
            explain(
                f"from_torch({type(module).__name__}, example_inputs of {len(inputs)})",
                f"its forward{signature} does not take them: {error}",
                "Give a tuple with an example of each argument; kwargs= takes them by name.",
            )
        ) from None
    declared: dict[int, Tensor] = {}
    extents: dict[Var, int] = {}
    if not (batch is None or isinstance(batch, str) or isinstance(batch, Var) and batch.is_size):
        raise FrontendError(f'from_torch: batch={batch!r} must be a name or a size, sl.var("n")')
    size_by_name = _bounded(dynamic_shapes)
    size = None if batch is None else _one(batch, size_by_name, "batch")
    spec = _by_name(signature, bound.arguments, dynamic_shapes)
    sizes: dict[str, Any] = {}
    tensors: dict[int, Any] = {}
    for name, value in list(bound.arguments.items()):
        sizes[name] = _mapped(
            value, spec.get(name), lambda leaf, own: _sizes(leaf, own, size, size_by_name)
        )
        bound.arguments[name] = _traced(value, sizes[name], declared, extents, tensors)
    return Examples(bound.args, bound.kwargs, sizes, declared)


def as_multiples(examples: Examples, multiples: Multiples) -> Examples:
    """Return the examples with some sizes as multiples of others.

    Their tensors repeat elements, up to the next multiple.
    """
    import torch
    from torch.utils import _pytree

    if not multiples.of:
        return examples

    def divided(dynamic: Dynamic) -> Dynamic:
        new, factors, dims = dict(dynamic.sizes), dict(dynamic.factors), dict(dynamic.dims)
        for k, size in dynamic.sizes.items():
            if size in multiples.of:
                number, new[k] = multiples.of[size]
                factors[k] = factors.get(k, 1) * number
                dims.pop(k, None)
        return Dynamic(new, dims, factors)

    def enlarged(value: Any, dynamic: Any) -> Any:
        for k, number in dynamic.factors.items() if isinstance(dynamic, Dynamic) else ():
            own = value.shape[k]
            # two of the sizes that are multiplied, as of others
            whole = max(2, -(-own // number)) * number
            if own < whole:
                value = torch.cat([value] * -(-whole // own), k).narrow(k, 0, whole)
        return value

    sizes = each_dynamic(examples.sizes, divided)
    values, structure = _pytree.tree_flatten((examples.args, dict(examples.kwargs)))
    whole_values = list(map(enlarged, values, leaves(sizes)))
    args, kwargs = _pytree.tree_unflatten(whole_values, structure)
    return replace(examples, args=args, kwargs=kwargs, sizes=sizes)


def own_sizes(examples: Examples) -> set[Var]:
    """Return the sizes of placeholders, which are the user's."""
    values = leaves((examples.args, dict(examples.kwargs)))
    return {
        size
        for value, dynamic in zip(values, leaves(examples.sizes))
        if id(value) in examples.declared
        for size in dynamic.sizes.values()
    }


def each_dynamic(sizes: Any, new: Callable[[Dynamic], Dynamic]) -> Any:
    """Return sizes in their containers, with ``new`` of each input's symbolic dimensions."""
    if isinstance(sizes, (tuple, list)):
        return rebuilt(sizes, [each_dynamic(part, new) for part in sizes])
    if isinstance(sizes, Mapping):
        return {key: each_dynamic(part, new) for key, part in sizes.items()}
    return new(sizes) if isinstance(sizes, Dynamic) else sizes


def _by_name(
    signature: inspect.Signature, arguments: Mapping[str, Any], spec: Any
) -> Mapping[str, Any]:
    """Return ``dynamic_shapes`` by the names of parameters."""
    if spec is None:
        return {}
    if isinstance(spec, (tuple, list)):
        if len(spec) > len(arguments):
            raise FrontendError(
                f"from_torch: dynamic_shapes has {len(spec)} entries, but the example inputs are "
                f"{', '.join(arguments)}"
            )
        return dict(zip(signature.parameters, spec))
    if not isinstance(spec, Mapping):
        raise FrontendError(
            f"from_torch: dynamic_shapes={spec!r} must be a dict by the names of the inputs, as in "
            '{"x": {0: "n"}}'
        )
    unknown = [name for name in spec if name not in arguments]
    if unknown:
        raise FrontendError(
            f"from_torch: dynamic_shapes names {unknown[0]!r}, but the example inputs are "
            f"{', '.join(arguments)}"
        )
    return dict(spec)


def _mapped(value: Any, spec: Any, leaf: Callable[[Any, Any], Any]) -> Any:
    """Return ``leaf(value, spec)`` for each value in containers, in the same containers."""
    if isinstance(value, (tuple, list)):
        parts = [None] * len(value) if spec is None else spec
        if not isinstance(parts, (tuple, list)) or len(parts) != len(value):
            raise FrontendError(
                f"from_torch: dynamic_shapes has {spec!r} for {len(value)} inputs; give a list "
                "with one entry for each, None where nothing is symbolic"
            )
        return rebuilt(value, [_mapped(v, s, leaf) for v, s in zip(value, parts)])
    if isinstance(value, dict):
        named = {} if spec is None else spec
        if not isinstance(named, Mapping) or any(key not in value for key in named):
            raise FrontendError(
                f"from_torch: dynamic_shapes has {spec!r} for a dict of inputs with the keys "
                f"{', '.join(map(repr, value))}"
            )
        return {key: _mapped(v, named.get(key), leaf) for key, v in value.items()}
    return leaf(value, spec)


def rebuilt(container: Any, parts: list[Any]) -> Any:
    """Return ``parts`` in a list, tuple or named tuple, of the type of ``container``.

    >>> rebuilt((1, 2), [3, 4])
    (3, 4)
    """
    kind = type(container)
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def _sizes(value: Any, spec: Any, batch: Var | None, known: dict[str, Var]) -> Dynamic | None:
    """Return the symbolic dimensions of one input, ``None`` for a constant."""
    shape = getattr(value, "shape", None)
    if shape is None or isinstance(value, (int, float)):
        return None
    dynamic: dict[int, Var] = {}
    factors: dict[int, tuple[Var, int]] = {}
    if isinstance(value, Tensor):
        for k, given in enumerate(value.shape):
            if isinstance(given, Expr):
                number, own = _multiple(given)
                if own is None:
                    raise FrontendError(
                        f"from_torch: dimension {k} of {value.name} is {given}; PyTorch takes a "
                        'number, or a size of its own, n = sl.var("n"), or a multiple of one, 2*n'
                    )
                dynamic[k] = _one(own, known)
                if number > 1:
                    factors[k] = own, number
    declared_dims = dict(enumerate(spec)) if isinstance(spec, (tuple, list)) else spec or {}
    if not isinstance(declared_dims, Mapping) or not all(isinstance(k, int) for k in declared_dims):
        raise FrontendError(
            f"from_torch: dynamic_shapes with {spec!r} for a tensor: give its symbolic dimensions, "
            'as in {0: "n"}'
        )
    dims: dict[int, Any] = {}
    for k, size in declared_dims.items():
        if size is not None and not isinstance(size, int):
            place = k + len(shape) if k < 0 else k
            dynamic[place] = _one(size, known)
            if not isinstance(size, (str, Var)):
                dims[place] = size
    if batch is not None and len(shape):
        if dynamic.get(0) is not batch:
            dims.pop(0, None)
        dynamic[0] = batch
    # an option may name another size for a dimension of a placeholder
    kept = {k: number for k, (size, number) in factors.items() if dynamic[k] is size}
    return Dynamic(dynamic, dims, kept)


def _multiple(given: Expr) -> tuple[int, Var | None]:
    """Return the number and the size of an extent ``number * size``; ``None`` for another one."""
    terms = to_lin(given).terms
    if len(terms) == 1:
        ((product, number),) = terms.items()
        if len(product) == 1 and isinstance(product[0], Var) and number > 0:
            return number, product[0]
    return 1, None


def _bounded(spec: Any) -> dict[str, Var]:
    """Return the sizes for which ``dynamic_shapes`` has a ``torch.export.Dim`` with bounds.

    PyTorch keeps the branches that hold within the bounds, so a size needs them wherever it is.
    """
    from torch.export import Dim

    dims: dict[str, Any] = {}
    for dim in leaves(spec):
        if not isinstance(dim, Dim) or not dim.__name__.isidentifier():
            continue
        other = dims.setdefault(dim.__name__, dim)
        if (other.min, other.max) != (dim.min, dim.max):
            raise FrontendError(
                f"from_torch: dynamic_shapes bounds the size {dim.__name__} in two ways; give one "
                "torch.export.Dim, or two names"
            )
    sizes: dict[str, Var] = {}
    for name, dim in dims.items():
        # a dimension without a bound has an infinity of PyTorch's
        most = int(dim.max) if isinstance(dim.max, int) and dim.max < LARGEST else None
        if dim.min or most is not None:
            sizes[name] = replace(var(name), least=dim.min, most=most)
    return sizes


def _one(size: Any, known: dict[str, Var], option: str = "dynamic_shapes") -> Var:
    """Return the size that an option gives as such, by its name, or as a ``torch.export.Dim``.

    There is one size of each name.
    """
    if isinstance(size, Var):
        other = known.setdefault(size.name, size)
        if other is not size and (other.least, other.most) != (size.least, size.most):
            raise FrontendError(
                explain(
                    f"from_torch: {option} with a torch.export.Dim that bounds {size.name}",
                    f"{size.name} is a size of its own, sl.var({size.name!r}), which has no bounds",
                    f"Give a number as this extent of the input, and Dim({size.name!r}, ...) in "
                    "dynamic_shapes.",
                )
            )
        if other is not size:
            raise FrontendError(
                f"from_torch: two sizes are called {size.name}; give one, or two names"
            )
    name = size.name if isinstance(size, Var) else size
    name = name if isinstance(name, str) else getattr(name, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise FrontendError(
            explain(
                f"from_torch: {option}{'=' if option == 'batch' else ' with '}{size!r}",
                "a symbolic dimension needs a name that is a Python identifier",
                'Write batch="n" or batch=sl.var("n").'
                if option == "batch"
                else 'Write the name, {0: "n"}, a size sl.var("n"), or torch.export.Dim("n").',
            )
        )
    return known.setdefault(name, size if isinstance(size, Var) else var(name))


def _traced(
    value: Any,
    sizes: Any,
    declared: dict[int, Tensor],
    extents: dict[Var, int],
    seen: dict[int, Any],
) -> Any:
    """Return ``value`` with torch's tensors for arrays and placeholders, each one once.

    ``seen`` are the tensors so far by their ``id``: PyTorch takes a tensor that is given twice for
    one input.
    """
    if isinstance(value, (tuple, list)):
        parts = [_traced(v, s, declared, extents, seen) for v, s in zip(value, sizes)]
        return rebuilt(value, parts)
    if isinstance(value, dict):
        return {k: _traced(v, sizes[k], declared, extents, seen) for k, v in value.items()}
    import torch

    if isinstance(value, Tensor):
        if not isinstance(value.op, PlaceholderOp):
            raise FrontendError(
                f"from_torch: the example input {value.name} is computed; give a placeholder of "
                "its shape and dtype, or a torch.Tensor"
            )
        shape: list[Any] = list(value.shape)
        for k, size in sizes.sizes.items():
            traced = extents.setdefault(size, _BATCH if k == 0 else _LENGTH + 2 * len(extents))
            shape[k] = traced * sizes.factors.get(k, 1)
        stand_in = torch.zeros(shape, dtype=getattr(torch, value.dtype))
        declared[id(stand_in)] = value
        return stand_in
    if isinstance(value, np.ndarray):
        try:
            value = torch.from_numpy(np.ascontiguousarray(value))
        except TypeError:
            raise FrontendError(
                f"from_torch: an example input has dtype {value.dtype}, which PyTorch does not have"
            ) from None
    if not isinstance(value, torch.Tensor):
        return value
    enlarged = _enlarged(value, sizes.sizes, extents)
    if id(enlarged) in seen:
        enlarged = enlarged.detach().clone()
    seen[id(enlarged)] = enlarged
    return enlarged


def _enlarged(value: Any, sizes: Mapping[int, Var], extents: dict[Var, int]) -> Any:
    """Return a tensor with two elements or more in its symbolic dimensions.

    PyTorch takes 0 and 1 for numbers that never change.
    """
    import torch

    for k, size in sizes.items():
        if not 0 <= k < value.ndim:
            raise FrontendError(
                f"from_torch: dimension {k} is to be the size {size.name}, but an example input "
                f"has shape {shape_text(value.shape)}"
            )
        own = value.shape[k]
        size_now = extents.setdefault(size, own if own > 1 else 2)
        if own == size_now:
            continue
        if own > 1:
            raise FrontendError(
                explain(
                    f"from_torch: the size {size.name}",
                    f"it is {size_now} in one example input, and {own} in another",
                    "Give examples in which it is the same, or two sizes.",
                )
            )
        value = (
            torch.cat([value] * size_now, k)
            if own
            else torch.cat(
                [
                    value,
                    value.new_zeros([size_now if d == k else e for d, e in enumerate(value.shape)]),
                ],
                k,
            )
        )
    return value


def leaves(arguments: Any) -> list[Any]:
    """Return the values in containers, in the order of PyTorch's flattening.

    >>> leaves((1, (2, [3]), {"a": 4}))
    [1, 2, 3, 4]
    """
    values: list[Any] = []
    stack = [arguments]
    while stack:
        value = stack.pop()
        if isinstance(value, (tuple, list)):
            stack.extend(reversed(value))
        elif isinstance(value, Mapping):
            stack.extend(reversed(list(value.values())))
        else:
            values.append(value)
    return values
