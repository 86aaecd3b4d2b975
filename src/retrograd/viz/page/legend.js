// What the looks of the graph mean: in a word below it, and in a sentence in the help.

const MEANINGS = {
  operation: ["operation", "a recorded operation; each step applies the rule of one"],
  leaf: ["leaf", "a tensor that requires a gradient and was not computed, such as a parameter"],
  intermediate: ["result", "the result of an operation"],
  data: ["data", "a tensor that requires no gradient"],
  group: ["group", "many nodes folded into one; double-click to open it"],
};
const STATE_MEANINGS = {
  waiting: "the pass has not reached it yet",
  running: "the current step: gradients arrive along solid lines and leave along dashed ones",
  done: "the pass has run it",
  none: "this pass does not run it",
};

/** Whether there are operations that some pass does not run. */
function isPartial(story) {
  const operations = [...story.items.values()].filter(({ kind }) => kind === "operation");
  return story.passes.some((_, number) =>
    operations.some(({ id }) => !story.timesOf(number).items.has(id)));
}

function showLegend(story) {
  const kinds = new Set(story.data.graph.items.map((item) => item.kind));
  const entries = [
    ...Object.entries(MEANINGS).filter(([kind]) => kinds.has(kind)),
    ...Object.entries(story.passes.length ? STATE_MEANINGS : {})
      .filter(([state]) => state !== "none" || isPartial(story))
      .map(([state, text]) => [`state ${state}`, [STATE_WORDS[state], text]]),
  ];
  const swatch = (looks) => h("span", { class: `swatch ${looks}`, "aria-hidden": "true" });
  byId("legend").append(...entries.map(([looks, [word, text]]) =>
    h("li", { title: text }, swatch(looks), word)));
  byId("meanings").append(...entries.flatMap(([looks, [word, text]]) =>
    [h("dt", null, swatch(looks), word), h("dd", null, text)]));
  byId("follow-label").hidden = story.pictures.size < 2;
}
