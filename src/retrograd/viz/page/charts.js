// Curves and histograms, as SVG.

const [HEIGHT, LEFT, FOOT] = [190, 52, 18]; // of a chart, in pixels
const SMOOTH = 0.9; // of the mean that follows a curve: the weight of what came before

const tidy = (x) => (x === null || x === undefined ? "NaN" : x === 0 ? "0"
  : Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(1).replace("e+", "e").replace(".0e", "e")
    : String(Number(x.toPrecision(3))));

/** A scale from numbers to pixels, logarithmic where the numbers span much. */
function scaleOf(values, height, top = 8) {
  const finite = values.filter((y) => y !== null && Number.isFinite(y));
  let [low, high] = finite.length ? [Math.min(...finite), Math.max(...finite)] : [0, 1];
  const isLog = low > 0 && high > 30 * low;
  const f = isLog ? Math.log10 : (y) => y;
  if (low === high) [low, high] = [low - Math.abs(low || 1) / 2, high + Math.abs(high || 1) / 2];
  const [a, b] = [f(low), f(high)];
  const at = (y) => top + (1 - (f(y) - a) / (b - a)) * (height - top);
  return { at, isLog, ticks: isLog ? powers(a, b) : rounded(low, high) };
}

function powers(low, high) {
  const every = Math.max(1, Math.ceil((high - low) / 4));
  const found = [];
  for (let n = Math.ceil(low); n <= high; n += every) found.push(10 ** n);
  return found.length ? found : [10 ** low, 10 ** high];
}

function rounded(low, high) {
  const rough = (high - low) / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * unit).find((size) => size >= rough);
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high; n++) found.push(n * step);
  return found;
}

/** A path through points; it is interrupted where a number is missing. */
function pathOf(points) {
  let drawing = false;
  return points.map(([x, y]) => {
    const piece = y === null ? "" : `${drawing ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    drawing = y !== null;
    return piece;
  }).join("");
}

/** The mean of a curve that forgets slowly. */
function smoothed(ys) {
  let [mean, weight] = [0, 0];
  return ys.map((y) => {
    if (y === null) return null;
    mean = SMOOTH * mean + (1 - SMOOTH) * y;
    weight = SMOOTH * weight + 1 - SMOOTH;
    return mean / weight;
  });
}

/** A curve with its axes; the number under the pointer is shown beside the title. */
function chart(title, { x: xs, y: ys }) {
  const out = h("output", null, tidy(ys.at(-1)));
  const root = svg("svg", { role: "img", "aria-label": `${title}: ${tidy(ys[0])} to ${tidy(ys.at(-1))}` });
  const draw = () => {
    const width = root.clientWidth || 400;
    const scale = scaleOf(ys, HEIGHT - FOOT);
    const span = Math.max(1, (xs.at(-1) ?? 1) - (xs[0] ?? 0));
    const across = (x) => LEFT + ((x - xs[0]) / span) * (width - LEFT - 8);
    const many = ys.length > 60 && title !== "learning rate";
    const line = (values, name) => svg("path", { class: name,
      d: pathOf(values.map((y, i) => [across(xs[i]), y === null ? null : scale.at(y)])) });
    const dot = svg("circle", { class: "at", r: 0 });
    root.replaceChildren(
      ...scale.ticks.flatMap((tick) => [
        svg("line", { class: "grid", x1: LEFT, x2: width, y1: scale.at(tick), y2: scale.at(tick) }),
        svg("text", { class: "end", x: LEFT - 6, y: scale.at(tick) + 4 }, tidy(tick))]),
      svg("text", { x: LEFT, y: HEIGHT - 2 }, `step ${xs[0] ?? 0}`),
      svg("text", { class: "end", x: width, y: HEIGHT - 2 }, String(xs.at(-1) ?? 0)),
      ...(many ? [line(ys, "raw"), line(smoothed(ys), "line")] : [line(ys, "line")]),
      ...xs.filter((_, i) => ys[i] === null).slice(0, 50).map((x) =>
        svg("line", { class: "bad", x1: across(x), x2: across(x), y1: HEIGHT - FOOT - 8, y2: HEIGHT - FOOT })),
      dot);
    root.onpointermove = (event) => {
      const place = event.clientX - root.getBoundingClientRect().left;
      const near = xs.reduce((best, x, i) =>
        (Math.abs(across(x) - place) < Math.abs(across(xs[best]) - place) ? i : best), 0);
      out.textContent = `step ${xs[near]}: ${tidy(ys[near])}`;
      if (ys[near] === null) return dot.setAttribute("r", 0);
      for (const [name, value] of [["cx", across(xs[near])], ["cy", scale.at(ys[near])], ["r", 3.5]]) {
        dot.setAttribute(name, value);
      }
    };
    root.onpointerleave = () => { out.textContent = tidy(ys.at(-1)); dot.setAttribute("r", 0); };
  };
  new ResizeObserver(draw).observe(root);
  return h("div", { class: "chart", data: { curve: title } }, h("h2", null, title, out), root);
}

const small = () => svg("svg", { viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" });

/** A curve as small as a word, on a logarithmic scale; ``usual``: a range to show behind it. */
function spark(points, usual) {
  const root = small();
  const logs = points.map(([x, y]) => [x, y > 0 ? Math.log10(y) : null]);
  const known = logs.map(([, y]) => y).filter((y) => y !== null);
  if (!known.length) return root;
  const reach = usual ? usual.map(Math.log10) : [];
  const [low, high] = [Math.min(...known, ...reach), Math.max(...known, ...reach)];
  const up = (y) => (high === low ? 15 : 28 - ((y - low) / (high - low)) * 26);
  const [first, last] = [logs[0][0], logs.at(-1)[0]];
  if (usual) {
    root.append(svg("rect", { class: "usual", x: 0, width: 100, y: up(reach[1]), height: up(reach[0]) - up(reach[1]) }));
  }
  root.append(svg("path", { class: "spark", "vector-effect": "non-scaling-stroke",
    d: pathOf(logs.map(([x, y]) => [((x - first) / Math.max(1, last - first)) * 100, y === null ? null : up(y)])) }));
  return root;
}

function histogram(known, name) {
  const root = small();
  const { low, high, counts } = known;
  const most = Math.max(...counts);
  root.append(...counts.map((count, i) => svg("rect", { class: `column ${name}`, x: (i * 100) / counts.length,
    width: 100 / counts.length - 0.4, y: 30 - (count / most) * 30, height: (count / most) * 30 })));
  if (low < 0 && high > 0) {
    const zero = (-low / (high - low)) * 100;
    root.append(svg("line", { class: "zero", x1: zero, x2: zero, y1: 0, y2: 30, "vector-effect": "non-scaling-stroke" }));
  }
  root.removeAttribute("aria-hidden");
  root.append(svg("title", null, `${tidy(low)} to ${tidy(high)}`));
  return root;
}
