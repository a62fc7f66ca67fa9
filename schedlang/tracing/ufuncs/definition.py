"""``ufunc``: a function over numbers, or over small arrays, as a ufunc of NumPy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from schedlang.errors import (
    BuildError,
    ComputeError,
    ComputeTypeError,
    SchedlangError,
    explain,
    shorten_traceback,
)
from schedlang.expr.dtypes import array_dtype, canonical
from schedlang.expr.names import check_name
from schedlang.runtime.numba_threads import import_numba
from schedlang.signatures import public
from schedlang.tracing.ufuncs.signature import CoreDimensions, counted, read_signature
from schedlang.tracing.ufuncs.wording import in_words_of_ufunc, named_ufunc

# NumPy's order, in which a call takes the first loop whose dtypes its arguments cast to safely
CANDIDATES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip
# the most operands of a ufunc that all versions of NumPy take
MOST = 32


@public
def ufunc(
    function: Callable[..., Any],
    signature: str | None = None,
    dtypes: Sequence[Any] | None = None,
    identity: Any = None,
    name: str | None = None,
    parallel: bool = True,
    fastmath: bool = False,
) -> np.ufunc:
    """Return a ufunc of NumPy that computes ``function``, compiled, of each element.

    ``function`` takes a number for each of its parameters, and returns the result, or a tuple of
    several. It is called once for each combination of dtypes, with expressions in place of the
    numbers, as the lambda of :func:`~schedlang.compute` is. With ``signature``, such as
    ``"(n),(n)->()"``, it takes and returns arrays of these core dimensions, as under
    :func:`~schedlang.trace`, and the ufunc is a generalized one.

    ``dtypes``: the dtypes of the inputs for which there are loops. An item is one dtype for all
    inputs, or a tuple with one for each. By default they are all dtypes of NumPy's for which the
    language has what ``function`` computes: bool, integers, floats and complex numbers. The dtypes
    of the results follow by the rules of the language, which are NumPy's. A call takes the first
    loop that its arguments cast to safely; there is NumPy's error if none does.

    ``identity``: where a reduction starts; NumPy then reduces in any order. Sums, products, ``&``,
    ``|`` and ``^`` of the two arguments have known ones. ``name``: by default the function's name.
    ``parallel``: whether a call on large arrays may use several threads. ``fastmath``: see
    :func:`~schedlang.build`.

    The ufunc has ``loops``, by types such as ``"dd->d"``, each with ``source``, ``machine_nest``,
    ``llvm`` and ``asm``, and ``source``, the text of those that are compiled. A loop is compiled at
    the first call that needs it, or read from the cache folder.

    Raises :class:`~schedlang.errors.ComputeTypeError` and :class:`~schedlang.errors.ComputeError`
    for a function that the language does not know, and for arguments that do not fit, and
    :class:`~schedlang.errors.BuildError` with a NumPy before 2.2.

    >>> import numpy as np, schedlang as sl
    >>> leaky = sl.ufunc(lambda x, slope: sl.select(x > 0, x, slope * x), name="leaky")
    >>> leaky(np.array([-2.0, 3.0], "float32"), 0.5)
    array([-1.,  3.], dtype=float32)
    >>> dot = sl.ufunc(lambda x, y: np.sum(x * y), signature="(n),(n)->()", name="dot")
    >>> dot(np.ones((2, 3)), [1.0, 2.0, 3.0])
    array([6., 6.])
    """
    if not callable(function):
        raise ComputeTypeError(
            f"sl.ufunc({function!r}, ...): the first argument is a function, such as a lambda"
        )
    if not _takes_attributes():
        raise BuildError(
            explain(
                "sl.ufunc", f"ufuncs of NumPy {np.__version__} take no attributes, such as loops",
                "Install NumPy 2.2 or newer.",
            )
        )  # fmt: skip
    title = _name(function, name)
    dimensions = None if signature is None else read_signature(signature)
    parameters = _parameters(function, title, dimensions)
    for option, value in (("parallel", parallel), ("fastmath", fastmath)):
        if not isinstance(value, bool):
            raise ComputeTypeError(f"sl.ufunc({title}, {option}={value!r}): it is True or False")
    if dimensions is not None and identity is not None:
        raise ComputeError(
            explain(
                f"sl.ufunc({title}, signature={signature!r}, identity={identity!r})",
                "NumPy has no reduce for a generalized ufunc",
                "Leave out identity=.",
            )
        )
    import_numba()
    try:
        with named_ufunc(title):
            return _ufunc(
                function, title, parameters, dimensions, dtypes, identity, parallel, fastmath
            )
    except SchedlangError as error:
        raise shorten_traceback(error) from error.__cause__


def _ufunc(
    function: Callable[..., Any], name: str, parameters: Sequence[str],
    dimensions: CoreDimensions | None, dtypes: Any, identity: Any, parallel: bool, fastmath: bool,
) -> np.ufunc:  # fmt: skip
    from schedlang.tracing.ufuncs.identity import (
        Identity,
        checked_identity,
        has_number,
        is_number,
        known_identity,
    )
    from schedlang.tracing.ufuncs.loop import Loop
    from schedlang.tracing.ufuncs.pickling import described_ufunc

    wanted = _wanted(name, dtypes, len(parameters))
    loops: list[Loop] = []
    refused: dict[tuple[str, ...], SchedlangError] = {}
    for kinds in wanted or [(d,) * len(parameters) for d in CANDIDATES]:
        try:
            inputs, outputs = _traced(function, parameters, kinds, name, dimensions)
        except SchedlangError as error:
            if wanted:
                raise
            refused[kinds] = error
            continue
        loops.append(Loop(name, inputs, outputs, dimensions, fastmath, parallel))
    if not loops:
        # a function that knows no dtype is mostly wrong for another reason, which this one tells
        raise refused[("float64",) * len(parameters)]
    counts = {len(loop.outputs) for loop in loops}
    if len(counts) > 1:
        raise ComputeError(f"sl.ufunc({name}): it returns {sorted(counts)} results, by the dtype")
    _check_operands(name, len(parameters) + counts.pop())
    start = Identity()
    if dimensions is None and identity is None:
        start = known_identity(loops[0].inputs, loops[0].outputs)
    elif dimensions is None:
        fitting = [p for p in loops if all(has_number(t.dtype, identity) for t in p.inputs)]
        lacking = next((p.inputs[0].dtype for p in loops if p not in fitting), "")
        if is_number(identity) and lacking and (wanted or not fitting):
            asked = f"sl.ufunc({name}, identity={identity!r})"
            raise ComputeError(
                explain(asked, f"{lacking} has no such number", "Leave that dtype out of dtypes=.")
            )
        loops = fitting or loops
        like = [p for p in loops if {t.dtype for t in p.inputs} == {t.dtype for t in p.outputs}]
        # bools and bytes have too few numbers for the tests
        numbers = [p for p in like if p.inputs[0].dtype not in ("bool", "int8", "uint8")]
        for loop in numbers or like or loops[:1]:
            start = checked_identity(name, identity, loop.inputs, loop.outputs)
    doc = inspect.getdoc(function) or ""
    result: np.ufunc = described_ufunc(name, doc, tuple(loops), start, str(dimensions or ""))
    return result


def _traced(
    function: Callable[..., Any], parameters: Sequence[str], kinds: Sequence[str], name: str,
    dimensions: CoreDimensions | None,
) -> Any:  # fmt: skip
    if dimensions is None:
        from schedlang.tracing.ufuncs.elements import traced_elements

        with in_words_of_ufunc(name, parameters):
            return traced_elements(function, parameters, kinds, f"{name}_out")
    from schedlang.tracing.ufuncs.cores import traced_cores

    return traced_cores(function, parameters, kinds, name, dimensions)


def _takes_attributes() -> bool:
    return hasattr(np.add, "__dict__")


def _name(function: Callable[..., Any], name: str | None) -> str:
    if name is not None:
        return check_name(name, "a ufunc")
    own = getattr(function, "__name__", "")
    return own if own.isidentifier() else "ufunc"


def _parameters(
    function: Callable[..., Any], name: str, dimensions: CoreDimensions | None
) -> list[str]:
    """Return the names of the parameters, one for each input."""
    count = len(dimensions.inputs) if dimensions is not None else None
    if isinstance(function, np.ufunc):
        parameters = [f"x{k}" for k in range(function.nin)]
    else:
        parameters = _named(function, name)
    if not parameters:
        raise ComputeTypeError(
            explain(
                f"sl.ufunc({name})", "the function has no parameters",
                "A ufunc takes at least one array: give the function a parameter for each.",
            )
        )  # fmt: skip
    if count is not None and count != len(parameters):
        raise ComputeError(
            f"sl.ufunc({name}, signature={str(dimensions)!r}): the signature has "
            f"{counted(count, 'input')}, and the function {counted(len(parameters), 'parameter')}"
        )
    return parameters


def _named(function: Callable[..., Any], name: str) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        raise ComputeTypeError(
            explain(
                f"sl.ufunc({name})", "Python does not know the parameters of the function",
                "Write a lambda that calls it: sl.ufunc(lambda x, y: ...).",
            )
        ) from None  # fmt: skip
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY):
            stars = "*" * ((p.kind is p.VAR_POSITIONAL) + 2 * (p.kind is p.VAR_KEYWORD))
            raise ComputeTypeError(
                explain(
                    f"sl.ufunc({name})",
                    f"{stars}{p.name} cannot be given by position, and NumPy counts the inputs of "
                    "a ufunc",
                    "Write a lambda with one parameter for each input.",
                )
            )
    return [p.name for p in parameters if p.default is p.empty]


def _check_operands(name: str, count: int) -> None:
    if count > MOST:
        raise ComputeError(f"sl.ufunc({name}): {count} operands; NumPy takes {MOST} at most")


def _wanted(name: str, dtypes: Any, count: int) -> list[tuple[str, ...]]:
    """Return the dtypes of the inputs of each loop; none if the function decides."""
    if dtypes is None:
        return []
    asked = f"sl.ufunc({name}, dtypes={dtypes!r})"
    example = 'Write e.g. dtypes=["float32", "float64"], or a tuple for each loop: [("float32", '
    example += '"int32")].'
    if isinstance(dtypes, (str, type, np.dtype)) or not isinstance(dtypes, Sequence):
        raise ComputeTypeError(explain(asked, "dtypes is a list, one item for each loop", example))
    if not dtypes:
        raise ComputeError(explain(asked, "a ufunc has at least one loop", example))
    loops = []
    for item in dtypes:
        kinds = item if isinstance(item, (tuple, list)) else (item,) * count
        if len(kinds) != count:
            has, wants = counted(len(kinds), "dtype"), counted(count, "input")
            raise ComputeError(explain(asked, f"{item!r} has {has}, and {name} {wants}", example))
        loops.append(tuple(_kind(kind, asked) for kind in kinds))
    for k, kinds in enumerate(loops):
        if kinds in islice(loops, k):
            raise ComputeError(explain(asked, f"the loop {', '.join(kinds)} is given twice"))
    return loops


def _kind(kind: Any, asked: str) -> str:
    dtype = canonical(kind)
    if np.dtype(array_dtype(dtype)).isbuiltin != 1:
        raise ComputeTypeError(
            explain(
                asked, f"{dtype} is not a dtype of NumPy's own",
                "Use float32, or a kernel by sl.build.",
            )
        )
    return dtype


__all__ = ["ufunc"]
