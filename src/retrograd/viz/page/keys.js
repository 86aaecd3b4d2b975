// Keys, and the help that lists them.

const ZOOM = 1.3; // by one key

const KEYS = [
  [["→"], "one step on"],
  [["←"], "one step back"],
  [["Home"], "beginning"],
  [["End"], "the last step"],
  [["Space"], "play, pause"],
  [["/"], "search"],
  [["↑", "↓"], "follow edges in the graph, lines in the source"],
  [["n", "p"], "next, previous node of the picture"],
  [["Enter"], "open the selected group, or go to the step of the selected node"],
  [["Esc"], "close, deselect, leave the group"],
  [["+", "−", "0"], "zoom in, zoom out, fit to window"],
  [["f"], "open groups while stepping"],
  [["t"], "light or dark"],
  [["?"], "these keys"],
];

function showHelp() {
  const list = byId("keys");
  if (!list.childElementCount) {
    list.append(...KEYS.flatMap(([keys, words]) => [
      h("dt", null, keys.map((key) => h("kbd", null, key))), h("dd", null, words)]));
  }
  byId("help").showModal();
  byId("help").scrollTop = 0; // the focus is at its end
}

function listenToKeys(page) {
  const { graph, source } = page;
  const actions = {
    ArrowRight: () => page.walk(1),
    ArrowLeft: () => page.walk(-1),
    Home: () => page.move(0),
    End: () => page.move(page.total),
    " ": () => page.play(),
    "/": () => byId("search").focus(),
    "?": showHelp,
    "+": () => graph.camera.zoom(ZOOM, null, true),
    "=": () => graph.camera.zoom(ZOOM, null, true),
    "-": () => graph.camera.zoom(1 / ZOOM, null, true),
    "−": () => graph.camera.zoom(1 / ZOOM, null, true),
    0: () => graph.fit(),
    f: () => byId("follow").click(),
    t: toggleTheme,
    n: () => walk(page, 1),
    p: () => walk(page, -1),
    Escape: () => escape(page),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const { target, key } = event;
    const typing = target.matches("input[type=search], select");
    if (typing) return;
    // A button does what it says on Space and Enter, and the slider moves by itself.
    if ((key === " " || key === "Enter") && target.matches("button, input, summary, a")) return;
    if (target.matches("input[type=range]") && /^(Arrow|Home|End|Page)/.test(key)) return;
    const inGraph = byId("canvas").contains(target);
    const inSource = source.lines.contains(target);
    if (key === "Enter" && inGraph) enter(page);
    else if (key === "ArrowUp" || key === "ArrowDown") {
      const direction = key === "ArrowDown" ? 1 : -1;
      if (inGraph) along(page, direction);
      else if (inSource) alongLines(page, direction);
      else return;
    } else if (actions[key]) actions[key]();
    else return;
    event.preventDefault();
  });
}

function escape(page) {
  if (page.found) clearSearch(page);
  else if (page.picked) page.unpick();
  else page.leave();
}

/** The item that keys start from. */
function here(page) {
  const id = page.picked?.item ?? page.currentItem();
  return id === null ? null : page.story.boxIn(page.graph.picture, id);
}

function look(page, id) {
  page.picked = { ids: [id], place: page.story.items.get(id).place, item: id };
  page.graph.mark("picked", [id]);
  page.source.point("picked", page.picked.place, true);
  page.panel.showItem(id);
  page.graph.reveal(id);
  byId("live").textContent = page.graph.boxes.get(id).description;
}

/** To a neighbour along an edge of the picture: against the data (up) or with it (down). */
function along(page, direction) {
  const id = here(page);
  if (id === null) return walk(page, 1);
  const edges = page.graph.edgesOf.get(id) ?? [];
  const next = edges.map(({ from, to }) => (direction > 0 ? to : from)).find((other) => other !== id);
  if (next !== undefined) look(page, next);
}

function walk(page, direction) {
  const ids = [...page.graph.boxes.keys()];
  if (!ids.length) return;
  const at = ids.indexOf(here(page));
  look(page, ids[(at + direction + ids.length) % ids.length]);
}

function alongLines(page, direction) {
  const line = page.picked?.place?.[1] ?? (direction > 0 ? -Infinity : Infinity);
  const place = page.source.neighbour(line, direction);
  if (!place) return;
  page.pickLine(place);
  const made = page.story.byLine.get(lineKey(place)) ?? [];
  byId("live").textContent = `line ${place[1]}: ${page.story.lineText(place)}, `
    + `computed ${plural(made.length, "node", "nodes")}`;
}

function enter(page) {
  const id = here(page);
  if (id === null) return;
  if (page.story.items.get(id).kind === "group") page.open(id);
  else page.pick(id);
}
