//! Tests of the page in headless Chromium: its behaviour, and that it loads nothing from the network.

mod interaction;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::support::{RunBuilder, cell, invented, record, run, suite, train_metrics, workload};
use mantissa_core::{Axis, Status};
use mantissa_report::{Report, Run, figures, html};
use mantissa_testing::is_available;
use serde_json::Value;

fn page(run: &Run) -> String {
    let report = Report::new(run).unwrap();
    let drawn = figures(&report);
    let pictures: Vec<_> = drawn
        .iter()
        .map(|figure| (figure, figure.canvas.svg().unwrap()))
        .collect();
    html(&report, &pictures).unwrap()
}

/// Runs Chromium on a page; `None` without Chromium.
fn chromium(page: &Path, fragment: &str, arguments: &[&str]) -> Option<Output> {
    let profile = tempfile::tempdir().unwrap();
    // `timeout` ends a Chromium that hangs.
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", "120", "chromium"])
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-sync",
        ])
        .args(["--disable-background-networking", "--disable-component-update"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(format!("file://{}{fragment}", page.display()));
    let found = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err("no `timeout`".to_owned()),
        Ok(output) if output.status.code() == Some(127) => Err("no Chromium".to_owned()),
        output => Ok(output.unwrap()),
    };
    let output = found.as_ref().ok().cloned();
    is_available("browser", found.map(drop)).then_some(())?;
    assert!(output.as_ref()?.status.success(), "{output:?}");
    output
}

/// Runs a script on a page and returns its object `result` and the lines of the console.
fn browse(html: &str, script: &str) -> Option<(Value, Vec<String>)> {
    browse_at(html, "", script)
}

/// Runs a script on a page that is opened at a fragment of its address: `#row-1`.
fn browse_at(html: &str, fragment: &str, script: &str) -> Option<(Value, Vec<String>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    let harness = format!(
        "<script>const result = {{}}; {{ {script}\n}} const output = document.createElement('pre'); output.id = 'result'; \
         output.textContent = JSON.stringify(result); document.body.append(output);</script></body>"
    );
    let (before, after) = html.rsplit_once("</body>").unwrap();
    fs::write(&path, format!("{before}{harness}{after}")).unwrap();
    let output = chromium(&path, fragment, &["--dump-dom"])?;
    let console: Vec<String> = String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .map(str::to_owned)
        .collect();
    let dom = String::from_utf8(output.stdout).unwrap();
    let (_, result) = dom
        .rsplit_once("<pre id=\"result\">")
        .unwrap_or_else(|| panic!("the script failed: {console:?}"));
    let result = result.split_once("</pre>").unwrap().0;
    let result = result
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    Some((serde_json::from_str(&result).unwrap(), console))
}

#[test]
fn the_page_opens_without_errors_or_requests() {
    let html = page(&invented());
    let script = "result.requests = performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => !name.startsWith('data:'));\
                  result.figures = document.querySelectorAll('figure svg').length;";
    let Some((result, console)) = browse(&html, script) else {
        return;
    };
    assert_eq!(console, [""; 0]);
    assert_eq!(result["requests"], Value::Array(vec![]));
    assert!(result["figures"].as_u64().unwrap() > 3, "{result}");
    // Check that the test would detect a request: the page's content security policy blocks it, which Chromium reports in the console.
    let requesting = html.replacen(
        "<p class=\"brand\">",
        "<img src=\"https://example.invalid/x.png\"><p>",
        1,
    );
    let (_, console) = browse(&requesting, script).unwrap();
    assert!(
        console
            .iter()
            .any(|line| line.contains("Content Security Policy")),
        "{console:?}"
    );
    let failing = html.replacen("<p class=\"brand\">", "<script>nothing.at.all</script><p>", 1);
    let (_, console) = browse(&failing, script).unwrap();
    assert!(
        console.iter().any(|line| line.contains("nothing is not defined")),
        "{console:?}"
    );
}

#[test]
fn tables_can_be_sorted_filtered_and_copied() {
    let script = r#"
        const copied = [];
        Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => copied.push(text) } });
        const table = document.querySelector("table.results");
        const texts = () => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[0].textContent);
        const press = (text) => [...document.querySelectorAll("button")].find((button) => button.textContent === text).click();
        result.planned = texts();
        table.querySelector("th button").click();
        result.up = texts();
        table.querySelector("th button").click();
        result.down = texts();
        result.sorted = table.querySelector("th").getAttribute("aria-sort");
        const input = document.querySelector("input[data-filter]");
        input.value = "bf16-mixed";
        input.dispatchEvent(new Event("input"));
        result.filtered = texts();
        press("Copy as CSV");
        press("Copy as Markdown");
        result.copied = copied;
    "#;
    let Some((result, console)) = browse(&page(&invented()), script) else {
        return;
    };
    assert_eq!(console, [""; 0]);
    let texts = |name: &str| -> Vec<String> {
        let texts = result[name].as_array().unwrap().iter();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut sorted = texts("planned");
    sorted.sort();
    assert_eq!(
        texts("up").iter().collect::<Vec<_>>(),
        sorted.iter().collect::<Vec<_>>()
    );
    sorted.reverse();
    assert_eq!(
        (texts("down"), result["sorted"].as_str()),
        (sorted.clone(), Some("descending"))
    );
    let filtered = texts("filtered");
    assert!(
        !filtered.is_empty() && filtered.len() < sorted.len(),
        "{filtered:?}"
    );
    assert!(
        filtered.iter().all(|text| text.starts_with("bf16-mixed")),
        "{filtered:?}"
    );
    let [csv, markdown] = &texts("copied")[..] else {
        panic!("{result}")
    };
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let columns = reader.headers().unwrap().len();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert!(
        rows.len() >= filtered.len() && rows.iter().all(|row| row.len() == columns),
        "{csv}"
    );
    assert!(
        rows.iter()
            .all(|row| row.iter().any(|field| field.contains("bf16-mixed"))),
        "{csv}"
    );
    assert_eq!(markdown.lines().count(), rows.len() + 2, "{markdown}");
    assert!(markdown.starts_with("| precision | "), "{markdown}");
}

