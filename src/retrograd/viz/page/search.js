// Search: a list of what was found, and the boxes of it marked.

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
    item.module, shapeText(item.shape), item.place ? `line ${item.place[1]}` : null, at ? `step ${at}` : null]
    .filter(Boolean).join(" · ")));
}

function footnote(count) {
  if (count && count <= MOST_FOUND) return [];
  return [h("li", { class: "quiet note", role: "presentation" },
    count ? `${count.toLocaleString("en")} matches; the first ${MOST_FOUND} are listed`
      : "No matches.")];
}

function clearSearch(page) {
  byId("search").value = "";
  byId("found").hidden = true;
  byId("search").setAttribute("aria-expanded", "false");
  page.found = null;
  page.graph.mark("match", []);
}
