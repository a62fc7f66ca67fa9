"""Exact counts of a CPU kernel: a machine nest that counts its work and reports its accesses.

``f.counters`` and ``f.trace`` (``runtime/counted.py``) make another machine nest from the kernel's
own, and run it:

1. ``instrument.py`` walks over the statements (``rows.py``). Each belongs to a region
   (``regions.py``), whose runs are a multiple of the runs of the region around it if that is known.
   A branch, a mask, and a loop whose end is not a number get a counter in an array, the tally. The
   verifier and the interpreter accept the result like any machine nest.
2. If accesses are asked for, the pass puts a call of a probe before each statement that makes one.
   The two sides of a choice then stand in a branch of their own, so that a probe hears of an access
   only if it happens.
3. ``source.py`` prints the nest as numba source. Its probe is ``probes/caches.py`` (simulated
   caches) or ``probes/log.py`` (a trace). Probes are compiled once, and LLVM does not inline them.
4. ``totals.py`` adds up what each statement does (``work.py`` has its arithmetic,
   ``statement_stages.py`` its stage), times the runs of its region.

``records.py`` holds the results, and ``table.py`` and ``html.py`` show them. The fuzzer compares
the tally of every nest with what the interpreter loads and stores (``tests/fuzz/counts.py``).
"""
