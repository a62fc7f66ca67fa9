"""The scales of charts: from values to coordinates, and the ticks of an axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

# a scale from a value below this is linear, as for 0
TINY = 1e-100


@dataclass(frozen=True)
class Scale:
    """A map from ``low``..``high`` to ``start``..``end``, logarithmic if ``log``.

    >>> Scale(1.0, 100.0, 0.0, 200.0, log=True)(10.0)
    100.0
    """

    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return about 3 to 9 round numbers from ``low`` to ``high``.

        >>> Scale(1.0, 70.0, 0.0, 1.0, log=True).ticks()
        [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
        >>> Scale(3.0, 4.1, 0.0, 1.0, log=True).ticks()
        [3.0, 3.2, 3.4, 3.6, 3.8, 4.0]
        """
        if self.log and self.high / self.low >= 6:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            every = 1 + (last - first) // 9
            digits = (1, 2, 5) if last - first <= 3 else (1,)
            decades = range(first, last + 1, every)
            # parsing gives the float nearest to the decimal, which a product may miss
            values = [float(f"{digit}e{power}") for power in decades for digit in digits]
        else:
            rough = (self.high - self.low) / 5
            power = math.floor(math.log10(rough))
            step = next(d for d in (1, 2, 5, 10) if d * 10.0**power >= rough * 0.8)
            first, last = (math.ceil(edge / (step * 10.0**power)) for edge in (self.low, self.high))
            values = [float(f"{n * step}e{power}") for n in range(first, last + 1)]
        return [v for v in values if self.low <= v <= self.high]


def scale_of(values: Iterable[float], start: float, end: float, log: bool = True) -> Scale:
    """Return a scale that fits all ``values`` with some room; logarithmic if all are above 0.

    >>> made = scale_of([2.0, 2.0], 0.0, 10.0)
    >>> made.low < 2.0 < made.high, scale_of([0.0, 1.0], 0.0, 1.0).log
    (True, False)
    """
    known = list(values) or [1.0]
    low, high = min(known), max(known)
    if log and low > TINY:
        room = max((high / low) ** 0.06, 1.05)
        return Scale(low / room, high * room, start, end, True)
    room = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    return Scale(low - room, high + room, start, end, False)
