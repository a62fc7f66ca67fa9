"""Reasoning about indices: ranges, conditions, elements that never meet, enumeration.

Bounds, tails, guards, the verifier, barriers and the cost model ask the same questions about
integers. This package answers them. It knows expressions, ranges and facts, but neither tensors nor
nests. An answer is a proof, or unknown: ``None``, or ``False`` where only the proof matters.

* *Is this the same index?* ``linear.py``: a ``Lin`` is a sum of products of axes in normal form.
  ``polynomial.py`` and ``simplify.py`` make one from expressions, by the rules of ``//``, ``%``,
  min and max in ``rules.py``. ``terms.py`` has polynomials as data.
* *What is the range of this expression?* ``ranges.py`` (``Ranges``), under facts, by the interval
  arithmetic of ``intervals.py``. ``relax.py`` finds bounds over sizes alone, ``quotients.py``
  bounds ``x//d - y//d``, and ``positive.py`` says whether a size is at least 1.
* *Is this condition always or never true, and what follows from it?* ``conditions.py``, with the
  one table of comparisons; ``conjunctions.py`` has several conditions in normal form.
* *Which elements does this index reach, each of them once?* ``digits.py`` reads an index as a
  mixed-radix number, ``fused.py`` a fused loop that ``//`` and ``%`` select (by exact
  ``division.py``), ``contraction.py`` digits that a condition bounds together, ``boxes.py`` what
  the stores of an output cover.
* *Do these two accesses ever meet?* ``iterations.py`` for a loop, ``collisions.py`` for threads,
  with ``accesses.py``.
* *Which values are there?* ``enumeration.py`` takes every point of a box, in blocks of NumPy
  arrays, up to one limit. ``counting.py`` solves for long axes instead.
* *Which size has this shape?* ``solving.py``.
* *Are these two elements of an array the same number?* ``elements.py``: each equal read is one
  variable with a known range.

``tests/test_index_*.py`` compare the answers with brute force. We prove with ``Ranges`` and not
with sympy, because ``Ranges`` knows the ranges of the loops and is far faster.
"""
