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
  font: 24px/1.4 system-ui, sans-serif; }
section { max-width: 1400px; margin: 0 auto; padding: 24px 20px 40px;
  border-bottom: 1px solid var(--line); }
h1 { font-size: 42px; line-height: 1.2; margin: 0 0 .5em; }
h2 { font-size: 34px; line-height: 1.2; margin: 0 0 .4em; }
h3 { font-size: 28px; line-height: 1.2; margin: .4em 0 .3em; }
p, ul, ol { margin: .4em 0; max-width: 1250px; }
pre, code { font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace; }
/* code is 22 pixels: 100 characters of it are as wide as a slide */
pre, code { font-size: 22px; }
pre { line-height: 1.28; margin: 8px 0; overflow-x: auto; }
.output pre { white-space: pre-wrap; }
.code, .prose pre { background: var(--code); border-left: 4px solid var(--mark);
  padding: 8px 6px 8px 10px; border-radius: 4px; }
.output { margin: 8px 0 14px; overflow-x: auto; }
.output > svg, .output > img { max-width: 100%; max-height: 72vh; height: auto;
  background: #fff; }
.error { color: var(--bad); white-space: pre-wrap; }
.formula { font-size: 1.3em; margin: .4em 0 .4em 1em; }
math[display=block] { text-align: left; }
mtd { text-align: left; padding: .25em .4em .25em 0; }
mtd[columnalign=right] { text-align: right; padding-right: .15em; }
section .schedlang { font-size: 22px; max-height: 78vh; overflow: auto;
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
.turning section { display: none; border: 0; height: 100vh; overflow: hidden;
  padding-bottom: 24px; }
.turning section.now { display: block; }
.turning.show-notes section { height: auto; min-height: 100vh; }
.turning .fragment:not(.seen) { visibility: hidden; }
.turning #place { display: block; position: fixed; right: 1rem; bottom: .6rem; font-size: .7rem;
  color: var(--soft); background: var(--paper); padding: .1em .5em; border-radius: 4px; }
@media print { .turning section { display: block; break-after: page; height: auto; }
  .turning .fragment { visibility: visible !important; } .turning #place { display: none; }
  .schedlang { max-height: none; } }
@media (max-width: 800px) { section { padding: 18px 14px 40px; } body { font-size: 17px; }
  pre, code { font-size: 15px; } }
"""
# without scripts, all slides are below each other
_SCRIPT = """
(function () {
  const root = document.documentElement, place = document.getElementById("place");
  // what a slide holds, in pieces that stay whole; a slide of one cell may become several
  const groups = [...document.querySelectorAll("section")].map(function (section) {
    const pieces = [];
    [...section.children].forEach(function (part) {
      if (!part.matches(".prose")) { pieces.push(part); return; }
      [...part.children].forEach(function (child) {
        const piece = document.createElement("div");
        piece.className = "prose"; piece.append(child); pieces.push(piece);
      });
    });
    section.remove();
    return pieces;
  });
  // pixels that are worth it to show a part of a nest, or a smaller picture, on the same slide
  const ENOUGH = 300;
  let pages = [], now = 0;
  function add() {
    const page = document.createElement("section");
    page.className = "now";
    place.before(page);
    pages.push(page);
    return page;
  }
  function full(page) { return page.scrollHeight > page.clientHeight; }
  function room(page) {
    const last = page.lastElementChild;
    const end = last ? last.getBoundingClientRect().bottom : page.getBoundingClientRect().top + 24;
    return page.getBoundingClientRect().top + page.clientHeight - 24 - end;
  }
  function isHeading(piece) { return /^H[1-4]$/.test((piece.firstElementChild || {}).tagName); }
  // the piece is smaller from now on, if it is a picture or a nest, which scrolls
  function shrink(piece, height) {
    const views = piece.querySelectorAll(".schedlang, svg, img");
    if (!piece.matches(".output") || views.length !== 1) return false;
    views[0].style.maxHeight = Math.max(height - 30, 120) + "px";
    return true;
  }
  // the lines that do not fit, as a piece of their own
  function cut(page, piece) {
    const text = piece.querySelector(":scope > pre");
    if (!text || !piece.matches(".output")) return null;
    const lines = text.textContent.split("\\n"), rest = piece.cloneNode(true);
    let low = 1, high = lines.length;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      text.textContent = lines.slice(0, middle).join("\\n");
      if (full(page)) high = middle - 1; else low = middle;
    }
    text.textContent = lines.slice(0, low).join("\\n");
    if (low >= lines.length) return null;
    rest.querySelector("pre").textContent = lines.slice(low).join("\\n");
    return rest;
  }
  function lay(pieces) {
    let page = add();
    const waiting = [...pieces];
    while (waiting.length) {
      const piece = waiting.shift(), before = room(page), alone = !page.children.length;
      page.append(piece);
      if (!full(page)) continue;
      if ((alone || before >= ENOUGH) && shrink(piece, before) && !full(page)) continue;
      if (alone) {
        const rest = cut(page, piece);
        if (rest) waiting.unshift(rest);
        else if (full(page)) piece.style.cssText = "max-height: calc(100vh - 48px); overflow: auto";
        if (waiting.length) page = add();
        continue;
      }
      const moved = [piece];
      while (page.children.length > 2 && isHeading(page.children[page.children.length - 2]))
        moved.unshift(page.children[page.children.length - 2]), moved[0].remove();
      if (page.children.length === 1 && isHeading(piece)) continue;
      waiting.unshift(...moved);
      moved.forEach((one) => one.remove());
      page = add();
    }
  }
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
  groups.forEach(lay);
  show(Math.min(Math.max(parseInt(location.hash.slice(1)) || 1, 1), pages.length) - 1, false);
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
