"""``torch.export`` of a module, with its errors in the user's terms, and the graph to convert."""

from __future__ import annotations

import io
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from math import lcm
from typing import Any

from schedlang.errors import FrontendError, MultipleError, explain, first_line
from schedlang.expr.nodes import Var
from schedlang.frontend.torch.branches import squeezes_a_part
from schedlang.frontend.torch.examples import Dynamic, Examples, rebuilt
from schedlang.frontend.torch.lines import line_of_error, line_of_frame
from schedlang.frontend.torch.operators import KEPT
from schedlang.frontend.torch.params import quantized_layer
from schedlang.frontend.torch.whole import recurrent_kept_whole

# modules that behave otherwise while they are trained, and what they then do
_TRAINED = {
    "_BatchNorm": "normalizes by the statistics of its batch, and updates its own",
    "_InstanceNorm": "updates its statistics",
    "_DropoutNd": "drops elements at random",
}


def check_module(module: Any) -> None:
    """Raise for a module in training mode, with quantized layers, or weights without values."""
    _check_mode(module)
    layer = quantized_layer(module)
    if layer:
        raise FrontendError(
            explain(
                f"from_torch({type(module).__name__})",
                f"layer {layer} is quantized by torch.ao, which has kernels of its own for it",
                "Give the module before its quantization, or quantize it by "
                "torchao.quantization.pt2e.",
            )
        )
    _check_values(module)


def export(module: Any, examples: Examples, restricted: bool = False) -> Any:
    """Return the ``torch.export.ExportedProgram`` of a module.

    Where ``restricted``, PyTorch may restrict the sizes: the program's module tests them.

    Raises :class:`~schedlang.errors.FrontendError` for a module that cannot be exported, such as
    one whose forward depends on the values of tensors.
    """
    import torch

    dims = _given_dims(examples.sizes)
    spec = _dims(examples.sizes, dims, restricted)
    # PyTorch prints the graph of a module that fails; what the module prints itself is passed on
    printed = io.StringIO()
    reports = io.StringIO()

    def exported() -> Any:
        return torch.export.export(
            module,
            examples.args,
            dict(examples.kwargs),
            strict=False,
            dynamic_shapes=spec if dims else None,
        )

    with (
        torch.no_grad(), recurrent_kept_whole(), _quiet(),
        redirect_stdout(printed), redirect_stderr(reports),
    ):  # fmt: skip
        try:
            program = exported()
        except Exception as error:
            program = _for_any_size(exported, printed, reports) if dims else None
            if program is None:
                needed = _multiples(dims, str(error))
                cause = MultipleError(str(error), needed) if needed else error
                raise _translated(module, error, dims) from cause
    sys.stdout.write(printed.getvalue())
    sys.stderr.write(reports.getvalue())
    return program


def _for_any_size(exported: Callable[[], Any], *printed: io.StringIO) -> Any:
    """Return the program without PyTorch's guards against sizes of 0 and 1; ``None`` if it fails.

    PyTorch takes an extent such as ``n - 1`` of ``x[1:]`` for 2 or more, as it may be broadcast
    otherwise, and so refuses ``n`` of 2. A kernel broadcasts no extent but the number 1, and the
    program may squeeze none.
    """
    from torch.fx.experimental import _config

    for text in printed:
        text.seek(0)
        text.truncate()
    config: Any = _config
    if not hasattr(config, "backed_size_oblivious"):
        # an earlier version of PyTorch
        return None
    try:
        with config.patch(backed_size_oblivious=True):
            program = exported()
    except Exception:
        return None
    return None if squeezes_a_part(program) else program


def _multiples(dims: Mapping[Var, Any], text: str) -> dict[Var, int]:
    """Return numbers of which sizes may have to be multiples, from an error of PyTorch.

    PyTorch proposes a multiple only where its example is one; its guards tell what divides a size.
    """
    text = _with_names_of_sizes(text)
    numbers: dict[Var, int] = {}
    for size in dims:
        name = re.escape(size.name)
        proposed = re.search(_MULTIPLE.format(name), text, re.M)
        divisors = [int(n) for n in re.findall(rf"\b{name} // (\d+)\b", text)]
        if proposed or divisors:
            numbers[size] = int(proposed[1]) if proposed else lcm(*divisors)
    return numbers


def decompose(program: Any) -> Any:
    """Return a program in ATen's functional operators, where ``KEPT`` names stay whole."""
    with _quiet(), recurrent_kept_whole():
        try:
            return program.run_decompositions(_decompositions())
        except Exception as error:
            changed = re.match(r"Constant (\S+) is mutated", str(error))
            if changed:
                raise forward_changes("tensor", changed[1]) from error
            raise FrontendError(
                explain(
                    "from_torch",
                    "torch.export cannot write the module in ATen's operators: "
                    f"{type(error).__name__}: {_reason(str(error))}",
                    "Leave out of forward what is not an operation of PyTorch.",
                )
            ) from error


