"""The loop nest: statements, their text, their checks."""
