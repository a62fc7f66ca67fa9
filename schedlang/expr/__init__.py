"""Expressions, and the arithmetic of index expressions."""

import schedlang.expr.operators  # noqa: F401 - gives Expr its operators
