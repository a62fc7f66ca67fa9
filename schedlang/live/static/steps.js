// The next steps of a state: what each promises or brought, and the nest that it makes.

// a step that promises less is listed among the others
const GAIN = 1.03, FIRST = 5;
// milliseconds over a step after which its nest is shown
const HOVER = 120;

function drawSteps(app) {
  const { known, page, parts, ask, readOnly } = app;
  const view = known.views.get(known.current) || {};
  if (!view.steps) { fill(parts.steps, h("p", { class: "soft busy" }, "trying steps…")); return; }
  if (known.hello.unguided) {
    fill(parts.steps, h("p", { class: "soft" }, known.hello.unguided));
    return;
  }
  const all = view.steps.map((step, n) => ({ step, n, timing: known.steps.get(`${known.current} ${n}`) }));
  const good = all.filter((one) => one.step.speedup >= GAIN);
  const others = all.filter((one) => one.step.speedup < GAIN);
  const fixed = readOnly || Boolean(page.lost);
  const named = view.steps.map(nameOf);
  // steps of one name are told apart by their code
  const alike = (one) => named.filter((name) => name === nameOf(one.step)).length > 1;
  const list = (some) => h("div", { class: "list" }, some.map((one) => stepOf(app, one, fixed, alike(one))));
  const disturbed = good.filter((one) => isTimed(one.timing) && !one.timing.quiet);
  const chosen = good.slice(0, FIRST).filter((one) => !one.timing);
  const measure = (some, text) => fixed || !some.length || known.hello.impossible ? null
    : h("button", { type: "button", class: "small", "data-key": text.split(" ")[0],
      onclick: () => ask({ do: "measure", number: known.current, steps: some.map((one) => one.n) }) }, text);
  fill(parts.steps,
    known.states.length === 1 && !readOnly && good.length ? h("p", { class: "note first" },
      "Click a step to take it: Undo brings the nest back. Point at one, and the nest beside it shows "
      + "what it would become.") : null,
    good.length ? list(inOrder(good.filter((one) => !disturbed.includes(one))))
      : h("p", { class: "soft" }, "No step promises much more by the estimate. Those below change the "
        + "nest, and a later step may profit; sl.autotune tries many together."),
    disturbed.length ? [h("p", { class: "soft" }, "Other work took a core during these times. They are too "
      + "long, and do not compare: ", measure(disturbed, "Again")), list(disturbed)] : null,
    good.length ? h("p", { class: "soft" }, "Each was tried on a copy, and is legal. The factor is what "
      + "the estimate predicts. ", measure(chosen, `Measure ${chosen.length} of them`)) : null,
    others.length ? h("details", { "data-key": "others", open: !good.length },
      h("summary", {}, `${others.length} other legal steps, without a gain of their own`),
      list(others)) : null,
    (view.refused || []).length ? h("details", { "data-key": "refused" },
      h("summary", {}, `${view.refused.length} steps are refused now`),
      h("ul", { class: "refused" }, view.refused.map((r) => h("li", {},
        h("details", { "data-key": `why ${r.text}` }, h("summary", {}, r.text),
          h("pre", {}, r.message)))))) : null);
}

// what was measured comes first, the fastest at the top; the estimate ranks the others
function inOrder(some) {
  const rank = (one) => isTimed(one.timing) ? 0 : one.timing && one.timing.status === "failed" ? 2 : 1;
  return [...some].sort((a, b) => rank(a) - rank(b)
    || (rank(a) === 0 ? a.timing.seconds - b.timing.seconds : a.n - b.n));
}

const nameOf = (step) => `${step.primitive} ${step.stage}`;

// the line of its code that says what is special about a step
function lineOf(step) {
  const lines = step.code.trimEnd().split("\n");
  const line = lines.find((one) => one.includes(`.${step.primitive}(`)) || lines[lines.length - 1];
  return line.split(" = ").pop();
}

