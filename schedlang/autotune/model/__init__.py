"""The schedule that the cost model prefers, found without measuring.

1. ``groups.py`` cuts a large computation into groups, each a computation of its own that reads
   placeholders (``compute/extraction.py``). Stages keep their names, so that decisions for a group
   are decisions for the whole.
2. ``descent.py`` draws candidates of a group from ``autotune/space.py`` and keeps the one with the
   least estimate. Knobs say where it starts, which of them it changes first, and to which values.
   It starts with all stages at root, and then with a block of rows that goes through all stages in
   one loop. The number of draws follows from the work. ``pressure.py`` counts the registers of
   unrolled taps.
3. ``by_model.py`` draws the whole computation once, with the decisions of all groups.
   ``parallel_loops.py`` drops the parallel loops that do not pay.

The estimates come from ``autotune/costs/``. For a kernel in a network,
``networks/surroundings.py`` tells the model which inputs come from memory in each call, and whether
threads wait for work.
"""
