// What boxes show inside: the value of a tensor, and its gradient or tangent, as far as the run has
// come.

const [FEW_ENTRIES, LONGEST_LIST] = [4, 26]; // as in _pass_values.py

/** A number in four digits. */
function few(entry) {
  if (Array.isArray(entry)) {
    const [real, imaginary] = entry.map(few);
    return `${real}${/^-/.test(imaginary) ? "" : "+"}${imaginary}i`;
  }
  if (!isNumber(entry)) return exact(entry);
  const size = Math.abs(entry);
  return size && (size < 1e-4 || size >= 1e5) ? entry.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e")
    : String(Number(entry.toPrecision(4)));
}

/** A value in one short line: its entries if they are few, otherwise the range. As _text.py
 *  has it. */
function lineOf(value) {
  if (!value) return "";
  if (value.data && !value.shape.length) return few(value.data[0]);
  const all = value.data && value.data.length <= FEW_ENTRIES ? `[${value.data.map(few).join(", ")}]` : "";
  if (all && all.length <= LONGEST_LIST) return all;
  const known = (x) => x !== null && x !== undefined;
  if (!known(value.min)) return known(value.norm) ? `norm ${few(value.norm)}` : "";
  const odd = ["nan", "inf"].filter((kind) => value[kind]).map((kind) => `${value[kind]} ${kind}`);
  return [`${few(value.min)} … ${few(value.max)}`, ...odd].join(", ");
}

class Inside {
  constructor(story) {
    this.story = story;
    this.known = new Map(); // what happens to items in a pass
  }

  /** Say where the page is. */
  at(pass, phase, position) {
    Object.assign(this, { pass, phase, position });
    // How many steps of the backward pass have run.
    this.arrived = phase === "backward" ? position : phase === "forward" ? 0 : Infinity;
    if (!this.known.has(pass)) this.known.set(pass, this.events(pass));
    this.now = this.known.get(pass);
  }

  /** For each item of a pass, what it comes to and when: [position, value]. */
  events(pass) {
    const found = { computed: new Map(), gradients: new Map(), tangents: new Map(), updates: new Map(),
      before: new Map() };
    for (const { name, steps } of this.story.phasesOf(pass)) {
      steps.forEach((step, index) => {
        const at = index + 1;
        if (name === "forward") {
          step.results.forEach((id, number) => {
            found.computed.set(id, at);
            if (step.tangents?.[number]) listIn(found.tangents, id).push([at, step.tangents[number]]);
          });
          for (const { item, tangent } of step.inputs) {
            if (tangent && !found.computed.has(item)) found.tangents.set(item, [[0, tangent]]);
          }
        } else if (name === "update") listIn(found.updates, step.item).push([at, step.after]);
        else if (step.accumulate) {
          listIn(found.gradients, step.item).push([at, step.accumulate.after]);
          if (!found.before.has(step.item)) found.before.set(step.item, step.accumulate.before);
        } else if (step.incoming?.length === 1) {
          const results = (this.story.outputs.get(step.item) ?? [])
            .filter((id) => this.story.items.get(id).kind === "intermediate");
          for (const id of results) listIn(found.gradients, id).push([at, step.incoming[0]]);
        }
      });
    }
    return found;
  }

  /** The value and the gradient of an item now, as lines. */
  texts(id) {
    const value = lineOf(this.valueNow(id));
    const gradient = lineOf(this.last(this.now.gradients.get(id), this.arrived) ?? this.now.before.get(id));
    const moved = lineOf(this.last(this.now.tangents.get(id), this.phase === "forward" ? this.position : Infinity));
    return [value ? `= ${value}` : "", gradient ? `grad ${gradient}` : moved ? `tangent ${moved}` : ""];
  }

  valueNow(id) {
    const { computed, updates } = this.now;
    if (this.phase === "forward" && computed.get(id) > this.position) return null;
    const changed = this.phase === "update" ? this.last(updates.get(id), this.position) : null;
    return changed ?? this.story.valueIn(id, this.pass);
  }

  last(events, position) {
    return events?.findLast(([at]) => at <= position)?.[1];
  }
}
