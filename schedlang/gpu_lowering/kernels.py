"""Division of a nest into kernels and the host's part: launches, repetitions, storage."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.errors import BuildError, explain, subscript
from schedlang.expr.visit import postorder
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Block, Buffer, For, If, Load, Note, Stmt, Store, walk
from schedlang.ir.rewrite import without_blocks

BOUND = ("thread", "vthread")


def host_statements(block: Block) -> Iterator[Stmt]:
    """Yield the statements of a host block and of the blocks in it."""
    return (stmt for stmt in without_blocks(block) if not isinstance(stmt, Note))


def is_region(stmt: Stmt) -> bool:
    """Return whether ``stmt`` is a loop bound to threads."""
    return isinstance(stmt, For) and stmt.kind in BOUND


def has_threads(stmt: Stmt) -> bool:
    """Return whether loops inside ``stmt`` are bound to threads."""
    return any(isinstance(s, For) and s.kind in BOUND for s, _ in walk(stmt))


def check_host(nest: Nest, block: Block) -> None:
    """Raise on a statement outside all kernels that the host cannot run."""
    for stmt in host_statements(block):
        if isinstance(stmt, Alloc):
            _check_storage(nest, stmt.buffer)
        elif isinstance(stmt, For):
            if stmt.kind == "parallel":
                raise BuildError(
                    explain(
                        f"building {nest.name} for a GPU",
                        f"{stmt.axis.name} of stage {stmt.stage} is parallel, and parallel is for "
                        "the threads of a CPU",
                        f"Bind the loop instead: {subscript(stmt.stage)}.bind(axis, "
                        '"blockIdx.x"), or build with target="cpu".',
                    )
                )
            if not is_region(stmt):
                _unbound(nest, stmt)
                check_host(nest, stmt.body)
        elif isinstance(stmt, If):
            _unbound(nest, stmt)
            if any(isinstance(n, Load) for n in postorder([stmt.cond])):
                raise BuildError(
                    explain(
                        f"building {nest.name} for a GPU",
                        "a condition on data encloses its kernels, and the host that launches them "
                        "cannot read device memory",
                        "Bind a loop outside the condition.",
                    )
                )
            check_host(nest, stmt.body)
        elif isinstance(stmt, Store):
            _unbound(nest, stmt)


def _check_storage(nest: Nest, buffer: Buffer) -> None:
    if buffer.scope != "global":
        raise BuildError(
            explain(
                f"building {nest.name} for a GPU",
                f"{buffer.name} is {buffer.scope} storage allocated outside every kernel, and "
                f"{buffer.scope} storage exists only within a kernel",
                "Compute the stage at a loop of its consumer that is bound to blockIdx, or inside "
                "such a loop, or leave its scope global.",
            )
        )


def _unbound(nest: Nest, stmt: Stmt) -> None:
    if has_threads(stmt):
        return
    inside = [s for s, _ in walk(stmt)]
    store = next((s for s in inside if isinstance(s, Store)), None)
    if store is None:
        return
    stage = store.stage
    loops = [s for s, _ in walk(nest.body) if isinstance(s, For) and s.stage == stage]
    data = list(dict.fromkeys(s.axis.name for s in loops if not s.axis.is_reduce))
    listed = f" ({', '.join(data)})" if data else ""
    raise BuildError(
        explain(
            f"building {nest.name} for a GPU",
            f"stage {stage} is at root, where each stage is a kernel of its own, but none of "
            f"its data axes{listed} is bound to blocks or threads",
            f"{_binding(subscript(stage), data, store.buffers[0])}\n"
            "Or compute the stage inside another one: compute_at, compute_inline.",
        )
    )


def _binding(view: str, loops: list[str], buffer: Buffer) -> str:
    """Return the steps that bind a stage to threads, given the names of its loops over data."""
    if loops:
        return (
            "Bind one, as in\n"
            f"    outer, inner = {view}.split({loops[0].replace('.', '_')}, factor=64)\n"
            f'    {view}.bind(outer, "blockIdx.x")\n'
            f'    {view}.bind(inner, "threadIdx.x")'
        )
    # an axis of one iteration has no loop, and a tensor without dimensions no axis
    axis = "op.axis[0]" if buffer.shape else "fuse()"
    return f'Bind one, as in\n    {view}.bind({view}.{axis}, "blockIdx.x")'
