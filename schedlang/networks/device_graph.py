"""A CUDA graph of one call of a network: the host launches all kernels at once."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from schedlang.errors import CallTypeError
from schedlang.runtime import nvidia
from schedlang.runtime.cuda_graph import ExecutableGraph, driver_errors
from schedlang.runtime.device_call import one_stream

_AGAIN = (
    "If a kernel has failed before, start the process again. Otherwise give a stream of the GPU "
    "that has the arrays, or record the call again: cuda_graph(...)."
)


class CudaGraph:
    """The kernels of one call with given arrays, in a CUDA graph.

    ``name`` is the network's. ``outputs`` are the arrays that each replay writes: one, or a
    tuple. A replay reads what the inputs hold then. The graph has an arena of its own. Replays of
    one graph run one after the other, on any streams, and threads may make them.
    """

    def __init__(
        self,
        name: str,
        graph: ExecutableGraph,
        arrays: Sequence[Any],
        outputs: Any,
        device: int,
        alive: Sequence[Any],
    ) -> None:
        self.name, self.outputs = name, outputs
        self._graph, self._arrays, self._device = graph, arrays, device
        # the graph has the addresses of these
        self._alive = alive
        self._turn = Lock()

    def replay(self, stream: int | None = None) -> Any:
        """Launch the kernels, and return ``outputs`` before they have run.

        ``stream`` is the number of a stream of CUDA, such as ``torch.cuda.Stream().cuda_stream``;
        by default the stream of the arrays, as in a call. Raises
        :class:`~schedlang.errors.CallTypeError` if ``stream`` is not a number, and
        :class:`~schedlang.errors.CallError` where the driver refuses to launch the graph.
        """
        if stream is not None and not isinstance(stream, int):
            raise CallTypeError(
                f"replay(stream=...) takes the number of a stream, not {type(stream).__name__}: "
                "give stream.cuda_stream of PyTorch, or stream.ptr of CuPy"
            )
        what = f"replay of a CUDA graph of network {self.name}"
        with driver_errors(what, _AGAIN), nvidia.on_gpu(self._device):
            number, several = (stream, False) if stream is not None else one_stream(self._arrays)
            # CUDA wants one thread at a time to launch a graph
            with self._turn:
                self._graph.launch(number)
            if several:
                nvidia.stream_of(number).synchronize()
        return self.outputs
