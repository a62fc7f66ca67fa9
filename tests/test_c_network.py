"""Networks saved as C programs: what they compute, their weights, hosts, threads, refusals."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.errors import NetworkError
from tests.graphs import product
from tests.networks import resnet

COMPILER = next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
RNG = np.random.default_rng(0)
# a condition of a kernel may be `i >= 1 & i < 10`, without the brackets that GCC suggests; and GCC
# does not see that a guarded loop writes what its guard lets through alone
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Wno-parentheses",
            "-Wno-maybe-uninitialized")  # fmt: skip


def layers(rows: Any, name: str, target: str = "cpu") -> tuple[sl.Network, list[np.ndarray]]:
    """Return a network of two dense layers, and the arrays of its weights."""
    X = sl.placeholder((rows, 24), name="X")
    V, W = sl.placeholder((18, 24), name="V"), sl.placeholder((5, 18), name="W")
    hidden = topi.nn.relu(sl.named("hidden", topi.nn.dense(X, V)))
    scores = sl.named("scores", topi.nn.dense(hidden, W))
    given = [RNG.standard_normal(t.shape).astype("float32") for t in (V, W)]
    return sl.network(scores, dict(zip((V, W), given)), name=name, target=target), given


def of_layers(x: np.ndarray, given: Sequence[np.ndarray]) -> np.ndarray:
    v, w = given
    return np.maximum(x @ v.T, 0) @ w.T


def built(folder: Path, *more: str, name: str = "run") -> Path:
    """Compile the files of a folder, without a warning, and return the program."""
    assert COMPILER is not None
    sources = map(str, folder.glob("*.c"))
    command = [COMPILER, *WARNINGS, "-O2", "-march=native", "-fwrapv", *more]
    linked = [*sources, "-lm", "-pthread", "-o", str(folder / name)]
    ran = subprocess.run([*command, *linked], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return folder / name


def run(program: Path, *args: str, code: int = 0) -> str:
    """Run a program in its folder, and return what it prints; check its code."""
    ran = subprocess.run([program, *args], cwd=program.parent, capture_output=True, text=True)
    assert ran.returncode == code, ran.stderr
    return ran.stdout + ran.stderr


def outputs_of(program: Path, args: Sequence[str], shape: Sequence[int], dtype: str) -> np.ndarray:
    """Return the file ``out`` that a program writes."""
    run(program, *args)
    return np.fromfile(program.parent / "out", dtype).reshape(shape)


def weights_in(path: Path) -> Mapping[str, np.ndarray]:
    """Return the weights of a file by their names, read as its format says."""
    content = path.read_bytes()
    magic, version, count, _, size, start, of = struct.unpack_from("<8sII16sQQQ", content)
    assert (magic, version, size) == (b"\x89SLW\r\n\x1a\n", 1, len(content) == start + of and size)
    at, arrays = 64, {}
    for _ in range(count):
        first, length, dtype, rank = struct.unpack_from("<QQII", content, at)
        *shape, letters = struct.unpack_from(f"<{rank}QI", content, at + 24)
        at += 28 + 8 * rank
        name = content[at : at + letters].decode()
        at += -(-(28 + 8 * rank + letters) // 8) * 8 - 28 - 8 * rank
        kind = {0x0220: "float32", 0x0608: "bool", 0x0040: "int64"}[dtype]
        elements = content[start + first : start + first + length]
        arrays[name] = np.frombuffer(elements, kind).reshape(shape)
        assert first % 64 == 0 and start % 64 == 0
    return arrays


def test_the_folder_and_its_weights(tmp_path: Path) -> None:
    net, _ = layers(3, "layers", "python")
    folder = net.save(tmp_path / "made" / "layers", target="c")
    files = {path.name for path in folder.iterdir()}
    assert files == {"layers.c", "layers.h", "layers.weights", "main.c", "Makefile"}
    stored = weights_in(folder / "layers.weights")
    assert stored.keys() == net.weights.keys()
    for name, array in net.weights.items():
        np.testing.assert_array_equal(stored[name], array)
    header = (folder / "layers.h").read_text()
    declared = "int layers_run(layers *net, const float *__restrict X, float *__restrict scores);"
    assert declared in header
    assert "-fwrapv" in header and "-fwrapv" in (folder / "Makefile").read_text()
    again = net.save(tmp_path / "again", target="c")
    for name in files:
        assert (again / name).read_bytes() == (folder / name).read_bytes()


@needs_compiler
def test_a_program_of_c_runs_it(tmp_path: Path) -> None:
    X, w = sl.placeholder((5,), name="X"), sl.placeholder((5,), name="w")
    scaled = sl.compute((5,), lambda i: X[i] * w[i], name="scaled")
    folder = sl.network(scaled, {w: np.arange(5, dtype="float32")}, name="tiny", target="python")
    program = built(folder.save(tmp_path / "tiny", target="c"), "-O0")
    np.arange(10, dtype="float32").tofile(program.parent / "in")
    assert run(program, "tiny.weights", "in", "-") == "0 1 4 9 16\n0 6 14 24 36\n"


NAMES = ("double", "xor", "sem", "run", "SIZE", "real_t", "sl_net", "main", "exp", "alarm")


@pytest.mark.parametrize("name", NAMES)
def test_names_that_c_cannot_have_are_refused(name: str, tmp_path: Path) -> None:
    net, _ = layers(1, name, "python")
    with pytest.raises(NetworkError, match=f"network '{name}': its functions(?s:.*)name="):
        net.save(tmp_path / "net", target="c")
    assert not list(tmp_path.iterdir())


def host_function(name: str) -> sl.Network:
    X = sl.placeholder((4,), name="X")
    doubled = sl.extern((4,), [X], lambda a, out: np.copyto(out, a * 2), name=name)
    return sl.network(sl.compute((4,), lambda i: doubled[i] + 1, name="Y"), target="python")


def astray() -> sl.Network:
    x, idx = sl.placeholder((4,), name="x"), sl.placeholder((1,), "int64", name="idx")
    y = sl.scatter((4,), (1,), lambda k: (idx[k], x[k]), "sum", name="y")
    return sl.network(y, {idx: np.array([4])}, target="python")


def unwritten() -> sl.Network:
    n, m = sl.var("n"), sl.var("m")
    A, W = sl.placeholder((n,), name="A"), sl.placeholder((m,), name="W")
    C = sl.compute((n,), lambda i: W[sl.max(i, 4 - i)] + A[i], name="C")
    return sl.network(C, target="python")


REFUSED: dict[str, tuple[Any, str, str]] = {
    "function": (lambda: host_function("doubled"), "c", "it calls doubled, which is not C source"),
    "index": (astray, "c", "y updates .* the elements of idx lead it outside"),
    "sizes": (unwritten, "c", "a file cannot hold a condition that says which sizes are right"),
    "gpu": (lambda: layers(1, "g", "cuda-emulator")[0], "c", "a C program runs on a CPU"),
    "target": (lambda: layers(1, "g", "python")[0], "llvm", 'give target="c"'),
    "object": (lambda: layers(1, "g", "python")[0], sl.Target("c"), 'give target="c"'),
    "triple": (
        lambda: layers(1, "g", "python")[0], sl.Target("c", triple="wasm32-wasi"),
        r"sl\.network\(..., target=sl\.Target\(\"c\", triple='wasm32-wasi'\)\)",
    ),
    "text": (lambda: layers(1, "g", "python")[0], "c -mtriple=wasm32-wasi", "sl.network.*was"),
}


@pytest.mark.parametrize(("network", "target", "why"), REFUSED.values(), ids=REFUSED)
def test_refusals(network: Any, target: Any, why: str, tmp_path: Path) -> None:
    net = network()
    with pytest.raises(NetworkError, match=rf"save\(.*net', target=.*\)(?s:.*){why}"):
        net.save(tmp_path / "net", target=target)
    assert not list(tmp_path.iterdir())


def test_folders_are_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, _ = layers(1, "kept", "python")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.c").write_text("int mine;")
    (tmp_path / "file").write_text("")
    for path in ("full", "file"):
        with pytest.raises(NetworkError, match=f"{path}.*it exists already"):
            net.save(tmp_path / path, target="c")
    assert (tmp_path / "full" / "mine.c").read_text() == "int mine;"
    with pytest.raises(NetworkError, match="File exists|Not a directory"):
        net.save(tmp_path / "file" / "net", target="c")
    monkeypatch.chdir(tmp_path / "full")
    with pytest.raises(NetworkError, match="it is the current folder"):
        net.save(".", target="c")
    (tmp_path / "empty").mkdir()
    assert (net.save(tmp_path / "empty", target="c") / "kept.h").is_file()


@pytest.mark.slow
@needs_compiler
def test_a_resnet_with_mapped_weights_and_with_weights_that_are_read(tmp_path: Path) -> None:
    outputs, image, params = resnet([2, 2, 2, 2], size=32)
    folder = sl.network(outputs, params, name="resnet").save(tmp_path / "resnet", target="c")
    xs = RNG.random((2, *image.shape)).astype("float32")
    oracle = sl.reference(outputs)
    wanted = [oracle(*(params.get(t, x) for t in oracle.inputs)) for x in xs]
    for more in ((), ("-DSL_NO_MMAP",)):
        xs.tofile(folder / "in")
        program = built(folder, *more)
        y = outputs_of(program, ["resnet.weights", "in", "out"], (2, 1, 10), "float32")
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
        (folder / "in").write_bytes(xs.tobytes()[:-4])
        said = run(program, "resnet.weights", "in", "-", code=1).splitlines()
        assert len(said) == 2 and said[1] == "a file ends within an array"
        assert "No such file" in run(program, "resnet.weights", "other", "-", code=1)
        assert "usage: " in run(program, "resnet.weights", code=2)


@pytest.mark.slow
@needs_compiler
def test_symbolic_sizes_are_parameters(tmp_path: Path) -> None:
    """Sizes of a call place what is between the kernels; those that are too large are refused."""
    net, given = layers(sl.var("n"), "sized")
    folder = net.save(tmp_path / "sized", target="c")
    program = built(folder)
    for n in (1, 7, 64):
        x = RNG.standard_normal((n, 24)).astype("float32")
        x.tofile(folder / "in")
        y = outputs_of(program, ["sized.weights", "in", "out", str(n)], (n, 5), "float32")
        np.testing.assert_allclose(y, of_layers(x, given), rtol=1e-4, atol=1e-4)
    (folder / "main.c").write_text(
        """
