"""The expected cost of candidates, from their loops alone."""
