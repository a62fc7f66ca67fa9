"""The cost model: estimates of candidates, from their loops alone."""
