"""te's ``tvm.error``: the base of all errors, under TVM's name.

>>> import schedlang as sl
>>> issubclass(sl.errors.ScheduleError, TVMError)
True
"""

from schedlang.errors import SchedlangError

TVMError = SchedlangError

__all__ = ["TVMError"]
