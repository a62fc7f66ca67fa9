"""Passes over loops, before selection: vectors, copies, masks, and sums in registers."""
