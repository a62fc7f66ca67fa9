"""Expressions, and the arithmetic of their indices."""

import schedlang.expr.operators  # noqa: F401 - gives Expr its operators