def forward_changes(what: str, name: str) -> FrontendError:
    """Return the error of a module that changes its inputs, weights, buffers or other tensors."""
    return FrontendError(
        explain(
            f"from_torch: forward changes the {what} {name}",
            "a network is a function, which leaves everything else as it is",
            f"Return the new value of {name}, and pass the old one as an input.",
        )
    )


@cache
def _decompositions() -> Any:
    from torch.export import default_decompositions

    table = default_decompositions()
    for operator in list(table):
        if str(operator).removeprefix("aten.") in KEPT:
            del table[operator]
    return table


def _given_dims(sizes: Any) -> dict[Var, Any]:
    """Return the ``Dim`` of each size for which the user gave one, which may have bounds."""
    if isinstance(sizes, Dynamic):
        return {sizes.sizes[k]: dim for k, dim in sizes.dims.items()}
    parts = sizes.values() if isinstance(sizes, Mapping) else sizes or ()
    return {size: dim for part in parts for size, dim in _given_dims(part).items()}


def _dims(sizes: Any, dims: dict[Var, Any], restricted: bool) -> Any:
    """Return symbolic dimensions in PyTorch's form: one ``Dim`` for each size."""
    from torch.export import Dim

    if isinstance(sizes, (tuple, list)):
        return rebuilt(sizes, [_dims(s, dims, restricted) for s in sizes])
    if isinstance(sizes, Mapping):
        return {key: _dims(s, dims, restricted) for key, s in sizes.items()}
    if not isinstance(sizes, Dynamic):
        return None
    dims_of_tensor = {}
    for k, size in sizes.sizes.items():
        if size not in dims:
            dims[size] = Dim.AUTO if restricted else _dim(size)
        factor = 1 if restricted else sizes.factors.get(k, 1)
        dims_of_tensor[k] = dims[size] * factor if factor > 1 else dims[size]
    return dims_of_tensor


def _dim(size: Var) -> Any:
    """Return a ``Dim`` with the bounds of a size."""
    from torch.export import Dim

    most = {} if size.most is None else {"max": size.most}
    return Dim(size.name, min=size.least, **most) if size.least or most else Dim(size.name)


def _check_mode(module: Any) -> None:
    for path, layer in module.named_modules():
        kinds = {kind.__name__ for kind in type(layer).__mro__}
        kind_of_layer = next((k for k in _TRAINED if k in kinds), None)
        does = _TRAINED[kind_of_layer] if kind_of_layer else ""
        # one that keeps no statistics, or drops nothing, is the same in both modes
        if kind_of_layer == "_DropoutNd" and not layer.p:
            continue
        if kind_of_layer == "_InstanceNorm" and not layer.track_running_stats:
            continue
        if not kind_of_layer and "RNNBase" in kinds and layer.dropout:
            does = f"drops elements at random between its layers (dropout={layer.dropout})"
        if not kind_of_layer and "MultiheadAttention" in kinds and layer.dropout:
            does = f"drops weights at random (dropout={layer.dropout})"
        if does and layer.training:
            name = f"{path} ({type(layer).__name__})" if path else type(layer).__name__
            raise FrontendError(
                explain(
                    f"from_torch({type(module).__name__})",
                    f"layer {name} is in training mode, in which it {does}",
                    "Call module.eval() first.",
                )
            )


def _check_values(module: Any) -> None:
    """Raise for weights that are not in this machine's memory."""
    for path, value in [*module.named_parameters(), *module.named_buffers()]:
        if value.device.type == "cpu":
            continue
        why, hint = f"weight {path} is on {value.device}", "Call module.cpu() first."
        if value.device.type == "meta":
            why = f"weight {path} is on the device meta, so it has no values"
            hint = "Load the weights first: module.to_empty(device='cpu'), then load_state_dict."
        raise FrontendError(explain(f"from_torch({type(module).__name__})", why, hint))


def _translated(module: Any, error: Exception, dims: Mapping[Var, Any]) -> FrontendError:
    """Return the error of ``torch.export`` in the user's terms, with the line of the module."""
    line, owners = line_of_error(error)
    paths = {id(layer): path for path, layer in module.named_modules()}
    layer = next((paths[id(owner)] for owner in owners if paths.get(id(owner))), "")
    where = f" at {line}" if line else ""
    where += f" (layer {layer})" if layer else ""
    asked, text = f"from_torch({type(module).__name__})", str(error)
    kind = type(error).__name__
    if "DataDependent" in kind or "data-dependent" in text or "unbacked" in text:
        return FrontendError(
            explain(
                f"{asked}{where}",
                "what is computed depends on the values of a tensor, as in an if, an assert, a "
                "while or a mask, and a network computes the same for all values",
                _instead_of_values(line, owners),
            )
        )
    if dims and ("onstraint" in text or "specialized" in text or "Dim" in text):
        names = [size.name for size in dims]
        if not line:
            where = _where_compared(module, error)
        return FrontendError(
            explain(
                f"{asked} with the symbolic size {', '.join(names)}{where}",
                f"{_range_of(names, text)}, and a symbolic size is any number",
                "Make the dimension a number: leave out batch=, or this size of dynamic_shapes or "
                "of a placeholder.\n"
                "Or bound it in dynamic_shapes, as in torch.export.Dim('t', max=128).\n"
                "Or write the module for any size: x.flatten(1), not x.view(8, -1), and no if, "
                "assert or loop that depends on the size. The steps of a recurrent layer are a "
                "number.",
            )
        )
    return FrontendError(
        explain(
            f"{asked}{where}",
            f"torch.export failed: {kind}: {_reason(text)}",
            "Check that module(*example_inputs) runs. What cannot be traced, such as a change of "
            "state or another library's function, has to leave forward.",
        )
    )


