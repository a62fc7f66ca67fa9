"""Kernels: emitted source that can be called, read, saved and timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from schedlang.codegen.c_compiler import C_SUFFIXES
from schedlang.codegen.extern_text import HOW_TO_SAVE, unsaved
from schedlang.compute.arrays import as_numpy
from schedlang.errors import BuildError, MissingNameError, explain
from schedlang.ir.extern_call import Extern
from schedlang.ir.nest import Nest
from schedlang.ir.size_conditions import SizeCondition
from schedlang.ir.trimmed import running
from schedlang.machine.nest import MachineNest
from schedlang.markup.bundle import mime_bundle
from schedlang.runtime import perf_map
from schedlang.runtime.access_checks import check_accesses, refused_sizes, sized_storage
from schedlang.runtime.arrays import empty_like_library
from schedlang.runtime.built import Built
from schedlang.runtime.bundle import bundle
from schedlang.runtime.checked import Checked, checked_arguments, flat_arguments
from schedlang.runtime.countable import Countable
from schedlang.runtime.counted_call import Call, with_new_outputs
from schedlang.runtime.extern_table import ExternTable, called_in
from schedlang.runtime.fast_call import Bind, fast_call
from schedlang.runtime.kernel_html import kernel_html
from schedlang.runtime.levels import Levels
from schedlang.runtime.missing_attributes import no_attribute
from schedlang.runtime.on_host import OnHost
from schedlang.runtime.parameters import Binder, Parameter, Signature
from schedlang.runtime.paths import path_of
from schedlang.runtime.size_checks import refuse
from schedlang.runtime.sized_calls import SizedCalls
from schedlang.runtime.te_module import TeModule
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.runtime.copies import CopyingKernel
    from schedlang.runtime.cpu_profile import Subject
    from schedlang.runtime.profile import Profile


class Kernel(Levels, TeModule, Countable, OnHost):
    """A compiled schedule: call it with arrays.

    ``f(a, b)`` returns a new output, or a tuple of them, in the library of the first array.
    ``f(a, b, out)`` writes ``out`` and returns it, and so does ``f(a, b, out=y)``, which takes a
    tuple for several outputs. Arguments may be named. A call first checks shapes, dtypes,
    contiguity and overlap. It raises :class:`~schedlang.errors.CallError` or
    :class:`~schedlang.errors.CallTypeError`.

    CPU tensors of PyTorch are read without a copy, and new outputs are tensors too. A kernel
    records no gradient. So a tensor that requires one raises an error, except under
    ``torch.no_grad()`` and ``torch.inference_mode()``. A tensor without dense memory of its own
    raises one as well: a meta, fake or sparse tensor, or one inside ``torch.vmap`` or
    ``torch.func.grad``. ``torch.compiler.disable(f)`` keeps ``torch.compile`` from tracing it.

    If a ``parallel`` loop runs inside of another loop, all threads start once, as a team. A thread
    has the same share of the iterations each time, and goes through them backward every second
    time, so that its data stay in its caches. A thread that is done takes iterations of the
    others. So a loop waits only for a thread that is in the middle of an iteration. Threads wait
    for the next loop for a millisecond at most, and then let other programs run while they wait.
    The source says nothing of teams, and a file of :meth:`save` leaves its loops to numba.
    """

    def __init__(self, built: Built, schedule: Schedule, nest: Nest) -> None:
        # the machine nest is made when it is needed
        calls = any(
            isinstance(stmt, Extern) or getattr(stmt, "instruction", None) is not None
            for stmt in running(nest.body)
        )
        has_table = calls and bool(built.machine.invoked)
        behind = ("int64",) * has_table
        super().__init__(built, built.target.facts, behind=behind, compiler=built.compiler)
        self._built = built
        self._externs: ExternTable | None = None
        if has_table:
            self._externs = self._table(built.target.facts.interpreted)
            self._externs.prepare()
        self.schedule = schedule
        self._nest = nest
        self._binder = Binder(built.signature)
        sizes = any(p.is_size for p in built.signature.parameters)
        bounded = built.signature.least or built.signature.most
        checked = sizes and (built.checked_by_size or sized_storage(nest).conditions or bounded)
        self._fast_call: Bind | SizedCalls | None = fast_call(built.signature, bool(checked))
        if self._fast_call is None and self._binder.symbolic:
            self._fast_call = SizedCalls(built.signature, self._binder.shape)
        self._checked_sizes: set[tuple[tuple[str, int], ...]] = set()

    @property
    def name(self) -> str:
        return self._built.public

    entry_name = name

    @property
    def target(self) -> Target:
        return self._built.target

    @property
    def signature(self) -> Signature:
        """The parameters in calling order, as data."""
        return self._built.signature

    def accepting_copies(self) -> CopyingKernel:
        """Return a kernel that copies strided arrays, which this one refuses.

        Such arrays are chunks of Dask, a ``DataFrame``, and ``x.T``. Outputs that are given are
        copied back. Arrays of another byte order are copied, too. A copy of 1 MiB or more warns
        with :class:`~schedlang.errors.CopyWarning`. Raises
        :class:`~schedlang.errors.CallError` for strided arrays of a GPU, and whatever this kernel
        raises.

        >>> import numpy as np, schedlang as sl
        >>> A = sl.placeholder((3, 2), name="A")
        >>> B = sl.compute((3, 2), lambda i, j: A[i, j] * 2, name="B")
        >>> f = sl.build(sl.schedule(B), target="python")
        >>> f.accepting_copies()(np.ones((2, 3), "float32").T)
        array([[2., 2.],
               [2., 2.],
               [2., 2.]], dtype=float32)
        """
        from schedlang.runtime.copies import CopyingKernel

        return CopyingKernel(self)

    @property
    def unproven(self) -> tuple[str, ...]:
        """A sentence for each rule of the verifier that could not be proven.

        Most kernels have none: they are proven to write each element of their outputs once, and to
        have no loop whose iterations race. :func:`~schedlang.build` warns with each sentence.

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> B = sl.compute((8,), lambda i: A[i] * 2, name="B")
        >>> sl.build(sl.schedule(B), target="python").unproven
        ()
        """
        return self._built.unproven

    @property
    def checked_by_size(self) -> bool:
        """True if each call checks accesses against its sizes, since not all of them are proven.

        >>> import schedlang as sl
        >>> A = sl.placeholder((sl.var("n"),), name="A")
        >>> last = sl.compute((1,), lambda i: A[A.shape[0] - 1], name="last")
        >>> sl.build(sl.schedule(last), target="python").checked_by_size  # n may be 0
        True
        """
        return self._built.checked_by_size

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if "_built" not in self.__dict__ or hasattr(type(self), name):
                # a property that raised: its own error says what is wrong
                return object.__getattribute__(self, name)
            kind, attributes = self.target.kind, dir(type(self))
            raise MissingNameError(no_attribute(self.name, kind, name, attributes))

    def _repr_html_(self) -> str:
        return kernel_html(
            repr(self)[1:-1],
            self.loop_nest,
            self.machine_nest,
            self.source,
            self.origins,
            self.target.facts.language == "C",
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return mime_bundle(self._repr_html_(), f"{self!r}\n\n{self.loop_nest}")

    def __repr__(self) -> str:
        return f"<Kernel {self.name}({self._binder.listing}) for {self.target.kind}>"

    def _function(self) -> Any:
        is_new = self._loaded is None
        function = super()._function()
        if is_new and self.target.facts.symbols and perf_map.is_wanted():
            self._compile()
            names = [function.name for function in self._built.machine.functions]
            perf_map.add_to_map(self._runner.codes(function), names)
        return function

    @property
    def unchecked(self) -> Callable[..., None]:
        """The function that a call runs, without the checks of a call: for inner loops.

        It takes all parameters in order, outputs too, then ``signature.sizes`` as integers. Arrays
        are NumPy's, flat (``a.reshape(-1)``), C-contiguous, of the parameter's dtype, and start at
        a multiple of its ``alignment``. An array of float16 or bfloat16 is passed as its bits
        (``a.view("uint16")``), a scalar as float32. A complex array is passed as its parts
        (``a.view("float32")``).

        Nothing is checked, not even overlap and reads that depend on sizes: a wrong argument reads
        or writes other memory. It takes no lock: call a parallel kernel from one thread at a time,
        or use a thread-safe threading layer of numba. On the CPU compiled code of numba may call
        the function too, but cannot take it as an argument. On a GPU the arrays are in its memory,
        have a ``__cuda_array_interface__`` and start at a multiple of 16 bytes; ``stream=`` takes
        the number of a stream. In a forked process read this property again.

        >>> import numpy as np, schedlang as sl
        >>> A = sl.placeholder((2, 3), name="A")
        >>> f = sl.build(sl.schedule(sl.compute((2, 3), lambda i, j: A[i, j] * 2, name="B")))
        >>> a, b = np.ones((2, 3), "float32"), np.empty((2, 3), "float32")
        >>> f.unchecked(a.reshape(-1), b.reshape(-1))
        >>> b.tolist()
        [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
        """
        if self._externs is not None:
            return self._callable()
        function = self._runner.in_numba(self._function(), self._machine, self.signature)
        return cast("Callable[..., None]", function)

    def compile(self) -> Kernel:
        """Compile now for writable arrays, or load from the disk cache; return this kernel."""
        self._compile()
        return self

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        if self._fast_call is not None and not named:
            bound = self._fast_call(args)
            if bound is not None:
                (self._start or self._starter())(*bound[0])
                return bound[1]
        checked = self._checked(args, named)
        if isinstance(self._fast_call, SizedCalls) and not named:
            self._fast_call.learn(args, checked.sizes)
        self._launch(checked.arrays, checked.sizes)
        return checked.returned

    def bound(self, *args: Any) -> tuple[Callable[..., None], list[Any]]:
        """Return the function that a call runs and what it is called with, after all checks.

        Give the arguments of a call, outputs included. The function is :attr:`unchecked`, with the
        lock of a parallel kernel. You may call it again for as long as the arrays live, and as long
        as elements of which ``sl.assume`` declares facts stay the same: it does not check them
        again. Raises what a call raises for arguments that do not fit.

        >>> import numpy as np, schedlang as sl
        >>> A = sl.placeholder((3,), name="A")
        >>> B = sl.compute((3,), lambda i: A[i] * 2, name="B")
        >>> a, b = np.ones(3, "float32"), np.empty(3, "float32")
        >>> run, given = sl.build(sl.schedule(B), target="python").bound(a, b)
        >>> run(*given)
        >>> b.tolist()
        [2.0, 2.0, 2.0]
        """
        arrays, sizes, *_ = self._checked(args, {})
        return self._callable(), self._flat(arrays, sizes)

    def _checked(self, args: Sequence[Any], named: Mapping[str, Any]) -> Checked:
        """Return what a call is given, after all checks."""
        return checked_arguments(
            self._binder, args, named, self._view, self._fresh, self._elements, self.check_sizes
        )

    def _elements(self, value: Any) -> Any:
        """Return an argument whose elements the checks of facts can read."""
        return value

    def _view(self, value: Any, what: str, written: bool) -> np.ndarray:
        """Return a NumPy array over the memory of another library's array, for the checks."""
        return as_numpy(value, what, written)

    def _fresh(self, first: Any, shape: tuple[int, ...], dtype: str) -> Any:
        """Return a new output in the library of ``first``."""
        return empty_like_library(first, shape, dtype)

    def shape_of(self, parameter: Parameter, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of a parameter where the symbolic sizes are ``sizes``."""
        return self._binder.shape(parameter, sizes)

    def check_sizes(self, sizes: dict[str, int]) -> None:
        """Check storage and unproven accesses for given sizes, once for each combination."""
        # a call finds sizes in the order of its arguments, which may be given in several ways
        key = tuple(sorted(sizes.items()))
        if key in self._checked_sizes:
            return
        what = f"kernel {self.name}"
        own_sizes = {name: sizes[name] for name in self.signature.given_sizes}
        refuse(what, sized_storage(self._nest).conditions, own_sizes)
        if self.checked_by_size:
            check_accesses(what, self._nest, self._conditions or (), own_sizes)
        self._checked_sizes.add(key)

    @cached_property
    def _conditions(self) -> tuple[SizeCondition, ...] | None:
        """The sizes that the file of this kernel refuses, ``None`` if it cannot hold them all."""
        return refused_sizes(self._nest, self.schedule.outputs)

    def _launch(self, arrays: Sequence[Any], sizes: Mapping[str, int]) -> None:
        (self._start or self._starter())(*self._flat(arrays, sizes))

    def _flat(self, arrays: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
        """Return the arguments of the function that runs: flat arrays, scalars, then sizes."""
        return flat_arguments(self._built.signature, arrays, sizes)

    def _starting(self, function: Callable[..., None], path: Path) -> Callable[..., None]:
        own = function if self._externs is None else self._externs.with_table(function)
        return super()._starting(own, path)

    def _counted_call(self, args: Sequence[Any], named: Mapping[str, Any]) -> Call:
        values, sizes, *_ = self._checked(args, named)
        flat = self._flat(with_new_outputs(values, self.signature), sizes)
        call = Call(self.name, self._nest, self.machine_nest, flat, sizes)
        if self._externs is None:
            return call
        # the nest that counts is compiled on every target
        return replace(call, started=self._table(interpreted=False).with_table)

    def _table(self, interpreted: bool) -> ExternTable:
        """Return the functions of users that the kernel calls, its last parameter."""
        machine = self._built.machine
        at = len(machine.entry.parameters) - 1
        return ExternTable(called_in(machine), f"kernel {self.name}", at, interpreted)

    def profile(
        self, *args: Any, repeat: int = 5, levels: int = 3, share: float = 0.05, **named: Any
    ) -> Profile:
        """Return the time of each stage and of the outer loops in a call with these arguments.

        Give the arguments of a call. The kernel runs at least ``repeat`` times unchanged, and as
        often with time stamps around its loops, which needs another compilation. Stamps stand
        around the outermost loop of each stage, and around up to ``levels`` loops in each other.
        They take at most about ``share`` of the time, and their time is subtracted; loops that
        begin too often for that are left out. In a parallel loop each thread has its own times, and
        the times of the slowest thread count. ``print`` shows a table, a notebook also a flame
        chart.

        The kernel runs several times, so an output that is also an input changes with each. On a
        GPU there is a time for each kernel, by events of the GPU, which waits until the host has
        launched the whole call; ``levels`` and ``share`` have no meaning.

        Raises :class:`~schedlang.errors.CallError` for ``repeat`` or ``levels`` below 1 and for a
        ``share`` outside of 0 to 1, and :class:`~schedlang.errors.BuildError` for
        ``target="cuda-emulator"``.

        >>> import numpy as np, schedlang as sl
        >>> A = sl.placeholder((64,), name="A")
        >>> B = sl.compute((64,), lambda i: A[i] * 2, name="B")
        >>> C = sl.compute((64,), lambda i: B[i] + B[63 - i], name="C")
        >>> profile = sl.build(sl.schedule(C), target="python").profile(np.ones(64, "float32"))
        >>> [(part.stage, part.name, part.times) for part in profile.parts], profile["B"] > 0
        ([('B', 'i', 1), ('C', 'i', 1)], True)
        """
        from schedlang.runtime.cpu_profile import check_options, cpu_profile

        check_options(repeat, levels, share)
        arrays, sizes, *_ = self._checked(args, named)
        return cpu_profile(self._subject(self._flat(arrays, sizes)), repeat, levels, share)

    def _subject(self, flat: list[Any]) -> Subject:
        """Return what a profile needs of this kernel."""
        from schedlang.runtime.cpu_profile import Subject

        start = self._callable()
        return Subject(
            self.name,
            self.target,
            self._nest,
            self._machine(),
            start,
            self._start_of,
            flat,
            self._threads()(),
        )

    def _start_of(self, nest: MachineNest) -> Callable[..., None]:
        """Return the function of another machine nest, compiled like the kernel."""
        function, path = self._runner.function_of_nest(nest, nest.entry.name, self._built.fastmath)
        own = self._starting if nest.invoked else super()._starting
        return own(function, path)

    def compiled_by(self, compiler: str) -> Kernel:
        """Return this kernel as a ``compiler`` of its target makes it, an argument of ``build``.

        Raises :class:`~schedlang.errors.BuildError` for a compiler that the target lacks.

        >>> import schedlang as sl
        >>> f = sl.build(sl.schedule(sl.compute((4,), lambda i: i + 1, name="B")))
        >>> f.compiled_by("numba").source == f.source
        True
        """
        self.target.facts.compiler_named(compiler)
        make, (_, *others) = self.__reduce__()
        known = self._built
        built = replace(
            known,
            compiler=compiler,
            making=lambda: known.machine,
            printing=lambda machine: known.printed,
        )
        return cast(Kernel, make(built, *others))

    def save(self, path: str | Path) -> Path:
        """Write a file that runs without schedlang, and return its path; its ending says what.

        A ``.py`` file has the intrinsics that it uses; it needs only NumPy and numba, or
        numba-cuda. For the CPU it has one public function, named after the output. For a GPU its
        function ``launch`` takes flat arrays of the GPU, then the sizes, and checks nothing: arrays
        must start at a multiple of 16 bytes, like new arrays. Like a call, the file refuses sizes
        at which a read would be out of bounds.

        ``.c`` is C source that needs only C's library, with its header ``.h`` beside it, which
        states the command that builds it. The system's C compiler makes ``.o``, ``.a`` and ``.so``
        of it, as for ``target="c"``. ``k.c`` has a function ``k``, which takes pointers and sizes
        and returns 0 or a code; ``k_checked``, for tensors of DLPack; ``k_error``, which says a
        code in words; and, if it needs memory or threads, ``k_with``, which asks a host for them.
        :func:`~schedlang.load_module` loads a ``.so``.

        Raises :class:`~schedlang.errors.BuildError` for a path with another ending, for a ``.py``
        file of ``target="python"`` or ``"c"``, for a C program of a GPU's kernel, for one that
        needs more shared memory than a launch by numba may have, and for one that checks its reads
        against the sizes of each call, if the file cannot do that: it can for indices that are
        linear in loops, clamped, or read from tensors. Raises
        :class:`~schedlang.errors.CallTypeError` for what is neither text nor a path.

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> B = sl.compute((8,), lambda i: A[7 - i] * 2, name="B")
        >>> folder = getfixture("tmp_path")
        >>> path = sl.build(sl.schedule(B), target="python").save(folder / "twice.c")
        >>> print(path.read_text()[path.read_text().index("int twice("):].partition("\\n}")[0])
        int twice(const float *__restrict A, float *__restrict B) {
            run_B_kernel((float *)A, B);
            return 0;
        """
        target = path_of(path, "save")
        if self.checked_by_size and self._conditions is None:
            raise BuildError(
                explain(
                    f"save: kernel {self.name}",
                    "it checks its reads against the sizes of each call, and a file cannot hold a "
                    "condition that says which sizes are right",
                    "Use constant sizes, indices that are linear in loops, or guard the reads with "
                    "sl.if_then_else.",
                )
            )
        if target.suffix in C_SUFFIXES:
            # most kernels are not saved
            from schedlang.runtime.c_saving import save_program

            own = self._conditions or () if self.checked_by_size else ()
            return save_program(self, target, (*sized_storage(self._nest).conditions, *own))
        if why := unsaved(self.machine_nest.called):
            raise BuildError(
                explain(
                    f"save({str(path)!r}): kernel {self.name}",
                    why,
                    HOW_TO_SAVE,
                )
            )
        if target.suffix != ".py":
            raise BuildError(
                f"save({str(path)!r}): a kernel is saved as Python or as a C program; give a name "
                f"ending in .py, {', '.join(C_SUFFIXES[:-1])} or {C_SUFFIXES[-1]}"
            )
        text = self._standalone()
        target.write_text(text, encoding="utf-8")
        return target

    def _standalone(self) -> str:
        """Return the source of a file that runs without schedlang."""
        if not self.target.facts.saved:
            raise BuildError(
                f'save: this kernel is for target="{self.target.kind}"; build it for target="cpu" '
                "first"
            )
        return bundle(self._built.text)

    def __reduce__(self) -> Any:
        return Kernel, (self._built, self.schedule, self._nest)
