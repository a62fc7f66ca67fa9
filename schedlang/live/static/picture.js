// When elements are touched first, as pictures and a film.

// iteration order: viridis, by S. van der Walt and N. Smith
const VIRIDIS = ["440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58",
  "b5de2b", "fde725"].map((c) => [0, 2, 4].map((k) => parseInt(c.slice(k, k + 2), 16)));
const NOW = [213, 94, 0], NEVER = [225, 229, 235];

function drawPicture(app) {
  const { known, page, parts } = app;
  const stop = () => stopFilm(app);
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
      `, cut by black lines into iterations of ${one.lines.map((l) => l.loop).join(" and ")}` : "", one.part < 0.5 ?
      `: first touched ${one.begin >= 0.005 ? `between ${percent(one.begin)} and ${percent(Math.min(1, one.begin + one.part))}`
        : `in the first ${percent(one.part)}`} of what is drawn` : ""));
  });
  fill(parts.picture, panels.length ? [h("div", { class: "buttons" }, play, slider),
    h("div", { class: "panels" }, figures)] : null, h("p", { class: "soft" }, picture.caption));
  paint(255);
}
function stopFilm({ page, parts }) {
  clearInterval(page.timer);
  page.timer = null;
  const play = parts.picture.querySelector("button");
  if (play) play.textContent = "Play";
}

function percent(part) {
  return part < 0.0005 ? "less than 0.1%" : `${+(100 * part).toPrecision(2)}%`;
}

function viridis(t) {
  const at = Math.max(0, Math.min(1, t)) * (VIRIDIS.length - 1), k = Math.min(Math.floor(at), 8);
  return VIRIDIS[k].map((c, i) => c + (at - k) * (VIRIDIS[k + 1][i] - c));
}
