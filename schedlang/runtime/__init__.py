"""Kernels: compiled, checked, called, timed; as ``tvm.runtime``, the names of te programs.

``kernel.py`` is the ``Kernel`` that users hold, made from the data in ``built.py``. Its properties
at each level, from the nest to machine code, are in ``levels.py``.

* **A call.** ``parameters.py`` and ``checked.py`` check the arguments by the rules of
  ``ir/array_rules.py``; ``fast_call.py`` is the way of arrays that need no conversion,
  ``sized_calls.py`` the way of sizes that were checked before, and ``advice.py`` helps after a
  refusal. ``on_host.py`` has the function of the file, also for the module of a network, and loads
  it anew after a fork. A runner (``runner_of.py``, ``runners.py``,
  ``llvm_runner.py``) says how it runs: by LLVM, by numba, as Python, or as a library of C
  (``c_library.py``; ``c_trial.py`` compiles an instruction alone, and ``kept_trials.py`` keeps
  the result). ``starts.py`` is what a call starts: the function, in a lock where it launches
  threads (``thread_safety.py``). ``background.py`` has the thread that compiles ahead of calls.
* **numba.** ``numba_compiler.py`` compiles the functions of an emitted file by a pipeline of
  numba's passes that suits them. It makes machine code only of the function that Python calls.
  ``numba_parallel.py`` launches parallel loops, and ``numba_team.py`` shares the loops of a scan's
  steps among threads that start once. ``numba_cache.py`` loads machine code without the compiler.
  All of them take what they need of numba's inside from ``numba_internals.py``, into which no other
  module reaches.
* **LLVM.** The package ``llvm`` compiles the machine nest, without numba's type inference.
* **GPUs.** ``device_file.py`` compiles the emitted file when it is needed. ``gpu.py`` and
  ``emulated.py`` are the kernels, ``nvidia.py`` has PTX and resources, which ``device_code.py``
  shows, ``device_call.py`` and ``device_fast_call.py`` do what the CPU's files do for a call, and
  ``simulator.py`` runs the emitted source.
* **Times and counts.** ``evaluate.py`` and ``timing.py`` time a kernel beside the ceilings of the
  machine (``ceilings.py``), which the nests of ``probe_nests.py`` measure. ``cpu_profile.py``
  stamps loops of the machine nest (``machine/passes/stamps.py``), and ``gpu_profile.py`` uses
  events of the GPU; both give a ``Profile`` (``profile.py``), which ``markup/flame.py`` draws.
  ``counted.py`` runs the nests of ``counting/`` for a call (``counted_call.py``).
* **C programs.** ``c_saving.py`` writes a kernel as C (``c_program.py``, ``c_checks.py``), and
  ``c_loading.py`` loads a library of it.
* **Files.** ``files.py`` and ``cache_files.py`` write and check the cache folder,
  ``environment.py`` says what its files hold for (``whole_cores.py``: the cores that threads have
  to themselves), and ``bundle.py`` makes self-contained files.
"""

from typing import TYPE_CHECKING, Any

from schedlang.errors import missing_name
from schedlang.runtime.convert import convert as convert
from schedlang.runtime.devices import enabled

_BUILT = "tvm.build(s, args) returns the kernel itself: f(a, b, c) calls it."
REFUSED = {
    "load_static_library": (
        "a static library is linked into a program",
        "Call f.save('k.so'), and load that with tvm.runtime.load_module.",
    ),
    "Module": ("modules of compiled code are not part of schedlang", _BUILT),
    "PackedFunc": ("packed functions are not part of schedlang", _BUILT),
    "NDArray": ("arrays are in tvm.nd", "Use tvm.nd.array, or give NumPy arrays."),
    "ndarray": ("arrays are in tvm.nd", "Use tvm.nd.array, or give NumPy arrays."),
    "vm": (
        "graphs of models are not part of schedlang",
        "schedlang has the language and schedules of te, not models: write the operator in te.",
    ),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "load_module":
            # a process that only builds kernels loads none
            from schedlang.runtime.c_loading import load_module

            return load_module
        raise missing_name(__name__, name, REFUSED, "tvm.runtime")


__all__ = ["enabled", "load_module"]
