"""Models of other libraries as computations: docs/reference/importers.md lists their operators.

Each importer returns an :class:`Imported`. The library that made the model is imported when its
importer is called.
"""

from __future__ import annotations

from schedlang.frontend.imported import Imported
from schedlang.frontend.onnx.importer import from_onnx
from schedlang.frontend.precision_error import precision_error
from schedlang.frontend.quantization_error import QuantizationError, quantization_error
from schedlang.frontend.torch.module import from_torch

__all__ = [
    "Imported", "QuantizationError", "from_onnx", "from_torch", "precision_error",
    "quantization_error",
]  # fmt: skip
