// The code of a schedule: shown, edited, run, copied.

const KEPT = "schedlang-live-typed";

function drawCode(app) {
  const { known, page, parts, editor, readOnly } = app;
  const view = known.views.get(known.current) || {};
  fill(parts.before, h("pre", { class: "fixed" }, known.hello.definition));
  fill(parts.after, h("pre", { class: "fixed" }, known.hello.build));
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
        disabled: page.typed === null, title: "Ctrl+Enter", onclick: () => run(app) }, "Run"),
      page.typed === null ? null : h("button", { type: "button", "data-key": "drop",
        onclick: () => drop(app) }, "Drop the changes"),
      h("button", { type: "button", "data-key": "copy", onclick: (event) => copy(event, app) }, "Copy")));
}

function typed(app) {
  const { known, page, editor } = app;
  if (page.typed === null) page.base = known.current;
  page.typed = editor.value;
  page.problem = null;
  remember(app);
  app.later();
}
function remember({ keep, page }) {
  if (!keep) return;
  const key = KEPT + location.pathname;
  if (page.typed === null) sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, JSON.stringify([page.base, page.typed]));
}
function run(app) {
  const { known, page, editor, readOnly } = app;
  if (readOnly) return;
  const base = page.typed === null ? known.current : Math.min(page.base, known.states.length - 1);
  page.sent = editor.value;
  app.ask({ do: "edit", base, text: page.sent });
}
function drop(app) {
  app.page.typed = null;
  app.page.problem = null;
  remember(app);
  app.later();
}
async function copy(event, app) {
  const text = pasted(app), button = event.currentTarget;
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) {
    const area = h("textarea", { value: text, class: "away" });
    app.root.append(area); area.select(); document.execCommand("copy"); area.remove();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}
function pasted({ known, editor }) {
  return [known.hello.definition, "", editor.value.trimEnd(), "", known.hello.build, ""].join("\n");
}
