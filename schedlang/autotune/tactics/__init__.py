"""Tactics, which generate the search space of any computation without knowledge of operators.

A *tactic* is one way to compute a stage, such as a tile of sums in registers. It is a frozen record
of functions (``tactic.py``), defined in a file of its own under ``cpu/`` or ``cuda/``:

    applies(stage, others) -> apply(s, stage, knobs) -> Scheduled

* ``stage`` holds the facts about the stage (``facts.py``): its axes, extents and reads, its
  consumers, its work, and the loop that it is attached to. Facts are immutable. They follow from
  the state of the schedule and from what is decided so far. After some steps, ``stage.after(s)``
  returns the facts of the new state.
* ``others`` says which other tactics apply, as in ``"tile" in others``. This is the only way in
  which tactics depend on each other.
* ``apply`` takes the steps and asks the knobs. It changes nothing but the schedule, and returns
  what it decided (``scheduled.py``): the stages that it scheduled, and the loops at which their
  producers may be computed. All of that follows from the facts and from the answers of the knobs,
  so that a descent asks once (``outcomes.py``).
* A knob (``knob.py``) says how the cost model moves it: its rank among other knobs, where a descent
  starts, what it tries, and how near two of its values are. ``moves.py`` finds the knob by the name
  of a decision.

``registries.py`` lists the tactics of each target, in the order in which they are drawn.
``driver.py`` goes through the stages, consumers before producers:

1. At the start, ``inline.py`` chooses the stages to inline, and ``scan_stages.py`` finds the stages
   of scans. A stage with an axis that chooses between values, such as the rows of Winograd's
   transforms, is not inlined, and unrolls that axis (``choosing.py``).
2. ``attach.py`` chooses the loop at which a stage is computed, or root.
3. If the stage is the elementwise reader of a reduction (``epilogue.py``), the registry's
   ``fusion`` may compute the reduction in the loops of the stage, a tile at a time.
4. Otherwise the knob ``C.how`` chooses one of the tactics that apply. If a tactic that applies is
   ``alone``, such as a tactic for scatters, there is no other option.

What a step decides is joined with what was decided before, and the next stage sees both. Databases
record the names of tactics and knobs, so these names must not change. ``docs/reference/knobs.md``
lists them all; ``tests/test_tuning_knob_table.py`` writes its tables.

A package may bring tactics of its own: see ``docs/inside/targets.md``.
"""

from __future__ import annotations

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.registries import CPU, CUDA
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Fusion, Registry, Tactic

__all__ = [
    "CPU", "CUDA", "Applicable", "Fusion", "Knob", "Knobs", "Moves", "Registry", "Scheduled",
    "StageFacts", "Tactic",
]  # fmt: skip
