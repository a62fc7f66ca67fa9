"""The style sheet of a report."""

STYLE = """
:root {
  color-scheme: light dark;
  --back: #ffffff; --raised: #f5f6f8; --text: #1c2230; --soft: #565e6e; --line: #d5d9e0;
  --dot: #2b66b1; --best: #b34700; --bad: #a01c5b; --base: #4d6b2f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14171d; --raised: #1d222b; --text: #e6e9ef; --soft: #a5adbb; --line: #3a4150;
    --dot: #7db2f5; --best: #ffab5e; --bad: #f58cc0; --base: #a9d07d;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 66rem; background: var(--back);
  color: var(--text); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1 { font-size: 1.7rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p { margin: .4rem 0 .8rem; max-width: 48rem; }
a { color: var(--dot); }
nav a { margin-right: 1.1rem; }
code, pre, .mono { font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace; }
.soft { color: var(--soft); }
.warning { border-left: 4px solid var(--bad); padding: .5rem .9rem; background: var(--raised); }
.numbers { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1rem 0; padding: 0; }
.numbers div {
  background: var(--raised); border: 1px solid var(--line); border-radius: 6px;
  padding: .5rem .9rem; flex: 1 1 9rem;
}
.numbers dt { color: var(--soft); font-size: .85rem; }
.numbers dd { margin: 0; font-size: 1.3rem; font-weight: 600; }
.numbers dd small { display: block; font-size: .8rem; font-weight: 400; color: var(--soft); }
figure { margin: 0; }
.wide { overflow-x: auto; margin: .6rem 0; }
.chart svg { display: block; width: 100%; min-width: 34rem; height: auto; }
.narrow svg { max-width: 36rem; }
.knobs { display: grid; grid-template-columns: repeat(auto-fill, minmax(17.5rem, 1fr)); gap: 1rem; }
.knobs figure {
  border: 1px solid var(--line); border-radius: 6px; padding: .5rem .6rem; min-width: 0;
  break-inside: avoid;
}
.knobs svg { display: block; width: 100%; height: auto; }
figcaption { font-size: .85rem; color: var(--soft); overflow-wrap: anywhere; }
figcaption strong { color: var(--text); display: block; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; vertical-align: top; }
th { color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--line); }
td { border-bottom: 1px solid var(--line); overflow-wrap: anywhere; min-width: 3rem; }
.number { text-align: right; white-space: nowrap; }
.short { white-space: nowrap; }
.bar svg { display: block; width: 10rem; height: .9rem; margin-top: .3rem; }
pre {
  background: var(--raised); border: 1px solid var(--line); border-radius: 6px; padding: .8rem;
  font-size: .82rem; line-height: 1.45; overflow: auto; tab-size: 4;
}
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--text); }
svg .soft { fill: var(--soft); }
.grid { stroke: var(--line); stroke-width: 1; }
.dot { fill: var(--dot); fill-opacity: .75; }
.dots {
  stroke: var(--dot); stroke-opacity: .6; stroke-width: 6; stroke-linecap: round; fill: none;
}
.kept { fill: var(--back); stroke: var(--dot); stroke-width: 1.5; }
.step { stroke: var(--best); stroke-width: 2; fill: none; }
.ring { stroke: var(--best); stroke-width: 2.5; fill: none; }
.again { stroke: var(--best); stroke-width: 1.5; fill: none; }
.base { stroke: var(--base); stroke-width: 1.5; stroke-dasharray: 6 4; fill: none; }
svg text.base {
  fill: var(--base); stroke: var(--back); stroke-width: 4; stroke-dasharray: none;
  paint-order: stroke;
}
.median { stroke: var(--text); stroke-width: 2.5; fill: none; }
.failed { stroke: var(--bad); stroke-width: 1.5; fill: none; }
.full { fill: var(--dot); } .full.lost { fill: var(--bad); }
@media screen { pre { max-height: 38rem; } }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  nav { display: none; }
  .knobs { grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); }
  h2, h3 { break-after: avoid; }
}
"""
