"""The methods of a kernel that count a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedlang.runtime.counted_call import MOST, MOST_TRACED, Call
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.counting.trace import Trace


class Countable(ABC):
    """The methods of :class:`~schedlang.runtime.kernel.Kernel` that count a call."""

    @property
    @abstractmethod
    def target(self) -> Target:
        """The processor that the kernel is built for."""

    @abstractmethod
    def _counted_call(self, args: Sequence[Any], named: Mapping[str, Any]) -> Call:
        """Return a call whose outputs are new arrays."""

    def counters(
        self, *args: Any, caches: Any = True, most: int = MOST, **named: Any
    ) -> Mapping[str, Any]:
        """Return the loads, stores, arithmetic and cache lines of a call, by stage.

        Give the arguments of a call; given outputs are not written. The result is a
        :class:`~schedlang.counting.result.KernelCounts`: a mapping from the names of stages to
        their :class:`~schedlang.counting.records.Counts`, with ``total`` and ``loops``. ``print``
        shows the machine nest with a column for each count.

        The counts are exact for the machine nest: it is compiled with counters in it and runs, one
        iteration after the other. ``caches`` simulates the data caches of the target, or those
        given as a sequence of :class:`~schedlang.target.Cache`; ``False`` saves that time, and
        a nest whose loops all have known lengths, without guards and masks, is then counted by
        multiplication alone: nothing is compiled or run. Beyond
        ``most`` accesses a share of the lines is simulated, beyond 32 times ``most`` none; the
        result then says so.

        Raises the errors of a call.

        >>> import numpy as np, schedlang as sl
        >>> A = sl.placeholder((8, 8), name="A")
        >>> B = sl.compute((8, 8), lambda i, j: A[j, i] * 2, name="B")
        >>> found = sl.build(sl.schedule(B)).counters(np.ones((8, 8), "float32"), caches=False)
        >>> found["B"].loads, found["B"].stores, found["B"].arithmetic
        (64, 64, {'float32': 64})
        """
        from schedlang.runtime.counted import count_call, simulated_caches

        return count_call(
            self._counted_call(args, named), simulated_caches(caches, self.target), most
        )

    def trace(self, *args: Any, most: int = MOST_TRACED, **named: Any) -> Trace:
        """Return the accesses of a call in order, as arrays of addresses, sizes and kinds.

        Give the arguments of a call; given outputs are not written. If there are more than
        ``most`` accesses, the result keeps runs of them, and says so.

        Raises the errors of a call, and :class:`~schedlang.errors.CallError` for a call of so many
        accesses that a trace would take minutes.

        >>> import numpy as np, schedlang as sl
        >>> A = sl.placeholder((3,), name="A")
        >>> B = sl.compute((3,), lambda i: A[2 - i] * 2, name="B")
        >>> found = sl.build(sl.schedule(B)).trace(np.ones(3, "float32"))
        >>> [(found.buffers[b], int(at)) for b, at in zip(found.buffer, found.offset)]
        [('A', 8), ('B', 0), ('A', 4), ('B', 4), ('A', 0), ('B', 8)]
        """
        from schedlang.runtime.counted import trace

        return trace(self._counted_call(args, named), most)
