"""Docstrings of the package as Markdown, for mkdocstrings.

The package writes roles of Sphinx, literal blocks after ``::`` and doctests. :class:`Markdown` is
the extension of griffe that mkdocs.yml names; :func:`markdown` is what it does to each docstring.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

# :class:`~schedlang.errors.BuildError` and :func:`by_rule`
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`~?(?:[\w.]*\.)?(\w+)`")
CODE = re.compile(r"``([^`]+)``")


def markdown(text: str) -> str:
    """Return a docstring as Markdown: roles as code, literal blocks and doctests as fences.

    >>> print(markdown("Return :class:`~a.B`.\\n\\n>>> 1 + 1\\n2"))
    Return `B`.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    lines = text.split("\n")
    output: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.lstrip().startswith(">>> "):
            end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
            # one fence for doctests that only empty lines part
            while end + 1 < len(lines) and lines[end + 1].lstrip().startswith(">>> "):
                after = range(end + 1, len(lines))
                end = next((i for i in after if not lines[i].strip()), len(lines))
            output += ["```pycon", *(_dedent(lines[at:end])), "```"]
            at = end
        elif line.rstrip().endswith("::"):
            opening = line.rstrip()[:-1]
            if opening.strip() != ":":
                output.append(_prose(opening))
            start = at + 1
            indent = len(line) - len(line.lstrip())
            end = start
            while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
                end += 1
            block = "\n".join(lines[start:end]).strip("\n").split("\n")
            output += ["", "```text", *_dedent(block), "```", ""]
            at = end
        else:
            output.append(_prose(line))
            at += 1
    return "\n".join(output)


def _prose(line: str) -> str:
    return CODE.sub(r"`\1`", ROLE.sub(r"`\1`", line))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _dedent(lines: list[str]) -> list[str]:
    least = min((_indent(line) for line in lines if line.strip()), default=0)
    texts = (line[least:].rstrip() for line in lines)
    return ["" if text == "<BLANKLINE>" else text for text in texts]


class Markdown(griffe.Extension):
    """Turn the docstring of each object that griffe loads into Markdown."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
