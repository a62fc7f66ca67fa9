"""Models of torchvision and timm: those of the list are right, or refused as it says.

A few small ones run here; ``python -m tests.image_models`` runs all, in an hour.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.image_models import listed_models, outcomes

pytest.importorskip("torch", reason="imports modules of PyTorch: the extra torch")

FEW = ("squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x0_5", "convnext_atto")


@pytest.mark.slow
def test_small_models_are_right() -> None:
    for library in ("torchvision", "timm"):
        if find_spec(library) is None:
            pytest.skip(f"{library} is not installed, whose models are compared with PyTorch")
    models = [model for model in listed_models() if model.name in FEW]
    assert len(models) == len(FEW) and all(model.listed == "right" for model in models)
    assert not [outcome for outcome in outcomes(models) if not outcome.right]
