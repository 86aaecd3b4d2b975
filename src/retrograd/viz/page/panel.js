// The panel: what happens in this step, and what was picked.

const MARK_WORDS = {
  error: "error",
  nan: "NaN", inf: "infinite", exploding: "exploding", vanishing: "vanishing", detached: "detached",
  no_grad: "no_grad", unused: "unused", memory: "memory", warning: "warning", summed: "added up",
  differs: "differs", not_stepped: "not trained", no_gradient: "no gradient",
};
const KIND_WORDS = {
  operation: "operation", leaf: "leaf", data: "data, no gradient", intermediate: "result",
  group: "group",
};
const MOST_PARTS = 20; // of a sum that are listed
const MOST_ANSWERS = 3; // that are shown before the first step
const TO_DO = "What to do: ";

class Panel {
  constructor(story, on) {
    Object.assign(this, { story, on });
    this.words = new Words(story);
    this.root = byId("panel");
    this.pickedCard = h("div", { class: "picked-card" });
    this.step = h("article", { class: "step-card" });
    this.grads = h("section", { class: "card grads" });
    this.shown = null; // the item whose card is open
    this.root.append(this.pickedCard, this.step, this.grads);
  }

  // -- pieces ------------------------------------------------------------------------------------

  link(id) {
    const item = this.story.items.get(id);
    if (!item) return h("span", null, "the start of the pass");
    return h("button", { class: `link ${item.kind}`, data: { item: id }, onclick: () => this.on.goTo(id) },
      h("bdi", null, this.story.title(id)));
  }

  placeLink(place) {
    if (!place) return null;
    return h("button", { class: "place", onclick: () => this.on.pickLine(place) },
      h("bdi", null, this.story.placeText(place)));
  }

  card(title, kind, ...content) {
    return h("section", { class: `card ${kind}` }, h("h3", null, title), ...content);
  }

  chip(index) {
    const mark = this.story.marks[index];
    const of = this.story.items.has(mark.item) ? this.story.title(mark.item) : "";
    return h("button", {
      class: `chip ${mark.kind}`, title: mark.text, data: { mark: index },
      onclick: () => this.on.goToMark(index),
    }, h("span", { class: "sign", "aria-hidden": "true" }, MARK_SIGNS[mark.kind] ?? "!"),
    h("b", null, MARK_WORDS[mark.kind] ?? mark.kind),
    mark.text.includes(of) ? null : h("code", null, h("bdi", null, of)),
    h("bdi", { class: "said" }, mark.text));
  }

  head(item, ...more) {
    return h("header", { class: "head" },
      h("h2", null, h("span", { class: `swatch ${item.kind}`, "aria-hidden": "true" }),
        h("bdi", null, this.story.title(item.id))),
      h("p", { class: "quiet" }, [item.name && item.label !== item.name ? item.label : null,
        item.module ? `module ${item.module}` : null,
        item.shape ? `${item.dtype ?? ""} ${shapeText(item.shape)}` : null]
        .filter(Boolean).map((text, i) => [i ? " · " : "", h("bdi", null, text)]).flat(),
      item.place && (item.name || item.module || item.shape) ? " · " : "", this.placeLink(item.place)),
      ...more);
  }

  // -- a step ------------------------------------------------------------------------------------

  showStep(pass, phase, steps, position) {
    const step = position ? steps[position - 1] : null;
    const lost = position > 1 ? step.number - steps[position - 2].number - 1 : 0;
    this.step.replaceChildren(...(!step ? this.overview(pass) : phase === "forward" ? forwardCards(this, step)
      : phase === "update" ? updateCards(this, step) : this.stepCards(step, pass, lost)));
    this.step.dataset.phase = phase;
    this.step.dataset.step = position;
    this.root.scrollTop = 0;
  }

