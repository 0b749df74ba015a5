// The fragment of the address is the id of an element, followed by the state of the tables: `#row-0a1b&1.filter=bf16&1.sort=4`.
const address = () => {
  const [target, ...parameters] = location.hash.slice(1).split("&");
  return { target, parameters: parameters.length ? new URLSearchParams(parameters.join("&")) : null };
};
let view = address().parameters ?? new URLSearchParams();
const save = () => history.replaceState(null, "", `#${address().target}${String(view) && `&${view}`}`);
// Returns a function that recomputes the comparisons of a table relative to the row with an id. An id without a row restores the baseline of
// the run. Only ratios and differences of the values in the page are recomputed. Intervals and verdicts need the samples, so they are blank.
const comparison = (headings, rows) => {
  const originals = new Map();
  const column = (...roles) => headings.findIndex((heading) => roles.includes(heading.dataset.role));
  const change = (row, index, text, sort, detail) => {
    const cell = row.cells[index];
    if (!cell) return;
    originals.set(cell, [[...cell.childNodes], cell.dataset.sort]);
    cell.replaceChildren(text, ...(detail ? [element("small", { textContent: detail })] : []));
    if (sort === undefined) delete cell.dataset.sort;
    else cell.dataset.sort = sort;
  };
  const times = (ratio) => `${ratio.toFixed(ratio < 0.1 ? 3 : 2)}×`;
  const isInverse = headings.some((heading) => heading.dataset.role === "inverse-ratio");
  return (id) => {
    for (const [cell, [nodes, sort]] of originals) {
      cell.replaceChildren(...nodes);
      if (sort === undefined) delete cell.dataset.sort;
      else cell.dataset.sort = sort;
    }
    originals.clear();
    const base = rows.find((row) => row.id === id && row.dataset.speed);
    for (const row of base ? rows.filter((row) => row.dataset.work === base.dataset.work) : []) {
      // Returns the values of the row and of the baseline, if both have one from the same seeds.
      const pair = (name) => {
        const values = [row.dataset[name], base.dataset[name]];
        return row.dataset.seeds === base.dataset.seeds && !values.includes(undefined) && values.map(Number);
      };
      const [speed, memory, accuracy] = [pair("speed"), pair("memory"), pair("accuracy")];
      const ratio = speed && (isInverse ? speed[1] / speed[0] : speed[0] / speed[1]);
      const detail = row === base ? "baseline" : "no interval";
      if (ratio && isFinite(ratio)) change(row, column("ratio", "inverse-ratio"), times(ratio), ratio, detail);
      else change(row, column("ratio", "inverse-ratio"), "–");
      const points = accuracy && row !== base && 100 * (accuracy[0] - accuracy[1]);
      if (points === false) change(row, column("change"), "–");
      else change(row, column("change"), points.toFixed(1).replace(/^-(0\.0)$/, "$1").replace("-", "−"), points / 100, "no interval");
      const cell = row.cells[column("memory")];
      if (cell?.dataset.sort) change(row, cell.cellIndex, texts(cell)[0], cell.dataset.sort, memory && `${times(memory[0] / memory[1])} baseline`);
      // A setting that did not finish keeps its status, which does not depend on the baseline.
      if (!row.classList.contains("ok")) continue;
      const all = texts(row.cells[column("verdict")])[1];
      const notes = row.dataset.relative ? all.slice(0, all.lastIndexOf(row.dataset.relative)).replace(/ · $/, "") : all;
      const verdict = element("span", { className: "status skipped", textContent: row === base ? "baseline" : "not computed for this baseline" });
      change(row, column("verdict"), verdict, undefined, notes);
    }
    return Boolean(base);
  };
};
// Adds sorting, filters, columns, baselines and copying to each table of results. Published rows are filtered only.
const tables = [...document.querySelectorAll("table.results")].map((table, index) => {
  const body = table.tBodies[0];
  const planned = [...body.rows];
  const headings = [...[...table.tHead.rows].at(-1).cells];
  const key = (name) => `${index + 1}.${name}`;
  const get = (name) => view.get(key(name)) ?? "";
  const scroll = table.closest(".scroll");
  const tools = scroll.previousElementSibling;
  const input = tools.querySelector("input[data-filter]");
  const count = element("span", { role: "status" });
  const note = element("p", { className: "notes baseline-note", hidden: true });
  const rebase = comparison(headings, planned);

  let [sorted, hasHidden, similar] = ["/", false, 0];
  const sort = () => {
    const order = `${get("sort")}/${get("base")}`;
    if (order === sorted) return;
    sorted = order;
    const [column, direction] = get("sort").split("-");
    const heading = column && headings[Number(column)];
    headings.forEach((other) => other.removeAttribute("aria-sort"));
    if (!heading) return body.append(...planned);
    const sign = direction === "down" ? -1 : 1;
    heading.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
    // Rows without a value come last.
    const keyed = planned.map((row) => [row.cells[heading.cellIndex].dataset.sort, row.cells[heading.cellIndex].textContent, row]);
    keyed.sort(([x, a], [y, b]) => {
      if (x === undefined || y === undefined) return x === y ? sign * a.localeCompare(b, undefined, { numeric: true }) : x === undefined ? 1 : -1;
      return sign * (x - y);
    });
    body.append(...keyed.map(([, , row]) => row));
  };
  const filter = () => {
    const words = get("filter").toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = view.getAll(key("is"));
    const restricted = [...new Set(chosen.map((choice) => Number(choice.split(":", 1))))].filter((at) => headings[at]);
    const only = Boolean(get("only") && !get("base"));
    similar = 0;
    for (const row of table.querySelectorAll("tbody tr:not(.head)")) {
      const text = words.length && row.textContent.toLowerCase();
      const accepted = restricted.every((at) => chosen.includes(`${at}:${texts(row.cells[at])[0]}`));
      const found = accepted && words.every((word) => text.includes(word));
      const isSimilar = only && row.dataset.work !== undefined && row.dataset.differs === undefined;
      row.hidden = !found || isSimilar;
      similar += found && isSimilar;
    }
    recount();
  };
  const recount = () => {
    const shown = planned.filter((row) => !row.hidden).length;
    count.textContent = `${shown} of ${planned.length} settings${similar ? `; ${similar} without a significant difference hidden` : ""}`;
  };
  const columns = () => {
    const hidden = new Set(view.getAll(key("hide")).map(Number));
    if (!hidden.size && !hasHidden) return;
    hasHidden = hidden.size > 0;
    for (const row of table.querySelectorAll("tr:not(.head)")) [...row.cells].forEach((cell, at) => (cell.hidden = hidden.has(at)));
  };
  const update = (name, ...values) => {
    view.delete(key(name));
    values.filter(Boolean).forEach((value) => view.append(key(name), value));
    save();
  };
  const toggle = (name, value) => {
    const values = view.getAll(key(name));
    update(name, ...(values.includes(value) ? values.filter((other) => other !== value) : [...values, value]));
  };
  const controls = [];
  const control = (made, show) => (controls.push(show), made);

  headings.forEach((heading, at) => {
    heading.querySelector("button").addEventListener("click", () => {
      update("sort", get("sort") === String(at) ? `${at}-down` : String(at));
      sort();
    });
  });
  controls.push(() => (input.value = get("filter")));
  input.addEventListener("input", () => (update("filter", input.value), filter()));
  const chips = headings.flatMap((heading, at) => {
    const values = heading.dataset.role === "axis" ? [...new Set(planned.map((row) => texts(row.cells[at])[0]))] : [];
    if (values.length < 2 || values.length > 8) return [];
    const buttons = values.map((value) => {
      const chip = tool(value, () => (toggle("is", `${at}:${value}`), refresh()));
      return control(chip, () => chip.setAttribute("aria-pressed", view.getAll(key("is")).includes(`${at}:${value}`)));
    });
    const group = element("span", { className: "chips", role: "group" }, `${texts(heading)[0]} `, ...buttons);
    group.setAttribute("aria-label", `Show only ${texts(heading)[0]}`);
    return [group];
  });
  const comparable = planned.filter((row) => row.dataset.speed && row.classList.contains("ok"));
  if (comparable.length > 1 && headings.some((heading) => heading.dataset.role?.endsWith("ratio"))) {
    const option = (value, text) => element("option", { value, textContent: text });
    const select = element("select", {}, option("", "of the run"), ...comparable.map((row) => option(row.id, row.dataset.label)));
    select.addEventListener("change", () => (update("base", select.value), refresh()));
    const only = element("input", { type: "checkbox" });
    only.addEventListener("change", () => (update("only", only.checked && "1"), refresh()));
    controls.push(() => {
      select.value = get("base");
      only.checked = get("only") && !get("base");
      only.disabled = Boolean(get("base"));
    });
    chips.push(element("label", {}, "Baseline ", select), element("label", {}, only, " Only significant differences"));
  }
  const columnBoxes = headings.slice(1).map((heading, at) => {
    const box = element("input", { type: "checkbox" });
    box.addEventListener("change", () => (toggle("hide", String(at + 1)), refresh()));
    return element("label", {}, control(box, () => (box.checked = !view.getAll(key("hide")).includes(String(at + 1)))), ` ${texts(heading)[0]}`);
  });
  // The columns below the letter of a run stay together.
  const chooser = table.tHead.rows.length > 1 ? [] : [element("details", { className: "columns" }, element("summary", { textContent: "Columns" }), ...columnBoxes)];
  tools.append(
    ...chips,
    ...chooser,
    tool("Copy as CSV", (button) => copy(csv(fields(table, true)), button)),
    tool("Copy as Markdown", (button) => copy(markdown(fields(table, false)), button)),
    count,
  );
  scroll.after(note);

  const refresh = () => {
    const known = rebase(get("base"));
    if (!known) view.delete(key("base"));
    note.hidden = !known;
    note.textContent = known
      ? `Relative to ${document.getElementById(get("base")).dataset.label}, as selected: ratios and differences of the values in this table. Intervals and verdicts are not computed for this baseline. Sentences, figures and settings that do other work keep the baseline of the run.`
      : "";
    controls.forEach((show) => show());
    sort();
    filter();
    columns();
  };
  refresh();
  // Shows a row even if a filter hides it.
  const reveal = (row) => {
    if (!table.contains(row) || !row.hidden) return;
    row.hidden = false;
    recount();
  };
  return { table, refresh, reveal };
});