#[test]
fn the_theme_follows_the_system_until_changed() {
    let script = r#"
        const colour = () => getComputedStyle(document.body).backgroundColor;
        const button = document.querySelector("nav button");
        result.first = [button.textContent, colour()];
        button.click();
        result.chosen = [button.textContent, colour()];
        button.click();
        result.back = [button.textContent, colour()];
    "#;
    let Some((result, _)) = browse(&page(&invented()), script) else {
        return;
    };
    assert_eq!(result["first"], result["back"]);
    assert_eq!(result["first"][0], "Dark page");
    assert_eq!(result["chosen"][0], "Light page");
    assert_ne!(result["first"][1], result["chosen"][1]);
}

#[test]
fn a_link_unfolds_a_cell_and_the_keyboard_reaches_every_scrolling_region() {
    let script = r##"
        const link = document.querySelector("table.results tbody a");
        const target = document.querySelector(link.getAttribute("href"));
        result.before = target.querySelectorAll("table").length;
        location.hash = link.getAttribute("href");
        dispatchEvent(new HashChangeEvent("hashchange"));
        result.after = target.querySelectorAll("table").length;
        result.open = target.open;
        result.focused = document.activeElement === target.querySelector("summary");
        // Regions that scroll sideways can be reached with the keyboard.
        result.unreachable = [...document.querySelectorAll(".scroll")].filter((element) => element.tabIndex !== 0).length;
    "##;
    let Some((result, console)) = browse(&page(&invented()), script) else {
        return;
    };
    assert_eq!(console, [""; 0]);
    assert_eq!(
        (&result["before"], &result["open"], &result["focused"]),
        (&0.into(), &true.into(), &true.into())
    );
    assert!(result["after"].as_u64().unwrap() >= 3, "{result}");
    assert_eq!(result["unreachable"], 0);
}

#[test]
fn the_page_can_be_printed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, pdf) = (folder.path().join("page.html"), folder.path().join("page.pdf"));
    fs::write(&path, page(&invented())).unwrap();
    let to = format!("--print-to-pdf={}", pdf.display());
    if chromium(&path, "", &[&to]).is_none() {
        return;
    }
    let printed = fs::read(pdf).unwrap();
    assert!(
        printed.starts_with(b"%PDF-") && printed.len() > 20_000,
        "{} bytes",
        printed.len()
    );
}

#[test]
fn a_page_of_ten_thousand_cells_opens_and_sorts() {
    let mut large = run(vec![suite("s", "Large", &[], &[Axis::Batch])]);
    for batch in 1..=10_000 {
        let cell = cell("s", &workload("w"), &[(Axis::Batch, &batch.to_string())]);
        let mut record = record(&cell, Status::Ok, None);
        train_metrics(&mut record, 50.0 + f64::from(batch % 97), 800, 1e9);
        large.plan(&cell, None);
        large.records.push(record);
    }
    let script = r#"
        const table = document.querySelector("table.results");
        result.rows = table.tBodies[0].rows.length;
        const heading = [...table.querySelectorAll("th button")].find((button) => button.textContent === "batch");
        heading.click();
        heading.click();
        const column = heading.closest("th").cellIndex;
        result.top = Number(table.tBodies[0].rows[0].cells[column].textContent);
        result.largest = Math.max(...[...table.tBodies[0].rows].map((row) => Number(row.cells[column].textContent)));
    "#;
    let Some((result, console)) = browse(&page(&large), script) else {
        return;
    };
    assert_eq!(console, [""; 0]);
    assert_eq!(result["rows"], 2_000);
    assert_eq!(result["top"], result["largest"]);
}

#[test]
fn a_link_unfolds_the_part_that_contains_its_target() {
    let script = r##"
        const follow = (hash) => {
          location.hash = hash;
          dispatchEvent(new HashChangeEvent("hashchange"));
          const target = document.querySelector(hash);
          for (let at = target.closest("details"); at; at = at.parentElement.closest("details")) if (!at.open) return "folded";
          return target.checkVisibility() ? "visible" : "hidden";
        };
        result.figure = document.querySelector("#figure-article-pareto").checkVisibility();
        result.targets = ["#figure-article-pareto", "#environment", "#formats", "#cell-0", "#cells"].map(follow);
    "##;
    let Some((result, console)) = browse(&page(&invented()), script) else {
        return;
    };
    assert_eq!(console, [""; 0]);
    assert_eq!(result["figure"], false, "the figure is folded");
    assert_eq!(result["targets"], Value::from(vec!["visible"; 5]));
}
