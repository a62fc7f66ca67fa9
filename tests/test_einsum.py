"""``sl.einsum`` is NumPy's einsum, contracted in pairs."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeError, ComputeTypeError
from tests.arrays import agree

RNG = np.random.default_rng(3)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype("float32")


@pytest.mark.parametrize(
    "subscripts, shapes",
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("ij,jk", [(3, 4), (4, 5)]),
        ("ba,cb", [(3, 4), (5, 3)]),
        ("ij->ji", [(3, 4)]),
        ("ii->i", [(4, 4)]),
        ("ii", [(4, 4)]),
        ("iij->ij", [(3, 3, 4)]),
        ("ij->", [(3, 4)]),
        ("ij->j", [(3, 4)]),
        ("i,i", [(6,), (6,)]),
        ("i,j->ij", [(3,), (4,)]),
        ("i,j->ji", [(3,), (4,)]),
        (",ij->ij", [(), (3, 4)]),
        ("i...,i...->...", [(3, 4), (3, 4)]),
        ("...ij,...jk->...ik", [(5, 2, 3, 4), (2, 4, 2)]),
        ("...ij,...jk", [(2, 3, 4), (2, 4, 2)]),
        ("...->...", [(2, 3)]),
        ("i...->...", [(2, 3, 4)]),
        ("ij,ij,jk->ik", [(3, 4), (3, 4), (4, 5)]),
        ("ab,bc,cd,de->ae", [(2, 9), (9, 3), (3, 8), (8, 4)]),
        ("ab,cd,ef->afcbde", [(2, 2), (2, 3), (1, 2)]),
        ("ij,jk->ik", [(3, 1), (4, 5)]),
        (" i j , j k -> i k ", [(3, 4), (4, 5)]),
        ("Ab,bA->A", [(3, 4), (4, 3)]),
        ("bi,bo,bn,b...->...", [(4, 2), (4, 3), (4, 2), (4, 2, 2)]),
    ],
)  # fmt: skip
def test_numpy_and_schedlang_agree(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [floats(*s) for s in shapes]
    agree(lambda *a: np.einsum(subscripts, *a), *arrays, rtol=1e-4, atol=1e-5)
    for optimize in (False, "greedy"):
        agree(lambda *a, o=optimize: np.einsum(subscripts, *a, optimize=o), *arrays,
              rtol=1e-4, atol=1e-5)  # fmt: skip
    tensors = [sl.placeholder(s, name=f"T{k}") for k, s in enumerate(shapes)]
    assert sl.einsum(subscripts, *tensors).shape == np.einsum(subscripts, *arrays).shape


def test_lists_of_numbers_are_labels() -> None:
    agree(lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [0, 2]), floats(3, 4), floats(4, 5))
    agree(lambda a, b: np.einsum(a, [0, 1], b, [1, 2]), floats(3, 4), floats(4, 5))
    agree(lambda a, b: np.einsum(a, [..., 1], b, [1, 2], [..., 2]), floats(3, 4), floats(4, 5))


def test_labels_name_the_axes() -> None:
    A, B = sl.placeholder((2, 4, 8), name="A"), sl.placeholder((2, 8, 3), name="B")
    C = sl.named("C", sl.einsum("bmk,bkn->bmn", A, B))
    assert [a.name for a in C.op.axis] == ["b", "m", "n"]
    assert [a.name for a in C.op.reduce_axis] == ["k"]
    assert str(C.op.body[0]) == "A[b, m, k] * B[b, k, n]"


def test_operands_are_contracted_in_pairs() -> None:
    """The chain costs least from the right: its vector first."""
    A, B = sl.placeholder((50, 60), name="A"), sl.placeholder((60, 70), name="B")
    v = sl.placeholder((70,), name="v")
    C = sl.einsum("ij,jk,k->i", A, B, v)
    assert [t.shape for t in C.op.input_tensors] == [(50, 60), (60,)]
    once = sl.einsum("ij,jk,k->i", A, B, v, optimize=False)
    assert once.op.input_tensors == [A, B, v] and len(once.op.reduce_axis) == 2
    first = sl.einsum("ij,jk,k->i", A, B, v, optimize=["einsum_path", (0, 1), (0, 1)])
    assert [t.shape for t in first.op.input_tensors] == [(70,), (50, 70)]


def test_symbolic_sizes_contract_from_left_to_right() -> None:
    n, m = sl.var("n"), sl.var("m")
    A, B, C, v = (
        sl.placeholder(s, name=k)
        for k, s in (("A", (n, m)), ("B", (m, n)), ("C", (n, 3)), ("v", (3,)))
    )
    D = sl.einsum("ij,jk,kl,l->i", A, B, C, v)
    assert D.shape == (n,)
    names = []
    while D.op.input_tensors:
        names += [t.name for t in D.op.input_tensors if t.name != "einsum"]
        D = next((t for t in D.op.input_tensors if t.name == "einsum"), A)
    assert names == ["v", "C", "A", "B"]
    a, b, c, w = floats(4, 5), floats(5, 4), floats(4, 3), floats(3)
    got = sl.reference(sl.einsum("ij,jk,kl,l->i", A, B, C, v))
    given = dict(A=a, B=b, C=c, v=w)
    np.testing.assert_allclose(got(**given), a @ b @ c @ w, rtol=1e-4)


A, B = sl.placeholder((3, 4), name="A"), sl.placeholder((4, 5), name="B")


@pytest.mark.parametrize(
    "given, match",
    [
        (("ij,jk->ik", A), r"name 2 operands, but 1 are given"),
        (("ijk,jk->ik", A, B), r"'ijk' labels 3 dimensions, but A of shape \(3, 4\) has 2"),
        (("i,jk->ik", A, B), r"'i' labels 1 dimension, but A of shape .* has 2\n.*\.\.\."),
        (("ij,ik->jk", A, B), r"i of shapes \(3,\) and \(4,\): .*3 and 4 are neither equal nor 1"),
        (("ij,jk->il", A, B), r"has the label 'l', but no operand"),
        (("ij,jk->iik", A, B), r"label 'i' twice"),
        (("ii->i", A), r"i labels dimensions of 3 and of 4 in A of shape .*two equal ones"),
        (("ii->i", A[:, :1]), r"i labels dimensions of 3 and of 1 in .*two equal ones"),
        (("ii,ij", A[:0, :1], A), r"i labels dimensions of 0 and of 1 in .*two equal ones"),
        (("i1,jk->ik", A, B), r"'1' is not a label"),
        (("ij..,jk->ik", A, B), r"'\.' is not a label\n.*three dots"),
        (("...j,jk->k", A, B),
        r"the result lacks the dimensions of \.\.\.; write them: .*->\.\.\.k"),
        ((A, B), r"the first operand must be the subscripts\n.*sl\.einsum\(\"ij,jk->ik\", A, B\)"),
        ((), r"give subscripts and tensors"),
        (("ij->ji", np.ones((3, 4))), r"NumPy array of shape \(3, 4\).*\n.*sl\.placeholder"),
        ((A, [0, 99], B, [1, 2]), r"99 is not a label"),
    ],
)  # fmt: skip
def test_subscripts_that_do_not_fit(given: tuple, match: str) -> None:
    with pytest.raises((ComputeError, ComputeTypeError), match=match):
        sl.einsum(*given)


def test_paths_that_do_not_fit() -> None:
    with pytest.raises(ComputeError, match=r"step \(0, 5\) does not name operands of the 3"):
        sl.einsum("ij,jk,k->i", A, B, B[0], optimize=[(0, 5)])
    with pytest.raises(ComputeError, match="2 operands are left"):
        sl.einsum("ij,jk,k->i", A, B, B[0], optimize=[(0, 1)])
    with pytest.raises(ComputeTypeError, match=r"np\.einsum\(out=\.\.\.\)"):
        np.einsum("ij->j", A, out=np.ones(4))
