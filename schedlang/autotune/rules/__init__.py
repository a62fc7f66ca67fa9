"""Rules that make a space of schedules from a computation: they know no operator by name."""
