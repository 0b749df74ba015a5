//! Tests of committed run folders: a valid one, a malicious one and one with a newer schema.

use std::{collections::BTreeMap, fs, path::PathBuf};

use mantissa_report::{Report, Run, csv, figures, html, load, markdown};

use crate::default_axes::without_default_axes;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(name)
}

fn golden() -> Run {
    load(&folder("golden-run")).unwrap()
}

fn page(run: &Run) -> String {
    let report = Report::new(run).unwrap();
    let drawn = figures(&report);
    let pictures: Vec<_> = drawn
        .iter()
        .map(|figure| (figure, figure.canvas.svg().unwrap()))
        .collect();
    html(&report, &pictures).unwrap()
}

/// Returns the text between two markers.
fn between(text: &str, from: &str, to: &str) -> String {
    let (_, rest) = text.split_once(from).unwrap();
    rest.split_once(to).unwrap().0.to_owned()
}

#[test]
fn golden_summary_matches_the_snapshot() {
    insta::assert_snapshot!(markdown(&Report::new(&golden()).unwrap()));
}

#[test]
fn golden_csv_matches_the_snapshot() {
    let bytes = csv(&Report::new(&golden()).unwrap()).unwrap();
    insta::assert_snapshot!(without_default_axes(&String::from_utf8(bytes).unwrap()));
}

#[test]
fn golden_page_matches_the_snapshot() {
    let report = page(&golden());
    assert_eq!(report, page(&golden()), "rendering is not deterministic");
    // The figures have their own snapshot.
    let mut main = between(&report, "<body>", "<script type=\"application/json\"");
    while let (Some(from), Some(to)) = (main.find("<svg"), main.find("</svg>")) {
        main.replace_range(from..to + "</svg>".len(), "(drawing)");
    }
    insta::assert_snapshot!(main);
}

#[test]
fn golden_figures_match_the_snapshot() {
    let run = golden();
    let mut texts = String::new();
    for figure in figures(&Report::new(&run).unwrap()) {
        let svg = figure.canvas.svg().unwrap();
        let mut elements: BTreeMap<&str, usize> = BTreeMap::new();
        let mut svg_texts = vec![];
        for line in svg.lines() {
            match line
                .strip_prefix('<')
                .and_then(|tag| tag.split([' ', '>']).next())
            {
                Some(name) if name.starts_with('/') => {}
                Some(name) => *elements.entry(name).or_default() += 1,
                None => svg_texts.push(line),
            }
        }
        texts += &format!(
            "# {}\n{}\n{elements:?}\n{}\n\n",
            figure.id,
            figure.caption,
            svg_texts.join(" | ")
        );
    }
    insta::assert_snapshot!(texts);
}

#[test]
fn a_malicious_run_is_escaped() {
    let run = load(&folder("malicious-run")).unwrap();
    let rejected = run
        .missing_samples
        .iter()
        .filter(|why| why.contains("is outside the run folder"));
    assert_eq!(rejected.count(), 2, "{:?}", run.missing_samples);
    let report = page(&run);
    for markup in ["<script>alert", "<img", "</style><", "NaN"] {
        let expected = usize::from(markup == "</style><");
        assert!(report.matches(markup).count() <= expected, "{markup}");
    }
    assert!(report.contains("&lt;script&gt;alert(1)"));
    assert_eq!(
        report.matches("<script").count(),
        2,
        "the page contains exactly its own two scripts"
    );
    let facts = between(&report, "id=\"facts\">", "</script>");
    assert!(!facts.contains('<'));
    serde_json::from_str::<serde_json::Value>(&facts).unwrap();
    let summary = markdown(&Report::new(&run).unwrap());
    assert!(!summary.contains("<script") && !summary.contains("<img"));
    assert!(
        !summary.contains("000,000,000,000,000"),
        "a number is too long for a table: {summary}"
    );
    let rows = summary.lines().filter(|line| line.starts_with("| ")).count();
    let tables = summary.matches("\n| --- |").count();
    let published = summary.matches("| *published").count();
    assert_eq!(
        rows,
        2 * tables + run.plan.cells.len() + published,
        "a name added a row: {summary}"
    );
    for figure in figures(&Report::new(&run).unwrap()) {
        assert!(
            figure.id.len() < 120,
            "the name is too long for some file systems: {}",
            figure.id
        );
        let svg = figure.canvas.svg().unwrap();
        assert!(!svg.contains("<script") && !svg.contains("<img"), "{}", figure.id);
        assert!(figure.canvas.png().unwrap().len() < 2_000_000, "{}", figure.id);
    }
    let table = String::from_utf8(csv(&Report::new(&run).unwrap()).unwrap()).unwrap();
    let mut reader = ::csv::Reader::from_reader(table.as_bytes());
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), run.plan.cells.len());
    let formula = |field: &str| field.starts_with(['=', '@']);
    assert!(!rows.iter().any(|row| row.iter().any(formula)));
}

#[test]
fn a_newer_schema_and_a_record_without_a_status_are_rejected() {
    let error = load(&folder("future-run")).unwrap_err().to_string();
    assert!(error.contains("schema 99") && error.contains("hint: "), "{error}");
    let temporary = tempfile::tempdir().unwrap();
    for file in ["environment.json", "plan.json", "records.jsonl"] {
        fs::copy(folder("golden-run").join(file), temporary.path().join(file)).unwrap();
    }
    let records = fs::read_to_string(temporary.path().join("records.jsonl")).unwrap();
    fs::write(
        temporary.path().join("records.jsonl"),
        records.replacen("\"status\": ", "\"state\": ", 1),
    )
    .unwrap();
    let error = load(temporary.path()).unwrap_err().to_string();
    assert!(
        error.contains("records.jsonl") && error.contains("status"),
        "{error}"
    );
}
