// The live page: it shows what a session tells, and sends what a person asks for.
// One module for the browser, for notebooks (anywidget) and for files that are shared.

const KEPT = "schedlang-live-typed";
// seconds without an answer after which the page says so, and between tries to connect
const PATIENCE = 8, AGAIN = 1.5;
// iteration order: viridis, by S. van der Walt and N. Smith
const VIRIDIS = ["440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58",
  "b5de2b", "fde725"].map((c) => [0, 2, 4].map((k) => parseInt(c.slice(k, k + 2), 16)));
const NOW = [213, 94, 0], NEVER = [225, 229, 235];
// a step that promises less is listed among the others
const GAIN = 1.03, FIRST = 5;

// elements

function h(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "html") made.innerHTML = value;
    else if (name === "value") made.value = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== ""));
  return made;
}

function svg(tag, given, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// fill a part of the page anew; the element with the focus gets it back by its key
function fill(part, ...children) {
  const focused = part.contains(document.activeElement) && document.activeElement.dataset.key;
  const open = [...part.querySelectorAll("details[data-key][open]")].map((d) => d.dataset.key);
  part.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined));
  for (const details of part.querySelectorAll("details[data-key]")) {
    if (open.includes(details.dataset.key)) details.open = true;
  }
  if (focused) {
    for (const one of part.querySelectorAll("[data-key]")) {
      if (one.dataset.key === focused) one.focus({ preventScroll: true });
    }
  }
}

// numbers

function seconds(value) {
  const [scale, unit] = value >= 1 ? [1, "s"] : value >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  return `${(value * scale).toPrecision(3)} ${unit}`;
}

function times(value) {
  if (value >= 99.5) return `${Math.round(value).toLocaleString("en")}×`;
  return `${value >= 9.95 ? value.toFixed(1) : value.toFixed(2)}×`;
}

// the part of a bar that a factor fills, 1000 times being all of it
function share(factor) {
  return Math.max(0.01, Math.min(1, Math.log10(Math.max(factor, 1)) / 3));
}

// the page

