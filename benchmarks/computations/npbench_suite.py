"""NPBench's own programs, read from a clone of spcl/npbench and left as they stand.

Source: Ziogas et al., "NPBench: A Benchmarking Suite for High-Performance NumPy", ICS 2021. A file
of ``bench_info`` names a program's module, function, sizes and arguments. The module's text runs
here, since it is a program to measure: give a clone that you trust.
"""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.computations.npbench import Program

PRESETS = ("S", "M", "L", "paper")


class Suite:
    """A clone of NPBench, whose programs have the sizes of a ``preset``."""

    def __init__(self, folder: Path, preset: str) -> None:
        self.folder, self.preset = folder, preset
        if preset not in PRESETS:
            raise ValueError(f"--preset {preset}: NPBench has {', '.join(PRESETS)}")
        if not (folder / "bench_info").is_dir():
            raise ValueError(f"--suite {folder}: a clone of spcl/npbench has a folder bench_info")

    def programs(self) -> tuple[Program, ...]:
        """Return all programs, by name."""
        return tuple(self._program(path) for path in sorted(self.folder.glob("bench_info/*.json")))

    def _program(self, path: Path) -> Program:
        files = Files(self.folder, json.loads(path.read_text(encoding="utf-8"))["benchmark"])
        given = Inputs(files, self.preset)
        return Program(files.function("numpy"), given, title=path.stem, files=files)


class Files:
    """The modules of one program: what makes its inputs, and each tool's version of it."""

    def __init__(self, folder: Path, info: Mapping[str, Any]) -> None:
        self.info, self._folder = info, folder / "npbench" / "benchmarks" / info["relative_path"]
        self._modules: dict[str, ModuleType] = {}

    def path(self, tool: str = "") -> Path:
        """Return the path of the module for a tool, or of the one that makes the inputs."""
        name = self.info["module_name"]
        return self._folder / (f"{name}_{tool}.py" if tool else f"{name}.py")

    def function(self, tool: str) -> Callable[..., Any]:
        """Return the program's function in the module for a tool."""
        function: Callable[..., Any] = getattr(self.module(tool), self.info["func_name"])
        return function

    def module(self, tool: str = "") -> ModuleType:
        """Return the module for a tool; a tool without one raises :class:`FileNotFoundError`."""
        if tool not in self._modules:
            path = self.path(tool)
            # the folder tells programs apart: two of them have a module ``mandelbrot``
            name = f"npbench_{path.parent.name}_{path.stem}"
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self._modules[tool] = module
        return self._modules[tool]


class Inputs:
    """The arguments of a program; each call returns new copies."""

    def __init__(self, files: Files, preset: str) -> None:
        self.files, self.preset = files, preset

    @cached_property
    def _first(self) -> tuple[Any, ...]:
        info = self.files.info
        values = dict(info["parameters"][self.preset])
        init = info.get("init")
        if init:
            # some programs draw from the generator of the process
            np.random.seed(7)
            make = getattr(self.files.module(), init["func_name"])
            results = make(*(values[name] for name in init["input_args"]))
            names = init["output_args"]
            values |= zip(names, (results,) if len(names) == 1 else results)
        return tuple(values[name] for name in info["input_args"])

    def __call__(self, _: np.random.Generator) -> tuple[Any, ...]:
        return copy.deepcopy(self._first)
