"""A serial loop of a traced function as one nest: its stages in a loop, in place in its arrays.

``order.py`` says in which order an iteration assigns and computes, ``segments.py`` schedules and
lowers what it computes between two assignments, ``nest.py`` puts these nests into the loops,
``elements.py`` keeps an element that a loop updates in a register, and ``kernel.py`` makes the
kernel.
"""
