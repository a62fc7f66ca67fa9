"""TVM's schedules of operators by name; each of them calls the automatic scheduler.

An operator of ``topi`` is a computation alone. TVM's programs ask for its schedule by a name such
as ``topi.cuda.schedule_conv2d_nchw(outs)``; here all of these are ``sl.autoschedule`` for the
target of their module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeTypeError, MissingNameError, nearest
from schedlang.target import Target
from schedlang.tvm.topi import nn

if TYPE_CHECKING:
    from schedlang.schedule.schedule import Schedule

OPERATORS = (
    "adaptive_pool", "batch_matmul", "broadcast", "conv1d_ncw", "conv1d_nwc",
    "conv1d_transpose_ncw", "conv2d_NCHWc", "conv2d_hwcn", "conv2d_nchw", "conv2d_nchw_winograd",
    "conv2d_nhwc", "conv2d_transpose_nchw", "conv2d_winograd_nchw_without_weight_transform",
    "conv2d_winograd_nhwc", "conv2d_winograd_nhwc_without_weight_transform",
    "conv2d_winograd_weight_transform", "conv2d_winograd_without_weight_transform", "conv3d_ncdhw",
    "conv3d_ndhwc", "conv3d_transpose_ncdhw", "dense", "dense_large_batch", "dense_nopack",
    "dense_pack", "dense_small_batch", "depthwise_conv2d_NCHWc", "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc", "elemwise", "group_conv2d_nchw", "group_conv2d_nhwc",
    "group_conv2d_transpose_nchw", "injective", "l2_normalize", "lrn", "lstm", "matmul", "pool",
    "reduce", "scale_shift_nchw", "scale_shift_nhwc", "softmax", "sparse_dense",
)  # fmt: skip


def schedule_of(place: str, name: str, kind: str | None) -> Callable[..., Schedule]:
    """Return TVM's ``topi.<place>.<name>``, which schedules ``outs`` for the target ``kind``.

    Without a kind, the target comes from the innermost ``with`` statement, or this CPU.
    """

    def schedule(outs: Any, *layout: Any) -> Schedule:
        tensors = list(outs) if isinstance(outs, (list, tuple)) else [outs]
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise ComputeTypeError(
                    f"topi.{place}.{name}({tensor!r}): give a tensor, or a list of them"
                )
        # imported late: operators are computations, which do not need the tactics
        from schedlang.autotune.at_once.scheduler import autoschedule

        return autoschedule(tensors, target=_target(kind))

    schedule.__name__ = schedule.__qualname__ = name
    goal = f"the target {kind!r}" if kind else "the present target"
    schedule.__doc__ = (
        f"Return ``sl.autoschedule(outs)`` for {goal}; ``outs`` is a tensor or a list of them.\n\n"
        "    Further arguments, such as a layout, have no effect."
    )
    return schedule


def _target(kind: str | None) -> Target | None:
    """Return the target of the innermost ``with`` statement if its loops run like ``kind``'s.

    They run on a CPU, or on the blocks and threads of a GPU.
    """
    around = Target.current(allow_none=True)
    if kind is None:
        return around
    own = Target(kind)
    alike = around is not None and around.facts.binds_threads == own.facts.binds_threads
    return around if alike else own


def names_of(place: str, kind: str | None) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of the module ``topi.<place>``.

    Its names are the schedules for the target ``kind``, and the operators of ``topi.nn``.
    """
    names = [f"schedule_{operator}" for operator in OPERATORS]
    schedules = {name: schedule_of(place, name, kind) for name in names}

    def found(name: str) -> Any:
        if name in nn.__all__:
            return getattr(nn, name)
        if name in schedules:
            return schedules[name]
        hint = ""
        if name.startswith("schedule_"):
            hint = "; sl.autoschedule(outs) schedules any operator"
        suggestion = nearest(name, [*schedules, *nn.__all__])
        raise MissingNameError(
            f"module 'schedlang.topi.{place}' has no attribute {name!r}{suggestion}{hint}"
        )

    return found, lambda: sorted({*schedules, *nn.__all__})


__all__ = ["OPERATORS", "names_of", "schedule_of"]
