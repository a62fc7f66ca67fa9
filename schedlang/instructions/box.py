"""The instructions that schedlang declares, which a schedule in a file may name."""

from __future__ import annotations

from schedlang.instructions.amx import tdpbf16ps, tdpbusd
from schedlang.instructions.arm import sdot
from schedlang.instructions.nvidia import dp4a
from schedlang.instructions.x86 import (
    vdpbf16ps,
    vpdpbusd,
    vpdpbusd_256,
    vpdpwssd,
    vpdpwssd_256,
)

IN_THE_BOX = (
    vpdpbusd, vpdpbusd_256, vpdpwssd, vpdpwssd_256, vdpbf16ps, sdot, dp4a, tdpbusd, tdpbf16ps,
)  # fmt: skip
