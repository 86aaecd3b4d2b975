// The page: what is shown now, and what keys and clicks do to it.

const [FIRST_CHIPS, MOST_CHIPS] = [8, 500];
const PACE = 700; // ms for a step while playing

class Page {
  constructor(data, firstPass) {
    this.story = new Story(data);
    const on = {
      pick: (id) => this.pick(id), open: (id) => this.open(id), go: (k) => this.go(k),
      goTo: (id) => this.goTo(id), goToMark: (i) => this.goToMark(i),
      enter: (phase) => this.enter(phase, 1), inside: (id) => this.inside.texts(id),
      pickLine: (place) => this.pickLine(place), current: () => this.currentItem(),
      fileShown: () => this.refreshSource(),
    };
    this.pass = Math.min(Math.max(firstPass, 0), Math.max(this.story.passes.length - 1, 0));
    [this.phase, this.position] = ["", 0]; // where in a phase
    this.picked = null;
    this.inside = new Inside(this.story);
    this.graph = new GraphView(byId("canvas"), this.story, on);
    this.source = new SourceView(this.story, on);
    this.panel = new Panel(this.story, on);
    this.showChips();
    this.showPasses();
    showLegend(this.story);
    this.setPass(this.pass);
    listenToKeys(this);
    listenToSearch(this);
    this.listenToButtons();
    this.address = new Address(() => this.place(), (place) => this.restore(place));
  }

  get times() {
    return this.story.timesOf(this.pass, this.phase);
  }

  /** How many steps come before this phase. */
  get before() {
    const at = this.phases.findIndex(({ name }) => name === this.phase);
    return this.phases.slice(0, at).reduce((sum, { steps }) => sum + steps.length, 0);
  }

  get total() {
    return this.phases.reduce((sum, { steps }) => sum + steps.length, 0);
  }

  currentItem() {
    if (this.position) return this.steps[this.position - 1].item;
    return (this.phase === "forward" ? this.steps[0].item : this.story.passes[this.pass]?.root) ?? null;
  }

  // -- where one is ------------------------------------------------------------------------------

  place() {
    return { pass: this.pass, phase: this.phase, step: this.position, group: this.graph.group };
  }

  restore({ pass, phase, step, group }) {
    if (pass !== this.pass && this.story.passes[pass]) this.setPass(pass);
    if (step && this.phases.some(({ name }) => name === phase)) this.enter(phase, step);
    else this.move(step);
    if (this.story.pictures.has(group)) this.show(group);
  }

  // -- passes ------------------------------------------------------------------------------------

  showPasses() {
    const { passes } = this.story;
    byId("passes").hidden = passes.length < 2;
    byId("bar").hidden = !this.story.phasesOf(this.pass).length;
    byId("pass").replaceChildren(...passes.map(({ how, place }, index) => h("option", { value: index },
      [`${index + 1} of ${passes.length}`, how ?? "backward()", place ? `line ${place[1]}` : null]
        .filter(Boolean).join(" · "))));
    byId("pass").addEventListener("change", (event) => {
      this.setPass(Number(event.target.value));
    });
  }

  setPass(number) {
    this.stop();
    this.pass = number;
    this.phases = this.story.phasesOf(number);
    this.setPhase(this.phases[0]?.name ?? "backward", 0);
    byId("pass").value = number;
    byId("slider").max = this.total;
    this.panel.prepareGrads(number);
    this.source.warn([...this.story.data.wrong ?? [], ...this.story.passes[number]?.wrong ?? []]);
    showNorms(byId("norms"), this.phases, this.story.marks.flatMap((mark) =>
      stepsOf(mark).filter(([pass]) => pass === number).map(([, at]) => [mark.kind, at])));
    showPhases(this);
    this.show(this.graph.group ?? null, true);
    this.go(0, true);
    const { shown } = this.panel;
    if (shown !== null) this.panel.showItem(shown);
  }

  // -- steps -------------------------------------------------------------------------------------

  setPhase(name, position) {
    [this.phase, this.position] = [name, position];
    this.steps = this.phases.find((phase) => phase.name === name)?.steps ?? [];
    this.graph.phase = name;
    this.inside.at(this.pass, name, position);
  }

  /** Go to a position of a phase. */
  enter(name, position) {
    if (name === this.phase) return this.go(position);
    this.setPhase(name, position);
    this.go(position, true);
  }

  /** Go to a position among the steps of all phases: 0 is before the first. */
  move(position) {
    let left = Math.min(Math.max(position, 0), this.total);
    for (const { name, steps } of this.phases) {
      if (left <= steps.length) return this.enter(name, left);
      left -= steps.length;
    }
  }

  /** One step on (1) or back (-1). */
  walk(by) {
    this.move(this.before + this.position + by);
  }

