"""Passes over machine nests, one in each file."""
