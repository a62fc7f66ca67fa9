"""Warnings and hints about a nest: tiles that spill, lanes far apart, loops in a slow order."""
