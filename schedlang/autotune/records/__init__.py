"""Trials as lines of a file, and how near one is to what is asked for."""
