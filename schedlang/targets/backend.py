"""The interface of a target's folder: what it takes, what it refuses, and the kernel it makes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Generic, Optional, TypeVar

from schedlang.codegen.refused_sizes import Refusals
from schedlang.errors import BuildError, docs_page, explain
from schedlang.ir.nest import Nest
from schedlang.machine.nest import MachineNest
from schedlang.runtime.kernel import Kernel
from schedlang.runtime.parameters import Signature
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target
from schedlang.target_kinds import Facts


@dataclass(frozen=True)
class Options:
    """The options of :func:`~schedlang.build` for how a kernel is compiled."""

    fastmath: bool = False
    barriers: bool = True
    lineinfo: bool = False
    compiler: str = ""


@dataclass(frozen=True)
class Lowered:
    """A nest as a target runs it: as ``loops`` on a CPU."""

    loops: Nest


L = TypeVar("L", bound=Lowered)


@dataclass(frozen=True)
class Request(Generic[L]):
    """A scheduled nest that was verified, and what its kernel needs to know.

    ``public`` is the name of the kernel's function, and ``steps`` the schedule as Python.
    ``checked_by_size`` and ``unproven`` are the kernel's, ``refused`` the sizes that its file
    refuses, and ``in_c`` makes its nest for a C program.
    """

    schedule: Schedule
    nest: Nest
    lowered: L
    target: Target
    public: str
    options: Options
    signature: Signature
    steps: str
    checked_by_size: bool = False
    unproven: tuple[str, ...] = ()
    refused: tuple[Refusals, ...] = ()
    in_c: Optional[Callable[[], MachineNest]] = None


@dataclass(frozen=True)
class Backend(ABC, Generic[L]):
    """The builder of kernels for one kind of target, whose ``facts`` say what the kind is.

    Two objects of a class without fields are equal. A target with options is a frozen dataclass,
    whose fields they are.
    """

    facts: ClassVar[Facts]
    takes_barriers: ClassVar[bool] = False
    takes_lineinfo: ClassVar[bool] = False

    def check_options(self, target: Target, options: Options) -> None:
        """Raise :class:`~schedlang.errors.BuildError` for an option that means nothing here."""
        if options.lineinfo and not self.takes_lineinfo:
            raise BuildError(
                explain(
                    f'lineinfo={options.lineinfo!r} for target="{target.kind}"',
                    "this option is for the machine code of GPU kernels",
                    "Leave it out: .llvm and .asm of a CPU kernel show the lines without it, and "
                    f"{docs_page('Finding what is slow')} says how profilers and debuggers see "
                    "them.",
                )
            )
        self.facts.compiler_named(options.compiler)
        if options.barriers is not True and not self.takes_barriers:
            raise BuildError(
                explain(
                    f"sl.build(..., target={target.kind!r}, barriers={options.barriers!r})",
                    "only the emulator runs a kernel without its barriers, to show its races",
                    'Leave out barriers=, or build for target="cuda-emulator".',
                )
            )

    def refusal(self, nest: Nest) -> str:
        """Return what the target has no form of, as a message, or an empty text."""
        return ""

    @abstractmethod
    def lowered(self, nest: Nest, target: Target, options: Options) -> L:
        """Return the nest as the target runs it; its loops are verified, too."""

    def warnings(
        self, nest: Nest, lowered: L, target: Target
    ) -> Iterator[tuple[str, type[Warning]]]:
        """Yield what a user should know of the nest's speed on this target."""
        yield from ()

    @abstractmethod
    def kernel(self, request: Request[L]) -> Kernel:
        """Return the kernel, which is not compiled yet, and whose source is not written."""
