"""The arrays of a call on a device of OpenCL: pyopencl's, and copies of NumPy's."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.errors import CallError, explain
from schedlang.expr.dtypes import register_dtype
from schedlang.runtime.device_arrays import Holder
from schedlang.runtime.parameters import Parameter

# the arrays of a call have addresses that no memory of the host has, each buffer a range of its own
FIRST, ROOM = 1 << 50, 1 << 44


class Placed(np.ndarray):
    """The shape, dtype and place of an array of pyopencl, its ``owner``; NumPy must not read it."""

    owner: Any = None


def is_array(value: Any) -> bool:
    """Return whether ``value`` is an array of pyopencl, without an import of pyopencl."""
    kind = getattr(sys.modules.get("pyopencl.array"), "Array", None)
    return kind is not None and isinstance(value, kind)


def placed(value: Any, buffers: dict[int, int]) -> Placed:
    """Return an array of pyopencl as :class:`Placed`; ``buffers`` numbers the call's."""
    base, offset = value.base_data, int(value.offset)
    whole = base.get_info(_memory().ASSOCIATED_MEMOBJECT) if base is not None else None
    if whole is not None:
        offset += int(base.get_info(_memory().OFFSET))
    number = buffers.setdefault(0 if base is None else (whole or base).int_ptr, len(buffers))
    interface = {
        "shape": value.shape,
        "typestr": value.dtype.str,
        "data": (FIRST + number * ROOM + offset, False),
        "strides": value.strides,
    }
    view = np.asarray(Holder(value, interface)).view(value.dtype).view(Placed)
    view.owner = value
    return view


def _memory() -> Any:
    return sys.modules["pyopencl"].mem_info


def buffer_of(value: Placed, name: str, alignment: int) -> Any:
    """Return the buffer of an array, from its first element on.

    Raise :class:`~schedlang.errors.CallError` for one that does not start where a buffer may.
    """
    owner = value.owner
    if not owner.size or not owner.offset:
        return owner.base_data
    unit = max(alignment, owner.base_data.context.devices[0].mem_base_addr_align // 8)
    if owner.offset % unit:
        raise CallError(
            explain(
                f"{name} starts {owner.offset:,} B into its buffer",
                f"the device starts an array at a multiple of {unit} B",
                f"Pass {name}.copy().",
            )
        )
    return owner.base_data.get_sub_region(owner.offset, owner.nbytes)


def queue_of(what: str, parameters: Sequence[Parameter], values: Sequence[Any]) -> Any:
    """Return the queue of the arrays of a call; ``None`` if none has one.

    Raise :class:`~schedlang.errors.CallError` for arrays of two contexts, or of two queues.
    """
    arrays = {p.name: v for p, v in zip(parameters, values) if is_array(v)}
    if not arrays:
        return None
    first = next(iter(arrays))
    context = arrays[first].context
    for name, value in arrays.items():
        if value.context != context:
            raise CallError(
                explain(
                    f"{what}: {name} and {first} are arrays of two contexts of OpenCL",
                    "a kernel runs in one",
                    f"Copy {name} there: pyopencl.array.to_device({first}.queue, {name}.get()).",
                )
            )
    queues = {name: v.queue for name, v in arrays.items() if v.queue is not None}
    for name, queue in queues.items():
        source, chosen = next(iter(queues.items()))
        if queue != chosen:
            raise CallError(
                explain(
                    f"{what}: {name} and {source} are arrays of two queues",
                    "a call runs on one, and nothing orders it after the work on the other",
                    f"Finish that work, and pass {name}.with_queue({source}.queue).",
                )
            )
    return next(iter(queues.values()), context)


def scalar_argument(value: Any, dtype: str) -> Any:
    """Return a scalar as a kernel takes it: a short float as float32, a bool as a byte."""
    return np.dtype("uint8" if dtype == "bool" else register_dtype(dtype)).type(value)


class DeviceArguments:
    """The arguments of a call on a queue: buffers, with copies of the arrays of the host.

    ``given`` are the arguments; :meth:`finish` copies outputs back to the host.
    """

    def __init__(
        self,
        queue: Any,
        values: Sequence[Any],
        parameters: Sequence[Parameter],
        alignment: Mapping[str, int],
    ) -> None:
        self._queue = queue
        self.given: list[Any] = []
        self._copied: list[tuple[Any, np.ndarray, bool]] = []
        for value, p in zip(values, parameters):
            if p.is_scalar:
                self.given.append(scalar_argument(value, p.dtype))
            elif isinstance(value, Placed):
                self.given.append(buffer_of(value, p.name, alignment.get(p.name, 1)))
            else:
                flat = value.reshape(-1).view("uint8")
                self.given.append(new_buffer(queue, flat.nbytes, flat))
                self._copied.append((self.given[-1], flat, p.is_output))

    def finish(self) -> None:
        cl = sys.modules["pyopencl"]
        for there, here, is_output in self._copied:
            if is_output and here.size:
                cl.enqueue_copy(self._queue, here, there, is_blocking=False)
        if self._copied:
            self._queue.finish()


def new_buffer(queue: Any, size: int, content: np.ndarray | None = None) -> Any:
    """Return a new buffer of ``size`` bytes, at least one, with a copy of ``content``."""
    cl = sys.modules["pyopencl"]
    flags = cl.mem_flags.READ_WRITE
    if content is None or not content.size:
        return cl.Buffer(queue.context, flags, max(size, 1))
    return cl.Buffer(queue.context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=content)
