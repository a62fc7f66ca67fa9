"""The module of a network, for a CPU or for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from schedlang.networks.data import ModuleData
from schedlang.networks.module import NetworkModule


def module_of(
    data: ModuleData,
    weights: Mapping[str, Any] | np.ndarray,
    whole: Callable[[], ModuleData] | None = None,
    compiler: str = "",
) -> NetworkModule:
    """Return the module with these weights, by their names or packed.

    ``whole`` is the method of its network that returns the data with the machine nest, and
    ``compiler`` one of the target's, empty for the default one.
    """
    if data.device is None:
        return NetworkModule(data, weights, whole, compiler)
    from schedlang.networks.device_module import DeviceModule

    return DeviceModule(data, weights, whole, compiler)
