"""PyTorch's functions on tensors of schedlang: what to write instead.

PyTorch calls ``__torch_function__`` of an argument that is none of its own tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from schedlang.errors import ComputeTypeError, docs_page, explain, text_of
from schedlang.expr.functions import FUNCTIONS
from schedlang.expr.operators import COMPARISON, OPERATORS

# functions of PyTorch that NumPy has under another name, and those that are an expression
_NAMES = {
    "cat": "np.concatenate", "concat": "np.concatenate", "clamp": "np.clip", "mm": "np.matmul",
    "bmm": "np.matmul", "mv": "np.matmul", "pow": "np.power", "mul": "np.multiply",
    "sub": "np.subtract", "div": "np.divide", "neg": "np.negative", "permute": "np.transpose",
    "unsqueeze": "np.expand_dims", "norm": "np.linalg.norm", "einsum": "sl.einsum",
    "index_select": "np.take", "gather": "np.take_along_axis",
    **{o.method: f"np.{o.ufunc}" for o in OPERATORS.values() if o.kind == COMPARISON},
    **{f.name: f.spelled for f in FUNCTIONS.values() if f.rule == "float"},
}  # fmt: skip
_FORMULAS = {
    "relu": "np.maximum({}, 0)",
    "softmax": "e = np.exp({0} - {0}.max(axis=-1, keepdims=True)), and e / e.sum(axis=-1, "
    "keepdims=True)",
    "silu": "{0} * sl.sigmoid({0})",
    "gelu": "0.5 * {0} * (1 + sl.erf({0} / 2**0.5))",
    "linear": "{} @ W.T + b",
    "softplus": "np.logaddexp({}, 0)",
}


def refuse_torch(
    function: Any, args: Sequence[Any], named: Mapping[str, Any], what: str, written: str
) -> NoReturn:
    """Raise for a function of PyTorch of ``what``, which is ``written`` in formulas."""
    name = str(getattr(function, "__name__", function)).strip("_")
    if any(type(v).__module__.startswith("torch") for v in _flat([*args, *named.values()])):
        raise ComputeTypeError(
            explain(
                f"torch.{name} of {what} and a tensor of PyTorch",
                "the elements of the latter are data, which a computation takes as an input",
                'Declare it, X = sl.placeholder(shape, dtype, name="X"), compute with X, and pass '
                "the tensor to the kernel; a function under @sl.jit takes it as an argument.",
            )
        )
    if name in _FORMULAS:
        hint = f"Write {_FORMULAS[name].format(written)}."
    elif name in _NAMES or hasattr(np, name):
        axis = ", with axis= in place of dim=" if "dim" in named else ""
        hint = f"Write {_NAMES.get(name, f'np.{name}')}{axis}."
    else:
        hint = f"Write it with NumPy's functions; {docs_page('NumPy code')} lists them."
    raise ComputeTypeError(
        explain(
            f"torch.{name} of {what}",
            "PyTorch's functions compute with elements, and it has none yet",
            f"{hint} The kernel takes and returns tensors of PyTorch.",
        )
    )


def torch_function(
    cls: type,
    function: Any,
    types: Any,
    args: Sequence[Any] = (),
    named: Mapping[str, Any] | None = None,
) -> NoReturn:
    """Raise for a function of PyTorch of a tensor or an expression, ``__torch_function__``."""
    ours = [v for v in _flat([*args, *(named or {}).values()]) if isinstance(v, cls)]
    text = text_of(ours[0]) if ours else "A"
    kind = "tensor" if hasattr(cls, "ndim") else "the expression"
    refuse_torch(function, args, named or {}, f"{kind} {text}", text)


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    """Return the arguments, those in lists and tuples too."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value
