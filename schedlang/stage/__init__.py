"""A stage's axes, relations and placement after some schedule steps, as data."""
