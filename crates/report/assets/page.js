"use strict";
const tool = (text, work) => {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "tool", textContent: text });
  button.addEventListener("click", () => work(button));
  return button;
};
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
// Returns the visible fields of a table as texts, with the smaller line of a field in parentheses.
const shown = (table) => {
  const field = (cell) => {
    const small = cell.querySelector("small");
    const whole = cell.textContent.trim();
    if (!small) return whole;
    const below = small.textContent.trim();
    return `${whole.slice(0, whole.length - below.length).trim()} (${below})`;
  };
  // A table of several runs has a row with their letters above the headings. Published rows follow a row with the name of their table.
  const above = [...table.tHead.rows].slice(0, -1).flatMap((row) => [...row.cells]).flatMap((cell) => Array(cell.colSpan).fill(cell.textContent.trim()));
  const headings = [...[...table.tHead.rows].at(-1).cells].map((cell, column) => [above[column], field(cell)].filter(Boolean).join(": "));
  const rows = [...table.querySelectorAll("tbody tr:not(.head):not([hidden])")].map((row) => {
    const head = row.parentElement.querySelector(".head");
    const source = head ? [`${field(head.cells[0])}: `] : [""];
    return [...row.cells].map((cell, column) => (column === 0 ? source[0] : "") + field(cell));
  });
  return [headings, ...rows];
};
// Returns CSV. An apostrophe precedes text that a spreadsheet would interpret as a formula, as in results.csv.
const csv = (rows) => {
  const field = (text) => {
    const safe = /^[=+\-@\t\r\n]/.test(text) && !isFinite(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
};
const markdown = (rows) => {
  const line = (row) => `| ${row.map((text) => text.replace(/[|\\`*_<>&~[\]]/g, "\\$&").replace(/\s+/g, " ")).join(" | ")} |`;
  return [line(rows[0]), `|${" --- |".repeat(rows[0].length)}`, ...rows.slice(1).map(line)].join("\n") + "\n";
};
const copy = async (text, button) => {
  const name = button.textContent;
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Some browsers deny clipboard access to pages from local files.
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  button.textContent = done ? "Copied" : "Copy failed";
  setTimeout(() => (button.textContent = name), 1500);
};
// Adds sorting, copying and a filter to each table of results. Published rows are not sorted, and rows without a value come last.
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
  const section = table.closest("section");
  const own = (selector) => section.querySelectorAll(selector)[[...section.querySelectorAll("table.results")].indexOf(table)];
  own(".tools").append(
    tool("Copy as CSV", (button) => copy(csv(shown(table)), button)),
    tool("Copy as Markdown", (button) => copy(markdown(shown(table)), button)),
  );
  const input = own("input[data-filter]");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of table.querySelectorAll("tbody tr:not(.head)")) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}
// The details of cells are stored as tables of indices into `texts`. The tables of a cell are created when it is unfolded.
const facts = document.getElementById("facts");
let fill = () => {};
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
  fill = (details) => {
    for (const number of details.dataset.filled ? [] : cells[details.dataset.cell]) {
      const [title, headings, rows] = tables[number];
      const scroll = Object.assign(document.createElement("div"), { className: "scroll", tabIndex: 0, role: "region" });
      scroll.setAttribute("aria-label", texts[title]);
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
}
// A link to something inside a folded part unfolds it.
const reveal = () => {
  const target = document.getElementById(location.hash.slice(1));
  const fold = target?.closest("details");
  if (!fold) return;
  for (let at = fold; at; at = at.parentElement.closest("details")) at.open = true;
  if (fold.matches(".cell")) fill(fold);
  target.scrollIntoView();
  target.querySelector("summary")?.focus({ preventScroll: true });
};
addEventListener("hashchange", reveal);
reveal();
// Adds a button to each command.
for (const command of document.querySelectorAll("[data-copy]")) {
  command.after(tool("Copy", (button) => copy(command.textContent, button)));
}
