"""What a first call does not do: collect garbage among all objects, load what it does not need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import gc, json, sys
import numpy as np
import schedlang as sl

@sl.jit
def waves(x, y):
    return np.sin(x) ** y + np.arctan2(x, y) + np.sum(np.exp(x) * y, axis=0)

x, y = np.random.default_rng(0).random((2, 48, 65)) + 0.5
expected = np.sin(x) ** y + np.arctan2(x, y) + np.sum(np.exp(x) * y, axis=0)
collected = []
gc.collect()
gc.callbacks.append(lambda phase, info: collected.append(info["generation"]))
result = waves(x, y)
gc.callbacks.clear()
print(json.dumps({
    "error": float(np.max(np.abs(result - expected))), "collected": collected,
    "llvm": "schedlang.runtime.llvm.printed" in sys.modules,
    "loaded": [name for name in ("numba.np.arrayobj", "numba.np.linalg") if name in sys.modules],
}))
"""


@pytest.mark.slow
def test_a_first_call_loads_and_collects_little(tmp_path: Path) -> None:
    env = {"SCHEDLANG_CACHE": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["error"] < 1e-12 and facts["llvm"]
    # functions of math come without numba's other modules, and kernels have arrays of their own
    assert facts["loaded"] == []
    assert 2 not in facts["collected"]
