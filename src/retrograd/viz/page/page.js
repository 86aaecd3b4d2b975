// The page: what is shown now, and what keys and clicks do to it.

const byId = (name) => document.getElementById(name);

class Page {
  constructor(data, firstPass) {
    this.story = new Story(data);
    const on = {
      pick: (id) => this.pick(id), open: (id) => this.open(id), go: (k) => this.go(k),
      goTo: (id) => this.goTo(id), goToMark: (i) => this.goToMark(i),
      pickLine: (place) => this.pickLine(place), current: () => this.currentItem(),
      fileShown: () => this.refreshSource(),
    };
    this.on = on;
    this.pass = Math.min(Math.max(firstPass, 0), Math.max(this.story.passes.length - 1, 0));
    this.position = 0;
    this.picked = null;
    this.graph = new GraphView(byId("canvas"), this.story, on);
    this.source = new SourceView(this.story, on);
    this.panel = new Panel(this.story, on);
    this.showChips();
    this.showPasses();
    this.showLegend();
    this.setPass(this.pass);
    listenToKeys(this);
    listenToSearch(this);
    this.listenToButtons();
  }

  get steps() {
    return this.story.passes[this.pass]?.steps ?? [];
  }

  get times() {
    return this.story.timesOf(this.pass);
  }

  currentItem() {
    return this.position ? this.steps[this.position - 1].item
      : this.story.passes[this.pass]?.root ?? null;
  }

  // -- passes ------------------------------------------------------------------------------------

  showPasses() {
    const { passes } = this.story;
    byId("passes").hidden = passes.length < 2;
    byId("pass").replaceChildren(...passes.map((pass, index) => h("option", { value: index },
      `${index + 1} of ${passes.length} · ${pass.how ?? "backward()"}${pass.place ? ` · line ${pass.place[1]}` : ""}`)));
    byId("pass").addEventListener("change", (event) => {
      this.setPass(Number(event.target.value));
    });
  }

  setPass(number) {
    this.stop();
    this.pass = number;
    this.position = 0;
    byId("pass").value = number;
    byId("slider").max = this.steps.length;
    this.panel.prepareGrads(this.story.passes[number]);
    showNorms(byId("norms"), this.steps);
    this.show(this.graph.group ?? null, true);
    this.go(0, true);
  }

  // -- steps -------------------------------------------------------------------------------------

  /** Go to a position: 0 is before the first step. Touches only what changes in between. */
  go(position, anew = false) {
    position = Math.min(Math.max(position, 0), this.steps.length);
    const before = this.position;
    if (position === before && !anew) return;
    this.position = position;
    this.graph.sends(this.steps[position - 1]);
    const now = this.currentItem();
    const group = this.groupFor(now);
    if (anew || group !== this.graph.group) {
      this.show(group, true);
      this.source.update(this.times, position);
      this.panel.updateGrads(position);
    } else this.change(Math.min(before, position), Math.max(before, position));
    this.panel.showStep(this.story.passes[this.pass], position);
    this.pointAt(now);
    this.count();
  }

  /** Bring everything that runs between two positions up to now. */
  change(low, high) {
    const [boxes, lines, leaves] = [new Set(), new Set(), new Set()];
    for (let at = Math.max(low, 1); at <= high; at++) {
      const step = this.steps[at - 1];
      const shown = this.story.boxIn(this.graph.picture, step.item);
      if (shown !== null) boxes.add(shown);
      for (const from of new Set([step.item, shown])) {
        for (const id of this.story.outputs.get(from) ?? []) boxes.add(id);
      }
      const { place } = this.story.items.get(step.item);
      if (place) lines.add(lineKey(place));
      if (step.accumulate) leaves.add(step.accumulate.leaf);
    }
    this.graph.update(this.times, this.position, boxes);
    this.source.update(this.times, this.position, lines);
    this.panel.updateGrads(this.position, leaves);
  }

  /** The picture in which to show a step: the one that is open, unless it is elsewhere. */
  groupFor(id) {
    const own = this.story.items.get(id)?.group ?? null;
    const open = this.graph.group ?? null;
    if (byId("follow").checked) return own;
    const path = this.story.path(own);
    let group = open;
    while (group !== null && !path.includes(group)) group = this.story.items.get(group)?.group ?? null;
    return group;
  }

  /** The line of a step. A leaf may have none: then it is the line that used it. */
  placeOf(id) {
    const own = this.story.items.get(id)?.place;
    if (own) return own;
    if (!this.position) return this.story.passes[this.pass]?.place ?? null;
    const users = this.story.outputs.get(id) ?? [];
    const user = users.find((other) => this.times.items.has(other) && this.story.items.get(other).place);
    return user === undefined ? null : this.story.items.get(user).place;
  }

  pointAt(id) {
    const place = this.placeOf(id);
    if (place && this.story.files[place[0]] && place[0] !== this.source.file) {
      this.source.show(place[0]);
      this.refreshSource();
    }
    this.source.point("current", place, true);
    const shown = id === null ? null : this.story.boxIn(this.graph.picture, id);
    if (shown !== null && this.position) this.graph.reveal(shown);
  }

