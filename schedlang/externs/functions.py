"""The ways to call a user's function: numba's, Python's, and C's by an address or by its source."""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from schedlang.codegen.c_compiler import user_head
from schedlang.codegen.c_externs import C_TYPES, prototype
from schedlang.compute.extern_op import ADDRESS, HOST, NUMBA, ExternFunction
from schedlang.compute.poison import fail
from schedlang.compute.tensor import Tensor
from schedlang.errors import CallError, CallTypeError, ComputeError, ComputeTypeError, explain
from schedlang.externs.python_text import Unreadable, python_text
from schedlang.runtime import files
from schedlang.runtime.c_library import library

_C_FUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]


def function_of(
    call: Any, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> ExternFunction:
    """Return ``call`` as the function of a stage; raise if it cannot take the arrays."""
    dtypes = dtypes_of(inputs, outputs)
    if isinstance(call, ExternFunction):
        return call
    if isinstance(call, str):
        return from_source(call, name, inputs, outputs)
    if isinstance(call, _C_FUNCTION):
        _check_ctypes(call, name, inputs, outputs)
        address = ctypes.cast(call, ctypes.c_void_p).value
        return _at_address(address or 0, getattr(call, "__name__", name), name, dtypes, call)
    if hasattr(call, "__index__") and not isinstance(call, (bool, np.bool_)):
        return _at_address(int(call), name, name, dtypes, None)
    module = str(type(call).__module__)
    if module.startswith(("numba.cuda", "numba_cuda")):
        raise ComputeTypeError(
            explain(
                f"sl.extern for {name}",
                "its call is a kernel of numba.cuda, and functions are called on the CPU",
                "Give a function of numba.njit, of Python or of C.",
            )
        )
    if module.startswith("numba.") and hasattr(call, "native_name"):
        _check_count(name, len(call._sig.args), inputs, outputs, 1, "the function of numba.cfunc")
        pointers = [getattr(kind, "dtype", None) for kind in call._sig.args]
        _check_pointers(name, [str(p) for p in pointers], inputs, outputs)
        _check_status(name, str(call._sig.return_type), "numba.int32")
        return _at_address(int(call.address), call.__name__, name, dtypes, call)
    if not callable(call) or isinstance(call, type):
        raise ComputeTypeError(
            explain(
                f"sl.extern for {name}",
                f"its call is {type(call).__name__ if call is not None else call}, which cannot be "
                "called with arrays",
                "Give a function of numba.njit, of Python, an address of a C function, or the text "
                "of C source.",
            )
        )
    python = getattr(call, "py_func", None)
    _check_parameters(call if python is None else python, name, inputs, outputs)
    title = str(getattr(call, "__name__", type(call).__name__))
    title = title if title.isidentifier() else name
    kind = NUMBA if module.startswith("numba.") and python is not None else HOST
    run = partial(_run, call, title, kind, [tensor.name for tensor in inputs])
    source, why = "", ""
    try:
        source = python_text(call)
    except Unreadable as error:
        why = str(error)
    return ExternFunction(title, kind, call, run, dtypes, source, place_of(call), why)


def dtypes_of(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the dtypes of the arrays that a function takes."""
    return tuple(t.dtype for t in inputs), tuple(t.dtype for t in outputs)


def place_of(call: Any) -> str:
    """Return where other processes import a function from, ``"module:name"``, or an empty text."""
    module, path = (str(getattr(call, what, "")) for what in ("__module__", "__qualname__"))
    value: Any = sys.modules.get(module)
    # another process has the module of a script under another name, or not at all
    if module == "__main__" or value is None:
        return ""
    for name in path.split("."):
        value = getattr(value, name, None)
    return f"{module}:{path}" if value is call else ""


def _run(call: Any, title: str, kind: str, inputs: Sequence[str], *arrays: np.ndarray) -> None:
    """Call a function of Python or numba; the inputs of one of Python cannot be written."""
    given = list(arrays)
    if kind == HOST:
        for k in range(len(inputs)):
            given[k] = given[k].view()
            given[k].flags.writeable = False
    try:
        result = call(*given)
    except ValueError as error:
        # NumPy's words, which do not say what array it is
        if "read-only" not in str(error) or kind != HOST or not inputs:
            raise
        fail(
            f"sl.extern calls {title}",
            f"it writes to an array that is read-only, as its input{'s' * (len(inputs) > 1)} "
            f"{' and '.join(inputs)} {'are' if len(inputs) > 1 else 'is'}",
            "Write the outputs alone, and copy an input before you change it, as in "
            f"{inputs[0]}.copy().",
        )
    if result is not None:
        raise CallTypeError(
            explain(
                f"sl.extern calls {title}",
                f"it returns {type(result).__name__}, and the kernel takes no value from it",
                "Write the result into its last argument, out[...] = value, and return nothing.",
            )
        )


def _check_parameters(
    function: Any, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> None:
    """Raise unless a function of Python takes an argument for each array."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # a function of an extension module, which says nothing of its parameters
        return
    try:
        signature.bind(*inputs, *outputs)
    except TypeError:
        count = len(signature.parameters)
        _refuse_count(name, count, inputs, outputs, 0, getattr(function, "__name__", "its call"))


def _check_count(
    name: str, count: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor], more: int, what: str
) -> None:
    if count != len(inputs) + len(outputs) + more:
        _refuse_count(name, count, inputs, outputs, more, what)


def _refuse_count(
    name: str, count: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor], more: int, what: str
) -> None:
    names = [t.name for t in (*inputs, *outputs)] + ["sizes"] * more
    raise ComputeTypeError(
        explain(
            f"sl.extern for {name}",
            f"{what} takes {count} argument{'s' * (count != 1)}, but is called with {len(names)}: "
            f"{', '.join(names)}",
            "Give it a parameter for each input, then for each output"
            + (", then one for the sizes." if more else "."),
        )
    )


