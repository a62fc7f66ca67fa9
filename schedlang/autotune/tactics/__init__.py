"""Tactics, which generate the search space of any computation without knowledge of operators."""
