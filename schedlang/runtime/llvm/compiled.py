"""Kernels that LLVM compiles from the machine nest: from memory, the cache folder, or compiled."""

from __future__ import annotations

from schedlang.runtime.cache_files import COMPILED, contents, store
from schedlang.runtime.llvm.library import Subject
from schedlang.runtime.llvm.place import Compiled, place_of
from schedlang.runtime.numba_internals import compiler_lock
from schedlang.runtime.one_process import one_process


def compiled(subject: Subject) -> Compiled:
    """Return a kernel as a function of Python: from memory, from the cache folder, or compiled."""
    place = place_of(subject)
    known, was_there = place.known, place.path.exists()
    if known is not None:
        if not was_there:
            # the process has another cache folder by now
            store(COMPILED, place.path, known.code)
        return known
    code = contents(COMPILED, place.path)
    # a network makes its nest under its own lock: a thread that has that one may compile
    nest = subject.nest() if code is None else None
    with one_process(subject.path), compiler_lock():
        if place.known is not None:
            return place.known
        if code is None and not was_there:
            # another process may have compiled it meanwhile
            code = contents(COMPILED, place.path)
        if code is not None:
            return place.load(code)
        assert nest is not None
        # a process that loads a kernel imports no printer
        from schedlang.runtime.llvm.together import compile_alone

        return compile_alone(place, nest)