  stepCards(step, pass, lost) {
    const item = this.story.items.get(step.item);
    return [
      this.head(item, step.name ? h("p", { class: "quiet" }, h("code", null, h("bdi", null, step.name))) : null,
        h("div", { class: "chips" }, this.marksAt(step).filter((i) => !this.hasAnswer(i))
          .map((i) => this.chip(i)))),
      ...this.marksAt(step).filter((i) => this.hasAnswer(i)).map((i) => this.answer(i)),
      step.done === false ? this.trouble("An error ended the pass here.", pass.error) : null,
      lost > 0 ? h("p", { class: "quiet lost" }, `${plural(lost, "step", "steps")} before this one `
        + `${lost === 1 ? "was" : "were"} not kept.`) : null,
      this.card("Incoming gradient", "arrives", h("p", { class: "says" }, this.words.arriving(step, pass)),
        ...this.incoming(step),
        step.captured ? h("p", { class: "quiet" }, "autograd.grad returns this gradient.") : null),
      step.rule ? this.rule(step.rule, Object.entries(step.options ?? {})) : null,
      step.saved?.length ? this.card("Values saved in the forward pass", "uses",
        step.saved.map(({ name, variable, value }) =>
          this.named(variable ?? name, value, "saved", variable ? name : null))) : null,
      step.outgoing?.length ? this.card("Outgoing gradients", "leaves",
        step.outgoing.map((one) => this.leaving(one, step.item))) : null,
      step.accumulate ? this.accumulation(step.accumulate) : null,
    ].filter(Boolean);
  }

  /** What stands out in this step, or of this operation in the forward run. */
  marksAt(step) {
    const always = this.story.marksIn(step.item, this.pass).filter((index) => {
      const { kind, step: at } = this.story.marks[index];
      return !at && kind !== "memory";
    });
    const here = (step.marks ?? []).filter((index) => this.story.marks[index].kind !== "error");
    return [...new Set([...here, ...always])].slice(0, 12);
  }

  rule({ words, formulas, named, numbers, source }, options) {
    return this.card("Rule", "rule", h("p", { class: "words" }, h("bdi", null, words ?? "")),
      (formulas ?? []).map((formula, i) => this.formula(named?.[i] ?? formula, numbers?.[i])),
      options.length ? h("p", { class: "quiet with" }, "with ",
        code(options.map(([name, text]) => `${name}=${text}`).join(", "))) : null,
      source ? h("pre", { class: "rule-source", dir: "ltr" }, source) : null);
  }

  /** A formula in names, and below it in numbers. */
  formula(text, numbers) {
    if (!text) return null;
    const sign = numbers && !numbers.startsWith("[") ? "= " : "";
    return [h("p", { class: "formula", dir: "ltr" }, text),
      numbers ? h("p", { class: "formula numbers", dir: "ltr" }, sign + numbers) : null];
  }

  /** What arrives, in its parts, and as hooks left it where they changed it. */
  incoming(step) {
    if (!step.arrived) return this.arriving(step, step.incoming ?? [], "incoming");
    return [...this.arriving(step, step.arrived, "arrived"),
      h("p", { class: "quiet hooked" }, "A hook changed it to:"),
      ...step.incoming.map((value) => h("div", { class: "entry" }, valueView(value, "incoming")))];
  }

  arriving(step, values, role) {
    const parts = step.parts ?? [];
    const shown = values.map((value, number) => h("div", { class: "entry" },
      values.length > 1 ? h("span", { class: "which" }, `output ${number}`) : null,
      valueView(value, role)));
    if (parts.length < 2) {
      if (parts.length === 1) {
        shown.push(h("p", { class: "quiet from" }, "from ", this.link(parts[0].from)));
      }
      return shown;
    }
    if (values.length === 1 && values[0] && parts.every(({ value }) => value?.shape.length === 0)) {
      return [this.sum(parts, values[0], role)];
    }
    return [...shown, h("details", { class: "parts", open: parts.length <= 3 },
      h("summary", null, `the sum of ${plural(parts.length, "gradient", "gradients")}`),
      parts.slice(0, MOST_PARTS).map(({ from, output, value }) => h("div", { class: "entry part" },
        h("span", { class: "which" }, "from ", this.link(from),
          values.length > 1 ? ` for output ${output ?? 0}` : null), valueView(value, "part"))), this.others(parts))];
  }

  /** 3.0 + 1.5 = 4.5 */
  sum(parts, total, role) {
    const pieces = [];
    parts.slice(0, MOST_PARTS).forEach(({ from, value }, number) => {
      if (number) pieces.push(h("span", { class: "sign" }, "+"));
      pieces.push(h("span", { class: "term" },
        h("span", { data: { role: "part" } }, entryView("span", value.data[0], value.dtype, 0)),
        h("small", null, "from ", this.link(from))));
    });
    return h("div", { class: "sum" }, pieces, this.others(parts),
      h("span", { class: "sign" }, "="), valueView(total, role));
  }

