"""Selection: a loop nest becomes machine functions, with vectors, registers and flat offsets.

It decides nothing about loops, which ``machine/loops/`` has arranged. ``statements.py`` has what
all targets share, ``cpu.py`` and ``gpu.py`` what differs, and ``parameters.py`` what a GPU kernel
is given. ``expressions.py`` gives each value its type, and a register if an expression uses it
twice, as ``uses.py`` counts. ``evaluator.py`` computes offsets; ``loads.py`` and ``stores.py``
choose the access for a pattern of lanes. In copies, an offset is a common part plus a constant. The
common part is one object, so that ``machine/passes/offsets.py`` can name it.
"""
