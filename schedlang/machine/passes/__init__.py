"""Passes over machine nests: each is a function of a nest and its :class:`Job`, in its own file.

``CPU_PASSES`` in ``machine/lower.py`` lists them in order; a GPU needs only the passes in
``GPU_PASSES``:

1. ``offsets.py`` names the offsets that several accesses hold as one object.
2. ``long_values.py`` names parts of values that are too long or too deep for a line. A choice with
   such a part becomes a branch.
3. ``numbering.py`` numbers the registers in the order of the statements.
4. ``outline.py`` makes functions of marked loops and of long blocks. If several loops are equal but
   for their names (``equal.py``), the source has the first, and ``T2_i = T1_i`` for the others, so
   that numba compiles it once. Before this pass, the nest is one function.
5. ``rows.py`` names the offsets of rows in folded storage.
6. ``stack_storage.py`` places arrays on the stack or the heap.
7. ``elements.py`` keeps an element in a register while a serial loop reads and stores it.

Two passes serve profiles instead: ``stamps.py`` puts time stamps around chosen loops of a finished
nest, and ``call_stamps.py`` around the calls of a network's kernels. ``changing.py`` says which
values later statements compute differently. The verifier and the fuzzer check what each pass makes;
``tests/test_machine_passes.py`` tests each by itself.
"""
