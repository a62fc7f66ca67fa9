"""The features of a processor that an instruction needs: each a name, or "a or b"."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from schedlang.target import ARCHITECTURE


def alternatives(need: str) -> list[str]:
    """Return the features of which an instruction needs one.

    >>> alternatives("avxvnni or avx512vnni"), alternatives("fma")
    (['avxvnni', 'avx512vnni'], ['fma'])
    """
    return need.split(" or ")


def unmet(needs: Iterable[str], features: Collection[str]) -> list[str]:
    """Return the needs of an instruction that no feature of a CPU meets.

    >>> unmet(["avxvnni or avx512vnni", "fma", "sm_80"], {"avx512vnni"})
    ['fma']
    """
    own = (need for need in needs if not need.startswith(ARCHITECTURE))
    return [need for need in own if set(alternatives(need)).isdisjoint(features)]
