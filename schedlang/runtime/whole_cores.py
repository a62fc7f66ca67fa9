"""The cores that this process has to itself: the hardware threads of one core count once.

A parallel kernel may have more threads than that. Two threads of one core share its arithmetic
units, and a container's limit stops all threads once their time is used up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CORES = Path("/sys/devices/system/cpu")
GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def whole_cores() -> int:
    """Return how many cores this process may keep busy, by its affinity and its container."""
    affinity = getattr(os, "sched_getaffinity", None)
    allowed = sorted(affinity(0)) if affinity else list(range(os.cpu_count() or 1))
    limit = cpu_limit(GROUPS, OWN_GROUPS)
    number = different_cores(allowed, CORES)
    # a part of a core does not suffice for a thread
    return number if limit is None else max(1, min(number, int(limit)))


def different_cores(allowed: list[int], folder: Path) -> int:
    """Return how many cores the hardware threads ``allowed`` belong to, as Linux says."""
    return len({_read(folder / f"cpu{n}" / "topology/thread_siblings_list") or n for n in allowed})


def cpu_limit(groups: Path, own_groups: Path) -> float | None:
    """Return how many cores' time the control groups of this process have; ``None``: no limit."""
    limits = [limit for folder in _folders(groups, own_groups) if (limit := _limit(folder))]
    return min(limits, default=None)


def _folders(groups: Path, own_groups: Path) -> Iterator[Path]:
    """Yield the folders of the control groups of this process, with all their parents."""
    for line in _read(own_groups).splitlines():
        number, _, rest = line.partition(":")
        names, _, at = rest.partition(":")
        if number == "0" and not names:
            root = groups
        elif "cpu" in names.split(","):
            root = groups / "cpu"
        else:
            continue
        path = root / at.lstrip("/")
        yield path
        # inside of a container, its own group is the root, whatever the path says
        yield from (p for p in path.parents if p.is_relative_to(root))


def _limit(folder: Path) -> float | None:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    if not quota.isdigit() or not period.isdigit():
        # "max", or -1 of the older groups
        return None
    return int(quota) / int(period)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
