"""Tests of a target's datapath width, and of its use by the cost model."""

from __future__ import annotations

import pytest

import schedlang as sl
from schedlang import host
from schedlang.autotune.costs.estimate import estimate
from schedlang.autotune.runner.task import target_data, target_from
from schedlang.errors import BuildError


@pytest.mark.parametrize(("vendor", "family", "model", "flags", "widths"), [
    ("AuthenticAMD", 25, 97, "avx2 avx512f", (64, 32)),
    ("AuthenticAMD", 25, 17, "avx2 avx512f", (64, 32)),
    ("AuthenticAMD", 25, 33, "avx2", (32, 32)),
    ("AuthenticAMD", 26, 68, "avx2 avx512f", (64, 64)),
    ("AuthenticAMD", 26, 36, "avx2 avx512f", (64, 32)),
    ("AuthenticAMD", 23, 1, "avx2", (32, 16)),
    ("AuthenticAMD", 23, 49, "avx2", (32, 32)),
    ("GenuineIntel", 6, 143, "avx2 avx512f", (64, 64)),
    ("GenuineIntel", 6, 158, "avx2", (32, 32)),
])  # fmt: skip
def test_the_datapath_of_a_machine(
    vendor: str, family: int, model: int, flags: str, widths: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    facts = {"vendor_id": vendor, "cpu family": str(family), "model": str(model), "flags": flags}
    monkeypatch.setattr(host, "_cpu_facts", lambda: facts)
    monkeypatch.setattr(host.platform, "machine", lambda: "x86_64")
    made = sl.Target("cpu")
    assert (made.vector_bytes, made.datapath_bytes) == widths
    assert made.passes == widths[0] // widths[1]


def test_another_vector_width_is_computed_in_one_pass() -> None:
    assert sl.Target("cpu", vector_bytes=16).passes == 1
    assert sl.Target("cpu", vector_bytes=32, datapath_bytes=64).datapath_bytes == 32
    assert (
        target_from(target_data(sl.Target("cpu", vector_bytes=64, datapath_bytes=32))).passes == 2
    )
    with pytest.raises(BuildError, match="datapath_bytes=24"):
        sl.Target("cpu", datapath_bytes=24)


def test_vectors_in_two_passes_cost_twice() -> None:
    """The same compute-bound nest costs twice as much on a datapath of half the register width."""
    A = sl.placeholder((64, 64), name="A")
    C = sl.compute((64, 64), lambda i, j: sl.exp(A[i, j] * A[i, j] + A[j, i]), name="C")
    s = sl.schedule(C)
    s[C].vectorize(C.op.axis[1])
    nest = sl.lower(s)
    full, half = (
        estimate(nest, sl.Target("cpu", vector_bytes=64, datapath_bytes=n), 1) for n in (64, 32)
    )
    assert 1.5 < half.seconds / full.seconds <= 2.0
    plain = sl.lower(sl.schedule(C))
    one, two = (
        estimate(plain, sl.Target("cpu", vector_bytes=64, datapath_bytes=n), 1) for n in (64, 32)
    )
    assert one == two
