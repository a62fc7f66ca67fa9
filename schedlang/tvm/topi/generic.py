"""Schedules for the present target, under TVM's names: ``sl.autoschedule`` all of them.

The operators of ``topi`` and ``topi.nn`` have their names here, too, as in TVM.

>>> from schedlang import topi
>>> topi.generic.conv2d_nchw is topi.nn.conv2d_nchw
True
>>> print(topi.generic.schedule_softmax.__doc__.splitlines()[0])
Return ``sl.autoschedule(outs)`` for the present target; ``outs`` is a tensor or a list of them.
"""

from __future__ import annotations

from schedlang.tvm.topi.schedules import names_of

__getattr__, __dir__ = names_of("generic", None)
