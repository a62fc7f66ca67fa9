"""Models that PyTorch and scikit-learn export, imported, beside what these libraries compute."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from tests.marks import slow_but

pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")


def networks() -> dict[str, Any]:
    """Return networks of PyTorch and their inputs, by name."""
    torch = pytest.importorskip("torch", reason="exports modules of PyTorch")
    from tests import torch_models as models

    torch.manual_seed(0)
    images, words = torch.randn(2, 3, 32, 32), torch.randint(0, 20, (2, 7))
    made = {
        "resnet": (models.ResNet(), images), "bottlenecks": (models.ResNet(True), images),
        "mobilenet": (models.MobileNet(), images), "efficientnet": (models.MobileNet(True), images),
        "vit": (models.ViT(), images), "vit by hand": (models.ViT("hand"), images),
        "vit fused": (models.ViT("fused"), images), "lstm": (models.Tagger(both=True), words),
        "gru": (models.Tagger("GRU", batch_first=False), words),
        "mlp": (models.MLP(), torch.randn(4, 12)),
        "unet": (models.UNet(), torch.randn(1, 2, 8, 10)),
    }  # fmt: skip
    return {name: (models.randomized(m), x) for name, (m, x) in made.items()}


NAMES = ["resnet", "bottlenecks", "mobilenet", "efficientnet", "vit", "vit by hand", "vit fused",
         "lstm", "gru", "mlp", "unet"]  # fmt: skip


def exported(module: Any, x: Any, new: bool, **kwargs: Any) -> bytes:
    """Return the file that PyTorch's new exporter, or the one by tracing, writes."""
    import torch

    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if new:
            torch.onnx.export(module, (x,), dynamo=True, verbose=False, **kwargs).save(file)
        else:
            torch.onnx.export(module, (x,), file, dynamo=False, **kwargs)
    return file.getvalue()


def outputs_of(module: Any, x: Any) -> list[np.ndarray]:
    import torch

    with torch.no_grad():
        found = module(x)
    values = list(found.values()) if isinstance(found, dict) else [found]
    flat: list[Any] = []
    for value in values:
        flat.extend(value if isinstance(value, tuple) else [value])
    return [v.numpy() for v in flat]


def compare(found: Any, expected: list[np.ndarray]) -> None:
    results = found if isinstance(found, tuple) else (found,)
    for got, wanted in zip(results, expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", slow_but(["vit by hand"], NAMES))
def test_a_network_that_pytorch_traced(name: str) -> None:
    module, x = networks()[name]
    imported = sl.frontend.from_onnx(exported(module, x, new=False))
    compare(imported.reference(x.numpy()), outputs_of(module, x))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_network_that_pytorch_exported(name: str) -> None:
    pytest.importorskip("onnxscript", reason="PyTorch's new exporter needs onnxscript")
    module, x = networks()[name]
    imported = sl.frontend.from_onnx(exported(module, x, new=True))
    compare(imported.reference(x.numpy()), outputs_of(module, x))


@pytest.mark.parametrize("name", slow_but(["gru"], ["gru", "resnet", "vit by hand", "mlp"]))
def test_a_batch_that_each_call_chooses(name: str) -> None:
    import torch

    module, x = networks()[name]
    axis = 1 if name == "gru" else 0
    data = exported(module, x, False, input_names=["x"], dynamic_axes={"x": {axis: "batch"}})
    imported = sl.frontend.from_onnx(data, shapes={"batch": sl.var("batch")})
    (given,) = imported.inputs
    assert str(given.shape[axis]) == "batch"
    for count in (1, 3):
        more = torch.cat([x, x + 1 if x.dtype == torch.float32 else x], axis).narrow(axis, 0, count)
        compare(imported.reference(more.numpy()), outputs_of(module, more))
    # a number fixes it
    fixed = sl.frontend.from_onnx(data, shapes={"batch": x.shape[axis]})
    assert fixed.inputs[0].shape == tuple(x.shape)


# scikit-learn


def digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return pixels.astype("float32") / 16, labels


def converted(model: Any, x: np.ndarray, **options: Any) -> Any:
    pytest.importorskip("skl2onnx", reason="exports models of scikit-learn")
    from skl2onnx import to_onnx

    return to_onnx(model, x[:1], options={id(model): options} if options else None)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic"])
@pytest.mark.parametrize("zipped", [True, False])
def test_the_mlp_of_scikit_learn(activation: str, zipped: bool) -> None:
    network = pytest.importorskip("sklearn.neural_network", reason="trains with scikit-learn")
    pixels, labels = digits()
    mlp = network.MLPClassifier((24,), activation, max_iter=15, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlp.fit(pixels[:800], labels[:800])
    model = converted(mlp, pixels, **({} if zipped else {"zipmap": False}))
    test = pixels[800:900]
    imported = sl.frontend.from_onnx(model, shapes={"X": (100, 64)})
    found, chances = imported.reference(test)
    assert (found.dtype, chances.dtype) == ("int64", "float32")
    np.testing.assert_array_equal(found, mlp.predict(test))
    np.testing.assert_allclose(chances, mlp.predict_proba(test), rtol=1e-4, atol=1e-6)
    assert np.mean(found == labels[800:900]) > 0.5
    # weights are parameters, as scikit-learn has them
    shapes = [array.shape for array in imported.params.values()]
    assert (64, 24) in shapes and (24, 10) in shapes


def test_other_models_of_scikit_learn() -> None:
    pytest.importorskip("sklearn", reason="trains with scikit-learn")
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pixels, labels = digits()
    test, size = pixels[800:830], {"X": (30, 64)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in (
            make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=5, random_state=0)),
            LogisticRegression(max_iter=5), LinearRegression(),
            MLPRegressor(hidden_layer_sizes=(8,), max_iter=5, random_state=0),
        ):  # fmt: skip
            model.fit(pixels[:800], labels[:800])
            found = sl.frontend.from_onnx(converted(model, pixels), shapes=size).reference(test)
            if isinstance(found, tuple):
                np.testing.assert_array_equal(found[0], model.predict(test))
                np.testing.assert_allclose(found[1], model.predict_proba(test), rtol=1e-3,
                    atol=1e-5)
            else:
                np.testing.assert_allclose(found[:, 0], model.predict(test), rtol=1e-3, atol=1e-4)
