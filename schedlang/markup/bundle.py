"""The forms of an object in a notebook: HTML, and text where there is no HTML."""

from __future__ import annotations


def mime_bundle(html: str, text: str) -> dict[str, str]:
    """Return the forms of one object by MIME type, for IPython's ``_repr_mimebundle_``.

    >>> mime_bundle("<b>1</b>", "1")
    {'text/html': '<b>1</b>', 'text/plain': '1'}
    """
    return {"text/html": html, "text/plain": text}


class InNotebooks:
    """An object that a notebook shows as HTML, with its text where there is no HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return mime_bundle(self._repr_html_(), str(self))
