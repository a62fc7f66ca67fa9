"""The lines of a tuning database, and how far a recorded computation is from another."""
