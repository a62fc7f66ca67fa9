"""Comparison with the reference, with tolerances for the order of float operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.compute.graph import operations
from schedlang.compute.reference import reference
from schedlang.compute.tensor import ComputeOp, PlaceholderOp, Tensor
from schedlang.expr.nodes import Binary
from schedlang.expr.visit import postorder
from schedlang.ir.nest import Nest
from tests.fuzz.record import Mismatch

MOST = 0.05
EPS = {"bfloat16": 1.6e-2, "float16": 2e-3, "float32": 3e-6, "float64": 1e-12,
       "complex64": 1e-5, "complex128": 1e-12}  # fmt: skip
ALPHA = np.float32(0.5)


def expected(
    outputs: Sequence[Tensor], values: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """Compute the outputs with the reference."""
    oracle = reference(list(outputs))
    named: dict[str, Any] = {t.name: values[t.name] for t in oracle.inputs}
    named |= {v.name: scalar(v, sizes) for v in oracle.variables}
    found = oracle(**named)
    found = found if isinstance(found, tuple) else (found,)
    return {t.name: v for t, v in zip(outputs, found)}


def scalar(variable: Any, sizes: Mapping[str, int]) -> Any:
    return sizes[variable.name] if variable.is_size else ALPHA


def compare(
    nest: Nest, found: Sequence[np.ndarray], wanted: Mapping[str, np.ndarray], terms: int, how: str
) -> None:
    """Raise :class:`Mismatch` where ``found`` are not the outputs ``wanted``.

    Integers must be equal. Floats must be close, with NaN and infinities at the same elements:
    in any order, a sum is NaN if a term is NaN or if both infinities are among its terms.
    """
    for buffer, got in zip(nest.outputs, found):
        assert buffer.tensor is not None
        want = wanted[buffer.tensor.name]
        if got.shape != want.shape or got.dtype != want.dtype:
            raise Mismatch(
                f"{how}: {buffer.name} is {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
            )
        if want.dtype.name == "bfloat16":
            got, want = got.astype("float32"), want.astype("float32")
        if not np.issubdtype(want.dtype, np.inexact):
            same = np.asarray(got == want)
        else:
            tolerance = min(MOST, coarsest(buffer.tensor) * max(4, terms))
            finite = np.abs(want[np.isfinite(want)]).max(initial=1.0)
            with np.errstate(all="ignore"):
                same = np.isclose(
                    got, want, rtol=tolerance, atol=tolerance * float(finite), equal_nan=True
                )
            if np.iscomplexobj(want):
                # which part of an overflow is NaN depends on the order of operations
                same |= ~np.isfinite(want)
            elif keeps_signs(buffer.tensor):
                zero = (want == 0) & (got == 0)
                same = same & (~zero | (np.signbit(got) == np.signbit(want)))
        if not same.all():
            at = tuple(int(k) for k in np.argwhere(~same)[0])
            raise Mismatch(
                f"{how}: {buffer.name}{list(at)} is {got[at]}, the reference says {want[at]} "
                f"({int((~same).sum())} of {same.size} differ)"
            )


def keeps_signs(tensor: Tensor) -> bool:
    """Return whether every schedule gives the same signs of zeros.

    A sum of zeros may have either sign if a product is fused into it, and so may a reduction.
    """
    for op in operations([tensor]):
        if isinstance(op, PlaceholderOp):
            continue
        if not isinstance(op, ComputeOp) or op.reducer is not None:
            return False
        for node in postorder(op.roots):
            adds = isinstance(node, Binary) and node.op in ("+", "-")
            if adds and "float" in node.dtype:
                return False
    return True


def coarsest(tensor: Tensor) -> float:
    """Return the tolerance of the narrowest float dtype that ``tensor`` is computed in."""
    kinds = {tensor.dtype}
    for op in operations([tensor]):
        roots = op.roots if isinstance(op, ComputeOp) else ()
        kinds |= {node.dtype for node in postorder(roots)}
    return max(EPS[k] for k in kinds if k in EPS)


__all__ = ["compare", "expected", "scalar"]
