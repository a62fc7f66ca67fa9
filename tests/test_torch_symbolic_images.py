"""``torch.nn.functional.interpolate`` of images with symbolic heights and widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl

torch = pytest.importorskip("torch", reason="imports modules of PyTorch: the extra torch")

from schedlang.errors import FrontendError  # noqa: E402
from schedlang.frontend import from_torch  # noqa: E402

SIZES = [{2: torch.export.Dim("h"), 3: torch.export.Dim("w")}]


class Resized(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.interpolate(x, **self.options)


class Doubled(torch.nn.Module):  # type: ignore[misc, name-defined]
    """The new size is computed from the old one."""

    def forward(self, x: Any) -> Any:
        size = (x.shape[2] * 2 + 1, x.shape[3])
        return torch.nn.functional.interpolate(x, size=size, mode="bilinear")


QUICK = [
    Resized(scale_factor=2, mode="bilinear"),
    Resized(size=(7, 9), mode="nearest"),
]
SLOW = [
    Doubled(),
    *(Resized(scale_factor=by) for by in (2, 3, 1.5)),
    *(Resized(scale_factor=by, mode="nearest-exact") for by in (2, 1.25)),
    *(Resized(scale_factor=1.5, mode="bilinear", align_corners=end) for end in (False, True)),
    *(Resized(scale_factor=by, mode="bicubic") for by in (2, 1.25)),
    Resized(size=(7, 9), mode="nearest-exact"),
    Resized(size=(7, 9), mode="bicubic", align_corners=True),
]


@pytest.mark.parametrize(
    "module", [*QUICK, *(pytest.param(module, marks=pytest.mark.slow) for module in SLOW)]
)
def test_an_image_of_any_size_is_resized(module: Any) -> None:
    """PyTorch places pixels in float32: the larger the image, the less exact."""
    model = from_torch(module, (torch.ones(1, 2, 5, 6),), dynamic_shapes=SIZES)
    for shape in ((1, 2, 5, 6), (1, 2, 8, 3), (1, 2, 1, 41)):
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        expected = module(torch.tensor(x)).numpy()
        result = model.reference(x)
        if isinstance(module, Resized) and "nearest" in module.options.get("mode", "nearest"):
            assert np.array_equal(result, expected)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    "options, shape, sizes",
    [
        # 26 pixels times 11/13 have a step that rounds, and 13 have none
        ({"scale_factor": 11 / 13}, (1, 2, 26, 13), None),
        pytest.param(
            {"scale_factor": (11 / 13, 0.2)}, (1, 2, 26, 10), None, marks=pytest.mark.slow
        ),
        ({"scale_factor": (0.1, 2), "mode": "nearest-exact"}, (1, 2, 20, 5), [{3: "w"}]),
    ],
)
def test_factors_that_floats_do_not_hold(options: Any, shape: Any, sizes: Any) -> None:
    module = Resized(**options)
    x = torch.arange(float(np.prod(shape))).reshape(shape)
    model = from_torch(module, (x,), dynamic_shapes=sizes)
    assert np.array_equal(model.reference(x.numpy()), module(x).numpy())


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"scale_factor": 3}, {"scale_factor": 1.5, "mode": "bilinear"}]
)
def test_a_network_resizes_images_of_any_size(options: dict[str, Any]) -> None:
    module = Resized(**options)
    net = sl.network(
        from_torch(module, (torch.ones(1, 2, 5, 6),), dynamic_shapes=SIZES), database=None
    )
    for shape in ((1, 2, 5, 6), (1, 2, 31, 17)):
        x = np.random.default_rng(1).standard_normal(shape).astype("float32")
        expected = module(torch.tensor(x)).numpy()
        np.testing.assert_allclose(net(x), expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    "module, words",
    [
        (Resized(scale_factor=2.3, mode="bilinear"), r"times scale_factor=2.3 rounds in PyTorch"),
        pytest.param(
            Resized(size=(7, 9), mode="bilinear", antialias=True),
            "how many pixels it sums depends on a symbolic size",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_symbolic_images_that_are_refused(module: Any, words: str) -> None:
    with pytest.raises(FrontendError, match=words):
        from_torch(module, (torch.ones(1, 2, 5, 6),), dynamic_shapes=SIZES)
