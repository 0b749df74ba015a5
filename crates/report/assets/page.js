"use strict";
// Sorts a table's measured rows by a column; published rows stay where they are. Rows without a value go last.
for (const table of document.querySelectorAll("table.results")) {
  const body = table.tBodies[0];
  const headings = [...[...table.tHead.rows].at(-1).cells];
  headings.forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.sort;
      const text = (row) => row.cells[column].textContent;
      const order = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === undefined || y === undefined) {
          if (x === y) return (down ? -1 : 1) * text(a).localeCompare(text(b), undefined, { numeric: true });
          return x === undefined ? 1 : -1;
        }
        return (down ? -1 : 1) * (Number(x) - Number(y));
      };
      body.append(...[...body.rows].sort(order));
    });
  });
  const filter = table.closest("section").querySelectorAll("input[data-filter]");
  const input = filter[[...table.closest("section").querySelectorAll("table.results")].indexOf(table)];
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of table.querySelectorAll("tbody tr:not(.head)")) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}
// What is known of a cell lies in the page as numbers of texts; its tables are made when somebody unfolds it.
const facts = document.getElementById("facts");
if (facts) {
  const { texts, tables, cells } = JSON.parse(facts.textContent);
  const element = (name, text) => Object.assign(document.createElement(name), { textContent: text });
  const line = (row, headings) => {
    const tr = document.createElement("tr");
    row.forEach((text, column) => {
      const cell = element(headings || column === 0 ? "th" : "td", texts[text]);
      if (cell.tagName === "TH") cell.scope = headings ? "col" : "row";
      tr.append(cell);
    });
    return tr;
  };
  const fill = (details) => {
    for (const number of details.dataset.filled ? [] : cells[details.dataset.cell]) {
      const [title, headings, rows] = tables[number];
      const scroll = Object.assign(document.createElement("div"), { className: "scroll", tabIndex: 0 });
      const table = document.createElement("table");
      if (headings.length) table.createTHead().append(line(headings, true));
      table.createTBody().append(...rows.map((row) => line(row, false)));
      scroll.append(table);
      details.append(element("h4", texts[title]), scroll);
    }
    details.dataset.filled = "yes";
  };
  for (const details of document.querySelectorAll("details.cell")) {
    details.addEventListener("toggle", () => details.open && fill(details));
  }
  // A link to a cell unfolds it.
  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target || !target.matches("details.cell")) return;
    for (let at = target; at; at = at.parentElement.closest("details")) at.open = true;
    fill(target);
    target.scrollIntoView();
    target.querySelector("summary").focus({ preventScroll: true });
  };
  addEventListener("hashchange", reveal);
  reveal();
}
