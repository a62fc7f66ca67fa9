"""Objects of Python that the body of a loop or a side of an ``if`` may change, with copies.

A body is traced once, and both sides of an ``if`` on elements are, so changes of objects would
happen once, or in any case. They are undone, and then refused or left to Python.
"""

from __future__ import annotations

import array
import os
import pickle
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from random import Random
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from schedlang.errors import ComputeTypeError, LoopWarning, explain, warn_user
from schedlang.tracing.code import is_of_ctypes, is_of_user
from schedlang.tracing.leaves import is_traced
from schedlang.tracing.leaving import PREFIX
from schedlang.tracing.trace import Trace

# the most objects that are searched
_MOST_PARTS = 20_000
_LEAVES = (str, bytes, bool, int, float, complex, np.generic, np.dtype, CodeType, type(None))
_SEQUENCES = (list, deque, bytearray, array.array)
# classes of Python's library whose objects hold parts as attributes
_WITH_ATTRIBUTES = (SimpleNamespace, UserDict, UserList, ChainMap, type(os.environ))
_EMPTY = object()


class Unchanged:
    """Objects that a body can reach from ``values``, with copies of what they hold.

    They are lists, dicts, sets and their like, attributes of objects and classes of the user's,
    arrays of NumPy, whose elements are known, and names of functions around or of modules, without
    the cells in ``own``.
    """

    def __init__(
        self, values: Iterable[Any], own: Sequence[CellType], names: Iterable[tuple[dict, str]]
    ) -> None:
        self._kept: list[tuple[_Held, Any]] = []
        self._visited: dict[int, Any] = {id(cell): cell for cell in own}
        self.iterators: list[Any] = []
        # the objects that are reached first come first: the search may end in a large one
        waiting = deque(values)
        while waiting and len(self._visited) < _MOST_PARTS:
            value = waiting.popleft()
            if isinstance(value, _LEAVES) or id(value) in self._visited or is_traced(value):
                continue
            self._visited[id(value)] = value
            waiting.extend(self._parts(value))
        self.is_complete = not waiting
        for module, name in names:
            self._keep(_Global(module, name))

    def _parts(self, value: Any) -> Iterator[Any]:
        """Yield what a value holds, and keep a copy of that if it may change."""
        if isinstance(value, np.ndarray):
            if value.flags.writeable:
                self._keep(_Array(value if type(value) is np.ndarray else value.view(np.ndarray)))
        elif is_of_ctypes(value):
            self._keep(_Bytes(value))
        elif isinstance(value, (dict, set, *_SEQUENCES)):
            yield from self._keep(_Container(value))
            if is_of_user(type(value)) and hasattr(value, "__dict__"):
                yield from self._keep(_Attributes(value))
        elif isinstance(value, (tuple, frozenset)):
            yield from value
        elif isinstance(value, CellType):
            yield from self._keep(_Cell(value))
        elif isinstance(value, FunctionType):
            if not value.__name__.startswith(PREFIX) and is_of_user(value):
                yield from value.__closure__ or ()
                yield from value.__defaults__ or ()
                yield from self._keep(_Attributes(value))
        elif isinstance(value, (MethodType, BuiltinMethodType)):
            yield value.__self__
        elif isinstance(value, partial):
            yield from (value.func, value.args, value.keywords)
        elif isinstance(value, memoryview):
            yield value.obj
        elif issubclass(type(value), (Random, np.random.Generator, np.random.RandomState)):
            self._keep(_Random(value))
        elif isinstance(value, ModuleType):
            return
        elif isinstance(value, type):
            if is_of_user(value):
                yield from self._keep(_Class(value))
        elif hasattr(type(value), "__next__"):
            self.iterators.append(value)
        elif is_of_user(type(value)) or isinstance(value, _WITH_ATTRIBUTES):
            if type(getattr(value, "__dict__", None)) is dict:
                yield from self._keep(_Attributes(value))
            for slot in _slots(type(value)):
                yield from self._keep(_Slot(value, slot))
            yield type(value)

    def _keep(self, held: _Held) -> Iterable[Any]:
        """Keep a copy of what an object holds; return its parts."""
        before = held.read()
        self._kept.append((held, before))
        return held.parts(before)

    def arrays(self) -> list[np.ndarray]:
        """Return the arrays of NumPy."""
        return [held.value for held, _ in self._kept if isinstance(held, _Array)]

    def undo(self) -> str:
        """Put back what the objects held; return what had changed, or nothing."""
        changed = [(held, old) for held, old in self._kept if not held.is_same(old)]
        for held, old in changed:
            held.write(old)
        return changed[0][0].text if changed else ""


