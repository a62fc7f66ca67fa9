"""Programs of NumPy users, which run as they stand under ``sl.jit``, or are refused by name."""
