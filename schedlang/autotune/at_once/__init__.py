"""A schedule at once, without a search: ``sl.autoschedule``.

``scheduler.py`` asks ``known.py`` for a schedule from the databases, and then ``autotune/model/``.
If both have none, or the tactics fail, ``plain.py`` makes one, and the result says why.

``known.py`` takes the nearest entry of the same target. Where sizes and threads are the same, it
replays the steps. Otherwise it draws a candidate whose knobs are the recorded ones, or the nearest
options; such a schedule must not be estimated much slower than the model's own.

Nothing here looks at a clock or draws at random, except with fixed seeds after a rejected start. So
the same computation always gets the same schedule on one machine.
"""
