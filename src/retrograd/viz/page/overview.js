// A small map of the picture, with a frame around what is in sight.

const MAP = { width: 150, height: 110 };
const MAP_COLOURS = {
  operation: "--blue", leaf: "--green", intermediate: "--brown", data: "--yellow", group: "--slate",
};

class Overview {
  constructor(canvas, lookAt) {
    this.canvas = canvas;
    this.scale = 1;
    const follow = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      const frame = canvas.getBoundingClientRect();
      lookAt((event.clientX - frame.left) / this.scale, (event.clientY - frame.top) / this.scale);
    };
    canvas.addEventListener("pointerdown", follow);
    canvas.addEventListener("pointermove", follow);
    onTheme(() => { this.drawn = false; });
  }

  /** Draw all boxes once; they do not change while the picture is open. */
  show(picture, kindOf) {
    this.picture = picture;
    this.scale = Math.min(MAP.width / picture.width, MAP.height / picture.height);
    const [width, height] = [picture.width, picture.height].map((n) => Math.max(n * this.scale, 24));
    const dense = window.devicePixelRatio || 1;
    this.boxes = new OffscreenCanvas(Math.ceil(width * dense), Math.ceil(height * dense));
    this.kindOf = kindOf;
    this.drawn = false;
    Object.assign(this.canvas, { width: this.boxes.width, height: this.boxes.height });
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
  }

  drawBoxes() {
    const context = this.boxes.getContext("2d");
    const style = getComputedStyle(this.canvas);
    const zoom = this.scale * (window.devicePixelRatio || 1);
    const colours = new Map();
    for (const [id, [x, y, w, tall]] of Object.entries(this.picture.boxes)) {
      const kind = this.kindOf(Number(id));
      if (!colours.has(kind)) {
        // A probe: the colour as light or dark has it.
        this.canvas.style.color = `var(${MAP_COLOURS[kind] ?? "--slate"})`;
        colours.set(kind, style.color);
      }
      context.fillStyle = colours.get(kind);
      context.fillRect(x * zoom, y * zoom, Math.max(w * zoom, 1), Math.max(tall * zoom, 1));
    }
    this.canvas.style.color = "var(--accent)";
    this.accent = style.color;
    this.drawn = true;
  }

  /** Frame what is in sight; away with the map when that is everything. */
  point({ x, y, scale, room: [width, height] }) {
    const { picture } = this;
    const all = x >= -1 && y >= -1 && x + picture.width * scale <= width + 1
      && y + picture.height * scale <= height + 1;
    this.canvas.hidden = all;
    if (all) return;
    if (!this.drawn) this.drawBoxes();
    const context = this.canvas.getContext("2d");
    const zoom = this.scale * (window.devicePixelRatio || 1);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.globalAlpha = 0.65;
    context.drawImage(this.boxes, 0, 0);
    context.globalAlpha = 1;
    context.strokeStyle = this.accent;
    context.lineWidth = 1.5 * (window.devicePixelRatio || 1);
    const [left, top] = [Math.max(-x / scale, 0), Math.max(-y / scale, 0)];
    const right = Math.min((width - x) / scale, picture.width);
    const bottom = Math.min((height - y) / scale, picture.height);
    context.strokeRect(left * zoom + 1, top * zoom + 1,
      Math.max((right - left) * zoom - 2, 2), Math.max((bottom - top) * zoom - 2, 2));
  }
}
