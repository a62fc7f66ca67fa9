"""Compute and schedule to loop nest: one pass a file, ``lower`` puts them in order."""
