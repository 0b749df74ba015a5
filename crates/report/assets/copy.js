"use strict";
const element = (name, properties, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};
const tool = (text, work) => {
  const button = element("button", { type: "button", className: "tool", textContent: text });
  button.addEventListener("click", () => work(button));
  return button;
};
// Returns the text of a field and its smaller text.
const texts = (cell) => {
  const small = cell.querySelector("small")?.textContent ?? "";
  const whole = cell.textContent;
  return [whole.slice(0, whole.length - small.length).trim(), small.trim()];
};
// Returns the visible fields of a table. Plain fields are numbers in the unit of their heading.
const fields = (table, plain) => {
  const headings = [...table.tHead.rows].at(-1).cells;
  const field = (cell) => {
    const [text, small] = texts(cell);
    const unit = plain && headings[cell.cellIndex].dataset.unit;
    if (unit && cell.tagName === "TH") return `${text} [${unit}]`;
    if (unit) return cell.dataset.sort === undefined ? "" : String(Number(cell.dataset.sort));
    return small ? `${text} (${small})` : text;
  };
  // A table of several runs has a row with their letters above the headings. Published rows follow a row with the name of their table.
  const above = [...table.tHead.rows].slice(0, -1).flatMap((row) => [...row.cells]).flatMap((cell) => Array(cell.colSpan).fill(cell.textContent.trim()));
  const shown = (row) => [...row.cells].filter((cell) => !cell.hidden);
  const rows = [...table.querySelectorAll("tbody tr:not(.head, [hidden])")].map((row) => {
    const head = row.parentElement.querySelector(".head");
    const [first, ...others] = shown(row).map(field);
    return [head ? `${field(head.cells[0])}: ${first}` : first, ...others];
  });
  return [shown({ cells: headings }).map((cell) => [above[cell.cellIndex], field(cell)].filter(Boolean).join(": ")), ...rows];
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
    const area = element("textarea", { value: text });
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  button.textContent = done ? "Copied" : "Copy failed";
  setTimeout(() => (button.textContent = name), 1500);
};
