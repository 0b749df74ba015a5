// Follow the theme of the system until the user selects one.
{
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const other = () => (isDark() ? "Light page" : "Dark page");
  const button = tool(other(), () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    button.textContent = other();
  });
  system.addEventListener("change", () => (button.textContent = other()));
  document.querySelector("header nav").append(button);
}
// Highlights the row of the mark below the pointer, and the marks and the folded cells of the row below it. The labels of a figure and of the
// table of the same workload agree unless the figure shows only a selection, whose labels are shorter.
for (const { table } of tables) {
  const rows = new Map([...table.tBodies[0].rows].map((row) => [row.dataset.label, row]));
  const figures = [...table.closest("section").querySelectorAll("figure[data-workload]")].filter((figure) => figure.dataset.workload === table.dataset.workload);
  let marks;
  // Returns the marks by row. The marks are collected on the first use, because a page can have thousands.
  const marksOf = (row) => {
    marks ??= figures.flatMap((figure) => [...figure.querySelectorAll("g")]).map((mark) => [rowOf(mark), mark]);
    return marks.filter(([of]) => of === row).map(([, mark]) => mark);
  };
  const rowOf = (mark) => {
    const title = mark.querySelector("title")?.textContent ?? "";
    for (let end = title.length; end > 0; end = Math.max(title.lastIndexOf(":", end - 1), title.lastIndexOf(",", end - 1))) {
      const row = rows.get(title.slice(0, end));
      if (row) return row;
    }
  };
  let linked = [];
  const show = (row) => {
    linked.forEach((element) => element.classList.remove("linked"));
    const cell = row && document.getElementById(row.querySelector("a")?.hash.slice(1));
    linked = row ? [row, ...marksOf(row), ...(cell ? [cell] : [])] : [];
    linked.forEach((element) => element.classList.add("linked"));
  };
  table.addEventListener("pointerover", (event) => show(event.target.closest("tbody tr[id]")));
  table.addEventListener("pointerleave", () => show());
  for (const figure of figures) {
    figure.addEventListener("pointerover", (event) => show(event.target.closest("svg g") && rowOf(event.target.closest("svg g"))));
    figure.addEventListener("pointerleave", () => show());
  }
}
// The details of cells are stored as tables of indices into texts. The tables of a cell are created when it is unfolded.
const facts = document.getElementById("facts");
let fill = () => {};
if (facts) {
  const { texts: strings, tables: parts, cells } = JSON.parse(facts.textContent);
  const line = (row, headings) => {
    const tr = document.createElement("tr");
    row.forEach((text, column) => {
      const cell = element(headings || column === 0 ? "th" : "td", { textContent: strings[text] });
      if (cell.tagName === "TH") cell.scope = headings ? "col" : "row";
      tr.append(cell);
    });
    return tr;
  };
  fill = (details) => {
    for (const number of details.dataset.filled ? [] : cells[details.dataset.cell]) {
      const [title, headings, rows] = parts[number];
      const scroll = element("div", { className: "scroll", tabIndex: 0, role: "region" });
      scroll.setAttribute("aria-label", strings[title]);
      const table = element("table", {}, element("caption", { textContent: strings[title] }));
      if (headings.length) table.createTHead().append(line(headings, true));
      table.createTBody().append(...rows.map((row) => line(row, false)));
      scroll.append(table);
      details.append(scroll);
    }
    details.dataset.filled = "yes";
  };
  for (const details of document.querySelectorAll("details.cell")) {
    details.addEventListener("toggle", () => details.open && fill(details));
  }
}
// A link to a row or to a folded part unfolds and highlights it.
const land = () => {
  document.querySelector(".target")?.classList.remove("target");
  const target = document.getElementById(address().target);
  if (!target?.closest("details, tr")) return;
  for (let at = target.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
  if (target.matches(".cell")) fill(target);
  if (target.matches("tr")) {
    tables.forEach(({ reveal }) => reveal(target));
    target.style.scrollMarginTop = `${target.closest("table").tHead.offsetHeight}px`;
  }
  target.classList.add("target");
  target.scrollIntoView({ behavior: "instant" });
  target.querySelector("summary, .row-link")?.focus({ preventScroll: true });
};
// A link within the page keeps the state of the tables.
addEventListener("hashchange", () => {
  const { parameters } = address();
  if (parameters) {
    view = parameters;
    tables.forEach(({ refresh }) => refresh());
  } else if (String(view)) {
    save();
  }
  land();
});
land();
// Adds a button to each command.
for (const command of document.querySelectorAll("[data-copy]")) {
  command.after(tool("Copy", (button) => copy(command.textContent, button)));
}
