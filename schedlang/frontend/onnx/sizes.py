"""The shapes of a model's inputs, with what the caller gives for extents that the file names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.arrays.shapes import same
from schedlang.compute.tensor import Extent, Shape, check_extent, shape_text
from schedlang.errors import ComputeError, ComputeTypeError, FrontendError, explain, nearest
from schedlang.frontend.onnx.graph import Input


def input_shapes(inputs: Sequence[Input], given: Any) -> list[Shape]:
    """Return the shape of each input.

    ``given`` maps the name of a dimension to an extent, a number or a size (``sl.var("batch")``),
    or the name of an input to its whole shape. Raises :class:`~schedlang.errors.FrontendError` if
    it does not fit the file, or leaves an extent open.

    >>> input_shapes([Input("x", "float32", ("batch", 3))], {"batch": 4})
    [(4, 3)]
    """
    if given is not None and not isinstance(given, Mapping):
        raise FrontendError(
            explain(
                f"from_onnx(shapes={given!r})",
                f"it is a {type(given).__name__}",
                f"Give a dict, {_example(inputs)}.",
            )
        )
    whole, sizes = _sorted(inputs, dict(given or {}))
    for value in inputs:
        if value.name in whole:
            _bind(value, whole[value.name], sizes)
    missing: list[str] = []
    shapes = [_shape(value, whole, sizes, missing) for value in inputs]
    if missing:
        raise FrontendError(
            explain(
                "from_onnx",
                f"the model leaves open {' and '.join(missing)}",
                f"Give numbers, or sizes that each call chooses: {_example(inputs)}.",
            )
        )
    return shapes


def _example(inputs: Sequence[Input]) -> str:
    """Return an argument ``shapes=`` that fits the model."""
    for value in inputs:
        for dim in value.dims or ():
            if isinstance(dim, str):
                return f'shapes={{{dim[:40]!r}: 4}} or shapes={{{dim[:40]!r}: sl.var("n")}}'
    for value in inputs:
        if value.dims is None or None in value.dims:
            dims = value.dims or (None, 3, 224, 224)
            name, number = repr(value.name[:40]), tuple(4 if d is None else d for d in dims)
            size = ", ".join('sl.var("n")' if d is None else repr(d) for d in dims)
            sizes = f"({size},)" if len(dims) == 1 else f"({size})"
            return f"shapes={{{name}: {number}}} or shapes={{{name}: {sizes}}}"
    return 'shapes={"batch": 4}'


def _sorted(
    inputs: Sequence[Input], given: dict[Any, Any]
) -> tuple[dict[str, Shape], dict[str, Extent]]:
    """Return the shapes of whole inputs and the extents of dimensions, by name."""
    names = {value.name for value in inputs}
    dims = {d for value in inputs for d in value.dims or () if isinstance(d, str)}
    whole: dict[str, Shape] = {}
    sizes: dict[str, Extent] = {}
    for name, value in given.items():
        what = f"from_onnx(shapes={{{name!r}: {_written(value)}}})"
        if isinstance(value, (tuple, list)):
            if name not in names:
                raise FrontendError(f"{what}: the model has no input {name!r}{_near(name, names)}")
            whole[name] = tuple(_extent(v, what) for v in value)
        else:
            if name not in dims:
                hint = f"Give an input's whole shape as a tuple: {_example(inputs)}."
                named = _near(name, dims) or "; none has a name"
                raise FrontendError(
                    explain(
                        what,
                        f"the model has no dimension {name!r}{named}",
                        hint if name in names else f"Its inputs: {_listed(inputs)}.",
                    )
                )
            sizes[name] = _extent(value, what)
    return whole, sizes


def _listed(inputs: Sequence[Input]) -> str:
    """Return the first inputs with the shapes that the file gives them: ``x of batch x 3``."""
    texts = [
        f"{v.name[:40]} of {'any shape' if v.dims is None else ' x '.join(map(str, v.dims))}"
        for v in inputs[:6]
    ]
    more = f" and {len(inputs) - 6} more" if len(inputs) > 6 else ""
    return ", ".join(texts) + more


def _near(name: Any, known: set[str]) -> str:
    suggestion = nearest(str(name), known)
    if suggestion or not known:
        return suggestion
    return f"; it has {', '.join(map(repr, sorted(known)[:8]))}"


def _written(value: Any) -> str:
    return shape_text(value) if isinstance(value, (tuple, list)) else str(value)[:40]


def _extent(value: Any, what: str) -> Extent:
    try:
        return check_extent(value, what)
    except (ComputeError, ComputeTypeError) as error:
        raise FrontendError(str(error)) from None


def _bind(value: Input, shape: Shape, sizes: dict[str, Extent]) -> None:
    """Bind the names of an input's dimensions to the extents of its whole shape."""
    if value.dims is None:
        return
    what = f"from_onnx(shapes={{{value.name!r}: {shape_text(shape)}}})"
    if len(shape) != len(value.dims):
        raise FrontendError(
            f"{what}: the input has {len(value.dims)} dimensions in the model, not {len(shape)}"
        )
    for k, (dim, extent) in enumerate(zip(value.dims, shape)):
        size = sizes.setdefault(dim, extent) if isinstance(dim, str) else dim
        if size is not None and not same(size, extent):
            own = f"{dim!r}, given as {size}" if isinstance(dim, str) else f"{size} in the model"
            raise FrontendError(f"{what}: dimension {k} is {own}")


def _shape(
    value: Input, whole: Mapping[str, Shape], sizes: Mapping[str, Extent], missing: list[str]
) -> Shape:
    if value.name in whole:
        return whole[value.name]
    if value.dims is None:
        missing.append(f"the shape of input {value.name[:80]!r}")
        return ()
    extents: list[Extent] = []
    for k, dim in enumerate(value.dims):
        if isinstance(dim, int):
            extents.append(dim)
        elif dim is not None and dim in sizes:
            extents.append(sizes[dim])
        else:
            label = f"{dim[:80]!r}" if dim else "(no name)"
            missing.append(f"dimension {k} {label} of input {value.name[:80]!r}")
    return tuple(extents)