function mount(root, send, readOnly, keep) {
  const known = { states: [], views: new Map(), times: new Map(), steps: new Map(),
    pairs: new Map(), hello: null, current: 0, undone: [] };
  const page = { lost: "", problem: null, compared: null, base: 0, typed: null, sent: null,
    frame: 255, timer: null, note: "", busy: "" };
  const parts = {};
  for (const name of ["bar", "notice", "speed", "before", "gutter", "after", "run", "tree", "loops",
    "picture", "counters", "compare", "steps"]) parts[name] = h("div", { class: name });
  const editor = h("textarea", { class: "editor", spellcheck: "false", autocomplete: "off",
    autocapitalize: "off", wrap: "off", "aria-label": "the schedule, to be edited",
    readonly: readOnly, oninput: typed, onscroll: () => {
      parts.gutter.scrollTop = editor.scrollTop; },
    onkeydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); }
    } });
  const styles = h("style");
  const card = (title, ...inner) => h("section", { class: "card", "aria-label": title },
    h("h2", {}, title), ...inner);
  root.classList.add("schedlang-live");
  root.replaceChildren(styles, parts.bar, parts.notice, parts.speed, parts.compare,
    h("div", { class: "columns" },
      h("div", { class: "left" },
        card(readOnly ? "The schedule" : "The schedule, to edit and to paste", parts.before,
          h("div", { class: "code" }, parts.gutter, editor), parts.after, parts.run),
        card("States", parts.tree), card("What it counts", parts.counters)),
      h("div", { class: "right" }, card("The loop nest", parts.loops),
        card("What it touches, and when", parts.picture))),
    card("Next steps", parts.steps));
  root.addEventListener("keydown", (event) => {
    if (event.target === editor || !(event.ctrlKey || event.metaKey)) return;
    if (event.key === "z" && !event.shiftKey) { event.preventDefault(); ask({ do: "undo" }); }
    if (event.key === "y" || (event.key === "z" && event.shiftKey)) {
      event.preventDefault(); ask({ do: "redo" });
    }
  });

  // what the session tells

  function receive(message) {
    const take = { hello, tree, view, time, style, compared, problem, edited, file }[message.type];
    if (take) take(message);
    later();
  }
  function hello(message) {
    const before = known.hello, restored = before && before.session !== message.session &&
      known.states.length > 1 && !readOnly;
    const mine = known.states.map((s, n) => ({ ...s, code: (known.views.get(n) || {}).code }));
    const current = known.current;
    known.hello = message;
    for (const map of [known.views, known.times, known.steps, known.pairs]) map.clear();
    known.states = [];
    styles.textContent = "";
    page.lost = "";
    if (restored) {
      page.note = "The server was started again: the states of this page were sent to it.";
      setTimeout(() => ask({ do: "restore", states: mine, current }), 0);
    }
    if (keep && page.typed === null) {
      const old = sessionStorage.getItem(KEPT + location.pathname);
      if (old) { const [base, text] = JSON.parse(old); page.base = base; page.typed = text; }
    }
  }
  function tree(message) {
    known.states = message.states;
    known.current = message.current;
    known.undo = message.undo;
    known.redo = message.redo;
  }
  function view(message) {
    known.views.set(message.number, { ...known.views.get(message.number), ...message });
  }
  function time(message) {
    if ("state" in message) known.times.set(message.state, message);
    else known.steps.set(`${message.of} ${message.step}`, message);
  }
  function style(message) { styles.textContent += message.css; }
  function compared(message) { known.pairs.set(`${message.a} ${message.b}`, message.rows); }
  function problem(message) { page.problem = message; }
  // what was typed after the text was sent stays, as an edit of the new state
  function edited(message) {
    if (page.typed === page.sent) page.typed = null;
    else page.base = message.number;
    page.problem = null;
    remember();
  }

  // what a person asks for

  function ask(message) {
    page.problem = null;
    page.note = message.do === "restore" ? page.note : "";
    if (readOnly || page.lost) local(message);
    else send(message);
    later();
  }
  // without a session, the page still moves through the states that it knows
  function local(message) {
    const parent = (known.states[known.current] || {}).parent;
    if (message.do === "go") { known.undone = []; known.current = message.to; }
    if (message.do === "undo" && parent !== null) {
      known.undone.unshift(known.current); known.current = parent;
    }
    if (message.do === "redo" && known.undone.length) known.current = known.undone.shift();
    if (!["go", "undo", "redo", "compare"].includes(message.do)) {
      page.problem = { about: message.do, line: 0, text: "This needs the connection, which is lost: "
        + "the text stays, and can be run when the connection is back." };
    }
    const at = known.states[known.current];
    known.undo = at !== undefined && at.parent !== null;
    known.redo = known.undone.length > 0;
  }
  function typed() {
    if (page.typed === null) page.base = known.current;
    page.typed = editor.value;
    page.problem = null;
    remember();
    later();
  }
  function remember() {
    if (!keep) return;
    const key = KEPT + location.pathname;
    if (page.typed === null) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, JSON.stringify([page.base, page.typed]));
  }
  function run() {
    if (readOnly) return;
    const base = page.typed === null ? known.current : Math.min(page.base, known.states.length - 1);
    page.sent = editor.value;
    ask({ do: "edit", base, text: page.sent });
  }
  function drop() { page.typed = null; page.problem = null; remember(); later(); }
  function compare(a, b) {
    page.compared = [Math.min(a, b), Math.max(a, b)];
    if (!known.pairs.has(page.compared.join(" "))) {
      ask({ do: "compare", a: page.compared[0], b: page.compared[1] });
    }
    later();
    setTimeout(() => parts.compare.scrollIntoView({ block: "nearest" }), 0);
  }
  async function copy(event) {
    const text = pasted(), button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(text);
    } catch (error) {
      const area = h("textarea", { value: text, class: "away" });
      root.append(area); area.select(); document.execCommand("copy"); area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }
  function pasted() {
    return [known.hello.definition, "", editor.value.trimEnd(), "", "f = sl.build(s)", ""].join("\n");
  }
  function file(message) {
    const url = URL.createObjectURL(new Blob([message.text], { type: "text/html" }));
    const link = h("a", { href: url, download: message.name });
    root.append(link); link.click(); link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  }

  // the view

  let waiting = false;
  function later() {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; draw(); }, 0);
  }
  function draw() {
    if (!known.hello || !known.states.length) {
      fill(parts.notice, page.lost ? h("p", { class: "lost", role: "alert" }, page.lost) : "…");
      return;
    }
    drawBar(); drawNotice(); drawSpeed(); drawCode(); drawTree(); drawNest(); drawPicture();
    drawCounters(); drawCompare(); drawSteps();
  }
  const measured = (n) => {
    const found = known.times.get(n);
    return found && found.status === "ok" ? found.seconds : null;
  };
  const speed = (n) => (measured(0) && measured(n) ? measured(0) / measured(n) : null);
  const label = (n) => `${n}: ${known.states[n].label}`;

  function drawBar() {
    const state = readOnly ? ["shared", "a shared history, to look at"]
      : page.lost ? ["off", "connection lost"] : ["on", "connected"];
    fill(parts.bar, h("h1", {}, known.hello.title),
      h("span", { class: `status ${state[0]}` }, state[1]),
      h("span", { class: "buttons" },
        h("button", { type: "button", "data-key": "undo", disabled: !known.undo,
          title: "Ctrl+Z outside of the code", onclick: () => ask({ do: "undo" }) }, "Undo"),
        h("button", { type: "button", "data-key": "redo", disabled: !known.redo,
          title: "Ctrl+Y outside of the code", onclick: () => ask({ do: "redo" }) }, "Redo"),
        h("button", { type: "button", "data-key": "compare", disabled: known.current === 0,
          onclick: () => compare(0, known.current) }, "Compare with the start"),
        readOnly ? null : h("button", { type: "button", "data-key": "save",
          disabled: Boolean(page.lost), onclick: () => ask({ do: "share" }),
          title: "the whole history as one file, which needs no server" }, "Save")));
  }
  function drawNotice() {
    const view = known.views.get(known.current) || {}, found = [];
    if (page.lost) found.push(h("p", { class: "lost", role: "alert" }, page.lost));
    if (page.busy) found.push(h("p", { class: "note" }, page.busy));
    if (page.note) found.push(h("p", { class: "note" }, page.note));
    if (page.problem && page.problem.about !== "edit") {
      found.push(h("pre", { class: "problem", role: "alert" }, page.problem.text));
    }
    if (known.hello.impossible) found.push(h("p", { class: "note" }, known.hello.impossible));
    if (view.why) found.push(h("p", { class: "note" }, view.why));
    const timed = known.times.get(known.current);
    if (timed && timed.status === "ok" && !timed.quiet) {
      found.push(h("p", { class: "note" }, "Other work on this machine took a core during every "
        + "sample, so the time is too long; that of parallel loops most of all, since a call waits "
        + "for its slowest core. Measure again: the best time counts."));
    }
    for (const note of view.notes || []) found.push(h("p", { class: "note" }, note));
    fill(parts.notice, found);
  }
  function timeOf(found) {
    if (!found) return null;
    if (found.status === "waiting") return h("span", { class: "soft" }, "waits to be measured");
    if (found.status === "running") return h("span", { class: "soft busy" }, "is being measured…");
    if (found.status === "failed") return h("span", { class: "failed" }, found.text);
    const noisy = found.quiet ? null : h("span", { class: "soft",
      title: "Other work on this machine took a core during every sample." }, " (disturbed)");
    return h("span", {}, seconds(found.seconds), noisy);
  }
  function drawSpeed() {
    const n = known.current, found = known.times.get(n), faster = speed(n);
    const first = (known.views.get(0) || {}).estimate, own = (known.views.get(n) || {}).estimate;
    const failed = found && found.status === "failed";
    const doubtful = failed || (found && found.status === "ok" && !found.quiet) || !found;
    const again = !readOnly && !page.lost && doubtful && !known.hello.impossible ?
      h("button", { type: "button", "data-key": "again",
        onclick: () => ask({ do: "measure", number: n }) }, found ? "Measure again" : "Measure") : null;
    fill(parts.speed,
      h("strong", { class: "factor" }, n === 0 ? "the start" : faster ? times(faster) : "…"),
      n === 0 || !faster ? null : h("span", {}, "as fast as the start"),
      h("span", { class: "term" }, "measured"), timeOf(found) || h("span", { class: "soft" }, "not yet"),
      again,
      own ? [h("span", { class: "term" }, "estimate"), h("span", {
        title: `The estimate of sl.next_steps, on ${known.hello.cores}. It only ranks schedules.` },
      seconds(own), first && n ? `: ${times(first / own)} as fast` : "")] : null);
  }
  function drawCode() {
    const view = known.views.get(known.current) || {};
    fill(parts.before, h("pre", { class: "fixed" }, known.hello.definition));
    fill(parts.after, h("pre", { class: "fixed" }, "f = sl.build(s)"));
    const text = page.typed === null ? (view.code || "").trimEnd() : page.typed;
    if (editor.value !== text) editor.value = text;
    const lines = Math.max(text.split("\n").length, 1);
    editor.rows = Math.min(Math.max(lines, 3), 24);
    const wrong = page.problem && page.problem.about === "edit" ? page.problem : null;
    fill(parts.gutter, [...Array(lines).keys()].map((k) =>
      h("div", { class: wrong && wrong.line === k + 1 ? "wrong" : "" }, String(k + 1))));
    parts.gutter.style.height = `${editor.clientHeight}px`;
    const apart = page.typed !== null && page.base !== known.current;
    fill(parts.run,
      wrong ? h("pre", { class: "problem", role: "alert" }, wrong.text) : null,
      apart ? h("p", { class: "note" }, `Your text is based on state ${page.base}, and the page `
        + `shows state ${known.current} now. Nothing of it is lost: run it as a branch of state `
        + `${page.base}, or drop it.`) : null,
      h("div", { class: "buttons" },
        readOnly ? null : h("button", { type: "button", class: "main", "data-key": "run",
          disabled: page.typed === null, title: "Ctrl+Enter", onclick: run }, "Run"),
        page.typed === null ? null : h("button", { type: "button", "data-key": "drop",
          onclick: drop }, "Drop the changes"),
        h("button", { type: "button", "data-key": "copy", onclick: copy }, "Copy")));
  }
  // the states in the order of the tree, each with its depth in branches
  function ordered() {
    const children = known.states.map(() => []), found = [];
    known.states.forEach((s, n) => { if (s.parent !== null) children[s.parent].push(n); });
    const stack = known.states.length ? [[0, 0]] : [];
    while (stack.length) {
      const [n, depth] = stack.pop();
      found.push([n, depth]);
      // the first child continues its parent's line; the others are branches of it
      const [next, ...others] = children[n];
      if (next !== undefined) stack.push([next, depth]);
      others.reverse().forEach((c) => stack.push([c, depth + 1]));
    }
    return found;
  }
  function drawTree() {
    const path = new Set();
    for (let n = known.current; n !== null; n = known.states[n].parent) path.add(n);
    fill(parts.tree, h("ol", {}, ordered().map(([n, depth]) => {
      const found = known.times.get(n), faster = speed(n);
      const text = !found ? "" : found.status === "ok" ? seconds(found.seconds)
        : found.status === "failed" ? "failed" : "…";
      return h("li", { style: `--depth: ${depth}`, class: [n === known.current ? "current" : "",
        path.has(n) ? "path" : ""].join(" ") },
      h("button", { type: "button", class: "state", "data-key": `state ${n}`,
        "aria-current": n === known.current ? "step" : undefined,
        title: found && found.status === "failed" ? found.text : "show this state",
        onclick: () => ask({ do: "go", to: n }) },
      h("span", { class: "name" }, label(n)),
      h("span", { class: "bar-of" }, h("span", { style: `width: ${faster ? 100 * share(faster) : 0}%` })),
      h("span", { class: "value" }, faster && n ? times(faster) : ""),
      h("span", { class: "value soft" }, text)),
      h("button", { type: "button", class: n === known.current ? "small unseen" : "small",
        disabled: n === known.current, "data-key": `with ${n}`, title: `compare state ${n} with the one that is shown`,
        onclick: () => compare(n, known.current) }, "compare"));
    })));
  }
  function drawNest() {
    const view = known.views.get(known.current);
    const key = `${known.hello.session} ${known.current} ${Boolean(view)}`;
    if (parts.loops.dataset.shown === key) return;
    parts.loops.dataset.shown = key;
    fill(parts.loops, view ? h("div", { class: "schedlang", html: view.nest }) : "…");
  }
  function drawPicture() {
    const { picture } = known.views.get(known.current) || {};
    const key = `${known.hello.session} ${known.current} ${Boolean(picture)}`;
    if (parts.picture.dataset.shown === key) return;
    parts.picture.dataset.shown = key;
    stop();
    page.frame = 255;
    if (!picture) { fill(parts.picture, "…"); return; }
    const panels = picture.panels.map((panel) => ({ ...panel,
      at: Uint8Array.from(atob(panel.first), (c) => c.charCodeAt(0)),
      canvas: h("canvas", { width: panel.columns, height: panel.rows, role: "img",
        "aria-label": `the order in which elements of ${panel.name} are touched` }) }));
    const slider = h("input", { type: "range", min: 0, max: 255, value: 255, "data-key": "slider",
      "aria-label": "time", oninput: () => { stop(); paint(+slider.value); } });
    const play = h("button", { type: "button", "data-key": "play", onclick: () => {
      if (page.timer) { stop(); return; }
      if (page.frame >= 255) page.frame = 0;
      play.textContent = "Pause";
      page.timer = setInterval(() => {
        page.frame = Math.min(255, page.frame + 2);
        slider.value = page.frame; paint(page.frame);
        if (page.frame >= 255) stop();
      }, 40);
    } }, "Play");
    function paint(frame) {
      page.frame = frame;
      for (const one of panels) {
        const context = one.canvas.getContext("2d");
        const image = context.createImageData(one.columns, one.rows);
        one.at.forEach((at, k) => {
          const colour = at === 0 || at > frame ? NEVER
            : frame < 255 && at > frame - 6 ? NOW : viridis((at - 1) / 254);
          image.data.set([...colour, 255], 4 * k);
        });
        context.putImageData(image, 0, 0);
      }
    }
    const figures = panels.map((one) => {
      const scale = 168 / Math.max(one.rows, one.columns), wide = Math.max(6, one.columns * scale);
      const lines = svg("svg", { viewBox: `0 0 ${one.columns} ${one.rows}`,
        preserveAspectRatio: "none", "aria-hidden": "true" });
      for (const line of one.lines) {
        lines.append(svg("path", { class: "edge", d: line.path, "stroke-width": line.width + 0.8 }),
          svg("path", { d: line.path, "stroke-width": line.width }));
      }
      return h("figure", {}, h("div", { class: "grid",
        style: `width: ${wide}px; height: ${Math.max(6, one.rows * scale)}px` }, one.canvas, lines),
      h("figcaption", {}, h("b", {}, one.name), one.lines.length ?
        ` lines: ${one.lines.map((l) => l.loop).join(", ")}` : ""));
    });
    fill(parts.picture, panels.length ? [h("div", { class: "buttons" }, play, slider),
      h("div", { class: "panels" }, figures)] : null, h("p", { class: "soft" }, picture.caption));
    paint(255);
  }
  function stop() {
    clearInterval(page.timer);
    page.timer = null;
    const play = parts.picture.querySelector("button");
    if (play) play.textContent = "Play";
  }
  function drawCounters() {
    const { counters } = known.views.get(known.current) || {};
    if (!counters) { fill(parts.counters, "…"); return; }
    if (!counters.rows.length) { fill(parts.counters, h("p", { class: "soft" }, counters.text)); return; }
    const what = { loads: "load instructions, a vector being one", stores: "store instructions",
      scalar: "operations on one element", vector: "operations on vectors",
      storage: "bytes of scratch storage at one time" };
    const number = (v) => v.toLocaleString("en");
    fill(parts.counters, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, counters.what), counters.columns.map((c) =>
        h("th", { scope: "col", title: what[c] }, c)))),
      h("tbody", {}, counters.rows.map(([name, ...values]) => h("tr", {},
        h("th", { scope: "row" }, name), values.map((v) => h("td", {}, number(v))))))),
    h("p", { class: "soft" }, counters.text));
  }
  function drawCompare() {
    if (!page.compared) { fill(parts.compare); return; }
    const [a, b] = page.compared, rows = known.pairs.get(`${a} ${b}`);
    const pick = (at) => h("select", { "aria-label": "a state", "data-key": `pick ${at}`,
      onchange: (event) => compare(at ? a : +event.target.value, at ? +event.target.value : b) },
    known.states.map((s, n) => h("option", { value: String(n),
      selected: n === page.compared[at] }, label(n))));
    const side = (at) => {
      const n = page.compared[at], view = known.views.get(n), mark = at ? "+" : "−";
      return h("div", { class: "side" },
        h("div", { class: "buttons" }, pick(at), h("b", {}, speed(n) && n ? times(speed(n)) : ""),
          timeOf(known.times.get(n)), h("button", { type: "button", "data-key": `show ${at}`,
            disabled: n === known.current, onclick: () => ask({ do: "go", to: n }) }, "Show")),
        h("div", { class: "schedlang" }, h("div", { class: "block" }, !rows || !view ? (readOnly ? "This file does not compare these two states." : "…")
          : rows.map((row) => {
            if (row[at] === null) return h("pre", { class: "line gap" });
            const kind = row[2] ? (at ? "line added" : "line removed") : "line";
            return h("pre", { class: kind }, h("s", {}, row[2] ? mark : " "), " ",
              h("span", { html: view.lines[row[at]] }));
          }))));
    };
    const ratio = measured(a) && measured(b) ? measured(a) / measured(b) : null;
    fill(parts.compare, h("section", { class: "card", "aria-label": "Two states" },
      h("h2", {}, "Two states", ratio ? h("span", { class: "soft" },
        `  state ${b} is ${times(ratio)} as fast as state ${a}`) : null,
      h("button", { type: "button", class: "small", "data-key": "close",
        onclick: () => { page.compared = null; later(); } }, "Close")),
      h("div", { class: "two" }, side(0), side(1))));
  }
  function drawSteps() {
    const view = known.views.get(known.current) || {};
    if (!view.steps) { fill(parts.steps, h("p", { class: "soft busy" }, "trying steps…")); return; }
    const all = view.steps.map((step, n) => [step, n]);
    const good = all.filter(([s]) => s.speedup >= GAIN), others = all.filter(([s]) => s.speedup < GAIN);
    const fixed = readOnly || Boolean(page.lost);
    const untimed = good.slice(0, FIRST).filter(([, n]) => !known.steps.has(`${known.current} ${n}`));
    fill(parts.steps,
      good.length ? h("p", { class: "soft" }, "Each was tried on a copy, and is legal. The factor "
        + "is what the estimate predicts. ", fixed || !untimed.length || known.hello.impossible ? null
        : h("button", { type: "button", class: "small", "data-key": "time",
          onclick: () => ask({ do: "measure", number: known.current,
            steps: untimed.map(([, n]) => n) }) }, `Measure ${untimed.length} of them`))
        : h("p", { class: "soft" }, "No step promises much more by the estimate. Those below change the "
          + "nest, and a later step may profit; sl.autotune tries many together."),
      h("div", { class: "list" }, good.map(([s, n]) => stepOf(s, n, fixed))),
      others.length ? h("details", { "data-key": "others", open: !good.length },
        h("summary", {}, `${others.length} other legal steps, without a gain of their own`),
        h("div", { class: "list" }, others.map(([s, n]) => stepOf(s, n, fixed)))) : null,
      (view.refused || []).length ? h("details", { "data-key": "refused" },
        h("summary", {}, `${view.refused.length} steps are refused now`),
        h("ul", { class: "refused" }, view.refused.map((r) => h("li", {},
          h("details", { "data-key": `why ${r.text}` }, h("summary", {}, r.text),
            h("pre", {}, r.message)))))) : null);
  }
  function stepOf(step, n, fixed) {
    const found = known.steps.get(`${known.current} ${n}`), base = measured(known.current);
    const real = found && found.status === "ok" && base ? base / found.seconds : null;
    const kind = step.speedup >= GAIN ? "gain" : step.speedup < 1 / GAIN ? "loss" : "even";
    return h("button", { type: "button", class: "step", "data-key": `step ${n}`, disabled: fixed,
      onclick: () => ask({ do: "take", number: known.current, step: n }) },
    h("span", { class: `factor ${kind}` }, times(step.speedup)),
    h("span", { class: "bar-of" }, h("span", { style: `width: ${100 * share(step.speedup)}%` })),
    h("span", { class: "what" }, h("b", {}, `${step.primitive} ${step.stage}`),
      h("span", { class: "soft" }, ` ${step.meaning}`),
      found ? h("span", { class: "real" }, real ? `measured ${times(real)}: ` : "", timeOf(found)) : null),
    h("code", {}, step.code));
  }
  function lost(text) { page.lost = text; later(); }
  function busy(text) { if (page.busy !== text) { page.busy = text; later(); } }
  later();
  return { receive, lost, busy, page };
}

