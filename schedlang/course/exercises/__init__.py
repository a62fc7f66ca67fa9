"""Exercises that check themselves: ``sl.testing.check`` (docs/teaching.md)."""
