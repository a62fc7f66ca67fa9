"""A piece of a notebook or a page, with its own style and script, and nothing from elsewhere."""

from __future__ import annotations

# colours that people with any colour vision tell apart: Okabe and Ito, "Color universal design"
_STYLE = """
.schedlang { --text: #1c2230; --soft: #5b6472; --line: #d8dce3; --lit: #ffe9a8;
  --serial: #6b7280; --parallel: #0072b2; --vectorize: #b34700; --unroll: #00795a;
  --thread: #8f3d77; --guard: #7a6200; --added: #dff3e4; --removed: #fbe3e4;
  font: 13px/1.5 ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace; color: var(--text);
  overflow-x: auto; }
@media (prefers-color-scheme: dark) { .schedlang { --text: #e6e9ef; --soft: #a5adbb;
  --line: #3a4150; --lit: #5d4e12; --serial: #a5adbb; --parallel: #6cb8ee; --vectorize: #ffab5e;
  --unroll: #4fd1a5; --thread: #e39ccb; --guard: #e0c65c; --added: #173a26; --removed: #47202a; } }
.jp-mod-dark .schedlang, body[data-jp-theme-light=false] .schedlang { --text: #e6e9ef;
  --soft: #a5adbb; --line: #3a4150; --lit: #5d4e12; --serial: #a5adbb; --parallel: #6cb8ee;
  --vectorize: #ffab5e; --unroll: #4fd1a5; --thread: #e39ccb; --guard: #e0c65c;
  --added: #173a26; --removed: #47202a; }
.schedlang var { font-style: normal; cursor: default; border-radius: 2px; }
.schedlang var.lit { background: var(--lit); }
.schedlang em { font-style: normal; color: var(--soft); }
.schedlang b { font-weight: 600; }
.schedlang .row { display: inline-flex; gap: 2em; white-space: pre; vertical-align: top; }
.schedlang .row > i { font-style: normal; color: var(--soft); opacity: .8; }
.schedlang .row:hover > i { opacity: 1; }
.schedlang details { border-left: 2px solid var(--line); margin-left: .4ch; padding-left: 1.6ch; }
.schedlang .nest > details { border-left: 0; margin-left: 0; padding-left: 2ch; }
.schedlang .nest > .leaf { padding-left: 1.6ch; }
.schedlang details > .row, .schedlang .leaf { padding-left: 1.6ch; }
.schedlang summary { cursor: pointer; list-style-position: outside; margin-left: -.2ch; }
.schedlang .serial > summary b:first-child { color: var(--serial); }
.schedlang .parallel > summary b:first-child { color: var(--parallel); }
.schedlang .vectorize > summary b:first-child { color: var(--vectorize); }
.schedlang .unroll > summary b:first-child { color: var(--unroll); }
.schedlang .thread > summary b:first-child { color: var(--thread); }
.schedlang .vthread > summary b:first-child { color: var(--thread); }
.schedlang .guard > summary b:first-child { color: var(--guard); }
.schedlang .head { color: var(--soft); margin-bottom: .4em; white-space: pre-wrap; }
.schedlang .sides { display: grid; grid-template-columns: 1fr 1fr; gap: 0 2em; }
.schedlang .sides > * { min-width: 0; overflow-x: auto; }
.schedlang .line { white-space: pre; min-height: 1.5em; }
.schedlang .added { background: var(--added); } .schedlang .removed { background: var(--removed); }
.schedlang .strip { display: flex; gap: 1em; overflow-x: auto; align-items: stretch; }
.schedlang .frame { flex: 0 0 auto; border: 1px solid var(--line); border-radius: 6px;
  padding: .5em .8em; max-width: 34em; overflow: auto; max-height: 30em; }
.schedlang .frame > p { margin: 0 0 .4em; font-weight: 600; }
.schedlang dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1.2em; margin: 0; }
.schedlang dt { color: var(--soft); } .schedlang dd { margin: 0; }
.schedlang .wide { margin: .8em 0; overflow-x: auto; }
.schedlang table { border-collapse: collapse; font: inherit; }
.schedlang th, .schedlang td { text-align: left; padding: .1em 1.2em .1em 0; }
.schedlang th { color: var(--soft); font-weight: 400; border-bottom: 1px solid var(--line); }
@media print { .schedlang .frame { max-height: none; } }
"""
# a name under the pointer lights all uses of it in its fragment
_SCRIPT = """
(function () {
  document.querySelectorAll(".schedlang:not([data-ready])").forEach(function (root) {
    root.dataset.ready = "yes";
    root.addEventListener("mouseover", function (event) {
      var name = event.target.closest("[data-name]");
      root.querySelectorAll(".lit").forEach(function (old) { old.classList.remove("lit"); });
      if (!name) return;
      root.querySelectorAll("[data-name]").forEach(function (other) {
        if (other.dataset.name === name.dataset.name) other.classList.add("lit");
      });
    });
  });
})();
"""


def fragment(body: str) -> str:
    """Return ``body``, which is HTML, as a piece that shows alone in a notebook or on a page."""
    return (
        f'<style>{_STYLE}</style><div class="schedlang">{body}</div><script>{_SCRIPT}</script>'
    )


__all__ = ["fragment"]
