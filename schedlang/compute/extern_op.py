"""The operation that a user's function computes, and the boxes of arrays that it takes.

Its stage has no loops: one call of the function computes a whole box of the outputs.
"""

from __future__ import annotations

import base64
import hashlib
import math
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Any, Optional
from uuid import uuid4

from schedlang.errors import ComputeError, ComputeTypeError, explain, text_of
from schedlang.expr.nodes import Axis, Const, Expr, Var
from schedlang.expr.visit import postorder

if TYPE_CHECKING:
    from schedlang.compute.tensor import Extent, Shape, Tensor

# the ways to call a function: compiled by numba, as Python, as C at an address, or as loops
NUMBA, HOST, ADDRESS, LOOPS = "numba", "host", "address", "loops"


@dataclass(frozen=True, eq=False)
class ExternFunction:
    """A user's function, which takes the arrays of inputs, then of outputs, and writes the latter.

    ``kind`` is ``"numba"``, ``"host"``, ``"address"`` or ``"loops"``, and ``call`` a dispatcher of
    numba, a function of Python, an address, or the loops that a program wrote by hand: a loop nest
    over some of the arrays, of which ``places`` has the positions. ``run`` takes NumPy arrays.
    ``dtypes`` are the dtypes of inputs and of outputs, and ``kept`` is what keeps an address valid.
    ``options`` are the texts of further arguments, for the print of a nest.

    ``source`` is text that defines the function anywhere: C source of one at an address, the nest
    as text, else Python. ``place`` is where other processes import it from, ``"module:name"``.
    Without either, only this process knows the function, and ``why`` says why.
    """

    name: str
    kind: str
    call: Any
    run: Callable[..., None]
    dtypes: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    source: str = ""
    place: str = ""
    why: str = ""
    kept: Any = None
    options: tuple[str, ...] = ()
    places: tuple[int, ...] = ()

    @property
    def is_c(self) -> bool:
        """True if C source defines the function."""
        return self.kind == ADDRESS and bool(self.source)

    @property
    def is_shared(self) -> bool:
        """True if other processes can have the function."""
        return bool(self.place or self.source)

    @property
    def code(self) -> list[Any]:
        """The function as JSON data, which ``externs/shared.py`` reads.

        Raises :class:`~schedlang.errors.ComputeTypeError` if only this process knows it.
        """
        if not self.is_shared:
            raise ComputeTypeError(
                explain(
                    f"data of a computation that calls {self.name}",
                    f"no other process knows {self.name}: {self.why}",
                    HOW_TO_SHARE,
                )
            )
        source = self.source
        if self.kind == LOOPS:
            source = base64.b64encode(pickle.dumps((self.call, self.places))).decode()
        return [self.kind, self.name, *map(list, self.dtypes), self.place, source]

    @cached_property
    def identity(self) -> str:
        """A text that differs from the text of another function, also in another process."""
        if self.place:
            return f"{self.kind} {self.place}"
        known = self.source or uuid4().hex
        return f"{self.kind} {hashlib.sha256(known.encode()).hexdigest()}"


HOW_TO_SHARE = (
    "Give the text of its C source, a function of numba.njit that needs nothing of its program, or "
    "a function of a module that other processes can import."
)


# the first index in each dimension, and the one past the last
Ends = tuple[tuple[Expr, Expr], ...]


@dataclass(frozen=True, eq=False)
class Boxes:
    """The boxes that a call reads and writes, as expressions over the box that is asked for.

    ``asked`` has two variables for each dimension of the outputs: the first index, and the one past
    the last. ``written`` contains that box. ``read`` has a box for each input.
    """

    asked: tuple[tuple[Axis, Axis], ...]
    written: Ends
    read: tuple[Ends, ...]


