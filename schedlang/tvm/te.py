"""The names of TVM's te: programs written for te run with ``from schedlang import te``.

``docs/reference/te.md`` lists what is the same and what is left out, and
``docs/guides/porting-from-te.md`` what differs, and why.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any

from schedlang.compute import define, tensor
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.reduce import Reduction
from schedlang.compute.reduce import reduce_axis as _reduce_axis
from schedlang.compute.scan import scan
from schedlang.compute.tensor import ComputeOp, PlaceholderOp, ScanOp, Tensor
from schedlang.errors import ComputeError, missing_name
from schedlang.expr.dtypes import NAMES
from schedlang.expr.nodes import Axis, Expr, KnownExtent, Var
from schedlang.schedule.schedule import Schedule
from schedlang.schedule.schedule import schedule as _schedule
from schedlang.schedule.te_layouts import AXIS_SEPARATOR
from schedlang.signatures import public
from schedlang.state.state import PIPELINE
from schedlang.state.thread_axis import thread_axis as _thread_axis
from schedlang.tvm.te_dtypes import BITS
from schedlang.tvm.tir import (
    abs,
    acos,
    all,
    any,
    asin,
    atan,
    atan2,
    ceil,
    ceildiv,
    clz,
    comm_reducer,
    const,
    cos,
    cosh,
    div,
    erf,
    exp,
    exp2,
    floor,
    floordiv,
    floormod,
    fmod,
    if_then_else,
    indexdiv,
    indexmod,
    infinity,
    isfinite,
    isinf,
    isnan,
    likely,
    log,
    log1p,
    log2,
    log10,
    max,
    max_value,
    min,
    min_value,
    nearbyint,
    popcount,
    power,
    prod,
    reinterpret,
    round,
    rsqrt,
    shift_left,
    shift_right,
    sigmoid,
    sin,
    sinh,
    sqrt,
    sum,
    tan,
    tanh,
    te_dtype,
    te_typed,
    trunc,
    truncdiv,
    truncmod,
)

if TYPE_CHECKING:
    from schedlang.tvm.extern import extern
    from schedlang.tvm.tensor_intrin import decl_tensor_intrin


def whole(value: Any, what: str) -> Any:
    """Return ``value`` with integral floats as integers: te accepts ``N / 32`` as an extent."""
    if isinstance(value, (tuple, list)):
        return tuple(whole(v, what) for v in value)
    if isinstance(value, float):
        if not value.is_integer():
            raise ComputeError(f"{what} is {value}, but must be an integer; use // to divide")
        return int(value)
    return value


def identifier(name: Any) -> Any:
    """Return a tensor's name with ``_`` for each character that source cannot have in names.

    >>> identifier("conv 1/weight"), identifier("2d"), identifier("lambda"), identifier("C.local")
    ('conv_1_weight', '_2d', 'lambda_', 'C.local')
    """
    if not isinstance(name, str):
        return name
    parts = [re.sub(r"[^A-Za-z0-9_]", "_", part) for part in name.split(".")]
    parts = [f"_{part}" if not part or part[0].isdigit() else part for part in parts]
    return ".".join([parts[0] + "_" * keyword.iskeyword(parts[0]), *parts[1:]])


@public
def placeholder(shape: Any, dtype: object = None, name: str = "placeholder") -> Tensor:
    """Return an input tensor; ``dtype`` defaults to float32.

    A ``name`` that is not an identifier, such as ``"my input"``, becomes one: ``my_input``.

    >>> placeholder((64 / 16, 16), name="A")
    Tensor(A: float32[4, 16])
    """
    kind = "float32" if dtype is None else te_dtype(dtype)
    return _with_known_extents(
        tensor.placeholder(
            whole(shape, f"a dimension of placeholder {name}"), kind, identifier(name)
        )
    )


@public
def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Any = None,
    varargs_names: Any = None,
) -> Any:
    """Return the tensor of a function of its axes; several tensors if it returns a tuple.

    ``tag`` and ``attrs`` describe the computation, as ``C.op.tag`` and ``C.op.attrs``, and change
    nothing. A value computed without a tensor has te's dtype: int32
    for an axis, float32 for a Python float.

    >>> compute((4,), lambda i: i * 0.5, name="B")
    Tensor(B: float32[4])
    """
    extents = whole(shape, f"a dimension of {name}")
    made = define.compute(extents, _te_values(fcompute), identifier(name))
    results = made if isinstance(made, tuple) else (made,)
    results[0].op.tag, results[0].op.attrs = _tag(tag), dict(attrs or {})
    for result in results:
        _with_known_extents(result)
    return made


def _with_known_extents(result: Tensor) -> Tensor:
    """Return a tensor, the numbers in whose shape now have te's ``value``."""
    result.shape = tuple(KnownExtent.of(extent) for extent in result.shape)
    return result


