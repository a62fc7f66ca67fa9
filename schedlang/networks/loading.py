"""``load``: the network of a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from schedlang.errors import NetworkError, explain
from schedlang.markup.progress import Setting, check_setting, working
from schedlang.networks.compiled import Compiled, from_cache
from schedlang.networks.network import Network
from schedlang.networks.plan import Plan, saved_schedules
from schedlang.networks.sources import OfFolder
from schedlang.runtime.background import check_moment
from schedlang.runtime.collection import no_collection
from schedlang.runtime.paths import path_of
from schedlang.signatures import public
from schedlang.target import Target, TargetLike, run_here
from schedlang.target_kinds import KINDS


@public
def load(
    folder: str | os.PathLike[str],
    target: TargetLike | None = None,
    compile: str = "lazy",  # noqa: A002
    progress: Setting = None,
    compiler: str = "",
    functions: Mapping[str, Any] | None = None,
) -> Network:
    """Return the network that :meth:`Network.save` wrote to ``folder``.

    The graph, the weights and the schedules are checked, and so are indices that depend on weights.
    Weights that were packed before are not read again while the file keeps its size, its time and
    its list of checksums.
    Indices that depend on inputs of a call alone are not. The Python of the folder is not run: the
    module is generated again, or comes from the cache folder. Steps that were saved on another
    machine are kept. ``target`` is by default the target of the ``with sl.Target(...)`` around, or
    else the one that the network was saved for. ``compile`` and ``progress`` are the arguments of
    :func:`network`, and ``compiler`` is the argument of :func:`~schedlang.build`. ``functions`` has
    the functions of stages of :func:`~schedlang.extern` by their names, as that takes them, or a
    tensor that the function computes.

    Raises :class:`~schedlang.errors.NetworkError` for a folder that has no saved network, and for a
    CPU as the target of one that was saved for a GPU, or the other way round, and if a function is
    missing. Raises :class:`~schedlang.errors.BuildError` for a compiler that the target lacks, and
    what :func:`~schedlang.extern` raises for functions. Raises
    :class:`~schedlang.errors.CallTypeError` for what is neither text nor a path. Warns with
    :class:`~schedlang.errors.SavedScheduleWarning` if a kernel has no schedule in a folder of
    another version, and gets a new one.

    >>> import tempfile, numpy as np, schedlang as sl
    >>> X, w = sl.placeholder((4,), name="X"), sl.placeholder((4,), name="w")
    >>> net = sl.network(sl.named("scaled", X * w), {w: np.full(4, 3, "float32")})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = sl.load(net.save(folder + "/scaled"))
    >>> again.partition.parts[0].name, again.weights["w"].tolist()
    ('scaled', [3.0, 3.0, 3.0, 3.0])
    """
    folder = path_of(folder, "load")
    check_moment("sl.load", compile)
    check_setting("sl.load", progress)
    with no_collection():
        source = OfFolder(folder, functions)
    saved = source.head.target
    where = run_here(
        (Target.current() if target is None else Target.of(target)) or saved, "a network"
    )
    threads = saved.facts.binds_threads
    if where.facts.binds_threads != threads:
        *most, last = (f'"{f.name}"' for f in KINDS.values() if f.binds_threads == threads)
        kinds = f"{', '.join(most)} or {last}"
        raise NetworkError(
            explain(
                f'load({os.fspath(folder)!r}, target="{where.kind}")',
                f'it was saved for target="{saved.kind}", and so are its schedules',
                f"Load it for {kinds}, or build the network again for {where.kind}.",
            )
        )
    compiler = where.facts.compiler_named(compiler)
    head = source.head
    saved_steps = saved_schedules(head.steps, head.origins)
    plan = Plan(head.options, saved=saved_steps, compiler=compiler)
    with working(f"network {head.name}", progress):
        loaded = from_cache(Compiled(source, where, plan))
        if loaded.data is None:
            from schedlang.networks.saved_schedules import saved_kernels

            # what is wrong with the folder is an error now; the cache has what was checked before
            kernels = saved_kernels(folder, head, loaded.partition.parts, where, compiler)
            loaded = replace(loaded, kernels=kernels)
    return Network(loaded, compile, progress)


__all__ = ["load"]
