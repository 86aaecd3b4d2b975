// Numbers and arrays, as text and as elements.

const isFloat = (dtype) => !/^(u?int|bool)/.test(dtype ?? "");
const isNumber = (entry) => typeof entry === "number";
const WORDS = { nan: NaN, inf: Infinity, "-inf": -Infinity };
/** An entry as a number. Integers that a number cannot hold come as text. */
const toNumber = (entry) =>
  (isNumber(entry) ? entry : Object.hasOwn(WORDS, entry ?? "") ? WORDS[entry] : parseFloat(entry));

/** An entry to the last digit: what tests and people who copy get. */
function exact(entry) {
  if (Array.isArray(entry)) {
    const [real, imaginary] = entry.map(exact);
    return `${real}${/^[-+]/.test(imaginary) ? "" : "+"}${imaginary}j`;
  }
  if (entry === true) return "True";
  if (entry === false) return "False";
  return Object.is(entry, -0) ? "-0" : String(entry);
}

/** An entry with five significant digits. */
function short(entry, dtype) {
  if (Array.isArray(entry)) {
    const [real, imaginary] = entry.map((part) => short(part, dtype));
    return `${real}${/^[-+]/.test(imaginary) ? "" : "+"}${imaginary}j`;
  }
  if (!isNumber(entry)) return exact(entry);
  if (!isFloat(dtype)) return String(entry);
  if (entry === 0) return Object.is(entry, -0) ? "-0.0" : "0.0";
  const size = Math.abs(entry);
  if (size >= 1e6 || size < 1e-4) {
    return entry.toExponential(4).replace(/\.?0+e/, "e").replace("e+", "e");
  }
  // With more than five digits before the point, the others would have to be made up.
  const plain = size >= 1e4 ? entry.toFixed(1) : entry.toPrecision(5);
  return plain.includes(".") ? plain.replace(/0+$/, "").replace(/\.$/, ".0") : `${plain}.0`;
}

const shapeText = (shape) => (shape ? `[${shape.join(", ")}]` : "");
const plural = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/** A number of bytes, as _text.py writes it. */
function bytesText(count) {
  if (count < 1000) return plural(count, "byte", "bytes");
  const units = ["kB", "MB", "GB", "TB"];
  let size = count / 1000;
  for (; size >= 999.5 && units.length > 1; units.shift()) size /= 1000;
  return `${Number(size.toPrecision(3))} ${units[0]}`;
}

const magnitude = (entry) =>
  Array.isArray(entry) ? Math.hypot(...entry.map(toNumber)) : Math.abs(toNumber(entry));
const largest = (data) => data.reduce((so, e) => {
  const size = magnitude(e);
  return Number.isFinite(size) && size > so ? size : so;
}, 0);

/** One entry as a cell or a number, with all its digits in data-value. */
function entryView(tag, entry, dtype, scale) {
  const cell = h(tag, { class: "n", title: exact(entry), data: { value: exact(entry) } },
    short(entry, dtype));
  const size = magnitude(entry);
  if (!Number.isFinite(size)) cell.classList.add("odd");
  else if (scale > 0) {
    cell.classList.add(!Array.isArray(entry) && entry < 0 ? "negative" : "positive");
    cell.style.setProperty("--heat", `${Math.round((size / scale) * 34)}%`);
  }
  return cell;
}

function rowOf(entries, dtype, scale, head) {
  return h("tr", null, head === null ? null : h("th", { scope: "row" }, head),
    entries.map((entry) => entryView("td", entry, dtype, scale)));
}

const WRAP = 6; // entries of a vector in one row

/** A small array as tables: one for a vector or a matrix, more for more dimensions. */
function tables(value) {
  const { shape, data, dtype } = value;
  const scale = largest(data);
  if (shape.length === 1) {
    const rows = [];
    for (let at = 0; at < data.length; at += WRAP) {
      rows.push(rowOf(data.slice(at, at + WRAP), dtype, scale, data.length > WRAP ? at : null));
    }
    return [h("table", { class: "array" }, h("tbody", null, rows))];
  }
  const [height, width] = shape.slice(-2);
  const found = [];
  for (let at = 0, number = 0; at < data.length; at += height * width, number++) {
    const rows = [];
    for (let row = 0; row < height; row++) {
      const start = at + row * width;
      rows.push(rowOf(data.slice(start, start + width), dtype, scale, null));
    }
    const caption = shape.length > 2
      ? h("caption", null, `[${unravel(number, shape.slice(0, -2)).join(", ")}]`) : null;
    found.push(h("table", { class: "array" }, caption, h("tbody", null, rows)));
  }
  return found;
}

