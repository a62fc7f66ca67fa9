// The live page: it shows what a session tells, and sends what a person asks for.
// These files together are one module, for the browser, for notebooks (anywidget) and for files that
// are shared. This one makes elements.

function h(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "html") element.innerHTML = value;
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== ""));
  return element;
}

function svg(tag, given, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// whether a part is filled just now, so that nobody has moved the focus
let filling = false;

// fill a part of the page anew; the element with the focus gets it back by its key
function fill(part, ...children) {
  filling = true;
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
  filling = false;
}
