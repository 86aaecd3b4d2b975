// Where one looks at a picture from: zooming and moving, by mouse, fingers and buttons.

const READABLE = 0.5; // the smallest scale at which labels can be read
const [SMALLEST, LARGEST] = [0.01, 6]; // scales
const A_DRAG = 4; // pixels: less is a click

class Camera {
  /** "moved" is called after each change, with whether it should look like a movement. */
  constructor(canvas, moved) {
    Object.assign(this, { canvas, moved, x: 0, y: 0, scale: 1 });
    this.picture = { width: 1, height: 1 };
    this.fitted = null; // "all" or "some" of the picture, until the user zooms or moves
    this.dragged = 0; // how far, since the pointer came down
    this.room = [canvas.clientWidth || 600, canvas.clientHeight || 400];
    this.listen();
  }

  /** What is in sight, in the coordinates of the picture. */
  get sight() {
    const { x, y, scale, room: [width, height] } = this;
    return { left: -x / scale, top: -y / scale, right: (width - x) / scale, bottom: (height - y) / scale };
  }

  /** Look at another picture. */
  open(picture, box) {
    this.picture = picture;
    this.fit(false, box);
  }

  /** All of the picture, if it can be read then; otherwise a box of it. */
  fit(all, box) {
    const [width, height] = this.room;
    const { width: wide, height: tall } = this.picture;
    const whole = Math.min((width - 24) / wide, (height - 24) / tall, 1.4);
    this.scale = all || whole >= READABLE ? whole : Math.max(whole, 0.8);
    if (this.scale === whole || !box) {
      this.x = (width - wide * this.scale) / 2;
      this.y = (height - tall * this.scale) / 2;
      this.moved(false);
    } else this.centre(box, false);
    this.fitted = all ? "all" : "some";
  }

  /** Bring a box to the middle, but no further than the picture goes: beyond it is empty. */
  centre({ x, y, width, height }, smooth = true) {
    const { scale, room } = this;
    const place = (middle, space, length) => (length * scale < space - 32
      ? (space - length * scale) / 2
      : Math.min(Math.max(space / 2 - middle * scale, space - length * scale - 24), 24));
    this.x = place(x + width / 2, room[0], this.picture.width);
    this.y = place(y + height / 2, room[1], this.picture.height);
    this.fitted = null;
    this.moved(smooth);
  }

  /** Bring a box into sight, if it is not there already. */
  reveal(box) {
    const { x, y, scale, room: [width, height] } = this;
    const [left, top] = [x + box.x * scale, y + box.y * scale];
    const [right, bottom] = [left + box.width * scale, top + box.height * scale];
    if (left < 8 || top < 8 || right > width - 8 || bottom > height - 8) this.centre(box);
  }

  /** Bring a point of the picture to the middle. */
  lookAt(x, y) {
    const [width, height] = this.room;
    this.moveBy(width / 2 - x * this.scale - this.x, height / 2 - y * this.scale - this.y);
  }

  moveBy(right, down) {
    this.x += right;
    this.y += down;
    this.fitted = null;
    this.moved(false);
  }

  zoom(factor, at = null, smooth = false) {
    const [x, y] = at ?? this.room.map((length) => length / 2);
    const scale = Math.min(Math.max(this.scale * factor, SMALLEST), LARGEST);
    const by = scale / this.scale;
    Object.assign(this, { scale, x: x - (x - this.x) * by, y: y - (y - this.y) * by });
    this.fitted = null;
    this.moved(smooth);
  }

  /** Keep what is in the middle there, or everything in sight if that is how it was. */
  resize(room, box) {
    const before = this.room;
    this.room = room;
    if (this.fitted) this.fit(this.fitted === "all", box);
    else this.moveBy((room[0] - before[0]) / 2, (room[1] - before[1]) / 2);
  }

  listen() {
    const { canvas } = this;
    const pointers = new Map();
    const local = (event) => {
      const frame = canvas.getBoundingClientRect();
      return [event.clientX - frame.left, event.clientY - frame.top];
    };
    canvas.addEventListener("wheel", (event) => {
      // Whoever scrolls through a notebook wants to get past the graph, not into it.
      if (isFramed && !event.ctrlKey && !canvas.contains(document.activeElement)) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), local(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      if (pointers.size === 0) this.dragged = 0;
      pointers.set(event.pointerId, local(event));
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const now = local(event);
      this.dragged += Math.hypot(now[0] - before[0], now[1] - before[1]);
      pointers.set(event.pointerId, now);
      if (this.dragged <= A_DRAG) return;
      if (!canvas.hasPointerCapture(event.pointerId)) canvas.setPointerCapture(event.pointerId);
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) this.pinch(before, now, other);
      else this.moveBy(now[0] - before[0], now[1] - before[1]);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
    }
  }

  /** One finger moves while another rests. */
  pinch(before, now, other) {
    const apart = (p) => Math.max(Math.hypot(p[0] - other[0], p[1] - other[1]), 1);
    this.zoom(apart(now) / apart(before), [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2]);
  }
}
