"""Configurations: the knobs of a template, each with its space and the value that it has now.

A call of a template defines its knobs by ``cfg.define_...`` and takes their values by
``cfg[name]``. What decides a value depends on the call: in the first one every knob has its first
value, in a search the tuner's knobs decide, and after it the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from schedlang.autotune.knobs import divisors
from schedlang.errors import TuningError, explain, nearest
from schedlang.signatures import public
from schedlang.tvm.autotvm.entities import Entity, SplitEntity, checked_entity
from schedlang.tvm.autotvm.space import (
    KnobSpace,
    VirtualAxis,
    annotate_space,
    option_space,
    reorder_space,
    split_space,
    virtual_axis,
)

# the option of a knob, from its name and its options
Choose = Callable[[str, Sequence[Any]], Any]


class ConfigSpace:
    """The knobs that a template has defined; :func:`get_config` returns it.

    >>> cfg = ConfigSpace()
    >>> outer, inner = cfg.define_split("tile", 8, num_outputs=2)
    >>> cfg.define_knob("lanes", [4, 8])
    >>> len(cfg), cfg.get(5)
    (8, {'tile': [-1, 2], 'lanes': 8}, index 5)
    """

    def __init__(self, choose: Choose = lambda name, options: options[0]) -> None:
        self._choose = choose
        self._entities: dict[str, Entity] = {}
        self.space_map: dict[str, KnobSpace] = {}
        self.errors: list[str] = []
        self.flop = 0.0
        # whether nothing decides the values, as in a call of a template outside of a search
        self.is_fallback = False

    @staticmethod
    def axis(var: Any) -> VirtualAxis:
        """Return an axis of the space for an extent or an axis of constant extent.

        Raise :class:`~schedlang.errors.TuningError` for an extent that is not known.
        """
        return virtual_axis(var)

    reduce_axis = axis

    @public
    def define_split(
        self, name: str, axis: Any, policy: str = "factors", **kwargs: Any
    ) -> list[VirtualAxis]:
        """Define a knob that splits ``axis``, and return the axes after the split.

        ``policy`` lists the sizes: ``"factors"`` the divisors of the extent, ``"power2"`` the
        powers of two, ``"verbose"`` both, and ``"candidate"`` the list ``candidate=``. Options are
        ``num_outputs``, ``max_factor``, ``no_tail`` and ``filter``, a function of a
        :class:`~schedlang.tvm.autotvm.entities.SplitEntity`. Raise
        :class:`~schedlang.errors.TuningError` for a space without values.

        >>> cfg = ConfigSpace()
        >>> _ = cfg.define_split("tile", 12, num_outputs=3, filter=lambda s: s.size[-1] == 4)
        >>> [cfg.space_map["tile"][n] for n in range(2)]
        [[-1, 1, 4], [-1, 3, 4]]
        """
        space = split_space(name, axis, policy, **kwargs)
        self._define(name, space)
        parts = len(space.options[0])
        return [VirtualAxis(f"{name}.{n}", None) for n in range(parts)]

    @public
    def define_reorder(
        self, name: str, axes: Sequence[Any], policy: str, **kwargs: Any
    ) -> list[VirtualAxis]:
        """Define a knob that reorders ``axes``, and return that many axes.

        ``policy`` is ``"identity"``, ``"all"``, ``"interval_all"`` with ``interval=``,
        ``"candidate"`` with ``candidate=``, or ``"interleave"`` and ``"interleave_cuda"`` with the
        chains ``spatial=`` and ``reduce=``. Raise :class:`~schedlang.errors.TuningError` for
        another one.

        >>> cfg = ConfigSpace()
        >>> i, j = cfg.axis(8), cfg.axis(4)
        >>> _ = cfg.define_reorder("order", [i, j], policy="all")
        >>> list(cfg.space_map["order"])
        [[0, 1], [1, 0]]
        """
        self._define(name, reorder_space(name, axes, policy, **kwargs))
        return [VirtualAxis(f"{name}.{n}", None) for n in range(len(axes))]

    @public
    def define_annotate(
        self, name: str, axes: Sequence[Any], policy: str, **kwargs: Any
    ) -> list[VirtualAxis]:
        """Define a knob that annotates ``axes``, and return that many axes.

        ``policy`` joins words by ``_``: ``"none"`` or ``"try"``, ``"unroll"`` and ``"vec"``, such
        as ``"try_unroll_vec"``; or it is ``"bind_gpu"``, ``"bind_gpu_virtual"``, or
        ``"locate_cache"`` with ``num_anchor=``. Raise :class:`~schedlang.errors.TuningError` for
        another one.

        >>> cfg = ConfigSpace()
        >>> _ = cfg.define_annotate("inner", [cfg.axis(4)], policy="try_unroll_vec")
        >>> list(cfg.space_map["inner"])
        [['none'], ['unroll'], ['vec']]
        """
        self._define(name, annotate_space(name, axes, policy, **kwargs))
        return [VirtualAxis(f"{name}.{n}", None) for n in range(len(axes))]

    @public
    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        """Define a knob with the options ``candidate``; ``cfg[name].val`` is the chosen one.

        Raise :class:`~schedlang.errors.TuningError` without options.
        """
        self._define(name, option_space(name, candidate))

    def _define(self, name: str, space: KnobSpace) -> None:
        self._entities[name] = space.entity(self._choose(name, space.options))
        self.space_map[name] = space

    def add_flop(self, flop: float) -> None:
        """Add to the operations that the rate of the task counts."""
        self.flop += float(getattr(flop, "value", flop))

    def raise_error(self, msg: str) -> None:
        """Make this configuration invalid: the tuner measures none that has an error."""
        self.errors.append(msg)

    def valid(self) -> bool:
        """Return whether the template raised no error by :meth:`raise_error`."""
        return not self.errors

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Set a split to the largest sizes within ``constraints``, the innermost first.

        -1 stands for no constraint. Raise :class:`~schedlang.errors.TuningError` for an unknown
        knob or another number of sizes.

        >>> cfg = ConfigSpace()
        >>> _ = cfg.define_split("tile", 128, num_outputs=3)
        >>> cfg.fallback_split("tile", [-1, 8, 4])
        >>> cfg["tile"].size
        [4, 8, 4]
        """
        entity = self[name]
        space = self.space_map.get(name)
        product = 0 if space is None else space.product
        wanted = isinstance(entity, SplitEntity) and len(constraints) == len(entity.size)
        if not wanted or not product:
            raise TuningError(
                f"cfg.fallback_split({name!r}, {list(constraints)}): give a knob of define_split, "
                "and a number for each of its axes"
            )
        sizes: list[int] = []
        for most in reversed(constraints):
            fitting = [n for n in divisors(product) if most == -1 or n <= most]
            sizes.insert(0, fitting[-1])
            product //= fitting[-1]
        self[name] = SplitEntity(sizes)

    def __len__(self) -> int:
        return math.prod(map(len, self.space_map.values()))

    def decisions(self, index: int) -> dict[str, Any]:
        """Return the options of the configuration ``index``; the first knob changes first."""
        decisions = {}
        for name, space in self.space_map.items():
            index, position = divmod(index, len(space))
            decisions[name] = space[position].plain
        return decisions

    def get(self, index: int) -> ConfigEntity:
        """Return the configuration ``index``, from 0 on.

        Raise :class:`~schedlang.errors.TuningError` for an index beyond the space.
        """
        if not 0 <= index < len(self):
            raise TuningError(f"config_space.get({index}): give an index from 0 to {len(self) - 1}")
        return self.entity(self.decisions(index))

    def entity(self, decisions: Mapping[str, Any]) -> ConfigEntity:
        """Return the configuration with these values of knobs, as plain data."""
        return ConfigEntity(decisions, self.space_map)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entities)

    def __getitem__(self, name: str) -> Entity:
        if name not in self._entities:
            raise TuningError(
                explain(
                    f"cfg[{name!r}]",
                    f"the template has defined no such knob{nearest(name, self._entities)}",
                    f"Define it first, by cfg.define_split({name!r}, axis, num_outputs=2), "
                    "define_reorder, define_annotate or define_knob.",
                )
            )
        return self._entities[name]

    def __setitem__(self, name: str, entity: Any) -> None:
        self._entities[name] = checked_entity(entity)

    def __repr__(self) -> str:
        knobs = [
            f"  {n:2} {name}: {space}" for n, (name, space) in enumerate(self.space_map.items())
        ]
        return "\n".join([f"ConfigSpace (len={len(self)}, space_map=", *knobs, ")"])


