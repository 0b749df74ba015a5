//! Output formats of an invented comparison: their snapshots, and the escaping of hostile names.

#[path = "../examples/formats/invented.rs"]
mod invented;

use std::{collections::BTreeSet, path::Path};

use mantissa_core::{Better, MetricName};
use mantissa_gate::{
    GateError, GateReport, RunMeasurements,
    render::{
        LONGEST_COMMENT, Measurements, annotations, bencher, benchmark_action, junit, markdown, mlperf,
        openmetrics, terminal_tables,
    },
};
use mantissa_report::Table;
use serde_json::Value;

fn run() -> RunMeasurements {
    let folder = tempfile::tempdir().unwrap();
    invented::run(folder.path())
}

fn few() -> GateReport {
    invented::gated(&run())
}

/// Removes the repeated letter of long names.
fn shortened(text: &str) -> String {
    text.replace(&"é".repeat(100), "")
        .replace(&"\\u00e9".repeat(100), "")
}

fn no_cell() -> GateReport {
    let mut gated = few();
    gated.comparison.cells.clear();
    gated.failures.clear();
    gated.allowed.clear();
    gated.undecided = 0;
    gated
}

#[test]
fn the_comment_is_this() {
    insta::assert_snapshot!(markdown(&few()));
}

#[test]
fn a_comment_fits_whatever_comes_and_counts_what_it_leaves_out() {
    let many = invented::many();
    let text = markdown(&many);
    assert!(text.len() <= LONGEST_COMMENT, "{}", text.len());
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
fn a_comment_fits_whatever_its_names_are_made_of() {
    for letter in ["@", "#", "|", "<", "&", "\\", ":", "é", "🦀", "\n", "\u{202e}"] {
        let mut gated = few();
        let long = letter.repeat(10_000);
        gated.comparison.candidate.machine.clone_from(&long);
        gated.comparison.candidate.name.clone_from(&long);
        for cell in &mut gated.comparison.cells {
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
        let length = markdown(&gated).len();
        assert!(length <= LONGEST_COMMENT, "{letter}: {length}");
    }
}

#[test]
fn no_name_in_a_comment_is_a_tag_a_mention_or_a_column() {
    for text in [markdown(&few()), markdown(&invented::many())] {
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
fn nothing_compared_is_told_as_such() {
    let gated = no_cell();
    assert!(!gated.fails());
    assert!(markdown(&gated).starts_with("✅ **no regression in 0 cells"));
    assert_eq!(annotations(&gated).lines().count(), 1);
    assert!(terminal_tables(&gated, 80).is_empty());
    assert!(junit(&gated).contains("tests=\"0\""));
}

fn drawn(table: &Table) -> String {
    let rows = [table.header.iter().map(|(title, _)| title.clone()).collect()]
        .into_iter()
        .chain(table.rows.clone());
    let rows: Vec<String> = rows.map(|row: Vec<String>| row.join(" | ")).collect();
    format!("{}\n{}\n", table.title, rows.join("\n"))
}

#[test]
fn the_tables_of_a_terminal_are_these() {
    let tables: Vec<String> = terminal_tables(&few(), 120).iter().map(drawn).collect();
    insta::assert_snapshot!(tables.join("\n"));
}

#[test]
fn tables_are_no_wider_than_the_terminal_and_hold_no_command_to_it() {
    for (gated, width) in [(few(), 100), (few(), 140), (invented::many(), 100)] {
        for table in terminal_tables(&gated, width) {
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
fn the_annotations_are_these() {
    insta::assert_snapshot!(annotations(&few()));
}

#[test]
fn no_more_annotations_than_are_shown_and_none_of_somebody_elses() {
    let text = annotations(&invented::many());
    let of = |level: &str| {
        text.lines()
            .filter(|line| line.starts_with(&format!("::{level} title=")))
            .count()
    };
    assert_eq!((of("error"), of("warning"), of("notice")), (10, 10, 1));
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
fn the_junit_file_is_this() {
    insta::assert_snapshot!(shortened(&junit(&few())));
}

#[test]
fn the_cases_of_junit_are_counted_as_they_are_and_strict_makes_errors() {
    let mut gated = few();
    for (strict, errors, skipped) in [(false, 0, 1), (true, 1, 0)] {
        gated.strict = strict;
        let xml = junit(&gated);
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
fn the_arrays_for_github_action_benchmark_are_these() {
    let run = run();
    let measurements = Measurements::of(&run);
    for better in [Better::Lower, Better::Higher] {
        let text = benchmark_action(&measurements, better);
        insta::assert_snapshot!(format!("benchmark_action_{better}"), shortened(&text));
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
fn the_benchmarks_of_bencher_are_these() {
    let run = run();
    let text = bencher(&Measurements::of(&run));
    insta::assert_snapshot!(shortened(&text));
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
fn the_openmetrics_are_these() {
    let run = run();
    let measurements = Measurements::of(&run).only(&[
        MetricName::StepSeconds,
        MetricName::SkippedSteps,
        MetricName::TestAccuracy,
    ]);
    let text = openmetrics(&measurements);
    insta::assert_snapshot!(shortened(&text));
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
    assert!(openmetrics(&Measurements::of(&run).only(&[])).ends_with("# EOF\n"));
}

#[test]
fn the_log_of_mlperf_is_this() {
    let run = run();
    let measurements = Measurements::of(&run).only(&[MetricName::StepSeconds]);
    let text = mlperf(&measurements).unwrap();
    insta::assert_snapshot!(shortened(&text));
    for line in text.lines() {
        let event: Value = serde_json::from_str(line.strip_prefix(":::MLLOG ").unwrap()).unwrap();
        assert_eq!(event["time_ms"], 1_795_326_596_123_i64);
        assert!(line.is_ascii() && line.matches(":::MLLOG").count() == 1);
    }
}

#[test]
fn a_precision_is_told_only_as_far_as_it_was_observed() {
    use mantissa_core::ExecutedVerdict;
    let mut run = run();
    let precisions = |run: &RunMeasurements| {
        mlperf(&Measurements::of(run))
            .unwrap()
            .matches("\"lowest_numerical_precision")
            .count()
    };
    // Expected: a bf16 matmul, a bf16 matmul for which TF32 was requested, and the linear layers and attention of two models.
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
fn a_run_without_a_time_has_no_log() {
    let mut run = run();
    run.started = "yesterday".to_owned();
    let error = mlperf(&Measurements::of(&run)).unwrap_err();
    assert!(matches!(&error, GateError::Started { given, .. } if given == "yesterday"));
}

#[test]
fn what_was_not_measured_is_in_no_format_and_a_zero_is() {
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
fn the_same_run_gives_the_same_bytes() {
    let (one, other) = (run(), run());
    let all = |run: &RunMeasurements| {
        let measurements = Measurements::of(run);
        let gated = invented::gated(run);
        [
            bencher(&measurements),
            openmetrics(&measurements),
            mlperf(&measurements).unwrap(),
            junit(&gated),
            markdown(&gated),
        ]
    };
    assert_eq!(all(&one), all(&other));
}

#[test]
fn the_examples_of_the_documentation_are_what_is_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recorded = RunMeasurements::read(&root.join("reports/20261122T161400Z-trained-models")).unwrap();
    let measurements = Measurements::of(&recorded);
    let few = few();
    let written = [
        markdown(&few),
        annotations(&few),
        junit(&few),
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
