//! Output formats of an invented comparison: their snapshots, and the escaping of hostile names.

#[path = "../examples/formats/invented.rs"]
mod invented;

use std::{collections::BTreeSet, path::Path};

use mantissa_core::{Better, MetricName};
use mantissa_gate::{
    GateError, GateReport, RunMeasurements,
    render::{
        MAX_COMMENT_LENGTH, Measurements, annotations, bencher, benchmark_action, junit, markdown, mlperf,
        openmetrics, terminal_tables,
    },
};
use mantissa_report::Table;
use serde_json::Value;

fn run() -> RunMeasurements {
    let folder = tempfile::tempdir().unwrap();
    invented::run(folder.path())
}

fn small_report() -> GateReport {
    invented::small_report(&run())
}

/// Removes the letter that fills long names, so that the snapshots are short.
fn without_repeated_letters(text: &str) -> String {
    text.replace(&"é".repeat(100), "")
        .replace(&"\\u00e9".repeat(100), "")
}

fn report_without_cells() -> GateReport {
    let mut report = small_report();
    report.comparison.cells.clear();
    report.failures.clear();
    report.allowed.clear();
    report.inconclusive = 0;
    report
}

#[test]
fn markdown_matches_the_snapshot() {
    insta::assert_snapshot!(markdown(&small_report()));
}

#[test]
fn long_comments_are_truncated_and_omitted_rows_counted() {
    let many = invented::large_report();
    let text = markdown(&many);
    assert!(text.len() <= MAX_COMMENT_LENGTH, "{}", text.len());
    assert!(text.starts_with("❌ **3000 regressions in 3000 cells"));
    assert!(text.contains("… and ") && text.contains("| after | <code>pull-request-17</code>"));
    assert_eq!(
        text.matches("<details>").count(),
        text.matches("</details>").count()
    );
    let shown = text
        .lines()
        .filter(|line| line.contains("| step\\_seconds | "))
        .count();
    assert!(
        shown > 20 && text.contains(&format!("… and {} more: regressions.", 3000 - shown)),
        "{shown}"
    );
}

#[test]
fn comments_with_long_names_do_not_exceed_the_limit() {
    for letter in ["@", "#", "|", "<", "&", "\\", ":", "é", "🦀", "\n", "\u{202e}"] {
        let mut report = small_report();
        let long = letter.repeat(10_000);
        report.comparison.candidate.machine.clone_from(&long);
        report.comparison.candidate.name.clone_from(&long);
        for cell in &mut report.comparison.cells {
            cell.suite.clone_from(&long);
            cell.workload.clone_from(&long);
            cell.setting.clone_from(&long);
            cell.command.clone_from(&long);
            cell.changes
                .iter_mut()
                .for_each(|change| change.doubt.clone_from(&long));
            let finding = cell.findings.first().cloned();
            cell.findings.extend(finding.into_iter().cycle().take(1000));
        }
        let length = markdown(&report).len();
        assert!(length <= MAX_COMMENT_LENGTH, "{letter}: {length}");
    }
}

#[test]
fn names_in_comments_are_escaped() {
    for text in [markdown(&small_report()), markdown(&invented::large_report())] {
        let tags = [
            "<code>",
            "</code>",
            "<pre>",
            "</pre>",
            "<details>",
            "</details>",
            "<summary>",
            "</summary>",
            "<!-- -->",
        ];
        let untagged = tags.iter().fold(text.clone(), |text, tag| text.replace(tag, ""));
        assert!(
            !untagged.contains('<'),
            "{}",
            &untagged[untagged.find('<').unwrap()..]
        );
        assert!(!text.contains("@all") || text.contains("<pre>"));
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        let mut head = 0;
        for line in text.lines() {
            match line.starts_with('|') {
                true if head == 0 => head = columns(line),
                true => assert_eq!(columns(line), head, "{line}"),
                false => head = 0,
            }
        }
    }
}

#[test]
fn comparisons_without_cells_are_rendered() {
    let report = report_without_cells();
    assert!(!report.fails());
    assert!(markdown(&report).starts_with("✅ **no regression in 0 cells"));
    assert_eq!(annotations(&report).lines().count(), 1);
    assert!(terminal_tables(&report, 80).is_empty());
    assert!(junit(&report).contains("tests=\"0\""));
}

