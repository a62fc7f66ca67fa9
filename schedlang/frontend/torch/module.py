"""``from_torch``: a module of PyTorch as a computation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlang import topi
from schedlang.arrays.naming import as_stage, rename
from schedlang.arrays.shapes import unfit
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import PlaceholderOp, Tensor, placeholder
from schedlang.errors import FrontendError, explain, missing_extra
from schedlang.frontend.imported import Imported
from schedlang.frontend.model_names import Names
from schedlang.frontend.multiples import Multiples
from schedlang.frontend.node_stages import layers_of
from schedlang.frontend.torch.branches import recorded_comparisons, with_assumed_bounds
from schedlang.frontend.torch.constant_parts import ConstantParts, constant_parts
from schedlang.frontend.torch.converting import Conversion, has_form
from schedlang.frontend.torch.examples import (
    Dynamic,
    Examples,
    as_multiples,
    examples_of,
    leaves,
    own_sizes,
)
from schedlang.frontend.torch.exporting import check_module, decompose, export, forward_changes
from schedlang.frontend.torch.functional import make_functional
from schedlang.frontend.torch.params import dtype_of, params_of
from schedlang.signatures import public

# rounds in which a module may show that sizes are multiples of more numbers
_MOST_ROUNDS = 4


@public
def from_torch(
    module: Any,
    example_inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    batch: Any = None,
    dynamic_shapes: Any = None,
) -> Imported:
    """Return a ``torch.nn.Module`` in evaluation mode as a computation, for ``sl.network``.

    ``example_inputs`` is a tuple of the arguments of ``module``, or its only argument, and
    ``kwargs`` has arguments by name. Tensors, arrays and placeholders become inputs, whose values
    do not matter. Other arguments, such as numbers, become constants. ``batch="n"`` makes the first
    dimension of every input the size ``n``. Placeholders may have sizes in any dimension, and
    ``dynamic_shapes`` declares the sizes of tensors in the form of ``torch.export``:
    ``{"x": {0: "n"}}``, or a ``torch.export.Dim`` with bounds in place of the name. Where
    ``forward`` does something else for a size of 0 or 1, which PyTorch leaves out, the size is
    larger, and calls check it. They also check that a size ``n`` is even where ``forward`` is
    known to fit only then: it is ``2 * n_over_2``. The extra ``torch`` installs PyTorch.

    The result has the weights and buffers that the outputs need, copied, in their dtypes. Stages
    are named after the layers of the module: ``layer1_0_conv1``. ``structure`` is the tuple, list
    or dict that ``module`` returns.

    Raises :class:`~schedlang.errors.FrontendError` for a module in training mode, for operators
    without a form, with their layer and line, for a forward that depends on the values of tensors
    or changes its inputs or buffers, and for example inputs that do not fit. Raises
    :class:`~schedlang.errors.MissingExtraError` without PyTorch.
    """
    try:
        import torch
    except ImportError:
        raise missing_extra("PyTorch", "torch", "sl.frontend.from_torch") from None
    if not isinstance(module, torch.nn.Module) or isinstance(module, torch.jit.ScriptModule):
        raise FrontendError(
            explain(
                f"from_torch({type(module).__name__})",
                "it takes a torch.nn.Module, whose forward PyTorch can trace",
                "Put a function into the forward of a module, and give a scripted module as it was "
                "before torch.jit.",
            )
        )
    check_module(module)
    examples = examples_of(module, example_inputs, kwargs, batch, dynamic_shapes)
    try:
        return _converted(module, examples)
    except FrontendError as error:
        result = _with_multiples(module, examples, error)
        if result is None:
            raise
        return result


def _with_multiples(module: Any, examples: Examples, error: FrontendError) -> Imported | None:
    """Return a module that fits only where sizes are multiples, after its first error.

    Return ``None`` if it does not fit then. Raises :class:`~schedlang.errors.FrontendError` if such
    a size is the user's own.
    """
    sizes = [d.sizes.values() for d in leaves(examples.sizes) if isinstance(d, Dynamic)]
    names = {size.name for of_input in sizes for size in of_input}
    multiples = Multiples(names=names).after(error)
    for _ in range(_MOST_ROUNDS):
        if multiples is None:
            return None
        try:
            result = _converted(module, as_multiples(examples, multiples))
        except FrontendError as other:
            multiples = multiples.after(other)
            continue
        if not own_sizes(examples).isdisjoint(multiples.of):
            numbers = {size: number for size, (number, _) in multiples.of.items()}
            only = " and ".join(f"multiples of {n} as {size}" for size, n in numbers.items())
            asked, why = f"from_torch({type(module).__name__})", f"it is computed only for {only}"
            raise FrontendError(str(unfit(asked, why, "", numbers)))
        return result
    return None


def _converted(module: Any, examples: Examples) -> Imported:
    """Return a module as a computation, for the given examples."""
    with recorded_comparisons() as comparisons:
        program = export(module, examples)
    examples = with_assumed_bounds(program, examples, comparisons)
    known = ConstantParts()
    if not make_functional(program, has_form):
        known = constant_parts(program, has_form) or known
        if not make_functional(program, has_form, known.nodes):
            program, known = decompose(program), ConstantParts()
    _check_mutations(program.graph_signature)
    return _imported(program, examples, known)


def with_refusals(
    module: Any, example_inputs: tuple[Any, ...], dynamic_shapes: Any = None
) -> tuple[Any, dict[str, FrontendError]]:
    """Return a module in operators of ATen, and why some have no form, by the names of nodes.

    The module tests restrictions of sizes that PyTorch finds, where :func:`from_torch` raises.
    Raises what :func:`from_torch` raises for a module, but for operators without a form.
    """
    check_module(module)
    examples = examples_of(module, example_inputs, None, None, dynamic_shapes)
    program = export(module, examples, restricted=True)
    if not make_functional(program, has_form):
        program = decompose(program)
    _check_mutations(program.graph_signature)
    names = Names()
    inputs = _inputs(program, examples, names)
    weights, _ = params_of(_weights(program), names)
    conversion = Conversion({**inputs, **weights}, names)
    return program.module(), conversion.refusals(list(program.graph.nodes))


def _imported(program: Any, examples: Examples, known: ConstantParts) -> Imported:
    names = Names()
    inputs = _inputs(program, examples, names)
    constants = [(node, node.name, value) for node, value in known.values]
    weights, arrays = params_of([*_weights(program), *constants], names)
    conversion = Conversion({**inputs, **weights}, names)
    conversion.run([n for n in program.graph.nodes if n not in known.nodes])
    outputs, structure = _outputs(program, conversion, names)
    read = {*placeholders(outputs)}
    arrays = {**arrays, **conversion.arrays}
    return Imported(
        tuple(outputs),
        tuple(inputs.values()),
        {tensor: array for tensor, array in arrays.items() if tensor in read},
        layers_of(outputs, conversion.layers),
        structure,
    )


def _inputs(program: Any, examples: Examples, names: Names) -> dict[Any, Tensor]:
    """Return a placeholder for each node of an input tensor, in the order of the call."""
    specs = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    values, sizes = leaves((examples.args, examples.kwargs)), leaves(examples.sizes)
    nodes = {node.name: node for node in program.graph.nodes}
    placeholders_of: dict[Any, Tensor] = {}
    for spec, value, dynamic in zip(specs, values, sizes):
        if type(spec.arg).__name__ != "TensorArgument":
            continue
        node = nodes[spec.arg.name]
        tensor = examples.declared.get(id(value))
        if tensor is None:
            dtype = dtype_of(value.dtype, f"input {node.name}")
            symbolic = dynamic.extents()
            shape = [symbolic.get(k, e) for k, e in enumerate(value.shape)]
            tensor = placeholder(shape, dtype, name=names.new(node.name))
        elif names.new(tensor.name) != tensor.name:
            raise FrontendError(f"from_torch: two inputs are called {tensor.name}")
        placeholders_of[node] = tensor
    return placeholders_of


def _weights(program: Any) -> list[tuple[Any, str, Any]]:
    """Return the node, the name and the value of each weight, buffer and constant."""
    nodes = {node.name: node for node in program.graph.nodes}
    values = {**program.constants, **program.state_dict}
    return [
        (nodes[spec.arg.name], spec.target, values[spec.target])
        for spec in program.graph_signature.input_specs
        if spec.kind.name in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")
    ]


def _outputs(program: Any, conversion: Conversion, names: Names) -> tuple[list[Tensor], Any]:
    """Return the distinct outputs, and what the module returns with the position of each."""
    from torch.utils import _pytree

    nodes = {node.name: node for node in program.graph.nodes}
    outputs: list[Tensor] = []
    positions: list[int | None] = []
    copies: dict[Tensor, Tensor] = {}
    for spec in program.graph_signature.output_specs:
        kind = type(spec.arg).__name__
        if kind == "TensorArgument":
            tensor = conversion.values[nodes[spec.arg.name]]
            if isinstance(tensor.op, PlaceholderOp):
                # an output of its own, since a kernel writes it
                if tensor not in copies:
                    name = names.new(f"{tensor.name}_copy")
                    copies[tensor] = rename(topi.identity(tensor), name)
                tensor = copies[tensor]
            as_stage(tensor)
            if tensor not in outputs:
                outputs.append(tensor)
            positions.append(outputs.index(tensor))
        elif getattr(spec.arg, "value", 0) is None:
            positions.append(None)
        else:
            value = getattr(spec.arg, "value", kind)
            raise FrontendError(
                explain(
                    f"from_torch: an output is {value!r}",
                    "a network returns tensors",
                    "Return tensors alone, or None.",
                )
            )
    if not outputs:
        raise FrontendError("from_torch: the module returns no tensor")
    whole = _pytree.tree_unflatten(positions, program.call_spec.out_spec)
    return outputs, _plain(whole)


def _plain(value: Any) -> Any:
    """Return containers as tuples, lists and dicts."""
    if isinstance(value, Mapping):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, (tuple, list)):
        return (tuple if isinstance(value, tuple) else list)([_plain(v) for v in value])
    if value is None or isinstance(value, int):
        return value
    raise FrontendError(
        explain(
            f"from_torch: the module returns a {type(value).__name__}",
            "a network returns tensors in tuples, lists and dicts",
            "Return one of these.",
        )
    )


def _check_mutations(signature: Any) -> None:
    """Raise for a module that changes its inputs or buffers."""
    for spec in signature.output_specs:
        if "MUTATION" in spec.kind.name:
            kinds = {"INPUT": "input", "PARAMETER": "weight"}
            what = next((w for kind, w in kinds.items() if kind in spec.kind.name), "buffer")
            raise forward_changes(what, spec.target)
