"""Check of a kernel against the limits of the device, before anything is compiled."""

from __future__ import annotations

from schedlang.errors import BuildError, explain
from schedlang.gpu_lowering.program import Launch
from schedlang.ir.rewrite import storage
from schedlang.markup.sizes import bytes_text
from schedlang.target import Target


def check_limits(launch: Launch, target: Target) -> None:
    """Raise :class:`~schedlang.errors.BuildError` if ``launch`` is too large for ``target``."""
    limits = target.device
    asked = f"building kernel {launch.name} for {limits.arch}"
    if launch.threads > limits.threads:
        sides = [str(i.extent) for i in launch.block]
        shape = f"{' x '.join(sides)} = {launch.threads}" if len(sides) > 1 else sides[0]
        raise BuildError(
            explain(
                asked,
                f"a block of {shape} threads is too large; {limits.arch} allows {limits.threads}",
                "Split the axes bound to threadIdx by smaller factors.",
            )
        )
    for index, most in zip(
        (*launch.block, *launch.grid),
        (
            *(limits.block[i.letter] for i in launch.block),
            *(limits.grid[i.letter] for i in launch.grid),
        ),
    ):
        if isinstance(index.extent, int) and index.extent > most:
            raise BuildError(
                explain(
                    asked,
                    f"{index.tag} has extent {index.extent}; {limits.arch} allows {most}",
                    "Bind the longest axis to blockIdx.x, or split and fuse it differently.",
                )
            )
    for buffer in storage(launch.body):
        if buffer.scope == "local" and (buffer.bytes or 0) > limits.local:
            raise BuildError(
                explain(
                    asked,
                    f"{buffer.name} is local, {'x'.join(map(str, buffer.shape))} {buffer.dtype}, "
                    f"{buffer.bytes:,} B per thread; {limits.arch} allows {limits.local:,} B",
                    "Attach the stage at a loop further in, or distribute it over more threads.",
                )
            )
    if launch.shared_bytes > limits.shared_opt_in:
        buffers = ", ".join(
            f"{b.name} is {'x'.join(map(str, b.shape))} {b.dtype}, {bytes_text(b.bytes)}"
            for b in launch.shared
        )
        raise BuildError(
            explain(
                asked,
                f"it needs {launch.shared_bytes:,} B of shared memory; {limits.arch} allows "
                f"{limits.shared_static:,} B static, {limits.shared_opt_in:,} B opt-in; {buffers}",
                "Make the tiles smaller, or attach the stages at loops further in.",
            )
        )
