"""The state of stages as data: axes, relations and placement after some schedule steps."""
