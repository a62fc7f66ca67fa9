"""Functions of C source and of numba as addresses, which `invoke` calls.

A file that calls such functions has these helpers beside its kernel.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import cfunc, from_dtype, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy import dtype as numpy_dtype


def c_function(name: str, source: str, compilers: Any, options: Any, gcc_options: Any) -> Any:
    """Return the address of the function `name` of C source, and the library that has it.

    The system's compiler compiles it: the command in CC, or the first of `compilers`.  All but
    Clang get `gcc_options` too.
    """
    command = shlex.split(os.environ.get("CC", ""))
    command = command or [p for p in map(shutil.which, compilers) if p][:1]
    if not command:
        raise RuntimeError(
            f"{name} is C source, and there is no {', '.join(compilers)} on the path: install GCC "
            "or Clang, or set CC to the command of a C compiler"
        )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # a file of the folder stays loaded when it is removed
        text, library = Path(folder) / f"{name}.c", Path(folder) / f"{name}.so"
        text.write_text(source, encoding="utf-8")
        try:
            said = subprocess.run([*command, "--version"], capture_output=True, text=True).stdout
            own = () if "clang" in said.lower() else gcc_options
            line = [*command, *options, *own, "-o", str(library), str(text), "-lm"]
            ran = subprocess.run(line, capture_output=True, text=True)
        except OSError as error:
            raise RuntimeError(
                f"the C compiler {command[0]} for {name} does not run ({error.strerror}): set CC"
            ) from None
        if ran.returncode:
            raise RuntimeError(f"{command[0]} refuses the C source of {name}:\n{ran.stderr}")
        loaded = ctypes.CDLL(str(library))
    return ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value, loaded


def numba_function(call: Any, boxes: Any) -> Any:
    """Return the address of a function of C that calls one of numba's, and what keeps it valid.

    `boxes` are the dtype of each array, its dimensions, and whether it has no gaps.  The function
    returns 1 if `call` raises.
    """
    kinds = [types.Array(from_dtype(numpy_dtype(k)), n, "C" if p else "A") for k, n, p in boxes]
    given, at, space = [], 0, {"call": call}
    for k, kind in enumerate(kinds):
        space[f"array{k}"] = array_maker(kind)
        given.append(f"array{k}(place{k}, sizes, {at})")
        at += 2 * kind.ndim
    names = [f"place{k}" for k in range(len(kinds))]
    lines = [
        f"def thunk({', '.join([*names, 'sizes'])}):",
        "    try:",
        f"        call({', '.join(given)})",
        "    except Exception:",
        "        return 1",
        "    return 0",
    ]
    exec("\n".join(lines), space)
    pointers = [types.CPointer(kind.dtype) for kind in kinds]
    thunk = cfunc(types.int32(*pointers, types.CPointer(types.int64)))(space["thunk"])
    return thunk.address, thunk


def array_maker(kind: Any) -> Any:
    """Return a function that makes an array of a pointer, of sizes and of the place of its own."""

    @intrinsic
    def array_at(typingctx: Any, place: Any, sizes: Any, at: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
            array = context.make_array(kind)(context, builder)
            word = context.get_value_type(types.intp)
            data = context.get_data_type(kind.dtype)
            size = context.get_constant(types.intp, context.get_abi_sizeof(data))

            def size_at(k: int) -> ir.Value:
                index = builder.add(args[2], ir.Constant(args[2].type, k))
                return builder.load(builder.gep(args[1], [index]))

            shape = [size_at(k) for k in range(kind.ndim)]
            steps = [builder.mul(size_at(kind.ndim + k), size) for k in range(kind.ndim)]
            context.populate_array(
                array,
                data=builder.bitcast(args[0], array.data.type),
                shape=cgutils.pack_array(builder, shape, ty=word),
                strides=cgutils.pack_array(builder, steps, ty=word),
                itemsize=size,
                meminfo=None,
            )
            return array._getvalue()

        return kind(place, sizes, types.int64), codegen

    return array_at
