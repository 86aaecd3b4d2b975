// Explanations of steps. Sentences are lists of texts and elements.

const code = (text) => h("code", null, h("bdi", null, text));

class Words {
  constructor(story) {
    this.story = story;
  }

  /** What a pass differentiates. */
  root(pass) {
    const roots = pass.roots ?? [pass.root];
    const name = roots.length === 1 ? this.made(roots[0]) : null;
    return name ?? (roots.length > 1 ? "the results" : "the result");
  }

  /** The name of an operation's result, if it has one, or of a leaf. */
  made(id) {
    const item = this.story.items.get(id);
    if (!item || item.kind === "group") return null; // which of many is not known
    if (item.kind !== "operation") return item.name ? code(item.name) : null;
    const results = (this.story.outputs.get(id) ?? []).map((other) => this.story.items.get(other))
      .filter(({ kind, name }) => kind === "intermediate" && name);
    return results.length === 1 ? code(results[0].name) : null;
  }

  /** Before the first step: what a gradient is, and what to do. */
  beginning(pass) {
    return ["A gradient says how much ", this.root(pass), " changes when a value changes slightly. "
      + "This pass computes the gradient of every value, from the end back to the leaves. Each step "
      + "takes the gradient that arrives at an operation, applies the operation's rule, and passes "
      + "the results on to its inputs."];
  }

  /** What arrives. */
  arriving(step, pass) {
    const item = this.story.items.get(step.item);
    const uses = step.parts?.length ?? 0;
    if (uses < 2 && (pass.roots ?? [pass.root]).includes(step.item) && item.kind !== "group") {
      const [given] = step.incoming;
      return given?.data?.length === 1 && given.data[0] === 1
        ? ["The pass starts here, with 1: the derivative of ", this.root(pass), " with respect to itself."]
        : ["The pass starts here, with the gradient that you passed."];
    }
    const outputs = step.incoming?.length ?? 0;
    const isWeighted = pass.steps[0]?.incoming?.[0]?.shape?.length > 0;
    const entries = step.incoming?.[0]?.shape?.length > 0 ? ", element by element" : "";
    const what = this.made(step.item) ?? (item.kind === "leaf" ? "this leaf"
      : [outputs > 1 ? "each result of " : "the result of ",
        item.kind === "operation" ? code(item.label) : "this operation"]);
    return ["How much ", this.root(pass), isWeighted ? " (weighted as given)" : "", " changes when ",
      what, ` changes${entries}.`,
      uses > 1 && outputs === 1
        ? ` It was used ${uses} times; the gradients of all uses are added.` : ""];
  }

  /** What happens to a gradient at a leaf. */
  accumulating({ before }) {
    return before ? "The gradient is added to the previous value of .grad."
      : "This is a leaf: the gradient is stored in .grad, which was empty.";
  }

  /** A step, for screen readers. */
  spoken(step) {
    const place = step.place ?? this.story.items.get(step.item).place;
    const said = step.rule?.words ?? (step.lines ?? []).map(({ formula, numbers }) =>
      [formula, numbers].filter(Boolean).join(": ")).join("; ");
    return `${this.story.title(step.item)}${place ? `, line ${place[1]}` : ""}. `
      + `${said || [step.formula, step.numbers].filter(Boolean).join(": ")}`;
  }
}
