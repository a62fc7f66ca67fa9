"""Discrete Fourier transforms."""

from __future__ import annotations

from schedlang.arrays.host.row import Row
from schedlang.arrays.host.shapes import doubled, half, transformed, transformed_axes

_ONE, _SEVERAL = "a n axis norm out", "a s axes norm out"
_LAST_TWO = (-2, -1)

ROWS = {
    "fft.fft": Row(_ONE, "a", transformed(None, None)),
    "fft.ifft": Row(_ONE, "a", transformed(None, None)),
    "fft.rfft": Row(_ONE, "a", transformed(half, None)),
    "fft.irfft": Row(_ONE, "a", transformed(None, doubled), extent=2),
    "fft.hfft": Row(_ONE, "a", transformed(None, doubled), extent=2),
    "fft.ihfft": Row(_ONE, "a", transformed(half, None)),
    "fft.fft2": Row(_SEVERAL, "a", transformed_axes(None, None, _LAST_TWO)),
    "fft.ifft2": Row(_SEVERAL, "a", transformed_axes(None, None, _LAST_TWO)),
    "fft.rfft2": Row(_SEVERAL, "a", transformed_axes(half, None, _LAST_TWO)),
    "fft.irfft2": Row(_SEVERAL, "a", transformed_axes(None, doubled, _LAST_TWO), extent=2),
    "fft.fftn": Row(_SEVERAL, "a", transformed_axes(None, None, None)),
    "fft.ifftn": Row(_SEVERAL, "a", transformed_axes(None, None, None)),
    "fft.rfftn": Row(_SEVERAL, "a", transformed_axes(half, None, None)),
    "fft.irfftn": Row(_SEVERAL, "a", transformed_axes(None, doubled, None), extent=2),
}
