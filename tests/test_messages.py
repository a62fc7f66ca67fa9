"""Messages for newcomers give advice in the user's own names."""

from __future__ import annotations

import pickle
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import target as te_target
from schedlang.errors import (
    BoundsError,
    BuildError,
    CallError,
    CallTypeError,
    ComputeError,
    ComputeTypeError,
    LoweringError,
    MissingNameError,
    SchedlangError,
    ScheduleError,
)
from schedlang.runtime import devices


def two_stages() -> tuple[Any, Any, Any]:
    """Return ``B``, its reader ``C`` and a schedule; the axes of both are named ``i``."""
    A = sl.placeholder((8,), name="A")
    B = sl.compute((8,), lambda i: A[i] * 2, name="B")
    C = sl.compute((8,), lambda i: B[i] + 1, name="C")
    return B, C, sl.schedule(C)


@pytest.mark.parametrize("target", ["gpu", "tpu"])
def test_an_unknown_target_lists_the_known_ones(target: str) -> None:
    _, _, s = two_stages()
    known = '"cpu", "python", "c", "cuda", "cuda-emulator" or "opencl"'
    with pytest.raises(BuildError, match=f"choose {known}"):
        sl.build(s, target=target)


@pytest.mark.parametrize("target", [5, None, {"kind": "cuda"}, ["cpu"]])
def test_a_target_is_given_by_its_name(target: Any) -> None:
    with pytest.raises(BuildError, match=r"given by its name; choose \"cpu\", \"python\""):
        sl.Target(target)


@pytest.mark.parametrize("kind", ["cpu", "python", "cuda"])
@pytest.mark.parametrize("name", ["vector_bytes", "vector_registers", "datapath_bytes"])
@pytest.mark.parametrize("value", [None, "a", -5, 16.0, True, [16], np.array([16, 32])])
def test_numbers_of_a_target_are_checked(kind: str, name: str, value: Any) -> None:
    with pytest.raises(BuildError, match=rf"{name}=(.|\n)* must be a (.|\n)*; leave it out"):
        sl.Target(kind, **{name: value})


def test_a_target_string_of_te_keeps_its_architecture() -> None:
    for text in ("cuda -arch=sm_80", "cuda -libs=cudnn -arch sm_80", "nvptx -mcpu=sm_80"):
        assert sl.Target(text) == sl.Target("cuda", arch="sm_80")
    assert sl.Target.of("cuda-emulator -arch=sm_86").device.shared_opt_in == 99 * 1024
    assert sl.Target("llvm -libs=mkl -num-cores 4") == sl.Target("cpu")
    assert sl.Target("cuda -host='llvm -libs=mkl'") == sl.Target("cuda")
    assert sl.Target("cuda -mtriple=nvptx64-nvidia-cuda -keys=cuda,gpu") == sl.Target("cuda")


@pytest.fixture
def a_linux_machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def install(machine: str) -> None:
        monkeypatch.setattr(platform, "machine", lambda: machine)
        monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
        monkeypatch.setattr(sys, "platform", "linux")

    return install


OWN = [
    ("x86_64", "c --mtriple=x86_64-unknown-linux-gnu"),
    ("x86_64", "llvm -mtriple x86_64-pc-linux-gnu"),
    ("AMD64", "llvm -mtriple=x86_64"),
    ("x86_64", "llvm -mcpu=skylake-avx512 -mattr=+avx2,-neon -device=cpu -keys=cpu,x86"),
    ("aarch64", "llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -mattr=+neon"),
    ("arm64", "llvm -mtriple=aarch64-none-linux-gnu"),
]
OTHER = [
    ("x86_64", "python --mtriple=i686-pc-linux-gnu", "-mtriple"),
    ("x86_64", "llvm -mtriple=x86_64-pc-windows-msvc", "-mtriple"),
    ("x86_64", "llvm -mtriple=x86_64-linux-android", "-mtriple"),
    ("x86_64", "llvm -mtriple=x86_64-linux-gnux32", "-mtriple"),
    ("x86_64", "llvm -mtriple=x86_64-none-elf", "-mtriple"),
    ("x86_64", "llvm -mtriple=", "-mtriple"),
    ("x86_64", "cuda -mtriple=amdgcn-amd-amdhsa", "-mtriple"),
    ("x86_64", "llvm -mcpu=cortex-a72", "-mcpu"),
    ("aarch64", "llvm -mcpu=core-avx2", "-mcpu"),
    ("x86_64", "llvm -mattr=+neon", "-mattr"),
    ("aarch64", "llvm -mattr=+avx2,+fma", "-mattr"),
    ("x86_64", "llvm -device=arm_cpu", "-device"),
    ("x86_64", "llvm -keys=arm_cpu,cpu", "-keys"),
    ("aarch64", "cuda -device=mali", "-device"),
    ("x86_64", "llvm -mfloat-abi=soft", "-mfloat-abi"),
    ("x86_64", "cuda -host='llvm -mtriple=aarch64-linux-gnu'", "-mtriple"),
]


