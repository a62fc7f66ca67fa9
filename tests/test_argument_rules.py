"""A rule about the arrays of a call is one row: checks, fast paths and files derive from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.codegen.numba_file import memory_checks
from schedlang.errors import CallError
from schedlang.ir import arguments
from schedlang.ir.arguments import RULES, ArrayRule
from schedlang.runtime.kernel import Kernel

ALIGNED = ArrayRule(
    "aligned", 0x100, "not aligned", "pass an aligned copy", "write into an aligned array"
)


def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    A = sl.placeholder((4,), name="A")
    B = sl.compute((4,), lambda i: A[3 - i] + 1, name="B")
    return sl.build(sl.schedule(B), target="python")


def unaligned() -> np.ndarray:
    array = np.zeros(17, "uint8")[1:].view("float32")
    assert not array.flags.aligned and array.flags.c_contiguous
    return array


@pytest.mark.parametrize("rule", [*RULES, ALIGNED], ids=lambda rule: rule.flag)
def test_the_bit_of_a_rule_is_that_of_its_flag(rule: ArrayRule) -> None:
    arrays = [np.zeros(4, "float32"), unaligned(), np.zeros((4, 4)).T[1:]]
    arrays[0].flags.writeable = False
    for array in arrays:
        assert bool(array.flags.num & rule.bit) == array.flags[rule.flag.upper()]
    assert len({array.flags[rule.flag.upper()] for array in arrays}) == 2


def test_a_new_rule_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # by the rules that stand, the memory need not be aligned
    np.testing.assert_array_equal(built(tmp_path, monkeypatch)(unaligned()), np.ones(4))
    monkeypatch.setattr(arguments, "RULES", (*RULES, ALIGNED))
    f = built(tmp_path, monkeypatch)
    given, out = np.arange(4, dtype="float32"), unaligned()
    assert f._fast_call is not None
    assert f._fast_call((given,)) is not None and f._fast_call((out,)) is None
    np.testing.assert_array_equal(f(given), [4, 3, 2, 1])
    with pytest.raises(CallError, match=r"argument 0 \(A.*is not aligned: pass an aligned copy"):
        f(out)
    with pytest.raises(CallError, match=r"B.*is not aligned: write into an aligned array"):
        f(given, out)


def test_files_check_a_new_rule() -> None:
    lines = memory_checks([*RULES, ALIGNED], lambda rule: f"flags.{rule.flag}")
    space: dict[str, object] = {}
    exec(f"def check(value, name, written):\n{lines}", space)
    check = space["check"]
    assert callable(check)
    check(np.zeros(4), "A", True)
    with pytest.raises(ValueError, match="A is not aligned: pass an aligned copy"):
        check(unaligned(), "A", False)
    read = np.zeros(4)
    read.flags.writeable = False
    check(read, "A", False)
    with pytest.raises(ValueError, match="A is read-only"):
        check(read, "A", True)
