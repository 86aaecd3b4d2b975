// The graph: one picture at a time, as SVG that can be zoomed and moved.

const [LARGE, SMALL, LINE] = [13, 11, 1.35]; // sizes of letters; the height of a line in them
const LONGEST = 34; // characters of a line, as boxes are made for
const READABLE = 0.5; // the smallest scale at which labels can be read
const MARK_SIGNS = {
  nan: "!", inf: "∞", exploding: "↗", vanishing: "↘", detached: "✂", no_grad: "✂", unused: "∅",
  memory: "▤",
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
    const left = Math.floor(longest / 2);
    const kept = letters.length <= longest ? letters
      : [...letters.slice(0, left), "…", ...letters.slice(letters.length - (longest - left - 1))];
    const string = kept.join("");
    if (longest <= 3 || ruler.measureText(string).width <= room) return string;
    if (letters.length > 60) letters = [...letters.slice(0, 30), ...letters.slice(-30)];
  }
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

class GraphView {
  constructor(canvas, story, on) {
    Object.assign(this, { canvas, story, on });
    this.group = undefined;
    this.sent = new Set(); // items that the current step sends gradients to
    this.view = { x: 0, y: 0, scale: 1 };
    this.quiet = matchMedia("(prefers-reduced-motion: reduce)");
    this.map = new Overview(document.getElementById("map"), (x, y) => this.lookAt(x, y));
    this.listen();
  }

  /** Draw the inside of a group, or all of it for null. */
  show(group) {
    if (this.group === group && this.root) return;
    this.group = group;
    this.picture = this.story.pictures.get(group)
      ?? { group, width: 1, height: 1, boxes: {}, edges: [] };
    this.boxes = new Map();
    this.edgesOf = new Map();
    const nodes = svg("g", { class: "nodes" });
    for (const key of Object.keys(this.picture.boxes)) nodes.append(this.box(Number(key)));
    const edges = svg("g", { class: "edges" }, ...this.picture.edges.map((edge) => this.edge(edge)));
    this.layer = svg("g", { class: "layer" }, edges, nodes);
    this.root = svg("svg", { class: "picture", width: "100%", height: "100%" }, arrows(), this.layer);
    this.canvas.replaceChildren(this.root);
    if (!this.boxes.size) this.canvas.append(this.noPicture());
    this.marked = new Map();
    this.root.classList.toggle("passes", this.story.passes.length > 0);
    this.map.show(this.picture, (id) => this.story.items.get(id).kind);
    this.fit();
  }

  noPicture() {
    return h("p", { class: "quiet empty" }, this.story.items.size
      ? "This part of the graph is too large for a picture. Search finds what is in it."
      : "Nothing was recorded.");
  }

  box(id) {
    const item = this.story.items.get(id);
    const [x, y, width, height] = this.picture.boxes[id];
    const stub = (item.group ?? null) !== this.group;
    const round = item.kind === "operation" ? Math.min(height / 2, 14) : 3;
    const place = { x, y, width, height, rx: round };
    const node = svg("g", {
      class: `node ${item.kind}${stub ? " stub" : ""}`, "data-id": id, "data-state": "none",
      role: "button", tabindex: "-1",
    });
    if (item.kind === "group") {
      node.append(svg("rect", { class: "behind", ...place, x: x + 4, y: y + 4 }));
    }
    node.append(svg("rect", { class: "body", ...place }));
    if (item.kind === "group") {
      node.append(svg("rect", { class: "progress", x, y: y + height - 4, width: 0, height: 4, rx: 2 }));
    }
    if (item.kind === "leaf") {
      node.append(svg("rect", { class: "inner", x: x + 3, y: y + 3, width: Math.max(width - 6, 0),
        height: Math.max(height - 6, 0), rx: 1.5 }));
    }
    node.append(...this.words(item, stub, x, y, width, height), ...this.badge(id, x, y, width));
    const hint = svg("title", null, this.about(id));
    node.append(hint);
    this.boxes.set(id, { node, state: "none" });
    return node;
  }

  words(item, stub, x, y, width, height) {
    const lines = linesOf(item, stub);
    while (lines.length > 1 && lines.reduce((sum, [, size]) => sum + size * LINE, 0) > height) lines.pop();
    let at = y + height / 2 - lines.reduce((sum, [, size]) => sum + size * LINE, 0) / 2;
    return lines.map(([text, size, bold]) => {
      const node = svg("text", {
        class: bold ? "label" : "sub", x: (x + width / 2).toFixed(1),
        y: (at + size * 1.02).toFixed(1), "font-size": size, direction: "ltr",
      }, fitted(text, width - 8, size, bold));
      at += size * LINE;
      return node;
    });
  }

