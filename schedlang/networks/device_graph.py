"""A CUDA graph of one call of a network: the host starts all kernels by one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.runtime import nvidia
from schedlang.runtime.cuda_graph import Recorded


class CudaGraph:
    """The kernels of one call with given arrays, in a CUDA graph.

    ``outputs`` are the arrays that each replay writes: one, or a tuple. A replay reads what the
    inputs hold then. The graph has an arena of its own. Replays of one graph run one after the
    other, on any streams.
    """

    def __init__(
        self, recorded: Recorded, outputs: Any, device: int, stream: int, alive: Sequence[Any]
    ) -> None:
        self.outputs = outputs
        self._recorded, self._device, self._stream = recorded, device, stream
        # the graph has their addresses
        self._alive = alive

    def replay(self, stream: int | None = None) -> Any:
        """Launch the kernels, and return ``outputs`` before they have run.

        ``stream`` is the number of a stream of CUDA, such as ``torch.cuda.Stream().cuda_stream``;
        by default that of the arrays when the graph was made.
        """
        with nvidia.on_gpu(self._device):
            self._recorded.start(self._stream if stream is None else stream)
        return self.outputs


__all__ = ["CudaGraph"]
