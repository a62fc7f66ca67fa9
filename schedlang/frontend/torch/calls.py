"""``Call``: what an operator's function is told about the node of the graph that calls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.naming import rename
from schedlang.arrays.stages import tensor_of
from schedlang.compute.tensor import Tensor
from schedlang.errors import FrontendError, explain
from schedlang.expr import dtypes
from schedlang.frontend.node_stages import cast_to
from schedlang.language.construct import binary


@dataclass(frozen=True)
class Call:
    """A call of an operator of ATen in an exported graph.

    ``name`` is the name of its stage, ``layer`` the layer that makes the call, and ``line`` the
    user's line, ``""`` if PyTorch does not know it. ``dtypes`` and ``shapes`` describe the results;
    a symbolic extent is ``None``. ``promoted`` is the dtype in which PyTorch compares or combines
    the first two operands. ``used`` says which of several results are read. ``known`` makes a
    parameter, by its name, of an array that is known at import.
    """

    operator: str
    node: str
    name: str
    layer: str
    line: str
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int | None, ...], ...]
    promoted: str
    used: tuple[bool, ...]
    known: Callable[[str, np.ndarray], Tensor]

    @property
    def dtype(self) -> str:
        return self.dtypes[0]

    @property
    def shape(self) -> tuple[int | None, ...]:
        return self.shapes[0]

    @property
    def wide(self) -> str:
        """The dtype that sums of products have, as in PyTorch: float32 for floats of 16 bits."""
        return dtypes.register_dtype(self.dtype)

    def main(self, made: Tensor) -> Tensor:
        """Return ``made``, a stage of this call, with the name of the call itself.

        Views of it are then named after what they do.
        """
        return rename(made, self.name)

    def product(self, made: Tensor) -> Tensor:
        """Return ``made``, a sum of products of this call, named so.

        If it is the result of the call, it gets the call's name in the end.
        """
        return rename(made, f"{self.name}.product")

    def biased(self, total: Tensor, bias: Tensor | None) -> Tensor:
        """Return the sum of products ``made``, with ``bias``, which broadcasts, if there is one.

        It is rounded once, to the dtype of the call.
        """
        self.product(total)
        if bias is not None:
            total = array("bias", lambda x, b: binary("+", x, b), total, bias)
        return cast_to(total, self.dtype)

    def refuse(self, why: str, hint: str) -> FrontendError:
        """Return the error for a call that has no form: why, and what to do instead."""
        return FrontendError(explain(self.described(), why, hint))

    def described(self) -> str:
        """Return the call for messages: its operator, node, layer and line."""
        layer = f" of layer {self.layer}" if self.layer else ""
        line = f" ({self.line})" if self.line else ""
        return f"from_torch: {self.operator}, node {self.node}{layer}{line}"


Operator = Callable[..., Any]


def combine(name: str, *values: Any) -> Tensor:
    """Return an operation of topi as a tensor, also of elements without a dimension."""
    return tensor_of(getattr(topi, name)(*values), f"topi.{name}")


def of_dtype(value: Any, dtype: str) -> Any:
    """Return a tensor or a number converted to ``dtype``, if it has another one."""
    if isinstance(value, Tensor):
        return cast_to(value, dtype)
    if not isinstance(value, (bool, int, float)) or dtype == "bool":
        return value
    return float(value) if dtypes.is_float(dtype) else int(value)
