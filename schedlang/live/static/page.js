// The page: its parts, what a session tells it, and what a person asks for.

function mount(root, send, readOnly, keep) {
  const known = { states: [], views: new Map(), times: new Map(), steps: new Map(),
    pairs: new Map(), previews: new Map(), moments: new Map(), asked: new Set(), hello: null, current: 0, undone: [] };
  const page = { lost: "", problem: null, compared: null, base: 0, typed: null, sent: null,
    frame: 255, timer: null, note: "", busy: "", preview: null,
    elements: new Map() };
  const parts = {};
  for (const name of ["bar", "notice", "speed", "before", "gutter", "after", "run", "tree", "loops",
    "picture", "counters", "compare", "steps", "map"]) parts[name] = h("div", { class: name });
  const editor = h("textarea", { class: "editor", spellcheck: "false", autocomplete: "off",
    autocapitalize: "off", wrap: "off", "aria-label": "the schedule, to be edited",
    readonly: readOnly, oninput: () => typed(app), onscroll: () => {
      parts.gutter.scrollTop = editor.scrollTop; },
    onkeydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(app); }
    } });
  const styles = h("style");
  const card = (title, ...inner) => h("section", { class: "card", "aria-label": title },
    h("h2", {}, title), ...inner);
  root.classList.add("schedlang-live");
  // the steps come first for the keyboard: a grid puts them beside the nest
  root.replaceChildren(styles, parts.bar, parts.notice, h("div", { class: "columns" },
    h("div", { class: "next" }, card("Next steps", parts.steps),
      card("What it counts", parts.counters)),
    h("div", { class: "nests" }, card("The loop nest", parts.loops),
      card("Where each stage lives", parts.map), card("States", parts.tree),
      card("What it touches, and when", parts.picture)),
    h("div", { class: "text" },
      card(readOnly ? "The schedule" : "The schedule, to edit and to paste", parts.before,
        h("div", { class: "code" }, parts.gutter, editor), parts.after, parts.run))),
  parts.speed, parts.compare);
  const app = { known, page, parts, root, editor, readOnly, keep, ask, later, compare,
    quietly: (message) => send(message) };
  watchSteps(app);
  root.addEventListener("keydown", (event) => {
    if (event.target === editor || !(event.ctrlKey || event.metaKey)) return;
    if (event.key === "z" && !event.shiftKey) { event.preventDefault(); ask({ do: "undo" }); }
    if (event.key === "y" || (event.key === "z" && event.shiftKey)) {
      event.preventDefault(); ask({ do: "redo" });
    }
  });

  // what the session tells

  function receive(message) {
    const take = { hello, tree, view, time, style, compared, preview, moment, problem, edited, file }[message.type];
    if (take) take(message);
    later();
  }
  function hello(message) {
    const before = known.hello, restored = before && before.session !== message.session &&
      known.states.length > 1 && !readOnly;
    const mine = known.states.map((s, n) => ({ ...s, code: (known.views.get(n) || {}).code }));
    const current = known.current;
    known.hello = message;
    for (const map of [known.views, known.times, known.steps, known.pairs, known.previews,
      known.moments, known.asked]) map.clear();
    page.elements.clear();
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
    if (message.current !== known.current) page.preview = null;
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
  function preview(message) {
    const kind = "place" in message ? "place" : "step";
    known.previews.set(`${message.number} ${kind} ${message[kind]}`, message);
  }
  function moment(message) {
    known.moments.set(`${message.number} ${message.place} ${message.moment.element}`, message.moment);
  }
  function problem(message) { page.problem = message; }
  // what was typed after the text was sent stays, as an edit of the new state
  function edited(message) {
    if (page.typed === page.sent) page.typed = null;
    else page.base = message.number;
    page.problem = null;
    remember(app);
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
    page.preview = null;
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
  function compare(a, b) {
    page.compared = [Math.min(a, b), Math.max(a, b)];
    if (!known.pairs.has(page.compared.join(" "))) {
      ask({ do: "compare", a: page.compared[0], b: page.compared[1] });
    }
    later();
    setTimeout(() => parts.compare.scrollIntoView({ block: "nearest" }), 0);
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
    drawBar(); drawNotice(); drawCounters();
    for (const part of [drawSpeed, drawCode, drawTree, drawNest, drawMap, drawPicture, drawCompare,
      drawSteps]) {
      part(app);
    }
  }

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
    const view = known.views.get(known.current) || {}, notes = [];
    if (page.lost) notes.push(h("p", { class: "lost", role: "alert" }, page.lost));
    if (page.busy) notes.push(h("p", { class: "note" }, page.busy));
    if (page.note) notes.push(h("p", { class: "note" }, page.note));
    if (page.problem && page.problem.about !== "edit") {
      notes.push(h("pre", { class: "problem", role: "alert" }, page.problem.text));
    }
    if (known.hello.impossible) notes.push(h("p", { class: "note" }, known.hello.impossible));
    if (view.why) notes.push(h("p", { class: "note" }, view.why));
    const timed = known.times.get(known.current);
    if (timed && timed.status === "ok" && !timed.quiet) {
      notes.push(h("p", { class: "note" }, "Other work on this machine took a core during every "
        + "sample, so the time is too long, most of all for parallel loops, since a call waits "
        + "for its slowest core. Measure again: the best time counts."));
    }
    for (const note of view.notes || []) notes.push(h("p", { class: "note" }, note));
    fill(parts.notice, notes);
  }
  function drawCounters() {
    const { counters } = known.views.get(known.current) || {};
    if (!counters) { fill(parts.counters, "…"); return; }
    if (!counters.rows.length) { fill(parts.counters, h("p", { class: "soft" }, counters.text)); return; }
    const what = { loads: "load instructions, a vector being one", stores: "store instructions",
      scalar: "operations on one element", vector: "operations on vectors",
      storage: "bytes of scratch storage at one time",
      requests: "instructions of warps that load from or store to global memory",
      sectors: "pieces of 32 bytes that these requests move", "per request": "sectors of a request: "
        + "4 if a warp touches 32 adjacent floats",
      shared: "instructions of warps that load from or store to shared memory",
      "bank conflicts": "extra passes, as lanes need different words of one bank",
      barriers: "barriers, each once per block", occupancy: "the part of a multiprocessor's warps" };
    const number = (v) => v.toLocaleString("en");
    fill(parts.counters, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, counters.what), counters.columns.map((c) =>
        h("th", { scope: "col", title: what[c] }, c)))),
      h("tbody", {}, counters.rows.map(([name, ...values]) => h("tr", {},
        h("th", { scope: "row" }, name), values.map((v) => h("td", {}, number(v))))))),
    h("p", { class: "soft" }, counters.text));
  }
  function lost(text) { page.lost = text; later(); }
  function busy(text) { if (page.busy !== text) { page.busy = text; later(); } }
  later();
  return { receive, lost, busy, page };
}