#include <stdio.h>
#include "sized.h"
int main(void) {
  static const int64_t sizes[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX / 72, 1LL << 60, 1LL << 48};
  static float x[24], y[5];
  sized *net;
  if (sized_open("sized.weights", NULL, &net)) return 1;
  for (int k = 0; k < 6; k++) printf("%d ", sized_run(net, x, y, sizes[k]));
  printf("%d %s", sized_run(net, x, y, 0), sized_error(2));
  sized_close(net);
}
"""
    )
    said = run(built(folder, "-fsanitize=undefined", name="sizes"))
    # a workspace of that size is not there
    assert said == "2 2 2 2 2 1 0 it cannot run with these sizes"


@pytest.mark.slow
@needs_compiler
def test_two_networks_and_threads_in_one_program(tmp_path: Path) -> None:
    """Threads run two networks at once, one with the memory of a host, which has all of it back."""
    folder, given = tmp_path / "program", {}
    folder.mkdir()
    for name in ("one", "two"):
        net, given[name] = layers(4, name)
        saved = net.save(tmp_path / name, target="c")
        for file in (f"{name}.c", f"{name}.h", f"{name}.weights"):
            shutil.copy(saved / file, folder)
    (folder / "main.c").write_text(
        """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "one.h"
#include "two.h"
static float x[96], y[20], z[20];
static int live, failed;
static one *first;
static two *second;
static void *allocate(void *data, size_t bytes) {
  __atomic_add_fetch((int *)data, 1, __ATOMIC_RELAXED);
  /* memory may begin anywhere */
  char *p = malloc(bytes + 3);
  return p ? p + 3 : NULL;
}
static void release(void *data, void *memory) {
  __atomic_sub_fetch((int *)data, 1, __ATOMIC_RELAXED);
  free((char *)memory - 3);
}
static void *many(void *data) {
  float a[20], b[20];
  for (int k = 0; k < 2000; k++) {
    int codes = one_run(first, x, a) + two_run(second, x, b);
    if (codes || memcmp(a, y, sizeof a) || memcmp(b, z, sizeof b)) failed = 1;
  }
  return data;
}
int main(void) {
  FILE *file = fopen("in", "rb");
  if (!file || fread(x, 4, 96, file) != 96) return 2;
  fclose(file);
  schedlang_host host = {allocate, release, NULL, &live};
  if (one_open("one.weights", NULL, &first) || two_open("two.weights", &host, &second)) return 3;
  if (one_run(first, x, y) || two_run(second, x, z)) return 4;
  pthread_t threads[4];
  for (int k = 0; k < 4; k++) pthread_create(&threads[k], NULL, many, NULL);
  for (int k = 0; k < 4; k++) pthread_join(threads[k], NULL);
  one_close(first);
  two_close(second);
  printf("%d %d", failed, live);
  file = fopen("out", "wb");
  fwrite(y, 4, 20, file);
  fwrite(z, 4, 20, file);
  return fclose(file);
}
"""
    )
    x = RNG.standard_normal((4, 24)).astype("float32")
    x.tofile(folder / "in")
    program = built(folder)
    assert run(program) == "0 0"
    made = np.fromfile(folder / "out", "float32").reshape(2, 4, 5)
    for y, name in zip(made, given):
        np.testing.assert_allclose(y, of_layers(x, given[name]), rtol=1e-4, atol=1e-4)
    # a network that was trained anew takes the file alone
    shutil.copy(folder / "two.weights", folder / "one.weights")
    assert run(program) == "0 0"
    y = np.fromfile(folder / "out", "float32")[:20].reshape(4, 5)
    np.testing.assert_allclose(y, of_layers(x, given["two"]), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@needs_compiler
def test_threads_of_a_host_and_memory_that_runs_out(tmp_path: Path) -> None:
    """A parallel loop with arrays of its own calls a host for each, or OpenMP and malloc."""
    A, B, C = product(21, 40000, 33)
    D = sl.compute(C.shape, lambda i, j: C[i, j] * 3, name="D")
    b = RNG.random((33, 40000), "float32")
    net = sl.network(D, {B: b}, name="hosted", fold=False)
    s = sl.schedule(net.partition.parts[0].group.outputs)
    C, D = (next(t for t in s.stages if t.name == name) for name in "CD")
    s[C].compute_at(s[D], s[D].op.axis[0])
    s[D].parallel(s[D].op.axis[0])
    net.reschedule(net.partition.parts[0].name, s)
    folder = net.save(tmp_path / "hosted", target="c")
    (folder / "main.c").write_text(
        """
