"""Exercises that check themselves: ``sl.testing.check`` (docs/guides/teaching.md).

``check.py`` runs the answer (``answer.py``) on arrays in the order in which each side takes them
(``inputs.py``), and says what differs (``compare.py``, ``differences.py``; ``values.py`` for
numbers). ``requirements.py`` has other demands: steps, stages, a nest, counts, and a speed, which
``speed.py`` measures.
"""
