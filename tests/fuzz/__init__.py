"""Random computations under random schedules, against the reference."""
