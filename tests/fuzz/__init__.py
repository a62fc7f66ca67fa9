"""Fuzzers: random computations under random schedules, checked against the reference."""
