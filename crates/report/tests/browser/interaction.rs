//! Tests of the tools of a page in headless Chromium: filters, baselines, links to rows, narrow screens and printing.

use std::{fs, io::Read as _};

use super::{browse, browse_at, chromium, page};
use crate::support::{RunBuilder, article, cell, invented, record, run, suite, train_metrics, workload};
use flate2::read::ZlibDecoder;
use mantissa_core::{Axis, Status};
use mantissa_report::{Run, render, render_side_by_side};
use serde_json::{Value, json};

/// Functions for the scripts of the tests.
const TOOLS: &str = r#"
    const table = document.querySelector("table.results");
    const tools = table.closest(".scroll").previousElementSibling;
    const role = (name) => [...table.querySelectorAll("thead th")].findIndex((heading) => (heading.dataset.role ?? "").endsWith(name));
    const rows = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);
    const fields = (at) => rows().map((row) => row.cells[at].textContent);
    const set = (input, value) => {
        input[input.type === "checkbox" ? "checked" : "value"] = value;
        input.dispatchEvent(new Event(input.type === "search" ? "input" : "change"));
    };
    const chip = (text) => [...tools.querySelectorAll("button")].find((button) => button.textContent === text);
    const [select, only] = [tools.querySelector("select"), tools.querySelector("label > input[type=checkbox]")];
"#;

/// Creates a run whose settings have five processes each.
fn repeated(settings: &[(&str, f64)]) -> Run {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Precision])]);
    for (precision, seconds) in settings {
        let cell = cell("s", &workload("w"), &[(Axis::Precision, precision)]);
        run.plan(&cell, None);
        for (repeat, share) in [1.0, 1.01, 1.02, 0.99, 0.98].into_iter().enumerate() {
            let mut record = record(&cell, Status::Ok, None);
            record.repeat = repeat as u32;
            train_metrics(&mut record, seconds * share, 800, 1e9);
            run.measured(record, None);
        }
    }
    run
}

#[test]
fn filters_order_columns_and_baseline_survive_a_reload() {
    let html = page(&invented());
    let look = "result.rows = rows().map((row) => [...row.cells].map((cell) => cell.hidden ? null : cell.textContent)); \
                result.hash = location.hash; result.chip = chip('highest').getAttribute('aria-pressed'); \
                result.second = document.querySelectorAll('table.results')[1].querySelectorAll('tbody tr[hidden]').length;";
    let work = format!(
        "{TOOLS} set(tools.querySelector('input[type=search]'), 'true'); chip('highest').click(); \
         table.querySelectorAll('th button')[0].click(); table.querySelectorAll('th button')[0].click(); \
         set(select, [...select.options].find((option) => option.textContent === 'bf16-true').value); \
         set(tools.querySelectorAll('.columns input')[3], false); {look}"
    );
    let Some((first, console)) = browse(&html, &work) else {
        return;
    };
    assert_eq!(console, [""; 0]);
    let shown = first["rows"].as_array().unwrap();
    let names: Vec<&str> = shown.iter().map(|row| row[0].as_str().unwrap()).collect();
    assert_eq!(names, ["bf16-true", "64-true", "32-true", "16-true"]);
    assert!(
        shown.iter().all(|row| row[4].is_null() && row[1] == "highest"),
        "{shown:?}"
    );
    assert!(
        shown[1].to_string().contains("not computed for this baseline"),
        "{shown:?}"
    );
    let fragment = first["hash"].as_str().unwrap();
    let (again, _) = browse_at(&html, fragment, &format!("{TOOLS} {look}")).unwrap();
    assert_eq!(again, first);
    assert_eq!(first["second"], 0, "the second table has no filter");
    // A link within the page does not lose the filters, and a malformed state is ignored.
    let follow =
        format!("{TOOLS} location.hash = '#cells'; dispatchEvent(new HashChangeEvent('hashchange')); {look}");
    let (followed, _) = browse_at(&html, fragment, &follow).unwrap();
    assert_eq!(followed["rows"], first["rows"]);
    assert!(
        followed["hash"]
            .as_str()
            .unwrap()
            .starts_with("#cells&1.filter=true")
    );
    let malformed = "#%&1.sort=length&1.is=x&1.base=main&1.hide=-1&99.sort=%ff&1.is=99:y";
    let (opened, console) = browse_at(&html, malformed, &format!("{TOOLS} {look}")).unwrap();
    assert_eq!(
        (console.len(), opened["rows"].as_array().unwrap().len()),
        (0, 14),
        "{console:?}"
    );
}

