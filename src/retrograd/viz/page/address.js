// The place in the address, #pass=1&step=7, so that a link leads to it and "back" returns to it.

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
    const isSame = before.pass === now.pass && before.group === now.group;
    const apart = isSame ? Math.abs(before.step - now.step) : Infinity;
    if (apart === 0) return;
    const inside = now.group === null ? "" : `&in=${now.group}`;
    const hash = `#pass=${now.pass + 1}&step=${now.step}${inside}`;
    if (apart === 1) history.replaceState(null, "", hash);
    else history.pushState(null, "", hash);
    this.written = now;
  }

  follow() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (location.hash && !given.has("pass") && !given.has("step")) return; // a link within the page
    const number = (name, otherwise) => {
      const text = given.get(name) ?? "";
      return /^\d{1,9}$/.test(text) ? Number(text) : otherwise;
    };
    clearTimeout(this.timer);
    this.restore({ pass: number("pass", this.start.pass + 1) - 1, step: number("step", 0),
      group: number("in", null) });
    this.written = this.place();
  }
}
