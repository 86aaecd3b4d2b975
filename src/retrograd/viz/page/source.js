// The program: its lines, with what they made and how far the pass has come.

const QUOTED = [
  /'''[\s\S]*?(?:'''|$)/, /"""[\s\S]*?(?:"""|$)/, /'(?:\\.|[^'\\\n])*'?/, /"(?:\\.|[^"\\\n])*"?/,
].map((one) => one.source).join("|");
const TOKENS = new RegExp([
  "(?<comment>#[^\\n]*)",
  `(?<string>(?:\\b[rRbBfFuU]{1,2})?(?:${QUOTED}))`,
  "(?<keyword>\\b(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else"
    + "|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try"
    + "|while|with|yield)\\b)",
  "(?<number>\\b\\d[\\d_]*(?:\\.[\\d_]*)?(?:[eE][-+]?\\d+)?j?\\b)",
].join("|"), "g");

const BLOCK = 50; // lines

/** The lines of a program as lists of [kind, text]. */
function coloured(lines) {
  const found = [[]];
  const put = (kind, text) => text.split("\n").forEach((piece, number) => {
    if (number) found.push([]);
    if (piece) found.at(-1).push([kind, piece]);
  });
  const text = lines.map((line) => line.replace(/[\r\n]+$/, "").replaceAll("\n", " ")).join("\n");
  let at = 0;
  for (const match of text.matchAll(TOKENS)) {
    put("", text.slice(at, match.index));
    const kind = Object.entries(match.groups).find(([, piece]) => piece !== undefined)[0];
    put(kind, match[0]);
    at = match.index + match[0].length;
  }
  put("", text.slice(at));
  return found;
}

class SourceView {
  constructor(story, on) {
    Object.assign(this, { story, on });
    this.lines = byId("lines");
    this.tabs = byId("files");
    this.file = null;
    this.rows = new Map();
    this.lines.addEventListener("click", (event) => {
      const row = event.target.closest(".line");
      if (row && !getSelection().toString()) this.on.pickLine([this.file, Number(row.dataset.line)]);
    });
    this.story.files.forEach((file, index) => {
      if (!file.lines.length) return; // a library's, not the program's
      this.tabs.append(h("button", {
        class: "file", title: file.name, data: { file: index },
        onclick: () => { this.show(index); this.on.fileShown(); },
      }, file.name));
    });
    const first = this.story.files.findIndex((file) => file.lines.length);
    if (first >= 0) this.show(first);
    else this.lines.append(h("p", { class: "quiet empty" }, "The source was not found."));
  }

  show(index) {
    if (index === this.file || !this.story.files[index]?.lines.length) return;
    this.file = index;
    for (const tab of this.tabs.children) {
      tab.setAttribute("aria-pressed", String(Number(tab.dataset.file) === index));
    }
    const file = this.story.files[index];
    this.rows = new Map();
    const first = file.first_line ?? 1;
    const rows = coloured(file.lines).map((pieces, offset) => {
      const number = first + offset;
      const made = (this.story.byLine.get(`${index}:${number}`) ?? []).length;
      const code = h("code", { dir: "ltr" }, pieces.map(([kind, text]) =>
        (kind ? h("span", { class: `t-${kind}` }, text) : text)));
      const row = h("div", {
        class: made ? "line made" : "line", data: { line: number },
        title: made ? `computed ${plural(made, "node", "nodes")}` : null,
      }, h("span", { class: "number" }, number), h("span", { class: "dot", "aria-hidden": "true" }), code);
      this.rows.set(number, { row, state: "none" });
      return row;
    });
    // In blocks: a browser leaves out of its work those that are not in sight.
    const blocks = Array.from({ length: Math.ceil(rows.length / BLOCK) }, (_, number) =>
      h("div", { class: "block" }, rows.slice(number * BLOCK, (number + 1) * BLOCK)));
    this.lines.replaceChildren(...blocks);
    this.current = this.picked = null;
    this.warn(this.wrong);
  }

  /** Mark the lines that caused the error of a pass. */
  warn(wrong) {
    this.wrong = wrong ?? [];
    for (const row of this.lines.querySelectorAll(".wrong")) {
      row.classList.remove("wrong");
      row.querySelector(".what").remove();
    }
    for (const { what, place } of this.wrong) {
      const known = place[0] === this.file ? this.rows.get(place[1]) : null;
      if (!known || known.row.classList.contains("wrong")) continue;
      known.row.classList.add("wrong");
      known.row.append(h("span", { class: "what" }, `✕ ${what}`));
    }
  }

  /** Shade lines by how far the pass has come: those given, or all. */
  update(times, position, keys) {
    const all = keys ?? [...this.rows.keys()].map((line) => `${this.file}:${line}`);
    for (const key of all) {
      const [file, line] = key.split(":").map(Number);
      const known = file === this.file ? this.rows.get(line) : null;
      if (!known) continue;
      const state = stateAt(times.lines.get(key), position);
      if (state !== known.state) {
        known.state = state;
        known.row.dataset.state = state;
      }
    }
  }

  /** Say which line is the current one, and bring it into sight. */
  point(name, place, follow) {
    this[name]?.classList.remove(name);
    this[name] = null;
    if (!place || place[0] !== this.file) return;
    const known = this.rows.get(place[1]);
    if (!known) return;
    known.row.classList.add(name);
    this[name] = known.row;
    if (follow) this.reveal(known.row);
  }

  /** Scroll only the list, and only if needed: the page itself stays where it is. */
  reveal(row) {
    const [frame, own] = [this.lines.getBoundingClientRect(), row.getBoundingClientRect()];
    if (own.top < frame.top + 24 || own.bottom > frame.bottom - 24) {
      this.lines.scrollTop += own.top - frame.top - frame.height / 3;
    }
  }

  /** The next line that made something, for the keyboard. */
  neighbour(line, direction) {
    const made = [...this.rows.keys()].filter((n) => this.story.byLine.has(`${this.file}:${n}`));
    const next = direction > 0 ? made.find((n) => n > line) : made.findLast((n) => n < line);
    return next === undefined ? null : [this.file, next];
  }
}
