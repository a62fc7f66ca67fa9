"""Expressions, and the arithmetic of their indices."""

# gives Expr its operators
import schedlang.expr.operators  # noqa: F401
