"""Advice for schedules: the legal next steps with their predicted effects, and explanations."""
