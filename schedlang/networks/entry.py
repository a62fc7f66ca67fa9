"""``network``: a network of a graph with weights."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from schedlang.compute.extern_op import refuse_extern
from schedlang.compute.graph import operations
from schedlang.errors import BuildError, CallTypeError, explain, nearest
from schedlang.expr.names import check_name
from schedlang.markup.progress import Setting, check_setting, working
from schedlang.networks.cache import is_cached
from schedlang.networks.compiled import Compiled, key_of, with_parts
from schedlang.networks.given_model import check_outputs, model_of
from schedlang.networks.model import FULL, PRECISIONS, Model, Options
from schedlang.networks.network import Network
from schedlang.networks.overrides import fuse_groups, named_stages
from schedlang.networks.plan import Plan
from schedlang.networks.sources import OfModel
from schedlang.networks.weights import weight_array
from schedlang.runtime.background import check_moment
from schedlang.signatures import public
from schedlang.target import Target, TargetLike, or_emulator

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from schedlang.networks.kernels import Source as Trials


class _NoOptions(TypedDict):
    """No options, so that a type checker refuses misspelt ones."""


@public
def network(
    outputs: Any,
    params: Mapping[Any, Any] | None = None,
    target: TargetLike | None = None,
    name: str = "network",
    database: Trials = None,
    cut: Sequence[str] = (),
    fuse: Sequence[Sequence[str]] = (),
    fold: bool = True,
    layouts: bool = True,
    winograd: bool = True,
    flush_denormals: bool = True,
    compile: str = "lazy",  # noqa: A002
    progress: Setting = None,
    compiler: str = "",
    precision: str = FULL,
    **unknown: Unpack[_NoOptions],
) -> Network:
    """Return a graph of stages as one module: fused kernels, which one call runs in order.

    ``outputs`` is a tensor, a list of them, or what ``sl.frontend`` imported. ``params`` has an
    array for each placeholder that is a weight, by the placeholder or by its name; the others are
    the inputs of a call. An imported model brings its own weights. The first call copies the
    arrays: do not change them before it.

    What depends on the weights alone is computed once, ahead. Then the stages are divided into
    parts, and each part becomes a kernel. Parts that differ only in names share a schedule and a
    kernel. For ``target="cuda"``, a call launches kernels on the GPU of its arrays;
    ``"cuda-emulator"`` runs them on the CPU. A network for the triple of another processor is not
    called: ``net.save(folder, target="c")`` saves it. A schedule comes from ``database``, by
    default the one in the cache folder and those that come with schedlang, or else from the cost
    model.

    * ``fold``: the scales of batch norms go into the weights
      (:func:`~schedlang.networks.prepare.prepare`), and weights that meet padding alone are left
      out (:func:`~schedlang.networks.padding.without_padding_taps`). For a CPU, products of
      quantized values become sums of integers
      (:func:`~schedlang.networks.integers.integer_sums`).
    * ``layouts``, for a CPU: channels are in blocks of a vector where that gains
      (:func:`~schedlang.networks.layouts.blocked_layouts`), the weights of recurrent layers in the
      order of their steps (:func:`~schedlang.networks.scan_weights.packed_for_scans`), and the
      weights of integer sums in the order of the processor's dot products
      (:func:`~schedlang.networks.dot_products.in_dot_products`).
    * ``winograd``: convolutions of 3 by 3 have fewer products where that is faster, and round
      differently (:func:`~schedlang.networks.winograd.with_winograd`): on a CPU by a rule or by the
      times in the database, on a GPU by such times alone.
    * ``cut`` and ``fuse`` override the division, by names of stages and layers
      (:func:`~schedlang.networks.partition.partition`).

    ``compile`` says when the network is scheduled and compiled: at the first call (``"lazy"``),
    before ``network`` returns (``"now"``), or in a thread that starts at once (``"background"``). A
    call waits for the thread if it must, and raises the errors of the thread. A step that takes
    more than two seconds says so on a terminal and in a notebook, here and in calls, unless
    ``progress=False``.

    ``precision`` is the precision of the factors of products of matrices and of convolutions in
    float32: ``"float16"``, ``"bfloat16"`` and ``"tf32"`` round them for the matrix units of a GPU,
    which add in float32. All other stages stay in float32, and so do inputs and outputs. A float16
    beyond 65504 is infinite, and one below 6.1e-5 loses bits. TF32 and bfloat16 have the range of
    float32, with 11 and 8 bits of mantissa. :func:`~schedlang.frontend.precision_error` reports the
    error of each layer.

    With ``flush_denormals`` a call on a CPU takes numbers below the smallest normal one (1.2e-38 in
    float32) as 0. A processor needs some 150 cycles for an operation on such a number, and there
    are many behind a sigmoid. ``torch.set_flush_denormal`` has the same effect in PyTorch. When the
    call returns, the caller's thread has its own mode again. ``compiler`` is the argument of
    :func:`~schedlang.build`.

    Raises :class:`~schedlang.errors.NetworkError` for outputs, weights and overrides that do not
    fit, and for a precision of a network with scans, :class:`~schedlang.errors.CallTypeError` for
    an unknown option, :class:`~schedlang.errors.BuildError` for an unknown target, compiler or
    precision, a target without products of the precision, or another ``compile``, and, now or at
    the first call, :class:`~schedlang.errors.TuningError` for a database that cannot be read.

    >>> import numpy as np, schedlang as sl
    >>> from schedlang import topi
    >>> X, W = sl.placeholder((2, 3), name="X"), sl.placeholder((4, 3), name="W")
    >>> h = topi.nn.relu(sl.named("fc", topi.nn.dense(X, W)))
    >>> net = sl.network(topi.nn.softmax(h), {W: np.ones((4, 3), "float32")}, target="python")
    >>> net(np.ones((2, 3), "float32"))
    array([[0.25, 0.25, 0.25, 0.25],
           [0.25, 0.25, 0.25, 0.25]], dtype=float32)
    >>> [part.name for part in net.partition]
    ['fc', 'softmax']
    """
    if unknown:
        raise CallTypeError(_no_option(next(iter(unknown))))
    check_moment("sl.network", compile)
    check_setting("sl.network", progress)
    model = model_of(outputs, params)
    check_outputs(model.outputs, model.inputs)
    name = check_name(name, "a network")
    where, compiler = target_of_network(target, compiler)
    if where.facts.binds_threads:
        refuse_extern(
            operations(model.outputs),
            f'sl.network(..., target="{where.kind}")',
            'Build it for target="cpu", or make networks of what comes before it and after it.',
        )
    options = Options(
        tuple(named_stages("cut", cut)),
        tuple(map(tuple, fuse_groups(fuse))),
        fold,
        layouts,
        winograd,
        bool(flush_denormals),
        checked_precision(precision, where),
    )
    arrays = {t: weight_array(t, v, model.outputs, model.layers) for t, v in model.params.items()}
    layers = dict(model.layers)
    source = OfModel(name, Model(model.outputs, model.inputs, arrays, layers, model.structure))
    plan = Plan(options, database, compiler=compiler)
    asked = Compiled(source, where, plan)
    # what does not fit is an error now; the cache has what was checked before
    if not (where.facts.starts and _is_known(asked)):
        with working(f"network {name}", progress):
            asked = with_parts(asked)
    return Network(asked, compile, progress)


def target_of_network(target: TargetLike | None, compiler: str) -> tuple[Target, str]:
    """Return the target that a network is for, and ``compiler`` or the target's default one.

    Raise :class:`~schedlang.errors.BuildError` for an unknown target, for a target without
    networks, and for a compiler that the target lacks.
    """
    where = or_emulator(Target.of(target))
    if not where.facts.network_backend:
        raise BuildError(
            explain(
                f'sl.network(..., target="{where.kind}")',
                "this target runs kernels, and no networks",
                'Build the network for target="cpu" or "cuda", or its kernels by sl.build.',
            )
        )
    return where, where.facts.compiler_named(compiler)


def checked_precision(precision: str, target: Target) -> str:
    """Return a precision that a network for ``target`` may have.

    Raise :class:`~schedlang.errors.BuildError` for an unknown one, and if the target lacks it.
    """
    if precision not in PRECISIONS:
        known = ", ".join(f'"{name}"' for name in PRECISIONS)
        raise BuildError(
            explain(
                f"sl.network(..., precision={precision!r})",
                f"there is no such precision{nearest(str(precision), PRECISIONS)}",
                f"Give one of {known}.",
            )
        )
    if precision != FULL:
        # it loads the declared instructions
        from schedlang.networks.precision import check_precision

        check_precision(precision, target)
    return precision


def _is_known(network: Compiled) -> bool:
    """Return whether an earlier process made a module of this, of the same weights or not."""
    try:
        return is_cached(key_of(network))
    except BuildError:
        # no folder: the first call says so
        return False


def _no_option(name: str) -> str:
    """Return the message for an argument that ``network`` does not have."""
    if name in ("batch", "dynamic_shapes", "shapes"):
        importer = "from_onnx" if name == "shapes" else "from_torch"
        why = f"{importer} takes it, since sizes are a part of the imported model"
        return explain(
            f"sl.network(..., {name}=...)",
            why,
            f"Write sl.network(sl.frontend.{importer}(..., {name}=...)).",
        )
    known = [p for p in inspect.signature(network).parameters if p != "unknown"]
    return f"sl.network(..., {name}=...): it has no such argument{nearest(name, known)}"


__all__ = ["network"]
