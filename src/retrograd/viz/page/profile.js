// The page of a profile: the whole in numbers, and five views of it.

const VIEWS = [["line", "Lines"], ["operation", "Operations"], ["module", "Modules"],
  ["flame", "Flame graph"], ["timeline", "Timeline"]];
const KEYS = [
  [["1", "…", "5"], "lines, operations, Modules, flame graph, timeline"],
  [["/"], "filter the table"],
  [["↑", "↓", "←", "→"], "from frame to frame in the flame graph; move the timeline"],
  [["Enter"], "zoom in on a frame"],
  [["Esc"], "the frame around it"],
  [["+", "−", "0"], "zoom the timeline in, out, all of it"],
  [["n", "p"], "next, previous event of the timeline"],
  [["t"], "light or dark"],
  [["?"], "these keys"],
];

class ProfilePage {
  constructor() {
    restoreTheme();
    this.showWhole();
    byId("views").append(...VIEWS.map(([name, title]) => h("button", { id: `tab-${name}`, role: "tab",
      "aria-controls": `view-${name}`, onclick: () => this.show(name) }, title)));
    for (const kind of ["line", "operation", "module"]) new Table(kind);
    this.flame = new Flame();
    this.timeline = new Timeline();
    byId("theme").addEventListener("click", toggleTheme);
    byId("help-button").addEventListener("click", () => this.help());
    document.addEventListener("keydown", (event) => this.key(event));
    const asked = location.hash.slice(1);
    this.show(VIEWS.some(([name]) => name === asked) ? asked : "line");
    document.documentElement.dataset.ready = "";
  }

  showWhole() {
    const { rows, outside, leftOut } = data.tables.line;
    const sum = (name) => rows.reduce((total, row) => total + row[name], 0);
    const parts = [["operation", "Forward", sum("forward") + leftOut - data.steps],
      ["backward", "Backward", sum("backward")], ["step", "Optimizer steps", data.steps],
      ["outside", OUTSIDE, outside], ["own", "The profiler itself", data.profiler]];
    byId("stacked").append(...pieces(parts.map(([kind, , time]) => [kind, time]), data.total));
    const tile = (kind, title, value, more) => h("div", null,
      h("dt", null, kind ? h("i", { class: `dot ${kind}` }) : null, title),
      h("dd", null, value, more ? h("small", null, ` ${more}`) : null));
    byId("tiles").append(tile(null, "Wall time", timeText(data.total)),
      ...parts.map(([kind, title, time]) => tile(kind, title, timeText(time), percent(time))),
      data.bytes === null ? "" : tile(null, "Peak memory", bytesText(data.peak)));
  }

  show(name, focus = false) {
    this.view = name;
    for (const [other] of VIEWS) {
      const isShown = other === name;
      byId(`view-${other}`).hidden = !isShown;
      byId(`tab-${other}`).setAttribute("aria-selected", isShown);
      byId(`tab-${other}`).tabIndex = isShown ? 0 : -1;
    }
    if (focus) byId(`tab-${name}`).focus();
    byId(`tab-${name}`).scrollIntoView({ block: "nearest", inline: "nearest" });
    if (!isFramed) history.replaceState(null, "", `#${name}`);
  }

  help() {
    if (!byId("keys").childElementCount) {
      byId("keys").append(...KEYS.flatMap(([keys, words]) => [
        h("dt", null, keys.map((key) => (key === "…" ? "…" : h("kbd", null, key)))),
        h("dd", null, words)]));
    }
    byId("help").showModal();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const { target, key } = event;
    if (target.matches("input")) {
      if (key === "Escape") target.blur();
      return;
    }
    const numbered = VIEWS[Number(key) - 1];
    const inTabs = target.matches("[role=tab]");
    const at = VIEWS.findIndex(([name]) => name === this.view);
    const beside = { ArrowLeft: VIEWS.at(at - 1), ArrowRight: VIEWS[(at + 1) % VIEWS.length],
      Home: VIEWS[0], End: VIEWS.at(-1) }[key];
    if (inTabs && beside) this.show(beside[0], true);
    else if (numbered) this.show(numbered[0]);
    else if (key === "t") toggleTheme();
    else if (key === "?") this.help();
    else if (key === "/") document.querySelector(".view:not([hidden]) .filter")?.focus();
    else if (this.view === "flame" && /^(Arrow|Enter|Esc)/.test(key) && !target.matches("button")) {
      this.flame.key(event);
      return;
    } else if (!(this.view === "timeline" && this.timeline.key(event))) return;
    event.preventDefault();
  }
}

new ProfilePage();
