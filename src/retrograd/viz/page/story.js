// What is looked up of a story: items, groups, lines, and when each runs in a pass.

const lineKey = (place) => (place ? `${place[0]}:${place[1]}` : null);

class Story {
  constructor(data) {
    this.data = data;
    this.files = data.files ?? [];
    this.passes = data.passes ?? [];
    this.marks = data.marks ?? [];
    this.items = new Map(data.graph.items.map((item) => [item.id, item]));
    this.pictures = new Map(data.graph.pictures.map((picture) => [picture.group, picture]));
    this.inputs = new Map();
    this.outputs = new Map();
    for (const [from, to] of data.graph.edges) {
      listIn(this.inputs, to).push(from);
      listIn(this.outputs, from).push(to);
    }
    this.byLine = new Map();
    for (const item of this.items.values()) {
      if (item.place && item.kind !== "group") listIn(this.byLine, lineKey(item.place)).push(item.id);
    }
    this.marksOf = new Map();
    this.marks.forEach((mark, index) => {
      if (mark.item === null || mark.item === undefined) return;
      for (let id = mark.item; id !== null && id !== undefined; id = this.items.get(id)?.group) {
        listIn(this.marksOf, id).push(index);
      }
    });
    this.times = new Map();
    this.haystacks = null;
  }

  /** The marks of an item, or of what is in a group, that are true in a pass. */
  marksIn(id, number) {
    return (this.marksOf.get(id) ?? []).filter((index) => {
      const passes = passesOf(this.marks[index]);
      return !passes || passes.includes(number);
    });
  }

  /** The value that a tensor had in the forward run of a pass. */
  valueIn(id, number) {
    const own = this.passes[number]?.values?.[id];
    return own === undefined ? this.items.get(id).value : own;
  }

  /** What an item is called. */
  title(id) {
    const item = this.items.get(id);
    if (!item) return "?";
    return (item.kind === "operation" ? item.label : item.name ?? item.label) || item.kind;
  }

  /** The groups around an item, the outermost first. */
  path(group) {
    const found = [];
    for (let id = group; id !== null && id !== undefined; id = this.items.get(id).group) {
      found.unshift(id);
    }
    return found;
  }

  /** The results of one operation that another takes: what a gradient between the two is for. */
  between(maker, user) {
    const taken = this.inputs.get(user) ?? [];
    return (this.outputs.get(maker) ?? []).filter((id) => taken.includes(id));
  }

  /** The box that stands for an item in a picture: its own, or that of a group around it. */
  boxIn(picture, id) {
    while (id !== null && id !== undefined) {
      if (picture.boxes[id]) return id;
      id = this.items.get(id)?.group;
    }
    return null;
  }

  placeText(place) {
    return place ? `${this.files[place[0]]?.name ?? "?"}:${place[1]}` : "";
  }

  /** What happens in a pass, one after the other: the forward run, the backward pass, and the
   *  steps of optimizers. Each has steps; what has none is left out. */
  phasesOf(number) {
    const pass = this.passes[number];
    const all = { forward: pass ? pass.forward : this.data.forward, backward: pass?.steps, update: pass?.updates };
    return Object.entries(all).map(([name, steps]) => ({ name, steps: steps ?? [] }))
      .filter(({ name, steps }) => steps.length || (pass && name === "backward"));
  }

  /** Whether an item has a step in some phase of a pass. */
  hasStep(id, number) {
    return this.phasesOf(number).some(({ name }) => this.timesOf(number, name).items.has(id));
  }

