"""NumPy's functions on tensors and expressions are supported or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BoundsError, ComputeError, ComputeTypeError

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "einsum": lambda x: np.einsum("ij->j", x), "sum": np.sum, "mean": np.mean, "max": np.max,
    "dot": lambda x: np.dot(x, x), "tensordot": lambda x: np.tensordot(x, x),
    "concatenate": lambda x: np.concatenate([x, x]), "stack": lambda x: np.stack([x, x]),
    "pad": lambda x: np.pad(x, 1), "linalg.norm": np.linalg.norm, "transpose": np.transpose,
    "cumsum": np.cumsum, "argmax": np.argmax, "sort": np.sort, "fft.fft": np.fft.fft,
    "allclose": lambda x: np.allclose(x, 1),
    "zeros_like": np.zeros_like, "take": lambda x: np.take(x, [0]), "copy": np.copy,
    "interp": lambda x: np.interp(x, [0, 1], [0, 1]), "any": np.any, "reshape":
    lambda x: np.reshape(x, 4), "percentile": lambda x: np.percentile(x, 5),
}  # fmt: skip
WRITE = {
    "einsum": r"sl\.sum\(A\[i, k\] \* B\[k, j\], axis=k\)",
    "sum": r"sl\.sum\(A\[i, k\], axis=k\)",
    "mean": r"sl\.sum\(A\[i, k\], axis=k\)", "pad": r"sl\.pad", "transpose": r"A\[j, i\]",
    "cumsum": r"sl\.scan", "concatenate": r"sl\.if_then_else", "sort": "per element",
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_an_element_are_refused_by_name(name: str) -> None:
    A, k = sl.placeholder((4, 4), name="A"), sl.reduce_axis(4, name="k")
    match = rf"(?s)np\.{name} of the expression A\[k, 0\] \+ 1: "
    write = WRITE.get(name, "Write|Reduce|Read|Choose")
    with pytest.raises(ComputeTypeError, match=f"{match}.*{write}"):
        FUNCTIONS[name](A[k, 0] + 1)


def test_supported_functions() -> None:
    A, z = sl.placeholder((6,), name="A"), sl.placeholder((), name="z")
    C = sl.compute(
        (6,),
        lambda i: (np.where(A[i] > 1, A[i], 0), np.clip(A[i], -1, 1.5), np.round(A[i]),
                   np.clip(A[i], None, z), np.rint(z)),
        "C",
    )  # fmt: skip
    a, b = np.array([-2.5, -0.5, 0.5, 1.5, 2.5, np.nan], "float32"), np.float32(1.25)
    wanted = (np.where(a > 1, a, 0), np.clip(a, -1, 1.5), np.round(a), np.clip(a, None, b),
              np.full(6, np.around(b), "float32"))  # fmt: skip
    for got, want in zip(sl.build(sl.schedule(list(C)), target="python")(a, np.array(b)), wanted):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    with pytest.raises(ComputeTypeError, match=r"np\.clip\(out=\.\.\.\): .*not written to"):
        sl.compute((6,), lambda i: np.clip(A[i], 0, 1, out=np.zeros(6)))


def test_a_tensor_does_not_convert_to_an_array() -> None:
    A, B = sl.placeholder((4, 4), name="A"), sl.placeholder((), name="B")
    assert np.shape(A) == (4, 4) and np.ndim(A) == 2
    for convert in (np.array, np.asarray, np.float32, lambda x: np.array([x])):
        for T in (A, B):
            with pytest.raises(ComputeTypeError, match=f"tensor {T.name} as a NumPy array"):
                convert(T)


def test_rows_and_reductions() -> None:
    A, k = sl.placeholder((4, 4), name="A"), sl.reduce_axis(4, name="k")
    for function in (np.sum, np.einsum, np.asarray):
        with pytest.raises(BoundsError, match="2 dimension"):
            function(A[k]) if function is not np.einsum else np.einsum("i->", A[k])
    for convert in (np.sum, np.asarray):
        with pytest.raises(ComputeError, match="a reduction must be the whole value"):
            convert(sl.sum(A[0, k], axis=k))
