"""The functions of NumPy that are called on the host, by name."""

from __future__ import annotations

from schedlang.arrays.host import counting, fourier, linear, sorting
from schedlang.arrays.host.row import Row

ROWS: dict[str, Row] = {**sorting.ROWS, **linear.ROWS, **fourier.ROWS, **counting.ROWS}
