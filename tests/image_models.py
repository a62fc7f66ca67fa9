"""Models of torchvision and timm with random weights: which run here as PyTorch runs them.

    python -m tests.image_models [--build] [NAME ...]

prints what each model of ``image_models.txt`` gives, or each of those named, such as ``resnet18``.
A model is right if ``from_torch`` imports it and its ``reference`` gives what PyTorch gives, or
with ``--build`` the kernels of ``sl.network``, which take a minute to compile. Both packages, and
PyTorch, must be installed.
"""

from __future__ import annotations

import ast
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.errors import SchedlangError

LISTED = Path(__file__).parent / "image_models.txt"
# the largest difference from PyTorch, in standard deviations of its result
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Model:
    """A row of the list: a model, the shape of its input, and options of the model.

    ``listed`` is ``right`` or ``refused``.
    """

    listed: str
    library: str
    name: str
    shape: tuple[int, ...]
    options: dict[str, Any]

    @staticmethod
    def of(line: str) -> Model:
        word, path, sizes, *options = line.partition("#")[0].split()
        library, _, name = path.partition("/")
        given = dict(option.split("=") for option in options)
        values = {key: ast.literal_eval(value) for key, value in given.items()}
        return Model(word, library, name, tuple(map(int, sizes.split("x"))), values)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a model: ``right``, or the reason why not."""

    model: Model
    reason: str = ""
    difference: float = 0.0
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        return not self.reason


def listed_models() -> list[Model]:
    """Return the models of the list."""
    lines = LISTED.read_text("utf-8").splitlines()
    return [Model.of(line) for line in lines if line and line[0] not in "# "]


def outcomes(models: Iterable[Model], build: bool = False) -> Iterator[Outcome]:
    """Return the outcomes of models; wrong results are among them."""
    for model in models:
        start = time.perf_counter()
        reason, difference = "", 0.0
        try:
            difference = _difference(model, build)
            if not difference < TOLERANCE:
                reason = f"differs by {difference:.2g} standard deviations"
        except SchedlangError as error:
            reason = str(error)
        yield Outcome(model, reason, difference, time.perf_counter() - start)


def load_libraries() -> tuple[Any, Any]:
    """Return the modules torchvision and timm."""
    import torch

    try:
        import torchvision
    except RuntimeError:
        # a build for CUDA has no operators beside PyTorch for the CPU; these models call none
        library = torch.library.Library("torchvision", "DEF")  # noqa: TOR901
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision
    import timm

    return torchvision, timm


def _difference(model: Model, build: bool) -> float:
    """Return the largest difference of a model's results from PyTorch's."""
    import torch

    module = _module(model)
    image = torch.randn(model.shape)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = _leaves(module(image))
        imported = sl.frontend.from_torch(module, image)
    computed = sl.network(imported, database=None) if build else imported.reference
    results = _leaves(computed(image))
    largest = 0.0
    for result, wanted in zip(results, expected, strict=True):
        own, theirs = np.asarray(result), wanted.numpy()
        spread = theirs.std()
        assert own.shape == theirs.shape and own.dtype == theirs.dtype
        assert np.isfinite(theirs).all() and spread > 0, f"{model.name} computes nothing"
        largest = max(largest, float(np.abs(own - theirs).max() / spread))
    return largest


def _module(model: Model) -> Any:
    """Return a model in evaluation mode, with random numbers for all its weights.

    A weight that a constructor fills with one number, as the scale of a norm, would hide what its
    layer does, and a zero what comes before it.
    """
    import torch

    torchvision, timm = load_libraries()
    torch.manual_seed(0)
    if model.library == "torchvision":
        weights = {"weights": None}
        if model.name.startswith(("deeplab", "fcn", "lraspp")):
            weights["weights_backbone"] = None
        module = torchvision.models.get_model(model.name, **weights, **model.options)
    else:
        module = timm.create_model(model.name, pretrained=False, **model.options)
    with torch.no_grad():
        for values in (*module.parameters(), *module.buffers()):
            if not values.is_floating_point() or values.numel() < 2:
                continue
            first = values.flatten()[0]
            if (values == first).all():
                around = torch.rand_like(values) + 0.5
                values.copy_(around if first else torch.randn_like(values) / 9)
    return module.eval()


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in _leaves(part)]
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in _leaves(part)]
    return [] if value is None else [value]


def main(names: list[str]) -> None:
    build = "--build" in names
    chosen = set(names) - {"--build"}
    models = [m for m in listed_models() if not chosen or m.name in chosen]
    for outcome in outcomes(models, build):
        model = outcome.model
        word = "right" if outcome.right else "refused"
        print(
            f"{word:8}{model.library}/{model.name} {outcome.difference:.1e} "
            f"{outcome.seconds:.1f} s {outcome.reason}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
