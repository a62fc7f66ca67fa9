"""Passes over machine nests: each is a function of a nest and its :class:`Job`, in its own file."""