function viridis(t) {
  const at = Math.max(0, Math.min(1, t)) * (VIRIDIS.length - 1), k = Math.min(Math.floor(at), 8);
  return VIRIDIS[k].map((c, i) => c + (at - k) * (VIRIDIS[k + 1][i] - c));
}

// transports

// the page of a server: it connects again when the server comes back
function served() {
  const url = new URL("ws", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  let socket = null, quiet = null;
  const page = mount(document.getElementById("live"), (message) => {
    socket.send(JSON.stringify(message));
    clearTimeout(quiet);
    quiet = setTimeout(() => page.busy("The server is busy, or does not answer."), 1000 * PATIENCE);
  }, false, true);
  function connect() {
    socket = new WebSocket(url);
    socket.addEventListener("message", (event) => {
      clearTimeout(quiet);
      page.busy("");
      page.receive(JSON.parse(event.data));
    });
    socket.addEventListener("close", (event) => {
      page.lost(event.code === 1013 ? "Too many pages are open. Close one of them."
        : "The connection to the server is lost. All that is shown here stays, and so does what you "
          + "typed; the page tries to connect again.");
      setTimeout(connect, 1000 * AGAIN);
    });
  }
  connect();
}

// a file: the messages stand in it
function shared() {
  const page = mount(document.getElementById("live"), () => {}, true, false);
  const messages = JSON.parse(document.getElementById("messages").textContent);
  messages.forEach((message) => page.receive(message));
}

// a notebook (anywidget)
function render({ model, el }) {
  let quiet = null;
  const page = mount(el, (message) => {
    model.send(message);
    clearTimeout(quiet);
    quiet = setTimeout(() => page.lost("The kernel does not answer: it is busy, or it was started "
      + "again. All that is shown here stays; run the cell again for a new page."), 1000 * PATIENCE);
  }, false, false);
  function heard(message) {
    clearTimeout(quiet);
    if (page.page.lost) page.lost("");
    (message.messages || []).forEach((one) => page.receive(one));
  }
  model.on("msg:custom", heard);
  model.send({ do: "hello" });
  return () => { clearTimeout(quiet); model.off("msg:custom", heard); };
}

export default { render };
