"""The primitives of schedules: pure functions ``(state, stage, ...) -> (state, result)``."""
