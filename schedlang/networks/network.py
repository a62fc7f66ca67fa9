"""``network``: a graph of stages as one module of fused kernels that one call runs.

A network that the cache folder has runs without its parts. So the code that makes and compiles them
is imported only when it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from schedlang.errors import NetworkError
from schedlang.markup.progress import Setting as Shown
from schedlang.markup.progress import working
from schedlang.markup.sizes import bytes_text
from schedlang.markup.text import printable
from schedlang.networks.compiled import (
    TO_DATA,
    TO_MODULE,
    Compiled,
    Step,
    arrays_of,
    code_of,
    link_for,
    schedules_of,
    weights_of,
    with_kernels,
    with_module,
    with_named_weights,
    with_parts,
    with_stored_data,
    with_weights,
    with_whole,
)
from schedlang.networks.data import ModuleData
from schedlang.networks.memory import MemoryPlan
from schedlang.networks.model import Model, Recipe, options_of_prepared, recipe_of
from schedlang.networks.module import NetworkModule
from schedlang.networks.origins import origins_of
from schedlang.networks.plan import Plan, saved_schedules
from schedlang.networks.sources import OfModel
from schedlang.networks.structure import filled
from schedlang.runtime.background import compile_at
from schedlang.runtime.paths import path_of
from schedlang.runtime.together import compile_together
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.autotune.database import Database
    from schedlang.autotune.runner.task import Limits
    from schedlang.compute.data import Graph
    from schedlang.compute.tensor import Tensor
    from schedlang.networks.kernels import Source as Trials
    from schedlang.networks.named_kernels import Kernels
    from schedlang.networks.partition import Partition
    from schedlang.networks.prepare import Prepared
    from schedlang.networks.profile import NetworkProfile
    from schedlang.networks.progress import Setting
    from schedlang.networks.tuning import NetworkTuning, Tuned
    from schedlang.schedule.schedule import Schedule


class Network:
    """A network: call it with arrays.

    ``net(x)`` returns what the network computes, in the library of the first array: an array, a
    tuple of them, or what the imported model returns. ``net(x, out=y)`` writes ``y``, an array or a
    tuple with one for each of ``outputs``. A call checks its arguments like a kernel, and runs
    without Python between the kernels. Several threads may call at once. On a GPU, a call launches
    the kernels in order, on the stream of its arrays.

    * ``partition``: the parts, as a table.
    * ``kernels``: the kernels, each of one or several parts, in order and by name.
    * ``memory``: the plan of the arena.
    * ``module``: the generated module, with ``source``, ``path`` and ``machine_nest``.
    * ``prepared``: what is computed ahead, and what was folded.
    """

    def __init__(self, compiled: Compiled, moment: str = "lazy", progress: Shown = None) -> None:
        # what is made of the network so far, which changes as a whole, under the lock
        self._compiled = compiled
        self._lock = RLock()
        self._progress = progress
        job = self._steps() if moment == "background" else [self._compile]
        compile_at(moment, job)

    def _having(self, *steps: Step) -> Compiled:
        """Return the network after some steps, each of whose results it keeps."""
        with self._lock, working(f"network {self.name}", self._progress):
            for step in steps:
                self._compiled = step(self._compiled)
            return self._compiled

    @property
    def name(self) -> str:
        return self._compiled.source.name

    @property
    def target(self) -> Target:
        return self._compiled.target

    @property
    def database(self) -> Trials:
        """The database that the schedules come from, and to which a search writes."""
        return self._compiled.plan.database

    @database.setter
    def database(self, database: Trials) -> None:
        self._having(lambda now: replace(now, plan=replace(now.plan, database=database)))

    @property
    def recipe(self) -> Recipe:
        """The inputs and results of a call, and the overrides of the partition."""
        now = self._compiled
        return recipe_of(now.source.name, now.source.model, now.plan.options)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The placeholders that a call takes, in order."""
        return self.recipe.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.prepared.outputs

    @property
    def prepared(self) -> Prepared:
        """The graph with the stages that are computed ahead of all calls, and those folded."""
        return self._having(with_parts).prepared

    @property
    def partition(self) -> Partition:
        """The parts of the network, each of which is a kernel."""
        return self._having(with_parts).partition

    @property
    def kernels(self) -> Kernels:
        """The kernels, also by what they compute (``net.kernels["conv1"]``), not yet compiled."""
        from schedlang.networks.named_kernels import Kernels

        now = self._having(with_parts, with_kernels)
        return Kernels(now.kernels or (), now.partition.parts)

    @property
    def memory(self) -> MemoryPlan:
        """The place of each tensor between the kernels, in one arena.

        Raises :class:`~schedlang.errors.NetworkError` for a network with symbolic sizes, whose
        memory is planned at each size.
        """
        plan = self._having(*TO_DATA, with_stored_data).linked.plan
        if plan is None:
            raise NetworkError(
                f"memory of network {self.name}: it depends on the sizes of a call; "
                "net.module.memory_at(...) has it for given ones"
            )
        return plan

    @property
    def module(self) -> NetworkModule:
        """The module that a call runs. Its weights are computed when it is first asked for."""
        # calls of a network that is ready neither take the lock nor wait for it
        now = self._compiled
        if now.module is None:
            now = self._having(*TO_MODULE, self._with_module)
        return cast("NetworkModule", now.module)

    def _with_module(self, network: Compiled) -> Compiled:
        return with_module(network, self._whole, self._progress)

    def _with_whole(self, network: Compiled) -> Compiled:
        return with_whole(network, self._whole, self._progress)

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays of all weights that the module reads, by their names in its source."""
        return weights_of(self._having(*TO_DATA, with_stored_data, with_named_weights))

    @property
    def source(self) -> str:
        """The source of the module."""
        return self._having(*TO_DATA, with_stored_data).linked.text

    def _steps(self) -> Iterator[Callable[[], object]]:
        """Yield the steps that the first call would take."""
        for step in (*TO_MODULE, self._with_module):
            yield partial(self._taken, step)
        yield lambda: self.module.compile()

    def _compile(self) -> None:
        self._first_module().compile()

    def _first_module(self) -> NetworkModule:
        """Return the module, which processes compile while its weights are computed and packed."""
        with working(f"network {self.name}", self._progress), compile_together(1) as begin:
            code = code_of(self._having(*TO_DATA))
            if code is not None:
                begin(code)
            return self.module

    def _taken(self, step: Step) -> bool:
        """Take a step, unless another thread is at one; return whether it was taken."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._having(step)
        finally:
            self._lock.release()
        return True

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        module = self._compiled.module or self._first_module()
        results = module(*args, **named)
        values = results if isinstance(results, tuple) else (results,)
        return filled(self._compiled.source.structure, values)

    def tune(
        self,
        trials: int | None = None,
        timeout: float | None = None,
        search: Any = "random",
        seed: int = 0,
        resume: bool = True,
        executor: Executor | None = None,
        progress: Setting = None,
        limits: Limits | None = None,
        database: Database | str | os.PathLike[str] | None = None,
        sizes: Mapping[Any, int] | None = None,
    ) -> NetworkTuning:
        """Search for the schedule of each kernel, and use the fastest ones from the next call on.

        There is one search for each kernel, however many parts it has. The kernels that the network
        would have with its 3 by 3 convolutions in other forms (direct, or Winograd's filtering) are
        searched, too; the network then takes the fastest form of each convolution. A network that
        has run keeps its forms, since its weights are packed for them. A network with overrides
        keeps the forms of the rule, since the user named their stages.

        Kernels without a trial in the database come first, then kernels in use, then kernels with
        the most work. The options mean the same as in :func:`schedlang.autotune`, but ``trials``
        counts for one kernel, and ``timeout`` for all together. Every trial goes into ``database``,
        by default the network's own, so you may interrupt a search and continue it later. The
        schedule that a kernel has is measured, too, and stays if none is faster. ``progress`` shows
        one line for all searches, or is a function of a kernel's name and a trial. ``sizes`` are
        the values of symbolic sizes, by name or var.

        Raises :class:`~schedlang.errors.TuningError` for options that do not fit, and for
        ``target="cuda"`` on a machine without a GPU, unless workers of ``executor`` measure, and
        :class:`~schedlang.errors.MissingExtraError` there without numba-cuda. A kernel for which no
        candidate works keeps its schedule, and the result says why.
        """
        from schedlang.networks.present import Present
        from schedlang.networks.tuning import tune, unsearched, works_of

        began = monotonic()
        before = self._having(with_parts)
        forms = before.source.forms(before.target, before.plan)
        where = before.plan.database if database is None else database
        present = Present(before, where, not isinstance(search, str), forms is not None)

        def renewed(searches: Sequence[Tuned]) -> Partition:
            """Return the parts as the times in the database say; nothing is scheduled yet."""
            return self._having(lambda now: present.renewed(now, searches)).partition

        tuning = tune(
            self.name,
            works_of(before.partition, forms, self.target),
            self.target,
            trials,
            timeout,
            where,
            executor,
            progress,
            resume,
            search,
            seed,
            limits,
            sizes,
            None if forms is None else lambda f: works_of(renewed(f), None, self.target),
            present.schedule,
            began,
            before.plan.compiler,
        )
        tuning = tuning.within(renewed(tuning.searches))
        return replace(tuning, note=unsearched(forms, before.parts.forms, self.recipe))

    def reschedule(self, part: str, schedule: Schedule) -> None:
        """Use ``schedule`` for the kernel of a part, and of all parts that are equal to it.

        Give a schedule of the kernel's computation, such as a changed ``net.kernels[k].schedule``.
        The next call runs it, and :meth:`save` writes it. :meth:`tune` only replaces it by a
        schedule that it measures to be faster; a schedule that you set while ``tune`` runs stays.
        Raises :class:`~schedlang.errors.NetworkError` for an unknown part, and for a schedule of
        another computation, and what ``sl.build`` raises for a schedule that cannot run on the
        network's target. After an error the kernel keeps its schedule.

        >>> import numpy as np, schedlang as sl
        >>> X = sl.placeholder((64,), name="X")
        >>> net = sl.network(sl.named("double", X * 2), target="python")
        >>> s = sl.schedule(net.partition["double"].group.outputs)
        >>> s["double"].split(s["double"].op.axis[0], factor=8)  # doctest: +ELLIPSIS
        (...)
        >>> net.reschedule("double", s)
        >>> net.kernels[0].origin, net(np.ones(64, "float32"))[:2]
        ('given', array([2., 2.], dtype=float32))
        """
        from schedlang.networks.rescheduling import with_given_schedule

        self._having(with_parts, with_kernels)
        # an error leaves the network as it was
        self._having(lambda now: with_given_schedule(now, part, schedule))

    def profile(self, *args: Any, repeat: int = 5) -> NetworkProfile:
        """Return the time of each kernel in a call with these arguments.

        The first profile on a CPU compiles the module once more, with time stamps between its
        calls. That takes as long as the first call, or longer; later profiles load what was
        compiled, also in other processes. The module runs at least ``repeat`` times, and the
        fastest run counts. On a GPU its events measure the times, without the host's time of
        launching; the emulator has the times of this CPU. ``print`` shows a table, and a notebook
        adds a chart and the loop nests of the longest kernels; ``profile["conv1"].nest`` is the
        nest of one part.

        Raises :class:`~schedlang.errors.CallError` for arguments that do not fit and for a
        ``repeat`` below 1, and :class:`~schedlang.errors.BuildError` for ``target="c"``.

        >>> import numpy as np, schedlang as sl
        >>> X = sl.placeholder((64,), name="X")
        >>> net = sl.network(sl.named("double", X * 2), target="python")
        >>> profile = net.profile(np.ones(64, "float32"))
        >>> [kernel.name for kernel in profile.kernels], profile.seconds > 0
        (['double'], True)
        """
        from schedlang.networks.kernels import kernel_of
        from schedlang.networks.profile import profile

        steps = (with_parts, with_kernels, self._with_whole, *TO_MODULE, self._with_module)
        now = self._having(*steps)
        module, kernels = cast("NetworkModule", now.module), kernel_of(now.kernels or ())
        return profile(module, now.partition, kernels, args, repeat)

    def save(self, folder: str | os.PathLike[str], target: str | None = None) -> Path:
        """Write the network to a new folder, and return its path; ``sl.load`` reads it.

        * ``network.py`` runs with NumPy and numba alone: ``pack`` makes the bytes of the weights,
          and the function with the name of the network takes and returns arrays. For a GPU or the
          emulator, ``network.py`` runs with numba-cuda, and ``memory_of`` copies the weights to the
          GPU. The docstring of the file says how to call it.
        * ``weights.npz`` has the weights, by their names in ``network.py``.
        * ``manifest.json`` has the graph, the schedules and the partition.

        With ``target="c"`` the folder has a program of C in their place, which needs neither Python
        nor schedlang, and which ``sl.load`` does not read:

        * ``NAME.h`` and ``NAME.c``, where ``NAME`` is the name of the network, have functions that
          open the weights, run the network, and say errors in words. The header says how.
        * ``NAME.weights`` has the weights, which the program maps and checks.
        * ``main.c`` runs the network on files, and ``make`` builds it, by zig if the network's
          target has a triple.

        The folder appears complete or not at all. Raises :class:`~schedlang.errors.NetworkError`
        for one that exists already, for another ``target`` than ``"c"``, and with it for a network
        for a GPU, for a name that C cannot have, and for functions of :func:`~schedlang.extern`
        that are not C source. Without it, raises for a network for ``target="python"`` or ``"c"``.
        Raises for a part
        whose computation may read outside of an array at some sizes, which only calls here check,
        for indices that weights may lead astray, which ``sl.load`` refuses, and for a kernel of a
        GPU that needs more shared memory than a launch by numba may have. Raises
        :class:`~schedlang.errors.CallTypeError` for what is neither text nor a path.
        """
        from schedlang.networks.saving import check_destination, save

        folder = path_of(folder, "save")
        if target is not None:
            return self._saved_in_c(folder, target)
        check_destination(folder, self.target)
        now = self._having(with_parts, with_kernels, self._with_whole, with_weights)
        data = now.linked
        if emulated := self.target.facts.emulates:
            data = link_for(now, Target(emulated, arch=self.target.arch))
        outputs, schedules = now.prepared.outputs, schedules_of(now)
        return save(folder, now.recipe, outputs, data, arrays_of(now), *schedules)

    def _saved_in_c(self, folder: str | os.PathLike[str], target: str) -> Path:
        from schedlang.networks.c_saving import check_c_destination, save_in_c

        check_c_destination(folder, target, self.name, self.target)
        return save_in_c(folder, self._having(with_parts, with_kernels, with_weights))

    def _whole(self) -> ModuleData:
        """Return the data of the module with its machine nest."""
        return self._having(with_parts, with_kernels, self._with_whole).linked

    def __reduce__(self) -> Any:
        from schedlang.compute.data import Graph
        from schedlang.compute.graph import placeholders

        now = self._having(with_parts, with_kernels, with_weights)
        outputs, recipe, weights = now.prepared.outputs, now.recipe, arrays_of(now)
        # with the inputs that no output reads, which a call takes, too
        tensors = (*outputs, *recipe.inputs)
        places = {t: k for k, t in enumerate(placeholders(tensors))}
        return _unpickled, (
            Graph(tensors),
            len(outputs),
            replace(recipe, inputs=()),
            [places[t] for t in recipe.inputs],
            {places[t]: array for t, array in weights.items()},
            self.target,
            *schedules_of(now),
            now.plan.compiler,
        )

    def __repr__(self) -> str:
        from schedlang.compute.tensor import declaration

        given = ", ".join(map(declaration, self.inputs))
        results = ", ".join(map(declaration, self.outputs))
        return f"<Network {printable(self.name)}({given}) -> {results} for {self.target.kind}>"

    def __str__(self) -> str:
        from schedlang.networks.assembly import number_of
        from schedlang.networks.partition import equal_parts

        weights = [*self.prepared.params, *self.prepared.computed]
        size = bytes_text(sum(self.partition.bytes_of(t) for t in weights))
        parts, kernels = len(self.partition), len(equal_parts(self.partition.parts))
        counts = f"{number_of(parts, 'part')}, {number_of(kernels, 'kernel')}, "
        counts += f"{number_of(len(weights), 'weight')} of {size}" if weights else "no weights"
        return f"{repr(self)[1:-1]}: {counts}\n\n{self.partition}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.partition._repr_html_(), "text/plain": str(self)}


def _unpickled(
    graph: Graph,
    outputs: int,
    recipe: Recipe,
    inputs: Sequence[int],
    weights: Mapping[int, np.ndarray],
    target: Target,
    steps: Mapping[str, str],
    origins: Mapping[str, Any],
    compiler: str = "",
) -> Network:
    from schedlang.compute.graph import placeholders

    read = placeholders(graph.tensors)
    model = Model(
        tuple(graph.tensors[:outputs]),
        tuple(read[k] for k in inputs),
        {read[k]: array for k, array in weights.items()},
        recipe.layers,
        recipe.structure,
    )
    options = options_of_prepared(recipe.cut, recipe.fuse, recipe.flush_denormals)
    # in older pickles the origins are texts
    schedules = saved_schedules(steps, origins_of(origins, texts=True))
    plan = Plan(options, saved=schedules, compiler=compiler)
    return Network(Compiled(OfModel(recipe.name, model), target, plan))
