"""Systems of linear equations, and factors of matrices, by LAPACK."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.host.row import Row
from schedlang.arrays.host.shapes import factors, of_square, singular, solved
from schedlang.arrays.shapes import size_of
from schedlang.compute.tensor import Shape


def _spread(a: Shape) -> Any:
    """Return the shapes of eigenvalues and eigenvectors."""
    return [a[:-1], a]


def _each(a: Shape) -> Shape:
    """Return the shape of a number for each matrix."""
    return a[:-2]


def _transposed(a: Shape, **_: Any) -> Shape:
    return (*a[:-2], a[-1], a[-2])


def _tensors(a: Shape, ind: int = 2, **_: Any) -> Shape:
    return (*a[ind:], *a[:ind])


def _polynomial(x: Shape, y: Shape, deg: int, **_: Any) -> Shape:
    return (deg + 1, *y[1:])


ROWS = {
    "linalg.solve": Row("a b", "a b", solved),
    "linalg.inv": Row("a", "a", of_square("inv", lambda a: a)),
    "linalg.cholesky": Row("a upper", "a", of_square("cholesky", lambda a: a)),
    "linalg.det": Row("a", "a", of_square("det", _each)),
    "linalg.slogdet": Row("a", "a", of_square("slogdet", lambda a: [_each(a), _each(a)])),
    "linalg.eigh": Row("a UPLO", "a", of_square("eigh", _spread)),
    "linalg.eigvalsh": Row("a UPLO", "a", of_square("eigvalsh", lambda a: a[:-1])),
    "linalg.eig": Row("a", "a", of_square("eig", _spread)),
    "linalg.eigvals": Row("a", "a", of_square("eigvals", lambda a: a[:-1])),
    "linalg.qr": Row("a mode", "a", factors),
    "linalg.svd": Row("a full_matrices compute_uv hermitian", "a", singular),
    "linalg.svdvals": Row("x", "x", lambda x: singular(x, compute_uv=False)),
    "linalg.pinv": Row("a rcond hermitian rtol", "a", _transposed),
    "linalg.matrix_rank": Row(
        "A tol hermitian rtol", "A", lambda A, **_: A[:-2] if len(A) > 1 else ()
    ),
    "linalg.cond": Row("x p", "x", lambda x, **_: x[:-2]),
    "linalg.tensorsolve": Row("a b axes", "a b", lambda a, b, **_: a[len(b) :]),
    "linalg.tensorinv": Row("a ind", "a", _tensors),
    "polyfit": Row("x y deg rcond full w cov", "x y w", _polynomial),
    "vander": Row(
        "x N increasing", "x", lambda x, N=None, **_: (size_of(x), x[0] if N is None else N)
    ),
}
