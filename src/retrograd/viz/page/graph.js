// The graph: one picture at a time, as SVG.

const FEW = 200; // boxes: a picture with more has only those in sight drawn
const PAPER = [680, 480]; // pixels
const [SUBS_FROM, LABELS_FROM] = [0.4, 0.22]; // scales from which texts can be made out

class GraphView {
  constructor(canvas, story, on) {
    Object.assign(this, { canvas, story, on });
    this.group = undefined;
    this.sent = new Set(); // items that the current step sends gradients to
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.marked = new Map(); // of each class: the boxes that have it
    this.camera = new Camera(canvas, (smooth) => this.apply(smooth));
    this.map = new Overview(byId("map"), (x, y) => this.camera.lookAt(x, y));
    this.listen();
  }

  /** Draw the inside of a group, or all of it for null. */
  show(group) {
    if (this.group === group && this.root) return;
    this.group = group;
    this.picture = this.story.pictures.get(group)
      ?? { group, width: 1, height: 1, boxes: {}, edges: [] };
    const [edges, nodes] = [svg("g", { class: "edges" }), svg("g", { class: "nodes" })];
    this.boxes = new Map(Object.entries(this.picture.boxes).map(([key, place]) => {
      const id = Number(key);
      const isStub = (this.story.items.get(id).group ?? null) !== group;
      return [id, new Box(nodes, this.story, id, place, isStub)];
    }));
    this.edgesOf = new Map();
    this.edges = this.picture.edges.map((given) => {
      const edge = new Edge(edges, given, this.story.items.get(given.from)?.kind === "data");
      listIn(this.edgesOf, edge.from).push(edge);
      listIn(this.edgesOf, edge.to).push(edge);
      return edge;
    });
    this.layer = svg("g", { class: "layer" }, edges, nodes);
    this.root = svg("svg", { class: "picture", width: "100%", height: "100%" }, arrows(), this.layer);
    this.root.classList.toggle("passes", this.story.phasesOf(0).length > 0);
    this.canvas.replaceChildren(this.root);
    if (!this.boxes.size) this.canvas.append(this.noPicture());
    this.marked.clear();
    this.seen = null;
    this.map.show(this.picture, (id) => this.story.items.get(id).kind);
    this.camera.open(this.picture, this.focus());
  }

  noPicture() {
    return h("p", { class: "quiet empty" }, this.story.items.size
      ? "This part of the graph is too large for a picture. Search finds what is in it."
      : "Nothing was recorded.");
  }

  /** The box of what runs now, or of the end of the picture, where a pass begins. */
  focus() {
    const now = this.on.current();
    const shown = now === null ? null : this.story.boxIn(this.picture, now);
    return this.boxes.get(shown) ?? [...this.boxes.values()].at(-1);
  }

  fit() {
    this.camera.fit(true, this.focus());
  }

  centre(id) {
    const box = this.boxes.get(id);
    if (box) this.camera.centre(box);
  }

  reveal(id) {
    const box = this.boxes.get(id);
    if (box) this.camera.reveal(box);
  }

  /** Show the picture as the camera has it. */
  apply(smooth) {
    const { x, y, scale, sight } = this.camera;
    const before = this.seen;
    const glides = smooth && before && !this.still.matches && isNear(before, sight);
    this.seen = sight;
    this.cull(glides ? around(before, sight) : sight);
    this.layer.classList.toggle("gliding", glides);
    this.layer.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    this.root.classList.toggle("far", scale < SUBS_FROM);
    this.root.classList.toggle("farther", scale < LABELS_FROM);
    this.map.point(this.camera);
  }

  /** Draw what is in a part of the picture, and nothing else. */
  cull(part) {
    const all = this.boxes.size <= FEW;
    for (const edge of this.edges) edge.show(all || edge.isIn(part));
    for (const box of this.boxes.values()) box.show(all || box.isIn(part));
  }

  // -- what runs ---------------------------------------------------------------------------------