@pytest.mark.parametrize(("machine", "text"), OWN)
def test_a_target_string_may_name_this_machine(
    machine: str, text: str, a_linux_machine: Callable[[str], None]
) -> None:
    a_linux_machine(machine)
    assert sl.Target(text).kind == {"llvm": "cpu"}.get(text.split()[0], text.split()[0])


@pytest.mark.parametrize(("machine", "text", "option"), OTHER)
def test_a_target_string_may_not_name_another_machine(
    machine: str, text: str, option: str, a_linux_machine: Callable[[str], None]
) -> None:
    a_linux_machine(machine)
    where = "or run|for this machine" if option == "-mtriple" else "or run"
    with pytest.raises(BuildError, match=rf"Leave {option} out,? ({where})"):
        sl.Target(text)
    assert not devices.enabled(text)
    with pytest.raises(BuildError, match=f"Leave {option} out"):
        sl.build(two_stages()[-1], target=text)


@pytest.mark.parametrize("host", ["llvm -mtriple=riscv64-unknown-elf", "cuda", "arm"])
def test_the_host_of_a_target_is_this_machine(host: str) -> None:
    with pytest.raises(BuildError, match="Leave -mtriple out|leave host out|unknown target"):
        sl.Target("cuda", host=host)
    for call in (sl.build, sl.lower):
        with pytest.raises(BuildError, match="Leave -mtriple out|leave host out|unknown target"):
            call(two_stages()[-1], target_host=host)


def test_the_targets_of_te_take_options() -> None:
    assert te_target.llvm("-libs=mkl") == sl.Target("cpu")
    assert te_target.cuda(options=["-arch=sm_86"]).arch == "sm_86"
    with pytest.raises(BuildError, match="Leave -mtriple out"):
        te_target.llvm(["-libs=mkl", "-mtriple=riscv64-unknown-elf"])
    with pytest.raises(SchedlangError, match="kernels are built for this machine's CPU"):
        te_target.arm_cpu("rasp4b")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("cuda -arch=sm_12", "arch='sm_12'.*choose one of sm_80"),
        ("cuda -arch=", "arch=''.*choose one of sm_80"),
        ("cuda -arch=sm_9O", "arch='sm_9O'.*choose one of sm_80, .*; did you mean 'sm_90'"),
        ("cuda -mcpu sm90", "arch='sm90'.*choose one of sm_80, .*; did you mean 'sm_90'"),
        ("cuda -arch=sm_75", "kernels are built for sm_80 and later GPUs; choose one of sm_80"),
        ("llvm -arch=sm_80", "arch='sm_80'.*leave it out for cpu"),
        ("cuda -archs=sm_80", "unknown option '-archs'; leave it out"),
        ("cuda sm_80", "unknown option 'sm_80'; leave it out"),
        ("llvm -libs='mkl", "quotation mark has no partner"),
        ("cpu vector_bytes=32", "unknown option 'vector_bytes'; leave it out"),
    ],
)
def test_an_option_of_a_target_string_is_checked(text: str, match: str) -> None:
    with pytest.raises(BuildError, match=match):
        sl.Target(text)


def test_an_architecture_is_given_once() -> None:
    assert sl.Target("cuda -arch=sm_80", arch="sm_80").arch == "sm_80"
    with pytest.raises(BuildError, match="already has -arch=sm_80; give the architecture once"):
        sl.Target("cuda -arch=sm_80", arch="sm_90")
    for arch in (None, 80, ["sm_80"]):
        with pytest.raises(BuildError, match="choose one of sm_80"):
            sl.Target("cuda", arch=arch)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["cuda", "cuda-emulator", "nvptx"])
def test_a_stage_without_threads_names_the_axis_to_bind(target: str) -> None:
    _, _, s = two_stages()
    with pytest.raises(BuildError, match=r"stage B is at root(.|\n)*none of its data axes"):
        sl.build(s, target=target)


@pytest.mark.parametrize(
    ("written", "meant"), [("placholder", "placeholder"), ("Schedul", "Schedule")]
)
def test_a_misspelt_name_gets_a_suggestion(written: str, meant: str) -> None:
    message = f"module 'schedlang' has no attribute '{written}'; did you mean '{meant}'"
    with pytest.raises(MissingNameError, match=message) as caught:
        getattr(sl, written)
    assert isinstance(caught.value, AttributeError)
    assert not hasattr(sl, "_placeholder") and not hasattr(sl.te, "placholder")