  refreshSource() {
    this.source.update(this.times, this.position);
    this.source.point("current", this.placeOf(this.currentItem()), false);
    if (this.picked?.place) this.source.point("picked", this.picked.place, false);
  }

  count() {
    const total = this.steps.length;
    byId("slider").value = this.position;
    byId("slider").setAttribute("aria-valuetext", `step ${this.position} of ${total}`);
    byId("count").textContent = this.position ? `step ${this.position} of ${total}`
      : plural(total, "step", "steps");
    for (const name of ["first", "back"]) byId(name).disabled = this.position === 0;
    for (const name of ["next", "last"]) byId(name).disabled = this.position === total;
    byId("norms").style.setProperty("--done", `${total ? (this.position / total) * 100 : 0}%`);
    const item = this.story.items.get(this.currentItem());
    byId("live").textContent = this.position && item ? `step ${this.position} of ${total}: `
      + `${this.story.title(item.id)}${item.place ? `, line ${item.place[1]}` : ""}` : "";
  }

  play() {
    if (this.timer) return this.stop();
    if (this.position === this.steps.length) this.go(0);
    byId("play").setAttribute("aria-pressed", "true");
    this.timer = setInterval(() => {
      this.go(this.position + 1);
      if (this.position === this.steps.length) this.stop();
    }, 700);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    byId("play").setAttribute("aria-pressed", "false");
  }

  // -- pictures ----------------------------------------------------------------------------------

  show(group, anew = false) {
    const other = this.graph.group !== group;
    if (!other && !anew) return;
    this.graph.show(group);
    this.graph.update(this.times, this.position);
    if (other || !byId("crumbs").childElementCount) this.showCrumbs(group);
    if (this.picked) this.graph.mark("picked", this.picked.ids);
    if (this.found) this.graph.mark("match", this.found);
  }

  showCrumbs(group) {
    const crumbs = [null, ...this.story.path(group)].map((id) => h("button", {
      class: "crumb", "aria-current": id === group ? "location" : null,
      onclick: () => { this.show(id); byId("canvas").focus(); },
    }, h("bdi", null, id === null ? "whole graph" : this.story.title(id))));
    byId("crumbs").replaceChildren(...crumbs.flatMap((crumb, i) =>
      (i ? [h("span", { "aria-hidden": "true" }, "›"), crumb] : [crumb])));
  }

  /** Look into a group. For anything else: show its own picture. */
  open(id) {
    const item = this.story.items.get(id);
    const group = item.kind === "group" ? id : item.group ?? null;
    if (group === this.graph.group || !this.story.pictures.has(group)) return;
    this.show(group);
    if (item.kind !== "group") this.graph.centre(id);
  }

  leave() {
    const { group } = this.graph;
    if (group === null) return false;
    this.show(this.story.items.get(group).group ?? null);
    this.graph.reveal(group);
    return true;
  }

  // -- picking -----------------------------------------------------------------------------------

  /** A node was clicked: its line, its step, and what is known of it. */
  pick(id) {
    if (id === null) return this.unpick();
    const item = this.story.items.get(id);
    const at = item.kind === "group" ? undefined : this.times.items.get(id)?.[0];
    if (at !== undefined) this.go(at);
    this.picked = { ids: [id], place: item.place, item: id };
    this.graph.mark("picked", [id]);
    if (item.place && item.place[0] !== this.source.file && this.story.files[item.place[0]]) {
      this.source.show(item.place[0]);
      this.refreshSource();
    }
    this.source.point("picked", item.place, true);
    const own = at !== undefined && this.steps[at - 1].item === id;
    if (own) this.panel.clearPicked();
    else this.panel.showItem(id, at !== undefined);
    this.panel.root.scrollTop = 0;
  }

  unpick() {
    this.picked = null;
    this.graph.mark("picked", []);
    this.source.point("picked", null, false);
    this.panel.clearPicked();
  }

  /** Go to an item wherever it is. */
  goTo(id) {
    const item = this.story.items.get(id);
    if (!item) return;
    if (this.story.boxIn(this.graph.picture, id) !== id) this.show(item.group ?? null);
    this.pick(id);
    if (this.graph.group !== (item.group ?? null) && !this.graph.picture.boxes[id]) {
      this.show(item.group ?? null);
    }
    this.graph.reveal(id);
  }

  goToMark(index) {
    const mark = this.story.marks[index];
    if (mark.step) {
      const [pass, step] = mark.step;
      if (pass !== this.pass) this.setPass(pass);
      this.go(step + 1);
    }
    if (mark.item !== null && mark.item !== undefined) {
      this.goTo(mark.item);
      if (mark.step) this.go(mark.step[1] + 1);
    } else if (mark.place) this.pickLine(mark.place);
    document.querySelectorAll(".chip[aria-current]").forEach((c) => c.removeAttribute("aria-current"));
    byId("marks").querySelector(`[data-mark="${index}"]`)?.setAttribute("aria-current", "true");
  }

