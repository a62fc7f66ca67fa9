"""Search for schedules: ``schedlang.autotune(C)``."""