  /** Bring the looks of some boxes (or all) up to a position. Touches only what changes. */
  update(times, position, ids) {
    const edges = new Set();
    for (const id of ids ?? this.boxes.keys()) {
      const box = this.boxes.get(id);
      if (!box) continue;
      const runs = times.items.get(id);
      const isPart = box.item.kind === "group" && runs;
      if (!ids) box.setPass(times.pass);
      box.setState(stateAt(runs, position),
        isPart ? countBelow(runs, position + 1) / runs.length : 0);
      if (box.item.room) box.setTexts(this.on.inside(id));
      for (const edge of this.edgesOf.get(id) ?? []) edges.add(edge);
    }
    for (const edge of edges) edge.setState(this.edgeState(edge));
  }

  /** Say where this step sends gradients: to what, and the results of it that they are for. */
  sends(step) {
    this.sent = new Set();
    for (const { to } of step?.outgoing ?? []) {
      if (to === null || to === undefined) continue;
      const results = this.story.between(to, step.item);
      for (const id of results.length ? results : [to]) this.sent.add(id);
    }
  }

  /** A gradient goes against an edge: it has passed once the end of the edge has run. */
  edgeState({ from, to }) {
    const [source, target] = [this.boxes.get(from)?.state, this.boxes.get(to)?.state];
    if (this.phase === "forward") return { running: "entering", done: "passed", part: "passed" }[target] ?? "";
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
    for (const box of this.marked.get(name) ?? []) box.setName(name, false);
    const found = new Set();
    for (const id of ids) {
      const shown = this.story.boxIn(this.picture, id);
      if (shown !== null) found.add(this.boxes.get(shown));
    }
    for (const box of found) box.setName(name, true);
    this.marked.set(name, found);
    return found.size;
  }

  /** On paper all of the picture is shown, in a frame of a known size. */
  forPaper(isPaper) {
    const { style } = this.canvas;
    [style.width, style.height] = isPaper ? PAPER.map((length) => `${length}px`) : ["", ""];
    this.camera.room = isPaper ? PAPER : [this.canvas.clientWidth, this.canvas.clientHeight];
    this.fit();
  }

  listen() {
    const { canvas } = this;
    const idOf = (event) => {
      const node = event.target.closest?.(".node");
      return node ? Number(node.dataset.id) : null;
    };
    canvas.addEventListener("click", (event) => {
      if (this.camera.dragged <= A_DRAG) this.on.pick(idOf(event));
    });
    canvas.addEventListener("dblclick", (event) => {
      const id = idOf(event);
      if (id !== null) this.on.open(id);
    });
    onTheme(() => this.apply(false)); // the map has colours of its own
    new ResizeObserver(([{ contentRect: { width, height } }]) => {
      if (this.root && width && height) this.camera.resize([width, height], this.focus());
    }).observe(canvas);
  }
}

/** What is around two parts of a picture, so that nothing is missing on the way between them. */
function around(a, b) {
  return { left: Math.min(a.left, b.left), top: Math.min(a.top, b.top),
    right: Math.max(a.right, b.right), bottom: Math.max(a.bottom, b.bottom) };
}

/** Whether one gets from one part to another without passing much else. */
function isNear(a, b) {
  const all = around(a, b);
  return all.right - all.left < 2 * Math.max(a.right - a.left, b.right - b.left)
    && all.bottom - all.top < 2 * Math.max(a.bottom - a.top, b.bottom - b.top);
}

function arrows() {
  const marker = (name, backwards) => svg("marker", {
    id: name, viewBox: "0 0 8 8", refX: backwards ? 1 : 7, refY: 4, markerWidth: 7, markerHeight: 7,
    orient: "auto", class: name, markerUnits: "userSpaceOnUse",
  }, svg("path", { d: backwards ? "M8 0 L0 4 L8 8z" : "M0 0 L8 4 L0 8z" }));
  return svg("defs", null, marker("arrow", false), marker("arrow-back", true));
}
