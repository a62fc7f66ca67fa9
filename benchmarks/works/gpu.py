"""The rows of ``benchmarks/cuda.py``: works that fill a GPU, of 256 MB or more if memory-bound."""

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
# small works for the emulator, of sizes that no tile divides: they reach each branch of a schedule
GPU_SMALL = (
    linear.sgemm(130, 140, 33),
    linear.sgemm(130, 131, 45),
    linear.sgemm(70, 66, 29),
    conv2d("C", 10, 9, 40, 3, 1, 1),
    conv2d("C", 9, 13, 33, 3, 2, 1, 2),
    conv2d("C", 9, 5, 33, 1, 2, 0, 1),
    conv2d("C", 5, 64, 5, 3, 2, 1),
    depthwise("D", 9, 3, 1, 2),
    depthwise("D", 10, 3, 2, 1),
    memory.softmax(5, 300),
    memory.layer_norm(5, 300),
    memory.row_sum(5, 3000),
    memory.column_sum(100, 70),
    memory.transpose(70),
    memory.chain(5000),
    memory.box_blur(40),
    memory.jacobi(40),
    linear.attention(2, 70, 33),
)
