// What was measured, and numbers as text. Times are nanoseconds.

const data = JSON.parse(byId("story").textContent);
const OUTSIDE = "Python and everything else";
const KIND_WORDS = {
  operation: "forward", backward: "backward", step: "optimizer step", module: "Module",
  range: "named range", outside: "outside of events",
};

function timeText(ns) {
  if (!ns) return "0";
  const size = Math.abs(ns);
  const [unit, of] = size >= 1e9 ? ["s", 1e9] : size >= 1e6 ? ["ms", 1e6]
    : size >= 1e3 ? ["µs", 1e3] : ["ns", 1];
  return `${digits(ns / of)} ${unit}`;
}

function bytesText(count) {
  if (!count) return "0";
  const size = Math.abs(count);
  const [unit, of] = size >= 999.5e6 ? ["GB", 1e9] : size >= 999.5e3 ? ["MB", 1e6]
    : size >= 1e3 ? ["kB", 1e3] : ["bytes", 1];
  return of === 1 ? `${signed(String(size), count)} ${size === 1 ? "byte" : unit}`
    : `${signed(digits(size / of), count)} ${unit}`;
}

const signed = (text, value) => (value < 0 ? `−${text}` : text);

/** Three digits that count. */
function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

const part = (ns) => (data.total ? ns / data.total : 0);
const percent = (ns) => `${(100 * part(ns)).toFixed(1)} %`;

/** A bar of pieces, each as wide as its part of something. */
function pieces(values, whole) {
  return values.filter(([, value]) => value > 0).map(([kind, value]) => {
    const piece = h("i", { class: `${kind}-bg` });
    piece.style.width = `${(100 * value) / whole}%`;
    return piece;
  });
}

function say(text) {
  byId("live").textContent = text;
}
