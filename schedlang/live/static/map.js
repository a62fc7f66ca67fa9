// The map of placements: where each stage is computed and kept, and what one iteration does there.

// what a cell is, as the session says it: its kind in two bits, then two marks
const STORED = 4, STEP = 8, CELL = 9;
const CELLS = ["#e1e5eb", "#8ecbee", "#e69f00", "#c62828"], KEPT_EDGE = "#00784f",
  ROUND_EDGE = "#b86e00";

function drawMap(app) {
  const { known, page, parts } = app;
  const view = known.views.get(known.current) || {}, stages = view.places || [];
  parts.map.parentElement.hidden = !stages.length;
  if (!stages.length) { fill(parts.map); return; }
  fill(parts.map, h("p", { class: "soft" }, "Choose a loop for each stage by a click, or drop it there: "
    + "each iteration computes what it reads. Storage further out keeps what later iterations read again. "
    + "The factor is the estimate beside the present place."
    + (view.unmapped ? ` The first ${view.unmapped} stages have no map here: the last ones are shown.` : "")), stages.map((stage) => {
    const shown = chosenPlace(app, stage);
    return h("div", { class: "mapped" }, h("div", { class: "rows" }, producerOf(stage), rowsOf(app, stage)),
      h("div", { class: "moment" }, momentOf(app, stage, shown)));
  }));
}

// the place whose picture is shown: under the pointer, or the present one
function chosenPlace(app, stage) {
  return stage.places.find((one) => `place ${one.number}` === app.page.preview) || stage.places.find((one) => one.now);
}

function producerOf(stage) {
  return h("div", { class: "producer" }, h("span", { class: "chip", draggable: "true",
    title: "drag it to a loop", ondragstart: (event) => {
      event.dataTransfer.setData("text/plain", stage.stage);
      event.dataTransfer.effectAllowed = "move";
    } }, stage.stage), h("span", { class: "soft" }, "is computed"));
}

// storage further out comes later
const outwards = (one) => typeof one.store === "number" ? one.store : -1;

function rowsOf(app, stage) {
  const rows = ["inline", "root", ...stage.loops.keys()];
  const name = (row) => row === "inline" ? "where it is read (inline)" : row === "root"
    ? "whole, before all loops (root)" : `for ${stage.loops[row]}:`;
  return rows.map((row) => {
    const some = stage.places.filter((one) => one.compute === row)
      .sort((a, b) => outwards(b) - outwards(a));
    const depth = typeof row === "number" ? row : 0;
    // the legal place whose storage is closest
    const drop = some[0];
    return h("div", { class: drop ? "row" : "row none", style: `--depth: ${depth}`,
      ondragover: (event) => { if (drop && !app.readOnly) event.preventDefault(); },
      ondrop: (event) => {
        event.preventDefault();
        if (drop && event.dataTransfer.getData("text/plain") === stage.stage) putAt(app, drop);
      } },
    h("span", { class: typeof row === "number" ? "loop" : "whole" }, name(row)),
    h("span", { class: "cells" }, some.length ? some.map((one) => placeOf(app, stage, one))
      : h("span", { class: "soft" }, "not legal here")));
  });
}

function placeOf(app, stage, one) {
  const where = one.store === one.compute ? "" : one.store === "root" ? "stored outside all loops"
    : `stored in ${stage.loops[one.store]}`;
  const fixed = app.readOnly || Boolean(app.page.lost);
  return h("button", { type: "button", class: one.now ? "place now" : "place", "data-place": String(one.number),
    "data-key": `place ${one.number}`, "aria-disabled": fixed ? "true" : undefined,
    "aria-current": one.now ? "true" : undefined, title: one.code || "where it is now",
    onclick: () => { if (!fixed) putAt(app, one); } },
  h("b", {}, one.now ? "now" : times(one.speedup)), where ? h("span", {}, where) : null,
  h("span", { class: "soft" }, countsOf(one)));
}

function countsOf(one) {
  const most = one.bound ? "at most " : "";
  const computed = one.computed === null ? "" : `${most}${digits(one.computed / Math.max(one.distinct, 1))}× computed, `;
  return computed + (one.bytes === null ? "" : one.bytes ? `stores ${bytes(one.bytes)}` : "stores nothing");
}

function bytes(value) {
  const unit = value >= 2 ** 20 ? [2 ** 20, "MiB"] : value >= 2 ** 10 ? [2 ** 10, "KiB"] : [1, "B"];
  return `${+(value / unit[0]).toPrecision(3)} ${unit[1]}`;
}

function putAt(app, one) {
  if (!one.now) app.ask({ do: "put", number: app.known.current, place: one.number });
}

