"""A schedule as data: stages with their axes and placement, and the primitives on them.

A ``State`` (``state.py``) is immutable, and each primitive in ``primitives/`` is a pure function
``(state, stage, ...) -> (state, result)``. So undo, copies and failed steps cost nothing: the old
state never changes. ``persistent_map.py`` shares storage between the states of successive steps.
``relations.py`` has the axes (split, fuse), and ``layout.py`` the elements of a stage in memory.

What follows from a state is computed from it, not stored in it: ``dependences.py`` between stages,
``placement.py`` for the loop at which each is computed and stored, ``plan.py`` for the range and
value of each loop, ``order.py`` for the order in which a reduction combines. ``cuts.py``,
``prefetches.py``, ``serpentine.py`` and ``scattered.py`` decide what a schedule may ask for;
``atomics.py`` finds the updates that threads make at the same time.

Refusals here are data (``primitives/refusal.py``). The package ``schedule``, which knows the call
and can lower the nest, turns them into errors.
"""
