"""The instructions that schedlang declares, which a schedule in a file may name."""

from __future__ import annotations

from schedlang.instructions.amx import tdpbf16ps, tdpbusd
from schedlang.instructions.arm import sdot
from schedlang.instructions.nvidia import dp4a, dp4a_ss, dp4a_uu
from schedlang.instructions.x86 import (
    vdpbf16ps,
    vdpbf16ps_256,
    vdpbf16ps_rows,
    vdpbf16ps_rows_256,
    vpdpbusd,
    vpdpbusd_256,
    vpdpbusd_rows,
    vpdpbusd_rows_256,
    vpdpbusd_su,
    vpdpbusd_su_256,
    vpdpwssd,
    vpdpwssd_256,
    vpdpwssd_rows,
    vpdpwssd_rows_256,
)

IN_THE_BOX = (
    vpdpbusd, vpdpbusd_256, vpdpbusd_su, vpdpbusd_su_256, vpdpbusd_rows, vpdpbusd_rows_256,
    vpdpwssd, vpdpwssd_256, vpdpwssd_rows, vpdpwssd_rows_256, vdpbf16ps, vdpbf16ps_256,
    vdpbf16ps_rows, vdpbf16ps_rows_256, sdot, dp4a, dp4a_ss, dp4a_uu, tdpbusd,
    tdpbf16ps,
)  # fmt: skip
