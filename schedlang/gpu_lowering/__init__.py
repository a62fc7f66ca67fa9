"""From a loop nest to a GPU program: kernels of blocks of threads, with their barriers.

On a GPU, loops that are bound to ``blockIdx`` and ``threadIdx`` become indices.
``device_program(nest, target)`` in ``lower.py`` makes a ``Program`` (``program.py``) of the nest,
in this order:

1. **kernels** (``kernels.py``) separates the kernels from the work of the host between them.
2. **fragments** (``fragments.py``) divides tiles that a warp holds by lanes and registers, and
   turns loops over their elements into loops over a thread's; ``matrix_loads.py`` does so for loops
   that a warp computes by ``ldmatrix``. For the emitted source, ``fragment_registers.py`` later
   makes them registers of one thread.
3. **threads** (``threads.py``) turns thread loops into indices. It allocates shared memory at the
   start of the kernel, and adds guards so that only one thread stores an element.
   ``cross_thread.py`` splits a reduction across threads into partial results and the steps that
   combine them.
4. **vthread** (``vthread.py``) moves loops over virtual threads inward, to the statements that
   differ.
5. **tiles ahead** (``filled_ahead.py``): double buffers are filled one iteration ahead, and the
   values wait in registers until then (``register_staging.py``). Pipelines are filled several
   iterations ahead, by asynchronous copies with groups and waits.
6. **barriers** (``barriers.py``) places a barrier between accesses of different threads to one
   element. ``collisions.py`` first asks ``index/collisions.py`` for a proof that the two accesses
   never meet. Without a proof there is a barrier.
7. **limits** (``limits.py``) checks each kernel against the limits of the device.

The emulator, the lockstep simulation and the emitted source are all made from the program, so they
run the same barriers and indices. ``emulation.py`` turns kernels into loops for the CPU.
``lockstep.py`` walks the statements for all threads at once and counts them (``counters.py``);
``simt.py`` has the values of the threads, ``warp_products.py`` computes instructions of warps, and
``checked_memory.py`` checks each access. ``race.py`` describes an access that races.
``memory_requests.py`` counts requests from addresses alone, ``counted_program.py`` shows the
counters beside the program, and ``without_barriers.py`` shows the races that the barriers
prevent.
"""