class ConfigEntity(ConfigSpace):
    """One configuration: each knob has the value that ``decisions`` give, as plain data."""

    def __init__(
        self, decisions: Mapping[str, Any], space_map: Mapping[str, KnobSpace] | None = None
    ) -> None:
        super().__init__(self._recorded)
        self._decisions = dict(decisions)
        for name, space in (space_map or {}).items():
            if name in decisions:
                self._define(name, space)

    def _recorded(self, name: str, options: Sequence[Any]) -> Any:
        if name not in self._decisions:
            raise TuningError(
                f"the configuration has no value of the knob {name!r}: the template has changed "
                "since it was recorded; tune it again"
            )
        value = self._decisions[name]
        for option in options:
            if _data(option) == _data(value):
                return option
        raise TuningError(
            f"the value {value} of the knob {name!r} is none of its options: the template has "
            "changed since it was recorded; tune it again"
        )

    @property
    def index(self) -> int:
        """The position of the configuration in its space."""
        index, step = 0, 1
        for name, space in self.space_map.items():
            plain = [space[n].plain for n in range(len(space))]
            index += step * plain.index(self[name].plain)
            step *= len(space)
        return index

    def to_json_dict(self) -> dict[str, Any]:
        """Return the values of the knobs as plain data."""
        return {name: entity.plain for name, entity in self._entities.items()} or self._decisions

    def __repr__(self) -> str:
        values = ", ".join(f"{name!r}: {value!r}" for name, value in self.to_json_dict().items())
        return f"{{{values}}}" + (f", index {self.index}" if self.space_map else "")


def _data(value: Any) -> Any:
    """Return a value as JSON has it, with lists for tuples."""
    return [_data(item) for item in value] if isinstance(value, (list, tuple)) else value


__all__ = ["ConfigEntity", "ConfigSpace"]
