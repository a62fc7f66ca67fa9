"""Names of the stages that operations on arrays make: a word of the operation, or the user's."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from schedlang.arrays.operands import operand
from schedlang.compute.define import define
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.compute.whole import traceable
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.names import check_name
from schedlang.language.construct import settle

# the operations that make stages
_STAGES = (ComputeOp, ScanOp, ExternOp)


class _Scope(AbstractContextManager["_Scope"]):
    """A ``with`` block whose stages are named after ``name``.

    The last one gets the name itself, if the block ``names_last``.
    """

    def __init__(self, given: str, names_last: bool = True) -> None:
        self.given = self.name = given
        self.names_last = names_last
        self.last: Tensor | None = None
        self._outer: Token[_Scope | None] | None = None

    def __enter__(self) -> _Scope:
        outer = _scope.get()
        self.name = f"{outer.name}.{self.given}" if outer else self.given
        self._outer = _scope.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._outer is not None
        _scope.reset(self._outer)
        outer = _scope.get()
        if outer is not None and self.last is not None:
            outer.last = self.last
        if kind is not None or not self.names_last:
            return
        if self.last is None:
            raise ComputeError(
                explain(
                    f"with sl.named({self.name!r})",
                    "no stage was made in it, so none gets the name",
                    "Compute with arrays in it: C = A @ B, np.exp(A), ...",
                )
            )
        if _is_automatic(self.last):
            _rename(self.last, self.name)
            _settle(self.last)


_scope: ContextVar[_Scope | None] = ContextVar("schedlang_scope", default=None)


@traceable
def named(name: str, value: Any = None) -> Any:
    """Return ``value`` under ``name``, or a context in which stages are named after ``name``.

    ``sl.named("h", A @ B)`` names one stage. In ``with sl.named("h"):`` the last stage that an
    operation on arrays makes is named ``h``, and each before it by its operation, ``h.matmul``;
    contexts may be nested. An array that is named is a stage of its own, also if it is a view such
    as ``A.T``, which other operations on arrays otherwise read through. A number or an element,
    such as ``sl.sqrt(A[0])``, becomes a 0-d tensor.

    Raises :class:`~schedlang.errors.ComputeError` for a name that is not an identifier, or a tensor
    that has a name already.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((4, 8), name="A"), sl.placeholder((8, 2), name="B")
    >>> sl.named("C", A @ B)
    Tensor(C: float32[4, 2])
    >>> with sl.named("h"):
    ...     h = (A @ B) * 2
    >>> h, h.op.input_tensors
    (Tensor(h: float32[4, 2]), [Tensor(h.matmul: float32[4, 2])])
    """
    check_name(name, "an array")
    if value is None:
        return _Scope(name)
    tensor = operand(value, f"sl.named({name!r}, ...)")
    if not isinstance(tensor, Tensor):
        return define(name, (), settle(tensor, "float64"))
    if not _is_automatic(tensor):
        raise ComputeError(
            explain(
                f"sl.named({name!r}, {tensor.name})",
                f"{tensor.name} has a name already",
                f"Pass name={name!r} to the call that made it, or name a copy: "
                f"sl.named({name!r}, np.copy({tensor.name})).",
            )
        )
    _rename(tensor, name)
    _settle(tensor)
    return tensor


def name_prefix(name: str) -> AbstractContextManager[Any]:
    """Return a context in which each stage is named after ``name`` and its operation.

    Unlike under :func:`named`, no stage gets the name itself, and the context may make no stage.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> with name_prefix("h"):
    ...     B = A * 2
    >>> B
    Tensor(h.multiply: float32[4])
    """
    return _Scope(check_name(name, "an array"), names_last=False)


def rename(tensor: Tensor, name: str) -> Tensor:
    """Return ``tensor``, named ``name`` if an operation on arrays chose its name.

    Rename it before it is scheduled. A view stays a view, unlike under :func:`named`.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> rename(A + 1, "B"), rename(A, "B")
    (Tensor(B: float32[4]), Tensor(A: float32[4]))
    """
    if _is_automatic(tensor):
        _rename(tensor, check_name(name, "an array"))
    return tensor


def as_stage(tensor: Tensor) -> Tensor:
    """Return ``tensor``; if an operation on arrays made it as a view, as a stage of its own.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4, 8), name="A")
    >>> as_stage(A.T).op.view
    False
    """
    if isinstance(tensor.op, ComputeOp) and tensor.op.view:
        tensor.op.view = False
    return tensor


def automatic_name(word: str) -> str:
    """Return the name of a stage of the operation ``word`` in the present context."""
    scope = _scope.get()
    return f"{scope.name}.{word}" if scope else word


def mark_automatic(tensor: Tensor, view: bool = False) -> None:
    """Mark a new stage as named by an operation, and as a view if it is one."""
    op = tensor.op
    assert isinstance(op, _STAGES)
    op.automatic = True
    if view and isinstance(op, ComputeOp):
        op.view = True
    scope = _scope.get()
    if scope is not None:
        scope.last = tensor


def _is_automatic(tensor: Tensor) -> bool:
    if not isinstance(tensor, Tensor):
        raise ComputeTypeError(f"{tensor!r} cannot be renamed: it is not a tensor")
    return isinstance(tensor.op, _STAGES) and tensor.op.automatic


def _rename(tensor: Tensor, name: str) -> None:
    op = tensor.op
    assert isinstance(op, _STAGES)
    op.name = name
    for k, output in enumerate(op.outputs):
        output.name = f"{name}.v{k}" if k or tensor is not output else name


def _settle(tensor: Tensor) -> None:
    """Make a tensor that the user named a stage that keeps its name."""
    op = tensor.op
    if isinstance(op, _STAGES):
        op.automatic = False
    if isinstance(op, ComputeOp):
        op.view = False
