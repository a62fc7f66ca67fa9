"""ONNX models as computations: ``from_onnx``, and a table from operators to calls of topi.

:mod:`~schedlang.frontend.onnx.checked` turns a file into plain records and refuses what is damaged
or absurd, before anything is made. ``operators`` has a function for each operator, one family a
file. The package ``onnx`` is imported when a model is read.
"""

from __future__ import annotations

from schedlang.frontend.onnx.importer import from_onnx

__all__ = ["from_onnx"]
