"""The names of arrays in the index errors of uncompiled kernels."""

from __future__ import annotations

from types import FrameType

import numpy as np


def with_array_name(error: IndexError, path: str) -> str:
    """Return the message of ``error``, with the array's name in the kernel's file at ``path``."""
    frames: list[FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    # the innermost frame is `check` in twins.py, where the array is called A
    array = frames[-1].f_locals.get("A")
    for frame in reversed(frames):
        if frame.f_code.co_filename != path or not isinstance(array, np.ndarray):
            continue
        for name, value in frame.f_locals.items():
            # a float16 array is accessed through a view
            if value is array or (isinstance(value, np.ndarray) and array.base is value):
                return str(error).replace("of an array of", f"of {name}, an array of", 1)
    return str(error)
