"""New arrays in a trace: ``np.zeros(shape, like=x)`` and its like."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.arrays.calls import call_form
from schedlang.arrays.functions import FORMS
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Expr
from schedlang.tracing.constants import formula_stage
from schedlang.tracing.leaves import flatten
from schedlang.tracing.trace import current
from schedlang.tracing.unwritten import first_elements, note_empty

# the functions that make an array of a shape, and those that make one like another
CREATED = (np.zeros, np.ones, np.full, np.empty, np.eye, np.identity, np.arange)
LIKE = (np.zeros_like, np.ones_like, np.full_like, np.empty_like)


def create(function: Any, *args: Any, **named: Any) -> Tensor:
    """Return the array that a function of NumPy creates; ``like=`` led here."""
    name = function.__name__
    if current().closed or any(isinstance(leaf, Expr) for leaf in flatten((args, named))[0]):
        return call_form(f"np.{name}", FORMS[name], args, named)
    elements = function(*args, **named)
    if function is np.empty:
        stage = formula_stage(first_elements(elements), name)
        assert stage is not None
        return note_empty(stage)
    stage = formula_stage(elements, name)
    return current().constant(elements) if stage is None else stage
