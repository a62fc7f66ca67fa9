"""The names that perf reads: addresses, sizes and names of the functions of a compiled kernel."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError
from schedlang.runtime import perf_map

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="perf is a tool of Linux")


def kernel(compiler: str = "numba") -> Any:
    """Return a kernel with a parallel loop."""
    A = sl.placeholder((64, 32), name="A")
    B = sl.compute((64, 32), lambda i, j: A[i, j] * 3 + 1, name="mapped")
    s = sl.schedule(B)
    s[B].parallel(B.op.axis[0])
    return sl.build(s, compiler=compiler)


@linux
def test_the_map_has_every_function_where_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "perf.map"
    monkeypatch.setattr(perf_map, "map_path", lambda: str(path))
    monkeypatch.setenv(perf_map.VARIABLE, "1")
    f = kernel()
    a = np.ones((64, 32), "float32")
    np.testing.assert_array_equal(f(a), a * 3 + 1)
    lines = [line.split(" ") for line in path.read_text().splitlines()]
    found = {name: (int(start, 16), int(size, 16)) for start, size, name in lines}
    assert {"mapped_kernel", "mapped_kernel.parallel", "mapped_kernel.from_python"} <= set(found)
    places = sorted(found.values())
    assert all(a + size <= b for (a, size), (b, _) in zip(places, places[1:]))
    # the entry is where numba calls it
    function = f.unchecked
    ((kinds, compiled),) = function.overloads.items()
    entry = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    assert found["mapped_kernel"][0] == entry
    # memory holds the bytes of the object file, but for addresses that loading fills in
    code = perf_map.object_of(function, kinds, compiled)
    symbols = {s.size: s for s in perf_map.functions_in(code)}
    text = code[code.index(ctypes.string_at(*found["mapped_kernel"])[:16]) :]
    first = symbols[found["mapped_kernel"][1]].start
    for start, size in found.values():
        there = np.frombuffer(ctypes.string_at(start, size), np.uint8)
        at = symbols[size].start - first
        here = np.frombuffer(text[at : at + size], np.uint8)
        assert (there == here).mean() > 0.6
    # numba drops the object file that it loads from its cache: the cache has it
    monkeypatch.setattr(compiled.library, "_compiled_object", None)
    assert perf_map.object_of(function, kinds, compiled) == code


@linux
def test_the_map_is_written_where_perf_looks_and_follows_no_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert perf_map.map_path() == f"/tmp/perf-{os.getpid()}.map"
    link, other = tmp_path / "perf.map", tmp_path / "other"
    other.write_text("mine")
    link.symlink_to(other)
    monkeypatch.setattr(perf_map, "map_path", lambda: str(link))
    with pytest.raises(BuildError, match="SCHEDLANG_PERF_MAP: cannot write .*perf.map: "):
        perf_map.add_to_map(perf_map.codes_of(kernel().compile().unchecked), ["mapped_kernel"])
    assert other.read_text() == "mine"


def test_no_map_is_written_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "0"):
        monkeypatch.setenv(perf_map.VARIABLE, value)
        assert not perf_map.is_wanted()
    monkeypatch.delenv(perf_map.VARIABLE)
    assert not perf_map.is_wanted()
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv(perf_map.VARIABLE, "1")
    why = "SCHEDLANG_PERF_MAP=1: perf is a tool of Linux\n  Unset the variable."
    with pytest.raises(BuildError, match=re.escape(why)):
        perf_map.add_to_map(None, [])


def test_only_object_files_of_elf_are_read() -> None:
    with pytest.raises(BuildError, match="not in the format ELF-64"):
        perf_map.functions_in(b"MZ" + bytes(100))
