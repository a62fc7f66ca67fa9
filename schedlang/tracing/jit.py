"""``jit``: a function over NumPy's operations becomes kernels, once for each kind of arguments."""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from functools import cached_property, partial, update_wrapper
from operator import attrgetter
from threading import RLock
from types import FunctionType
from typing import Any, overload

import numpy as np

from schedlang.errors import CallError, ComputeTypeError, SchedlangError, shorten_traceback
from schedlang.markup.progress import Setting, check_setting, tell, working
from schedlang.runtime.background import check_moment
from schedlang.runtime.kernel import Kernel
from schedlang.schedule.schedule import Schedule
from schedlang.signatures import public
from schedlang.target import Target, TargetLike, run_here
from schedlang.tracing.arguments import Given, bind_arguments, with_strides
from schedlang.tracing.array import TracedArray
from schedlang.tracing.direct import Direct, direct, plain_key
from schedlang.tracing.generators import TracedGenerator
from schedlang.tracing.leaves import flatten
from schedlang.tracing.lengths import Lengths
from schedlang.tracing.masked import MaskedElements
from schedlang.tracing.specialization import Specialization, specialize
from schedlang.tracing.trace import running_trace

# a trace with symbolic lengths has a short way for each combination of them, at most so many
MOST_SHORT_WAYS = 16


