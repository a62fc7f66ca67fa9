"""Exact counts of a CPU kernel: a machine nest that counts its work and reports its accesses.

``instrument`` makes that nest; ``source`` prints it; ``regions`` says how often each part runs.
``probes`` are the functions that the printed nest calls at each access: simulated caches, or a log.
``records`` holds what is found, ``totals`` adds it up, and ``table`` and ``html`` show it.
"""
