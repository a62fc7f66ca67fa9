"""Passes over loops, before selection: vectors, copies, masks, and sums in registers.

Each pass makes one decision and is a function ``(Block, LoopJob) -> Block`` in a file of its own.
``CPU_LOOP_PASSES`` in ``machine/lower.py`` lists them in order; a GPU needs only the passes in
``GPU_LOOP_PASSES``.

* Marks come first: ``serpentine.py``, ``blocks.py``, ``functions.py``, ``plain_loops.py``,
  ``short_sums.py`` and ``streams.py`` leave plain loops and stores, with pragmas.
* ``tails.py`` makes a loop of its own of the last iteration, where only that has a tail.
* ``sums.py`` makes a ``Kept`` of the sums that stay in registers, and ``rounding.py`` rounds
  products before an addition that waits for the previous one. After ``sums.py``, no pass adds or
  removes a loop around a ``Kept``.
* ``strips.py`` makes ``Lanes`` and ``Strips`` of vectorized loops, and ``unroll.py`` makes
  ``Copies`` of unrolled ones. Before ``strips.py``, a pass sees loops, guards and stores without
  copies or lanes, and leaves them so. ``statement_count.py`` refuses too many statements.
* ``conditions.py`` settles the conditions that copies and lanes decide, and makes tests or
  ``Masked`` of the others. ``transposes.py`` and ``shared_loads.py`` fill in fields of ``Copies``.

The statements that the passes make are in ``ir/nodes.py``. They print (``keep C in registers:``,
``lanes j in 0..16:``, ``mask i < n:``) and run in the interpreter. ``tests/test_machine_loops.py``
shows each pass, and compares the results before and after it on random schedules.
"""