#[test]
fn another_baseline_recomputes_ratios_and_blanks_intervals_and_verdicts() {
    let html = page(&repeated(&[
        ("32-true", 100.0),
        ("bf16-mixed", 50.0),
        ("bf16-true", 40.0),
    ]));
    let script = format!(
        "{TOOLS} const all = () => rows().map((row) => row.outerHTML).join(''); const note = () => document.querySelector('.baseline-note');
         const look = () => rows().map((row) => [row.cells[role('ratio')].textContent, row.cells[role('verdict')].textContent]);
         const before = all(); result.run = look();
         set(select, [...select.options].find((option) => option.textContent.startsWith('bf16-mixed')).value);
         result.other = look(); result.note = [note().hidden, note().textContent]; result.disabled = only.disabled;
         set(select, ''); result.restored = all() === before && note().hidden;"
    );
    let Some((result, console)) = browse(&html, &script) else {
        return;
    };
    assert_eq!(console, [""; 0]);
    let ratios = result["run"].to_string();
    assert!(
        ratios.contains("2.00×1.9") && ratios.contains("faster"),
        "{ratios}"
    );
    assert_eq!(
        result["other"],
        json!([
            ["0.50×no interval", "not computed for this baseline"],
            ["1.00×baseline", "baseline"],
            ["1.25×no interval", "not computed for this baseline"]
        ])
    );
    assert_eq!(
        (&result["note"][0], &result["disabled"]),
        (&false.into(), &true.into())
    );
    let note = result["note"][1].as_str().unwrap();
    assert!(note.starts_with("Relative to bf16-mixed, as selected"), "{note}");
    assert_eq!(result["restored"], true, "the table differs from the original");
}

#[test]
fn settings_without_a_significant_difference_can_be_hidden() {
    let run = repeated(&[("32-true", 100.0), ("bf16-mixed", 50.0), ("bf16-true", 100.1)]);
    let script = format!(
        "{TOOLS} set(only, true); result.shown = fields(0); result.count = tools.querySelector('[role=status]').textContent;"
    );
    let Some((result, _)) = browse(&page(&run), &script) else {
        return;
    };
    assert_eq!(result["shown"], json!(["32-true", "bf16-mixed"]));
    assert_eq!(
        result["count"],
        "2 of 3 settings; 1 without a significant difference hidden"
    );
}

#[test]
fn csv_has_plain_numbers_in_the_unit_of_the_heading() {
    let script = format!(
        "{TOOLS} const copied = []; Object.defineProperty(navigator, 'clipboard', {{ value: {{ writeText: async (text) => copied.push(text) }} }});
         chip('Copy as CSV').click(); result.csv = copied[0];"
    );
    let Some((result, _)) = browse(&page(&invented()), &script) else {
        return;
    };
    let text = result["csv"].as_str().unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headings = reader.headers().unwrap().clone();
    let column = |name: &str| headings.iter().position(|heading| heading == name).unwrap();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    let number = |row: usize, name: &str| rows[row][column(name)].parse::<f64>().unwrap();
    assert_eq!(&rows[1][0], "32-true");
    assert_eq!(number(1, "time [s]"), 171.2);
    assert_eq!(number(1, "test accuracy [1]"), 0.861);
    assert_eq!(number(1, "peak memory [B]"), 0.92e9);
}

#[test]
fn a_mark_and_its_row_are_highlighted_together() {
    let script = format!(
        "{TOOLS} const over = (element) => element.dispatchEvent(new PointerEvent('pointerover', {{ bubbles: true }}));
         const titles = () => [...document.querySelectorAll('svg .linked > title')].map((title) => title.textContent);
         const row = rows().find((row) => row.dataset.label === 'bf16-true');
         over(row.cells[2]); result.titles = titles();
         over(rows()[0].cells[2]); result.others = titles();
         over([...document.querySelectorAll('svg g')].find((mark) => mark.textContent.startsWith('bf16-true')).lastElementChild);
         result.row = row.classList.contains('linked');"
    );
    let Some((result, console)) = browse(&page(&invented()), &script) else {
        return;
    };
    assert_eq!(console, [""; 0]);
    for (name, label) in [("titles", "bf16-true"), ("others", "64-true")] {
        let titles = result[name].as_array().unwrap();
        let of_setting = |title: &Value| title.as_str().unwrap().starts_with(label);
        assert!(!titles.is_empty() && titles.iter().all(of_setting), "{titles:?}");
    }
    assert_eq!(result["row"], true);
}

