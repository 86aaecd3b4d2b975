// What a picture is made of: boxes and edges. Their elements are made when they first come into
// sight, and hidden while they are out of it, so that a step in a large graph repaints as little as
// one in a small graph.

const [LARGE, SMALL, LINE] = [13, 11, 1.35]; // sizes of letters; the height of a line in them
const LONGEST = 34; // characters of a line, as boxes are made for
const MARK_SIGNS = {
  error: "✕", nan: "!", inf: "∞", exploding: "↗", vanishing: "↘", detached: "✂", no_grad: "✂", unused: "∅",
  memory: "▤", warning: "!", differs: "≠", summed: "Σ", not_stepped: "∅", no_gradient: "∅",
};
const STATE_WORDS = {
  none: "not part of this pass", waiting: "waiting", running: "running now", done: "has run",
  part: "partly run",
};

const ruler = new OffscreenCanvas(1, 1).getContext("2d");
const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif';

/** A text in one line that fits, with its middle left out if it is long. */
function fitted(text, room, size, bold) {
  let letters = [...text.replace(/[\p{C}\u2028\u2029]/gu, " ").trim()];
  let longest = Math.min(letters.length, LONGEST);
  ruler.font = `${bold ? 650 : 400} ${size}px ${SANS}`;
  for (;; longest--) {
    const string = (letters.length <= longest ? letters : withoutMiddle(letters, longest)).join("");
    if (longest <= 3 || ruler.measureText(string).width <= room) return string;
    if (letters.length > 60) letters = [...letters.slice(0, 30), ...letters.slice(-30)];
  }
}

/** The beginning and the end of a text: whole words, where words are short enough. */
function withoutMiddle(letters, longest) {
  const isEnd = (letter) => " ._,/-".includes(letter);
  const half = Math.floor(longest / 2);
  let left = letters.slice(0, half);
  let right = letters.slice(letters.length - (longest - half - 1));
  const last = left.findLastIndex(isEnd) + 1;
  if (!isEnd(letters[half]) && last > Math.floor(half / 2)) left = left.slice(0, last);
  const first = right.findIndex(isEnd) + 1;
  const before = letters[letters.length - (longest - half)];
  if (!isEnd(before) && first && first < right.length / 2) right = right.slice(first);
  return [...left, "…", ...right];
}

/** The lines of a box: [text, size, bold]. */
function linesOf(item, stub) {
  const shape = item.shape
    ? `${item.shape.length ? shapeText(item.shape) : "scalar"} ${item.dtype ?? ""}`.trim() : "";
  if (stub) return [[item.name || shape || item.label, SMALL, false]];
  const details = (item.details ?? []).join(", ");
  const isTensor = item.kind !== "operation" && item.kind !== "group";
  const first = isTensor ? item.name || (shape ? "" : item.label) : item.label;
  const second = isTensor ? shape : item.kind === "group" && item.name !== item.label ? item.name : "";
  return [[first, LARGE, true], [second, SMALL, false], [details, SMALL, false]]
    .filter(([text]) => text);
}

/** A curve along the points of an edge. */
function curve(points) {
  const p = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  const middle = (a, b) => [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  let path = `M${p(points[0])}`;
  if (points.length === 2) {
    const [[x0, y0], [x1, y1]] = points;
    const bend = (y1 - y0) / 2.5;
    return Math.abs(x1 - x0) < 1 ? `${path}L${p(points[1])}`
      : `${path}C${p([x0, y0 + bend])} ${p([x1, y1 - bend])} ${p([x1, y1])}`;
  }
  for (let i = 1; i < points.length - 1; i++) {
    const end = i === points.length - 2 ? points[i + 1] : middle(points[i], points[i + 1]);
    path += `Q${p(points[i])} ${p(end)}`;
  }
  return path;
}

/** Something with a place in a picture: an element once it has been seen. */
class Drawn {
  constructor(layer, left, top, right, bottom) {
    Object.assign(this, { layer, left, top, right, bottom });
    this.element = null;
    this.isSeen = false;
  }

  isIn({ left, top, right, bottom }) {
    return this.left <= right && this.right >= left && this.top <= bottom && this.bottom >= top;
  }

  show(isSeen) {
    if (isSeen === this.isSeen) return;
    this.isSeen = isSeen;
    if (this.element) this.element.toggleAttribute("hidden", !isSeen);
    else {
      this.element = this.make();
      this.dress();
      this.layer.append(this.element);
    }
  }
}

class Edge extends Drawn {
  constructor(layer, { from, to, points }, isData) {
    const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
    super(layer, Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys));
    Object.assign(this, { from, to, points, isData });
    this.state = "";
  }

  make() {
    return svg("path", { class: this.isData ? "edge of-data" : "edge", d: curve(this.points),
      "data-from": this.from, "data-to": this.to });
  }

  dress() {
    this.element.dataset.state = this.state;
  }

  setState(state) {
    if (state === this.state) return;
    this.state = state;
    if (this.element) this.dress();
  }
}