function momentOf(app, stage, one) {
  const { known, page } = app;
  if (!one.moment) return h("p", { class: "soft" }, one.why);
  // an element of another state's consumer may be none of this one
  const asked = page.elements.get(stage.stage) || [], shape = one.moment.shape;
  const element = asked.length === shape.length && asked.every((at, k) => at < shape[k]) ? asked : [];
  const key = `${known.current} ${one.number} ${element.join(",")}`;
  const moment = known.moments.get(key) || one.moment;
  if (element.length && !app.readOnly && !page.lost && !known.asked.has(`at ${key}`)) {
    known.asked.add(`at ${key}`);
    app.quietly({ do: "moment", number: known.current, place: one.number,
      element });
  }
  const move = (name, dim, by) => h("button", { type: "button", class: "small", "data-key": `move ${stage.stage} ${name}`,
    "aria-label": `${name} element`, disabled: app.readOnly, onclick: () => {
      const next = [...moment.element];
      next[dim] = Math.max(0, Math.min(moment.shape[dim] - 1, next[dim] + by));
      page.elements.set(stage.stage, next);
      app.later();
    } }, name);
  const last = moment.shape.length - 1;
  const counts = one.computed === null ? "" : `${one.distinct.toLocaleString("en")} elements of ${stage.stage}, `
    + `computed ${one.computed.toLocaleString("en")} times; `;
  return [h("p", {}, h("b", {}, `${stage.stage}: ${moment.where}`)),
    cellsOf(moment.above, `${stage.stage} at this step`, KEPT_EDGE),
    h("p", { class: "soft" }, counts + (one.bytes ? `stores ${bytes(one.bytes)}` : "stores nothing")),
    cellsOf(moment.below, `${moment.consumer} at this step`, ROUND_EDGE, (row, column) => {
      if (app.readOnly || moment.shape.length > 2) return;
      page.elements.set(stage.stage, moment.shape.length === 2 ? [row, column] : [column]);
      app.later();
    }),
    h("div", { class: "buttons" }, h("span", { class: "soft" },
      `${moment.consumer}[${moment.element.join(", ")}]${moment.loops.length ? `, at ${moment.loops.join(", ")}` : ""}`),
    move("previous", last, -1), move("next", last, 1),
    last > 0 ? [move("row before", last - 1, -1), move("row after", last - 1, 1)] : null),
    h("p", { class: "soft legend" }, [["computed earlier", 1], ["in this iteration", 2], ["again", 3]].map(([text, kind]) =>
      [h("i", { style: `background: ${CELLS[kind]}` }), `${text} `]), h("i", { class: "edge" }), "stored ",
    h("i", { class: "dot" }), "read and computed by this step")];
}

// a part of an array, a cell for each element
function cellsOf(part, title, edge, chosen) {
  const at = Uint8Array.from(atob(part.cells), (c) => c.charCodeAt(0));
  const canvas = h("canvas", { width: part.columns * CELL, height: part.rows * CELL, role: "img",
    "aria-label": title, class: chosen ? "chosen" : "", onclick: (event) => {
      const box = canvas.getBoundingClientRect();
      const of = (where, low, size, count) => Math.min(count - 1, Math.floor((where - low) * count / size));
      if (chosen) chosen(part.row + of(event.clientY, box.top, box.height, part.rows),
        part.column + of(event.clientX, box.left, box.width, part.columns));
    } });
  const context = canvas.getContext("2d");
  at.forEach((value, k) => {
    const x = (k % part.columns) * CELL, y = Math.floor(k / part.columns) * CELL;
    context.fillStyle = CELLS[value & 3];
    context.fillRect(x, y, CELL - 1, CELL - 1);
    if ((value & 3) === 3) {
      context.strokeStyle = "#fff";
      context.strokeRect(x + 2.5, y + 2.5, CELL - 6, CELL - 6);
    }
  });
  const stored = (row, column) => row >= 0 && column >= 0 && row < part.rows && column < part.columns
    && (at[row * part.columns + column] & STORED) !== 0;
  context.fillStyle = edge;
  at.forEach((value, k) => {
    const column = k % part.columns, row = Math.floor(k / part.columns), x = column * CELL, y = row * CELL;
    if (!(value & STORED)) return;
    if (!stored(row - 1, column)) context.fillRect(x, y, CELL, 2);
    if (!stored(row + 1, column)) context.fillRect(x, y + CELL - 3, CELL, 2);
    if (!stored(row, column - 1)) context.fillRect(x, y, 2, CELL);
    if (!stored(row, column + 1)) context.fillRect(x + CELL - 3, y, 2, CELL);
  });
  context.fillStyle = "#14171c";
  at.forEach((value, k) => {
    if (!(value & STEP)) return;
    context.beginPath();
    context.arc((k % part.columns) * CELL + 4, Math.floor(k / part.columns) * CELL + 4, 2.4, 0, 7);
    context.fill();
  });
  return canvas;
}
