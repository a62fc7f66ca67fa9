"""The state of a schedule: its stages, in order, each an immutable record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Optional, Union

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.instructions.declaration import Instruction
from schedlang.instructions.fragments import FRAGMENT
from schedlang.state.dependences import (
    Attachments,
    Dependences,
    attachments_of,
    dependences_of,
    update_attachments,
)
from schedlang.state.layout import ArrayLayout, Layout
from schedlang.state.persistent_map import PersistentMap
from schedlang.state.relations import Relation, Split, parts, position, sources

SCOPES = ("global", "shared", "local", FRAGMENT)
# scopes whose storage no two warps share
PRIVATE = ("local", FRAGMENT)
# te's names of fragments
FRAGMENTS = ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator")
# the pragma for stores that bypass the cache
NONTEMPORAL = "nontemporal"
# the kind of loops that an instruction replaces, with the loops in them
TENSORIZE = "tensorize"
# the pragma for loops that go backwards in every other run
SERPENTINE = "serpentine"
# the pragmas that change the code for CPUs
EFFECTIVE = (NONTEMPORAL, SERPENTINE)
# te's thread axis of a kernel of an FPGA; a loop bound to it has this pragma
PIPELINE = "pipeline"
# pragmas of te programs, which are accepted and have no effect
TE_PRAGMAS = (
    "auto_unroll_max_step", "auto_unroll_max_depth", "auto_unroll_max_extent", "unroll_explicit",
    "unroll_hint", "parallel_launch_point", "parallel_stride_pattern",
    "parallel_barrier_when_finish", "loop_partition_hint", "tensor_core", "unroll", "vectorize",
    PIPELINE,
)  # fmt: skip
# te's pragmas that bring functions for instructions into a kernel
IMPORTS = ("import_c", "import_llvm")
# pragmas of te that change what a program computes, which no target honours
REFUSED_PRAGMAS = ("debug_skip_region",)
THREADS = tuple(f"{kind}Idx.{dim}" for kind in ("block", "thread") for dim in "xyz")


def participle(kind: str) -> str:
    """Return the words for a loop of ``kind`` in messages, as "vectorized" or "bound to ..."."""
    participles = {
        "vectorize": "vectorized", "unroll": "unrolled", "parallel": "parallel",
        TENSORIZE: "tensorized",
    }  # fmt: skip
    return participles.get(kind, f"bound to {kind}")


@dataclass(frozen=True)
class Root:
    """The attachment of a stage that is computed whole, before its readers."""


@dataclass(frozen=True)
class Inline:
    """The attachment of a stage that is computed at each read."""


@dataclass(frozen=True, eq=False)
class At:
    """The attachment of a stage that is computed or stored inside loop ``axis`` of ``stage``."""

    stage: str
    axis: Axis


Attach = Union[Root, Inline, At]


@dataclass(frozen=True)
class Prefetch:
    """A prefetch of what ``offset`` iterations of ``axis`` later read; ``at`` is its loop."""

    tensor: Tensor
    axis: Axis
    offset: int
    at: Axis

    @property
    def loops(self) -> tuple[Axis, ...]:
        """``axis`` and, if it is another loop, ``at``."""
        return (self.axis,) if self.at is self.axis else (self.axis, self.at)


@dataclass(frozen=True, eq=False)
class Stage:
    """One operation with its schedule so far.

    ``op`` is the operation as cache stages and rfactor left it. ``outputs`` are the tensors that
    it defines, which never change. ``kinds`` maps a leaf axis to ``"vectorize"``, ``"unroll"``,
    ``"parallel"``, ``"vthread"``, ``"tensorize"`` or a thread name. ``instructions`` has those
    that tensorize axes. ``where_notes`` describe the conditions that
    rfactor put in front of the reduction's own ``where``.
    """

    name: str
    op: Union[ComputeOp, ScanOp, ExternOp]
    outputs: tuple[Tensor, ...]
    leaf: tuple[Axis, ...]
    relations: tuple[Relation, ...] = ()
    kinds: Mapping[Axis, str] = field(default_factory=dict)
    attach: Attach = Root()
    store: Union[At, Root, None] = None
    scope: str = ""
    align: Mapping[Axis, tuple[int, int]] = field(default_factory=dict)
    layout: Layout = ()
    double_buffer: bool = False
    # the copies of a pipeline, 0 without one
    pipeline: int = 0
    prefetches: tuple[Prefetch, ...] = ()
    pragmas: tuple[tuple[Axis, str, Any], ...] = ()
    predicate: Optional[Expr] = None
    where_notes: tuple[str, ...] = ()
    instructions: Mapping[Axis, Instruction] = field(default_factory=dict)

    @property
    def copies(self) -> int:
        """The copies of its storage, of which one is read while the others are filled."""
        return self.pipeline or (2 if self.double_buffer else 1)

    @property
    def is_scan(self) -> bool:
        return isinstance(self.op, ScanOp)

    @property
    def is_extern(self) -> bool:
        """True if a user's function computes it, with one call for each box."""
        return isinstance(self.op, ExternOp)

    @property
    def roots(self) -> tuple[Axis, ...]:
        """The axes of the operation; relations derive all other axes from them."""
        return self.op.loops

    @property
    def time(self) -> Axis:
        """The innermost loop over the time of a scan, inside of which each step is computed."""
        return next(a for a in reversed(self.leaf) if a.kind == "scan")

    @property
    def in_step(self) -> tuple[Axis, ...]:
        """The data axes of a scan inside of its time, which are loops of the stages of a step."""
        if not isinstance(self.op, ScanOp):
            return ()
        return self.leaf[position(self.leaf, self.time) + 1 :]

    @property
    def reduce_leaves(self) -> tuple[Axis, ...]:
        return tuple(a for a in self.leaf if a.is_reduce)

    @property
    def scattered_leaves(self) -> tuple[Axis, ...]:
        """The loops that initialize a scatter, and run around none of its updates."""
        if not isinstance(self.op, ComputeOp) or self.op.destination is None:
            return ()
        scattered = set(self.op.scattered)
        for relation in self.relations:
            if scattered & set(sources(relation)):
                scattered |= set(parts(relation))
        return tuple(a for a in self.leaf if a in scattered)

    def made_from(self, axis: Axis) -> Relation | None:
        """Return the relation that replaced ``axis``, or ``None``."""
        return next((r for r in self.relations if axis in set(sources(r))), None)

    def split_of(self, axis: Axis) -> Split | None:
        """Return the split that made ``axis`` its outer or inner axis, or ``None``."""
        for r in self.relations:
            if isinstance(r, Split) and (r.outer is axis or r.inner is axis):
                return r
        return None

    def with_(self, **changes: Any) -> Stage:
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class State:
    """All stages, producers before consumers, and the stage that defines each tensor.

    ``arrays`` has the layouts of arguments that differ from their tensors.
    ``known_attachments`` and ``known_dependences`` are those that a state before had, if they hold.
    """

    stages: Mapping[str, Stage]
    outputs: tuple[Tensor, ...]
    defined: Mapping[Tensor, str]
    arrays: Mapping[Tensor, ArrayLayout] = field(default_factory=dict)
    known_attachments: Attachments | None = None
    known_dependences: Dependences | None = None

    @cached_property
    def dependences(self) -> Dependences:
        """The dependences between the stages."""
        return self.known_dependences or dependences_of(self)

    @cached_property
    def attachments(self) -> Attachments:
        """For each stage, the stages computed or stored at its loops."""
        return self.known_attachments or attachments_of(self.stages.values())

    @cached_property
    def nests(self) -> dict[Any, Any]:
        """The loop nests that lowering made of this state, by what they depend on besides."""
        return {}

    def attached(self, stage: Stage) -> list[Stage]:
        """Return the stages computed or stored at loops of ``stage``."""
        return [self.stages[name] for name in self.attachments[stage.name]]

    def of(self, tensor: Tensor) -> Stage | None:
        """Return the stage that defines ``tensor``; ``None`` for an input."""
        name = self.defined.get(tensor)
        return None if name is None else self.stages[name]

    def extern_reader(self, stage: Stage) -> Stage | None:
        """Return a stage whose function reads an array of ``stage``, if there is one."""
        return next(self.extern_readers(stage), None)

    def extern_readers(self, stage: Stage) -> Iterator[Stage]:
        """Yield the stages whose functions read an array of ``stage``."""
        for reader in self.stages.values():
            if reader.is_extern and any(t in stage.outputs for t in reader.op.input_tensors):
                yield reader

    def is_output(self, stage: Stage) -> bool:
        return any(t in self.outputs for t in stage.outputs)

    def updated(self, *stages: Stage) -> State:
        """Return this state with each of ``stages`` in place of the stage of the same name."""
        attachments, same = self.attachments, True
        changed: dict[str, Stage] = {}
        for stage in stages:
            old = changed.get(stage.name) or self.stages[stage.name]
            attachments = update_attachments(attachments, old, stage)
            same = same and old.op is stage.op
            changed[stage.name] = stage
        current = (
            self.stages if isinstance(self.stages, PersistentMap) else PersistentMap(self.stages)
        )
        # all states with these operations share them, and what is found out from them
        dependences = self.dependences if same else None
        return State(
            current.replaced(changed),
            self.outputs,
            self.defined,
            self.arrays,
            attachments,
            dependences,
        )

    def with_array(self, tensor: Tensor, array: ArrayLayout) -> State:
        """Return this state, in which the array of argument ``tensor`` has the layout ``array``."""
        arrays = {**self.arrays, tensor: array}
        return State(
            self.stages, self.outputs, self.defined, arrays, self.attachments, self.dependences
        )

    def inserted(self, new: Stage, before: str) -> State:
        """Return this state with ``new`` inserted before stage ``before``."""
        merged: dict[str, Stage] = {}
        for name, stage in self.stages.items():
            if name == before:
                merged[new.name] = new
            merged[name] = stage
        defined = {**self.defined, **dict.fromkeys(new.outputs, new.name)}
        return State(merged, self.outputs, defined, self.arrays)

    def unique_name(self, base: str) -> str:
        name, count = base, 0
        while name in self.stages:
            count += 1
            name = f"{base}_{count}"
        return name


# what a primitive returns: the next state, and the value of the call
Result = tuple[State, Any]
