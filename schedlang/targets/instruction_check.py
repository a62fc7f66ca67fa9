"""The comparison of what an instruction emits with what it declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, nan
from random import Random
from typing import Any

import numpy as np

from schedlang.compute.define import compute
from schedlang.compute.math import abs as magnitude
from schedlang.compute.read import Read
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.reduce import sum as sum_over
from schedlang.compute.reference import reference
from schedlang.compute.tensor import Tensor, placeholder
from schedlang.errors import BuildError, InstructionError, explain, text_of
from schedlang.expr.dtypes import array_dtype, is_float, is_integer, itemsize
from schedlang.expr.nodes import Axis, Cast, Expr
from schedlang.expr.visit import rewrite
from schedlang.host import check_whole
from schedlang.instructions.declaration import MEMORY, Emission, Instruction, elements
from schedlang.instructions.fragments import FRAGMENT, ElementCopy
from schedlang.runtime.arrays import aligned_array
from schedlang.runtime.nvidia import driver
from schedlang.runtime.processor import missing_features, unknown_features, why_missing
from schedlang.schedule.schedule import Schedule, schedule
from schedlang.target import DEVICES, Target, first_lacking
from schedlang.target_kinds import KINDS
from schedlang.targets.build import build
from schedlang.targets.instruction_trials import COMPILERS, refusal

# tiles that a sum adds, so that it also begins with what is not 0
TILES = 3
# the largest error that another rounding may explain
ROUNDING = 1e-2


# the targets that a check can run, and the languages in which each takes an instruction
TARGETS = {
    kind: (facts.instructions,) if facts.binds_threads else (facts.instructions, MEMORY)
    for kind, facts in KINDS.items()
    if facts.instructions and not facts.emulates
}


@dataclass(frozen=True)
class Comparison:
    """The result of :meth:`Instruction.check`.

    ``ran`` is false where the processor lacks the instruction, or where there is no GPU.
    ``compared`` is the number of elements, ``error`` the largest error of a tile relative to the
    sum of its terms' magnitudes, ``nan`` if nothing ran, and ``assembly`` what the compiler writes
    for one tile, which for a GPU is PTX of the kernel that the check runs.
    """

    instruction: Instruction
    ran: bool
    compared: int
    error: float
    assembly: str
    target: str = "cpu"

    def __str__(self) -> str:
        if not self.ran:
            missing = missing_features(self.instruction.needs)
            why = f"it needs {why_missing(missing)}" if missing else "this machine has no GPU"
            return f"{self.instruction} compiles; {why}, so nothing ran"
        return (
            f"{self.instruction}: {self.compared} elements, the largest error is {self.error:.1e} "
            f"of {self.instruction.tolerance:.1e}"
        )


def check(declared: Instruction, samples: int, seed: int, target: str) -> Comparison:
    """Compare what is emitted with the declaration; see :meth:`Instruction.check`."""
    check_whole(f"{declared}.check", 0, samples=samples, seed=seed)
    kind, language = _form(declared, target)
    if isinstance(declared.emit[language], ElementCopy):
        own = "each thread copies the elements that it holds, so there is no instruction to compare"
        raise InstructionError(explain(f"{declared}.check()", own, "Check a kernel that uses it."))
    on_gpu = KINDS[kind].binds_threads
    if not on_gpu and unknown_features(declared.needs):
        lacking = f"it needs {why_missing(declared.needs)}"
        hint = "Give features of this kind of processor by LLVM's names, such as avx512vnni."
        raise InstructionError(explain(f"{declared}.check()", lacking, hint))
    if not on_gpu and (why := refusal(declared, language)):
        raise InstructionError(explain(f"{declared}.check()", *why))
    assembly = "" if on_gpu else COMPILERS[language].trial(declared).assembly
    if not on_gpu and missing_features(declared.needs):
        return Comparison(declared, False, 0, nan, assembly, kind)
    tiled, inputs = _tiled(declared, lambda read: read)
    terms, _ = _tiled(declared, _as_magnitude)
    kernel = _tensorized(declared, tiled, inputs, kind)
    if on_gpu:
        assembly = _ptx(declared, kernel)
        if not driver().is_available():
            return Comparison(declared, False, 0, nan, assembly, kind)
    oracle, sizes = reference(tiled), reference(terms)
    worst, compared = 0.0, 0
    tolerance = declared.tolerance * (TILES if declared.accumulates else 1)
    for arrays in _operands(declared, inputs, samples, Random(seed)):
        with np.errstate(all="ignore"):
            expected, result, size = oracle(*arrays), kernel(*arrays), sizes(*arrays)
            error = _errors(result, expected, size)
        compared += expected.size
        worst = max(worst, float(error.max()))
        if worst > tolerance:
            emission = declared.emit[language]
            raise InstructionError(_difference(declared, emission, arrays, result, expected, error))
    each = worst * declared.tolerance / tolerance if tolerance else worst
    return Comparison(declared, True, compared, each, assembly, kind)


def _ptx(declared: Instruction, kernel: Any) -> str:
    """Return the PTX of a kernel for a GPU; raise if it cannot be compiled."""
    try:
        return str(kernel.ptx)
    except BuildError as error:
        why = f"the compilers of NVIDIA cannot write {declared.emit['cuda']}"
        raise InstructionError(explain(f"{declared}.check()", why, f"They say:\n{error}")) from None


def _form(declared: Instruction, target: str) -> tuple[str, str]:
    """Return the target that a check builds for, and the language of the instruction there."""
    if target != "" and target not in [*TARGETS]:
        listed = ", ".join(map(repr, TARGETS))
        why = f"target={text_of(target)} has no instructions"
        raise InstructionError(explain(f"{declared}.check()", why, f"Give one of {listed}."))
    for kind in [target] if target else TARGETS:
        for language in TARGETS[kind]:
            if language in declared.emit:
                return kind, language
    kind = target or "cpu"
    why = f"it has no form for target={kind!r}"
    raise InstructionError(
        explain(f"{declared}.check()", why, f"Give emit={{{TARGETS[kind][0]!r}: ...}}.")
    )


def _tiled(
    declared: Instruction, change: Callable[[Expr], Expr]
) -> tuple[Tensor, Sequence[Tensor]]:
    """Return the declaration over several tiles, and its inputs.

    A sum adds the tiles, and other results have a row for each. ``change`` applies to each read.
    """
    op = declared.op
    apart = {t: _tiles_apart(declared, t) for t in declared.operands}
    inputs = {
        t: placeholder((TILES * apart[t], *t.shape), t.dtype, name=t.name)
        for t in declared.operands
    }
    steps: dict[Expr, Axis] = {a: reduce_axis(a.extent, name=a.name) for a in op.reduce_axis}

    def element(tile: Any, lanes: Sequence[Any]) -> Expr:
        swap: Mapping[Expr, Expr] = {**dict(zip(op.axis, lanes)), **steps}

        def moved(node: Expr) -> Expr | None:
            if isinstance(node, Axis):
                return swap.get(node)
            if isinstance(node, Read):
                step = apart[node.tensor]
                first = tile if step == 1 else tile * step
                return change(inputs[node.tensor].element((first, *node.indices)))
            return None

        return rewrite(op.body[0], moved)

    shape = tuple(map(int, declared.output.shape))
    if not declared.accumulates:
        count = TILES if _tiles_apart(declared, declared.output) == 1 else 1
        rows = compute((count, *shape), lambda tile, *lanes: element(tile, lanes), name=op.name)
        return rows, tuple(inputs.values())
    tile = reduce_axis(TILES, name="tile")
    total = compute(
        shape,
        lambda *lanes: sum_over(element(tile, lanes), axis=(tile, *steps.values())),
        name=op.name,
    )
    return total, tuple(inputs.values())


def _tiles_apart(declared: Instruction, tensor: Tensor) -> int:
    """Return after how many packed tiles one starts where the instruction needs it."""
    alignment = declared.alignment.get(tensor.name, 1)
    return alignment // gcd(alignment, elements(tensor) * itemsize(tensor.dtype))


def _as_magnitude(read: Expr) -> Expr:
    return Cast(magnitude(read), "float64") if is_float(read.dtype) else read


def _tensorized(declared: Instruction, tiled: Tensor, inputs: Sequence[Tensor], kind: str) -> Any:
    s = schedule(tiled)
    if declared.of_warp:
        return _by_a_warp(declared, tiled, inputs, kind, s)
    stage = s[tiled]
    lanes, steps = list(stage.op.axis), list(stage.op.reduce_axis)
    tile = steps.pop(0) if declared.accumulates else lanes.pop(0)
    stage.reorder(tile, *lanes, *steps)
    if KINDS[kind].binds_threads:
        thread = stage.fuse()
        stage.reorder(thread, tile, *lanes, *steps)
        stage.bind(thread, "threadIdx.x")
    looped = [axis for axis in (*lanes, *steps) if axis.extent != 1]
    stage.tensorize((looped or lanes)[0], declared)
    return build(s, [*inputs, tiled], target=_target(declared, kind))


def _by_a_warp(
    declared: Instruction, tiled: Tensor, inputs: Sequence[Tensor], kind: str, s: Schedule
) -> Any:
    """Return the kernel of an instruction on fragments, with one warp."""
    result = s.cache_write(tiled, FRAGMENT)
    assert isinstance(result, Tensor)
    if declared.loads_matrices:
        return _by_loads(declared, tiled, result, inputs, kind, s)
    fragments = [s.cache_read(given, FRAGMENT, [result]) for given in inputs]
    warp = s[tiled].fuse()
    s[tiled].reorder(warp, *tiled.op.axis)
    s[tiled].bind(warp, "threadIdx.y")
    s[result].compute_at(s[tiled], warp)
    tile, *steps = s[result].op.reduce_axis
    s[result].reorder(tile, *s[result].op.axis, *steps)
    for fragment in fragments:
        s[fragment].compute_at(s[result], tile)
    s[result].tensorize(s[result].op.axis[0], declared)
    return build(s, [*inputs, tiled], target=_target(declared, kind))


def _by_loads(
    declared: Instruction,
    tiled: Tensor,
    result: Tensor,
    inputs: Sequence[Tensor],
    kind: str,
    s: Schedule,
) -> Any:
    """Return the kernel of a load of matrices, with a warp of one block for each tile."""
    (shared,) = (s.cache_read(given, "shared", [result]) for given in inputs)
    tile = s[tiled].op.axis[0]
    s[tiled].bind(tile, "blockIdx.x")
    for stage in (s[shared], s[result]):
        stage.compute_at(s[tiled], tile)
    _, lane = s[shared].split(s[shared].fuse(*s[shared].op.axis), factor=32)
    s[shared].bind(lane, "threadIdx.x")
    s[result].tensorize(s[result].op.axis[1], declared)
    return build(s, [*inputs, tiled], target=_target(declared, kind))


def _target(declared: Instruction, kind: str) -> Target:
    """Return the target that a check builds for: of GPUs, one that has the instruction."""
    target = Target(kind)
    lacking = first_lacking(declared.needs, target.device) if target.arch else ""
    return Target(target, arch=lacking) if lacking in DEVICES else target


def _operands(
    declared: Instruction, inputs: Sequence[Tensor], samples: int, random: Random
) -> Iterator[list[Any]]:
    """Yield operands at the edges of their dtypes, then random ones."""
    draw = np.random.default_rng(random.randrange(2**32))
    for number in range(samples + 8):
        arrays = []
        for tensor in inputs:
            shape, dtype = tuple(map(int, tensor.shape)), array_dtype(tensor.dtype)
            edges = _edges(tensor.dtype)
            if number < 8:
                values = draw.choice(edges, shape)
            elif is_integer(tensor.dtype):
                low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
                values = draw.integers(low, high, shape, endpoint=True)
            else:
                values = draw.standard_normal(shape) * 2.0 ** draw.integers(-8, 8, shape)
            array = aligned_array(shape, dtype)
            array[...] = np.asarray(values).astype(dtype)
            arrays.append(array)
        yield arrays


def _edges(dtype: str) -> Any:
    """Return numbers at the edges of a dtype; floats are such that products and sums are finite."""
    if is_integer(dtype):
        limits = np.iinfo(array_dtype(dtype))
        return np.array([limits.min, limits.max, 0, 1, limits.min + 1, limits.max // 2], object)
    return np.array([0.0, -0.0, 1.0, -1.0, 2.0**-60, -(2.0**60), 1.5, 2.0**-14])


def _errors(result: Any, expected: Any, size: Any) -> Any:
    """Return the error of each element relative to the sum of the magnitudes of its terms."""
    if is_integer(str(result.dtype)):
        return (result != expected).astype("float64")
    wide, wanted = result.astype("float64"), expected.astype("float64")
    same = (wide == wanted) | (np.isnan(wide) & np.isnan(wanted))
    relative = np.abs(wide - wanted) / np.maximum(size.astype("float64"), 2.0**-126)
    # a NaN where there is a number is as far away as can be
    return np.where(same, 0.0, np.nan_to_num(relative, nan=np.inf, posinf=np.inf))


def _difference(
    declared: Instruction,
    emission: Emission,
    arrays: Sequence[Any],
    result: Any,
    expected: Any,
    error: Any,
) -> str:
    """Return the message for the element that differs most."""
    at = tuple(int(k) for k in np.unravel_index(int(error.argmax()), error.shape))
    lane = at[-1] if len(declared.op.axis) == 1 else at[-len(declared.op.axis) :]
    if not declared.accumulates:
        # a sum adds all tiles, and each other result is of one
        arrays = [a[at[0] * _tiles_apart(declared, t)] for t, a in zip(declared.operands, arrays)]
    operands = "\n".join(f"{t.name} = {a.tolist()}" for t, a in zip(declared.operands, arrays))
    hint = f"{emission} computes something else than {declared.output.name}"
    if (size := float(error[at])) <= ROUNDING:
        hint += f", or with another rounding: state it as tolerance= (the error here is {size:.1e})"
    return explain(
        f"{declared}.check()",
        f"lane {lane} is {result[at]}, and the declaration gives {expected[at]}",
        f"{hint}.",
        operands[:600],
    )
