// The timeline: events in the order in which they ran, and memory below, on one axis.

const LANE = 20;
const AXIS = 22;
const MEMORY = 120;

class Timeline {
  constructor() {
    this.begin = 0;
    this.end = Math.max(data.total, 1);
    this.height = AXIS + data.depth * LANE + 4;
    this.told = h("p", { class: "told" });
    this.span = h("span", { class: "span" });
    this.events = h("canvas", { class: "timeline", id: "events", tabindex: "0", role: "img",
      "aria-label": `Timeline of ${data.events.length.toLocaleString("en")} events. Plus and minus `
        + "zoom, left and right move, n and p go from event to event." });
    this.memory = h("canvas", { class: "timeline", id: "memory", role: "img",
      "aria-label": `Memory over time, ${bytesText(data.peak)} at most` });
    const button = (text, title, act) => h("button", { class: "plain", title, onclick: act }, text);
    const view = byId("view-timeline");
    view.append(legend(),
      h("div", { class: "controls", role: "group", "aria-label": "Zoom" },
        button("−", "Zoom out (-)", () => this.zoom(2)), button("+", "Zoom in (+)", () => this.zoom(0.5)),
        button("All", "The whole time (0)", () => this.show(0, data.total)), this.span),
      this.events, this.told);
    this.told.append(data.eventsLeftOut
      ? `The ${data.events.length.toLocaleString("en")} longest events are shown; `
        + `${data.eventsLeftOut.toLocaleString("en")} are not.`
      : "Hover over an event for details, or press n.");
    view.append(h("h2", { class: "heading" }, "Memory"), data.memory.length ? this.memory
      : h("p", null, "Memory was not measured: profile with --memory, or profile_memory=True."));
    for (const canvas of [this.events, this.memory]) this.listen(canvas);
    new ResizeObserver(() => this.draw()).observe(view);
    onTheme(() => this.draw());
  }

