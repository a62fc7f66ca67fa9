"""The course: notebooks that are copied, solved and shown as slides (docs/guides/teaching.md).

``notebooks`` links to ``examples/notebooks``, so that the lessons are package data. ``lessons.py``
finds them, ``forms.py`` makes the open and the solved copy, ``copies.py`` writes files, and
``execute.py`` runs a notebook. ``slides.py`` makes pages of ``markdown.py`` and ``outputs.py``, by
the template in ``slide_page.py``. ``exercises/`` is ``sl.testing.check``, and ``grading/``
grades labs and collects the results of a class. ``hardware.py`` counts by ``perf stat``.
"""