@pytest.mark.parametrize("target", ["cpu", "python"])
def test_an_attribute_of_gpu_kernels_names_what_a_cpu_kernel_has(target: str) -> None:
    from schedlang.runtime.emulated import GpuKernel
    from schedlang.runtime.kernel import Kernel

    _, _, s = two_stages()
    f = sl.build(s, target=target)
    for name in sorted(set(dir(GpuKernel)) - set(dir(Kernel))):
        if name.startswith("_"):
            continue
        why = f"{name} of kernel C: only kernels for GPUs have it, .* built for target=.{target}."
        with pytest.raises(MissingNameError, match=rf"{why}.*\n  [A-Z]") as caught:
            getattr(f, name)
        assert isinstance(caught.value, AttributeError)
    with pytest.raises(MissingNameError, match=r"\.unproven lists the rules"):
        f.check  # noqa: B018
    with pytest.raises(MissingNameError, match=r"Read \.asm"):
        f.ptx  # noqa: B018


@pytest.mark.parametrize(
    ("name", "write"),
    [("run", "call it with arrays: f(*arrays)"), ("benchmark", "write sl.evaluate(f, *arrays)"),
     ("dtype", "f.signature.parameters"), ("as_python", "its schedule has: f.schedule.as_python"),
     ("soruce", "did you mean 'source'?"),
     ("vectorize", "vectorize is a step of a schedule, which a kernel no longer changes")],
)  # fmt: skip
def test_an_attribute_that_a_kernel_does_not_have(name: str, write: str) -> None:
    import copy
    import pickle

    _, _, s = two_stages()
    f = sl.build(s, target="python")
    with pytest.raises(MissingNameError, match=f"^kernel C has no attribute '{name}'") as caught:
        getattr(f, name)
    assert write in str(caught.value)
    # copying asks an object without its data for attributes
    assert copy.copy(f).source == pickle.loads(pickle.dumps(f)).source == f.source


def test_a_mistake_in_a_property_of_a_kernel_keeps_its_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise AttributeError("module 'numba' has no attribute 'core'")

    _, _, s = two_stages()
    monkeypatch.setattr("schedlang.runtime.llvm.printed.code_of", broken)
    with pytest.raises(AttributeError, match="^module 'numba' has no attribute 'core'$"):
        sl.build(s).asm  # noqa: B018


@pytest.mark.parametrize(
    ("name", "write"),
    [("where", "sl.select(condition, a, b)"), ("relu", "sl.max(x, 0)"), ("mean", "sl.sum(A[i, k]"),
     ("clip", "sl.min(sl.max(x, low), high)"), ("maximum", "sl.max(a, b)"),
     ("compile", "sl.build(s, args)")],
)  # fmt: skip
def test_a_name_of_another_library_gets_its_equivalent(name: str, write: str) -> None:
    with pytest.raises(MissingNameError, match=f"schedlang has no sl.{name}: write ") as caught:
        getattr(sl, name)
    assert write in str(caught.value) and not hasattr(sl, name)


def test_a_primitive_of_halide_gets_its_equivalent() -> None:
    B, _, s = two_stages()
    with pytest.raises(MissingNameError, match=r"'reorder_storage': use s\[B\]\.transform_layout"):
        s[B].reorder_storage()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("s[C].axis", "s[C].op.axis"), ("s[C].reduce_axis", "s[C].op.reduce_axis"),
        ("s[C].splt", "did you mean 'split'"), ("C.axis", "C.op.axis"),
        ("C.split(i, 4)", "methods of s[C], where s = sl.schedule(C)"), ("C.cost()", "sl.cost(C)"),
        ("C.graph()", "sl.graph(C)"), ("C.shpe", "did you mean 'shape'"),
        ("s.cost()", "sl.cost(s)"), ("s.build()", "sl.build(s, args)"), ("s.latex()", "C.latex()"),
        ("s.split(i, 4)", "s[T].split"),
        ("s.groups", "s.stages has all stages"),
        ("s.stage_map", "s[T] for the stage"),
        ("s[C].rolling_buffer()", "store_at(s[C], outer)"),
    ],
)  # fmt: skip
def test_a_name_in_the_wrong_place_gets_the_right_one(written: str, meant: str) -> None:
    _, C, s = two_stages()
    with pytest.raises(MissingNameError) as caught:
        eval(written, {"s": s, "C": C, "i": C.op.axis[0]})
    assert meant in str(caught.value)


def test_a_stage_with_a_dot_in_its_name_is_quoted() -> None:
    _, C, s = two_stages()
    L = s.cache_write(C, "local")
    with pytest.raises(ScheduleError) as caught:
        s[L].vectorize(C.op.axis[0])
    assert 'The i of C.local is s["C.local"].op.axis[0].' in str(caught.value)
    assert s["C.local"].op.axis[0] is s[L].op.axis[0]