# the tag of the enclosing scope
_SCOPE: ContextVar[str] = ContextVar("tag", default="")


def _tag(tag: str) -> str:
    """Return a computation's tag: its own, or the one of the scope around it."""
    around = _SCOPE.get()
    if tag and around:
        raise ComputeError(
            f"tag={tag!r} inside te.tag_scope({around!r}): a computation has one tag; leave one out"
        )
    return tag or around


def _te_values(fcompute: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``fcompute`` with its weak results in te's dtypes, in which ``"float"`` is float32.

    It keeps the signature, which names the axes.
    """
    if not callable(fcompute):
        return fcompute

    def values(*axes: Axis) -> Any:
        token = NAMES.set(BITS)
        try:
            result = fcompute(*axes)
        finally:
            NAMES.reset(token)
        if isinstance(result, (tuple, list)):
            return tuple(_te_value(r) for r in result)
        return _te_value(result)

    values.__wrapped__ = fcompute  # type: ignore[attr-defined]
    return values


def _te_value(result: Any) -> Any:
    return result if result is None or isinstance(result, Reduction) else te_typed(result)


@public
def create_schedule(ops: Any) -> Schedule:
    """Return a schedule for operations or tensors, one or a list of them.

    It is as by ``sl.schedule``, but inputs among ``ops`` have no stage, and a split that is bound
    to threads keeps all of them where its axis is shorter: threads beyond the axis idle.

    >>> A = placeholder((16,), name="A")
    >>> B = compute((16,), lambda i: A[i] + 1, name="B")
    >>> s = create_schedule([B.op, A.op])
    >>> _, inner = s[B].split(B.op.axis[0], factor=32)
    >>> s[B].bind(inner, "threadIdx.x")
    >>> print(s)
    B(A: float32[16]) -> B: float32[16]
    <BLANKLINE>
    threadIdx.x i.inner in 0..32:
      if i.inner < 16:   # tail of i split by 32
        B[i.inner] = A[i.inner] + 1
    """
    items = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    computed = [o for o in items if not isinstance(getattr(o, "op", o), PlaceholderOp)]
    s = _schedule(computed or items)
    s.of_te = True
    return s


@public
def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "") -> Axis:
    """Return a reduction axis over the half-open range ``(lo, hi)``."""
    return _reduce_axis(whole(dom, f"the range of reduction axis {name}"), name)


@public
def thread_axis(dom: Any = None, tag: str = "", name: str = "") -> Axis:
    """Return a GPU thread axis to bind loops to, such as ``thread_axis("threadIdx.x")``.

    ``dom`` is ``(0, extent)`` or the extent, to have the number of threads checked. ``name`` has no
    effect: a thread axis is printed by its tag. ``"pipeline"``, te's axis for FPGAs, is recorded as
    a pragma without effect.

    >>> thread_axis((0, 64), "threadIdx.x").extent
    64
    """
    if (dom if isinstance(dom, str) else tag) == PIPELINE:
        return Axis(PIPELINE, 0, "thread", tag=PIPELINE)
    return _thread_axis(whole(dom, f"the range of {tag}"), tag, name)


# numbers for sizes without a name
_UNNAMED = count(1)


@public
def var(name: str = "", dtype: object = "int32") -> Var:
    """Return a symbolic size (int32 or int64), or a scalar argument of another dtype.

    Sizes of one name are one size, so a size without a name gets one of its own.
    """
    return tensor.var(name or f"tindex{next(_UNNAMED)}", te_dtype(dtype))


@public
def size_var(name: str = "", dtype: object = "int32") -> Var:
    """Return a symbolic size."""
    return var(name, dtype)


@public
@contextmanager
def tag_scope(tag: str) -> Iterator[None]:
    """Give the computations inside a tag, as ``te.compute(..., tag=tag)`` does.

    It also decorates a function, for the computations that its calls make. Raise
    :class:`~schedlang.errors.ComputeError` inside another scope.

    >>> A = placeholder((4,), name="A")
    >>> with tag_scope("scale"):
    ...     B = compute((4,), lambda i: A[i] * 2, name="B")
    >>> B.op.tag, A.op.tag
    ('scale', '')
    """
    around = _SCOPE.set(_tag(tag))
    try:
        yield
    finally:
        _SCOPE.reset(around)


@public
def gradient(output: Tensor, inputs: Any, head: Tensor | None = None) -> list[Tensor]:
    """Return the gradients of ``output`` by each of ``inputs``, a tensor or a list of them.

    ``head`` has the shape ``(prefix..., output.shape...)``, and a gradient the shape
    ``(prefix..., input.shape...)``: the sum of products of the head and the Jacobian. Without a
    head, it is the Jacobian itself, of shape ``(output.shape..., input.shape...)``. ``sl.gradient``
    is the form without a prefix.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((3,), name="A")
    >>> C = sl.compute((3,), lambda i: A[i] * A[i], name="C")
    >>> sl.reference(gradient(C, [A]))(np.array([1, 2, 3], "float32"))
    array([[2., 0., 0.],
           [0., 4., 0.],
           [0., 0., 6.]], dtype=float32)
    """
    from schedlang.gradient.jacobian import jacobian

    return jacobian(output, inputs, head)


_EXTERN = "Write the values with te.compute, or call the library on arrays between two kernels."
_TENSORIZE = (
    "intrinsics are made and used by other names",
    "Declare one with te.decl_tensor_intrin, and call s[C].tensorize(axis, intrin).",
)
_TENSORIR = (
    "TensorIR is not part of schedlang",
    "te.create_schedule(C.op) and tvm.lower(s, args) give a loop nest.",
)
REFUSED = {
    "tensorize": _TENSORIZE,
    "TensorIntrin": _TENSORIZE,
    "extern_primfunc": ("TensorIR is not part of schedlang", _EXTERN),
    "hybrid": (
        "hybrid scripts are not supported",
        "Write loops in a function under @sl.jit, or te.compute, te.scan and a schedule.",
    ),
    "create_prim_func": _TENSORIR,
    "create_relax_prim_func": _TENSORIR,
    "operation": (
        "the module of operations is not part of te here",
        "te.ComputeOp, te.PlaceholderOp, te.ScanOp and te.ExternOp are classes of operations.",
    ),
}


# names of other modules of this folder; most programs need no compiler when they define stages
_MODULES = {
    "decl_tensor_intrin": "tensor_intrin",
    "extern": "extern",
    **dict.fromkeys(
        ("AutoInlineBroadcast", "AutoInlineElemWise", "AutoInlineInjective"), "te_schedule"
    ),
}


def __getattr__(name: str) -> Any:
    if name == "schedule":
        return import_module("schedlang.tvm.te_schedule")
    if name in _MODULES:
        return getattr(import_module(f"schedlang.tvm.{_MODULES[name]}"), name)
    raise missing_name(__name__, name, REFUSED, "te")


__all__ = [
    "AXIS_SEPARATOR", "Axis",
    "ComputeOp", "Expr", "ExternOp", "PlaceholderOp", "ScanOp", "Schedule", "Tensor",
    "abs", "acos", "all", "any", "asin", "atan", "atan2",
    "ceil", "ceildiv", "clz", "comm_reducer", "compute", "const", "cos", "cosh", "create_schedule",
    "decl_tensor_intrin", "div",
    "erf", "exp", "exp2", "extern", "floor", "floordiv", "floormod", "fmod", "gradient",
    "if_then_else", "indexdiv", "indexmod", "infinity", "isfinite", "isinf", "isnan", "likely",
    "log", "log1p", "log2", "log10", "max", "max_value", "min", "min_value", "nearbyint",
    "placeholder", "popcount", "power", "prod", "reduce_axis", "reinterpret", "round", "rsqrt",
    "scan", "shift_left", "shift_right", "sigmoid", "sin", "sinh", "size_var", "sqrt", "sum",
    "tag_scope", "tan", "tanh", "thread_axis", "trunc", "truncdiv", "truncmod", "var",
]  # fmt: skip
