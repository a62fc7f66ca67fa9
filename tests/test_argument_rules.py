"""A rule about the arrays of a call is one row: checks, fast paths and files derive from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.codegen.numba_file import array_checks
from schedlang.errors import CallError
from schedlang.ir import array_rules
from schedlang.ir.array_rules import RULES, ArrayRule
from schedlang.runtime.device_fast_call import device_fast_call
from schedlang.runtime.kernel import Kernel

ALIGNED = ArrayRule(
    "aligned", 0x100, "aligned", "not aligned", "pass an aligned copy",
    "write into an aligned array",
)  # fmt: skip


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
    monkeypatch.setattr(array_rules, "RULES", (*RULES, ALIGNED))
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
    lines = array_checks(lambda rule: f"flags.{rule.flag}", [*RULES, ALIGNED])
    space: dict[str, object] = {}
    exec(f"def check(value, name, written, dtype='float32', shape=(4,)):\n{lines}", space)
    check = space["check"]
    assert callable(check)
    check(np.zeros(4, "float32"), "A", True)
    with pytest.raises(ValueError, match="A is not aligned: pass an aligned copy"):
        check(unaligned(), "A", False)
    for other in (np.zeros(4), np.zeros(5, "float32")):
        with pytest.raises(TypeError, match=r"A must be a float32 array of shape \(4,\), got"):
            check(other, "A", False)
    read = np.zeros(4, "float32")
    read.flags.writeable = False
    check(read, "A", False)
    with pytest.raises(ValueError, match="A is read-only"):
        check(read, "A", True)


class There:
    """An array in a GPU's memory, at ``address``."""

    def __init__(self, address: int, **known: object) -> None:
        self.__cuda_array_interface__ = {
            "shape": (4,), "typestr": "<f4", "data": (address, False), "version": 3, **known
        }  # fmt: skip


def test_calls_on_a_gpu_follow_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = built(tmp_path, monkeypatch)
    bind = device_fast_call(f.signature, [4, 4])
    assert bind is not None and bind([There(64), There(128)]) is not None
    read_only: dict[str, object] = {"data": (64, True)}
    assert bind([There(0, **read_only), There(128)]) is not None
    assert bind([There(128), There(0, **read_only)]) is None
    assert bind([There(64, strides=(8,)), There(128)]) is None
    # a rule that an interface cannot tell leaves all calls to the full checks
    monkeypatch.setattr(array_rules, "RULES", (*RULES, ALIGNED))
    assert device_fast_call(f.signature, [4, 4]) is None
    aligned = replace(ALIGNED, interface=lambda known: known["data"][0] % 128 == 0)
    monkeypatch.setattr(array_rules, "RULES", (*RULES, aligned))
    bind = device_fast_call(f.signature, [4, 4])
    assert bind is not None and bind([There(128), There(256)]) is not None
    assert bind([There(64), There(128)]) is None