  listen(canvas) {
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move(event.deltaX / canvas.clientWidth);
      else this.zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / canvas.clientWidth);
    }, { passive: false });
    let from = null;
    canvas.addEventListener("pointerdown", (event) => {
      from = { x: event.clientX, begin: this.begin, end: this.end };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (from) {
        const by = ((from.x - event.clientX) / canvas.clientWidth) * (from.end - from.begin);
        this.show(from.begin + by, from.end + by);
      } else if (canvas === this.events) this.pick(this.at(event.offsetX, event.offsetY));
    });
    canvas.addEventListener("pointerup", () => { from = null; });
    canvas.addEventListener("pointercancel", () => { from = null; });
  }

  /** Show a span, as far as there is one. */
  show(begin, end) {
    const length = Math.min(Math.max(end - begin, 100), data.total || 1);
    this.begin = Math.min(Math.max(begin, 0), (data.total || 1) - length);
    this.end = this.begin + length;
    this.draw();
  }

  zoom(by, at = 0.5) {
    const middle = this.begin + at * (this.end - this.begin);
    const length = (this.end - this.begin) * by;
    this.show(middle - at * length, middle + (1 - at) * length);
  }

  move(by) {
    const shift = by * (this.end - this.begin);
    this.show(this.begin + shift, this.end + shift);
  }

  at(x, y) {
    const time = this.begin + (x / this.events.clientWidth) * (this.end - this.begin);
    const depth = Math.floor((y - AXIS) / LANE);
    return data.events.findIndex(([start, length, level]) => level === depth && start <= time
      && time <= start + length);
  }

  pick(number, reveal = false) {
    if (number === this.picked || number < 0) return;
    this.picked = number;
    const [start, length, , name, kind] = data.events[number];
    if (reveal && (start < this.begin || start + length > this.end)) {
      this.show(start - length, start + 2 * length);
    }
    this.told.replaceChildren(h("b", null, data.names[name]),
      ` · ${timeText(length)} · from ${timeText(start)} on · ${KIND_WORDS[data.kinds[kind]]}`);
    if (reveal) say(this.told.textContent);
    this.draw();
  }

  step(by) {
    const last = data.events.length - 1;
    if (last >= 0) this.pick(Math.min(Math.max((this.picked ?? (by > 0 ? -1 : 1)) + by, 0), last), true);
  }

  key(event) {
    const acts = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      0: () => this.show(0, data.total), ArrowLeft: () => this.move(-0.2),
      ArrowRight: () => this.move(0.2), n: () => this.step(1), p: () => this.step(-1) };
    if (!acts[event.key]) return false;
    acts[event.key]();
    return true;
  }

  draw() {
    if (!this.events.clientWidth) return;
    this.probe ??= document.body.appendChild(h("i", { hidden: true }));
    this.span.textContent = `${timeText(this.begin)} to ${timeText(this.end)}`;
    this.drawEvents(this.begun(this.events, this.height));
    if (data.memory.length) this.drawMemory(this.begun(this.memory, MEMORY));
  }

  /** A colour of the style as a canvas knows it. */
  paint(name) {
    this.probe.style.color = `var(--${name})`;
    return getComputedStyle(this.probe).color;
  }

  begun(canvas, height) {
    const scale = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    canvas.style.height = `${height}px`;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = "11px ui-monospace, Menlo, Consolas, monospace";
    context.textBaseline = "middle";
    return { context, width, height, x: (time) => ((time - this.begin) / (this.end - this.begin)) * width };
  }

  drawAxis({ context, width, height, x }) {
    const length = this.end - this.begin;
    const rough = (length * 110) / width;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    context.fillStyle = this.paint("soft");
    context.strokeStyle = this.paint("rule");
    for (let time = Math.ceil(this.begin / step) * step; time <= this.end; time += step) {
      const at = Math.round(x(time)) + 0.5;
      context.beginPath();
      context.moveTo(at, 0);
      context.lineTo(at, height);
      context.stroke();
      context.fillText(timeText(time), at + 4, AXIS / 2);
    }
  }

  drawEvents(view) {
    const { context, width, x } = view;
    this.drawAxis(view);
    const colours = data.kinds.map((kind) => this.paint(kind));
    const ink = this.paint("paper");
    data.events.forEach(([start, length, depth, name, kind], number) => {
      const left = x(start);
      const right = x(start + length);
      if (right < 0 || left > width) return;
      const top = AXIS + depth * LANE;
      context.fillStyle = colours[kind];
      context.globalAlpha = number === this.picked ? 1 : 0.78;
      context.fillRect(left, top, Math.max(right - left - 0.5, 0.7), LANE - 2);
      context.globalAlpha = 1;
      const from = Math.max(left, 0);
      const room = Math.floor((Math.min(right, width) - from - 8) / 6.7);
      if (room >= 3) {
        const text = data.names[name];
        context.fillStyle = ink;
        context.fillText(text.length > room ? `${text.slice(0, room - 1)}…` : text, from + 4,
          top + (LANE - 2) / 2 + 0.5);
      }
      if (number === this.picked) {
        context.strokeStyle = this.paint("ink");
        context.lineWidth = 2;
        context.strokeRect(left + 1, top + 1, Math.max(right - left - 2.5, 1), LANE - 4);
        context.lineWidth = 1;
      }
    });
  }

  drawMemory(view) {
    const { context, width, height, x } = view;
    this.drawAxis(view);
    const floor = height - 4;
    const y = (bytes) => floor - ((floor - AXIS - 4) * bytes) / (data.peak || 1);
    const line = new Path2D();
    const [first] = data.memory;
    line.moveTo(x(first[0]), y(first[1]));
    let before = first[1];
    for (const [time, bytes] of data.memory) {
      line.lineTo(x(time), y(before));
      line.lineTo(x(time), y(bytes));
      before = bytes;
    }
    line.lineTo(x(data.total), y(before));
    const area = new Path2D(line);
    area.lineTo(x(data.total), floor);
    area.lineTo(x(first[0]), floor);
    context.fillStyle = this.paint("blue-wash");
    context.fill(area);
    context.strokeStyle = this.paint("blue");
    context.lineWidth = 1.5;
    context.stroke(line);
    context.lineWidth = 1;
    context.strokeStyle = this.paint("soft");
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(0, y(data.peak));
    context.lineTo(width, y(data.peak));
    context.stroke();
    context.setLineDash([]);
    const text = `${bytesText(data.peak)} at most`;
    context.fillStyle = this.paint("paper");
    context.fillRect(4, y(data.peak) + 3, context.measureText(text).width + 8, 16);
    context.fillStyle = this.paint("ink");
    context.fillText(text, 8, y(data.peak) + 11);
  }
}
