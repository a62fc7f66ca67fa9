"""Measurement of candidates in child processes, on this machine or on workers of an executor.

A candidate may crash, hang or write where it must not, so it never runs in the user's process.
``local.py`` measures on this machine: ``sandbox.py`` is the parent's side of a child, ``worker.py``
and ``candidate_runner.py`` are the child. ``remote.py`` measures on the workers of an executor, and
``machine.py`` describes theirs. ``outputs.py`` compares results with the oracle. Three files make
times comparable: ``cold.py`` copies inputs that are to come from memory, ``noise.py`` drops samples
that other processes disturbed, and ``machine_lock.py`` keeps other processes from building while a
kernel is timed.
"""