class _Held:
    """An object that may change: ``text`` describes it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def text(self) -> str:
        kind = type(self.value).__name__
        return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"

    def read(self) -> Any:
        """Return what the object holds now, as a container of its own."""
        raise NotImplementedError

    def write(self, before: Any) -> None:
        """Put back what :meth:`read` returned."""
        raise NotImplementedError

    def parts(self, before: Any) -> Iterable[Any]:
        return before.values() if isinstance(before, dict) else before

    def is_same(self, before: Any) -> bool:
        """Return whether the object holds the very same parts as before."""
        now = self.read()
        if len(now) != len(before):
            return False
        if isinstance(before, dict):
            return list(now) == list(before) and all(now[k] is before[k] for k in now)
        return all(a is b for a, b in zip(now, before))


class _Container(_Held):
    @property
    def text(self) -> str:
        if type(self.value) in (list, dict, set):
            return "a list, a dict or a set"
        return super().text

    def read(self) -> Any:
        if isinstance(self.value, dict):
            return dict(dict.items(self.value))
        if isinstance(self.value, set):
            return set(self.value)
        return list(self.value)

    def write(self, before: Any) -> None:
        if isinstance(self.value, dict):
            dict.clear(self.value)
            dict.update(self.value, before)
        elif isinstance(self.value, set):
            self.value.clear()
            self.value |= before
        elif isinstance(self.value, deque):
            self.value.clear()
            self.value.extend(before)
        else:
            self.value[:] = type(self.value)(*self._code(), before)

    def _code(self) -> tuple[str, ...]:
        return (self.value.typecode,) if isinstance(self.value, array.array) else ()

    def is_same(self, before: Any) -> bool:
        if isinstance(self.value, (set, bytearray, array.array)):
            return bool(self.read() == before)
        return super().is_same(before)


class _Bytes(_Held):
    """Storage of :mod:`ctypes`."""

    def read(self) -> Any:
        return bytes(memoryview(self.value).cast("B"))

    def write(self, before: Any) -> None:
        memoryview(self.value).cast("B")[:] = before

    def is_same(self, before: Any) -> bool:
        return bool(self.read() == before)


class _Attributes(_Container):
    """The attributes of an object, but for those in its ``__slots__``."""

    def __init__(self, value: Any) -> None:
        self.value, self.kind = vars(value), type(value).__name__

    @property
    def text(self) -> str:
        return f"an attribute of an object of {self.kind}"


class _Array(_Held):
    """An array of NumPy with known elements."""

    text = "a known array"

    def read(self) -> Any:
        return self.value.copy()

    def write(self, before: Any) -> None:
        self.value[...] = before

    def parts(self, before: Any) -> Iterable[Any]:
        return ()

    def is_same(self, before: Any) -> bool:
        return bool(self.value.tobytes() == before.tobytes())


class _Random(_Held):
    """A generator of random numbers, of Python or of NumPy."""

    def read(self) -> Any:
        if isinstance(self.value, Random):
            return [self.value.getstate()]
        if isinstance(self.value, np.random.RandomState):
            return [self.value.get_state(legacy=False)]
        return [self.value.bit_generator.state]

    def write(self, before: Any) -> None:
        if isinstance(self.value, Random):
            self.value.setstate(before[0])
        elif isinstance(self.value, np.random.RandomState):
            self.value.set_state(before[0])
        else:
            self.value.bit_generator.state = before[0]

    def parts(self, before: Any) -> Iterable[Any]:
        return ()

    def is_same(self, before: Any) -> bool:
        # the states of NumPy hold arrays
        return pickle.dumps(self.read()) == pickle.dumps(before)


class _Cell(_Held):
    """A name of a function, which another function assigns."""

    text = "a name of a function around"

    def read(self) -> Any:
        try:
            return [self.value.cell_contents]
        except ValueError:
            return []

    def write(self, before: Any) -> None:
        if before:
            self.value.cell_contents = before[0]
        else:
            del self.value.cell_contents


class _Global(_Held):
    """A global name that a function assigns."""

    def __init__(self, module: dict[str, Any], name: str) -> None:
        self.value, self.name = module, name

    @property
    def text(self) -> str:
        return f"the global name {self.name}"

    def read(self) -> Any:
        return [self.value[self.name]] if self.name in self.value else []

    def write(self, before: Any) -> None:
        if before:
            self.value[self.name] = before[0]
        else:
            self.value.pop(self.name, None)


class _Class(_Held):
    @property
    def text(self) -> str:
        return f"an attribute of the class {self.value.__name__}"

    def read(self) -> Any:
        return {k: v for k, v in vars(self.value).items() if not k.startswith("__")}

    def write(self, before: Any) -> None:
        now = self.read()
        for name in now.keys() - before.keys():
            delattr(self.value, name)
        for name, old in before.items():
            if now.get(name, _EMPTY) is not old:
                setattr(self.value, name, old)


class _Slot(_Held):
    """An attribute of an object in one of its ``__slots__``."""

    def __init__(self, value: Any, slot: MemberDescriptorType) -> None:
        self.value, self.slot = value, slot

    @property
    def text(self) -> str:
        return f"an attribute of an object of {type(self.value).__name__}"

    def read(self) -> Any:
        try:
            return [self.slot.__get__(self.value)]
        except AttributeError:
            return []

    def write(self, before: Any) -> None:
        if before:
            self.slot.__set__(self.value, before[0])
        else:
            self.slot.__delete__(self.value)


def _slots(kind: type) -> list[MemberDescriptorType]:
    """Return the attributes in ``__slots__`` of a class; a class in C may have read-only ones."""
    return [
        value
        for base in kind.__mro__
        if "__slots__" in vars(base)
        for value in vars(base).values()
        if isinstance(value, MemberDescriptorType)
    ]


def unchanged(trace: Trace, before: dict[str, Any], *parts: Callable[..., Any]) -> Unchanged:
    """Return the objects that functions made of a function's parts can reach.

    ``before`` has the values of the names that they assign.
    """
    functions = [function for part in parts for function in _functions(part)]
    cells = [cell for function in functions for cell in _cells(function).values()]
    own = [cell for f in functions for name, cell in _cells(f).items() if name in before]
    uses = trace.outermost.uses
    values = [*before.values(), *_contents(cells), *trace.containers.all(), *uses.values]
    kept = Unchanged(values, own, uses.assigned)
    if not kept.is_complete:
        warn_user(
            f"{trace.outermost.title} can reach more than {_MOST_PARTS:,} objects: a change of the "
            "others in a loop that is kept, or in an if on elements, is not noticed. Pass numbers "
            "as an array of NumPy",
            LoopWarning,
        )
    uses.iterators.update((id(value), value) for value in kept.iterators)
    return kept


def check_iterators(trace: Trace, values: Iterable[Any]) -> None:
    """Raise for an iterator from before a loop or an ``if`` on elements, which would go on there.

    Raises ``ComputeTypeError``.
    """
    iterators = trace.outermost.uses.iterators
    if not iterators or (trace.around is None and not trace.conditions):
        return
    for value in values:
        if id(value) in iterators:
            raise ComputeTypeError(
                explain(
                    f"{type(value).__name__} in a loop or an if of {trace.outermost.title}",
                    "it is an iterator from before, which would go on once and not in each "
                    "iteration, or whichever side of the if runs",
                    "Make a list of its items before, and index that.",
                )
            )


def _functions(part: Any) -> Iterator[FunctionType]:
    """Yield the functions that are parts of a function, also those that are tested in turn."""
    if isinstance(part, FunctionType):
        yield part
    elif isinstance(part, partial):
        # the arguments of a body are items of the user's
        yield from _functions(part.func if is_of_user(part.func) else part.args)
    elif isinstance(part, tuple):
        for inner in part:
            yield from _functions(inner)


def _cells(function: FunctionType) -> dict[str, CellType]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or ()))


def _contents(cells: Iterable[CellType]) -> Iterator[Any]:
    for cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:
            continue


__all__ = ["Unchanged", "check_iterators", "unchanged"]
