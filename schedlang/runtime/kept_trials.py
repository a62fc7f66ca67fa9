"""Trials of instructions in the cache folder: no process runs what an earlier one ran.

What the compiler refuses is not kept, nor is a trial that did not come to its end: the next process
tries again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import NamedTuple

from schedlang.errors import BuildError
from schedlang.runtime.cache_files import TRIAL, contents, store
from schedlang.version import __version__

FORMAT = 1


class Trial(NamedTuple):
    """The assembly of an instruction, or the compiler's words on why there is none.

    ``is_illegal`` if its first run met an instruction that the processor lacks. ``timeout`` is the
    limit in seconds that the compiler exceeded, if it did. A trial is not ``complete`` if its first
    run ended in a way that says nothing.
    """

    assembly: str
    error: str = ""
    is_illegal: bool = False
    timeout: float = 0.0
    complete: bool = True


def kept_trial(facts: object, run: Callable[[], Trial]) -> Trial:
    """Return a trial from the cache folder; run it and write it there if it is missing.

    ``facts`` are what its result depends on besides the processor and LLVM, as JSON takes them.
    """
    from llvmlite import binding

    host = [binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()]
    whole = json.dumps([FORMAT, __version__, binding.llvm_version_info, host, facts])
    try:
        path = TRIAL.path(hashlib.sha256(whole.encode()).hexdigest()[:24])
    except BuildError:
        # without a cache folder, each process runs it
        return run()
    content = contents(TRIAL, path)
    if content is not None:
        assembly, is_illegal = json.loads(content)
        return Trial(assembly, is_illegal=is_illegal)
    trial = run()
    if trial.complete and not trial.error and not trial.timeout:
        store(TRIAL, path, json.dumps([trial.assembly, trial.is_illegal]).encode())
    return trial
