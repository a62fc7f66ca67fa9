// The states: their tree, the speed of the one that is shown, and two of them side by side.

function drawSpeed(app) {
  const { known, page, parts, ask, readOnly } = app;
  const n = known.current, timing = known.times.get(n), speed = ratio(known.times.get(0), timing);
  const first = (known.views.get(0) || {}).estimate, own = (known.views.get(n) || {}).estimate;
  const both = isTimed(known.times.get(0)) && isTimed(timing);
  const doubtful = !timing || timing.status === "failed" || (isTimed(timing) && !timing.quiet);
  const again = !readOnly && !page.lost && doubtful && !known.hello.impossible ?
    h("button", { type: "button", "data-key": "again",
      onclick: () => ask({ do: "measure", number: n }) }, timing ? "Measure again" : "Measure") : null;
  fill(parts.speed,
    h("strong", { class: "factor" }, n === 0 ? "the start" : speed ? bounded(speed) : both ? "not known" : "…"),
    n === 0 || !both ? null : h("span", {}, speed ? beside(speed, "the start")
      : "other work took a core while this state was measured, and while the start was: both times are too long"),
    h("span", { class: "term" }, "measured"), timeOf(timing) || h("span", { class: "soft" }, "not yet"),
    again,
    own ? [h("span", { class: "term" }, "estimate"), h("span", {
      title: `The estimate of searches, for ${known.hello.cores}. It only ranks schedules.` },
    seconds(own), first && n ? `: ${times(first / own)}` : "")] : null);
}
// the states in the order of the tree, each with the steps to it from the start
function ordered(known) {
  const children = known.states.map(() => []), listed = [];
  known.states.forEach((s, n) => { if (s.parent !== null) children[s.parent].push(n); });
  const stack = known.states.length ? [[0, 0]] : [];
  while (stack.length) {
    const [n, depth] = stack.pop();
    listed.push([n, depth]);
    children[n].reverse().forEach((child) => stack.push([child, depth + 1]));
  }
  return listed;
}
const label = (known, n) => `${n}: ${known.states[n].label}`;

function drawTree(app) {
  const { known, parts, ask } = app;
  const path = new Set();
  for (let n = known.current; n !== null; n = known.states[n].parent) path.add(n);
  fill(parts.tree, h("ol", {}, ordered(known).map(([n, depth]) => {
    const timing = known.times.get(n), speed = ratio(known.times.get(0), timing);
    const text = !timing ? "" : isTimed(timing) ? seconds(timing.seconds)
      : timing.status === "failed" ? "failed" : "…";
    return h("li", { style: `--depth: ${depth}`, class: [n === known.current ? "current" : "",
      path.has(n) ? "path" : ""].join(" ") },
    h("button", { type: "button", class: "state", "data-key": `state ${n}`,
      "aria-current": n === known.current ? "step" : undefined,
      title: timing && timing.status === "failed" ? timing.text : "show this state",
      onclick: () => ask({ do: "go", to: n }) },
    h("span", { class: "name" }, label(known, n)),
    h("span", { class: "bar-of" }, h("span", { style: `width: ${speed ? 100 * share(speed.factor) : 0}%` })),
    h("span", { class: "value" }, speed && n ? bounded(speed) : ""),
    h("span", { class: "value soft" }, text)),
    h("button", { type: "button", class: n === known.current ? "small unseen" : "small",
      disabled: n === known.current, "data-key": `with ${n}`, title: `compare state ${n} with the one that is shown`,
      onclick: () => app.compare(n, known.current) }, "compare"));
  })));
}

function drawCompare(app) {
  const { known, page, parts, ask, readOnly } = app;
  if (!page.compared) { fill(parts.compare); return; }
  const [a, b] = page.compared, rows = known.pairs.get(`${a} ${b}`);
  const pick = (at) => h("select", { "aria-label": "a state", "data-key": `pick ${at}`,
    onchange: (event) => app.compare(at ? a : +event.target.value, at ? +event.target.value : b) },
  known.states.map((s, n) => h("option", { value: String(n),
    selected: n === page.compared[at] }, label(known, n))));
  const side = (at) => {
    const n = page.compared[at], view = known.views.get(n), mark = at ? "+" : "−";
    const speed = ratio(known.times.get(0), known.times.get(n));
    return h("div", { class: "side" },
      h("div", { class: "buttons" }, pick(at), h("b", {}, speed && n ? bounded(speed) : ""),
        timeOf(known.times.get(n)), h("button", { type: "button", "data-key": `show ${at}`,
          disabled: n === known.current, onclick: () => ask({ do: "go", to: n }) }, "Show")),
      h("div", { class: "schedlang", tabindex: "0", role: "region",
        "aria-label": `the nest of state ${n}` }, h("div", { class: "block" }, !rows || !view ? (readOnly ? "This file does not compare these two states." : "…")
        : rows.map((row) => {
          if (row[at] === null) return h("pre", { class: "line gap" });
          const kind = row[2] ? (at ? "line added" : "line removed") : "line";
          return h("pre", { class: kind }, h("s", {}, row[2] ? mark : " "), " ",
            h("span", { html: view.lines[row[at]] }));
        }))));
  };
  const between = ratio(known.times.get(a), known.times.get(b));
  fill(parts.compare, h("section", { class: "card", "aria-label": "Two states" },
    h("h2", {}, "Two states", between ? h("span", { class: "soft" },
      `  state ${b} is ${bounded(between)} ${beside(between, `state ${a}`)}`) : null,
    h("button", { type: "button", class: "small", "data-key": "close",
      onclick: () => { page.compared = null; app.later(); } }, "Close")),
    h("div", { class: "two" }, side(0), side(1))));
}
