"""Inspect the machine code of GPU kernels without a GPU: registers, spills, instructions.

    python -m benchmarks.cuda --code [--only PATTERN] [--json FILE] [--arch sm_90] [--emulate]

Each row is a kernel of ``gpu/`` at the size of its work, compiled for ``--arch``. It gives the
registers of a thread, the spilled bytes, the shared bytes of a block, the occupancy, and the
instructions: of the kernel, of the loop with the most multiply-adds, and those multiply-adds.

Where nvcc is on the path, a row gives the same for an sgemm in CUDA C++. ``--emulate`` also runs
each schedule on the emulator at small sizes and compares the result with NumPy. Nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import schedlang as sl
from benchmarks.gpu import scheduled
from benchmarks.works import Work
from benchmarks.works.gpu import GPU_SMALL, GPU_WORKS
from schedlang.runtime.nvidia import disassemble

# the work that also has a kernel in CUDA C++
COMPARED = "sgemm 4096^3"
REFERENCE = Path(__file__).parent / "sgemm_128x128x8.cu"
LABEL = re.compile(r"^(\.L_\w+):")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
JUMP = re.compile(r"\bBRA\b.*?(\.L_\w+)")


@dataclass(frozen=True)
class Row:
    """The resources and instruction counts of one kernel."""

    work: str
    kernel: str
    registers: int
    spill_bytes: int
    local_bytes: int
    shared_bytes: int
    occupancy: float | None
    instructions: int
    loop: int
    multiply_adds: int

    def text(self) -> str:
        busy = "" if self.occupancy is None else f"{self.occupancy:.2f}"
        return (
            f"{self.work:28s}{self.kernel:14s}{self.registers:9d}{self.spill_bytes:8d}"
            f"{self.shared_bytes:8d}{busy:>10s}{self.instructions:13d}{self.loop:7d}"
            f"{self.multiply_adds:6d}"
        )


HEAD = (
    f"{'work':28s}{'kernel':14s}{'registers':>9s}{'spills':>8s}{'shared':>8s}{'occupancy':>10s}"
    f"{'instructions':>13s}{'loop':>7s}{'FFMA':>6s}"
)


def busiest_loop(sass: str) -> tuple[int, int, int]:
    """Return three counts: the instructions of a kernel, those of its busiest loop, and its FFMAs.

    The busiest loop is the one with the most multiply-adds (FFMA).
    """
    found: list[str] = []
    labels: dict[str, int] = {}
    for line in sass.splitlines():
        label, instruction = LABEL.match(line.strip()), INSTRUCTION.match(line)
        if label:
            labels[label.group(1)] = len(found)
        elif instruction:
            found.append(instruction.group(1))
    loop, most = 0, 0
    for position, text in enumerate(found):
        jump = JUMP.search(text)
        start = labels.get(jump.group(1)) if jump else None
        if start is not None and start <= position:
            inside = found[start : position + 1]
            adds = sum("FFMA" in x for x in inside)
            if adds > most:
                loop, most = len(inside), adds
    return len(found), loop, most


def compiled(work: Work, arch: str) -> list[Row]:
    """Compile the kernels of a work for ``arch``, and return their rows."""
    schedule, tensors = scheduled(work)
    f: Any = sl.build(schedule, tensors, target=sl.Target("cuda", arch=arch))
    rows = []
    for name, one in f.machine_code.items():
        taken = one.resources
        rows.append(
            Row(work.name, name, taken.registers, taken.spill_bytes, taken.local_bytes,
                taken.shared_bytes, taken.occupancy, *busiest_loop(disassemble(one.cubin)))
        )  # fmt: skip
    return rows


def reference(arch: str) -> list[Row]:
    """Return the row of nvcc's sgemm, or none where nvcc is missing."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("nvcc is not on the path: no row for the sgemm in CUDA C++")
        return []
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "sgemm.cubin"
        command = [
            nvcc,
            f"-arch={arch}",
            "-cubin",
            "-Xptxas",
            "-v",
            str(REFERENCE),
            "-o",
            str(target),
        ]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        sass = disassemble(target.read_bytes())

    def number(pattern: str) -> int:
        found = re.search(pattern, said)
        return int(found.group(1)) if found else 0

    spills = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
    return [
        Row("sgemm", "nvcc", number(r"Used (\d+) registers"), spills,
            number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes smem"), None,
            *busiest_loop(sass))
    ]  # fmt: skip


def emulated(work: Work) -> str:
    """Return the error of the emulator's result for a work, or an empty string."""
    outs = work.empty()
    arrays = work.arrays()
    f = sl.build(*scheduled(work), target="cuda-emulator")
    f(*arrays.values(), *outs.values())
    return work.wrong(tuple(outs.values()), work.expected(arrays))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda --code", description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", default="", help="works that match this")
    parser.add_argument("--json", metavar="FILE", help="write the table as data")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--emulate", action="store_true", help="run each schedule at small sizes")
    options = parser.parse_args(argv)
    chosen = [w for w in GPU_WORKS if re.search(options.only, w.name)]
    rows: list[Row] = []
    print(HEAD)
    for work in chosen:
        made = compiled(work, options.arch)
        if work.name == COMPARED:
            made += reference(options.arch)
        rows += made
        print("\n".join(row.text() for row in made), flush=True)
    kinds = {w.kind for w in chosen} if options.emulate else set()
    wrong = [f"{w.name}: {found}" for w in GPU_SMALL if w.kind in kinds and (found := emulated(w))]
    spilled = [f"{r.work} {r.kernel}" for r in rows if r.spill_bytes or r.local_bytes]
    print(f"spills or tiles in memory: {', '.join(spilled) or 'none'}")
    if options.emulate:
        print(f"wrong on the emulator: {'; '.join(wrong) or 'none'}")
    if options.json:
        data = {"arch": options.arch, "rows": [asdict(row) for row in rows]}
        Path(options.json).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return int(bool(spilled or wrong))
