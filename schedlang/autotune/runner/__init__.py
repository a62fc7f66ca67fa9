"""Measuring candidates so that nothing they do can hurt: child processes, turns, executors."""
