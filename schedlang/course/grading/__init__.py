"""Results of a class: the states of exercises, and of labs (docs/guides/teaching.md).

``lab.py`` is ``sl.testing.lab``, which grades a kernel and writes a file (``record.py``).
``collect.py`` reads the files and notebooks of a folder, and ``table.py`` makes a table and CSV of
them.
"""
