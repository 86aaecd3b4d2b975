// A value as Python that makes it again, for those who want to go on with it elsewhere.

const SHOWN = 1200; // ms for which it is said that a value was copied

function asPython({ shape, data, dtype }) {
  const kind = `dtype=torch.${dtype}`;
  if (!data.length) return `torch.zeros([${shape.join(", ")}], ${kind})`;
  const entry = (one) => {
    if (Array.isArray(one)) return `complex(${one.map(entry).join(", ")})`;
    if (Object.hasOwn(WORDS, one)) return `float("${one}")`;
    if (dtype === "bool") return one ? "True" : "False";
    return Object.is(one, -0) ? "-0.0" : String(one);
  };
  let parts = data.map(entry);
  for (const length of [...shape].reverse()) {
    parts = Array.from({ length: parts.length / length }, (_, number) =>
      `[${parts.slice(number * length, (number + 1) * length).join(", ")}]`);
  }
  return `torch.tensor(${parts[0]}, ${kind})`;
}

/** The type of a value: pressing it copies the value, where all of it is known. */
function typeView(value) {
  const text = `${value.dtype} ${shapeText(value.shape)}`;
  if (!value.data) return h("span", { class: "type" }, text);
  const button = h("button", { class: "type", title: "Copy as Python", onclick: async () => {
    let said = "copied";
    try {
      await navigator.clipboard.writeText(asPython(value));
    } catch {
      said = "the browser does not allow copying here"; // as in a notebook's frame
    }
    button.textContent = said;
    byId("live").textContent = said;
    setTimeout(() => { button.textContent = text; }, SHOWN);
  } }, text);
  return button;
}
