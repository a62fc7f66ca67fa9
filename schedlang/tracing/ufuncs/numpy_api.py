"""NumPy's C API for ufuncs, by ctypes: a ufunc of loops that are compiled at their first call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from llvmlite import binding
from numpy._core._multiarray_umath import _UFUNC_API

from schedlang.runtime import thread_safety
from schedlang.runtime.llvm.lazy_loop import lazy_loop
from schedlang.runtime.llvm.symbols import name_objects
from schedlang.runtime.llvm.ufunc_loop import CLEAR_FLAGS, MAY_FORK
from schedlang.tracing.ufuncs.identity import Identity
from schedlang.tracing.ufuncs.loop import Loop

# the places of functions in the table of NumPy's API, which never change
_CLEAR, _MAKE = 27, 42
# NumPy's kinds of identities
_NONE, _REORDERABLE, _VALUE = -1, -2, -3


class _Forks:
    """The byte that says whether loops may use numba's threads, which do not survive a fork."""

    def __init__(self) -> None:
        self.byte = ctypes.c_uint8(thread_safety.guard() is None)
        if thread_safety.left_behind():
            self.forget_function()

    def forget_function(self) -> None:
        self.byte.value = 0


@cache
def _names() -> _Forks:
    """Let compiled loops find the objects that they use, which live as long as this process."""
    forks = _Forks()
    thread_safety.note_loaded(forks)
    binding.add_symbol(MAY_FORK, ctypes.addressof(forks.byte))
    binding.add_symbol(CLEAR_FLAGS, _table()[_CLEAR])
    name_objects()
    return forks


@cache
def _table() -> Any:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(pointer(_UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p))


def new_ufunc(
    name: str, doc: str, loops: Sequence[Loop], identity: Identity, signature: str = ""
) -> Any:
    """Return a ufunc of ``loops``, with no attributes yet but what NumPy gives it."""
    first, count, names = loops[0], len(loops), _names()
    inputs, outputs = len(first.inputs), len(first.outputs)
    slots = (ctypes.c_void_p * 2 * count)()
    compiles = [_compiling(loop, slot) for loop, slot in zip(loops, slots)]
    for slot, function in zip(slots, compiles):
        slot[1] = id(function)
    address, library = lazy_loop()
    functions = (ctypes.c_void_p * count)(*[address] * count)
    data = (ctypes.c_void_p * count)(*map(ctypes.addressof, slots))
    types = b"".join(loop.numbers for loop in loops)
    texts = [name.encode(), doc.encode(), signature.encode() if signature else None]
    kind = _VALUE if identity.value is not None else _REORDERABLE
    if identity.value is None and not identity.reorderable:
        kind = _NONE
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p,
        *[ctypes.c_int] * 4, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p,
        ctypes.py_object,
    )(_table()[_MAKE])  # fmt: skip
    ufunc = make(
        functions, data, types, count, inputs, outputs, kind, texts[0], texts[1], 0, texts[2],
        identity.value,
    )  # fmt: skip
    # NumPy copies none of these
    ufunc._schedlang_kept = (slots, compiles, functions, data, types, texts, library, names)
    return ufunc


def _compiling(loop: Loop, slot: Any) -> Any:
    """Return the function that compiles a loop into its slot."""

    def compile_loop() -> None:
        slot[0] = loop.address()

    return compile_loop