@dataclass(eq=False)
class ExternOp:
    """An operation that a user's function computes, with one call for each box of its outputs.

    Without ``boxes``, a call reads whole inputs and writes whole outputs. ``flops`` are the
    operations that whole outputs take, if the user knows them.
    """

    name: str
    inputs: tuple[Tensor, ...]
    function: ExternFunction
    boxes: Optional[Boxes] = None
    outputs: tuple[Tensor, ...] = ()
    axis: tuple[Axis, ...] = ()
    reduce_axis: tuple[Axis, ...] = ()
    automatic: bool = False
    tag: str = ""
    flops: Optional[Extent] = None

    @property
    def loops(self) -> tuple[Axis, ...]:
        """The axes of its loops: there are none."""
        return ()

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors that the function reads, each once."""
        return list(dict.fromkeys(self.inputs))

    @property
    def variables(self) -> tuple[Var, ...]:
        """The sizes in its shapes, in order of first appearance."""
        shapes: list[Shape] = [t.shape for t in self.outputs]
        nodes = postorder(e for shape in shapes for e in shape if isinstance(e, Expr))
        return tuple(dict.fromkeys(node for node in nodes if isinstance(node, Var)))

    def output(self, index: int = 0) -> Tensor:
        return self.outputs[index]

    def check(self, *arrays: Any, cases: int = 8, seed: int = 0) -> None:
        """Call the function with poison around its boxes; raise if it leaves them.

        ``arrays`` are the inputs of the function, each once, as NumPy arrays. The function computes
        the whole output, and ``cases`` random boxes if it has ``reads=``.

        Raises :class:`~schedlang.errors.VerifyError` if it writes outside of the box of an output,
        leaves an element of it unwritten, changes an input, or computes another value for a box
        than for the whole. Reading outside of ``reads`` shows as another value. Raises
        :class:`~schedlang.errors.CallError` if ``cases`` or ``seed`` is not a whole number of 0 or
        more.

        >>> import numpy as np, schedlang as sl
        >>> A = sl.placeholder((4, 4), name="A")
        >>> def negative(a, out):
        ...     out[...] = -a
        >>> B = sl.extern((4, 4), [A], negative, name="B")
        >>> B.op.check(np.ones((4, 4), "float32"))
        """
        # by name: it evaluates expressions over tensors, which hold operations
        import_module("schedlang.externs.check").check(self, arrays, cases, seed)

    def reading(self, swap: Mapping[Tensor, Tensor]) -> ExternOp:
        """Return the operation with other inputs of the same shapes; it keeps its outputs."""
        return replace(self, inputs=tuple(swap.get(t, t) for t in self.inputs))


def checked_flops(flops: Any, name: str, arrays: Iterable[Tensor]) -> Extent:
    """Return a number of operations: an integer, or an expression of the sizes of ``arrays``.

    Raises :class:`~schedlang.errors.ComputeError` for anything else.
    """
    extents = [e for t in arrays for e in t.shape if isinstance(e, Expr)]
    sizes = [n for n in postorder(extents) if isinstance(n, Var)]
    is_number = isinstance(flops, Real) and not isinstance(flops, bool)
    if isinstance(flops, Expr) and flops.dtype == "int64":
        leaves = [n for n in postorder([flops]) if not n.children and not isinstance(n, Const)]
        if all(leaf in sizes for leaf in leaves):
            return flops
    elif is_number and 0 <= flops < math.inf and flops == int(flops):
        return int(flops)
    names = ", ".join(dict.fromkeys(v.name for v in sizes))
    raise ComputeError(
        explain(
            f"sl.extern for {name}: flops={text_of(flops)}",
            "it must be a whole number of operations, 0 or more"
            + (f", or an expression of the sizes {names}" if names else ""),
            "Give e.g. flops=2 * M * N * K, or leave it out if you do not know it.",
        )
    )


def refuse_extern(ops: Iterable[Any], asked: str, hint: str) -> None:
    """Raise if one of ``ops`` is computed by a user's function, into which ``asked`` must look."""
    for op in ops:
        if isinstance(op, ExternOp):
            why = f"{op.name} is computed by {op.function.name}, into which schedlang cannot look"
            raise ComputeTypeError(explain(asked, why, hint))


__all__ = [
    "ADDRESS", "HOST", "HOW_TO_SHARE", "LOOPS", "NUMBA", "Boxes", "Ends", "ExternFunction",
    "ExternOp", "checked_flops", "refuse_extern",
]  # fmt: skip
