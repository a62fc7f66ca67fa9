"""Expressions as users write them: NumPy's dtype rules, Python's operators, NumPy's functions."""

import schedlang.language.operators  # noqa: F401 - gives Expr its operators
