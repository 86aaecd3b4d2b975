// The flame graph: what is inside of what, as wide as the time it took. The program is on top.

const FRAME_HEIGHT = 22;
const NARROWEST = 0.6; // pixels of a frame that is drawn

class Flame {
  constructor() {
    this.frames = data.flame.map(([parent, name, kind, time, self, count], id) => ({
      id, parent, name, kind, time, self, count, inside: [],
    }));
    for (const frame of this.frames.slice(1)) this.frames[frame.parent].inside.push(frame);
    for (const frame of this.frames) frame.inside.sort((a, b) => b.time - a.time);
    this.root = this.frames[0];
    this.picked = this.root;
    this.picture = svg("svg", { class: "flame", role: "tree", "aria-label":
      "Flame graph. Arrow keys go up, down and across; Enter zooms in on a frame." });
    this.told = h("p", { class: "told" });
    byId("view-flame").append(legend(), this.picture,
      this.told);
    this.picture.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(byId("view-flame"));
  }

  draw() {
    const width = this.picture.clientWidth;
    if (!width) return;
    const path = [];
    for (let frame = this.root; frame; frame = this.frames[frame.parent]) path.unshift(frame);
    const elements = path.slice(0, -1).map((frame, depth) => this.box(frame, 0, width, depth, true));
    let deepest = path.length;
    const visit = [[this.root, 0, width, path.length - 1]];
    while (visit.length) {
      const [frame, x, wide, depth] = visit.pop();
      elements.push(this.box(frame, x, wide, depth, false));
      deepest = Math.max(deepest, depth + 1);
      let left = x;
      for (const inner of frame.inside) {
        const size = frame.time ? (wide * inner.time) / frame.time : 0;
        if (size >= NARROWEST) visit.push([inner, left, size, depth + 1]);
        left += size;
      }
    }
    const height = deepest * FRAME_HEIGHT + 2;
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.picture.setAttribute("height", height);
    this.picture.replaceChildren(...elements);
    this.tell(this.picked);
  }

  box(frame, x, width, depth, above) {
    const isPicked = frame === this.picked;
    const group = svg("g", { class: `frame ${frame.kind}${above ? " above" : ""}`, role: "treeitem",
      tabindex: isPicked ? 0 : -1, "data-id": frame.id, "aria-level": depth + 1,
      "aria-label": `${frame.name}, ${timeText(frame.time)}` },
    svg("rect", { x: x + 0.5, y: depth * FRAME_HEIGHT + 1.5, width: Math.max(width - 1, 0.5),
      height: FRAME_HEIGHT - 2 }));
    const room = Math.floor((width - 10) / 7);
    if (room >= 3) {
      const text = frame.name.length > room ? `${frame.name.slice(0, room - 1)}…` : frame.name;
      const label = svg("text", { x: x + 6, y: depth * FRAME_HEIGHT + 15.5 });
      label.textContent = text;
      group.append(label);
    }
    group.addEventListener("click", () => this.open(frame));
    group.addEventListener("pointerenter", () => this.tell(frame));
    group.addEventListener("focus", () => { this.picked = frame; this.tell(frame); });
    return group;
  }

  /** Show a frame as wide as the page; the one that is, by its parent. */
  open(frame) {
    this.root = frame === this.root && frame.parent >= 0 ? this.frames[frame.parent] : frame;
    this.pick(frame);
  }

  pick(frame) {
    this.picked = frame;
    const hadFocus = this.picture.contains(document.activeElement);
    this.draw();
    if (hadFocus) this.picture.querySelector(`[data-id="${frame.id}"]`)?.focus();
  }

  tell(frame) {
    const parts = [`${timeText(frame.time)}, ${percent(frame.time)} of the wall time`,
      frame.inside.length ? `${timeText(frame.self)} of it in itself` : null,
      `${frame.count.toLocaleString("en")} ${frame.count === 1 ? "call" : "calls"}`,
      KIND_WORDS[frame.kind]];
    this.told.replaceChildren(h("b", null, frame.name), ` · ${parts.filter(Boolean).join(" · ")}`);
  }

  key(event) {
    const { picked } = this;
    const around = this.frames[picked.parent];
    const beside = around?.inside ?? [picked];
    const at = beside.indexOf(picked);
    const to = { ArrowDown: picked.inside[0], ArrowUp: around, ArrowRight: beside[at + 1],
      ArrowLeft: beside[at - 1], Home: this.frames[0] }[event.key];
    if (event.key === "Enter" || event.key === " ") this.open(picked);
    else if (event.key === "Escape" && this.root.parent >= 0) {
      this.root = this.frames[this.root.parent];
      this.pick(this.root);
    } else if (to) {
      if (!this.picture.querySelector(`[data-id="${to.id}"]`)) this.root = to;
      this.pick(to);
      this.picture.querySelector(`[data-id="${to.id}"]`)?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** The colours of the kinds of events that there are. */
function legend() {
  const kinds = Object.keys(KIND_WORDS).filter((kind) => data.kinds.includes(kind));
  return h("ul", { class: "legend", "aria-label": "Colours" }, kinds.map((kind) => h("li", null,
    h("i", { class: `dot ${kind}` }), KIND_WORDS[kind])));
}
