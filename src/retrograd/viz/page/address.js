// The place in the address, #pass=1&step=7 (of the backward pass) or &forward=7 or &update=7, so that a link leads to it and "back" returns to it.

const REST = 300; // ms: a browser allows only so many entries in so much time

class Address {
  /** "place" tells where the page is, "restore" brings it somewhere. */
  constructor(place, restore) {
    Object.assign(this, { place, restore });
    this.timer = null;
    this.start = place();
    if (location.hash) this.follow();
    this.written = this.place();
    if (isFramed) return; // the history is the notebook's
    window.addEventListener("hashchange", () => this.follow());
  }

  /** The page has moved. When it rests, a step replaces the entry in the history, and a leap, or
   *  a walk of many steps, makes a new one. */
  note() {
    if (isFramed) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), REST);
  }

  write() {
    const [before, now] = [this.written, this.place()];
    const isSame = ["pass", "phase", "group"].every((name) => before[name] === now[name]);
    const apart = isSame ? Math.abs(before.step - now.step) : Infinity;
    if (apart === 0) return;
    const inside = now.group === null ? "" : `&in=${now.group}`;
    const phase = now.step && now.phase !== "backward" ? now.phase : "step";
    const hash = `#pass=${now.pass + 1}&${phase}=${now.step}${inside}`;
    if (apart === 1) history.replaceState(null, "", hash);
    else history.pushState(null, "", hash);
    this.written = now;
  }

  follow() {
    const given = new URLSearchParams(location.hash.slice(1));
    const known = ["pass", "step", "forward", "update"];
    if (location.hash && !known.some((name) => given.has(name))) return; // a link within the page
    const number = (name, otherwise) => {
      const text = given.get(name) ?? "";
      return /^\d{1,9}$/.test(text) ? Number(text) : otherwise;
    };
    clearTimeout(this.timer);
    const phase = ["forward", "update"].find((name) => given.has(name)) ?? "backward";
    this.restore({ pass: number("pass", this.start.pass + 1) - 1, phase,
      step: number(phase === "backward" ? "step" : phase, 0), group: number("in", null) });
    this.written = this.place();
  }
}
