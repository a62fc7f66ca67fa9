"""The schedule that the cost model prefers, found without measuring."""
