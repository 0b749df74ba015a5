//! Notes on the samples of a row: drift, dependence, throttled samples, outliers and launches.

use mantissa_core::{EventKind, Metric, MetricName, Record};

use crate::{digest::Times, estimates::RecordWithDigest, units};

/// Share of the time without a kernel on the device above which a row is launch-bound.
pub(crate) const LAUNCH_BOUND: f64 = 0.5;

/// Returns the notes on the samples of a row: drift, dependence, throttled samples and outliers.
pub(crate) fn of_row(measured: &[RecordWithDigest<'_>]) -> Vec<String> {
    let times: Vec<&Times> = measured
        .iter()
        .filter_map(|(_, digest)| digest.as_ref()?.times.as_ref())
        .collect();
    let of_several = |count: usize| match times.len() {
        1 => String::new(),
        all => format!(" in {count} of {all} processes"),
    };
    let mut notes = Vec::new();
    let serial = || times.iter().filter_map(|times| times.serial);
    let drifts: Vec<f64> = serial()
        .filter(|serial| serial.drifts())
        .map(|serial| serial.drift)
        .collect();
    if let Some(most) = drifts.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())) {
        notes.push(format!(
            "drift {:+.1} %{}",
            100.0 * most,
            of_several(drifts.len())
        ));
    }
    let dependent: Vec<(u64, f64)> = times
        .iter()
        .filter_map(|times| {
            let serial = times.serial.filter(|serial| serial.depends())?;
            Some((times.n(), serial.effective_samples))
        })
        .collect();
    if let Some((n, effective)) = dependent.iter().min_by(|a, b| a.1.total_cmp(&b.1)) {
        let n = units::count(*n);
        notes.push(format!(
            "effective sample size {effective:.0} of {n}{}",
            of_several(dependent.len())
        ));
    }
    let samples: u64 = times.iter().map(|times| times.n()).sum();
    let counted = |count: u64, what: &str| {
        (count > 0).then(|| {
            format!(
                "{what}: {} of {} times",
                units::count(count),
                units::count(samples)
            )
        })
    };
    notes.extend(counted(
        times.iter().map(|times| times.throttled).sum(),
        "throttled",
    ));
    notes.extend(counted(
        times.iter().map(|times| times.outliers).sum(),
        "outliers",
    ));
    notes.extend(launches(measured.iter().map(|(record, _)| *record)));
    let warned = measured.iter().flat_map(|(record, _)| &record.events);
    for warning in warned.filter(|event| event.kind == EventKind::Warning) {
        if !notes.contains(&warning.detail) {
            notes.push(warning.detail.clone());
        }
    }
    notes
}

/// Returns the note of a launch-bound row.
fn launches<'a>(records: impl Iterator<Item = &'a Record>) -> Option<String> {
    let value = |record: &Record, name| record.metrics.get(&name).and_then(|metric: &Metric| metric.value);
    let mut of_processes = records.filter_map(|record| {
        let idle = value(record, MetricName::DeviceIdleShare)?;
        Some((idle, value(record, MetricName::LaunchesPerStep)?))
    });
    let (idle, launches) = of_processes.next().filter(|(idle, _)| *idle > LAUNCH_BOUND)?;
    Some(format!(
        "launch-bound: {} launches per step, device idle for {:.0} % of the time",
        units::count(launches.round() as u64),
        idle * 100.0
    ))
}
