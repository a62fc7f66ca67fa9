"""Doctests that call PyTorch run where it is installed."""

from importlib.util import find_spec

_MODULES = ["schedlang/torch/op.py", "schedlang/torch/backend.py"]
collect_ignore = [] if find_spec("torch") else _MODULES
