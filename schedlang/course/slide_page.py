"""The page around slides: its style, and the keys that turn them."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.markup.text import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2230; --paper: #fff; --soft: #5b6472;
  --code: #f5f6f8; --line: #d8dce3; --mark: #0069a6; --word: #8f3d77; --text: #007355;
  --number: #b34700; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --paper: #14171d; --soft: #a5adbb;
  --code: #1d222b; --line: #3a4150; --mark: #6cb8ee; --word: #e39ccb; --text: #4fd1a5;
  --number: #ffab5e; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 20px/1.45 system-ui, sans-serif; }
section { max-width: 78rem; margin: 0 auto; padding: 2.2rem 3rem 4rem;
  border-bottom: 1px solid var(--line); }
h1 { font-size: 2.1rem; line-height: 1.2; margin: 0 0 .6em; }
h2 { font-size: 1.55rem; line-height: 1.25; margin: 0 0 .5em; }
h3 { font-size: 1.2rem; margin: .6em 0 .3em; }
p, ul, ol { margin: .4em 0; max-width: 60rem; }
pre, code { font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace; }
code { font-size: .88em; }
pre { font-size: .8em; line-height: 1.4; margin: .5em 0; overflow-x: auto; }
pre code { font-size: 1em; }
.code, .prose pre { background: var(--code); border-left: 4px solid var(--mark);
  padding: .6em .9em; border-radius: 4px; }
.output { margin: .5em 0 .9em; overflow-x: auto; }
.output > svg, .output > img { max-width: 100%; max-height: 72vh; height: auto;
  background: #fff; }
.error { color: var(--bad); white-space: pre-wrap; }
.formula { font-size: 1.3em; margin: .4em 0 .4em 1em; }
math[display=block] { text-align: left; }
mtd { text-align: left; padding: .25em .4em .25em 0; }
mtd[columnalign=right] { text-align: right; padding-right: .15em; }
section .schedlang { font-size: 15px; max-height: 78vh; overflow: auto;
  border: 1px solid var(--line); border-radius: 4px; }
table { border-collapse: collapse; margin: .6em 0; }
.prose th, .prose td { text-align: left; padding: .25em 1em .25em 0;
  border-bottom: 1px solid var(--line); vertical-align: top; }
.notes { display: none; border-left: 4px solid var(--number); padding: .1em .9em; margin: 1em 0;
  color: var(--soft); font-size: .85em; }
.show-notes .notes { display: block; }
.k, .kn, .kc, .ow { color: var(--word); } .s1, .s2, .sd, .sa, .si { color: var(--text); }
.mi, .mf, .kc { color: var(--number); } .c1 { color: var(--soft); font-style: italic; }
#place { display: none; }
.turning section { display: none; border: 0; min-height: 100vh; }
.turning section.now { display: block; }
.turning .fragment:not(.seen) { visibility: hidden; }
.turning #place { display: block; position: fixed; right: 1rem; bottom: .6rem; font-size: .7rem;
  color: var(--soft); background: var(--paper); padding: .1em .5em; border-radius: 4px; }
@media print { .turning section { display: block; break-after: page; min-height: 0; }
  .turning .fragment { visibility: visible !important; } .turning #place { display: none; }
  .schedlang { max-height: none; } }
@media (max-width: 50rem) { section { padding: 1.2rem 1rem 3rem; } body { font-size: 17px; } }
"""
# without scripts, all slides are below each other
_SCRIPT = """
(function () {
  const pages = [...document.querySelectorAll("section")], root = document.documentElement;
  const place = document.getElementById("place");
  let now = Math.min(Math.max(parseInt(location.hash.slice(1)) || 1, 1), pages.length) - 1;
  function show(page, all) {
    now = page;
    pages.forEach((p, k) => p.classList.toggle("now", k === now));
    pages[now].querySelectorAll(".fragment").forEach((f) => f.classList.toggle("seen", all));
    place.textContent = (now + 1) + " / " + pages.length;
    history.replaceState(null, "", "#" + (now + 1));
    scrollTo(0, 0);
  }
  function forward() {
    const next = pages[now].querySelector(".fragment:not(.seen)");
    if (next) { next.classList.add("seen"); next.scrollIntoView({block: "nearest"}); }
    else if (now + 1 < pages.length) show(now + 1, false);
  }
  function back() {
    const seen = pages[now].querySelectorAll(".fragment.seen");
    if (seen.length) seen[seen.length - 1].classList.remove("seen");
    else if (now > 0) show(now - 1, true);
  }
  const keys = { ArrowRight: forward, PageDown: forward, " ": forward, ArrowLeft: back,
    PageUp: back, Home: () => show(0, false), End: () => show(pages.length - 1, true),
    n: () => root.classList.toggle("show-notes") };
  addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("summary, input, textarea") && event.key === " ") return;
    const turn = keys[event.key];
    if (turn) { event.preventDefault(); turn(); }
  });
  addEventListener("hashchange", function () {
    const asked = parseInt(location.hash.slice(1));
    if (asked >= 1 && asked <= pages.length && asked - 1 !== now) show(asked - 1, false);
  });
  root.classList.add("turning");
  show(now, false);
})();
"""
_HELP = "Arrow keys turn the slides, N shows notes for the teacher"


def slide_page(title: str, pages: Sequence[str]) -> str:
    """Return a page of slides, each given as HTML; ``title`` is text."""
    sections = "\n".join(f"<section>{page}</section>" for page in pages)
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    size = '<meta name="viewport" content="width=device-width">'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}{size}</head><body>\n{sections}\n'
        f'<div id="place" title="{_HELP}"></div><script>{_SCRIPT}</script></body></html>\n'
    )
