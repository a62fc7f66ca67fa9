"""Modules of PyTorch as computations: ``sl.frontend.from_torch``.

``module.py`` takes four steps. PyTorch is imported in functions alone.

1. ``examples.py`` makes tensors of the example inputs, and finds their symbolic dimensions.
2. ``exporting.py`` checks the module and calls ``torch.export``, whose errors it translates, with
   the user's line (``lines.py``). ``functional.py`` replaces in-place operators. A graph that then
   has operators without a form here is given to PyTorch once more, which takes these apart.
   Recurrent layers stay whole meanwhile, for any number of steps (``whole.py``).
3. ``params.py`` makes placeholders of weights and buffers.
4. ``converting.py`` goes through the nodes. ``layers.py`` names the stages of a node after its
   layer, and ``missing.py`` has the errors of nodes without a form. A result of another dtype or
   shape than PyTorch's is an error.

``operators.py`` has the table of operators and matches a call's arguments to a function by
their names. The function is in the file of its family. It takes a ``Call`` (``calls.py``), which
says what is known about the node, and the operator's arguments. Operators that only move elements
return views, through which elementwise operators read; others read them as a stage.
"""

from __future__ import annotations
