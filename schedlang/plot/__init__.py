"""Pictures of loop nests, kernels and searches (extra ``viz``); see docs/pictures.md."""

from __future__ import annotations

from schedlang.plot.order import iteration_order
from schedlang.plot.picture import Picture

__all__ = ["Picture", "iteration_order"]
