"""Showing a search: a bar while it runs, a summary, a page."""