function stepOf(app, { step, n, timing }, fixed, alike) {
  const { known, ask } = app;
  const real = ratio(known.times.get(known.current), timing);
  const kind = step.speedup >= GAIN ? "gain" : step.speedup < 1 / GAIN ? "loss" : "even";
  return h("button", { type: "button", class: "step", "data-key": `step ${n}`, "data-step": String(n),
    "aria-disabled": fixed ? "true" : undefined,
    onclick: () => { if (!fixed) ask({ do: "take", number: known.current, step: n }); } },
  h("span", { class: `factor ${kind}${step.speedup < 0.995 ? " slow" : ""}` }, times(step.speedup)),
  h("span", { class: "bar-of" }, h("span", { style: `width: ${100 * share(step.speedup)}%` })),
  h("span", { class: "what" }, h("b", {}, nameOf(step)),
    h("span", { class: "soft" }, ` ${step.meaning}`),
    alike ? h("code", { class: "line" }, lineOf(step)) : null,
    timing ? h("span", { class: "real" }, real ? `measured ${bounded(real)}: ` : "", timeOf(timing)) : null));
}

// the step or place under the pointer, or with the focus, is shown in the nest
function watchSteps(app) {
  const { parts, page, later } = app;
  let waiting = null, last = "";
  const look = (which) => {
    clearTimeout(waiting);
    if (which !== page.preview) waiting = setTimeout(() => { page.preview = which; later(); }, HOVER);
  };
  const at = (event) => {
    const one = event.target.closest && event.target.closest("[data-step], [data-place]");
    look(!one ? null : one.dataset.step ? `step ${one.dataset.step}` : `place ${one.dataset.place}`);
  };
  for (const part of [parts.steps, parts.map]) {
    // a list that changes under a pointer that rests is no wish of a person
    part.addEventListener("pointermove", (event) => {
      const where = `${event.screenX} ${event.screenY}`;
      if (where !== last) at(event);
      last = where;
    });
    part.addEventListener("pointerdown", (event) => { last = `${event.screenX} ${event.screenY}`; });
    part.addEventListener("focusin", (event) => {
      if (!filling && event.target.matches(":focus-visible")) at(event);
    });
    part.addEventListener("pointerleave", () => { if (!filling) look(null); });
    part.addEventListener("focusout", (event) => {
      if (!filling && !part.contains(event.relatedTarget)) look(null);
    });
  }
}

// the step of a preview: its name and its code
function previewed({ known, page }) {
  const view = known.views.get(known.current) || {};
  const [kind, text] = (page.preview || "").split(" ");
  if (kind === "step") {
    const step = (view.steps || [])[+text];
    return step && { kind, number: +text, title: nameOf(step), code: step.code };
  }
  for (const stage of kind === "place" ? view.places || [] : []) {
    const one = stage.places.find((place) => place.number === +text);
    if (one && !one.now) return { kind, number: +text, title: `${stage.stage} there`, code: one.code };
  }
  return null;
}

function drawNest(app) {
  const { known, page, parts } = app;
  const view = known.views.get(known.current), step = view ? previewed(app) : null;
  const which = `${known.current} ${page.preview}`, preview = step ? known.previews.get(which) : null;
  if (step && !preview && !app.readOnly && !page.lost && !known.asked.has(which)) {
    known.asked.add(which);
    app.quietly({ do: "preview", number: known.current, [step.kind]: step.number });
  }
  const key = `${known.hello.session} ${step ? which : known.current} ${Boolean(view)} ${Boolean(preview)}`;
  if (parts.loops.dataset.shown === key) return;
  parts.loops.dataset.shown = key;
  if (!step) {
    fill(parts.loops, view ? h("div", { class: "schedlang", html: view.nest }) : "…");
    return;
  }
  fill(parts.loops, h("p", { class: "soft" }, `With ${step.title}:`),
    h("pre", { class: "taken" }, step.code),
    preview ? h("div", { class: "schedlang preview", tabindex: "0", role: "region",
      "aria-label": "the nest after the step" }, h("div", { class: "block" },
      preview.lines.map(([line, changed]) => h("pre", { class: changed ? "line added" : "line" },
        h("s", {}, changed ? "+" : " "), " ", h("span", { html: line }))))) : null);
}
