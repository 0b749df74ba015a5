//! OpenMetrics text, version 1.0, for scrapers and the textfile collector of a node exporter.

use std::{collections::BTreeSet, fmt::Write as _};

use mantissa_analysis::{Estimate, Interval};
use mantissa_core::{Axis, Better, MetricName, Unit};

use super::{
    CellEstimates, Measurements,
    escape::{sanitize, shorten},
};

/// Maximum length of the value of a label, in characters.
const MAX_LABEL_CHARS: usize = 1000;

/// Part of an estimate that is exported as a separate metric.
struct Part {
    /// Suffix of the name, before the unit.
    suffix: &'static str,
    help: &'static str,
    value: fn(&Estimate) -> Option<f64>,
}

const PARTS: [Part; 3] = [
    Part {
        suffix: "",
        help: "",
        value: |estimate| Some(estimate.value),
    },
    Part {
        suffix: "_low",
        help: ", lower end of the 95 % interval",
        value: |estimate| estimate.interval.map(|Interval { low, .. }| low),
    },
    Part {
        suffix: "_high",
        help: ", upper end of the 95 % interval",
        value: |estimate| estimate.interval.map(|Interval { high, .. }| high),
    },
];

/// Renders three gauges per metric: the value and both ends of its interval. Each cell is a point with labels for suite, workload,
/// identity, seed and every axis of the setting. Values are in the units of records. Scrapers add the timestamps.
pub fn openmetrics(measurements: &Measurements<'_>) -> String {
    let mut out = String::new();
    run_info(&mut out, measurements);
    let all = measurements.cells.iter().flat_map(|cell| cell.estimates.keys());
    let metrics: BTreeSet<MetricName> = all.copied().collect();
    for metric in metrics {
        for part in &PARTS {
            family(&mut out, measurements, metric, part);
        }
    }
    out.push_str("# EOF\n");
    out
}

/// Renders the properties of the whole run.
fn run_info(out: &mut String, measurements: &Measurements<'_>) {
    let run = measurements.run;
    let fingerprint = &run.fingerprint;
    let gpu = fingerprint.gpu.as_ref();
    let properties = [
        ("run", Some(run.name.clone())),
        ("started", Some(run.started.clone())),
        ("profile", Some(run.profile.to_string())),
        ("gpu", gpu.map(|gpu| gpu.name.clone())),
        ("driver", gpu.and_then(|gpu| gpu.driver.clone())),
        ("cpu", fingerprint.cpu.clone()),
        ("mantissa", Some(fingerprint.mantissa.clone())),
        ("revision", fingerprint.revision.clone()),
        ("build", Some(fingerprint.build.clone())),
    ];
    let labels = properties
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    // A gauge, because the Prometheus text parser of the textfile collector does not support the type `info`.
    out.push_str("# TYPE mantissa_run_info gauge\n# HELP mantissa_run_info The measured run.\n");
    let _ = writeln!(out, "mantissa_run_info{{{}}} 1", join_labels(labels));
}

fn family(out: &mut String, measurements: &Measurements<'_>, metric: MetricName, part: &Part) {
    let points = measurements.cells.iter().filter_map(|cell| {
        let value = (part.value)(cell.estimates.get(&metric)?)?;
        Some((cell, value))
    });
    let mut points = points.peekable();
    if points.peek().is_none() {
        return;
    }
    let (name, unit) = (name(metric, part.suffix), unit(metric));
    let _ = writeln!(out, "# TYPE {name} gauge");
    if !unit.is_empty() {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let better = match metric.better() {
        Better::Lower => "lower",
        Better::Higher => "higher",
    };
    let _ = writeln!(
        out,
        "# HELP {name} Median over processes of {metric}{}; {better} is better.",
        part.help
    );
    for (cell, value) in points {
        let _ = writeln!(out, "{name}{{{}}} {value:?}", labels(cell));
    }
}

fn labels(cell: &CellEstimates<'_>) -> String {
    let cell = cell.cell();
    let identity = [
        ("suite", cell.suite.clone()),
        ("workload", cell.workload.name.clone()),
        ("cell", cell.id.to_string()),
        ("seed", cell.seed.to_string()),
    ];
    let axes = cell.setting.iter().filter(|(axis, _)| *axis != Axis::Seed);
    join_labels(
        identity
            .into_iter()
            .chain(axes.map(|(axis, value)| (axis.name(), value.to_string()))),
    )
}

fn join_labels(labels: impl Iterator<Item = (&'static str, String)>) -> String {
    let labels =
        labels.map(|(name, value)| format!("{name}=\"{}\"", escape(&shorten(&value, MAX_LABEL_CHARS))));
    labels.collect::<Vec<_>>().join(",")
}

/// Escapes the value of a label.
fn escape(text: &str) -> String {
    sanitize(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Returns the OpenMetrics name of a metric. The unit is the last part of the name.
fn name(metric: MetricName, part: &str) -> String {
    let unit = unit(metric);
    let name = metric.name();
    match name.strip_suffix(unit) {
        _ if unit.is_empty() => format!("mantissa_{name}{part}"),
        Some("") => format!("mantissa{part}_{unit}"),
        Some(stem) => format!("mantissa_{}{part}_{unit}", stem.trim_end_matches('_')),
        None => format!("mantissa_{name}{part}_{unit}"),
    }
}

/// Returns the OpenMetrics name of the unit; empty for a count.
fn unit(metric: MetricName) -> &'static str {
    match metric.unit() {
        Unit::Seconds => "seconds",
        Unit::Bytes => "bytes",
        Unit::Joules => "joules",
        Unit::Watts => "watts",
        Unit::Ratio => "ratio",
        Unit::SamplesPerSecond => "samples_per_second",
        Unit::TokensPerSecond => "tokens_per_second",
        Unit::FlopsPerSecond => "flops_per_second",
        Unit::ValuesPerSecond => "values_per_second",
        Unit::BytesPerSecond => "bytes_per_second",
        Unit::Nats => "nats",
        Unit::Ulp => "ulp",
        Unit::Count => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_are_unique_and_end_in_their_unit() {
        let mut seen = BTreeSet::from(["mantissa_run".to_owned(), "mantissa_run_info".to_owned()]);
        for (metric, part) in MetricName::ALL
            .iter()
            .flat_map(|metric| PARTS.iter().map(move |part| (metric, part)))
        {
            let (name, unit) = (name(*metric, part.suffix), unit(*metric));
            assert!(name.ends_with(unit) && !name.contains("__"), "{name}");
            assert!(seen.insert(name.clone()), "{name}");
        }
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(escape("a\"} 1\n\\"), r#"a\"} 1 \\"#);
    }
}
