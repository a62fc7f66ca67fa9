"""Names that are valid in emitted source."""

from __future__ import annotations

import keyword
import re

from schedlang.errors import ComputeError, ComputeTypeError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# LLVM cuts names at 1024 characters, and emitted names add to the user's
LONGEST_NAME = 500


def check_name(name: object, what: str) -> str:
    """Return ``name`` if it is valid in emitted source, else raise."""
    if not isinstance(name, str):
        raise ComputeTypeError(f"the name of {what} must be a string, got {type(name).__name__}")
    # a cache stage is A.global, which is A_global in source
    parts = name.split(".")
    if keyword.iskeyword(parts[0]) or not all(map(_IDENTIFIER.match, parts)):
        raise ComputeError(
            f"{name!r} cannot name {what}: a name must be a Python identifier (letters, digits, "
            "_; no keyword), since it appears in printed nests and in emitted source"
        )
    if len(name) > LONGEST_NAME:
        raise ComputeError(
            f"a name of {len(name)} characters ({name[:20]}...) cannot name {what}: LLVM cuts long "
            f"names, so that two may become one; give a name of at most {LONGEST_NAME} characters"
        )
    return name
