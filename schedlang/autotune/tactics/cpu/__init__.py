"""The tactics for CPUs, one a file, and the helpers that they share."""
