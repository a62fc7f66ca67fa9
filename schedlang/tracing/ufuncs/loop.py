"""A loop of a ufunc: its operands for some dtypes, and its code at each level."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from schedlang.compute.tensor import Tensor
from schedlang.errors import BuildError, explain
from schedlang.expr.dtypes import array_dtype
from schedlang.machine.nest import MachineNest
from schedlang.runtime import files, thread_safety
from schedlang.tracing.ufuncs.signature import CoreDimensions

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop of a ufunc, of :attr:`types` such as ``"dd->d"`` in NumPy's letters.

    ``inputs`` and ``outputs`` are its computation. ``machine_nest`` is what runs, ``source`` the
    same as Python, and ``llvm`` and ``asm`` are the code that LLVM makes of it. ``path`` is the
    file of the source. It is compiled at the first call that needs it; ``is_compiled`` says
    whether this has happened.
    """

    name: str
    inputs: Tensors
    outputs: Tensors
    dimensions: CoreDimensions | None = None
    fastmath: bool = False
    forks: bool = True
    _address: list[int] = field(default_factory=list, repr=False)
    _lock: Any = field(default_factory=RLock, repr=False)

    @property
    def types(self) -> str:
        """The dtypes in NumPy's letters, as in ``np.add.types``."""
        sides = ((np.dtype(array_dtype(t.dtype)).char for t in side)
                 for side in (self.inputs, self.outputs))  # fmt: skip
        return "->".join(map("".join, sides))

    @property
    def numbers(self) -> bytes:
        """NumPy's numbers of the dtypes."""
        return bytes(np.dtype(array_dtype(t.dtype)).num for t in (*self.inputs, *self.outputs))

    @cached_property
    def _form(self) -> tuple[MachineNest, Any]:
        if self.dimensions is None:
            from schedlang.tracing.ufuncs.elements import elements_nest

            return elements_nest(self.name, self.inputs, self.outputs, self.fastmath, self.forks)
        from schedlang.tracing.ufuncs.cores import cores_nest

        return cores_nest(
            self.name, self.inputs, self.outputs, self.dimensions, self.fastmath, self.forks
        )

    @property
    def machine_nest(self) -> MachineNest:
        """The functions that run."""
        return self._form[0]

    @cached_property
    def source(self) -> str:
        """The functions that run, as Python."""
        from schedlang.codegen.numba_cpu import source_of
        from schedlang.codegen.numba_file import render_functions

        head = f"{self.name}: the loop {self.types} of a ufunc"
        source = source_of(self.machine_nest, self.name)
        return render_functions(source, head, self.fastmath, compiled=True).text

    @cached_property
    def path(self) -> Path:
        """The file of the source, in the cache folder."""
        return files.write(self.source, f"{self.name}_loop")

    @property
    def llvm(self) -> str:
        """LLVM's code of the functions, before its passes and after them."""
        return str(self._code.llvm)

    @property
    def asm(self) -> str:
        """The assembly of the functions."""
        return str(self._code.asm)

    @cached_property
    def _code(self) -> Any:
        from schedlang.runtime.llvm.printed import code_of

        return code_of(self._subject(None), self.source)

    @property
    def is_compiled(self) -> bool:
        return bool(self._address)

    def address(self) -> int:
        """Return the address of the loop; compile it if this process did not yet."""
        with self._lock:
            if not self._address:
                from schedlang.runtime.collection import no_collection
                from schedlang.runtime.llvm.compiled import compiled
                from schedlang.runtime.llvm.unprintable import Unprintable

                form = self._form[1]
                if thread_safety.left_behind():
                    # numba's threads cannot start here
                    form = replace(form, forks=False)
                try:
                    with no_collection():
                        self._address.append(compiled(self._subject(form)).address)
                except Unprintable as error:
                    raise BuildError(
                        explain(
                            f"the ufunc {self.name} for {self.types}",
                            str(error),
                            "Leave out these dtypes, by dtypes=.",
                        )
                    ) from error
            return self._address[0]

    def _subject(self, form: Any) -> Any:
        from schedlang.runtime.llvm.library import Subject

        nest, threads = self.machine_nest, form is not None and form.forks
        return Subject(
            self.name, nest.entry.name, self.path, self.fastmath, threads, lambda: nest, form
        )

    def __reduce__(self) -> Any:
        return Loop, (
            self.name, self.inputs, self.outputs, self.dimensions, self.fastmath, self.forks,
        )  # fmt: skip
