// The phases of a pass: buttons along the slider, and the panel of a forward step and of an update.

const PHASE_NAMES = { forward: "Forward", backward: "Backward", update: "Update" };

/** A button for each phase, as wide as its part of the slider. */
function showPhases(page) {
  const { phases } = page;
  byId("phases").hidden = phases.length < 2;
  byId("phases").replaceChildren(...phases.map(({ name, steps }) => {
    const button = h("button", { class: "phase", data: { phase: name }, "aria-pressed": "false",
      title: plural(steps.length, "step", "steps"), onclick: () => page.enter(name, 1) }, PHASE_NAMES[name]);
    button.style.flexGrow = steps.length;
    return button;
  }));
}

/** An operation as it runs: what it takes, what it computes, and what comes out. */
function forwardCards(panel, step) {
  const { story } = panel;
  const item = story.items.get(step.item);
  const values = step.results.map((id) => [id, story.valueIn(id, panel.pass)]);
  const isMoving = Boolean(step.tangents);
  return [
    panel.head(item, h("div", { class: "chips" }, panel.marksAt(step).filter((i) => !panel.hasAnswer(i))
      .map((i) => panel.chip(i)))),
    step.formula ? panel.card("Computes", "rule", panel.formula(step.formula, step.numbers)) : null,
    panel.card("Takes", "uses", step.inputs.map((one) => taken(panel, one)),
      step.inputs.length ? null : h("p", { class: "quiet" }, "inputs that are not shown")),
    panel.card(values.length > 1 ? "Results" : "Result", "arrives",
      values.map(([id, value]) => result(panel, id, value))),
    isMoving ? panel.card("Tangent", "moves",
      h("p", { class: "says" }, "How fast the result changes when the inputs change at the rate of their tangents."),
      panel.formula(...(step.moved ?? [])),
      step.tangents.map((value) => h("div", { class: "entry" }, valueView(value, "tangent")))) : null,
  ].filter(Boolean);
}

function taken(panel, { item, number, label, name: expression, tangent }) {
  if (item === null) {
    return h("div", { class: "entry" }, h("span", { class: "which" }, label), h("span", { class: "n" }, number));
  }
  const { name } = panel.story.items.get(item);
  return h("div", { class: "entry" },
    h("span", { class: "which" }, panel.link(item), name ? null : [" ", code(expression ?? label)]),
    valueView(panel.story.valueIn(item, panel.pass), "input"),
    tangent ? [h("span", { class: "which" }, "tangent"), valueView(tangent, "input-tangent")] : null);
}

function result(panel, id, value) {
  const { name } = panel.story.items.get(id);
  return h("div", { class: "entry" }, name ? h("span", { class: "which" }, panel.link(id)) : null,
    value ? valueView(value, "result") : h("p", { class: "quiet" }, "The value was not recorded."));
}

/** What an optimizer makes of a parameter. */
function updateCards(panel, step) {
  const item = panel.story.items.get(step.item);
  const scalar = step.after.shape.length === 0;
  const options = Object.entries(step.options).map(([name, text]) => `${name}=${text}`).join(", ");
  return [
    panel.head(item, h("p", { class: "quiet" }, `a step of ${step.optimizer}`, step.place ? " at " : "",
      panel.placeLink(step.place))),
    panel.card(`Rule of ${step.optimizer}`, "rule",
      step.lines.map(({ formula, numbers }) => panel.formula(formula, numbers)),
      options ? h("p", { class: "quiet with" }, "with ", code(options)) : null),
    panel.card("Gradient", "uses", valueView(step.grad, "update-grad")),
    panel.card("Value", "accumulates", h("div", { class: scalar ? "change inline" : "change" },
      h("div", null, h("span", { class: "which" }, "before"), valueView(step.before, "value-before")),
      h("span", { class: "becomes", "aria-label": "becomes" }, "→"),
      h("div", null, h("span", { class: "which" }, "after"), valueView(step.after, "value-after")))),
    step.left_out ? h("p", { class: "quiet" },
      `${plural(step.left_out, "parameter", "parameters")} of this step ${step.left_out === 1 ? "was" : "were"} not kept.`) : null,
  ].filter(Boolean);
}
