"use strict";
// Sorts a table's measured rows by a column; published rows stay where they are. Rows without a value go last.
for (const table of document.querySelectorAll("table.results")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
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