class Box extends Drawn {
  constructor(layer, story, id, [x, y, width, height], isStub) {
    super(layer, x - 10, y - 10, x + width + 10, y + height + 10); // a badge stands out
    Object.assign(this, { story, id, item: story.items.get(id), x, y, width, height, isStub });
    this.state = "none";
    this.part = 0; // of a group: how much of it has run
    this.kind = undefined; // of the worst mark in the pass that is shown
    this.names = new Set(); // classes: picked, match
    this.texts = []; // the value and the gradient now
  }

  make() {
    const { x, y, width, height, item } = this;
    const isGroup = item.kind === "group";
    const round = item.kind === "operation" ? Math.min(height / 2, 14) : 3;
    const place = { x, y, width, height, rx: round };
    return svg("g", {
      class: `node ${item.kind}${this.isStub ? " stub" : ""}`, "data-id": this.id, role: "button",
      tabindex: "-1",
    }, ...[
      isGroup ? svg("rect", { class: "behind", ...place, x: x + 4, y: y + 4 }) : null,
      svg("rect", { class: "body", ...place }),
      isGroup ? svg("rect", { class: "progress", x, y: y + height - 4, height: 4, rx: 2 }) : null,
      item.kind === "leaf" ? svg("rect", { class: "inner", x: x + 3, y: y + 3,
        width: Math.max(width - 6, 0), height: Math.max(height - 6, 0), rx: 1.5 }) : null,
      ...this.words(), svg("title", null, this.about()),
    ].filter(Boolean));
  }

  words() {
    const { x, y, width, height } = this;
    const room = this.isStub ? [] : (this.item.room ?? []).map(() => ["", SMALL, false]);
    const lines = [...linesOf(this.item, this.isStub), ...room];
    const tall = () => lines.reduce((sum, [, size]) => sum + size * LINE, 0);
    while (lines.length > 1 && tall() > height) lines.pop();
    let at = y + height / 2 - tall() / 2;
    return lines.map(([text, size, bold]) => {
      const node = svg("text", {
        class: bold ? "label" : text ? "sub" : "sub live", x: (x + width / 2).toFixed(1),
        y: (at + size * 1.02).toFixed(1), "font-size": size, direction: "ltr",
      }, fitted(text, width - 8, size, bold));
      at += size * LINE;
      return node;
    });
  }

  badge() {
    const [cx, cy] = [this.x + this.width, this.y];
    return svg("g", { class: "badge", "data-kind": this.kind }, svg("circle", { cx, cy, r: 8 }),
      svg("text", { x: cx, y: cy + 3.8, "font-size": 11 }, MARK_SIGNS[this.kind] ?? "!"));
  }

  /** Show a value and a gradient, where there is room for them. */
  setTexts(texts) {
    if (texts.join() === this.texts.join()) return;
    this.texts = texts;
    if (this.element) this.showTexts();
  }

  showTexts() {
    const nodes = this.element.querySelectorAll(".live");
    const [value, gradient] = this.texts;
    const shown = this.item.room[0].startsWith("=") ? [value, gradient] : [gradient];
    nodes.forEach((node, index) => {
      const text = shown[index] ?? "";
      node.textContent = fitted(text, this.width - 8, SMALL, true);
      node.classList.toggle("gradient", text !== value);
    });
  }

  /** Show the worst of the marks that it has in a pass. */
  setPass(number) {
    const kinds = this.story.marksIn(this.id, number).map((i) => this.story.marks[i].kind);
    const kind = kinds.find((one) => one !== "memory");
    if (kind === this.kind) return;
    this.kind = kind;
    if (this.element) this.dress();
  }

  about() {
    const { item, story } = this;
    const parts = [story.title(this.id)];
    if (item.name && item.label && item.label !== item.name) parts.push(item.label);
    if (item.shape) parts.push(`${item.dtype ?? ""} ${shapeText(item.shape)}`.trim());
    if (item.details?.length) parts.push(item.details.join(", "));
    if (item.module) parts.push(item.module);
    if (item.place) parts.push(story.placeText(item.place));
    if (item.kind === "group") parts.push("double click to open");
    return parts.join("\n");
  }

  /** What it is and how far it has come, in words. */
  get description() {
    return `${this.about().replaceAll("\n", ", ")}, ${STATE_WORDS[this.state]}`;
  }

  dress() {
    const { element } = this;
    element.dataset.state = this.state;
    element.setAttribute("aria-label", this.description);
    for (const name of this.names) element.classList.add(name);
    if (this.texts.length) this.showTexts();
    const badge = element.querySelector(".badge");
    if (badge?.dataset.kind !== this.kind) {
      badge?.remove();
      if (this.kind) element.append(this.badge());
    }
    element.querySelector(".progress")?.setAttribute("width", (this.part * this.width).toFixed(1));
  }

  setState(state, part) {
    if (state === this.state && part === this.part) return;
    Object.assign(this, { state, part });
    if (this.element) this.dress();
  }

  setName(name, isOn) {
    if (isOn) this.names.add(name);
    else this.names.delete(name);
    this.element?.classList.toggle(name, isOn);
  }
}
