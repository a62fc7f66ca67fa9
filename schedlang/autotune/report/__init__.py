"""The output of a search: a progress bar, a summary and an HTML report."""
