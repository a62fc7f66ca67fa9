"""The machine nest as LLVM's code, and as a function of Python, without numba's type inference.

The machine nest has the types of all values. So each statement and each value becomes instructions
of LLVM directly. The emitted file is what a user reads, debugs and saves; the compiled code refers
to its lines. Both compilers write the same arithmetic, since the intrinsics are defined once. The
fuzzer compares their results bit by bit, except where a product may fuse with a sum.

1. ``functions.py`` prints each function of the nest, by ``statements.py`` and ``values.py``, and
   each body of a parallel loop as another one. The threads of numba run these, by the code of
   ``runtime/numba_parallel.py`` and ``runtime/numba_team.py``: as one team, if the entry calls
   several functions with such loops, as in a network.
2. ``dialect.py`` calls the definition of an intrinsic with types of numba, which it looks up once.
   A function of Python behind an intrinsic, such as ``exp`` of float32, becomes a function of LLVM
   by a call with values that write instructions (``traced.py``). So do the functions of a user's
   instructions (``instructed.py``; ``instruction_trial.py`` compiles one alone).
3. ``entry.py`` prints the function that Python calls. It reads the addresses of arrays, and
   releases the GIL.
4. ``parts.py`` divides a large nest, such as the nest of a network, into parts with passes of their
   own level (``passes.py``). ``printed.py`` writes the code of each, to run, or, with lines
   (``lines.py``), to read. ``failures.py`` says which statement LLVM refuses.
5. ``objects.py`` makes an object file of a part. ``pool.py`` starts processes that do so beside
   this one. ``together.py`` lets them compile the parts of one kernel, or the kernels of one call.
6. ``place.py`` says where the cache folder keeps the object files, as one file, ``compiled.py``
   looks there before it compiles, and ``library.py`` loads them. A process that loads them imports
   none of the printers. ``in_numba.py`` lets functions that numba compiles call the code.

What has no form here raises ``Unprintable``: then numba compiles the file.
"""
