"""Kernels linked to one machine nest, whose entry calls them in order.

Kernels that are equal but for names share their functions. The entry takes the arrays of the caller
and arrays of bytes, where everything else has its place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

from schedlang.errors import VerifyError
from schedlang.ir.nodes import with_fields
from schedlang.machine.identifiers import Names
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Array, Body, Function, Invoke, Load, Reg, Run, Stmt, Value, View
from schedlang.machine.passes.equal import shape_of
from schedlang.machine.rewrite import with_children
from schedlang.machine.verify import verify_machine
from schedlang.machine.walks import children, with_bodies, with_statements

Parameter = Union[Array, Reg]


@dataclass(frozen=True)
class Call:
    """A call of the entry of ``nest``, in a linked nest.

    ``args`` has a key for each parameter: the key of a parameter of the linked nest, or of a
    :class:`Place`. ``note`` is a comment, such as the layers of a network that it computes.
    """

    nest: MachineNest
    args: tuple[Hashable, ...]
    note: str = ""


@dataclass(frozen=True)
class Place:
    """The place of ``array``: its ``count`` elements begin at byte ``start`` of ``whole``.

    The numbers may be loaded from a parameter of the linked nest.
    """

    array: Array
    whole: Array
    start: Value
    count: Value


@dataclass(frozen=True)
class Linked:
    """A linked nest, and the name of the function that each call runs.

    ``kernels`` are the names of the functions of each kernel that differs from those before it,
    callees first.
    """

    nest: MachineNest
    called: tuple[str, ...]
    kernels: tuple[tuple[str, ...], ...]


def link(
    name: str,
    parameters: Mapping[Hashable, Parameter],
    places: Mapping[Hashable, Place],
    calls: Sequence[Call],
    reserved: Iterable[str] = (),
) -> Linked:
    """Return the nest whose entry ``name`` makes the ``calls`` in order, verified.

    ``parameters`` are the entry's, by their keys, in order; ``places`` are the arrays that are
    parts of others. Keys are any values; names of ``parameters``, of arrays and of functions are
    made distinct, and no name is one of ``reserved``. A view of a place stands before the first
    call that uses it. The functions of users have one table, in the order of the kernels.

    Raises :class:`~schedlang.errors.VerifyError` if an argument of a call does not fit.

    >>> from schedlang.ir.nodes import Buffer
    >>> from schedlang.machine.nodes import For, Load, Num, Store, Type
    >>> x, y = (Array(name, Buffer(name, "float32", (8,))) for name in "xy")
    >>> i = Reg("i")
    >>> body = (For(i, Num(8), (Store("store", y, i, Load("load", x, i, Type("float32"))),)),)
    >>> copy = MachineNest((Function("copy", (x, y), body),))
    >>> arena = Array("arena", Buffer("arena", "uint8", (64,)))
    >>> middle = Array("middle", Buffer("middle", "float32", (8,)))
    >>> places = {"middle": Place(middle, arena, Num(0), Num(8))}
    >>> made = link("twice", {"x": x, "y": y, "arena": arena}, places,
    ...             [Call(copy, ("x", "middle"), "the first"), Call(copy, ("middle", "y"))])
    >>> print(made.nest)
    copy(x: float32[], y: float32[]):
      for i in 0..8:
        store(y, i, load(x, i))
    <BLANKLINE>
    twice(x: float32[], y: float32[], arena: uint8[]):
      middle: float32[8]   from byte 0 of arena on, 32 B
      copy(x, middle)   # the first
      copy(middle, y)
    """
    reserved = frozenset(reserved)
    nests = list(dict.fromkeys(call.nest for call in calls))
    inside = (nest.identifiers() - {f.name for f in nest.functions} for nest in nests)
    names = Names(reserved.union(*inside))
    entry_name = names.fresh(name)
    functions: list[Function] = []
    kernels: list[tuple[str, ...]] = []
    shapes: dict[Hashable, str] = {}
    entries: dict[MachineNest, str] = {}
    functions_of_users = 0
    for nest in nests:
        shape = nest_shape(nest)
        if shape not in shapes:
            added = _renamed(nest, names, functions_of_users)
            functions_of_users += len({stmt.position for stmt in nest.invoked})
            shapes[shape] = added[-1].name
            functions += added
            kernels.append(tuple(f.name for f in added))
        entries[nest] = shapes[shape]
    called = tuple(entries[call.nest] for call in calls)
    names = Names({*reserved, entry_name, *(f.name for f in functions)})
    names_by_key = {key: _with_name(p, names.fresh(p.name)) for key, p in parameters.items()}
    arrays = {id(p): names_by_key[key] for key, p in parameters.items()}
    body: list[Stmt] = []
    for call, function in zip(calls, called):
        for key in dict.fromkeys(call.args):
            if key in names_by_key:
                continue
            place = places.get(key)
            if place is None:
                raise VerifyError(f"linking {name}: nothing is known of {key!r}")
            array = names_by_key[key] = _with_name(place.array, names.fresh(place.array.name))
            whole = arrays.get(id(place.whole))
            if not (isinstance(array, Array) and isinstance(whole, Array)):
                raise VerifyError(f"linking {name}: {key} is in no array that the entry takes")
            start, length = (_with_arrays(v, arrays) for v in (place.start, place.count))
            body.append(View(array, whole, start, length))
        body.append(Run(function, tuple(names_by_key[key] for key in call.args), note=call.note))
    entry = Function(entry_name, tuple(names_by_key[key] for key in parameters), tuple(body))
    texts = {key: text for call in calls for key, text in call.nest.texts.items()}
    linked = MachineNest((*functions, entry), texts=texts)
    verify_machine(linked)
    return Linked(linked, called, tuple(kernels))


def nest_shape(nest: MachineNest) -> Hashable:
    """Return a value that is equal for nests that differ in names alone.

    >>> import schedlang as sl
    >>> def kernel(name, factor):
    ...     A = sl.placeholder((4,), name="A")
    ...     B = sl.compute((4,), lambda i: A[i] * factor, name=name)
    ...     return sl.build(sl.schedule(B), target="python").machine_nest
    >>> shapes = [nest_shape(kernel(*of)) for of in (("B", 2), ("C", 2), ("B", 3))]
    >>> shapes[0] == shapes[1], shapes[0] == shapes[2]
    (True, False)
    """
    numbers = {f.name: str(k) for k, f in enumerate(nest.functions)}
    return tuple(
        (shape_of(with_fields(f, body=_with_calls(f.body, numbers))), f.parallel)
        for f in nest.functions
    )


def _renamed(nest: MachineNest, names: Names, behind: int) -> list[Function]:
    """Return the functions of ``nest`` with names of their own.

    The functions of users come ``behind`` others in a table.
    """
    new = {f.name: names.fresh(f.name) for f in nest.functions}
    return [
        with_fields(f, name=new[f.name], body=_with_calls(f.body, new, behind))
        for f in nest.functions
    ]


def _with_calls(body: Body, names: Mapping[str, str], behind: int = 0) -> Body:
    """Return ``body``, whose calls name functions by ``names``; itself if it calls none."""

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Run):
            return with_fields(stmt, function=names[stmt.function])
        if isinstance(stmt, Invoke) and behind:
            return with_fields(stmt, position=stmt.position + behind)
        return with_bodies(stmt, lambda inner: _with_calls(inner, names, behind))

    return with_statements(body, change)


def _with_arrays(value: Value, arrays: Mapping[int, Any]) -> Value:
    """Return ``value`` with loads of the ``arrays``, which are known by what they replace."""
    operands = [_with_arrays(v, arrays) for v in children(value)]
    if isinstance(value, Load):
        value = replace(value, array=arrays.get(id(value.array), value.array))
    return with_children(value, operands) if operands else value


def _with_name(parameter: Any, name: str) -> Any:
    """Return an array or a register with another name, of the same buffer or type."""
    return with_fields(parameter, name=name)
