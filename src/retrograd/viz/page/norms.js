// How large the gradient is along the pass, on a logarithmic scale.

/** The norm of what arrives at each step, as a line along the slider, and ticks for marks. */
function showNorms(place, phases, marks) {
  const at = phases.findIndex(({ name }) => name === "backward");
  const { steps } = phases[at] ?? { steps: [] };
  const count = (some) => some.reduce((sum, one) => sum + one.steps.length, 0);
  const part = (number) => `calc((100% - 16px) * ${(number / Math.max(count(phases), 1)).toFixed(5)}`;
  place.style.marginLeft = `${part(count(phases.slice(0, Math.max(at, 0))))} + 8px)`;
  place.style.width = `${part(steps.length)})`;
  const logs = steps.map((step) => {
    const norms = (step.incoming ?? []).filter(Boolean).map((value) => toNumber(value.norm));
    return norms.length ? Math.log10(Math.max(...norms)) : NaN;
  });
  const finite = logs.filter(Number.isFinite);
  const line = finite.length < 2 ? null : normLine(logs, finite, place);
  const ticks = marks.slice(0, 200).map(([kind, at]) => {
    const x = (((at + 1) / steps.length) * 100).toFixed(2);
    return svg("line", { class: `tick ${kind}`, x1: x, x2: x, y1: 0, y2: 100,
      "vector-effect": "non-scaling-stroke" });
  });
  place.replaceChildren(svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none" },
    ...ticks, ...(line ? [line] : [])));
}

function normLine(logs, finite, place) {
  const low = finite.reduce((a, b) => Math.min(a, b));
  const high = finite.reduce((a, b) => Math.max(a, b));
  const every = Math.max(1, Math.ceil(logs.length / 600));
  let path = "";
  let drawing = false;
  for (let at = 0; at < logs.length; at += every) {
    const log = Math.max(...logs.slice(at, at + every).filter(Number.isFinite));
    if (!Number.isFinite(log)) { drawing = false; continue; }
    const x = (((at + 1) / logs.length) * 100).toFixed(2);
    const y = high - low < 1e-9 ? 50 : 92 - ((log - low) / (high - low)) * 84;
    path += `${drawing ? "L" : "M"}${x} ${y.toFixed(1)}`;
    drawing = true;
  }
  place.title = "Norm of the gradient at each step, on a logarithmic scale: "
    + `${short(10 ** low, "float")} to ${short(10 ** high, "float")}`;
  return svg("path", { d: path, "vector-effect": "non-scaling-stroke" });
}
