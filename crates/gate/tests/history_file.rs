//! Tests of history files: appended runs, fences, damage and the first bad run.

use std::{collections::BTreeSet, fs};

use mantissa_core::MetricName;
use mantissa_gate::{ChangeVerdict, Fences, Gate, GateError, History, Policy, RunMeasurements, compare};

use crate::six_cells::{measured, run, same, written};

#[test]
fn a_history_grows_run_by_run_and_makes_fences() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let mut last = None;
    for day in 1..=9 {
        let mut invented = run(day, |_, metric| match metric {
            // A cell that jumps by 10 % from run to run.
            MetricName::FlopsPerSecond if day % 2 == 0 => 1.1,
            _ => 1.0,
        });
        invented.started = format!("2026-01-{day:02}T00:00:00Z");
        let name = folder.path().join(format!("run-{day}"));
        let measured = written(&name, invented);
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
    // Runs that did not pass do not contribute to the noise.
    let failed: String = fs::read_to_string(&path)
        .unwrap()
        .replace("\"gate\":\"passed\"", "\"gate\":\"failed\"");
    fs::write(folder.path().join("failed.jsonl"), failed).unwrap();
    let failed = History::read(&folder.path().join("failed.jsonl")).unwrap();
    assert!(failed.fences(last.as_ref().unwrap()).is_empty());
    // A change within the fence is not a regression, even if it exceeds the floor.
    let slower = |_, metric| {
        if metric == MetricName::FlopsPerSecond {
            1.0 / 1.08
        } else {
            1.0
        }
    };
    let (before, after) = (measured(run(1, same)), measured(run(2, slower)));
    let look =
        |fences: &Fences| compare(&before, &after, &Policy::default(), &BTreeSet::new(), fences).unwrap();
    assert!(look(&Fences::new()).any(ChangeVerdict::Regressed));
    assert!(!look(&fences).any(ChangeVerdict::Regressed));
}

#[test]
fn a_history_that_is_damaged_or_goes_back_in_time_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let at = |name: &str, started: &str| {
        let mut invented = run(1, same);
        invented.started = started.into();
        written(&folder.path().join(name), invented)
    };
    let append = |run: &RunMeasurements| History::append(&path, run, Gate::Passed);
    append(&at("one", "2026-01-02T00:00:00Z")).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(matches!(
        append(&at("one", "2026-01-02T00:00:00Z")),
        Err(GateError::KnownRun { .. })
    ));
    let error = append(&at("two", "2026-01-01T00:00:00Z"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("the clock was set back"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    // The same folder measured again is another run. Merged branches can leave the lines in any order.
    append(&at("one", "2026-01-03T00:00:00Z")).unwrap();
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
    let refused = |text: &str, part: &str| {
        fs::write(&path, text).unwrap();
        let error = History::read(&path).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    };
    refused("", "is empty");
    refused("\n", "is empty");
    refused(&text[..text.len() - 5], "truncated");
    refused("{}\n", "line 1");
    refused(&format!("{text}{text}"), "occurs twice");
    refused(&text.replacen("\"schema\":1", "\"schema\":7", 1), "schema 7");
    let later = at("three", "2026-01-04T00:00:00Z");
    fs::write(&path, "").unwrap();
    assert!(matches!(append(&later), Err(GateError::EmptyHistory { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "", "the file must not change");
}

#[test]
fn a_history_names_the_first_bad_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    for day in 1..=20_u64 {
        let mut invented = run(day, |place, metric| match metric {
            MetricName::FlopsPerSecond if place == 2 && day > 11 => 0.93,
            _ => 1.0,
        });
        invented.started = format!("2026-01-{day:02}T00:00:00Z");
        let measured = written(&folder.path().join(format!("run-{day:02}")), invented);
        History::append(&path, &measured, Gate::Passed).unwrap();
    }
    let policy = Policy::default();
    let trends = History::read(&path)
        .unwrap()
        .trends(|metric| policy.floors.get(&metric).copied());
    let turned: Vec<_> = trends
        .iter()
        .flat_map(|trend| trend.changes.iter().map(move |turn| (trend, turn)))
        .filter(|(_, turn)| turn.outcome == ChangeVerdict::Regressed)
        .collect();
    let [(trend, turn)] = turned.as_slice() else {
        panic!("{turned:?}");
    };
    assert_eq!(trend.runs[turn.first].run, "run-12");
    assert_eq!(trend.metric, MetricName::FlopsPerSecond);
    assert!((turn.after / turn.before - 0.93).abs() < 0.01, "{turn:?}");
}
