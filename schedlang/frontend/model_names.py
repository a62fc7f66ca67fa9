"""Names of stages and parameters, made of the names that layers have in a model."""

from __future__ import annotations

import keyword
import re

# names in nests are for people; the longest ones of deep models keep their end
_LONGEST = 80


def identifier(text: str) -> str:
    """Return ``text`` as an identifier, which keeps its letters, digits and underscores.

    >>> identifier("layer1.0.conv1"), identifier("0"), identifier("/conv/Conv:0"), identifier("if")
    ('layer1_0_conv1', 'layer_0', 'conv_Conv_0', 'if_')
    """
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[-_LONGEST:].strip("_") or "layer"
    if name[0].isdigit():
        name = f"layer_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


class Names:
    """Hands out identifiers, each once.

    >>> names = Names()
    >>> names.new("layer1.0.relu"), names.new("layer1.0.relu")
    ('layer1_0_relu', 'layer1_0_relu_1')
    >>> names.kept("OUTPUT__0"), names.kept("OUTPUT__0"), names.kept("Identity:0")
    ('OUTPUT__0', 'OUTPUT_0', 'Identity_0')
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def kept(self, text: str) -> str:
        """Return ``text`` itself if it is an identifier that is not in use, else a new one."""
        plain = text.isascii() and text.isidentifier() and not keyword.iskeyword(text)
        if not plain or len(text) > _LONGEST or text in self._used:
            return self.new(text)
        self._used.add(text)
        return text

    def new(self, text: str) -> str:
        """Return the identifier of ``text``, with a number at its end if it is in use."""
        base = name = identifier(text)
        while name in self._used:
            self._next[base] = self._next.get(base, 0) + 1
            name = f"{base}_{self._next[base]}"
        self._used.add(name)
        return name