fn table_text(table: &Table) -> String {
    let rows = [table.header.iter().map(|(title, _)| title.clone()).collect()]
        .into_iter()
        .chain(table.rows.clone());
    let rows: Vec<String> = rows.map(|row: Vec<String>| row.join(" | ")).collect();
    format!("{}\n{}\n", table.title, rows.join("\n"))
}

#[test]
fn terminal_tables_match_the_snapshot() {
    let tables: Vec<String> = terminal_tables(&small_report(), 120)
        .iter()
        .map(table_text)
        .collect();
    insta::assert_snapshot!(tables.join("\n"));
}

#[test]
fn terminal_tables_fit_and_contain_no_control_characters() {
    for (report, width) in [
        (small_report(), 100),
        (small_report(), 140),
        (invented::large_report(), 100),
    ] {
        for table in terminal_tables(&report, width) {
            let length = |text: &String| text.chars().count();
            let columns = 0..table.header.len();
            let widest = |column: usize| table.rows.iter().map(|row| length(&row[column])).max().unwrap();
            let line: usize = columns
                .clone()
                .map(|column| widest(column).max(length(&table.header[column].0)) + 3)
                .sum();
            assert!(line < width, "{}: {}", table.title, line + 1);
            assert!(
                table
                    .rows
                    .iter()
                    .flatten()
                    .all(|text| !text.contains(char::is_control))
            );
        }
    }
}

#[test]
fn annotations_match_the_snapshot() {
    insta::assert_snapshot!(annotations(&small_report()));
}

#[test]
fn annotations_are_limited_and_cannot_be_injected() {
    let text = annotations(&invented::large_report());
    let count = |level: &str| {
        text.lines()
            .filter(|line| line.starts_with(&format!("::{level} title=")))
            .count()
    };
    assert_eq!((count("error"), count("warning"), count("notice")), (10, 10, 1));
    assert_eq!(text.lines().count(), 21);
    let last = text.lines().last().unwrap();
    assert!(last.contains("2991 more errors not shown"), "{last}");
    for line in text.lines() {
        let (_, properties) = line.split_once(" title=").unwrap();
        let (title, _) = properties.split_once("::").unwrap();
        assert!(!title.contains([':', ',', '\r']), "{title}");
    }
}

#[test]
fn junit_matches_the_snapshot() {
    insta::assert_snapshot!(without_repeated_letters(&junit(&small_report())));
}

