"""The instructions of this processor that rows of ``benchmarks.dot_products`` use by hand."""

from __future__ import annotations

from dataclasses import dataclass

import schedlang as sl
from benchmarks.harness import Unavailable
from schedlang.runtime.processor import missing_features

box = sl.instructions


@dataclass(frozen=True)
class Form:
    """The instructions of a tile of sums, of one with few columns, and of a row.

    A tile of ``rows`` by ``vectors``, or of two vectors of channels of ``pixels`` at most, keeps
    its sums in registers.
    """

    instruction: sl.Instruction
    narrow: sl.Instruction
    along_row: sl.Instruction
    rows: int
    vectors: int
    pixels: int

    @property
    def terms(self) -> int:
        """The steps that an instruction takes."""
        extent = self.instruction.op.reduce_axis[0].extent
        assert isinstance(extent, int)
        return extent

    def shifts(self, operand: int, dtype: str) -> bool:
        """Return whether an operand of ``dtype`` becomes another dtype for the instruction."""
        return self.instruction.operands[operand].dtype != dtype


# 32 registers of 64 bytes
_WIDE = (6, 4, 14)
# 16 registers of 32 bytes, some of which have the words of the operands
_NARROW = (4, 2, 4)
FORMS = {
    "u8": (
        Form(box.vpdpbusd, box.vpdpbusd_256, box.vpdpbusd_rows, *_WIDE),
        Form(box.vpmaddwd_us_256, box.vpmaddwd_us_256, box.vpmaddwd_us_rows_256, *_NARROW),
    ),
    "s8": (
        Form(box.vpdpbusd_su, box.vpdpbusd_su_256, box.vpdpbusd_rows, *_WIDE),
        Form(box.vpmaddwd_ss_256, box.vpmaddwd_ss_256, box.vpmaddwd_ss_rows_256, *_NARROW),
    ),
    "bf16": (Form(box.vdpbf16ps, box.vdpbf16ps_256, box.vdpbf16ps_rows, *_WIDE),),
}


def form_of(kind: str) -> Form:
    """Return the first form that this processor has; raise ``Unavailable`` if it has none."""
    forms = FORMS[kind]
    for form in forms:
        if not missing_features(form.instruction.needs):
            return form
    lacking = missing_features(forms[0].instruction.needs)
    raise Unavailable(f"the processor lacks {' and '.join(lacking)}")
