"""CUDA graphs: launches that a stream recorded, which the host launches all at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from schedlang.errors import CallError, explain, first_line
from schedlang.runtime import nvidia
from schedlang.runtime.collection import no_collection

# the errors of the driver as numba-cuda and cuda.core raise them
_DRIVERS = {"CudaDriverError", "CUDAError"}


class ExecutableGraph:
    """The launches of ``record(stream)`` on a GPU, which is the current one at construction.

    ``record`` gets the number of a stream that records and runs nothing. It must neither allocate
    nor wait, and its kernels must have been loaded before, by their first launch. Meanwhile no
    other thread may wait for the whole GPU.
    """

    def __init__(self, record: Callable[[int], None]) -> None:
        binding, calls = _driver()
        # while a stream that waits for the default one records, no thread may launch on that
        stream = calls.cuStreamCreate(binding.CUstream_flags.CU_STREAM_NON_BLOCKING.value)
        try:
            # to free memory of the GPU would end the recording
            with no_collection(), nvidia.driver().defer_cleanup():
                graph = _recorded(record, stream)
            try:
                self._handle = calls.cuGraphInstantiate(graph, 0)
            finally:
                calls.cuGraphDestroy(graph)
        finally:
            calls.cuStreamDestroy(stream)
        here = nvidia.driver().get_current_device().id
        self._launch, self._stream = calls.cuGraphLaunch, binding.CUstream
        # at exit the driver frees it
        weakref.finalize(self, _free, here, self._handle).atexit = False

    def launch(self, number: int) -> None:
        """Launch the graph on a stream of its GPU, which must be the current one."""
        self._launch(self._handle, self._stream(number))


@contextmanager
def driver_errors(what: str, hint: str) -> Iterator[None]:
    """Turn errors of the CUDA driver inside of a ``with`` block into errors of ``what``, with a
    ``hint``.

    They are :class:`~schedlang.errors.CallError`, whose cause is the driver's.
    """
    try:
        yield
    except Exception as error:
        if not _DRIVERS & {kind.__name__ for kind in type(error).__mro__}:
            raise
        why = f"the CUDA driver reports {first_line(error)}"
        raise CallError(explain(what, why, hint)) from error


def _recorded(record: Callable[[int], None], stream: Any) -> Any:
    binding, calls = _driver()
    mode = binding.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    calls.cuStreamBeginCapture(stream, mode)
    try:
        record(int(stream))
    except BaseException:
        # what was raised says more than that the recording is not whole
        with suppress(Exception):
            calls.cuGraphDestroy(calls.cuStreamEndCapture(stream))
        raise
    return calls.cuStreamEndCapture(stream)


def _free(device: int, handle: Any) -> None:
    with nvidia.on_gpu(device):
        _driver()[1].cuGraphExecDestroy(handle)


def _driver() -> tuple[Any, Any]:
    """Return the driver's types and its functions, which raise what goes wrong."""
    nvidia.driver()
    from numba.cuda.cudadrv.driver import binding, driver

    return binding, driver