#include <stdio.h>
#include <stdlib.h>
#include "hosted.h"
static float a[21 * 33], d[21 * 40000];
static int allowed = 1000, live, iterations;
static void *allocate(void *data, size_t bytes) {
  (void)data;
  if (allowed-- <= 0) return NULL;
  live++;
  return malloc(bytes);
}
static void release(void *data, void *memory) { (void)data; live--; free(memory); }
static void each(void *data, int64_t start, int64_t stop, void (*body)(void *, int64_t), void *t) {
  (void)data;
  for (int64_t i = stop - 1; i >= start; i--, iterations++) body(t, i);
}
int main(int argc, char **argv) {
  FILE *file = fopen("in", "rb");
  if (!file || fread(a, 4, 21 * 33, file) != 21 * 33) return 2;
  fclose(file);
  schedlang_host host = {allocate, release, each, NULL};
  hosted *net;
  if (hosted_open("hosted.weights", argc > 1 ? &host : NULL, &net)) return 3;
  (void)argv;
  int code = hosted_run(net, a, d), again = hosted_run(net, a, d);
  file = fopen("out", "wb");
  if (fwrite(d, 4, 21 * 40000, file) != 21 * 40000 || fclose(file)) return 4;
  allowed = 5;
  int poor = hosted_run(net, a, d);
  volatile float tiny = 1e-38f;
  int flushes = tiny / 16 == 0;
  hosted_close(net);
  allowed = 0;
  int none = hosted_open("hosted.weights", &host, &net);
  printf("%d %d %d %d %d %d %d %d", code, again, poor, none, net == NULL, live, iterations,
         flushes);
  return 0;
}
"""
    )
    a = RNG.random((21, 33)).astype("float32")
    a.tofile(folder / "in")
    for more, args, said in (
        (["-fopenmp"], [], "0 0 0 1 1 0 0 0"),
        (["-Wno-unknown-pragmas"], ["host"], "0 0 1 1 1 0 63 0"),
    ):
        assert run(built(folder, *more), *args) == said
        d = np.fromfile(folder / "out", "float32").reshape(21, 40000)
        np.testing.assert_allclose(d, 3 * (a @ b), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_cpp_includes_the_header_and_tensors_are_checked(tmp_path: Path) -> None:
    net, given = layers(2, "layers")
    folder = net.save(tmp_path / "layers", target="c")
    (folder / "main.cpp").write_text(
        """
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>
#include "layers.h"
int main() {
  std::ifstream file("layers.weights", std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  bytes.insert(bytes.begin(), 'x');
  layers *net;
  /* from any address */
  if (layers_open_bytes(bytes.data() + 1, bytes.size() - 1, nullptr, &net)) return 1;
  float x[48], y[10];
  for (int k = 0; k < 48; k++) x[k] = k;
  int64_t wide[] = {2, 24}, narrow[] = {2, 5};
  DLTensor X = {x, {1, 0}, 2, {2, 32, 1}, wide, nullptr, 0};
  DLTensor Y = {y, {1, 0}, 2, {2, 32, 1}, narrow, nullptr, 0};
  std::printf("%d,", layers_run_checked(net, &X, &Y));
  std::puts(layers_error(layers_run_checked(net, &X, &X)));
  Y.dtype.bits = 64;
  std::puts(layers_error(layers_run_checked(net, &X, &Y)));
  std::puts(layers_error(layers_run_checked(net, nullptr, &Y)));
  std::puts(layers_error(layers_run(nullptr, x, y)));
  std::puts(layers_error(99));
  for (float v : y) std::printf("%.9g ", v);
  layers_close(net);
  layers_close(nullptr);
}
"""
    )
    assert COMPILER is not None
    compile_c = [COMPILER, *WARNINGS, "-O1", "-march=native", "-c", "layers.c"]
    subprocess.run(compile_c, cwd=folder, check=True)
    command = ["g++", "-Wall", "-Wextra", "-Werror", "main.cpp", "layers.o", "-o", "run"]
    subprocess.run(command, cwd=folder, check=True)
    *said, numbers = run(folder / "run").splitlines()
    assert said == [
        "0,scores does not have the shape 2 x 5",
        "scores is not of dtype float32",
        "X is NULL or has no data",
        "the network is NULL: open it first",
        "an unknown code",
    ]
    wanted = of_layers(np.arange(48, dtype="float32").reshape(2, 24), given)
    np.testing.assert_allclose(np.fromstring(numbers, sep=" "), wanted.ravel(), rtol=1e-4)


def table() -> tuple[sl.Network, Any]:
    """Return a network with weights that are indices, that are bools, and that are floats."""
    X, P = sl.placeholder((20,), name="X"), sl.placeholder((20,), "int64", name="P")
    b, w = sl.placeholder((20,), "bool", name="b"), sl.placeholder((20,), name="w")
    Y = sl.compute((20,), lambda i: sl.select(b[i], X[P[i]] * w[i], 0.0), name="Y")
    p, chosen = RNG.permutation(20), RNG.random(20) > 0.5
    factors = RNG.standard_normal(20).astype("float32")
    net = sl.network(Y, {P: p, b: chosen, w: factors}, name="table")
    return net, lambda x: np.where(chosen, x[p] * factors, 0)


DAMAGE = Path(__file__).with_name("damaged_weights.c")


@pytest.mark.slow
@needs_compiler
def test_damaged_weights_are_codes(tmp_path: Path) -> None:
    """10,000 damaged files are opened under sanitizers; what opens has other floats alone."""
    net, of = table()
    folder = net.save(tmp_path / "table", target="c")
    shutil.copy(DAMAGE, folder / "main.c")
    (folder / "table.c").rename(folder / "included.h")
    # the sanitizers end the program at their first finding, leaks included
    program = built(folder, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                    "-Wno-unused-function")  # fmt: skip
    counts = dict(map(str.split, run(program, "10000").splitlines()))
    assert counts.pop("files") == "10000" and counts.pop("wrong") == "0"
    # each code that opening has: no error, unreadable files, and those that sl_check returns
    assert {code for code, count in counts.items() if int(count) > 20} == {"0", "5", "6", "7", "8"}


@pytest.mark.slow
@needs_compiler
def test_paths_that_are_no_files(tmp_path: Path) -> None:
    net, of = table()
    folder = net.save(tmp_path / "table", target="c")
    x = RNG.standard_normal(20).astype("float32")
    x.tofile(folder / "in")
    (folder / "empty").touch()
    os.mkfifo(folder / "pipe")
    other, _ = layers(1, "other")
    other.save(tmp_path / "other", target="c")
    program = built(folder)
    y = outputs_of(program, ["table.weights", "in", "out"], (20,), "float32")
    np.testing.assert_allclose(y, of(x), rtol=1e-6)
    for path, said in (
        (".", "the file of weights cannot be read"),
        ("pipe", "the file of weights cannot be read"),
        ("nothing", "the file of weights cannot be read"),
        ("empty", "it is not a file of weights, or has another version"),
        ("table.c", "it is not a file of weights, or has another version"),
        ("../other/other.weights", "the weights belong to another network"),
    ):
        assert run(program, path, "in", "-", code=1) == f"{path}: {said}\n"
    reading = built(folder, "-DSL_NO_MMAP", name="reading")
    for path in (".", "pipe"):
        assert "cannot be read" in run(reading, path, "in", "-", code=1)
    weights = (folder / "table.weights").read_bytes()
    for content in (weights[:-1], weights + b"\0", weights[:70]):
        (folder / "torn").write_bytes(content)
        for each in (program, reading):
            assert "damaged or cut off" in run(each, "torn", "in", "-", code=1)


@pytest.mark.slow
@needs_compiler
def test_a_network_of_integers(tmp_path: Path) -> None:
    """A quantized network keeps its integers in C, as in Python."""
    pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")
    from tests.quantized_models import layer

    imported = sl.frontend.from_onnx(layer(shape=(2, 16, 9, 8), pads=[1] * 4))
    net = sl.network(imported, name="integers")
    folder = net.save(tmp_path / "integers", target="c")
    (x,) = net.inputs
    given = RNG.standard_normal(x.shape).astype("float32")
    given.tofile(folder / "in")
    want = net(given)
    made = outputs_of(built(folder), ["integers.weights", "in", "out"], want.shape, want.dtype.name)
    np.testing.assert_array_equal(made, want)


EXAMPLE = Path(__file__).parent.parent / "examples" / "12_train_digits.py"
MOST_BYTES = 300_000


@pytest.mark.slow
@needs_compiler
def test_the_digits_of_example_12(tmp_path: Path) -> None:
    """The program of the lesson reads pictures and prints their digits; it takes few bytes."""
    datasets = pytest.importorskip("sklearn.datasets", reason="the digits are scikit-learn's")
    said = subprocess.run(
        [sys.executable, EXAMPLE, "digits"], cwd=tmp_path, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    folder = tmp_path / "digits"
    made = subprocess.run(["make"], cwd=folder, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    x, y = datasets.load_digits(return_X_y=True)
    (x / 16).astype("float32").tofile(folder / "pictures")
    digits = np.array(run(folder / "digits", "digits.weights", "pictures", "-").split(), int)
    assert digits.shape == y.shape and (digits == y).mean() > 0.97
    assert sum((folder / f).stat().st_size for f in ("digits", "digits.weights")) < MOST_BYTES
    assert len((folder / "main.c").read_text().splitlines()) <= 40


GUIDE = Path(__file__).parent.parent / "docs" / "guides" / "deploying.md"


@pytest.mark.slow
@needs_compiler
def test_the_blocks_of_the_guide(tmp_path: Path) -> None:
    """The commands and the program of the guide's section, one after the other."""
    datasets = pytest.importorskip("sklearn.datasets", reason="the digits are scikit-learn's")
    text = GUIDE.read_text(encoding="utf-8")
    section = re.split(r"^## ", text[text.index("\n## A network\n") :], flags=re.M)[1]
    trained, ran = re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)
    (program,) = re.findall(r"^```c\n(.*?)^```", section, re.M | re.S)
    (tmp_path / "examples").symlink_to(EXAMPLE.parent)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def printed(command: str) -> str:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "A program of C is in digits." in printed(trained)
    x, y = datasets.load_digits(return_X_y=True)
    (x[:100] / 16).astype("float32").tofile(tmp_path / "digits" / "pictures")
    digits = [int(line) for line in printed(ran).splitlines() if line.isdigit()]
    assert np.mean(digits == y[:100]) > 0.95
    (tmp_path / "digits" / "main.c").write_text(program)
    assert printed("cd digits && make && ./digits").endswith("no error\n")
