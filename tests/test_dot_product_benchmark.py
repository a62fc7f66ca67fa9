"""Schedules by hand of the benchmark of dot products, by the instructions of this processor."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from benchmarks import byte_convolutions, byte_instructions, dot_products
from benchmarks.byte_convolutions import Convolution
from benchmarks.byte_instructions import Form
from benchmarks.dot_products import KINDS, Kind, Product
from benchmarks.harness import Unavailable
from schedlang.runtime.processor import missing_features
from tests.marks import slow_but

pytestmark = pytest.mark.skipif(bool(missing_features(("avx2",))), reason="needs avx2")

SIZES = [(24, 64, 32), (50, 37, 29), (40, 8, 30), (40, 1, 128)]


@pytest.mark.parametrize("size", slow_but(["(50, 37, 29)"], SIZES))
@pytest.mark.parametrize("kind", KINDS[:2], ids=lambda kind: kind.name)
def test_a_product_of_bytes(kind: Kind, size: tuple[int, int, int]) -> None:
    product = Product(kind, *size)
    a, b = product.arrays()
    result = dot_products.ours(product, True)()
    np.testing.assert_array_equal(result, a.astype("int32") @ b.astype("int32"))


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES[:3])
def test_a_product_whose_second_operand_is_shifted(
    size: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """VNNI's schedule of two signed operands, by an instruction of AVX2."""
    own = sl.instructions.vpmaddwd_su_256
    form = Form(own, own, sl.instructions.vpmaddwd_us_rows_256, 4, 2, 4)
    monkeypatch.setitem(byte_instructions.FORMS, "s8", (form,))
    product = Product(KINDS[1], *size)
    s, _ = dot_products.by_hand(product)
    assert "shift_operand" in [step.primitive for step in s.steps]
    a, b = product.arrays()
    result = dot_products.ours(product, True)()
    np.testing.assert_array_equal(result, a.astype("int32") @ b.astype("int32"))


@pytest.mark.slow
@pytest.mark.parametrize("data", ["uint8", "int8"])
@pytest.mark.parametrize("shape", [(14, 8, 32, 3, 1, 1), (28, 16, 32, 1, 2, 0)], ids=["3x3", "1x1"])
def test_a_convolution_of_bytes(data: str, shape: tuple[int, ...]) -> None:
    work = Convolution("small", data, *shape)
    np.testing.assert_array_equal(byte_convolutions.ours(work, True)(), work.expected())


def test_what_the_processor_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(needs: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(n for n in needs if n != "avx2")

    monkeypatch.setattr(byte_instructions, "missing_features", without)
    assert byte_instructions.form_of("s8").instruction.name == "vpmaddwd_ss_256"
    with pytest.raises(Unavailable, match="^the processor lacks avx512bf16$"):
        byte_instructions.form_of("bf16")