#[test]
fn every_link_to_a_row_lands_on_the_row() {
    let mut long = invented();
    for batch in 1..=100 {
        let text = batch.to_string();
        let cell = cell("article", &workload("long"), &[(Axis::Batch, &text)]);
        let mut record = record(&cell, Status::Ok, None);
        train_metrics(&mut record, 50.0 + f64::from(batch), 800, 1e9);
        long.add(record, None);
    }
    // The position of a row is its distance from the end of its header, if the header is visible, or from the top of the page.
    let script = r#"
        result.rows = [];
        for (const row of document.querySelectorAll("table.results tbody tr[id]")) {
            location.hash = row.querySelector(".row-link").getAttribute("href");
            dispatchEvent(new HashChangeEvent("hashchange"));
            const [box, head] = [row.getBoundingClientRect(), row.closest("table").tHead.getBoundingClientRect()];
            const top = box.top - head.height;
            const end = scrollY + innerHeight >= document.documentElement.scrollHeight - 1;
            const hit = document.elementFromPoint(box.left + 40, box.top + 4);
            result.rows.push([row.id, Math.round(top), end, Boolean(hit) && row.contains(hit), row.classList.contains("target")]);
        }
    "#;
    let Some((result, console)) = browse(&page(&long), script) else {
        return;
    };
    assert_eq!(console, [""; 0]);
    let rows = result["rows"].as_array().unwrap();
    assert!(rows.len() > 140, "{}", rows.len());
    for row in rows {
        let is_near = row[1].as_i64().unwrap().abs() <= 8 || row[2] == true;
        assert!(is_near && row[3] == true && row[4] == true, "{row}");
    }
    let ends = rows.iter().filter(|row| row[2] == true).count();
    assert!(ends < 10, "{ends} rows are at the end of the page");
}