  /** How many parts of a sum are not listed. */
  others(parts) {
    const more = parts.length - MOST_PARTS;
    return more > 0 ? h("p", { class: "quiet others" }, `and ${more.toLocaleString("en")} more`) : null;
  }

  named(name, value, role, known = null) {
    return h("div", { class: "entry" }, h("span", { class: "which" }, h("bdi", null, name),
      known ? ` (${known} in the rule)` : null), valueView(value, role));
  }

  leaving({ to, value }, from) {
    if (to === null || to === undefined) {
      return h("div", { class: "entry", data: { to: "" } },
        h("span", { class: "which" }, "for an input that needs no gradient: "),
        valueView(value, "outgoing"));
    }
    const names = this.story.between(to, from).map((id) => this.story.items.get(id).name).filter(Boolean);
    return h("div", { class: "entry", data: { to } },
      h("span", { class: "which" }, "→ ", this.link(to), names.length === 1
        ? [", which computed ", code(names[0])] : null), valueView(value, "outgoing"));
  }

  accumulation({ leaf, before, after }) {
    const scalar = after.shape.length === 0;
    return this.card("Accumulation", "accumulates",
      h("p", { class: "says" }, this.words.accumulating({ before })),
      h("p", { class: "which" }, this.link(leaf), h("code", null, ".grad")),
      h("div", { class: scalar ? "change inline" : "change" },
        h("div", null, h("span", { class: "which" }, "before"), valueView(before, "before")),
        h("span", { class: "becomes", "aria-label": "becomes" }, "→"),
        h("div", null, h("span", { class: "which" }, "after"), valueView(after, "after"))));
  }

  // -- causes and cures --------------------------------------------------------------------------

  hasAnswer(index) {
    return this.story.marks[index].why?.length > 0;
  }

  /** What is the matter, where, why, and what to do about it. */
  answer(index) {
    const { kind, text, why, place } = this.story.marks[index];
    return h("section", { class: `card answer ${kind}`, data: { mark: index } },
      h("h3", null, h("span", { class: "sign", "aria-hidden": "true" }, `${MARK_SIGNS[kind] ?? "!"} `),
        MARK_WORDS[kind] ?? kind, place ? [" at ", this.placeLink(place)] : null),
      h("p", { class: "matter" }, h("bdi", null, text)),
      (why ?? []).map((line) => (line.startsWith(TO_DO)
        ? h("p", { class: "cure" }, h("b", null, TO_DO), this.linked(line.slice(TO_DO.length)))
        : h("p", null, this.linked(line)))));
  }

  /** The answers that are worth most: of this pass, or of all of the program. */
  answers(pass) {
    const indices = this.story.marks.keys().filter((i) => this.hasAnswer(i)).toArray();
    const shown = indices.filter((i) => !(pass?.error && this.story.marks[i].kind === "error"
      && passesOf(this.story.marks[i])?.includes(this.pass)));
    const same = new Set(); // an infinity and the NaN that it leads to have one cause
    return shown.filter((i) => {
      const cure = this.story.marks[i].why.at(-1);
      return !same.has(cure) && same.add(cure);
    }).slice(0, MOST_ANSWERS).map((i) => this.answer(i));
  }

  // -- before the first step ---------------------------------------------------------------------

  overview(pass) {
    const { memory, limits } = this.story.data;
    return [
      ...this.answers(pass),
      pass ? this.welcome(pass) : h("header", { class: "head" },
        h("h2", null, this.story.items.size ? "The graph" : "No backward pass"),
        h("p", { class: "quiet" }, this.story.items.size ? "The program ran no backward pass. This is what it "
          + "computed: click a box to see its value, or a line to see what it made."
          : "The program ran no backward pass, so there is no graph to step through."),
        this.story.data.forward?.length ? this.start() : null),
      pass?.left_out ? this.trouble(`The pass took ${plural(pass.count, "step", "steps")}; `
        + `${plural(pass.left_out, "was", "were")} not kept.`) : null,
      pass?.error ? this.trouble("The pass ended in an error.", pass.error) : null,
      limits?.passes_left_out ? h("p", { class: "quiet" },
        `${plural(limits.passes_left_out, "later pass was", "later passes were")} not recorded.`) : null,
      memory?.total ? this.memory(memory) : null,
    ].filter(Boolean);
  }

