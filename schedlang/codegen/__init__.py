"""From a machine nest to source: printers that only decide how a language writes a value.

``numba_source.py`` prints statements for numba, and ``numba_printer.py`` the ones that a CPU's file
writes in another way. ``numba_cpu.py`` and ``numba_cuda.py`` print functions, kernels and the
launcher; ``numba_launch.py`` prints functions with parallel loops as numba compiles them.
``c_source.py`` and ``c_values.py`` print C, ``c_definitions.py`` takes from ``c_helpers.h`` the
helpers that it uses, and ``c_instruction.py`` prints an instruction alone. For its vectors,
``c_math.py`` translates the CPU target's math functions, ``c_lanes.py`` writes shuffled loads and
instructions of x86, ``c_masks.py`` recognizes masks of the first lanes, and ``c_streams.py`` puts
streamed stores side by side. ``c_hosted.py`` prints functions that return codes, for a program of
C. The others print into a ``Listing``
(``listing.py``), where each line has the number of its statement.

``numba_file.py``, ``numba_cuda_file.py``, ``network_file.py`` and ``network_cuda_file.py`` print
the rest of a file: its comments, its checks of arguments and sizes (``refused_sizes.py``), its
public function.
"""
