"""From a computation and its schedule to the loop nest.

``lower_state(state, args)`` in ``lower.py`` is a pure function. It runs these passes, one a file:

1. **place** (``state/placement.py``) finds the loop that holds each stage, and the stages to
   inline. It notes the steps that do not fit together.
2. **build** (``build.py``) makes each nest from the inside out. It starts with the innermost
   statement (``statement.py``); ``instantiate.py`` evaluates the stage's body there and expands
   inlined stages. Then it goes outward, a loop at a time. Each loop adds its guards (``guards.py``)
   and the stages that are attached to it. An attached stage computes its *box*: the union of the
   elements that the statements inside the loop read (``region.py``).
3. **resolve** (``resolve.py``) turns coordinates of tensors into coordinates of buffers.
4. **hoist** (``hoist.py``) moves guards out of the loops that they do not depend on.
5. **partition** (``loop_partitioning.py``) separates the edges of a loop, so that the lanes in the
   middle need no clamp and no guard.
6. **trim** (``trim.py``) finds the ranges of loops over ragged axes.
7. **names** (``loop_names.py``) gives loops their printed names, and stages their comments.

The size of a box does not depend on the loops around it. So buffers and loops have fixed extents,
and where a box may reach past its tensor, a guard protects it. A guard stays only where
``Ranges.nonneg`` cannot prove the bound.

**Helpers of build.** ``nesting.py`` and ``drafts.py`` have its types. ``state/plan.py`` finds the
range of each leaf loop, and the guards that it cannot prove away. ``tails.py`` cuts tails off,
``allocation.py`` allocates buffers, and ``rounded_tiles.py`` rounds private tiles up. Two files
save work between iterations: ``sliding_windows.py`` keeps the elements that earlier iterations
computed, and ``folded_storage.py`` keeps only the rows in use. For scans, ``scan.py`` finds
what each part computes, and lets stages compute a row as soon as they can;
``rolling_storage.py`` stores a few rows where only the last ones are read. ``prefetch.py`` requests
what later iterations read. The rest refuses what cannot be lowered: ``serpentine.py``,
``thread_checks.py``, ``intermediate_arguments.py``. Recursion over stages runs in
``trampoline.py``, because a graph may be deeper than Python's stack.

**Schedules with nests in common.** The candidates of a search differ in few stages. With the same
``Findings`` (``ir/findings.py``), ``lower_state`` builds the nest of a stage at root once for all
schedules that have it (``known_nests.py``), and so does each pass with what it makes of a statement
at root. So these nests have the very statements in common, and estimates of them add up what is
known of each.

**Initialization.** A reduction's initialization comes before its first reduction loop. A scatter is
different: its initialization is a nest of its own, because the loops over the scattered axes are
not around the updates, and the loops over the domain are not around the initialization. Only loops
over axes that are an index themselves may be around both. ``scattered.py`` keeps those dimensions
whole in which a scatter computes its index.

**Ragged ranges.** A ragged axis (``compute/ragged.py``) keeps a box around all its ranges as its
``lo`` and ``extent``. Its range is the first part of the reduction's ``where=``;
``ComputeOp.limits`` says which conditions are ranges. So plans, boxes, guards, the verifier and the
proofs of races need no special case: they see a loop over a box, and a condition at its statement.
The pass **trim** makes the loop short again. If everything that a serial loop does is under such a
condition, it puts the weakest test of the loop's own variable that follows from the condition
directly inside the loop, and drops the conditions that the test implies. Elements such as
``indptr[i + 1]`` are variables of ``index/elements.py``, with the ranges that ``sl.assume``
declares. ``ir/trimmed.py`` reads the loop and its test as ``for k in indptr[i]..indptr[i + 1]``,
for the printer, the interpreters, the simulated GPU and ``machine/select/statements.py``. Threads
of a GPU that work together in a loop wait for each other. So there the test is relaxed over the
threads of the block, and is the same for all of them.

**Complex numbers** stay whole up to here. What makes kernels splits them first
(``complex_storage.py``): each complex buffer becomes two real ones, and each expression a real and
an imaginary part (``expr/complex_parts.py``). The two parts of an argument are views of one array,
in which they alternate; other storage has an array for each.
"""
