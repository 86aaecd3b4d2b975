// Keys, search, the help that lists the keys, and light or dark.

const KEYS = [
  [["→"], "one step on"],
  [["←"], "one step back"],
  [["Home"], "before the first step"],
  [["End"], "the last step"],
  [["Space"], "play, and stop"],
  [["/"], "search"],
  [["↑", "↓"], "follow edges in the graph, lines in the source"],
  [["n", "p"], "the next node of the picture, the previous one"],
  [["Enter"], "open the picked group, or the picked node's step"],
  [["Esc"], "close, let go, leave the group"],
  [["+", "−", "0"], "zoom in, out, show all"],
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
}

function listenToKeys(page) {
  const { graph, source } = page;
  const actions = {
    ArrowRight: () => page.go(page.position + 1),
    ArrowLeft: () => page.go(page.position - 1),
    Home: () => page.go(0),
    End: () => page.go(page.steps.length),
    " ": () => page.play(),
    "/": () => byId("search").focus(),
    "?": showHelp,
    "+": () => graph.zoom(1.3, null, true),
    "=": () => graph.zoom(1.3, null, true),
    "-": () => graph.zoom(1 / 1.3, null, true),
    "−": () => graph.zoom(1 / 1.3, null, true),
    0: () => graph.fit(true),
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
  page.panel.showItem(id, page.times.items.has(id));
  page.graph.reveal(id);
  byId("live").textContent = page.graph.boxes.get(id).node.getAttribute("aria-label");
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
  if (place) page.pickLine(place);
}

function enter(page) {
  const id = here(page);
  if (id === null) return;
  if (page.story.items.get(id).kind === "group") page.open(id);
  else page.pick(id);
}

// -- search --------------------------------------------------------------------------------------

const MOST_FOUND = 40;

function listenToSearch(page) {
  const [input, list] = [byId("search"), byId("found")];
  let chosen = -1;
  const choose = (index) => {
    const options = [...list.querySelectorAll("[role=option]")];
    if (!options.length) return;
    chosen = (index + options.length) % options.length;
    options.forEach((option, i) => option.setAttribute("aria-selected", String(i === chosen)));
    options[chosen].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", options[chosen].id);
  };
  const take = (id) => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.blur();
    page.goTo(id);
  };
  const show = () => {
    chosen = -1;
    const found = page.story.find(input.value, page.pass);
    page.found = input.value.trim() ? found : null;
    page.graph.mark("match", found);
    list.replaceChildren(...found.slice(0, MOST_FOUND).map((id, i) => option(page, id, i, take)),
      ...footnote(found.length));
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    input.removeAttribute("aria-activedescendant");
    if (found.length) choose(0);
  };
  input.addEventListener("input", show);
  input.addEventListener("focus", () => { if (input.value) show(); });
  input.addEventListener("blur", () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Enter" && chosen >= 0) {
      take(Number(list.querySelectorAll("[role=option]")[chosen].dataset.item));
    } else if (event.key === "Escape") {
      clearSearch(page);
      byId("canvas").focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

function option(page, id, number, take) {
  const item = page.story.items.get(id);
  const at = page.times.items.get(id)?.[0];
  return h("li", {
    role: "option", id: `found-${number}`, "aria-selected": "false", data: { item: id },
    onpointerdown: (event) => { event.preventDefault(); take(id); },
  }, h("span", { class: `swatch ${item.kind}`, "aria-hidden": "true" }),
  h("bdi", null, page.story.title(id)),
  h("span", { class: "quiet" }, [item.name && item.label !== item.name ? item.label : null,
    shapeText(item.shape), item.place ? `line ${item.place[1]}` : null, at ? `step ${at}` : null]
    .filter(Boolean).join(" · ")));
}

function footnote(count) {
  if (count && count <= MOST_FOUND) return [];
  return [h("li", { class: "quiet note", role: "presentation" },
    count ? `${count.toLocaleString("en")} in all; the first ${MOST_FOUND} are listed` : "Nothing has these words.")];
}

function clearSearch(page) {
  byId("search").value = "";
  byId("found").hidden = true;
  byId("search").setAttribute("aria-expanded", "false");
  page.found = null;
  page.graph.mark("match", []);
}

// -- light or dark -------------------------------------------------------------------------------

const THEME = "retrograd-theme";

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  storage()?.setItem(THEME, theme);
}

function restoreTheme() {
  const theme = storage()?.getItem(THEME);
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}

/** Where a choice is remembered. A page inside a notebook has no such place and says so by an error. */
function storage() {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
