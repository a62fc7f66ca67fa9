"""Instructions of processors, declared by what they compute, and some of them.

``declaration.py`` has the :class:`Instruction` and :func:`instruction`, which declares one.
``emission.py`` has the forms in which a target runs it. Each other file declares the instructions
of one family of processors, as a file of yours could.
"""

from schedlang.instructions.arm import sdot
from schedlang.instructions.declaration import Emission, Instruction, instruction
from schedlang.instructions.emission import Assembly, CFunction, Intrinsic
from schedlang.instructions.x86 import (
    vdpbf16ps,
    vpdpbusd,
    vpdpbusd_256,
    vpdpwssd,
    vpdpwssd_256,
)

# those that a schedule in a file may name
IN_THE_BOX = (vpdpbusd, vpdpbusd_256, vpdpwssd, vpdpwssd_256, vdpbf16ps, sdot)

__all__ = [
    "Assembly", "CFunction", "Emission", "IN_THE_BOX", "Instruction", "Intrinsic", "instruction",
    "sdot", "vdpbf16ps", "vpdpbusd", "vpdpbusd_256", "vpdpwssd", "vpdpwssd_256",
]  # fmt: skip
