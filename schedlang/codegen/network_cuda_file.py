"""The text of a network's module for numba.cuda: kernels, their launches, and one function for all.

The arrays of a network are parts of two arrays of bytes in the memory of the GPU: ``params`` has
its parameters, and ``arena`` what its kernels pass to each other. The function ``views`` of the
file makes them once; ``launch`` takes them in each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from schedlang.codegen.listing import Line, Listing, join_parts, plain
from schedlang.codegen.network_file import (
    BYTES,
    WIDTH,
    NetworkFile,
    lives,
    network_head,
    pack_helpers,
    pack_source,
    place_sources,
    printable,
    tables,
)
from schedlang.codegen.network_storage import Storage
from schedlang.codegen.numba_cuda import GpuSource, memory_dtype
from schedlang.codegen.numba_file import (
    ARRAY,
    apart_function,
    array_checks,
    checks_of_bounds,
    out_argument,
    shape_source,
    size_helpers,
    size_lines,
    wrap_items,
)
from schedlang.codegen.numba_file import HELPERS as KERNEL_HELPERS
from schedlang.codegen.numba_source import INDENT
from schedlang.codegen.refused_sizes import refusal_lines
from schedlang.expr.dtypes import SHORT_FLOATS, storage_dtype
from schedlang.expr.nodes import Expr, Var
from schedlang.ir.arguments import arguments_apart
from schedlang.ir.nodes import Buffer
from schedlang.ir.printer import argument_text

# the names that a file defines or uses besides the names of its kernels
HELPERS = (
    *KERNEL_HELPERS, "ARENA_BYTES", "OPTIONS", "PARAMS", "PARAM_BYTES", "SimpleNamespace",
    "_apart", "_back", "_bytes", "_empty", "_is_there", "_places", "_root", "_there", "_views_at",
    "arena", "arena_places", "arrays", "cuda", "given", "launch", "memory", "memory_of",
    "ml_dtypes", "pack", "params", "part", "places", "stream", "v", "views",
)  # fmt: skip

_PART = '''
def part(whole, start, count, dtype):
    """The array of `count` elements from byte `start` of `whole` on."""
    end = start + count * np.dtype(dtype).itemsize
    return whole[start:end].view(dtype)
'''

_APART = apart_function(
    "a, b, names",
    "starts = [x.device_ctypes_pointer.value or 0 for x in (a, b)]",
    "starts[0] < starts[1] + b.nbytes and starts[1] < starts[0] + a.nbytes",
)
_THERE = '''
def _is_there(value):
    return hasattr(value, "__cuda_array_interface__")


def _there(value, name, dtype, shape, stream, written=False):
    """`value` on the GPU, flat, if it is a C-contiguous array of this dtype and shape."""
    if not _is_there(value):
        return cuda.to_device(_array(value, name, dtype, shape, written), stream=stream)
    value = cuda.as_cuda_array(value)
{CHECKS}
    return value.reshape(-1)


def _empty(like, shape, dtype):
    """A new array where `like` is."""
    return (cuda.device_array if _is_there(like) else np.empty)(shape, dtype)


{APART}


def _back(there, value, stream):
    """Copy an output to the array of NumPy that was given for it."""
    if not _is_there(value):
        there.copy_to_host(np.asarray(value).reshape(-1).view(there.dtype), stream=stream)
'''.replace("{CHECKS}", array_checks(lambda rule: rule.there)).replace("{APART}", _APART.strip())

_VIEWS_AT = '''
def _views_at(memory, sizes, arrays):
    """The arrays of `memory` in a call of these `sizes`, made once; `_places` takes `arrays`.

    The arena is replaced if it is too small: the driver waits for kernels that still use it.
    """
    if sizes not in memory.views:
        size, places = _places(arrays)
        if memory.arena is None or memory.arena.size < size:
            memory.views.clear()
            memory.arena = None
            memory.arena = cuda.device_array(size, np.uint8)
        if len(memory.views) == 64:
            memory.views.clear()
        memory.views[sizes] = views(memory.params, memory.arena, places.tolist())
    return memory.views[sizes]
'''


@dataclass(frozen=True)
class ViewSource:
    """An array of a network: its name in ``views``, and where it is in ``whole``.

    ``start`` (in bytes) and ``count`` (of elements) are texts of numbers, or of elements of
    ``places``. ``about`` is a comment.
    """

    name: str
    whole: str
    start: str
    count: str
    dtype: str
    about: str


@dataclass(frozen=True)
class CallSource:
    """A call in ``launch``: the function, the texts of its arguments, and a comment."""

    function: str
    args: tuple[str, ...]
    note: str


@dataclass(frozen=True)
class NetworkSource:
    """The parts of a file: the kernels of each part with its launches, then all calls.

    ``parameters`` are the names of the arguments of ``launch``, which are the names of a nest's
    arguments and then its sizes.
    """

    public: str
    kernels: tuple[GpuSource, ...]
    parameters: tuple[str, ...]
    views: tuple[ViewSource, ...]
    calls: tuple[CallSource, ...]


def kernel_functions(source: GpuSource, comment: Sequence[str]) -> tuple[tuple[Line, ...], ...]:
    """Return the functions of a part, the first one under its comment."""
    above = [
        Line(f"# {line}")
        for text in comment
        for line in wrap(
            printable(text), WIDTH - 2, subsequent_indent="    ", break_on_hyphens=False
        )
    ]
    first, *rest = [*(k.lines for k in source.kernels), source.launcher]
    return ((*above, *first), *rest)


def render_device_network(
    file: NetworkFile, source: NetworkSource, functions: Sequence[Sequence[Line]]
) -> Listing:
    """Return the file of a network; ``functions`` are the functions of all parts."""
    nest, storage, sized = file.nest, file.storage, file.between is not None
    texts = [_launch(source), _PART.strip(), _views(source, sized), ARRAY.strip()]
    exported = ["launch", "memory_of", "views", source.public]
    if storage.params:
        texts += [*pack_helpers(storage), BYTES.strip(), pack_source(storage)]
        exported += ["PARAMS", "pack"]
    public, helpers = _public(file, source)
    if sized:
        texts += [*place_sources(), _VIEWS_AT.strip()]
    texts += [_THERE.strip(), *(helper.strip() for helper in helpers)]
    texts += [_memory_of(storage, sized), public]
    short = any(b.dtype == "bfloat16" for b in (*nest.args, *storage.params))
    head = [network_head(file), _imports(source, short), ""]
    head += [f"OPTIONS = dict(fastmath={file.fastmath})", *tables(storage)]
    last = f"__all__ = {sorted(exported)}"
    defined = dict.fromkeys(d for kernels in source.kernels for d in kernels.definitions)
    parts = [plain("\n".join(head)), *defined, *functions, *map(plain, [*texts, last])]
    return Listing(tuple(join_parts(parts, 2)))


def _imports(source: NetworkSource, short: bool) -> str:
    math = sorted({name for kernel in source.kernels for name in kernel.math})
    names = sorted({name for kernel in source.kernels for name in kernel.intrinsics})
    lines = [f"from math import {', '.join(math)}"] if math else []
    lines += ["from types import SimpleNamespace", ""]
    lines += ["import ml_dtypes  # NumPy's bfloat16"] if short else []
    lines += ["import numpy as np", "from numba import cuda"]
    if names:
        lines += ["", *wrap_items("from schedlang.intrinsics.gpu import (", names, ")")]
    return "\n".join(lines)


def _launch(source: NetworkSource) -> str:
    """Return the function that launches the kernels of all parts."""
    listed = ", ".join([*source.parameters, "v", "stream=0"])
    lines = [
        *wrap_call("def launch(", listed, "):"),
        f'{INDENT}"""All kernels in order, on one stream. `v` is what `views` returned."""',
    ]
    for call in source.calls:
        note = f"  # {call.note}" if call.note else ""
        listed = ", ".join([*call.args, "stream"])
        wrapped = wrap_call(f"{INDENT}{call.function}(", listed, ")")
        lines += [*wrapped[:-1], wrapped[-1] + note]
    return "\n".join(lines)


def wrap_call(opening: str, listed: str, closing: str) -> list[str]:
    """Return a call on one line, or on several if it is long.

    >>> wrap_call("f(", "a, b", ")")
    ['f(a, b)']
    """
    line = f"{opening}{listed}{closing}"
    if len(line) <= WIDTH:
        return [line]
    margin = " " * (len(opening) - len(opening.lstrip()))
    inside = wrap(
        f"{listed},", WIDTH - len(margin) - 4, break_long_words=False, break_on_hyphens=False
    )
    return [opening, *(f"{margin}{INDENT}{part}" for part in inside), f"{margin}{closing}"]


def _views(source: NetworkSource, sized: bool) -> str:
    parameters = "params, arena, places" if sized else "params, arena"
    lines = [
        f"def views({parameters}):",
        f'{INDENT}"""The parameters and the arrays between kernels, in two arrays of bytes."""',
        f"{INDENT}return SimpleNamespace(",
    ]
    for view in source.views:
        kind = memory_dtype(view.dtype)
        part = f"part({view.whole}, {view.start}, {view.count}, np.{kind})"
        lines.append(f"{INDENT * 2}{view.name}={part},  # {view.about}")
    if not source.views:
        return "\n".join([*lines[:-1], f"{INDENT}return SimpleNamespace()"])
    return "\n".join([*lines, f"{INDENT})"])


def _memory_of(storage: Storage, sized: bool) -> str:
    """Return the function that makes the memory of calls; if ``sized``, they make the arena."""
    parameters = "arrays" if storage.params else ""
    params = "cuda.to_device(pack(arrays))" if storage.params else "None"
    arena = "cuda.device_array(ARENA_BYTES, np.uint8)" if storage.arena else "None"
    about = "The parameters and the arena in the memory of the current GPU."
    if storage.params:
        about = "The parameters, of arrays by their names in PARAMS, and the arena, on the GPU."
    expression = f"views({params}, {arena})"
    if sized:
        about += " The arena is made by calls, at their sizes."
        expression = f"SimpleNamespace(params={params}, arena=None, views={{}})"
    return "\n".join(
        [
            f"def memory_of({parameters}):",
            *_docstring(about),
            f"{INDENT}made = {expression}",
            f"{INDENT}cuda.synchronize()  # before a stream that does not wait for the copy",
            f"{INDENT}return made",
        ]
    )


def _docstring(about: str) -> list[str]:
    """Return a docstring of one paragraph, on several lines if it is long."""
    line = f'{INDENT}"""{about}"""'
    if len(line) <= WIDTH:
        return [line]
    first, _, rest = about.partition(". ")
    return [f'{INDENT}"""{first}.', "", f"{INDENT}{rest}", f'{INDENT}"""']


def _public(file: NetworkFile, source: NetworkSource) -> tuple[str, list[str]]:
    """Return the source of the public function, and the sources of the functions that it calls.

    It takes and returns arrays.
    """
    nest = file.nest
    names: dict[Buffer | Var, str] = dict(zip((*nest.args, *nest.sizes), source.parameters))
    sizes: dict[Expr, str] = {v: name for v, name in names.items() if isinstance(v, Var)}
    arrays = [a for a in nest.args if isinstance(a, Buffer)]
    inputs = [a for a in nest.args if a not in nest.outputs]
    parameters = [names[a] for a in inputs] + [f"{names[b]}=None" for b in nest.outputs]
    first = next((names[a] for a in inputs if isinstance(a, Buffer)), "None")
    keywords, by_out = out_argument([names[b] for b in nest.outputs], [names[a] for a in nest.args])
    listed = ", ".join([*parameters, "*", *keywords, "memory", "stream=0"])
    lines = [
        *wrap_call(f"def {source.public}(", listed, "):"),
        f'{INDENT}"""{", ".join(map(argument_text, nest.outputs))}; made here unless given.',
        "",
        f"{INDENT}Arrays are NumPy's or on the GPU. `memory` is what `memory_of` returned; calls",
        f"{INDENT}that run at once need one each.",
        f'{INDENT}"""',
        *by_out,
        *size_lines(nest, names, sizes),
    ]
    for a in nest.args:
        lines += checks_of_bounds(a, names[a]) if isinstance(a, Var) and a.is_size else []
    for b in nest.outputs:
        lines.append(f"{INDENT}if {names[b]} is None:")
        array = f"_empty({first}, {shape_source(b, sizes)}, {b.dtype!r})"
        lines.append(f"{INDENT * 2}{names[b]} = {array}")
    lines.append(f"{INDENT}given = (")
    lines += [f"{INDENT * 2}{_given(a, names, sizes, a in nest.outputs)}," for a in nest.args]
    lines += [f"{INDENT * 2}{names[size]}," for size in nest.sizes]
    lines.append(f"{INDENT})")
    for k, other in arguments_apart(nest):
        what = f"{nest.args[k].name} and {nest.args[other].name}"
        lines.append(f"{INDENT}_apart(given[{k}], given[{other}], {what!r})")
    by_name = {v.name: name for v, name in names.items() if isinstance(v, Var)}
    lines += refusal_lines(file.refused, by_name)
    views = "memory"
    if file.between is not None:
        key = [f"{names[v]}," for v in names if isinstance(v, Var) and v.is_size]
        views = "v"
        lines.append(f"{INDENT}v = _views_at(memory, ({' '.join(key)}), [")
        lines += [*lives(file.between, sizes), f"{INDENT}])"]
    lines.append(f"{INDENT}launch(*given, {views}, stream=stream)")
    for k, a in enumerate(nest.args):
        if a in nest.outputs:
            lines.append(f"{INDENT}_back(given[{k}], {names[a]}, stream)")
    on_host = ", ".join(names[a] for a in arrays) + ("," if len(arrays) == 1 else "")
    lines += [
        f"{INDENT}if not all(map(_is_there, ({on_host}))):",
        f"{INDENT * 2}(stream or cuda.default_stream()).synchronize()",
        f"{INDENT}return {', '.join(names[b] for b in nest.outputs)}",
    ]
    return "\n".join(lines), size_helpers(nest, keywords)


def _given(
    a: Buffer | Var, names: Mapping[Buffer | Var, str], sizes: Mapping[Expr, str], is_output: bool
) -> str:
    """Return the text of an argument of ``launch``."""
    name = names[a]
    if isinstance(a, Buffer):
        last = ", written=True" if is_output else ""
        expression = (
            f"_there({name}, {a.name!r}, {a.dtype!r}, {shape_source(a, sizes)}, stream{last})"
        )
        return expression + (
            f".view({storage_dtype(a.dtype)!r})" if storage_dtype(a.dtype) != a.dtype else ""
        )
    if a.is_size:
        return f"int({name})"
    kind = "bool_" if a.dtype == "bool" else a.dtype
    expression = f"ml_dtypes.bfloat16({name})" if kind == "bfloat16" else f"np.{kind}({name})"
    return f"np.float32({expression})" if kind in SHORT_FLOATS else expression


__all__ = [
    "CallSource",
    "HELPERS",
    "NetworkSource",
    "ViewSource",
    "kernel_functions",
    "render_device_network",
]
