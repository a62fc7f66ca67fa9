"""The target of the CPU's file, uncompiled: for debuggers."""
