"""te's ``tvm.driver``: another name of ``tvm.lower`` and ``tvm.build``.

>>> import schedlang as tvm
>>> tvm.driver.build is tvm.build
True
"""

from __future__ import annotations

from typing import Any

from schedlang.errors import missing_name
from schedlang.targets.build import build, lower

_STEPS = ("the compiler's steps have no names of their own", "Use tvm.lower and tvm.build.")
REFUSED = dict.fromkeys(("build_module", "tvmc"), _STEPS)


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, REFUSED, "tvm.driver")


__all__ = ["build", "lower"]
