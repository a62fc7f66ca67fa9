"""Trials of instructions: what the cache folder keeps, what counts as assembly, and time limits."""

from __future__ import annotations

from pathlib import Path
from platform import machine
from typing import Any

import pytest

import schedlang as sl
from schedlang.__main__ import main
from schedlang.errors import BuildError, CacheWarning
from schedlang.instructions import Assembly, CSnippet, MemoryFunction
from schedlang.runtime import c_trial
from schedlang.runtime.kept_trials import Trial, kept_trial
from schedlang.runtime.llvm import trial
from schedlang.targets.instruction_trials import COMPILERS, is_unchecked

HEAD = "int own(const float *a, float *c, const int64_t *sizes) {"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a cache folder of its own."""
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Run:
    """A trial that counts how often it ran."""

    def __init__(self, result: Trial) -> None:
        self.result, self.times = result, 0

    def __call__(self) -> Trial:
        self.times += 1
        return self.result


@pytest.mark.parametrize("illegal", [False, True])
def test_a_trial_runs_once(illegal: bool, folder: Path) -> None:
    run = Run(Trial("vpaddd", is_illegal=illegal))
    assert kept_trial(["own", 1], run) == kept_trial(["own", 1], run) == run.result
    assert run.times == 1
    kept_trial(["own", 2], run)
    assert run.times == 2 and len(list(folder.glob("kernels/*.trial"))) == 2


@pytest.mark.parametrize(
    "result",
    [Trial("", "unknown mnemonic"), Trial("", timeout=60.0), Trial("vpaddd", complete=False)],
    ids=["refused", "late", "ended otherwise"],
)
def test_what_may_end_otherwise_is_not_kept(result: Trial) -> None:
    run = Run(result)
    assert kept_trial(["own"], run) == kept_trial(["own"], run) == result
    assert run.times == 2


def test_a_damaged_or_cleared_trial_runs_again(folder: Path) -> None:
    run = Run(Trial("vpaddd"))
    kept_trial(["own"], run)
    (path,) = folder.glob("kernels/*.trial")
    path.write_bytes(path.read_bytes().replace(b"false", b"true"))
    with pytest.warns(CacheWarning, match=f"trial of an instruction .*{path.name}.*made again"):
        assert kept_trial(["own"], run) == run.result
    assert main(["cache", "--clear"]) == 0
    assert kept_trial(["own"], run) == run.result and run.times == 3


def test_a_trial_without_a_cache_folder_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "file"))
    run = Run(Trial("vpaddd"))
    assert kept_trial(["own"], run) == kept_trial(["own"], run) == run.result
    assert run.times == 2


def declared(emit: Any, terms: int = 4) -> sl.Instruction:
    a = sl.placeholder((terms,), name="a")
    return sl.instruction("own", sl.compute((terms,), lambda i: a[i] * 2, name="c"), emit)


@pytest.mark.slow
@pytest.mark.skipif(machine() not in ("x86_64", "AMD64"), reason="ud2 is an instruction of x86")
@pytest.mark.parametrize("language", ["llvm", "c", "memory"])
def test_another_process_starts_no_child_for_a_first_run(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = declared({language: {
        "llvm": Assembly("ud2", "=x,x", ("f32x4",)),
        "c": CSnippet('__asm__("ud2" : "+x"(c));', dict.fromkeys("ca", "__m128"), "immintrin.h"),
        "memory": MemoryFunction(f'{HEAD} __asm__("ud2"); return 0; }}'),
    }[language]})  # fmt: skip

    def as_in_a_new_process() -> Trial:
        trial.compiled_alone.cache_clear()
        c_trial.run_by_c.cache_clear()
        return COMPILERS[language].trial(own)

    first = as_in_a_new_process()
    assert first.is_illegal

    def no_child(*arguments: Any, **options: Any) -> None:
        raise AssertionError(arguments)

    # the C compiler itself runs in each process
    if language == "llvm":
        monkeypatch.setattr(trial, "_in_a_child", no_child)
    else:
        monkeypatch.setattr(c_trial, "is_illegal", no_child)
    assert as_in_a_new_process() == first


def test_a_compiler_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "LONGEST", 1e-3)
    own = declared({"llvm": Assembly("addps $1, $0", "=x,x", ("f32x4",))})
    A = sl.placeholder((4,), name="A")
    C = sl.compute((4,), lambda i: A[i] * 2, name="C")
    s = sl.schedule(C)
    s[C].tensorize(C.op.axis[0], own)
    why = "LLVM took more than 0 s to write 'addps .*\n  Try again when other programs leave it a"
    with pytest.raises(BuildError, match=why):
        sl.build(s, [A, C])


@pytest.mark.parametrize(
    "source, expected",
    [
        ('__asm__ volatile("nop");', True),
        ("asm(\"nop\");", True),
        ("// no asm\n/* nor a target, \" or\n */ return 0;", False),
        ("// asm in a comment of two \\\n lines, asm\n", False),
        ('const char *s = "//"; asm("nop");', True),
        ("char q = '\"'; // asm\n char r = '\"';", False),
        ("#error don't\n/* asm */", False),
        ('_Pragma("GCC target(\\"avx2\\")")', True),
        ('__attribute__((__target__("avx2"))) int f(void);', True),
        ("int plasma, targets, x_asm;", False),
    ],
)  # fmt: skip
def test_a_comment_is_no_assembly(source: str, expected: bool) -> None:
    assert is_unchecked(source) is expected