  pickLine(place) {
    const ids = this.story.byLine.get(lineKey(place)) ?? [];
    if (place[0] !== this.source.file) {
      this.source.show(place[0]);
      this.refreshSource();
    }
    this.picked = { ids, place };
    if (!this.graph.mark("picked", ids) && ids.length) {
      this.show(this.story.items.get(ids[0]).group ?? null);
    }
    const shown = ids.length ? this.story.boxIn(this.graph.picture, ids[0]) : null;
    if (shown !== null) this.graph.reveal(shown);
    this.source.point("picked", place, true);
    this.panel.showLine(place, ids, this.times);
    this.panel.root.scrollTop = 0;
  }

  // -- the rest of the page ----------------------------------------------------------------------

  showChips() {
    const { marks } = this.story;
    const bar = byId("marks");
    bar.hidden = !marks.length;
    const FEW = 8;
    bar.append(...marks.slice(0, FEW).map((_, index) => this.panel.chip(index)));
    if (marks.length > FEW) {
      const more = h("button", { class: "chip more", onclick: () => {
        more.remove();
        bar.append(...marks.slice(FEW, 500).map((_, index) => this.panel.chip(index + FEW)));
      } }, `${marks.length - FEW} more`);
      bar.append(more);
    }
  }

  showLegend() {
    const kinds = new Set(this.story.data.graph.items.map((item) => item.kind));
    byId("follow-label").hidden = this.story.pictures.size < 2;
    const words = { operation: "operation", leaf: "leaf", intermediate: "result", data: "data",
      group: "group" };
    byId("legend").append(...Object.entries(words).filter(([kind]) => kinds.has(kind)).map(
      ([kind, word]) => h("li", null, h("span", { class: `swatch ${kind}` }), word)),
    ...["waiting", "running", "done"].map((state) => h("li", null,
      h("span", { class: `swatch state ${state}` }), STATE_WORDS[state])));
  }

  listenToButtons() {
    const click = (name, action) => byId(name).addEventListener("click", action);
    click("first", () => this.go(0));
    click("back", () => this.go(this.position - 1));
    click("play", () => this.play());
    click("next", () => this.go(this.position + 1));
    click("last", () => this.go(this.steps.length));
    click("zoom-in", () => this.graph.zoom(1.3, null, true));
    click("zoom-out", () => this.graph.zoom(1 / 1.3, null, true));
    click("zoom-fit", () => this.graph.fit(true));
    click("theme", toggleTheme);
    click("help-button", showHelp);
    byId("slider").addEventListener("input", (event) => this.go(Number(event.target.value)));
    byId("follow").addEventListener("change", () => {
      if (this.position) this.show(this.groupFor(this.currentItem()));
      const shown = this.story.boxIn(this.graph.picture, this.currentItem());
      if (shown !== null) this.graph.reveal(shown);
    });
    for (const name of ["step", "source"]) click(`tab-${name}`, () => showTab(name));
  }
}

function showTab(name) {
  document.body.dataset.tab = name;
  for (const other of ["step", "source"]) {
    byId(`tab-${other}`).setAttribute("aria-selected", String(other === name));
  }
}

/** The norm of what arrives at each step, as a line along the slider, on a logarithmic scale. */
function showNorms(place, steps) {
  const logs = steps.map((step) => {
    const norms = (step.incoming ?? []).filter(Boolean).map((value) => toNumber(value.norm));
    return norms.length ? Math.log10(Math.max(...norms)) : NaN;
  });
  const finite = logs.filter(Number.isFinite);
  if (finite.length < 2) return place.replaceChildren();
  let [low, high] = [Infinity, -Infinity];
  for (const log of finite) { low = Math.min(low, log); high = Math.max(high, log); }
  const every = Math.max(1, Math.ceil(logs.length / 600));
  let path = "";
  let drawing = false;
  for (let at = 0; at < logs.length; at += every) {
    const log = Math.max(...logs.slice(at, at + every).filter(Number.isFinite));
    if (!Number.isFinite(log)) { drawing = false; continue; }
    const x = (((at + 1) / logs.length) * 100).toFixed(2);
    const y = high - low < 1e-9 ? 50 : 92 - ((log - low) / (high - low)) * 84;
    path += `${drawing ? "L" : "M"}${x} ${y.toFixed(1)}`;
    drawing = true;
  }
  place.title = "How large the gradient is at each step, on a logarithmic scale: "
    + `${short(10 ** low, "float")} to ${short(10 ** high, "float")}`;
  place.replaceChildren(svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none" },
    svg("path", { d: path, "vector-effect": "non-scaling-stroke" })));
}

function storyOf(element) {
  return JSON.parse(element.textContent);
}

const started = performance.now();
restoreTheme();
showTab("step");
const page = new Page(storyOf(byId("story")), Number(byId("story").dataset.pass));
document.documentElement.dataset.ready = (performance.now() - started).toFixed(0);