/// Returns all pages of a report of several suites, of one suite, and of a comparison of runs, by name.
fn all_pages() -> Vec<(String, String)> {
    let mut pages = vec![("single file".to_owned(), page(&invented()))];
    let folder = tempfile::tempdir().unwrap();
    for file in render(&invented(), folder.path()).unwrap().files {
        if file.extension().is_some_and(|extension| extension == "html") {
            pages.push((file.display().to_string(), fs::read_to_string(file).unwrap()));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let compared = render_side_by_side(&[invented(), invented()], folder.path()).unwrap();
    pages.push((
        "side by side".to_owned(),
        fs::read_to_string(compared.html).unwrap(),
    ));
    let trends = crate::trends::trends(20, vec![crate::trends::line(20, "")]);
    pages.push(("trends".to_owned(), trends.html().unwrap()));
    pages
}

#[test]
fn no_page_is_wider_than_its_screen() {
    for (name, html) in all_pages() {
        // A window of Chromium is at least 500 pixels wide, but a frame is not.
        let script = format!(
            "const page = {};
             for (const width of [390, 768, 1280]) {{
                 const frame = document.createElement('iframe');
                 Object.assign(frame.style, {{ width: `${{width}}px`, height: '800px', border: 0 }});
                 document.body.append(frame);
                 frame.contentDocument.write(page);
                 frame.contentDocument.close();
                 const root = frame.contentDocument.documentElement;
                 frame.contentDocument.querySelectorAll('details').forEach((details) => (details.open = true));
                 const texts = [...root.querySelectorAll('.sheet svg text')].map((text) => text.getBoundingClientRect().height);
                 result[width] = [root.clientWidth, root.scrollWidth, Math.min(...texts)];
             }}",
            serde_json::to_string(&html).unwrap().replace("</", "<\\/")
        );
        let Some((result, _)) = browse("<!doctype html><body></body>", &script) else {
            return;
        };
        for width in ["390", "768", "1280"] {
            let [shown, needed, text] =
                [0, 1, 2].map(|at| result[width][at].as_f64().unwrap_or(f64::INFINITY));
            assert!(
                shown <= width.parse().unwrap() && shown > 300.0,
                "{name}: {result}"
            );
            assert!(needed <= shown, "{name}: {result}");
            // Chromium lays out in units of 1/64 pixel.
            let legible = if width == "390" { 10.0 } else { 8.5 } - 1.0 / 64.0;
            assert!(text >= legible, "{name}: text of {text} pixels at {width}");
        }
    }
}

#[test]
fn headings_have_distinct_names_and_skip_no_level() {
    let script = "result.headings = [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((heading) => [Number(heading.tagName[1]), heading.textContent]);
                  result.skip = document.querySelector(document.querySelector('body > a').getAttribute('href')).tagName;
                  result.described = [...document.querySelectorAll('figure [role=img]')].filter((figure) => /\\d/.test(figure.getAttribute('aria-description'))).length;
                  result.figures = document.querySelectorAll('figure').length;";
    for (name, html) in all_pages() {
        let Some((result, _)) = browse(&html, script) else {
            return;
        };
        let headings = result["headings"].as_array().unwrap();
        let mut level = 0;
        let mut names = std::collections::HashSet::new();
        for heading in headings {
            let next = heading[0].as_u64().unwrap();
            assert!(next <= level + 1, "{name}: {heading} follows level {level}");
            level = next;
            assert!(
                names.insert(heading[1].to_string()),
                "{name}: two headings are {heading}"
            );
        }
        assert_eq!(
            headings.iter().filter(|heading| heading[0] == 1).count(),
            1,
            "{name}"
        );
        assert_eq!(result["skip"], "MAIN", "{name}");
        assert_eq!(result["described"], result["figures"], "{name}");
    }
}

#[test]
fn hostile_names_do_nothing_in_a_page() {
    let hostile = "\"'><img src=x onerror=hit()></script><script>hit()</script>{{ 7 * 7 }}${hit()}=1+1 &1.filter=x \u{202e}";
    let mut run = run(vec![suite(
        "article",
        hostile,
        &["distilbert-imdb"],
        &[Axis::Precision],
    )]);
    run.name = hostile.into();
    run.plan.suites[0].question = hostile.into();
    run.plan.suites[0].analysis = hostile.into();
    run.environment.fingerprint.cpu = Some(hostile.into());
    run.environment.command = vec![hostile.into()];
    article(&mut run, &workload(hostile));
    for record in &mut run.records[4..6] {
        (record.status, record.reason) = (Status::Failed, Some(hostile.into()));
    }
    let script = format!(
        "{TOOLS} result.hits = 0; globalThis.hit = () => (result.hits += 1);
         Object.defineProperty(navigator, 'clipboard', {{ value: {{ writeText: async () => {{}} }} }});
         document.querySelectorAll('details').forEach((details) => {{ details.open = true; if (details.matches('.cell')) fill(details); }});
         set(select, select.options[2].value); tools.querySelectorAll('button').forEach((button) => button.click());
         set(tools.querySelector('input[type=search]'), result.name = {});
         rows().forEach((row) => row.dispatchEvent(new PointerEvent('pointerover', {{ bubbles: true }})));
         result.images = document.querySelectorAll('img, iframe, object, link').length; result.scripts = document.scripts.length;",
        serde_json::to_string(hostile).unwrap().replace("</", "<\\/")
    );
    let html = page(&run);
    let Some((result, console)) = browse(&html, &script) else {
        return;
    };
    assert_eq!(console, [""; 0]);
    assert_eq!((&result["hits"], &result["images"]), (&0.into(), &0.into()));
    assert_eq!(
        result["scripts"], 3,
        "the cells, the script of the page and the script of this test"
    );
    // Check that the test would detect markup: without escaping, the handler runs.
    let unescaped = html.replacen("<h1>", "<h1><img src=x onerror=hit()>", 1);
    let (_, console) = browse(&unescaped, &script).unwrap();
    assert!(!console.is_empty());
}

#[test]
fn no_printed_page_is_blank_and_folded_parts_are_printed() {
    let html = page(&invented());
    let Some(texts) = print(&html) else {
        return;
    };
    assert!(texts.len() > 5, "{texts:?}");
    assert!(
        texts.iter().all(|count| *count > 10),
        "text operators of each page: {texts:?}"
    );
    // Scripts fill a cell when it is unfolded, so the pages are compared without them.
    let (folded, _) = html.rsplit_once("<script>").unwrap();
    let unfolded = folded.replace("<details", "<details open");
    let sheets = |html: &str| print(html).map(|texts| texts.len());
    assert_eq!(sheets(folded), sheets(&unfolded));
}

/// Prints a page and counts the text operators of each sheet; `None` without Chromium.
fn print(html: &str) -> Option<Vec<usize>> {
    let folder = tempfile::tempdir().unwrap();
    let (path, pdf) = (folder.path().join("page.html"), folder.path().join("page.pdf"));
    fs::write(&path, html).unwrap();
    let to = format!("--print-to-pdf={}", pdf.display());
    chromium(&path, "", &[&to, "--no-pdf-header-footer"])?;
    Some(printed_texts(&fs::read(&pdf).unwrap()))
}

/// Counts the operators that draw text on each page of a PDF.
fn printed_texts(pdf: &[u8]) -> Vec<usize> {
    let text = pdf.iter().map(|byte| char::from(*byte)).collect::<String>();
    let contents = text.split("/Type /Page\n").skip(1).map(|page| {
        let (_, rest) = page.split_once("/Contents ").unwrap();
        let (number, _) = rest.split_once(' ').unwrap();
        let (_, object) = text.split_once(&format!("\n{number} 0 obj\n")).unwrap();
        let (_, stream) = object.split_once("stream\n").unwrap();
        let bytes: Vec<u8> = stream.chars().map_while(|byte| u8::try_from(byte).ok()).collect();
        let mut content = Vec::new();
        // The reader stops at the end of the compressed stream.
        ZlibDecoder::new(&bytes[..]).read_to_end(&mut content).unwrap();
        String::from_utf8_lossy(&content).into_owned()
    });
    contents.map(|content| content.matches("Tj").count()).collect()
}