class JitFunction:
    """A traced function: call it like the function that it was made from.

    ``specialized(*args)`` returns what a call with such arguments runs, a
    :class:`~schedlang.tracing.specialization.Specialization`. ``source``, ``schedule``,
    ``kernels``, ``loops`` and ``lengths`` describe the latest call.
    """

    __name__: str
    __qualname__: str

    def __init__(
        self,
        function: Callable[..., Any],
        target: Target,
        static: frozenset[str],
        size: int,
        compiler: str = "",
        moment: str = "lazy",
        progress: Setting = None,
        dynamic: bool | None = None,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.target = target
        self._static = static
        self._has_static = bool(static)
        self._size = size
        self._compiler, self._moment, self._progress = compiler, moment, progress
        self._dynamic = dynamic
        self._lengths = Lengths(dynamic, size)
        self._lock = RLock()
        self._known: OrderedDict[Any, Specialization] = OrderedDict()
        self._latest: Specialization | None = None
        # the short ways of calls, by what tells plain arguments apart
        self._direct: dict[Hashable, Direct] = {}

    @cached_property
    def _signature(self) -> inspect.Signature:
        # a function that names itself is unpickled before its defaults
        return inspect.signature(self.function)

    def __call__(self, *args: Any, **named: Any) -> Any:
        values = (*args, *named.values()) if named else args
        plain = plain_key(values, named, self._has_static)  # type: ignore[arg-type]
        short = None if plain is None else self._direct.get(plain)
        if short is not None and short.fits(values):
            self._used(short)
            return short(values)
        if running_trace() is not None and _traced((args, named)):
            # a traced function calls this one, which becomes a part of it
            return self.function(*args, **named)
        try:
            arguments = self._given(args, named)
            if self._ready(arguments) is not None:
                return self._called(arguments, plain, args, named)
            with self._working():
                return self._called(arguments, plain, args, named)
        except SchedlangError as error:
            raise shorten_traceback(error) from error.__cause__

    def _called(
        self, arguments: Given, plain: Hashable, args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Return the result of a call, and remember the short way of plain ones like it."""
        key, specialization = self._for(arguments, called=True)
        if specialization.needs_strides(arguments):
            arguments = with_strides(arguments)
            key, specialization = self._for(arguments, called=True)
        if plain is not None and plain not in self._direct:
            short = direct(self._signature, args, named, key, arguments, specialization)
            if short is not None:
                with self._lock:
                    # another thread may have dropped the specialization
                    if key in self._known:
                        self._direct[plain] = short
                        if len(self._direct) > MOST_SHORT_WAYS * self._size:
                            del self._direct[next(iter(self._direct))]
        return specialization(arguments)

    def _used(self, short: Direct) -> None:
        """Note that a short way is the latest one used; it leaves the cache with the others."""
        with self._lock:
            self._latest = short.specialization
            try:
                self._known.move_to_end(short.key)
            except KeyError:
                # another thread has dropped it
                pass

    def specialized(self, *args: Any, **named: Any) -> Specialization:
        """Return what a call with such arguments runs; nothing runs now."""
        try:
            with self._working():
                arguments = self._given(args, named)
                specialization = self._for(arguments)[1]
                if specialization.needs_strides(arguments):
                    specialization = self._for(with_strides(arguments))[1]
                return specialization
        except SchedlangError as error:
            raise shorten_traceback(error) from error.__cause__

    def _working(self) -> AbstractContextManager[None]:
        return working(f"{self.__name__} under sl.jit", self._progress)

    @property
    def source(self) -> str:
        """The emitted source of the latest call's kernels."""
        return self._last().source

    @property
    def schedule(self) -> Schedule:
        """The schedule of the latest call's kernel, if it has one kernel."""
        return self._last().schedule

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels of the latest call, in the order of their first calls."""
        return self._last().kernels

    @property
    def loops(self) -> str:
        """The way each loop of the latest call runs, a line for each."""
        return "\n".join(self._last().loops)

    @property
    def lengths(self) -> str:
        """The lengths for which the latest call's trace holds, a line for each: those that may
        change, and why others may not."""
        return "\n".join(self._last().lengths)

    @property
    def host_calls(self) -> str:
        """The functions of NumPy that the latest call calls between kernels, a line for each."""
        return "\n".join(self._last().host_calls)

    @property
    def specializations(self) -> list[Specialization]:
        """The specializations of the calls so far, the least recently used one first."""
        return list(self._known.values())

    def _given(self, args: tuple[Any, ...], named: dict[str, Any]) -> Given:
        return bind_arguments(self._signature, self.__name__, self._static, args, named)

    def _ready(self, arguments: Given) -> Hashable | None:
        """Return the key of a trace for a call, ``None`` if there is none yet."""
        if arguments.key in self._known:
            return arguments.key
        key = self._lengths.key_of(arguments)
        known = self._known.get(key)
        return None if known is None or not known.takes(arguments) else key

    def _for(self, arguments: Given, called: bool = False) -> tuple[Hashable, Specialization]:
        def make(given: Given) -> Specialization:
            return specialize(
                self.function,
                self._signature,
                given,
                self.target,
                self._compiler,
                self._moment,
                called,
            )

        with self._lock:
            key = self._ready(arguments)
            if key is None:
                tell("tracing and scheduling")
                key, specialization = self._lengths.specialized(arguments, make)
                self._known[key] = specialization
                if len(self._known) > self._size:
                    gone, _ = self._known.popitem(last=False)
                    self._direct = {k: d for k, d in self._direct.items() if d.key != gone}
            self._known.move_to_end(key)
            self._latest = self._known[key]
        return key, self._latest

    def _last(self) -> Specialization:
        if self._latest is None:
            raise CallError(
                f"{self.__name__} was not called yet, so it has no kernels: call it, or write "
                f"{self.__name__}.specialized(...) with arguments of a call"
            )
        return self._latest

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        raise ComputeTypeError(
            f"{self.__name__} is a method under @sl.jit: its first argument would be {instance!r}, "
            "which is not an array; make it a function, or a staticmethod"
        )

    def __repr__(self) -> str:
        count = len(self._known)
        return f"<sl.jit of {self.__qualname__}, {count} specialization{'s' * (count != 1)}>"

    @cached_property
    def undecorated(self) -> Callable[..., Any]:
        """The function, under the name by which it is pickled: ``f.undecorated`` of its module."""
        given = self.function
        copy = FunctionType(
            given.__code__, given.__globals__, given.__name__, given.__defaults__, given.__closure__
        )
        copy.__kwdefaults__, copy.__doc__ = given.__kwdefaults__, given.__doc__
        copy.__module__, copy.__annotations__ = given.__module__, given.__annotations__
        copy.__qualname__ = f"{given.__qualname__}.undecorated"
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the function as its pickler does: by name, or by value as cloudpickle may."""
        function = self.function
        if isinstance(function, FunctionType) and _named(function) is self:
            if protocol < 4:
                # older protocols have no names with dots
                return self.__qualname__
            # under the function's own name, a pickler would find this object
            function = self.undecorated
        options = (self.target, self._static, self._size, self._compiler)
        return _unpickled, (function, *options, self._moment, self._progress, self._dynamic)


def _unpickled(function: Callable[..., Any], *options: Any) -> JitFunction:
    """Return the traced function of this process, or a new one of a function that came by value."""
    if isinstance(function, FunctionType):
        own = _named(function)
        if isinstance(own, JitFunction) and own.undecorated is function:
            return own
        function.__qualname__ = function.__qualname__.removesuffix(".undecorated")
    return JitFunction(function, *options)


def _named(function: FunctionType) -> Any:
    """Return what the module of a function has under its name; ``None`` if nothing."""
    name = function.__qualname__.removesuffix(".undecorated")
    try:
        return attrgetter(name)(sys.modules.get(function.__module__))
    except AttributeError:
        return None


def _traced(arguments: Any) -> bool:
    leaves, _ = flatten([list(arguments[0]), dict(arguments[1])])
    return any(type(leaf) in (TracedArray, MaskedElements, TracedGenerator) for leaf in leaves)


@overload
def jit(
    function: Callable[..., Any],
    *,
    target: TargetLike | None = ...,
    static_argnames: str | Iterable[str] = ...,
    static_argnums: int | Iterable[int] = ...,
    cache_size: int = ...,
    compiler: str = ...,
    compile: str = ...,
    progress: Setting = ...,
    dynamic: bool | None = ...,
) -> JitFunction: ...
@overload
def jit(
    function: None = ...,
    *,
    target: TargetLike | None = ...,
    static_argnames: str | Iterable[str] = ...,
    static_argnums: int | Iterable[int] = ...,
    cache_size: int = ...,
    compiler: str = ...,
    compile: str = ...,
    progress: Setting = ...,
    dynamic: bool | None = ...,
) -> Callable[[Callable[..., Any]], JitFunction]: ...
@public
def jit(
    function: Callable[..., Any] | None = None,
    *,
    target: TargetLike | None = None,
    static_argnames: str | Iterable[str] = (),
    static_argnums: int | Iterable[int] = (),
    cache_size: int = 64,
    compiler: str = "",
    compile: str = "lazy",  # noqa: A002
    progress: Setting = None,
    dynamic: bool | None = None,
) -> Any:
    """Return a function that runs as kernels what ``function`` computes with NumPy.

    The first call with arrays of some shapes and dtypes traces ``function``: it runs once, on
    arrays whose elements are unknown, and each operation of NumPy becomes a stage. These stages
    are scheduled without a search, by a schedule of the tuning database if it has one, and built
    for ``target`` (the CPU by default). Further calls with such arrays run the kernels at once.

    When the length of a dimension has its third value, the function is traced once more, with this
    length symbolic, and further lengths run this trace: ``f.lengths`` describes it. Lengths of 0
    and 1, and those whose number the function needs, have traces of their own. With
    ``dynamic=True`` all lengths are symbolic from the first call on, with ``dynamic=False`` none.

    Arguments are arrays of any library that a kernel takes, floats and NumPy's scalars, and tuples,
    lists and dicts of them. Python integers, bools and strings are fixed: each value is traced
    anew. All arguments in ``static_argnames`` and ``static_argnums`` are fixed, too. At most
    ``cache_size`` traces are kept, the latest ones. ``compiler`` and ``compile`` are arguments of
    :func:`~schedlang.build`: with ``compile="background"`` a thread compiles the next kernels of a
    trace while the first ones run. A first call that takes more than two seconds says so on a
    terminal and in a notebook, unless ``progress=False``.

    As in NumPy, slices are views, and assignments to elements of an argument change the caller's
    array; so do changes of a list or dict of the caller. Random numbers are drawn by each call from
    a generator that is an argument, and refused from another one. The source of ``function`` is
    read, and of the functions that it calls, so that a loop over ``range`` or over the rows of an
    array stays a loop: its body is traced once, as in :func:`~schedlang.fori_loop`. ``while`` on
    elements is a loop on the host, and ``if`` on elements computes both sides and chooses. Both are
    refused in a function whose source cannot be read, such as one typed at a prompt, and in a
    lambda, where loops are unrolled.

    Sorts, solvers, transforms and what has a length that only the elements tell, such as
    ``np.unique``, are called on the host between kernels: ``f.host_calls`` lists them.

    Raises :class:`~schedlang.errors.ComputeTypeError` for an argument that is not a function, or
    static arguments that the function does not have or another ``dynamic``, and
    :class:`~schedlang.errors.BuildError` for an unknown target, a compiler that it lacks, or
    another ``compile``.

    >>> import numpy as np, schedlang as sl
    >>> @sl.jit(target="python")
    ... def smooth(x):
    ...     y = np.copy(x)
    ...     y[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    ...     return y
    >>> smooth(np.array([0, 3, 3, 9], "float32"))
    array([0., 2., 5., 9.], dtype=float32)
    """
    if function is None:
        return lambda given: jit(
            given,
            target=target,
            static_argnames=static_argnames,
            static_argnums=static_argnums,
            cache_size=cache_size,
            compiler=compiler,
            compile=compile,
            progress=progress,
            dynamic=dynamic,
        )
    if not callable(function):
        raise ComputeTypeError(
            f"sl.jit({function!r}): the argument must be a function, as in @sl.jit above a def"
        )
    if isinstance(function, (np.ufunc, partial)):
        name = getattr(function, "__name__", "a partial function")
        call = f"np.{name}" if isinstance(function, np.ufunc) else "f"
        raise ComputeTypeError(
            f"sl.jit({name}): it has no code of Python to trace; write a function that calls it, "
            f"such as sl.jit(lambda x: {call}(x))"
        )
    if isinstance(cache_size, bool) or not isinstance(cache_size, int) or cache_size < 1:
        raise ComputeTypeError(
            f"sl.jit(..., cache_size={cache_size!r}): give the number of traces to keep, 1 or more"
        )
    check_moment("sl.jit", compile)
    check_setting("sl.jit", progress)
    static = _static(function, static_argnames, static_argnums)
    where = run_here(Target.of(target), "a traced function")
    where.facts.compiler_named(compiler)
    if dynamic is not None and not isinstance(dynamic, bool):
        raise ComputeTypeError(
            f"sl.jit(..., dynamic={dynamic!r}): give True for one trace of all lengths, False for "
            "a trace of each, or None for a trace of each until a length has had three values"
        )
    return JitFunction(function, where, static, cache_size, compiler, compile, progress, dynamic)


def _static(
    function: Callable[..., Any], names: str | Iterable[str], numbers: int | Iterable[int]
) -> frozenset[str]:
    """Return the names of the static parameters."""
    parameters = list(inspect.signature(function).parameters)
    title = getattr(function, "__name__", "the function")
    static = [names] if isinstance(names, str) else list(names)
    for name in static:
        if name not in parameters:
            raise ComputeTypeError(
                f"sl.jit(..., static_argnames={name!r}): {title} has no such parameter; it has "
                f"{', '.join(parameters) or 'none'}"
            )
    for number in [numbers] if isinstance(numbers, int) else numbers:
        if not -len(parameters) <= number < len(parameters):
            raise ComputeTypeError(
                f"sl.jit(..., static_argnums={number}): {title} has {len(parameters)} parameters"
            )
        static.append(parameters[number])
    return frozenset(static)


__all__ = ["JitFunction", "jit"]
