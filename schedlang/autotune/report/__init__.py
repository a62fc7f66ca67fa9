"""The output of a search: a line of progress, a summary and an HTML report."""
