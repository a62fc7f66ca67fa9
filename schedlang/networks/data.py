"""The data of a module, also as JSON values, so that it can be stored beside its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Optional

from schedlang.codegen.listing import Launch
from schedlang.codegen.network_storage import ParamPlace, Storage
from schedlang.errors import BuildError
from schedlang.expr.dtypes import itemsize
from schedlang.networks.memory import Lifetime, MemoryPlan, Placed
from schedlang.networks.size_checks import SizeCheck
from schedlang.networks.sized_memory import SizedMemory
from schedlang.runtime.parameters import Parameter, Signature
from schedlang.runtime.size_checks import SizedStorage
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.codegen.numba_cuda import KernelForm
    from schedlang.compute.extern_op import ExternFunction
    from schedlang.machine.nest import MachineNest
    from schedlang.runtime.extern_table import Called

FORMAT = 5


@dataclass(frozen=True)
class CallData:
    """A call in a module: the part, its function, and the lines of that in the source.

    ``lines`` are the first and the last one, from 1 on, of the kernel's functions. Calls of equal
    kernels have the same ones.
    """

    name: str
    function: str
    lines: tuple[int, int]
    stages: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceData:
    """The kernels of a module for a GPU, and the bytes to which each argument must be aligned."""

    kernels: tuple[KernelForm, ...]
    alignment: tuple[int, ...]


@dataclass(frozen=True)
class ModuleData:
    """The data of a module: its text, and what a call of it needs.

    ``entry`` is the function that runs, and ``public`` the one that a file offers. ``serial_text``
    is the text without parallel loops, empty if there are none. ``plan`` says what memory there is
    between calls, or ``sized`` if that depends on the sizes of a call. ``machine`` is the linked
    nest; only the process that linked it has it, and processes that it was pickled for. ``device``
    is there for a GPU, whose ``machine`` has the functions of the kernels alone. ``checks`` are
    what a call checks of the kernels against its sizes. ``launches`` are functions with parallel
    loops as numba compiles them. ``functions`` are the users' that it calls, by their positions in
    its table.
    """

    public: str
    target: Target
    entry: str
    text: str
    serial_text: str
    signature: Signature
    storage: Storage
    plan: Optional[MemoryPlan]
    calls: tuple[CallData, ...]
    fastmath: bool = False
    sized: Optional[SizedMemory] = None
    machine: Optional[MachineNest] = field(default=None, compare=False)
    device: Optional[DeviceData] = None
    checks: tuple[SizeCheck, ...] = ()
    launches: tuple[Launch, ...] = ()
    functions: tuple[Called, ...] = ()


def to_data(data: ModuleData, functions: Sequence[ExternFunction] = ()) -> dict[str, Any]:
    """Return what ``data`` says besides its texts and its machine nest, as JSON values.

    They hold no functions of users, but the positions of these among ``functions``.
    """
    plan = None if data.plan is None else asdict(data.plan)
    sized = None if data.sized is None else asdict(data.sized)
    if data.sized is not None and sized is not None:
        sized["signature"] = _signature_data(data.sized.signature)
    return {
        "format": FORMAT,
        "public": data.public,
        "target": data.target.kind,
        "entry": data.entry,
        "signature": _signature_data(data.signature),
        "storage": asdict(data.storage),
        "plan": plan,
        "sized": sized,
        "calls": [asdict(call) for call in data.calls],
        "fastmath": data.fastmath,
        "device": None if data.device is None else asdict(data.device),
        "checks": [asdict(check) for check in data.checks],
        "launches": [asdict(launch) for launch in data.launches],
        "functions": [
            [functions.index(c.function), list(c.dtypes), list(c.ranks), list(c.packed), c.inputs]
            for c in data.functions
        ],
    }


def from_data(
    values: Mapping[str, Any],
    text: str,
    serial_text: str = "",
    functions: Callable[[], Sequence[ExternFunction]] = tuple,
) -> ModuleData:
    """Return the data of a module from :func:`to_data` and from its texts.

    ``functions`` returns the functions of users that the data leave out. Raises
    :class:`~schedlang.errors.BuildError` for what :func:`to_data` does not return.
    """
    if values.get("format") != FORMAT:
        raise BuildError(
            f"the data of a network have format {values.get('format')!r}, but this version of "
            f"schedlang reads {FORMAT}: save the network again"
        )
    try:
        storage = dict(values["storage"])
        params = tuple(ParamPlace(**_tuples(p)) for p in storage.pop("params"))
        plan, sized = values["plan"], values["sized"]
        if (plan is None) == (sized is None):
            raise ValueError("one of plan and sized is needed")
        return ModuleData(
            str(values["public"]),
            Target(str(values["target"])),
            str(values["entry"]),
            text,
            serial_text,
            _signature(values["signature"]),
            Storage(params, **storage),
            None if plan is None else _plan(plan),
            tuple(CallData(**_tuples(c)) for c in values["calls"]),
            bool(values["fastmath"]),
            None if sized is None else _sized(sized),
            device=None if values["device"] is None else _device(values["device"]),
            checks=tuple(map(_check, values["checks"])),
            launches=tuple(Launch(**launch) for launch in values["launches"]),
            functions=_functions(values["functions"], functions) if values["functions"] else (),
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BuildError(
            f"the data of a network are damaged ({type(error).__name__}: {error}): save the "
            "network again"
        ) from None


def _signature_data(signature: Signature) -> dict[str, Any]:
    return {**asdict(signature), "in_place": sorted(signature.in_place)}


def _signature(values: Mapping[str, Any]) -> Signature:
    rest = dict(values)
    parameters = tuple(Parameter(**_tuples(p)) for p in rest.pop("parameters"))
    in_place = frozenset(_tuples(rest.pop("in_place")))
    return Signature(parameters=parameters, in_place=in_place, **_tuples(rest))


def _plan(values: Mapping[str, Any]) -> MemoryPlan:
    rest = dict(values)
    return MemoryPlan(tuple(Placed(**p) for p in rest.pop("placed")), **rest)


def _sized(values: Mapping[str, Any]) -> SizedMemory:
    return SizedMemory(
        _signature(values["signature"]),
        tuple(Parameter(**_tuples(p)) for p in values["tensors"]),
        _tuples(values["lives"]),
        tuple(Lifetime(**s) for s in values["scratch"]),
        _tuples(values["in_place"]),
    )


def _device(values: Mapping[str, Any]) -> DeviceData:
    from schedlang.codegen.numba_cuda import KernelForm, Passed

    kernels = []
    for form in values["kernels"]:
        rest = dict(form)
        passed = tuple(Passed(str(dtype), bool(array)) for dtype, array in rest.pop("parameters"))
        kernels.append(KernelForm(parameters=passed, **rest))
    return DeviceData(tuple(kernels), tuple(values["alignment"]))


def _check(values: Mapping[str, Any]) -> SizeCheck:
    rest = dict(values)
    storage = _tuples(rest.pop("storage"))
    whole = SizeCheck(storage=SizedStorage(**storage), **_tuples(rest))
    texts = (whole.part, *whole.layers, *whole.sizes, whole.graph, whole.steps)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("what a call checks against its sizes has names and texts")
    for name, dtype, shape in whole.storage.arrays:
        known = all(isinstance(e, int) or e in whole.storage.extents for e in shape)
        if not (known and isinstance(name, str) and itemsize(dtype)):
            raise ValueError(f"no storage is {name}: {dtype}[{shape}]")
    return whole


def _functions(
    values: Sequence[Any], functions: Callable[[], Sequence[ExternFunction]]
) -> tuple[Called, ...]:
    from schedlang.runtime.extern_table import Called

    known = functions()
    return tuple(Called(known[value[0]], *map(_tuples, value[1:])) for value in values)


def _tuples(value: Any) -> Any:
    """Return a JSON value with tuples in place of lists."""
    if isinstance(value, (list, tuple)):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, Mapping):
        return {key: _tuples(item) for key, item in value.items()}
    return value


__all__ = ["FORMAT", "CallData", "ModuleData", "from_data", "to_data"]