def test_an_axis_that_rfactor_replaced() -> None:
    A = sl.placeholder((8,), name="A")
    k = sl.reduce_axis(8, name="k")
    S = sl.compute((), lambda: sl.sum(A[k], axis=k), name="S")
    s = sl.schedule(S)
    _, lanes = s[S].split(k, factor=4)
    P = s.rfactor(S, lanes)
    with pytest.raises(ScheduleError) as caught:
        s[P].vectorize(lanes)
    assert 'is s["S.rf"].op.axis[0].' in str(caught.value)
    assert "rfactor, cache_write and cache_read make stages with new axes" in str(caught.value)


def test_several_axes_where_one_is_needed() -> None:
    _, C, s = two_stages()
    with pytest.raises(ScheduleError, match="Give one axis, not a tuple of them"):
        s[C].vectorize(C.op.axis)


def test_an_output_of_another_dtype_is_not_to_be_converted() -> None:
    _, C, s = two_stages()
    f = sl.build(s, target="python")
    with pytest.raises(CallTypeError, match="pass an array of float32 to write into"):
        f(np.ones(8, "float32"), np.zeros(8))


def test_missing_arguments_are_listed() -> None:
    n = sl.var("n")
    A = sl.placeholder((8,), name="A")
    B = sl.compute((n // 2,), lambda i: A[i % 8], name="B")
    with pytest.raises(LoweringError, match=r"A is missing .* inputs and outputs: \[A, B\]"):
        sl.build(sl.schedule(B), [B])
    with pytest.raises(LoweringError, match=r"give n itself, as in \[n, A, B\]"):
        sl.build(sl.schedule(B), [A, B])


@pytest.mark.parametrize("host", ["twice", "cuda"])
def test_a_name_is_no_target_host(host: str) -> None:
    _, C, s = two_stages()
    with pytest.raises(BuildError, match=f"to name the kernel, write .*name='{host}'"):
        sl.build(s, None, "llvm", host)
    assert sl.build(s, None, "python", "llvm", name="twice").name == "twice"


@pytest.mark.parametrize("fastmath", ["all", 1, None, {"contract"}])
def test_fastmath_is_true_or_false(fastmath: object) -> None:
    _, _, s = two_stages()
    with pytest.raises(BuildError, match="is neither True nor False"):
        sl.build(s, fastmath=fastmath)


def test_axes_of_equal_name_are_distinguished_by_stage() -> None:
    B, C, s = two_stages()
    with pytest.raises(ScheduleError) as caught:
        s[B].compute_at(s[C], s[B].op.axis[0])
    assert str(caught.value) == (
        "compute_at(C, i) on stage B: i belongs to stage B\n"
        "  The loops of C: i. The i of C is s[C].op.axis[0]."
    )


def test_an_axis_of_a_copy_is_not_the_schedules_own() -> None:
    _, C, s = two_stages()
    twin = s.copy()
    _, lanes = twin[C].split(twin[C].op.axis[0], factor=4)
    s[C].split(s[C].op.axis[0], factor=4)
    with pytest.raises(ScheduleError) as caught:
        s[C].vectorize(lanes)
    assert str(caught.value) == (
        "vectorize(i.inner) on stage C: i.inner belongs to no stage of this schedule\n"
        "  The loops of C: i.outer, i.inner. The i.inner of C is s[C].leaf_axes[1].\n"
        "  rfactor, cache_write and cache_read make stages with new axes; axes of another "
        "schedule, or of a copy, are not axes of this one."
    )


def test_an_empty_schedule_has_no_step_to_show() -> None:
    _, _, s = two_stages()
    with pytest.raises(ScheduleError, match=r"^diff\(0\): the schedule has no steps$"):
        s.diff(0)
    with pytest.raises(ScheduleError, match=r"the schedule has no steps$"):
        s.diff()
    with pytest.raises(ScheduleError, match=r"^at\(1\): the schedule has no steps\n  Give 0\.$"):
        s.at(1)


def test_one_dimension_is_written_as_a_tuple() -> None:
    B, C, s = two_stages()
    with pytest.raises(BoundsError, match=r"Its shape is \(8,\)"):
        sl.compute((8,), lambda i: B[i, i], name="D")
    with pytest.raises(ScheduleError, match=r"^transform_layout\(\(i%3,\)\) on stage B"):
        s[B].transform_layout(lambda i: (i % 3,))
    assert repr(C) == "Tensor(C: float32[8])"


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("lanes", [False, True])
def test_a_gather_out_of_bounds_names_its_array(dtype: str, lanes: bool) -> None:
    A = sl.placeholder((40,), dtype, name="A")
    rows = sl.placeholder((4,), "int32", name="rows")
    T = sl.compute((40,), lambda t: A[t] + 1, name="T")
    G = sl.compute((4,), lambda i: T[rows[i]] + A[i], name="G")
    s = sl.schedule(G)
    s[T].compute_at(s[G], s[G].op.axis[0]) if not lanes else s[G].vectorize(s[G].op.axis[0])
    f = sl.build(s, target="python")
    with pytest.raises(BoundsError, match="^kernel G: .* at offset.* of T, an array of 40 elem"):
        f(np.ones(40, dtype), np.array([0, 1, 2, 40], "int32"))


def test_the_oracle_refuses_a_gather_beyond_a_row() -> None:
    A = sl.placeholder((4, 5), name="A")
    B = sl.placeholder((3,), "int32", name="B")
    C = sl.compute((3,), lambda i: A[0, B[i]], name="C")
    a, b = np.arange(20, dtype="float32").reshape(4, 5), np.array([0, 1, 7], "int32")
    assert list(sl.build(sl.schedule(C), target="python")(a, b)) == [0, 1, 7]
    with pytest.raises(
        BoundsError,
        match=r"A\[0, B\[i\]\]: index 1 is 7, but A .* has extent 5 "
        r"there",
    ):
        sl.reference(C)(a, b)


@pytest.mark.parametrize(
    ("given", "write"),
    [("i", "Write s[C].op.axis[0]."), (0, "Write s[C].op.axis[0] instead of 0."),
     (-1, "Write s[C].op.axis[0] instead of -1."), (1, ""), (True, ""), ("j", "")],
)  # fmt: skip
def test_an_axis_that_is_given_by_name_or_number(given: Any, write: str) -> None:
    _, C, s = two_stages()
    with pytest.raises(ScheduleError) as caught:
        s[C].vectorize(given)
    assert str(caught.value).splitlines()[1] == f"  The loops of C: i. {write}".rstrip()


def test_a_split_axis_is_named_by_its_leaf() -> None:
    _, C, s = two_stages()
    s[C].split(s[C].op.axis[0], factor=4)
    with pytest.raises(ScheduleError, match=r"Write s\[C\]\.leaf_axes\[1\]\."):
        s[C].vectorize("i.inner")


@pytest.mark.parametrize(
    ("call", "write"),
    [
        (lambda s, B, C: sl.build(s, "llvm"), 'list of tensors; write sl.build(s, target="llvm")'),
        (lambda s, B, C: sl.build(s, sl.Target()), "write sl.build(s, target=Target(...))"),
        (lambda s, B, C: sl.build(s, B, C), "one list; write sl.build(s, [B, C])"),
        (lambda s, B, C: sl.build(s, B), "one list; write sl.build(s, [B])"),
        (lambda s, B, C: sl.lower(s, B, C), "one list; write sl.lower(s, [B, C])"),
        (lambda s, B, C: sl.lower(s, "llvm"), 'sl.lower(s, "llvm"): args must be a list of '
                                              'tensors'),
    ],
)  # fmt: skip
def test_arguments_are_a_list(call: Any, write: str) -> None:
    B, C, s = two_stages()
    with pytest.raises(ComputeTypeError) as caught:
        call(s, B, C)
    assert str(caught.value).endswith(write)


def test_the_message_names_the_function_that_was_called() -> None:
    A = sl.placeholder((8,), name="A")
    for call, name in ((sl.schedule, "sl.schedule"), (sl.autotune, "autotune"), (sl.best, "best")):
        with pytest.raises(ComputeError, match=rf"^{name}\(A\): A is an input and has nothing to"):
            call(A)
    with pytest.raises(
        ComputeTypeError,
        match=r"^best\('Y'\): 'Y' is not a tensor; give tensors "
        r"that sl\.compute",
    ):
        sl.best("Y")


@pytest.mark.parametrize("size", [33, 24, -16, 32.0, True, "32"])
def test_vectors_have_a_power_of_two_of_bytes(size: Any) -> None:
    with pytest.raises(BuildError, match=f"vector_bytes={size!r}.*a power of two, such as 16, 32"):
        sl.Target("cpu", vector_bytes=size)
    assert sl.Target("cpu", vector_bytes=128).vector_width("float32") == 32


def test_a_tensor_is_not_assigned_to() -> None:
    A = sl.placeholder((8,), name="A")
    for assign in (lambda i: A.__setitem__(i, 1.0), lambda i: A.__setitem__(0, A[0] + 1)):
        match = r"(?s)A\[\.\.\.\] = .*is not written to.*sl\.scatter"
        with pytest.raises(ComputeTypeError, match=match):
            sl.compute((8,), assign, name="B")


def test_a_symbolic_length_is_not_an_integer() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    with pytest.raises(ComputeTypeError, match=r"known only at the call; write A\.shape\[0\]"):
        len(A)
    assert len(sl.placeholder((8,), name="B")) == 8


def test_a_size_divided_by_a_slash_gets_the_whole_division() -> None:
    n = sl.var("n")
    with pytest.raises(ComputeTypeError, match="divide with //, which gives n//2"):
        sl.compute((n / 2,), lambda i: i, name="half")


def test_an_axis_that_was_split_names_what_it_became() -> None:
    _, C, s = two_stages()
    s[C].split(C.op.axis[0], factor=4)
    with pytest.raises(ScheduleError, match=r"Use i.outer, i.inner, the axes that it returned\. "):
        s[C].parallel(C.op.axis[0])


@pytest.mark.parametrize(
    ("rows", "index", "message"),
    [
        ("n", "n", r"C reads X\[n\]: index 0 is n, but X of shape \(n,\) has extent n there\n"
                   r"  The last index is n - 1\."),
        ("n", "n + i", r"C reads X\[n \+ i\]: index 0 takes the values n\.\.n\*2 - 1, but X of "
                       r"shape \(n,\)(.|\n)*Clamp the index with sl\.min\(n \+ i, n - 1\)"),
        ("n", "i + 1", r"takes the values 1\.\.n, but X"),
        ("n + 1", "i", r"takes the values 0\.\.n, but X"),
        ("n", "n - i", r"takes the values 1\.\.n, but X"),
    ],
)  # fmt: skip
def test_a_read_that_no_size_allows_is_refused_at_compute(
    rows: str, index: str, message: str
) -> None:
    n = sl.var("n")
    X = sl.placeholder((n,), name="X")
    with pytest.raises(BoundsError, match=message):
        sl.compute(
            (eval(rows, {"n": n}),), lambda i: X[eval(index, {"n": n, "i": i})] * 2, name="C"
        )


@pytest.mark.parametrize("index", ["2*i", "n - 1 - i", "m", "m - i", "(i + 1)//2", "i*m"])
def test_a_read_that_some_size_allows_is_accepted(index: str) -> None:
    n, m = sl.var("n"), sl.var("m")
    X = sl.placeholder((n,), name="X")
    sl.compute((n,), lambda i: X[eval(index, {"n": n, "m": m, "i": i})], name="C")
    sl.compute((n,), lambda i: sl.if_then_else(i + 1 < n, X[i + 1], 0.0), name="D")


def test_a_recurrence_without_a_scan_names_it() -> None:
    S = sl.placeholder((8,), name="S")
    step = sl.compute((8,), lambda t: S[t - 1] + 1, name="step")
    with pytest.raises(BoundsError, match=r"this is a recurrence: write sl\.scan\(init, step, S\)"):
        sl.schedule(step)


def product() -> tuple[Any, np.ndarray, np.ndarray]:
    """Return a kernel that takes ``W`` before ``I``, and arrays for ``I`` and ``W``."""
    images, weights = sl.placeholder((8, 6), name="I"), sl.placeholder((6, 4), name="W")
    k = sl.reduce_axis(6, name="k")
    C = sl.compute((8, 4), lambda i, j: sl.sum(images[i, k] * weights[k, j], axis=k), name="C")
    f = sl.build(sl.schedule(C), [weights, images, C], target="python")
    return f, np.ones((8, 6), "float32"), np.ones((6, 4), "float32")


def test_arguments_in_another_order_are_told_the_order() -> None:
    f, images, weights = product()
    with pytest.raises(CallError, match="dimension 0 must be 6\n  The arguments fit in another "
                                        "order: the kernel takes W, I, in that order"):  # fmt: skip
        f(images, weights)
    with pytest.raises(CallError, match="the kernel takes W, I, C, in that order"):
        f(np.zeros((8, 4), "float32"), weights, images)
    assert f(weights, images).shape == (8, 4)
    for wrong in ((weights, weights), (images, images), (images, np.ones((6, 5), "float32"))):
        with pytest.raises(CallError) as caught:
            f(*wrong)
        assert "order" not in str(caught.value)
    with pytest.raises(CallError) as caught:
        f(W=images, I=weights)
    assert "order" not in str(caught.value)


def test_a_scalar_before_its_array_is_told_the_order() -> None:
    n, alpha = sl.var("n"), sl.var("alpha", "float32")
    X = sl.placeholder((n,), name="X")
    Y = sl.compute((n,), lambda i: X[i] * alpha, name="Y")
    f = sl.build(sl.schedule(Y), [X, alpha, Y], target="python")
    x = np.ones(4, "float32")
    for scalar in (2, 2.0):
        with pytest.raises(CallTypeError, match="the kernel takes X, alpha, in that order"):
            f(scalar, x)
    with pytest.raises(CallTypeError, match="The size n is found from the shapes of the arrays"):
        f(4, x, 2.0)


def test_a_size_that_shapes_give_is_not_passed() -> None:
    n = sl.var("n")
    X = sl.placeholder((n,), name="X")
    Y = sl.compute((n,), lambda i: X[i] * 2, name="Y")
    f, x = sl.build(sl.schedule(Y), [X, Y], target="python"), np.ones(4, "float32")
    message = r"The size n is found from the shapes of the arrays and is not passed: the kernel "
    calls: list[tuple[tuple[Any, ...], dict[str, int]]] = [
        ((4, x), {}), ((x, 4), {}), ((n, x), {}), ((x, x.copy(), 4), {}), ((np.int64(4), x), {}),
        ((x,), {"n": 4}),
    ]  # fmt: skip
    for args, named in calls:
        with pytest.raises(CallTypeError, match=message + "takes X, Y"):
            f(*args, **named)
    with pytest.raises(CallTypeError) as caught:
        f(x, 2.5)
    assert "size" not in str(caught.value)
    with pytest.raises(CallTypeError, match=r"X has shape \(n,\), got 4: pass an array; the shapes "
                                            r"of the arrays give n"):  # fmt: skip
        sl.reference(Y)(4, x)
    with pytest.raises(CallTypeError, match=r"the arguments are X: float32\[n\]; the shapes of the "
                                            r"arrays give n"):  # fmt: skip
        sl.reference(Y)(x, 4)
    g = sl.build(sl.schedule(Y), [n, X, Y], target="python")
    np.testing.assert_array_equal(g(4, x), x * 2)


def cut(extent: Any, n: Any, reduced: bool) -> tuple[Any, Any]:
    """Return a schedule that cuts the tail of an axis of ``extent``, and its output."""
    A = sl.placeholder((n,), name="A")
    if reduced:
        k = sl.reduce_axis(extent, name="i")
        C = sl.compute((), lambda: sl.sum(A[k], axis=k), name="C")
    else:
        C = sl.compute((extent,), lambda i: A[i] * 2, name="C")
    s = sl.schedule(C)
    s[C].split(k if reduced else C.op.axis[0], factor=8, tail="cut")
    return s, C


@pytest.mark.parametrize("reduced", [False, True])
def test_the_remedy_for_an_extent_that_may_be_negative(reduced: bool) -> None:
    n = sl.var("n")
    advice = r"Give i the extent sl\.max\(n - 3, 0\), or use tail='guard'"
    with pytest.raises(ScheduleError, match=rf"n - 3, may be negative(.|\n)*{advice}"):
        cut(n - 3, n, reduced)
    s, C = cut(sl.max(n - 3, 0), n, reduced)
    f = sl.build(s, target="python")
    for size in (0, 2, 3, 10, 11, 12, 30):
        a = np.arange(size, dtype="float32")
        np.testing.assert_array_equal(f(a), sl.reference(C)(a))


def test_a_negative_extent_at_a_call_names_the_remedy() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")

    def made(extent: Any) -> Any:
        return sl.compute((extent,), lambda i: A[i] * 2, name="C")

    a = np.ones(2, "float32")
    for call in (sl.build(sl.schedule(made(n - 3)), target="python"), sl.reference(made(n - 3))):
        with pytest.raises(CallError, match=r"write .* as sl\.max\(n - 3, 0\) to get an empty "):
            call(a)
    clamped = made(sl.max(n - 3, 0))
    assert sl.build(sl.schedule(clamped), target="python")(a).shape == (0,)
    assert sl.reference(clamped)(a).shape == (0,)
    for make in (sl.placeholder, sl.reduce_axis):
        with pytest.raises(ComputeError, match=r"is -1, .* write max\(extent, 0\) where the dim"):
            make(8 - 9)


def cumulated(rows: Any, first: int) -> Any:
    """Return the running sum of ``X``, of which ``first`` rows are 0."""
    X, S = sl.placeholder((rows,), name="X"), sl.placeholder((rows,), name="S")
    init = sl.compute((first,), lambda t: 0.0, name="init")
    step = sl.compute((rows,), lambda t: S[t - 1] + X[t], name="step")
    return sl.scan(init, step, S, inputs=[X], name="total")


def test_a_scan_of_too_few_rows() -> None:
    with pytest.raises(ComputeError, match=r"init has more rows \(3\) than state S \(2\): sl"):
        cumulated(2, 3)
    assert cumulated(2, 2).shape == (2,)
    f = sl.build(sl.schedule(cumulated(sl.var("n"), 2)), target="python")
    np.testing.assert_array_equal(f(np.ones(4, "float32")), [0, 0, 1, 2])
    for kernel in (f, pickle.loads(pickle.dumps(f))):
        with pytest.raises(CallError, match="where n=1: scan total would have 1 row, but its init "
                                            "init has 2\n  Choose sizes for which n is at "
                                            "least 2"):  # fmt: skip
            kernel(np.ones(1, "float32"))


def test_a_computation_that_reads_itself_is_told_of_scan() -> None:
    X = sl.placeholder((8,), name="X")

    def closure() -> None:
        total = sl.compute((8,), lambda i: total[i - 1] + X[i], name="T")

    with pytest.raises(
        ComputeError,
        match=r"for T: its function reads total, which has no value "
        r"yet\n  If total is this tensor.*write sl\.scan\(",
    ):
        closure()
    code = "T = sl.compute((8,), lambda i: T[i - 1] + X[i], name='T')"
    with pytest.raises(ComputeError, match=r"its function reads T, .*\n.*write sl\.scan\("):
        exec(code, {"sl": sl, "X": X})
    with pytest.raises(NameError, match="name 'Y' is not defined"):
        exec(code.replace("T[", "Y["), {"sl": sl, "X": X})


@pytest.mark.parametrize(
    ("steps", "use"),
    [
        ("s[C].split(s[C].leaf_axes[1], factor=2)",
         "Use the loops that later steps made of it: i.outer, i.inner.outer, i.inner.inner. The "
         "loops of C, s[C].leaf_axes: i.outer, i.inner.outer, i.inner.inner."),
        ("s[C].reorder(*s[C].leaf_axes[::-1])",
         "Use i.outer, i.inner, the axes that it returned. The loops of C, s[C].leaf_axes: "
         "i.inner, i.outer."),
        ("s[C].fuse(*s[C].leaf_axes)",
         "Use the loops that later steps made of it: i.outer.i.inner.fused. The loops"),
    ],
)  # fmt: skip
def test_an_axis_that_was_split_further_names_the_loops_that_are_left(steps: str, use: str) -> None:
    _, C, s = two_stages()
    s[C].split(C.op.axis[0], factor=4)
    eval(steps, {"s": s, "C": C})
    with pytest.raises(ScheduleError) as caught:
        s[C].vectorize(C.op.axis[0])
    assert use in str(caught.value)


@pytest.mark.parametrize("extent", [1000, 20, 7])
@pytest.mark.parametrize("step", ["vectorize", "parallel"])
def test_partial_results_of_a_whole_reduction_are_a_part_of_it(step: str, extent: int) -> None:
    A = sl.placeholder((4, extent), name="A")
    k = sl.reduce_axis(extent, name="k")
    top = sl.compute((4,), lambda i: sl.max(A[i, k], axis=k), name="top")
    s = sl.schedule(top)
    with pytest.raises(ScheduleError, match="partial sums before any other step on top") as caught:
        getattr(s[top], step)(k)
    names = {"s": s, "top": top}
    exec("\n".join(x.strip() for x in str(caught.value).splitlines() if " = s" in x), names)
    made: Any = names["topF"]
    parts = made.op.axis[0]
    assert parts.extent * parts.extent <= extent  # not a copy of what is reduced
    getattr(s[made], step)(parts)
    a = np.random.default_rng(0).random((4, extent), "float32")
    np.testing.assert_array_equal(sl.build(s, target="python")(a), a.max(1))


def test_a_record_of_a_schedule_is_no_schedule(tmp_path: Path) -> None:
    A = sl.placeholder((8,), name="A")
    B = sl.compute((8,), lambda i: A[i] + 1, name="B")
    best = sl.autotune(B, "python", trials=1, progress=False, database=tmp_path / "t.jsonl")
    with pytest.raises(ComputeTypeError, match="must be a schedule, its .schedule$"):
        sl.build(best)


@pytest.mark.parametrize(("call", "text"), [
    (lambda C, s: sl.autotune(C, trails=3),
     r"^sl\.autotune\(\.\.\., trails=\.\.\.\): .* 'trails'; did you mean 'trials'\?"),
    (lambda C, s: sl.autoschedule(C, taget="c"), "'taget'; did you mean 'target'"),
    (lambda C, s: sl.network(C, taget="c"), "did you mean 'target'"),
    (lambda C, s: sl.build(s, taget="c"), r"^sl\.build .* 'taget'; did you mean 'target'"),
    (lambda C, s: sl.lower(s, simple_mod=True), "'simple_mod'; did you mean 'simple_mode'"),
    (lambda C, s: sl.schedule(output=C), "'output'; did you mean 'outputs'"),
    (lambda C, s: sl.schedule(), r"^sl\.schedule\(\.\.\.\): outputs is missing"),
    (lambda C, s: sl.jit(lambda x: x, taget="c"), "'taget'; did you mean 'target'"),
    (lambda C, s: sl.jit(cach_size=3), "'cach_size'; did you mean 'cache_size'"),
    (lambda C, s: sl.compute((3,), lambda i: i, nam="x"), "'nam'; did you mean 'name'"),
    (lambda C, s: sl.placeholder((3,), dtyp="int8"), "'dtyp'; did you mean 'dtype'"),
    (lambda C, s: sl.next_steps(s, taget="c"), "'taget'; did you mean 'target'"),
    (lambda C, s: sl.explain(s, taget="c"), "'taget'; did you mean 'target'"),
])  # fmt: skip
def test_an_argument_that_is_misspelt(call: Any, text: str) -> None:
    _, C, s = two_stages()
    with pytest.raises(TypeError, match=text) as caught:
        call(C, s)
    assert isinstance(caught.value, SchedlangError)


def test_an_operator_that_is_misspelt() -> None:
    from schedlang import topi

    with pytest.raises(AttributeError, match="'rleu'; did you mean 'relu'"):
        topi.nn.rleu(1)
