"""The rows of ``benchmarks/cuda.py``: works that fill a GPU, 256 MB or more where memory bounds."""

from __future__ import annotations

from benchmarks.works import linear, memory
from benchmarks.works.convolution import CONV, DEPTHWISE, conv2d, depthwise

GPU_WORKS = (
    *(linear.sgemm(n, n, n) for n in (1024, 2048, 4096)),
    linear.sgemm(1000, 1003, 997),
    *(conv2d(f"C{n}", *layer, b) for b in (1, 64) for n, layer in enumerate(CONV, 1)),
    *(depthwise(f"D{n}", *layer, b) for b in (1, 64) for n, layer in enumerate(DEPTHWISE, 1)),
    memory.softmax(65536, 1024),
    memory.layer_norm(65536, 1024),
    memory.row_sum(8192, 8192),
    memory.column_sum(8192, 8192),
    memory.transpose(8192),
    memory.chain(64 << 20),
    memory.box_blur(8192),
    memory.jacobi(8192),
    linear.attention(8, 512, 64),
)
