// The report of a run: what is remarkable, the curves, and a row for each parameter.

const AGAIN = 3000; // ms until a page of a run that goes on looks for a new version
const USUAL = [1e-4, 1e-2]; // of updates relative to the weights
const [FIRST, LAST] = [["loss", "gradient norm"], "learning rate"]; // curves
const TO_DO = "What to do: ";
const TAGS = { nan: "NaN", exploding: "exploding", vanishing: "vanishing", zero: "zero" };

const data = JSON.parse(byId("data").textContent);

function duration(seconds) {
  const [minutes, rest] = [Math.floor(seconds / 60), Math.round(seconds % 60)];
  return minutes ? `${minutes} min ${rest} s` : `${Number(seconds.toPrecision(3))} s`;
}

function state() {
  const speed = data.seconds > 0 && data.step ? `, ${Number((data.step / data.seconds).toPrecision(3))} per second` : "";
  return `${data.done ? "ended" : "running"} · ${plural(data.step, "step", "steps")} in ${duration(data.seconds)}${speed}`;
}

function mark({ kind, text, why, page }) {
  return h("div", { class: `mark ${kind}`, role: "note" }, h("p", { class: "matter" }, text),
    why.map((line) => (line.startsWith(TO_DO)
      ? h("p", null, h("b", null, TO_DO), line.slice(TO_DO.length)) : h("p", null, line))),
    page ? h("p", null, h("a", { href: encodeURIComponent(page) }, "Step through this pass")) : null);
}

const latest = (points) => (points.length ? tidy(points.at(-1)[1]) : "–");

function row(one) {
  const cell = (label, picture, number) => h("div", { class: "cell" },
    h("span", { class: "label" }, label), picture, number === null ? null : h("span", { class: "n" }, number));
  const counts = (label, known, name) => cell(label, known ? histogram(known, name) : h("small", null, "–"),
    known ? tidy(Math.max(Math.abs(known.low), Math.abs(known.high))) : null);
  const tag = one.frozen ? "frozen" : TAGS[one.mark];
  return h("div", { class: "row", data: { parameter: one.name } },
    h("div", null, h("span", { class: "name" }, one.name), " ", h("small", null, shapeText(one.shape)),
      " ", tag ? h("span", { class: "tag" }, tag) : null),
    cell("gradient norm", spark(one.norms), latest(one.norms)),
    cell("update / weight", spark(one.ratios, USUAL), latest(one.ratios)),
    counts("weights", one.weights, ""),
    counts("gradient", one.gradient, "of-gradient"));
}

function showReport() {
  byId("state").textContent = state();
  byId("marks").append(...data.marks.map(mark));
  const others = Object.keys(data.curves).filter((name) => ![...FIRST, LAST].includes(name));
  const names = [...FIRST, ...others, LAST];
  byId("curves").append(...names.filter((name) => data.curves[name]?.x.length).map((name) =>
    chart(name, data.curves[name])));
  byId("about").textContent = data.step
    ? `Measured in every ${data.every === 1 ? "step" : `${data.every} steps`}. Updates of about 0.001 of the weights are usual: the green band is ${tidy(USUAL[0])} to ${tidy(USUAL[1])}. The numbers beside histograms are the largest elements.`
    : "No step yet.";
  byId("parameters").append(h("div", { class: "row" },
    ["parameter", "gradient norm", "update / weight", "weights", "gradient"].map((text) => h("span", null, text))),
  ...data.parameters.map(row));
  byId("theme").addEventListener("click", toggleTheme);
  if (!data.done && !isFramed) {
    setTimeout(() => { if (document.visibilityState === "visible") location.reload(); }, AGAIN);
  }
}

restoreTheme();
showReport();
document.documentElement.dataset.ready = "1";
