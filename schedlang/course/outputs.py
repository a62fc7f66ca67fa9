"""The outputs of a cell as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.course.markdown import formula, html_of
from schedlang.markup.text import escape, uncoloured


def output_html(output: Mapping[str, Any]) -> str:
    """Return an output of a notebook: a page's piece, a picture, a formula, or text."""
    kind = output["output_type"]
    if kind == "stream":
        return _text(_joined(output["text"]), "stream")
    if kind == "error":
        return _text("\n".join(output["traceback"]), "error")
    data = {mime: _joined(value) for mime, value in output["data"].items() if value}
    # the HTML of a tensor has its formula as LaTeX, for notebooks
    if "text/latex" in data and "$" in data.get("text/html", "$"):
        return _formula(data)
    if "text/html" in data:
        return data["text/html"]
    if "image/svg+xml" in data:
        return data["image/svg+xml"]
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{data["image/png"].strip()}">'
    if "text/markdown" in data:
        return html_of(data["text/markdown"])
    return _text(data.get("text/plain", ""), "value")


def join_printed(outputs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return outputs with printed text in one piece, as it was printed.

    >>> text = {"output_type": "stream", "name": "stdout", "text": "a"}
    >>> [output["text"] for output in join_printed([text, text])]
    ['aa']
    """
    merged: list[Mapping[str, Any]] = []
    for output in outputs:
        last = merged[-1] if merged else {}
        same = [one.get("output_type") == "stream" and one.get("name") for one in (last, output)]
        if same[0] and same[0] == same[1]:
            merged[-1] = {**output, "text": _joined(last["text"]) + _joined(output["text"])}
        else:
            merged.append(output)
    return merged


def _formula(data: Mapping[str, str]) -> str:
    html = formula(data["text/latex"].strip().strip("$"), True)
    kind = data.get("text/plain", "")
    # a tensor is one line: its shape and dtype
    above = _text(kind, "value") if kind and "\n" not in kind.strip() else ""
    return f'{above}<div class="formula">{html}</div>'


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _text(text: str, kind: str) -> str:
    return f'<pre class="{kind}">{escape(uncoloured(text).rstrip())}</pre>'