#[test]
fn junit_counts_are_correct_and_strict_reports_errors() {
    let mut report = small_report();
    for (strict, errors, skipped) in [(false, 0, 1), (true, 1, 0)] {
        report.strict = strict;
        let xml = junit(&report);
        assert_eq!(xml.matches("<testcase ").count(), 4);
        assert_eq!(xml.matches("<failure ").count(), 2);
        assert_eq!(
            (xml.matches("<error ").count(), xml.matches("<skipped ").count()),
            (errors, skipped)
        );
        assert!(xml.contains(&format!(
            "<testsuites name=\"mantissa gate\" tests=\"4\" failures=\"2\" errors=\"{errors}\">"
        )));
        let allowed = |c: char| matches!(c, '\n' | ' '..='\u{7e}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..);
        assert!(xml.chars().all(allowed));
    }
}

#[test]
fn benchmark_action_matches_the_snapshots() {
    let run = run();
    let measurements = Measurements::of(&run);
    for better in [Better::Lower, Better::Higher] {
        let text = benchmark_action(&measurements, better);
        insta::assert_snapshot!(
            format!("benchmark_action_{better}"),
            without_repeated_letters(&text)
        );
        let benchmarks: Vec<Value> = serde_json::from_str(&text).unwrap();
        let names: BTreeSet<&str> = benchmarks
            .iter()
            .map(|entry| entry["name"].as_str().unwrap())
            .collect();
        assert_eq!(names.len(), benchmarks.len());
        assert!(
            benchmarks
                .iter()
                .all(|entry| entry["value"].is_number() && entry["unit"].is_string())
        );
    }
}

#[test]
fn bencher_matches_the_snapshot() {
    let run = run();
    let text = bencher(&Measurements::of(&run));
    insta::assert_snapshot!(without_repeated_letters(&text));
    let benchmarks: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(benchmarks.len(), run.cells.len());
    for (name, measures) in &benchmarks {
        assert!(name.len() <= 1024, "{}", name.len());
        for metric in measures.as_object().unwrap().values() {
            let number = |end: &str| metric[end].as_f64();
            assert!(number("lower_value") <= number("value"));
            assert!(metric.get("upper_value").is_none() || number("value") <= number("upper_value"));
        }
    }
}

#[test]
fn openmetrics_matches_the_snapshot() {
    let run = run();
    let measurements = Measurements::of(&run).only(&[
        MetricName::StepSeconds,
        MetricName::SkippedSteps,
        MetricName::TestAccuracy,
    ]);
    let text = openmetrics(&measurements);
    insta::assert_snapshot!(without_repeated_letters(&text));
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
    assert!(openmetrics(&Measurements::of(&run).only(&[])).ends_with("# EOF\n"));
}

#[test]
fn mlperf_log_matches_the_snapshot() {
    let run = run();
    let measurements = Measurements::of(&run).only(&[MetricName::StepSeconds]);
    let text = mlperf(&measurements).unwrap();
    insta::assert_snapshot!(without_repeated_letters(&text));
    for line in text.lines() {
        let event: Value = serde_json::from_str(line.strip_prefix(":::MLLOG ").unwrap()).unwrap();
        assert_eq!(event["time_ms"], 1_795_326_596_123_i64);
        assert!(line.is_ascii() && line.matches(":::MLLOG").count() == 1);
    }
}

#[test]
fn mlperf_precisions_are_omitted_unless_observed() {
    use mantissa_core::ExecutedVerdict;
    let mut run = run();
    let precisions = |run: &RunMeasurements| {
        mlperf(&Measurements::of(run))
            .unwrap()
            .matches("\"lowest_numerical_precision")
            .count()
    };
    // One key for each of two bf16 matmuls (TF32 was requested for one of them), and two keys (linear layers, attention) for each of two
    // models.
    assert_eq!(precisions(&run), 6);
    for measured in run.cells.values_mut() {
        measured.processes[0].executed.verdict = ExecutedVerdict::Differs;
    }
    assert_eq!(precisions(&run), 2);
    for measured in run.cells.values_mut() {
        measured.processes[0].executed.verdict = ExecutedVerdict::Unverified;
    }
    assert_eq!(precisions(&run), 0);
}

#[test]
fn mlperf_rejects_an_invalid_start_time() {
    let mut run = run();
    run.started = "yesterday".to_owned();
    let error = mlperf(&Measurements::of(&run)).unwrap_err();
    assert!(matches!(&error, GateError::InvalidStartTime { given, .. } if given == "yesterday"));
}

#[test]
fn missing_values_are_omitted_and_zeros_are_exported() {
    let run = run();
    let measurements = Measurements::of(&run);
    let texts = [
        benchmark_action(&measurements, Better::Lower) + &benchmark_action(&measurements, Better::Higher),
        bencher(&measurements),
        openmetrics(&measurements),
        mlperf(&measurements).unwrap(),
    ];
    for text in texts {
        assert!(!text.contains("NaN") && !text.contains("null"), "{text}");
        assert!(!text.contains("energy_counter") && !text.contains("energy-counter"));
        assert!(text.contains("warmup"));
    }
}

#[test]
fn rendering_is_deterministic() {
    let (one, other) = (run(), run());
    let all = |run: &RunMeasurements| {
        let measurements = Measurements::of(run);
        let report = invented::small_report(run);
        [
            bencher(&measurements),
            openmetrics(&measurements),
            mlperf(&measurements).unwrap(),
            junit(&report),
            markdown(&report),
        ]
    };
    assert_eq!(all(&one), all(&other));
}

#[test]
fn documentation_examples_match_the_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recorded = RunMeasurements::read(&root.join("reports/20261122T161400Z-trained-models")).unwrap();
    let measurements = Measurements::of(&recorded);
    let report = small_report();
    let written = [
        markdown(&report),
        annotations(&report),
        junit(&report),
        benchmark_action(&measurements, Better::Higher),
        bencher(&measurements),
        openmetrics(&measurements),
        mlperf(&measurements).unwrap(),
    ]
    .concat();
    let lines: BTreeSet<&str> = written.lines().map(str::trim).collect();
    let text = std::fs::read_to_string(root.join("docs/gate-formats.md")).unwrap();
    let blocks = text.split("```").skip(1).step_by(2);
    let shown: Vec<&str> = blocks
        .filter(|block| !block.starts_with("sh") && !block.starts_with("yaml"))
        .flat_map(|block| block.lines().skip(1))
        .collect();
    assert!(shown.len() > 15);
    for line in shown {
        assert!(lines.contains(line.trim()), "{line}");
    }
}
