"""Kernels of one call that are compiled while others are scheduled, or weights computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from schedlang.markup.progress import tell
from schedlang.runtime.collection import no_collection
from schedlang.runtime.on_host import OnHost

if TYPE_CHECKING:
    from schedlang.runtime.llvm.together import Together


@contextmanager
def compile_together(most: int) -> Iterator[Callable[[OnHost], None]]:
    """Let processes compile the kernels for which the ``with`` block calls the function it gets.

    The end of the block waits for them. ``most`` is the number of kernels at most; the module of a
    network counts as one. A kernel that LLVM does not compile, or that another process compiles
    now, is left to its first call.
    """
    together: Together | None = None

    def begin(kernel: OnHost) -> None:
        nonlocal together
        subject = kernel.subject
        if subject is None:
            return
        from schedlang.runtime.llvm.place import place_of

        place = place_of(subject)
        if place.known is not None or place.path.exists():
            return
        if together is None:
            # only now, since it imports the printers of LLVM's code and starts processes
            from schedlang.runtime.llvm.together import Together

            together = held.enter_context(Together(most))
        # a collection would walk all objects of the process, to which imports add many
        with no_collection():
            together.add(place)

    with ExitStack() as held:
        yield begin
        if together is not None:
            tell("compiling")
