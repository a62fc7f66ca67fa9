"""The loop nest: the result of lowering, and the input of every later step."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Union

from schedlang.errors import UnknownNameError
from schedlang.expr.nodes import Axis, Var
from schedlang.ir.html import nest_html
from schedlang.ir.nodes import Block, Buffer, For, If
from schedlang.ir.printer import nest_text
from schedlang.ir.rewrite import storage
from schedlang.ir.terminal import show_nest
from schedlang.ir.trimmed import running
from schedlang.markup.bundle import InNotebooks
from schedlang.markup.fragment import fragment
from schedlang.markup.name_table import NameTable


@dataclass(frozen=True, eq=False)
class Nest(InNotebooks):
    """A lowered schedule: its arguments in order, and its statements.

    ``args`` are buffers of tensors and scalar variables; ``outputs`` are the buffers of results.
    ``remarks`` are comments for readers of the printed nest: on stages, by their names, and on
    loops, by their axes.

    >>> import schedlang as sl
    >>> A = sl.placeholder((8, 100), name="A")
    >>> k = sl.reduce_axis(100, name="k")
    >>> S = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="S")
    >>> s = sl.schedule(S)
    >>> _, lanes = s[S].split(k, factor=16)
    >>> T = s.rfactor(S, lanes, factor_axis=1)
    >>> s[T].set_scope("local")
    >>> s[T].compute_at(s[S], S.op.axis[0])
    >>> steps, rest = s[T].split(s[T].op.reduce_axis[0], factor=6, tail="cut")
    >>> s[T].reorder(steps, rest, T.op.axis[1])
    >>> s[T].vectorize(T.op.axis[1])
    >>> nest = sl.lower(s, [A, S])
    >>> print(nest)
    S(A: float32[8, 100]) -> S: float32[8]
    <BLANKLINE>
    for i in 0..8:
      S.rf: float32[1, 16]   local, 64 B
      vectorize k.inner in 0..16:
        S.rf[0, k.inner] = 0
      for k.outer.inner in 0..6:
        vectorize k.inner in 0..16:
          S.rf[0, k.inner] += A[i, k.outer.inner*16 + k.inner]
      vectorize k.inner in 0..16:
        if k.inner + 96 < 100:   # tail of k split by 16
          S.rf[0, k.inner] += A[i, k.inner + 96]
      S[i] = 0
      for k.inner in 0..16:
        S[i] += S.rf[0, k.inner]
    >>> [(loop.axis.name, loop.kind) for loop in nest.loops][:3]
    [('i', 'serial'), ('k.inner', 'vectorize'), ('k.outer.inner', 'serial')]
    >>> [(b.name, b.scope, b.shape) for b in nest.buffers]
    [('A', 'global', (8, 100)), ('S', 'global', (8,)), ('S.rf', 'local', (1, 16))]
    >>> len(nest.guards)
    1

    A printed nest follows a few rules:

    * A loop of one iteration is not printed, even if it is parallel, and its axis is 0. Here
      ``k.outer.outer`` is missing: the split of 7 steps by 6 peels off the step that needs a guard.
    * ``split`` and ``fuse`` add ``.outer``, ``.inner`` and ``.fused`` to the name of an axis, once
      for each step. The name of the stage stands before an axis, as in ``B.i``, if an enclosing
      loop has the same name.
    * Indices count from the start of the printed buffer, and are simplified. A buffer inside a loop
      is the box of one iteration.
    * The comment of an ``if`` gives the reason for it, and names an axis of the stage that it
      protects. The ``where`` of a reduction has no such comment, nor has the main part of a loop
      that is cut under ``parallel``.
    * A choice, ``x if condition else y``, comes from ``sl.pad`` and ``sl.if_then_else``;
      ``sl.select`` prints as ``select(condition, x, y)``. A part of a condition that is proven is
      not printed, and a long chain of nested choices prints one a line.
    * A long expression is split into named parts, ``t1 = ...``.
    * A symbolic size prints by name, and so do the sizes derived from it, such as ``n//8``.
    * ``S.rf`` has the partial results of ``rfactor``, ``S.local`` the tile of ``cache_write``, and
      ``A.shared`` the copy of ``cache_read``.

    A reduction of two values, such as ``argmax``, updates both. The value that is not an output has
    a buffer of its own:

    >>> digit = sl.compute((8,), lambda i: sl.argmax(A[i, k], axis=k), name="digit")
    >>> print(sl.schedule(digit))
    digit(A: float32[8, 100]) -> digit: int64[8]
    <BLANKLINE>
    digit.v1: float32[8]   global, 32 B
    for i in 0..8:
      digit[i], digit.v1[i] = -1, -inf
      for k in 0..100:
        digit[i], digit.v1[i] = argmax(digit[i], digit.v1[i], k, A[i, k])
    """

    name: str
    args: tuple[Union[Buffer, Var], ...]
    outputs: tuple[Buffer, ...]
    body: Block
    sizes: tuple[Var, ...] = ()
    names: dict[Axis, str] = field(default_factory=dict)
    # the schedule, the arguments and the name that it was lowered from, for te's build(lower(...))
    origin: tuple[Any, Any, Any] | None = field(default=None, repr=False)
    remarks: dict[Union[str, Axis], tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        return nest_text(self)

    __repr__ = __str__

    def astext(self, *te_options: Any, **named: Any) -> str:
        """Return the printed nest: te's ``lower(s, args).astext()``."""
        return str(self)

    script = astext

    def __getitem__(self, name: str) -> Nest:
        """Return this nest: te's ``lower(s, args)["main"]``.

        Raise :class:`~schedlang.errors.UnknownNameError` for a name that it does not have.
        """
        if name not in ("main", self.name):
            raise UnknownNameError(
                f"the loop nest of {self.name} has no function {name!r}; its only function is "
                f'"main", or {self.name!r}'
            )
        return self

    def show(self) -> None:
        """Print the nest, in colours if the terminal has them (extra ``viz``).

        The environment variable ``NO_COLOR`` turns colours off. Raise
        :class:`~schedlang.errors.MissingExtraError` if rich is not installed.
        """
        show_nest(self)

    def _repr_html_(self) -> str:
        names = NameTable()
        body = nest_html(self, names)
        return fragment(body, len(names))

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """All buffers: arguments first, then allocations in program order."""
        arguments = tuple(a for a in self.args if isinstance(a, Buffer))
        return (*arguments, *storage(self.body))

    @cached_property
    def loops(self) -> tuple[For, ...]:
        """The loops that run, outer ones first."""
        return tuple(s for s in running(self.body) if isinstance(s, For))

    @cached_property
    def guards(self) -> tuple[If, ...]:
        return tuple(s for s in running(self.body) if isinstance(s, If) and s.note)


def functions_of(nest: Nest) -> list[str]:
    """Return the names of functions that emitted files define for the instructions of a nest."""
    used = dict.fromkeys(loop.instruction for loop in nest.loops if loop.instruction is not None)
    return [name for declared in used for name in declared.functions]
