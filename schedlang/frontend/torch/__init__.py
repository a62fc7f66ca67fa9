"""Modules of PyTorch as computations: ``sl.frontend.from_torch``.

``module`` exports a module and converts it, node by node. ``operators`` is the table of ATen's
operators; each is a function in the file of its family. PyTorch is imported in functions alone.
"""

from __future__ import annotations
