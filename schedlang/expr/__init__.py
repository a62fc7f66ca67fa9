"""Expressions: their nodes, traversal, text and values."""
