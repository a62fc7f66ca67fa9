"""Schedules for the present target, under TVM's names: ``sl.autoschedule`` all of them.

The operators of ``topi`` and ``topi.nn`` have their names here, too, as in TVM.

>>> from schedlang import topi
>>> topi.generic.conv2d_nchw is topi.nn.conv2d_nchw
True
>>> print(topi.generic.schedule_softmax.__doc__.splitlines()[0])
Return ``sl.autoschedule(outs)`` for the present target; ``outs`` is a tensor or a list of them.
"""

from __future__ import annotations

from typing import Any

from schedlang.tvm.topi import nn
from schedlang.tvm.topi.schedules import missing, schedules

_SCHEDULES = schedules("generic", None)


def __getattr__(name: str) -> Any:
    found = _SCHEDULES.get(name)
    if found is None and name in nn.__all__:
        found = getattr(nn, name)
    if found is None:
        raise missing("generic", name, [*_SCHEDULES, *nn.__all__])
    return found


def __dir__() -> list[str]:
    return sorted({*_SCHEDULES, *nn.__all__})