  /** What is about to happen, and what to press. */
  welcome(pass) {
    const steps = pass.steps.length;
    return h("header", { class: "head welcome" },
      h("h2", null, h("code", null, h("bdi", null, pass.how ?? "backward()"))),
      h("p", { class: "quiet" }, this.placeLink(pass.place), pass.place ? " · " : "",
        plural(steps, "step", "steps"), steps ? [", starting at ", this.link(pass.root)] : null),
      steps ? [
        h("p", { class: "says" }, this.words.beginning(pass)),
        ...(pass.forward?.length ? this.parts(pass) : []),
        this.start(),
      ] : null);
  }

  start() {
    return h("p", { class: "go" },
      h("button", { class: "plain main", onclick: () => this.on.go(1) }, "First step ▶"),
      h("span", { class: "quiet by-key" }, "or press ", h("kbd", null, "→")));
  }

  /** The phases of a pass, in their order. */
  parts(pass) {
    const entry = (phase, steps, text) => (steps?.length ? [h("li", null,
      h("button", { class: "link", onclick: () => this.on.enter(phase) }, PHASE_NAMES[phase]), text)] : []);
    return [h("ol", { class: "parts-of-pass" },
      entry("forward", pass.forward, " computes the values, from the top down."),
      entry("backward", pass.steps, " computes the gradients, from the bottom up."),
      entry("update", pass.updates, " changes the parameters by their gradients."))];
  }

  /** What went wrong, and the message of an error; lines of the program in it are links. */
  trouble(text, message) {
    return h("div", { class: "trouble", role: "note" }, h("p", null, h("bdi", null, text)),
      (message ?? "").split("\n").filter(Boolean).map((line) => h("p", null, this.linked(line))));
  }

  linked(line) {
    const match = /^(.*?\b[aA]t )([^\s:]+):(\d+)(.*)$/.exec(line);
    const name = match?.[2].split(/[\\/]/).at(-1);
    const file = this.story.files.findIndex((one) => one.name === name);
    if (!match || file < 0) return h("bdi", null, line);
    const rest = match[4];
    return [h("bdi", null, match[1]), this.placeLink([file, Number(match[3])]),
      rest.startsWith(": ") ? [": ", code(rest.slice(2))] : this.linked(rest)];
  }

  /** What tells an operation from others of its kind: its Module and its line. */
  where(id) {
    const { module, place } = this.story.items.get(id);
    return [module ? ` ${module}` : "", place ? ` line ${place[1]}` : ""].join("");
  }

  memory({ total, items }) {
    const most = [...(items ?? [])].sort((a, b) => b[1] - a[1]).slice(0, 8);
    const row = ([id, bytes]) => {
      const bar = h("span", { class: "bar-of", "aria-hidden": "true" });
      bar.style.setProperty("--part", `${((bytes / most[0][1]) * 100).toFixed(1)}%`);
      return h("li", null, h("span", { class: "of" }, this.link(id),
        h("span", { class: "quiet" }, this.where(id))), bar,
      h("span", { class: "n" }, bytesText(bytes)));
    };
    return this.card("Kept in memory for the backward pass", "memory-card",
      h("p", null, h("b", null, bytesText(total)), " of values saved for the backward pass"),
      h("ol", { class: "bars" }, most.map(row)));
  }

  // -- what is in .grad now ----------------------------------------------------------------------

  /** Make the list of leaves of a pass, in the order in which they are reached. */
  prepareGrads(number) {
    this.pass = number;
    this.leaves = new Map();
    (this.story.passes[number]?.steps ?? []).forEach((step, index) => {
      if (step.accumulate) listIn(this.leaves, step.accumulate.leaf).push([index + 1, step.accumulate]);
    });
    this.gradRows = new Map();
    const rows = [...this.leaves.keys()].slice(0, 200).map((leaf) => {
      const cell = h("td");
      this.gradRows.set(leaf, cell);
      return h("tr", { data: { leaf } }, h("th", { scope: "row" }, this.link(leaf)), cell);
    });
    this.grads.hidden = !rows.length;
    const more = this.leaves.size - rows.length;
    this.grads.replaceChildren(h("h3", null, h("code", null, ".grad"), " at this point"),
      h("table", { class: "now" }, h("tbody", null, rows)),
      more > 0 ? h("p", { class: "quiet" }, `and ${more} more`) : "");
  }