  /** Go to a position: 0 is before the first step. Touches only what changes in between. */
  go(position, anew = false) {
    position = Math.min(Math.max(position, 0), this.steps.length);
    const before = this.position;
    if (position === before && !anew) return;
    this.position = position;
    this.inside.at(this.pass, this.phase, position);
    this.graph.sends(this.steps[position - 1]);
    const now = this.currentItem();
    const group = this.groupFor(now);
    if (anew || group !== this.graph.group) {
      this.show(group, true);
      this.source.update(this.times, position);
      this.panel.updateGrads(this.inside.arrived);
    } else this.change(Math.min(before, position), Math.max(before, position));
    // What measures the page comes last: it waits for all changes before it to be laid out.
    this.count();
    this.panel.showStep(this.story.passes[this.pass], this.phase, this.steps, position);
    this.pointAt(now);
    this.address?.note();
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
      const place = step.place ?? this.story.items.get(step.item).place;
      if (place) lines.add(lineKey(place));
      if (step.accumulate) leaves.add(step.accumulate.leaf);
    }
    this.graph.update(this.times, this.position, boxes);
    this.source.update(this.times, this.position, lines);
    this.panel.updateGrads(this.inside.arrived, leaves);
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
    const own = (this.position && this.steps[this.position - 1].place) || this.story.items.get(id)?.place;
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
    const shown = id === null ? null : this.story.boxIn(this.graph.picture, id);
    if (shown !== null && this.position) this.graph.reveal(shown);
    this.source.point("current", place, true);
  }

  refreshSource() {
    this.source.update(this.times, this.position);
    this.source.point("current", this.placeOf(this.currentItem()), false);
    if (this.picked?.place) this.source.point("picked", this.picked.place, false);
  }

  count() {
    const [at, total] = [this.before + this.position, this.total];
    const phase = this.phases.length > 1 ? this.phase : "step";
    const where = `${phase} ${this.position.toLocaleString("en")} of ${this.steps.length.toLocaleString("en")}`;
    byId("slider").value = at;
    byId("slider").setAttribute("aria-valuetext", where);
    byId("count").textContent = this.position ? where : plural(total, "step", "steps");
    for (const name of ["first", "back"]) byId(name).disabled = at === 0;
    for (const name of ["next", "last"]) byId(name).disabled = at === total;
    for (const button of byId("phases").children) {
      button.setAttribute("aria-pressed", String(at > 0 && button.dataset.phase === this.phase));
    }
    byId("live").textContent = this.position
      ? `${where}: ${this.panel.words.spoken(this.steps[this.position - 1])}` : "";
  }

  play() {
    if (this.timer) return this.stop();
    const isOver = () => this.before + this.position === this.total;
    if (isOver()) this.move(0);
    byId("play").setAttribute("aria-pressed", "true");
    this.timer = setInterval(() => {
      this.walk(1);
      if (isOver()) this.stop();
    }, PACE);
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
    this.address?.note();
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
    else this.panel.showItem(id);
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
    const passes = passesOf(mark);
    if (passes && !passes.includes(this.pass)) this.setPass(passes[0]);
    const step = stepsOf(mark).find(([pass]) => pass === this.pass)?.[1];
    if (step !== undefined) this.enter("backward", step + 1);
    if (mark.item !== null && mark.item !== undefined) {
      this.goTo(mark.item);
      if (step !== undefined) this.enter("backward", step + 1);
    } else if (mark.place) this.pickLine(mark.place);
    else if (step === undefined) {
      this.unpick();
      this.picked = { ids: [], place: null };
    }
    if (step === undefined && (this.panel.hasAnswer(index) || !mark.place)) {
      this.panel.showMark(index);
      this.panel.root.scrollTop = 0;
    }
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
    const chips = (from, to) => marks.slice(from, to).map((_, index) => this.panel.chip(index + from));
    bar.append(...chips(0, FIRST_CHIPS));
    if (marks.length > FIRST_CHIPS) {
      const more = h("button", { class: "chip more", onclick: () => {
        more.remove();
        bar.append(...chips(FIRST_CHIPS, MOST_CHIPS));
      } }, `${marks.length - FIRST_CHIPS} more`);
      bar.append(more);
    }
  }

  listenToButtons() {
    const click = (name, action) => byId(name).addEventListener("click", action);
    click("first", () => this.move(0));
    click("back", () => this.walk(-1));
    click("play", () => this.play());
    click("next", () => this.walk(1));
    click("last", () => this.move(this.total));
    click("zoom-in", () => this.graph.camera.zoom(ZOOM, null, true));
    click("zoom-out", () => this.graph.camera.zoom(1 / ZOOM, null, true));
    click("zoom-fit", () => this.graph.fit());
    click("theme", toggleTheme);
    click("help-button", showHelp);
    byId("slider").addEventListener("input", (event) => this.move(Number(event.target.value)));
    byId("follow").addEventListener("change", () => {
      if (this.position) this.show(this.groupFor(this.currentItem()));
      const shown = this.story.boxIn(this.graph.picture, this.currentItem());
      if (shown !== null) this.graph.reveal(shown);
    });
    click("tab-step", () => showTab("step"));
    click("tab-source", () => {
      showTab("source");
      this.source.point("current", this.placeOf(this.currentItem()), true); // it was out of sight
    });
    listenToDivider(byId("divider-source"), byId("source-pane"), 1);
    listenToDivider(byId("divider-step"), byId("panel"), -1);
    window.addEventListener("beforeprint", () => this.graph.forPaper(true));
    window.addEventListener("afterprint", () => this.graph.forPaper(false));
  }
}

function showTab(name) {
  document.body.dataset.tab = name;
  for (const other of ["step", "source"]) {
    byId(`tab-${other}`).setAttribute("aria-pressed", String(other === name));
  }
}

const started = performance.now();
restoreTheme();
showTab("step");
// page.html?embed, for documents: the graph, the step and the buttons, without what is around them.
if (new URLSearchParams(location.search).has("embed")) document.documentElement.dataset.embed = "";
new Page(JSON.parse(byId("story").textContent), Number(byId("story").dataset.pass));
document.documentElement.dataset.ready = (performance.now() - started).toFixed(0);