function unravel(number, shape) {
  const places = [];
  for (let i = shape.length - 1; i >= 0; i--) {
    places.unshift(number % shape[i]);
    number = Math.floor(number / shape[i]);
  }
  return places;
}

const FIGURES = [["min", "smallest"], ["mean", "mean"], ["max", "largest"], ["norm", "norm"]];

/** A large array: figures, a histogram, and its first entries. */
function summary(value) {
  const figures = FIGURES.filter(([key]) => value[key] !== null && value[key] !== undefined)
    .map(([key, name]) => h("div", null, h("dt", null, name),
      h("dd", { title: exact(value[key]), data: { figure: key, value: exact(value[key]) } },
        short(value[key], "float"))));
  for (const key of ["nan", "inf"]) {
    if (value[key] > 0) {
      figures.push(h("div", { class: "odd" }, h("dt", null, key === "nan" ? "NaN" : "infinite"),
        h("dd", null, String(value[key]))));
    }
  }
  const some = value.some ?? [];
  const first = some.length
    ? h("p", { class: "some" }, some.slice(0, 6).map((entry) =>
      [entryView("span", entry, value.dtype, 0), " "]).flat(), "…") : null;
  return [h("dl", { class: "figures" }, figures), rangeView(value), first];
}

/** Where the entries lie, from the smallest to the largest: how many in each part of the way, or
 *  just how far it is, with zero and the mean marked. */
function rangeView({ min, max, mean, histogram }) {
  const [low, high, middle] = [min, max, mean].map(toNumber);
  if (![low, high, middle].every(Number.isFinite)) return null;
  const [from, to] = histogram ? [low, high] : [Math.min(low, 0), Math.max(high, 0)];
  if (from === to) return null;
  const at = (x) => 4 + ((x - from) / (to - from)) * 192;
  const most = Math.max(...(histogram ?? [1]));
  const bars = (histogram ?? []).map((count, index) => {
    const tall = count ? Math.max((count / most) * 34, 1) : 0; // what is there can be seen
    return svg("rect", { class: "column", x: (4.5 + index * (192 / histogram.length)).toFixed(1),
      width: (192 / histogram.length - 1).toFixed(1), y: (38 - tall).toFixed(1), height: tall.toFixed(1),
      "data-count": count });
  });
  const ground = histogram ? 38 : 7;
  return svg("svg", { class: "range", viewBox: `0 0 200 ${histogram ? 44 : 14}`, "aria-hidden": "true" },
    svg("title", null, `from ${short(low, "float")} to ${short(high, "float")}`),
    svg("line", { class: "axis", x1: 4, x2: 196, y1: ground, y2: ground }), ...bars,
    ...(histogram ? [] : [svg("line", { class: "extent", x1: at(low), x2: at(high), y1: 7, y2: 7 })]),
    ...(from <= 0 && to >= 0
      ? [svg("line", { class: "zero", x1: at(0), x2: at(0), y1: 2, y2: ground + 5 })] : []),
    svg("circle", { class: "mean", cx: at(middle), cy: ground, r: 3 }));
}

/** A value of a story. "role" says what it is, for whoever reads the page by program. */
function valueView(value, role) {
  if (!value) return h("span", { class: "value none", data: { role } }, "None");
  const scalar = value.shape.length === 0 && value.data;
  const type = typeView(value);
  const box = h("div", {
    class: scalar ? "value scalar" : "value",
    data: { role, shape: shapeText(value.shape), dtype: value.dtype },
  });
  if (scalar) box.append(entryView("span", value.data[0], value.dtype, 0), type);
  else if (value.data && value.data.length === 0) box.append(type, h("p", { class: "quiet" }, "no entries"));
  else if (value.data) box.append(type, h("div", { class: "scroll" }, tables(value)));
  else box.append(type, ...summary(value).filter(Boolean));
  return box;
}

/** A value in a word or two: a number, or the norm of an array. */
function valueInline(value) {
  if (!value) return h("span", { class: "none" }, "None");
  if (value.shape.length === 0 && value.data) return entryView("span", value.data[0], value.dtype, 0);
  if (value.norm === null || value.norm === undefined || value.nan || value.inf) {
    const odd = value.nan ? "NaN" : value.inf ? "infinite" : "empty";
    return h("span", { class: "n odd", title: `${shapeText(value.shape)}, not all finite` }, odd);
  }
  return h("span", { class: "n", title: `norm ${exact(value.norm)}` },
    `norm ${short(value.norm, "float")}`);
}

const hasOdd = (value, which) => Boolean(value) && value[which] > 0;
