"""Loop nest to what a GPU runs: kernels of blocks of threads, and the barriers between them."""
