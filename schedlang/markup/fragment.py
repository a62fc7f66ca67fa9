"""A piece of a notebook or a page, with its own style, and nothing from elsewhere."""

from __future__ import annotations

# colours that people with any colour vision tell apart, by Okabe and Ito's "Color universal
# design", darkened or lightened to be readable on each background
_LIGHT = """--page: #fff; --text: #1c2230; --soft: #5b6472; --line: #d8dce3; --lit: #ffd75e;
  --row: #fff3cf; --serial: #5b6472; --parallel: #0069a6; --vectorize: #b34700; --unroll: #007355;
  --thread: #8f3d77; --guard: #7a6200; --added: #dff3e4; --removed: #fbe3e4; --gap: #f2f4f7;"""
_DARK = """--page: #14171d; --text: #e6e9ef; --soft: #a5adbb; --line: #3a4150; --lit: #7d6510;
  --row: #383118; --serial: #a5adbb; --parallel: #6cb8ee; --vectorize: #ffab5e; --unroll: #4fd1a5;
  --thread: #e39ccb; --guard: #e0c65c; --added: #173a26; --removed: #47202a; --gap: #1b1f27;"""
# the theme of JupyterLab, VS Code and Sphinx may differ from the system's
_IN_LIGHT = ("[data-jp-theme-light=true]", ".vscode-light", "[data-theme=light]")
_IN_DARK = ("[data-jp-theme-light=false]", ".vscode-dark", "[data-theme=dark]")


def theme(selector: str) -> str:
    """Return CSS that gives elements the colours of each theme, as variables.

    >>> print(theme(".x")[:18])
    .x { --page: #fff;
    """
    light, dark = (
        f"{{ {colours} color-scheme: {name}; }}"
        for name, colours in (("light", _LIGHT), ("dark", _DARK))
    )
    where = (
        ", ".join(f"{place} {selector}" for place in places) for places in (_IN_LIGHT, _IN_DARK)
    )
    return "\n".join(
        [
            f"{selector} {light}",
            f"@media (prefers-color-scheme: dark) {{ {selector} {dark} }}",
            f"{next(where)} {light}",
            f"{next(where)} {dark}",
        ]
    )


