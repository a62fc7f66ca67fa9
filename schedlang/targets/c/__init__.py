"""The target of C, compiled by the system's compiler."""
