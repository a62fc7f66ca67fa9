"""Benchmarks: each is one command, prints one table, and can write it as JSON."""