  /** The positions (from 1) at which things run in a phase of a pass. Computed once for each. */
  timesOf(number, phase = "backward") {
    const key = `${number} ${phase}`;
    if (this.times.has(key)) return this.times.get(key);
    const times = { pass: number, phase, items: new Map(), lines: new Map() };
    this.times.set(key, times);
    const { steps } = this.phasesOf(number).find(({ name }) => name === phase) ?? { steps: [] };
    steps.forEach((step, index) => {
      const item = this.items.get(step.item);
      for (let id = step.item; id !== null && id !== undefined; id = this.items.get(id)?.group) {
        listIn(times.items, id).push(index + 1);
      }
      const place = step.place ?? (item?.kind === "operation" ? item.place : null);
      if (place) listIn(times.lines, lineKey(place)).push(index + 1);
    });
    // A result has no step: its gradient is what arrives where it was made.
    for (const item of this.items.values()) {
      if (item.kind !== "intermediate" || times.items.has(item.id)) continue;
      const maker = (this.inputs.get(item.id) ?? []).find((id) => times.items.has(id));
      if (maker === undefined) continue;
      const made = times.items.get(maker); // many times, if it is a group
      times.items.set(item.id, made.length > 1 ? made.slice(0, 1) : made);
    }
    return times;
  }

  /** Items whose texts have every word of a query. */
  find(query, number) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    this.haystacks ??= this.makeHaystacks();
    const squeezed = query.toLowerCase().replace(/\s+/g, "");
    const isShape = /^[[(]?\d+([,x×]\d+)*,?[\])]?$/.test(squeezed) && /[[(,x×]/.test(squeezed);
    const shape = isShape ? ` [${squeezed.match(/\d+/g).join(",")}] ` : null;
    const found = [];
    for (const [id, text] of this.haystacks) {
      if (shape ? text.includes(shape) : words.every((word) => text.includes(word))) found.push(id);
    }
    const first = this.timesOf(number).items;
    // What is called so comes before what only mentions it, and what runs earlier before the rest.
    const rank = new Map(found.map((id) => {
      const title = this.title(id).toLowerCase();
      const far = title === query.trim().toLowerCase() ? 0 : title.includes(words[0]) ? 1 : 2;
      return [id, [far, first.get(id)?.[0] ?? 1e9]];
    }));
    return found.sort((a, b) => {
      const [[nearA, atA], [nearB, atB]] = [rank.get(a), rank.get(b)];
      return nearA - nearB || atA - atB || a - b;
    });
  }

  makeHaystacks() {
    const odd = new Map();
    const note = (id, value) => {
      if (hasOdd(value, "nan")) odd.set(id, `${odd.get(id) ?? ""} nan`);
      if (hasOdd(value, "inf")) odd.set(id, `${odd.get(id) ?? ""} inf`);
    };
    for (const pass of this.passes) {
      for (const step of pass.steps) {
        for (const value of step.incoming ?? []) note(step.item, value);
        for (const { value } of step.outgoing ?? []) note(step.item, value);
        for (const { value } of step.saved ?? []) note(step.item, value);
      }
      for (const [id, value] of Object.entries(pass.values ?? {})) note(Number(id), value);
    }
    const found = new Map();
    for (const item of this.items.values()) {
      note(item.id, item.value);
      note(item.id, item.grad);
      const marks = (this.marksOf.get(item.id) ?? []).map((index) => this.marks[index].kind);
      const line = item.place
        ? `line ${item.place[1]} ${this.placeText(item.place)} ${this.lineText(item.place)}` : "";
      found.set(item.id, [item.name, item.label, item.kind, item.module, item.dtype,
        item.shape ? ` [${item.shape.join(",")}] ${item.shape.join("x")} ` : "", line,
        ...marks, odd.get(item.id)].filter(Boolean).join(" ").toLowerCase());
    }
    return found;
  }

  lineText(place) {
    const file = this.files[place[0]];
    return file?.lines?.[place[1] - (file.first_line ?? 1)] ?? "";
  }
}

/** The passes in which a mark is true; null: it is about the whole program. */
const passesOf = ({ passes, step }) => passes ?? (step ? [step[0]] : null);
/** The steps at which a mark is, each with its pass. */
const stepsOf = ({ steps, step }) => steps ?? (step ? [step] : []);

function listIn(map, key) {
  let list = map.get(key);
  if (!list) map.set(key, (list = []));
  return list;
}

/** How many of a sorted list are less than a number. */
function countBelow(list, number) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** waiting, running, done, part (of a group) or none, at a position of the pass. */
function stateAt(times, position) {
  if (!times) return "none";
  const before = countBelow(times, position);
  if (times[before] === position) return "running";
  return before === 0 ? "waiting" : before === times.length ? "done" : "part";
}