  badge(id, x, y, width) {
    const kinds = [...new Set((this.story.marksOf.get(id) ?? [])
      .map((index) => this.story.marks[index].kind))].filter((kind) => kind !== "memory");
    if (!kinds.length) return [];
    const [cx, cy] = [x + width, y];
    return [svg("g", { class: "badge" }, svg("circle", { cx, cy, r: 8 }),
      svg("text", { x: cx, y: cy + 3.8, "font-size": 11 }, MARK_SIGNS[kinds[0]] ?? "!"))];
  }

  about(id) {
    const item = this.story.items.get(id);
    const parts = [this.story.title(id)];
    if (item.name && item.label && item.label !== item.name) parts.push(item.label);
    if (item.shape) parts.push(`${item.dtype ?? ""} ${shapeText(item.shape)}`.trim());
    if (item.details?.length) parts.push(item.details.join(", "));
    if (item.module) parts.push(item.module);
    if (item.place) parts.push(this.story.placeText(item.place));
    if (item.kind === "group") parts.push("double click to open");
    return parts.join("\n");
  }

  edge(edge) {
    const data = this.story.items.get(edge.from)?.kind === "data";
    const path = svg("path", { class: data ? "edge of-data" : "edge", d: curve(edge.points),
      "data-from": edge.from, "data-to": edge.to });
    const known = { path, from: edge.from, to: edge.to, state: "" };
    listIn(this.edgesOf, edge.from).push(known);
    listIn(this.edgesOf, edge.to).push(known);
    return path;
  }

  // -- what runs ---------------------------------------------------------------------------------

  /** Bring the looks of some boxes (or all) up to a position. Touches only what changes. */
  update(times, position, ids) {
    const edges = new Set();
    for (const id of ids ?? this.boxes.keys()) {
      const box = this.boxes.get(id);
      if (!box) continue;
      const state = stateAt(times.items.get(id), position);
      if (state !== box.state || !ids) {
        box.state = state;
        box.node.dataset.state = state;
        box.node.setAttribute("aria-label",
          `${this.about(id).replaceAll("\n", ", ")}, ${STATE_WORDS[state]}`);
      }
      for (const edge of this.edgesOf.get(id) ?? []) edges.add(edge);
      const progress = box.node.querySelector(".progress");
      if (progress) {
        const all = times.items.get(id) ?? [];
        const part = all.length ? countBelow(all, position + 1) / all.length : 0;
        progress.setAttribute("width", (part * this.picture.boxes[id][2]).toFixed(1));
      }
    }
    for (const edge of edges) {
      const state = this.edgeState(edge);
      if (state !== edge.state) {
        edge.state = state;
        edge.path.dataset.state = state;
      }
    }
  }

  /** Say where this step sends gradients: to what, and the results of it that they are for. */
  sends(step) {
    const given = new Set(step ? this.story.inputs.get(step.item) : []);
    this.sent = new Set();
    for (const { to } of step?.outgoing ?? []) {
      if (to === null || to === undefined) continue;
      const results = (this.story.outputs.get(to) ?? []).filter((id) => given.has(id));
      for (const id of results.length ? results : [to]) this.sent.add(id);
    }
  }

  /** A gradient goes against an edge: it has passed once the end of the edge has run. */
  edgeState({ from, to }) {
    const [source, target] = [this.boxes.get(from)?.state, this.boxes.get(to)?.state];
    if (source === "none" || target === "none" || !source || !target) return "";
    const { kind } = this.story.items.get(to);
    if (target === "running" && kind !== "intermediate" && this.isSent(from)) return "leaving";
    if (source === "running" && this.story.items.get(from).kind !== "group") return "arriving";
    const began = source !== "waiting" || kind !== "group";
    return target !== "waiting" && began ? "passed" : "";
  }

  isSent(box) {
    for (const id of this.sent) if (this.story.boxIn(this.picture, id) === box) return true;
    return false;
  }

  /** Give a class to the boxes that stand for some items, and take it from all others. */
  mark(name, ids) {
    for (const box of this.marked.get(name) ?? []) box.node.classList.remove(name);
    const found = new Set();
    for (const id of ids) {
      const shown = this.story.boxIn(this.picture, id);
      if (shown !== null) found.add(this.boxes.get(shown));
    }
    for (const box of found) box.node.classList.add(name);
    this.marked.set(name, found);
    return found.size;
  }

  // -- zooming and moving ------------------------------------------------------------------------

  size() {
    return [this.canvas.clientWidth || 600, this.canvas.clientHeight || 400];
  }

  apply(smooth = false) {
    const { x, y, scale } = this.view;
    this.layer.style.transition = smooth && !this.quiet.matches ? "transform .22s ease-out" : "none";
    this.layer.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    this.root.classList.toggle("far", scale < 0.4);
    this.map.point(this.view, this.size());
  }

