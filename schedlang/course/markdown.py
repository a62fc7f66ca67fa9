"""Markdown as HTML that needs nothing from elsewhere; formulas become MathML."""

from __future__ import annotations

from functools import cache
from typing import Any

from schedlang.errors import missing_extra
from schedlang.markup.text import escape

# what the converter of formulas does not know or shows badly, and what it knows
_KNOWN = (
    (r"{aligned}", r"{align*}"),
    (r"\arg", r"\operatorname{arg}"),
    (r"\mathrm{", r"\text{"),
)


def html_of(text: str) -> str:
    """Return Markdown as HTML, with ``$...$`` and ``$$...$$`` as formulas.

    Raise :class:`~schedlang.errors.MissingExtraError` without markdown-it-py and latex2mathml.
    """
    return str(_parser().render(text))


def formula(latex: str, block: bool) -> str:
    """Return a formula as MathML; one that the converter does not know as its LaTeX."""
    try:
        from latex2mathml.converter import convert
    except ImportError:
        raise missing_extra("latex2mathml", "course", "a page of slides") from None
    for unknown, spelling in _KNOWN:
        latex = latex.replace(unknown, spelling)
    try:
        return str(convert(latex, display="block" if block else "inline"))
    except Exception:  # noqa: BLE001 - the converter raises errors of many kinds
        return f"<code>{escape(latex)}</code>"


@cache
def _parser() -> Any:
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise missing_extra("markdown-it-py", "course", "a page of slides") from None
    parser = MarkdownIt("commonmark", {"highlight": highlight_code}).enable("table")
    parser.inline.ruler.before("escape", "formula", _formula_rule)
    parser.add_render_rule(
        "formula", lambda self, tokens, k, *_: formula(tokens[k].content, tokens[k].block)
    )
    return parser


def _formula_rule(state: Any, silent: bool) -> bool:
    """Read a formula at the position of markdown-it's parser, if there is one."""
    text, at = state.src, state.pos
    mark = "$$" if text.startswith("$$", at) else "$"
    end = text.find(mark, at + len(mark))
    if not text.startswith("$", at) or end <= at + len(mark):
        return False
    content = text[at + len(mark) : end]
    # two amounts in dollars are not a formula
    amounts = text[end + len(mark) : end + len(mark) + 1].isdigit() or "`" in content
    if mark == "$" and (content != content.strip() or "\n" in content or amounts):
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.content, token.block = content.strip(), mark == "$$"
    state.pos = end + len(mark)
    return True


def highlight_code(code: str, language: str = "python", *_: Any) -> str:
    """Return Python code as HTML with the classes of Pygments, and other code unchanged.

    Without Pygments there are no colours.
    """
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer
    except ImportError:
        return escape(code)
    if language != "python":
        return escape(code)
    return str(highlight(code, PythonLexer(), HtmlFormatter(nowrap=True)))
