"""The tactics for GPUs, one a file, and the helpers that they share."""