  /** Keep what is in the middle there, or everything in sight if that is how it was. */
  resized() {
    if (!this.root) return;
    const [before, now] = [this.seen ?? this.size(), this.size()];
    this.seen = now;
    if (this.fitted) return this.fit(this.fitted === "all");
    this.view.x += (now[0] - before[0]) / 2;
    this.view.y += (now[1] - before[1]) / 2;
    this.apply();
  }

  /** All of the picture, if it can be read then; otherwise its end, where a pass begins. */
  fit(all = false) {
    const [width, height] = this.size();
    const { width: w, height: tall } = this.picture;
    const whole = Math.min((width - 24) / w, (height - 24) / tall, 1.4);
    if (all || whole >= READABLE) {
      this.view = { scale: whole, x: (width - w * whole) / 2, y: (height - tall * whole) / 2 };
      this.apply();
    } else {
      this.view.scale = Math.max(whole, 0.8);
      const now = this.on.current();
      const shown = now === null ? null : this.story.boxIn(this.picture, now);
      this.centre(shown ?? Number(Object.keys(this.picture.boxes).at(-1)), false);
    }
    this.fitted = all ? "all" : "some"; // until the user zooms or moves
  }

  centre(id, smooth = true) {
    const box = this.picture.boxes[id];
    if (!box) return;
    this.fitted = null;
    const [width, height] = this.size();
    const { scale } = this.view;
    // No further than the picture goes: what lies beyond is empty.
    const place = (middle, room, length) => (length * scale < room - 32
      ? (room - length * scale) / 2
      : Math.min(Math.max(room / 2 - middle * scale, room - length * scale - 24), 24));
    this.view.x = place(box[0] + box[2] / 2, width, this.picture.width);
    this.view.y = place(box[1] + box[3] / 2, height, this.picture.height);
    this.apply(smooth);
  }

  /** Bring a point of the picture to the middle. */
  lookAt(x, y) {
    this.fitted = null;
    const [width, height] = this.size();
    this.view.x = width / 2 - x * this.view.scale;
    this.view.y = height / 2 - y * this.view.scale;
    this.apply();
  }

  /** Move only if the box is out of sight, or nearly. */
  reveal(id) {
    const box = this.picture.boxes[id];
    if (!box) return;
    const { x, y, scale } = this.view;
    const [width, height] = this.size();
    const [left, top] = [x + box[0] * scale, y + box[1] * scale];
    const [right, bottom] = [left + box[2] * scale, top + box[3] * scale];
    if (left < 8 || top < 8 || right > width - 8 || bottom > height - 8) this.centre(id);
  }

  zoom(factor, at = null, smooth = false) {
    const [width, height] = this.size();
    const [px, py] = at ?? [width / 2, height / 2];
    const scale = Math.min(Math.max(this.view.scale * factor, 0.01), 6);
    const by = scale / this.view.scale;
    this.fitted = null;
    this.view = { scale, x: px - (px - this.view.x) * by, y: py - (py - this.view.y) * by };
    this.apply(smooth);
  }

  listen() {
    const { canvas } = this;
    const pointers = new Map();
    let moved = 0;
    const local = (event) => {
      const frame = canvas.getBoundingClientRect();
      return [event.clientX - frame.left, event.clientY - frame.top];
    };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), local(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      if (pointers.size === 0) moved = 0;
      pointers.set(event.pointerId, local(event));
    });
    const onMove = (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const now = local(event);
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
      pointers.set(event.pointerId, now);
      if (moved > 4 && !canvas.hasPointerCapture(event.pointerId)) {
        canvas.setPointerCapture(event.pointerId);
      }
      if (other) {
        const apart = (p) => Math.max(Math.hypot(p[0] - other[0], p[1] - other[1]), 1);
        this.zoom(apart(now) / apart(before), [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2]);
      } else if (moved > 4) {
        this.view.x += now[0] - before[0];
        this.view.y += now[1] - before[1];
        this.fitted = null;
        this.apply();
      }
    };
    canvas.addEventListener("pointermove", onMove);
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
    }
    const idOf = (event) => {
      const node = event.target.closest?.(".node");
      return node ? Number(node.dataset.id) : null;
    };
    canvas.addEventListener("click", (event) => {
      const id = idOf(event);
      if (moved <= 4) this.on.pick(id);
    });
    canvas.addEventListener("dblclick", (event) => {
      const id = idOf(event);
      if (id !== null) this.on.open(id);
    });
    new ResizeObserver(() => this.resized()).observe(canvas);
  }
}

function arrows() {
  const marker = (name, backwards) => svg("marker", {
    id: name, viewBox: "0 0 8 8", refX: backwards ? 1 : 7, refY: 4, markerWidth: 7, markerHeight: 7,
    orient: "auto", class: name, markerUnits: "userSpaceOnUse",
  }, svg("path", { d: backwards ? "M8 0 L0 4 L8 8z" : "M0 0 L8 4 L0 8z" }));
  return svg("defs", null, marker("arrow", false), marker("arrow-back", true));
}
