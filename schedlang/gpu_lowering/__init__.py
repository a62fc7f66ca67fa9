"""Lower a loop nest to a GPU program: kernels of blocks of threads, with their barriers."""
