"""Reasoning about indices: normal forms, ranges, conditions, digits and enumeration."""