def _check_ctypes(
    call: Any, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> None:
    if call.argtypes is not None:
        _check_count(name, len(call.argtypes), inputs, outputs, 1, "the function of ctypes")
        pointed = [getattr(kind, "_type_", None) for kind in call.argtypes]
        kinds = [np.dtype(p).name if isinstance(p, type) else "" for p in pointed]
        _check_pointers(name, kinds, inputs, outputs)
    integer = call.restype in (ctypes.c_int, ctypes.c_int32)
    shown = str(getattr(call.restype, "__name__", call.restype))
    _check_status(name, "int32" if integer else shown, "ctypes.c_int")


def _check_pointers(
    name: str, kinds: Sequence[str], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> None:
    """Raise if a C function points to elements that the arrays do not have."""
    for tensor, kind in zip((*inputs, *outputs), kinds):
        if kind in C_TYPES and kind != tensor.dtype:
            raise ComputeTypeError(
                explain(
                    f"sl.extern for {name}",
                    f"the function takes a pointer to {kind} for {tensor.name}, which is "
                    f"{tensor.dtype}",
                    "Give tensors of its dtypes, or convert them in a stage before.",
                )
            )


def _check_status(name: str, kind: str, integer: str) -> None:
    if kind != "int32":
        raise ComputeTypeError(
            explain(
                f"sl.extern for {name}",
                f"the function returns {kind}, but a C function returns an int: 0 if it succeeds",
                f"Return {integer}.",
            )
        )


def _at_address(
    address: int, title: str, name: str, dtypes: tuple[tuple[str, ...], tuple[str, ...]], kept: Any
) -> ExternFunction:
    """Return the C function at an address."""
    # systems leave the first page of memory empty
    if not 4096 <= address < 2**63:
        raise ComputeError(
            explain(
                f"sl.extern for {name}",
                f"its call is the number {address}, which is not the address of a function",
                "Give the address of a loaded C function, such as "
                "ctypes.cast(f, ctypes.c_void_p).value.",
            )
        )
    count = sum(map(len, dtypes))
    kinds: list[Any] = [*[ctypes.c_void_p] * count, ctypes.POINTER(ctypes.c_int64)]
    function = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(address)
    run = partial(_run_c, function, title)
    why = "it is known by its address, which means nothing there"
    return ExternFunction(title, ADDRESS, address, run, dtypes, why=why, kept=kept)


def _run_c(function: Callable[..., int], title: str, *arrays: np.ndarray) -> None:
    """Call a C function with arrays of NumPy."""
    sizes = [n for a in arrays for n in (*a.shape, *(s // a.itemsize for s in a.strides))]
    status = function(*(a.ctypes.data for a in arrays), (ctypes.c_int64 * len(sizes))(*sizes))
    if status:
        raise CallError(
            explain(
                f"sl.extern calls {title}",
                f"the C function returned {status}, so it failed",
                "Return 0 at its end if it succeeds.",
            )
        )


def from_source(
    source: str, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor],
    objects: Sequence[bytes] = (),
) -> ExternFunction:  # fmt: skip
    """Return the function ``name`` of C source, compiled by the system's compiler.

    It is linked with ``objects``, of which the source has a hash.
    """
    declared = prototype(name, dtypes_of(inputs, outputs))

    def refusal(first: str) -> ComputeError:
        return ComputeError(
            explain(
                f"sl.extern for {name}",
                f"the C compiler refuses its source: {first}",
                f"The source defines the function\n{declared}",
            )
        )

    if not name.isidentifier():
        raise ComputeError(
            explain(
                f"sl.extern for {name}",
                f"a C function cannot have the name {name}",
                "Give name= the name of the function in the source.",
            )
        )
    text = f'{user_head()}{declared};\n#line 1 "{name}"\n{source}\n'
    loaded = library(files.write(text, f"extern_{name}", ".c"), refusal=refusal, objects=objects)
    function = getattr(loaded, name, None)
    if function is None:
        raise ComputeError(
            explain(
                f"sl.extern for {name}",
                f"its C source defines no function {name} that others can call",
                f"Define\n{declared}",
            )
        )
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    at_address = _at_address(address, name, name, dtypes_of(inputs, outputs), loaded)
    if objects:
        return replace(
            at_address, why="it is linked with code of LLVM, of which it has the object alone"
        )
    return replace(at_address, source=source, why="")
