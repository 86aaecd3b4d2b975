// Tables by line, operation and Module, which sort by any column.

const COLUMNS = [
  { key: "name", title: "", text: (row) => row.name },
  { key: "time", title: "Time", text: (row) => timeText(row.time) },
  { key: "time", title: "Of all", text: (row) => percent(row.time) },
  { key: "forward", title: "Forward", text: (row) => timeText(row.forward), optional: true },
  { key: "backward", title: "Backward", text: (row) => timeText(row.backward), optional: true },
  { key: "bytes", title: "Memory", text: (row) => bytesText(row.bytes) },
  { key: "count", title: "Calls", text: (row) => row.count.toLocaleString("en"), optional: true },
];
const TITLES = { line: "Line", operation: "Operation", module: "Module" };

class Table {
  constructor(kind) {
    this.kind = kind;
    this.table = data.tables[kind];
    this.rows = this.table.rows.map((row) => ({ ...row, time: row.forward + row.backward }));
    this.largest = Math.max(1, ...this.rows.map((row) => row.time));
    this.columns = COLUMNS.filter(({ key }) => key !== "bytes" || data.bytes !== null);
    this.sortBy = "time";
    this.descending = true;
    this.filter = h("input", {
      type: "search", class: "filter", placeholder: "Filter…", "aria-label": `Filter ${kind}s`,
      autocomplete: "off", spellcheck: "false", oninput: () => this.fill() });
    this.body = h("tbody");
    this.head = h("tr");
    byId(`view-${kind}`).append(this.filter, h("div", { class: "scroll" },
      h("table", { class: "rows" }, h("thead", null, this.head), this.body,
        h("tfoot", null, this.last()))));
    this.fillHead();
    this.fill();
  }

  fillHead() {
    let sorted = false;
    const cells = this.columns.map(({ key, title, optional }) => {
      const isSorted = key === this.sortBy && !sorted;
      sorted ||= isSorted;
      const direction = this.descending ? "descending" : "ascending";
      return h("th", { scope: "col", "aria-sort": isSorted ? direction : null,
        class: optional ? "optional" : null },
      h("button", { onclick: () => this.sort(key), "data-key": key },
        title || TITLES[this.kind]));
    });
    cells.splice(1, 0, h("th", { scope: "col", class: "optional" },
      h("span", { class: "unseen" }, "Share, forward and backward")));
    this.head.replaceChildren(...cells);
  }

  sort(key) {
    this.descending = key === this.sortBy ? !this.descending : key !== "name";
    this.sortBy = key;
    const at = [...this.head.querySelectorAll("button")].indexOf(document.activeElement);
    this.fillHead();
    this.head.querySelectorAll("button")[at]?.focus();
    this.fill();
    say(`sorted by ${key}, ${this.descending ? "largest" : "smallest"} first`);
  }

  fill() {
    const wanted = this.filter.value.trim().toLowerCase();
    const shown = this.rows.filter(({ name }) => name.toLowerCase().includes(wanted));
    const way = this.descending ? -1 : 1;
    shown.sort((a, b) => way * (this.sortBy === "name" ? (a.name < b.name ? -1 : 1)
      : a[this.sortBy] - b[this.sortBy]));
    const none = h("tr", null, h("td", { class: "empty", colspan: this.columns.length + 1 },
      wanted ? "No matches." : "Nothing was measured."));
    this.body.replaceChildren(...(shown.length ? shown.map((row) => this.row(row)) : [none]));
  }

  row(row) {
    const cells = this.columns.map(({ key, text, optional }) => (key === "name"
      ? h("td", null, this.name(row.name)) : h("td", { class: optional ? "optional" : null },
        text(row))));
    const bar = h("span", { class: "share" },
      pieces([["operation", row.forward], ["backward", row.backward]], this.largest));
    cells.splice(1, 0, h("td", { class: "optional" }, bar));
    return h("tr", null, cells);
  }

  /** A name; of a line, where it is and then its text. */
  name(name) {
    const [, where, text] = (this.kind === "line" && name.match(/^(.*?:\d+): (.*)$/s)) || [];
    return where ? [h("span", { class: "where" }, `${where} `), h("code", null, text)] : name;
  }

  /** What is in no row: with it, the rows add up to the whole. */
  last() {
    const { outside, outsideBytes, rowsLeftOut, leftOut } = this.table;
    const rows = [[OUTSIDE, outside, outsideBytes], ["the profiler itself", data.profiler, null]];
    if (rowsLeftOut) rows.unshift([`${rowsLeftOut} more`, leftOut, null]);
    return rows.map(([name, time, bytes]) => h("tr", null, h("td", null, name),
      h("td", { class: "optional" }), h("td", null, timeText(time)), h("td", null, percent(time)),
      h("td", { class: "optional" }), h("td", { class: "optional" }),
      data.bytes === null ? null : h("td", null, bytes === null ? "" : bytesText(bytes)),
      h("td", { class: "optional" })));
  }
}
