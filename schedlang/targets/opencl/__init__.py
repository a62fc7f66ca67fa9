"""``target="opencl"``: kernels of OpenCL C, from loops that are bound to blocks and threads."""