  /** What .grad holds at a position, for the leaves given or all. */
  updateGrads(position, leaves) {
    this.position = position;
    for (const leaf of leaves ?? this.gradRows.keys()) {
      const cell = this.gradRows.get(leaf);
      if (!cell) continue;
      const [value, since] = this.gradAt(this.leaves.get(leaf));
      cell.replaceChildren(valueInline(value));
      cell.parentElement.classList.toggle("fresh", since === position);
    }
    if (this.leaves.has(this.shown)) this.gradNow.replaceChildren(this.gradOf(this.shown));
  }

  /** What .grad of a leaf holds now; where this pass leaves it alone, at the end of the program. */
  gradOf(leaf) {
    const events = this.leaves.get(leaf);
    if (!events) {
      const { grad } = this.story.items.get(leaf);
      return grad ? this.named(".grad when the recording ended", grad, "grad") : "";
    }
    return this.named(".grad at this point", this.gradAt(events)[0], "grad");
  }

  /** What .grad holds after the last of some events, and at which position it came to that. */
  gradAt(events) {
    const last = events.findLast(([at]) => at <= this.position);
    return last ? [last[1].after, last[0]] : [events[0][1].before, null];
  }

  // -- what was picked ---------------------------------------------------------------------------

  showItem(id) {
    const item = this.story.items.get(id);
    const value = this.story.valueIn(id, this.pass);
    this.shown = id;
    this.gradNow = h("div", null, item.kind === "leaf" ? this.gradOf(id)
      : item.grad ? this.named(".grad", item.grad, "grad") : "");
    const rows = [["is", KIND_WORDS[item.kind] ?? item.kind]];
    if (item.kind === "group") rows.push(["holds", plural(item.count ?? 0, "node", "nodes")]);
    if (item.bytes) rows.push(["keeps", bytesText(item.bytes)]);
    this.pickedCard.replaceChildren(h("section", { class: "card picked", data: { item: id } },
      this.closeButton(),
      this.head(item),
      h("dl", { class: "facts" }, rows.map(([name, text]) => [h("dt", null, name), h("dd", null, text)]).flat()),
      h("div", { class: "chips" }, this.story.marksIn(id, this.pass).slice(0, 6).map((i) => this.chip(i))),
      item.kind === "group" && this.story.pictures.has(id)
        ? h("button", { class: "plain", onclick: () => this.on.open(id) }, "Look into it") : null,
      value ? this.named(this.story.passes.length > 1 ? "value in this pass" : "value", value, "value") : null,
      this.gradNow,
      this.story.hasStep(id, this.pass) ? null : h("p", { class: "quiet" },
        item.kind === "group" || !this.story.passes.length ? "" : "This pass has no step for it.")));
  }

  /** A mark that belongs to no node and no line. */
  showMark(index) {
    this.shown = null;
    this.pickedCard.replaceChildren(h("section", { class: "card picked" }, this.closeButton(),
      this.answer(index)));
  }

  closeButton() {
    return h("button", { class: "close icon", "aria-label": "Close", onclick: () => this.on.pick(null) }, "×");
  }

  showLine(place, ids, times) {
    this.shown = null;
    this.pickedCard.replaceChildren(h("section", { class: "card picked", data: { line: place[1] } },
      this.closeButton(),
      h("h3", null, h("bdi", null, this.story.placeText(place))),
      h("p", { class: "quiet" }, ids.length
        ? `computed ${plural(ids.length, "node", "nodes")}:` : "computed nothing with a gradient."),
      h("ul", { class: "made-list" }, ids.slice(0, 50).map((id) => {
        const item = this.story.items.get(id);
        const at = times.items.get(id)?.[0];
        return h("li", null, this.link(id), h("span", { class: "quiet" },
          ` ${shapeText(item.shape)}${at ? ` step ${at}` : ""}`));
      })),
      ids.length > 50 ? h("p", { class: "quiet" }, `and ${ids.length - 50} more`) : null));
  }

  clearPicked() {
    this.shown = null;
    this.pickedCard.replaceChildren();
  }
}
