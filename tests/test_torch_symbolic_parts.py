"""Modules of PyTorch that slice, divide and resize a dimension whose extent is a size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl

torch = pytest.importorskip("torch", reason="imports modules of PyTorch: the extra torch")

from schedlang.errors import CallError, FrontendError  # noqa: E402
from schedlang.frontend import from_torch  # noqa: E402


class Of(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).random((count, 4), "float32")


def check(function: Callable[[Any], Any], counts: tuple[int, ...]) -> None:
    """Compare a function of ``n`` rows with PyTorch for several ``n``."""
    model = from_torch(Of(function), (torch.ones(6, 4),), dynamic_shapes=[{0: "n"}])
    for count in counts:
        wanted = function(torch.tensor(rows(count))).numpy()
        result = model.reference(rows(count))
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


PARTS: dict[str, Callable[[Any], Any]] = {
    "all but the first": lambda x: x[1:] * 2,
    "all but both ends": lambda x: x[1:-1] + 1,
    "every second": lambda x: x[1::2] * 2,
    "the last three": lambda x: x[-3:] * 2,
    "differences": lambda x: torch.diff(x, dim=0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_slices_of_a_symbolic_dimension(name: str) -> None:
    check(PARTS[name], (1, 2, 3, 8, 9))


@pytest.mark.slow
def test_a_part_that_may_have_one_row_is_not_squeezed() -> None:
    # of two rows, PyTorch squeezes the one that is left
    with pytest.raises(FrontendError, match="with the symbolic size n"):
        check(lambda x: x[1:].squeeze(0) * 2, (2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_images_of_any_length_are_made_smaller(mode: str) -> None:
    resize = torch.nn.functional.interpolate
    check(lambda x: resize(x.T[None], scale_factor=0.5, mode=mode)[0], (2, 3, 8, 9))


def halved(x: Any) -> Any:
    return x.reshape(x.shape[0] // 2, 1, -1) + 1


@pytest.mark.slow
def test_a_size_that_a_reshape_divides_is_a_multiple() -> None:
    model = from_torch(Of(halved), (torch.ones(5, 4),), dynamic_shapes=[{0: "n"}])
    net = sl.network(model, target="python", database=None)
    for run in (model.reference, net):
        for count in (2, 6):
            assert np.array_equal(run(rows(count)), rows(count).reshape(count // 2, 1, -1) + 1)
        with pytest.raises(CallError, match="dimension 0 of x is 3, but must be a multiple of 2"):
            run(rows(3))


@pytest.mark.slow
def test_a_placeholder_of_a_multiple() -> None:
    n = sl.var("n")
    with pytest.raises(FrontendError, match=r"only for multiples of 2 as n(.|\n)*2 \* sl.var"):
        from_torch(Of(halved), (sl.placeholder((n, 4), name="x"),))
    model = from_torch(Of(halved), (sl.placeholder((2 * n, 4), name="x"),))
    assert np.array_equal(model.reference(rows(4)), rows(4).reshape(2, 1, -1) + 1)


@pytest.mark.slow
def test_a_multiple_within_bounds() -> None:
    dims = [{0: torch.export.Dim("n", min=3, max=9)}]
    model = from_torch(Of(halved), (torch.ones(5, 4),), dynamic_shapes=dims)
    for count in (4, 8):
        assert model.reference(rows(count)).shape == (count // 2, 1, 8)
    for count in (2, 10):
        with pytest.raises(CallError, match="n_over_2 must be"):
            model.reference(rows(count))
