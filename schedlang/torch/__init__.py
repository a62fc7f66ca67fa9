"""Kernels inside PyTorch: ``sl.torch.op`` makes an operator, a backend compiles models.

PyTorch is imported in functions alone.

An operator: ``op.py`` checks what it is given. ``functions.py`` says what an operator calls: a
kernel, or a traced function. ``shapes.py`` has the shapes of its results for sizes that PyTorch may
not know yet, ``derivatives.py`` the kernels of its gradient, and ``batches.py`` its computation
over one more axis. ``forward.py`` refuses forward-mode derivatives. ``registration.py`` gives all
of that to ``torch.library``.

The backend: ``backend.py`` gets graphs from ``torch.compile``. ``graphs.py`` makes a module of
each, with its weights, for ``sl.frontend.from_torch``; ``parts.py`` divides those with operators
that have no form. ``report.py`` says what went where.
"""

from __future__ import annotations

from schedlang.torch.backend import Backend
from schedlang.torch.op import op

__all__ = ["Backend", "op"]
