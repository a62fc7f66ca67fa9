"""The limits of a work-group that are checked when a kernel is built, on any device."""

from __future__ import annotations

from schedlang.host import KIB
from schedlang.target import Device

# no device that is known has more; the first call checks the limits of the device that it runs on
LIMITS = Device(
    "OpenCL",
    shared_opt_in=512 * KIB,
    shared_per_sm=64 * KIB,
    threads_per_sm=1024,
    blocks_per_sm=16,
    shared_static=32 * KIB,
)
