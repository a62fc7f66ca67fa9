"""Measurement of candidates in child processes, on this machine or on workers of an executor."""
