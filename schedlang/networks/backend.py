"""How the module of a network runs: the interface that :class:`NetworkModule` asks.

The facts of a target name the class. One table refuses what some backends lack.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakMethod

import numpy as np

from schedlang.errors import BuildError, MissingNameError, SchedlangError, explain
from schedlang.markup.progress import Setting
from schedlang.networks.size_checks import SizeChecks
from schedlang.runtime.arrays import empty_like_library
from schedlang.runtime.checked import Checked, checked_arguments
from schedlang.runtime.parameters import Binder

if TYPE_CHECKING:
    from schedlang.machine.nest import MachineNest
    from schedlang.networks.data import ModuleData
    from schedlang.runtime.on_host import OnHost

_NO_GPU = 'only modules for GPUs have it, and this one is built for target="{kind}"'
# what some backends lack: the error, why, and what to do instead
LACKING: Mapping[str, tuple[type[SchedlangError], str, str]] = {
    "bound": (
        BuildError,
        "what a call launches depends on the GPU and the stream of its arrays",
        "Call the module, with its outputs: module(x, out).",
    ),
    "stamped": (
        BuildError,
        "a GPU has no clock that its kernels share",
        "Use timed(repeat, *args), which measures by events of the GPU.",
    ),
    "cuda_graph": (
        BuildError,
        "it is built for target={kind!r}",
        'Build it for target="cuda", without SCHEDLANG_CUDA=emulator in the environment.',
    ),
    "machine_code": (
        MissingNameError,
        _NO_GPU,
        'Build it for target="cuda": .ptx, .sass and .resources of its module need no GPU.',
    ),
    "simulate": (
        MissingNameError,
        _NO_GPU,
        'Build it for target="python": its source runs uncompiled.',
    ),
    "standalone": (MissingNameError, _NO_GPU, "Save the network: net.save(folder)."),
}


class ModuleBackend(ABC):
    """A way to run a module, with the module's data and its packed parameters.

    Besides the methods here a class may have the methods of :class:`NetworkModule` that
    :data:`LACKING` names.

    The fast path of a call: ``fast_call`` maps arguments to the arguments of ``_start``, and to the
    call's result. It returns ``None`` for arguments that :meth:`run` takes, and is ``None`` itself
    if :meth:`run` takes all. ``_start`` is ``None`` if :meth:`_starter` returns it.
    """

    fast_call: Callable[[Sequence[Any]], tuple[Sequence[Any], Any] | None] | None = None
    _start: Callable[..., None] | None = None
    _starter: Callable[[], Callable[..., None]]

    def __init__(
        self,
        data: ModuleData,
        params: np.ndarray,
        whole: Callable[[], ModuleData] | None,
        compiler: str,
        progress: Setting,
    ) -> None:
        self.data, self.params, self.compiler, self.progress = data, params, compiler, progress
        self.what = f"network {data.public}"
        self._whole = None if whole is None else WeakMethod(whole)
        self.binder = Binder(data.signature, "network")
        self._check_sizes = SizeChecks(data.public, data.checks)

    @classmethod
    def code(cls, data: ModuleData, compiler: str) -> OnHost | None:
        """Return the function of a module that may be compiled before its parameters are packed.

        ``data`` have the machine nest.
        """
        return None

    @abstractmethod
    def file(self) -> Path:
        """Return the path of the file with the source, which is written."""

    @abstractmethod
    def compile(self) -> None:
        """Compile now, or load from the disk cache."""

    @abstractmethod
    def run(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Return the outputs of a call, after all checks of its arguments."""

    @abstractmethod
    def timed(self, repeat: int, *args: Any) -> tuple[list[float], int, dict[str, int]]:
        """Return the seconds of each call of a kernel, the number of runs, and the sizes."""

    @abstractmethod
    def release_memory(self) -> None:
        """Free the memory that no running call uses."""

    def checked(
        self,
        args: Sequence[Any],
        named: Mapping[str, Any],
        view: Callable[[Any, str, bool], Any] | None = None,
        fresh: Callable[[Any, tuple[int, ...], str], Any] = empty_like_library,
        elements: Callable[[Any], Any] = lambda array: array,
    ) -> Checked:
        """Return what a call is given, as :func:`~schedlang.runtime.checked.checked_arguments`.

        By default the arrays are in the memory of the host.
        """
        if view is None:
            # a process whose calls take the fast path imports no tensors
            from schedlang.compute.arrays import as_numpy

            view = as_numpy
        return checked_arguments(self.binder, args, named, view, fresh, elements, self._check_sizes)

    @property
    def machine_nest(self) -> MachineNest:
        """The linked machine nest; the network makes it if this process did not link it."""
        if self.data.machine is None:
            self.data = self._linked()
        return cast("MachineNest", self.data.machine)

    def _linked(self) -> ModuleData:
        """Return the data with the machine nest, which the network makes."""
        whole = None if self._whole is None else self._whole()
        asked = f"machine_nest of {self.what}"
        if whole is None:
            raise BuildError(
                explain(
                    asked,
                    "it was loaded from its source, which is all that running needs",
                    "Keep its network, net = sl.network(...) or net = sl.load(...): "
                    "net.module.machine_nest makes it. Or read .source.",
                )
            )
        linked = whole()
        if linked != self.data:
            raise BuildError(
                explain(
                    asked,
                    "the network has other schedules by now",
                    "Take net.module.machine_nest: net.module is the module that runs now.",
                )
            )
        return linked

    def having(self, name: str) -> Any:
        """Return the method ``name`` of :data:`LACKING`, or raise an error if it is missing."""
        if hasattr(type(self), name):
            return getattr(self, name)
        error, why, fix = LACKING[name]
        why = why.format(kind=self.data.target.kind)
        raise error(explain(f"{name} of {self.what}", why, fix))
