"""Modules that write numbers into tensors of their own: what depends on no input is an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="imports modules of PyTorch: the extra torch")

from schedlang.errors import FrontendError  # noqa: E402
from schedlang.frontend import from_torch  # noqa: E402
from tests.test_from_torch import check, compare  # noqa: E402
from tests.torch_models import Function  # noqa: E402


class Kept(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A buffer, whose numbers a module may read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.arange(4.0))


def windows(x: Any, kept: Any) -> Any:
    """Write the mask of attention with shifted windows."""
    mask = x.new_zeros((4, 4))
    for k, rows in enumerate((slice(0, -2), slice(-2, -1), slice(-1, None))):
        mask[rows, 1:] = k + 1.5
    apart = mask.view(2, 2, 4).unsqueeze(1) - mask.view(2, 2, 4).unsqueeze(2)
    mask = apart.masked_fill(apart != 0, -100.0)
    return x[:2] + mask.sum((0, 1))


def read_between(x: Any, kept: Any) -> Any:
    """Write into what another call has read."""
    a = torch.zeros(4)
    a[1] = 2
    b = x + a
    a[2] = 3
    return b * a


def view_before(x: Any, kept: Any) -> Any:
    a = torch.empty(4)
    middle = a[1:3]
    a.fill_(2)
    return x * middle.sum() + (a + 1)


def value_before(x: Any, kept: Any) -> Any:
    """Keep the numbers that were there before a write."""
    a = torch.ones(4)
    before = a * 3
    a[0:2] = 7
    return x + before - a


def input_into(x: Any, kept: Any) -> Any:
    a = torch.zeros(4, 4)
    a[0] = 5
    a[1:3] = x[1:3]
    return a + x


def buffer_into(x: Any, kept: Any) -> Any:
    a = x.new_full((4,), 2)
    a[1:] = kept.numbers[1:]
    return a + x


def parts_of_one(x: Any, kept: Any) -> Any:
    a = torch.arange(8.0)
    a[3] = -1
    left, right = a.split(4)
    right += 2
    return x * left + right


def returned(x: Any, kept: Any) -> Any:
    a = torch.zeros(3, dtype=torch.int64)
    a[1] = 4
    return x + 1, a


def like(x: Any, kept: Any) -> Any:
    a = torch.zeros_like(x)
    a[:, 2] = 1
    return x * a + torch.ones_like(kept.numbers)


def like_columns(x: Any, kept: Any) -> Any:
    """Write into copies: zeros like a transposed tensor are transposed in memory, too."""
    a = torch.zeros_like(x.t())
    a.reshape(-1)[1] = 5
    a.contiguous()[2] = 7
    return x + a


FUNCTIONS = (windows, read_between, view_before, value_before, input_into, buffer_into,
             parts_of_one, returned, like, like_columns)  # fmt: skip


def module_of(function: Callable[..., Any]) -> Any:
    return Function(function, kept=Kept())


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_written_numbers(function: Callable[..., Any]) -> None:
    check(module_of(function), torch.randn(4, 4, generator=torch.Generator().manual_seed(2)))


def test_a_mask_of_windows_is_an_array() -> None:
    model = from_torch(module_of(windows), (torch.zeros(4, 4),))
    assert len(model.params) == 1


def test_a_random_mask_is_refused() -> None:
    def forward(x: Any, kept: Any) -> Any:
        a = torch.rand(4)
        a[0] = 1
        return x + a

    with pytest.raises(FrontendError, match="rand"):
        from_torch(module_of(forward), (torch.zeros(4, 4),))


def test_a_tensor_of_the_module_that_changes_is_refused() -> None:
    """A plain attribute, which PyTorch exports as a constant: the next call reads it again."""

    class Counter(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.calls = torch.zeros(4)

        def forward(self, x: Any) -> Any:
            self.calls[0] += 1
            return x + self.calls

    with pytest.raises(FrontendError, match="forward changes the tensor calls"):
        from_torch(Counter().eval(), (torch.zeros(4, 4),))


def test_a_mask_of_a_symbolic_batch() -> None:
    def forward(x: Any, kept: Any) -> Any:
        a = x.new_zeros((x.shape[0], 4))
        a[:, 1] = 3
        return x + a

    model = from_torch(module_of(forward), (torch.zeros(3, 4),), batch="n")
    for n in (1, 2, 5):
        x = torch.arange(4.0 * n).reshape(n, 4)
        compare(model.reference(x.numpy()), forward(x, None), 0)