# the options of layers that say whether a mask is causal; the outermost layer comes first
_CAUSAL = {
    "Transformer": "src_is_causal= and tgt_is_causal=",
    "TransformerEncoder": "is_causal=",
    "TransformerDecoder": "tgt_is_causal=",
}


def _instead_of_values(line: str, owners: Sequence[Any]) -> str:
    """Return what to write where a ``line`` in the forward of ``owners`` asks for values."""
    if ": assert " in line:
        return "Leave the assert out of forward."
    kinds = {type(owner).__name__ for owner in owners}
    for kind, options in _CAUSAL.items():
        if kind in kinds:
            return (
                f"{kind} compares its mask with a causal one, unless the call says whether it is "
                f"one: pass {options}, True or False."
            )
    return "Choose between values by torch.where, and read sizes from shapes."


# what PyTorch proposes for a size that fits only some numbers
_FIXED = r"^ *{} = (\d+)$"
_MULTIPLE = r"^ *{} = (\d+)\*_\w+$"
_WITHIN = r"^ *{} = Dim\('\w+'(?:, min=(\d+))?(?:, max=(\d+))?\)"


def _range_of(names: Sequence[str], text: str) -> str:
    """Return which numbers a module takes for a size, from an error of PyTorch.

    >>> print(_range_of(["n"], "Suggested fixes:\\n  n = Dim('n', min=5)"))
    the module computes this only for n of 5 or more
    """
    for name in names:
        size = re.escape(name)
        if match := re.search(_FIXED.format(size), text, re.M):
            return f"the module fixes {name} at {match[1]}"
        only = "the module computes this only for"
        if match := re.search(_MULTIPLE.format(size), text, re.M):
            return f"{only} multiples of {match[1]} as {name}"
        match = re.search(_WITHIN.format(size), text, re.M)
        least, most = match.groups() if match else (None, None)
        if least and most:
            return f"{only} {name} from {least} to {most}"
        if least or most:
            return f"{only} {name} of {f'{least} or more' if least else f'at most {most}'}"
    return f"the module needs a number there: {_reason(text)}"


def _where_compared(module: Any, error: Exception) -> str:
    """Return the line that compares a symbolic size, and its layer, as the end of a text.

    PyTorch keeps the lines of its comparisons, those inside of its operators by its own lines.
    """
    for owner in line_of_error(error.__cause__ or error.__context__ or error)[1]:
        for guard in getattr(owner, "guards", ()):
            frame = getattr(getattr(guard, "sloc", None), "framework_loc", None)
            line = line_of_frame(frame)
            if line:
                inside = [path for path, layer in module.named_modules() if _has(layer, frame)]
                named = len(inside) == 1 and inside[0]
                return f" at {line}" + (f" (layer {inside[0]})" if named else "")
    return ""


def _has(layer: Any, frame: Any) -> bool:
    """Return whether the forward of a layer has the line of a frame."""
    code = getattr(type(layer).forward, "__code__", None)
    if code is None or code.co_filename != frame.filename:
        return False
    return frame.lineno in {line for _, _, line in code.co_lines()}


def _reason(text: str) -> str:
    """Return the line of a long error of PyTorch that says most."""
    lines = [line.strip(" -") for line in text.splitlines() if line.strip()]
    telling = next((line for line in lines if "guard" in line or "must" in line), "")
    telling = _with_names_of_sizes(telling)
    return first_line(telling.rstrip(".") or (lines[0] if lines else text))


def _with_names_of_sizes(text: str) -> str:
    """Return a text of PyTorch with the names of sizes for ``L['args'][0].size()[0]``."""
    for name, size in set(re.findall(r"(\w+) = (L\[\S+\.size\(\)\[\d+\])", text)):
        text = text.replace(f"{name} = {size}", name).replace(size, name)
    return text


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence PyTorch about itself: its own deprecations, and the views of a recurrent layer.

    The error says what PyTorch logs about a module that fails.
    """
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")
        warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
        warnings.filterwarnings("ignore", message=r".*_flat_weights\[", category=UserWarning)
        try:
            yield
        finally:
            logging.disable(before)
