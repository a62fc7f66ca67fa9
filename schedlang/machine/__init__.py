"""From a loop nest to the machine nest: typed scalars, vectors and registers over flat arrays.

``machine_nest(nest, target, ...)`` in ``lower.py`` makes every decision that is left:

1. Passes over loops (``loops/``) change the statements of the loop nest.
2. Selection (``select/``) translates them to the statements of ``nodes.py``.
3. Passes over machine nests (``passes/``) name values, cut functions and place storage.
4. ``verify.py`` checks the result.

The classes in ``nodes.py`` declare what their fields hold. ``walks.py`` derives every traversal
from that, and ``rewrite.py`` every rewriting. ``evaluate.py`` says what values mean;
``tests/machine_interpreter.py`` runs a whole nest by it, and counts loads and stores. ``text.py``
and ``printer.py`` print.

A network links the kernels of its parts to one nest (``link.py``). ``scratch.py`` lets the caller
give a kernel its storage, at places that ``alignment.py`` chooses. ``loop_tree.py`` knows the loops
of a finished nest and how often each begins, for profiles and counters.

The search draws many schedules and builds few, so its estimates do not wait for the machine nest:
they run single passes of ``loops/``. ``loops/sums.py`` tells them which sums are kept, and
``diagnostics/tiles.py`` counts the registers of a tile in the vectors and copies that
``loops/strips.py`` and ``loops/unroll.py`` make of it. ``tests/test_machine_registers.py`` compares
these counts with the registers of the machine nest.
"""
