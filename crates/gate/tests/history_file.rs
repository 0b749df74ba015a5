//! Tests of history files: appended runs, run-to-run noise (fences), damaged files, and the first run after a regression.

use std::{collections::BTreeSet, fs};

use mantissa_core::MetricName;
use mantissa_gate::{ChangeVerdict, Fences, Gate, GateError, History, Policy, RunMeasurements, compare};

use crate::six_cells::{read_back, run, unchanged, write_and_read};

#[test]
fn run_to_run_noise_is_computed_from_passed_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let mut last = None;
    for day in 1..=9 {
        let mut invented = run(day, |_, metric| match metric {
            // Alternates by 10 % from run to run.
            MetricName::FlopsPerSecond if day % 2 == 0 => 1.1,
            _ => 1.0,
        });
        invented.started = format!("2026-01-{day:02}T00:00:00Z");
        let name = folder.path().join(format!("run-{day}"));
        let measured = write_and_read(&name, invented);
        assert_eq!(History::append(&path, &measured, Gate::Passed).unwrap(), 6);
        last = Some(measured);
    }
    let history = History::read(&path).unwrap();
    assert_eq!(history.entries().len(), 9 * 6);
    let fences = history.fences(last.as_ref().unwrap());
    let fence = fences
        .iter()
        .find(|((_, metric), _)| *metric == MetricName::FlopsPerSecond)
        .unwrap()
        .1;
    assert!(*fence > 0.08, "{fence}");
    // Runs whose gate did not pass do not contribute to the noise.
    let failed: String = fs::read_to_string(&path)
        .unwrap()
        .replace("\"gate\":\"passed\"", "\"gate\":\"failed\"");
    fs::write(folder.path().join("failed.jsonl"), failed).unwrap();
    let failed = History::read(&folder.path().join("failed.jsonl")).unwrap();
    assert!(failed.fences(last.as_ref().unwrap()).is_empty());
    // A change within the run-to-run noise (the fence) is not a regression, even if it exceeds the policy's minimum (the floor).
    let slower = |_, metric| {
        if metric == MetricName::FlopsPerSecond {
            1.0 / 1.08
        } else {
            1.0
        }
    };
    let (before, after) = (read_back(run(1, unchanged)), read_back(run(2, slower)));
    let compare_with =
        |fences: &Fences| compare(&before, &after, &Policy::default(), &BTreeSet::new(), fences).unwrap();
    assert!(compare_with(&Fences::new()).any(ChangeVerdict::Regressed));
    assert!(!compare_with(&fences).any(ChangeVerdict::Regressed));
}

#[test]
fn damaged_and_out_of_order_histories_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let run_at = |name: &str, started: &str| {
        let mut invented = run(1, unchanged);
        invented.started = started.into();
        write_and_read(&folder.path().join(name), invented)
    };
    let append = |run: &RunMeasurements| History::append(&path, run, Gate::Passed);
    append(&run_at("one", "2026-01-02T00:00:00Z")).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(matches!(
        append(&run_at("one", "2026-01-02T00:00:00Z")),
        Err(GateError::KnownRun { .. })
    ));
    let error = append(&run_at("two", "2026-01-01T00:00:00Z"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("the clock was set back"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    // A second run in a folder of the same name is accepted, because it has another start time. The lines can be in any order, because
    // branches that each appended runs can be merged.
    append(&run_at("one", "2026-01-03T00:00:00Z")).unwrap();
    let both = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        both.lines()
            .rev()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
    .unwrap();
    let started: Vec<_> = History::read(&path)
        .unwrap()
        .entries()
        .iter()
        .map(|entry| entry.started.clone())
        .collect();
    assert!(started.is_sorted() && started.len() == 12, "{started:?}");
    let assert_rejected = |text: &str, part: &str| {
        fs::write(&path, text).unwrap();
        let error = History::read(&path).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    };
    assert_rejected("", "is empty");
    assert_rejected("\n", "is empty");
    assert_rejected(&text[..text.len() - 5], "truncated");
    assert_rejected("{}\n", "line 1");
    assert_rejected(&format!("{text}{text}"), "occurs twice");
    assert_rejected(&text.replacen("\"schema\":1", "\"schema\":7", 1), "schema 7");
    let later = run_at("three", "2026-01-04T00:00:00Z");
    fs::write(&path, "").unwrap();
    assert!(matches!(append(&later), Err(GateError::EmptyHistory { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "", "the file must not change");
}

#[test]
fn trends_name_the_first_bad_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    for day in 1..=20_u64 {
        let mut invented = run(day, |cell_index, metric| match metric {
            MetricName::FlopsPerSecond if cell_index == 2 && day > 11 => 0.93,
            _ => 1.0,
        });
        invented.started = format!("2026-01-{day:02}T00:00:00Z");
        let measured = write_and_read(&folder.path().join(format!("run-{day:02}")), invented);
        History::append(&path, &measured, Gate::Passed).unwrap();
    }
    let policy = Policy::default();
    let trends = History::read(&path)
        .unwrap()
        .trends(|metric| policy.floors.get(&metric).copied());
    let regressions: Vec<_> = trends
        .iter()
        .flat_map(|trend| trend.changes.iter().map(move |change| (trend, change)))
        .filter(|(_, change)| change.outcome == ChangeVerdict::Regressed)
        .collect();
    let [(trend, change)] = regressions.as_slice() else {
        panic!("{regressions:?}");
    };
    assert_eq!(trend.runs[change.first].run, "run-12");
    assert_eq!(trend.metric, MetricName::FlopsPerSecond);
    assert!((change.after / change.before - 0.93).abs() < 0.01, "{change:?}");
}
