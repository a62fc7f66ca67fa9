// Numbers and times in words.

function seconds(value) {
  const [scale, unit] = value >= 1 ? [1, "s"] : value >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  return `${(value * scale).toPrecision(3)} ${unit}`;
}

// how many times as fast, or slower
function times(factor) {
  if (factor < 0.995) return `${digits(1 / factor)} times slower`;
  return `${digits(factor)}×`;
}
function digits(value) {
  if (value >= 99.5) return Math.round(value).toLocaleString("en");
  return value >= 9.95 ? value.toFixed(1) : value.toFixed(2);
}

const isTimed = (timing) => Boolean(timing) && timing.status === "ok";
const isQuiet = (timing) => isTimed(timing) && timing.quiet;

// how much faster a time is than another: a disturbed time is too long, so that it gives a bound,
// and two of them say nothing
function ratio(base, own) {
  if (!isTimed(base) || !isTimed(own) || (!base.quiet && !own.quiet)) return null;
  return { factor: base.seconds / own.seconds, exact: base.quiet && own.quiet, least: base.quiet };
}
function bounded(one) {
  if (one.exact) return times(one.factor);
  // a bound on how fast is the other bound on how slow
  return `${one.least === (one.factor >= 0.995) ? "at least" : "at most"} ${times(one.factor)}`;
}
function beside(one, what) {
  return one.factor >= 0.995 ? `as fast as ${what}` : `than ${what}`;
}

// the part of a bar that a factor fills, 1000 times being all of it
function share(factor) {
  return Math.max(0.01, Math.min(1, Math.log10(Math.max(factor, 1)) / 3));
}

function timeOf(timing) {
  if (!timing) return null;
  if (timing.status === "waiting") return h("span", { class: "soft" }, "waits to be measured");
  if (timing.status === "running") return h("span", { class: "soft busy" }, "is being measured…");
  if (timing.status === "failed") return h("span", { class: "failed" }, timing.text);
  const noisy = timing.quiet ? null : h("span", { class: "soft",
    title: "Other work on this machine took a core during every sample." }, " (too long: other work took a core)");
  return h("span", {}, seconds(timing.seconds), noisy);
}
