"""A network in pdb: the session that docs/guides/networks.md shows, with what it types."""

from __future__ import annotations

import io
import pdb
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi

DOCUMENT = Path(__file__).parent.parent / "docs" / "guides" / "networks.md"


def shown() -> tuple[str, list[str]]:
    """Return the code that the document shows, and the commands that it types."""
    section = DOCUMENT.read_text(encoding="utf-8").split("\n## In a debugger\n")[1]
    lines = [line[4:] for line in section.split("\n## ")[0].splitlines() if line[:4] == " " * 4]
    start = next(k for k, line in enumerate(lines) if line.startswith("(Pdb) "))
    typed = [line.removeprefix("(Pdb) ") for line in lines if line.startswith("(Pdb) ")]
    return "\n".join(lines[:start]), typed


@pytest.mark.parametrize("plain", [False, True])
def test_the_session_of_the_document(plain: bool) -> None:
    code, typed = shown()
    assert "pdb.Pdb()" in code and typed[0] == "continue" and typed[-1] == "quit"
    V, m = sl.placeholder((8, 64), name="V"), sl.placeholder((64, 64), name="m")
    rng = np.random.default_rng(0)
    batch, w = rng.random((8, 64), "float32"), rng.standard_normal((64, 64)).astype("float32")
    hidden = topi.nn.relu(sl.named("hidden", topi.nn.dense(V, m)))
    out, commands = io.StringIO(), io.StringIO("".join(f"{line}\n" for line in typed))
    scripted = pdb.Pdb(stdin=commands, stdout=out, nosigint=True, readrc=False)
    names: dict[str, Any] = {
        "sl": sl, "topi": topi, "hidden": hidden, "given": {m: w}, "batch": batch,
        "scripted": scripted,
    }  # fmt: skip
    lines = code.replace("pdb.Pdb()", "scripted").strip().splitlines()
    if plain:
        # the schedule without steps that the document names
        group = 'slow.partition["softmax"].group'
        lines.insert(-2, f'slow.reschedule("softmax", sl.schedule({group}.outputs))')
    exec("\n".join(lines), names)
    path = names["slow"].module.path
    lines = names["slow"].source.splitlines()
    printed = out.getvalue()
    stops = re.findall(rf"> {re.escape(path)}\((\d+)\)(\w+)\(\)\n-> (.*)", printed)
    assert [name for _, name, _ in stops] == ["softmax_kernel", "shares_kernels"]
    assert all(lines[int(number) - 1].strip() == text for number, _, text in stops)
    assert stops[1][2] == "softmax_kernel(relu, softmax)"
    # the activations of this call
    found = re.search(r"\(Pdb\) array\(\[(.*)\], dtype=float32\)\n", printed)
    assert found is not None
    np.testing.assert_allclose(
        np.array(found[1].split(","), float), np.maximum(batch @ w.T, 0)[0, :4], rtol=1e-5
    )
    assert "(Pdb) ((512,), (512,))\n" in printed
    # the session is over: nothing is left for the debugger to read, and a call runs
    assert not commands.read()
    np.testing.assert_allclose(names["slow"](batch).sum(axis=1), 1, rtol=1e-5)
