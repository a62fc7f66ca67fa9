"""The intrinsics that a machine nest loads and stores with, and the fields that each needs."""

from __future__ import annotations

from collections.abc import Mapping

from schedlang.machine.nodes import Load, Store

# the fields beside the array, the offset and the value
LOADS: Mapping[str, frozenset[str]] = {
    "load": frozenset(),
    "vload": frozenset(),
    "vload_aligned": frozenset(),
    "vload_columns": frozenset({"step", "columns"}),
    "vload_if": frozenset({"mask", "other"}),
    "vload_masked": frozenset({"mask"}),
    "vload_shuffled": frozenset({"order"}),
    "vload_strided": frozenset({"step"}),
    "vload_strided_masked": frozenset({"step", "mask"}),
    "vgather": frozenset(),
    "vgather_masked": frozenset({"mask"}),
}
STORES: Mapping[str, frozenset[str]] = {
    "atomic_add": frozenset(),
    "atomic_maximum": frozenset(),
    "atomic_minimum": frozenset(),
    "atomic_multiply": frozenset(),
    "store": frozenset(),
    "vstore": frozenset(),
    "vstore_aligned": frozenset(),
    "vstore_masked": frozenset({"mask"}),
    "vstore_stream": frozenset(),
    "vstore_strided": frozenset({"step"}),
    "vscatter": frozenset(),
    "vscatter_masked": frozenset({"mask"}),
}


def fields_given(access: Load | Store) -> frozenset[str]:
    """Return the fields of ``access`` that are not left at their defaults."""
    names = []
    if access.mask is not None:
        names.append("mask")
    if access.step != 1:
        names.append("step")
    if isinstance(access, Load):
        if access.order is not None:
            names.append("order")
        if access.other is not None:
            names.append("other")
        if access.columns:
            names.append("columns")
    return frozenset(names)


def fields_needed(access: Load | Store) -> frozenset[str] | None:
    """Return the fields that the intrinsic of ``access`` needs; ``None`` if there is none such."""
    return (LOADS if isinstance(access, Load) else STORES).get(access.how)
