"""Reasoning about indices: ranges, conditions, elements that never meet, enumeration."""
