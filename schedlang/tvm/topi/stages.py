"""Stages of operators: each has the operator's name, and its own place in a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from schedlang.arrays.choices import copy
from schedlang.arrays.naming import as_stage, automatic_name, mark_automatic
from schedlang.arrays.stages import data_axes
from schedlang.compute.define import define
from schedlang.compute.tensor import Shape, Tensor
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr import dtypes


def compute(
    word: str, shape: Shape, element: Callable[..., Any], names: Sequence[str] | None = None
) -> Any:
    """Return the tensor of ``shape`` whose element at its axes is ``element(*axes)``.

    The stage is called ``word``, unless ``sl.named`` names it. ``names`` are the names of the axes.
    """
    axes = data_axes(shape, names)
    result = define(automatic_name(word), axes, element(*axes))
    mark_automatic(result[0] if isinstance(result, tuple) else result)
    return result


def stage_of(result: Tensor, *sources: Any) -> Tensor:
    """Return ``result`` as a stage to schedule, or a copy if it is one of ``sources`` itself.

    Functions of arrays return views, which their readers read through, or an argument that fits.
    """
    if any(result is source for source in sources):
        result = copy(result)
    return as_stage(result)


@contextmanager
def names_of_user(array_function: str, operator: str) -> Iterator[None]:
    """Let errors of a function of arrays name the ``operator`` that called it.

    >>> from schedlang.arrays.joining import concatenate
    >>> with names_of_user("np.concatenate", "topi.concatenate"):
    ...     concatenate([])
    Traceback (most recent call last):
    schedlang.errors.ComputeError: topi.concatenate([]): give at least one tensor
    """
    try:
        yield
    except (ComputeError, ComputeTypeError) as error:
        raise type(error)(str(error).replace(array_function, operator)) from None


def result_dtype(out_dtype: Any, *operands: Tensor) -> str:
    """Return ``out_dtype``, or the dtype to which the operands promote if it is ``None``."""
    if out_dtype is not None and out_dtype != "":
        return dtypes.canonical(out_dtype)
    common = operands[0].dtype
    for other in operands[1:]:
        common, _ = dtypes.promote(common, False, other.dtype, False)
    return common


def wide_dtype(dtype: str) -> str:
    """Return the dtype that accumulates sums of ``dtype``, of 32 bits or more."""
    if dtype in dtypes.SHORT_FLOATS:
        return "float32"
    if dtype != "bool" and dtypes.is_integer(dtype) and dtypes.itemsize(dtype) < 4:
        return "int32"
    return dtype
