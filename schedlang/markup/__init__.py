"""HTML for notebooks and reports: escaped text, tables, code whose names are marked, one style."""
