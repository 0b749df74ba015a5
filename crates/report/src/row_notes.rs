//! Notes on a row: drift, serial correlation, throttling and outliers of the measured times, launch-bound steps, and recorded warnings.

use std::collections::BTreeMap;

use mantissa_analysis::Estimate;
use mantissa_core::{EventKind, MetricName};

use crate::{digest::Times, estimates::RecordWithDigest, oversubscription::oversubscription, units};

/// A row is launch-bound if no kernel runs on the device for more than this share of the time.
pub(crate) const LAUNCH_BOUND: f64 = 0.5;

/// Returns the notes on a row: on the samples of the processes, on launch-bound steps, and the distinct warnings of the records.
pub(crate) fn of_row(
    measured: &[RecordWithDigest<'_>],
    metrics: &BTreeMap<MetricName, Estimate>,
) -> Vec<String> {
    let times: Vec<&Times> = measured
        .iter()
        .filter_map(|(_, digest)| digest.as_ref()?.times.as_ref())
        .collect();
    let in_processes = |count: usize| match times.len() {
        1 => String::new(),
        all => format!(" in {count} of {all} processes"),
    };
    let mut notes = Vec::new();
    let serial = || times.iter().filter_map(|times| times.serial);
    let drifts: Vec<f64> = serial()
        .filter(|serial| serial.drifts())
        .map(|serial| serial.drift)
        .collect();
    if let Some(largest) = drifts.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())) {
        notes.push(format!(
            "drift {} %{}",
            units::with_minus(&format!("{:+.1}", 100.0 * largest)),
            in_processes(drifts.len())
        ));
    }
    let dependent: Vec<(u64, f64)> = times
        .iter()
        .filter_map(|times| {
            let serial = times.serial.filter(|serial| serial.is_autocorrelated())?;
            Some((times.n(), serial.effective_samples))
        })
        .collect();
    if let Some((n, effective)) = dependent.iter().min_by(|a, b| a.1.total_cmp(&b.1)) {
        let n = units::count(*n);
        notes.push(format!(
            "effective sample size {effective:.0} of {n}{}",
            in_processes(dependent.len())
        ));
    }
    let samples: u64 = times.iter().map(|times| times.n()).sum();
    let count_note = |count: u64, name: &str| {
        (count > 0).then(|| {
            format!(
                "{name}: {} of {} times",
                units::count(count),
                units::count(samples)
            )
        })
    };
    notes.extend(count_note(
        times.iter().map(|times| times.throttled).sum(),
        "throttled",
    ));
    notes.extend(count_note(
        times.iter().map(|times| times.outliers).sum(),
        "outliers",
    ));
    notes.extend(launch_bound_note(metrics));
    notes.extend(oversubscription_note(measured));
    let events = measured.iter().flat_map(|(record, _)| &record.events);
    for warning in events.filter(|event| event.kind == EventKind::Warning) {
        if !notes.contains(&warning.detail) {
            notes.push(warning.detail.clone());
        }
    }
    notes
}

/// Returns the note of a row with more threads than cores.
fn oversubscription_note(measured: &[RecordWithDigest<'_>]) -> Option<String> {
    let (threads, cores) = measured.iter().find_map(|(record, _)| oversubscription(record))?;
    let cores = match cores {
        1 => "1 core".to_owned(),
        _ => format!("{cores} cores"),
    };
    Some(format!(
        "oversubscribed: {threads} threads on {cores}, times are not comparable"
    ))
}

/// Shortens a note on the samples of a process to its name: `drift`. The details of the cell have the whole note.
pub(crate) fn shortened(note: &str) -> &str {
    let names = ["drift", "effective sample size", "outliers", "oversubscribed"];
    names
        .into_iter()
        .find(|name| note.starts_with(name))
        .unwrap_or(note)
}

/// Returns the note of a launch-bound row.
fn launch_bound_note(metrics: &BTreeMap<MetricName, Estimate>) -> Option<String> {
    let value = |name| metrics.get(&name).map(|estimate| estimate.value);
    let idle = value(MetricName::DeviceIdleShare).filter(|idle| *idle > LAUNCH_BOUND)?;
    let launches = value(MetricName::LaunchesPerStep)?;
    Some(format!(
        "launch-bound: {} launches per step, device idle for {:.0} % of the time",
        units::count(launches.round() as u64),
        idle * 100.0
    ))
}
