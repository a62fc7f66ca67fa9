"""The forms of an object in a notebook: HTML, and text where there is no HTML."""

from __future__ import annotations


def mime_bundle(html: str, text: str) -> dict[str, str]:
    """Return the forms of one object by MIME type, as IPython's ``_repr_mimebundle_`` does.

    >>> mime_bundle("<b>1</b>", "1")
    {'text/html': '<b>1</b>', 'text/plain': '1'}
    """
    return {"text/html": html, "text/plain": text}


__all__ = ["mime_bundle"]