_STYLE = f"""
{theme(".schedlang")}
.schedlang {{ font: 13px/1.5 ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace;
  background: var(--page); color: var(--text); padding: .5em .7em; overflow-x: auto; }}
.schedlang var {{ font-style: normal; cursor: default; border-radius: 2px;
  background: var(--on, transparent); }}
.schedlang var.def {{ text-decoration: underline 2px var(--edge, transparent);
  text-underline-offset: 3px; }}
.schedlang em {{ font-style: normal; color: var(--soft); }}
.schedlang b {{ font-weight: 600; }}
.schedlang .nest {{ position: relative; padding-left: calc(var(--margin, 0ch) + 1.5ch); }}
.schedlang .nest summary, .schedlang .leaf, .schedlang .line {{ background: var(--at, transparent);
  outline: 0; white-space: pre; }}
.schedlang .block {{ width: max-content; min-width: 100%; box-sizing: border-box; }}
.schedlang .nest summary:focus-visible, .schedlang .leaf:focus-visible,
.schedlang .line:focus-visible {{ box-shadow: inset 2px 0 var(--parallel); }}
.schedlang .nest i {{ position: absolute; left: 0; width: var(--margin); text-align: right;
  font-style: normal; color: var(--soft); user-select: none; }}
.schedlang .nest details {{ padding-left: 2ch; }}
.schedlang .nest > details {{ padding-left: 0; }}
.schedlang .nest .leaf {{ padding-left: 2ch; }}
.schedlang .nest > .leaf {{ padding-left: 0; }}
.schedlang summary {{ cursor: pointer; list-style: none; }}
.schedlang summary::-webkit-details-marker {{ display: none; }}
.schedlang .nest summary:hover::after {{ content: " ▾"; color: var(--soft); }}
.schedlang .nest details:not([open]) > summary::after {{ content: " ▸ …"; color: var(--soft); }}
.schedlang b.serial {{ color: var(--serial); }}
.schedlang b.parallel {{ color: var(--parallel); }}
.schedlang b.vectorize {{ color: var(--vectorize); }}
.schedlang b.unroll {{ color: var(--unroll); }}
.schedlang b.thread, .schedlang b.vthread {{ color: var(--thread); }}
.schedlang b.guard {{ color: var(--guard); }}
.schedlang .head {{ color: var(--soft); margin-bottom: .4em; white-space: pre-wrap; }}
.schedlang .head var {{ color: var(--text); }}
.schedlang .sides {{ display: grid; grid-template-columns: repeat(auto-fit,
  minmax(min(100%, 32em), 1fr)); gap: .6em 2em; }}
.schedlang .pane {{ min-width: 0; overflow: auto; max-height: 44em; position: relative; }}
.schedlang .line {{ min-height: 1.5em; }}
.schedlang .line > s {{ text-decoration: none; user-select: none; color: var(--soft); }}
.schedlang .added {{ background: var(--added); }}
.schedlang .removed {{ background: var(--removed); }}
.schedlang .gap {{ background: var(--gap); }}
.schedlang .strip {{ display: flex; gap: 1em; overflow-x: auto; align-items: stretch; }}
.schedlang .frame {{ flex: 0 0 auto; border: 1px solid var(--line); border-radius: 6px;
  padding: .5em .8em; max-width: 34em; overflow: auto; max-height: 30em; }}
.schedlang .frame > p {{ margin: 0 0 .4em; font-weight: 600; }}
.schedlang pre, .schedlang code {{ font: inherit; color: inherit; background: none; margin: 0;
  padding: 0; white-space: pre; overflow: visible; }}
.schedlang .frame > pre {{ border-bottom: 1px solid var(--line); margin-bottom: .4em;
  padding-bottom: .4em; }}
.schedlang .more {{ color: var(--soft); margin-top: .4em; }}
.schedlang .more > summary::before {{ content: "▸ "; }}
.schedlang .more[open] > summary::before {{ content: "▾ "; }}
.schedlang dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .1em 1.2em;
  margin: 0; }}
.schedlang dl dt {{ color: var(--soft); font-weight: 400; float: none; width: auto; }}
.schedlang dl dd {{ margin: 0; padding: 0; }}
.schedlang .wide {{ margin: .8em 0; overflow-x: auto; }}
.schedlang table {{ border-collapse: collapse; font: inherit; color: inherit; }}
.schedlang .wide th, .schedlang .wide td {{ text-align: left; padding: .1em 1.2em .1em 0; }}
.schedlang .wide .number {{ text-align: right; }}
.schedlang .wide .code {{ white-space: pre; }}
.schedlang th {{ color: var(--soft); font-weight: 400; border-bottom: 1px solid var(--line); }}
@media print {{ .schedlang .frame, .schedlang .pane {{ max-height: none; }} }}
"""
NAME_LIT = "--on: var(--lit); --edge: var(--text)"
# a line with the focus scrolls the lines of the other pane into view; without it, all else works
_SCRIPT = """
document.querySelectorAll(".schedlang .linked:not([data-ready])").forEach(function (root) {
  root.dataset.ready = "yes";
  root.addEventListener("focusin", function (event) {
    var own = event.target, number = /(?:^| )n(\\d+)/.exec(own.className);
    root.querySelectorAll(".pane").forEach(function (pane) {
      var first = number && pane.querySelector(".n" + number[1] + ", .m" + number[1]);
      if (!first || pane.contains(own)) return;
      var top = first.offsetTop - pane.scrollTop;
      if (top < 0 || top > pane.clientHeight - 20) {
        pane.scrollTop = first.offsetTop - pane.clientHeight / 3;
      }
    });
  });
});
"""


def fragment(body: str, names: int = 0, lines: int = 0) -> str:
    """Return ``body``, which is HTML, as a piece that shows alone in a notebook or on a page.

    A name under the pointer lights all of its uses: elements of the classes ``v0`` to
    ``v{names - 1}``. Lines of one class, ``n0`` to ``n{lines - 1}``, light together, too. A line of
    class ``n3`` also lights lines of class ``m3``, which do not light it. Only CSS does that, so
    that it works on a static page.
    """
    rules = [
        name_rules(0, names),
        *_rules(
            [(f".n{k}:is(:hover, :focus)", f":is(.n{k}, .m{k})") for k in range(lines)],
            "--at: var(--row)",
        ),
    ]
    script = f"<script>{_SCRIPT}</script>" if lines else ""
    style = _STYLE + "\n".join(rules)
    return f'<style>{style}</style><div class="schedlang">{body}</div>{script}'


def style(names: int) -> str:
    """Return the CSS of pieces whose bodies stand alone, with up to ``names`` names each."""
    return _STYLE + name_rules(0, names)


def name_rules(first: int, end: int) -> str:
    """Return the CSS that lights up names of the numbers from ``first`` to ``end``."""
    pairs = [(f".v{k}:hover", f".v{k}") for k in range(first, end)]
    return "\n".join(_rules(pairs, NAME_LIT))


def _rules(pairs: list[tuple[str, str]], what: str) -> list[str]:
    """Return the rule that does ``what`` to the second elements under the first ones, if any."""
    selectors = ",\n".join(f".schedlang:has({under}) {lit}" for under, lit in pairs)
    return [f"{selectors} {{ {what} }}"] if pairs else []
