//! Speed and errors of a kernel at its largest size, and the growth of errors with the size.

use mantissa_core::{Axis, MetricName};

use super::speed::{certainty, fastest, is_faster, nearest, ratio};
use crate::{Group, Row, least_squares::straight_line, shape, units};

/// Returns the sentences about the fastest setting of a kernel at its largest size, and about its errors.
pub(super) fn sentences(group: &Group<'_>) -> Vec<String> {
    let Some(kernel) = group
        .rows
        .first()
        .and_then(|row| shape::kernel(&row.cell.workload))
    else {
        return Vec::new();
    };
    let sizes = group.ok().filter(|row| row.metrics.contains_key(&group.speed));
    let Some(size) = sizes.map(|row| row.cell.setting.size()).max() else {
        return Vec::new();
    };
    let rows: Vec<&Row<'_>> = group.ok().filter(|row| row.cell.setting.size() == size).collect();
    let Some(fastest) = fastest(&rows) else {
        return Vec::new();
    };
    let base = fastest.baseline.map(|index| &group.rows[index]);
    let at_size = shape::at_size(kernel, size);
    let label = |row: &Row<'_>| group.label(row, &[Axis::Size]);
    let error =
        |row: &Row<'_>| units::value(MetricName::RelativeError, row.metric(MetricName::RelativeError));
    let speed = |row: &Row<'_>| group.value(group.speed, row);
    let mut sentences = Vec::new();
    match base.filter(|base| base.cell.id != fastest.cell.id) {
        Some(base) if !is_faster(fastest) => sentences.push(format!(
            "{at_size}, no setting is significantly faster than the baseline, {} ({}, relative error {}); {}, at a relative error of {}.",
            label(base),
            speed(base),
            error(base),
            nearest(group, &label(fastest), fastest),
            error(fastest),
        )),
        Some(base) => sentences.push(format!(
            "{at_size}, {} is fastest: {}, {} the speed of the baseline ({}, {}), at a relative error of {} instead of {}.",
            label(fastest),
            speed(fastest),
            ratio(fastest.speed_up.as_ref()),
            label(base),
            speed(base),
            error(fastest),
            error(base),
        )),
        None => sentences.push(format!(
            "{at_size}, no setting is faster than the baseline, {} ({}, relative error {}).",
            label(fastest),
            speed(fastest),
            error(fastest),
        )),
    }
    sentences.extend(fastest.speed_verdict.map(|verdict| certainty(verdict, fastest)));
    let known = |row: &&&Row<'_>| row.metrics.contains_key(&MetricName::RelativeError);
    let value = |row: &Row<'_>| row.metric(MetricName::RelativeError).map_or(0.0, |e| e.value);
    if let Some(worst) = rows
        .iter()
        .filter(known)
        .max_by(|a, b| value(a).total_cmp(&value(b)))
    {
        sentences.push(format!(
            "The largest relative error at this size is {}, for {}.",
            error(worst),
            label(worst)
        ));
    }
    if let Some(share) = fastest.copy_share() {
        sentences.push(format!(
            "The fastest setting moves {}, {:.0} % of the rate of a copy of the same size.",
            group.value(MetricName::BytesPerSecond, fastest),
            100.0 * share
        ));
    }
    if shape::sums_grow(kernel) {
        sentences.extend(growth(group));
    }
    sentences
}

/// Describes the growth of the error with the inner dimension, one sentence per distribution of input values. The exponent is the slope of
/// a straight line fitted to the logarithms of both.
fn growth(group: &Group<'_>) -> Vec<String> {
    let mut kinds: Vec<String> = group.ok().map(|row| row.axis(Axis::Distribution)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.iter().filter_map(|kind| growth_of(group, kind)).collect()
}

fn growth_of(group: &Group<'_>, distribution: &str) -> Option<String> {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = vec![];
    for row in group
        .ok()
        .filter(|row| row.axis(Axis::Distribution) == distribution)
    {
        let Some(error) = row
            .metric(MetricName::RelativeError)
            .filter(|error| error.value > 0.0)
        else {
            continue;
        };
        let point = (f64::from(row.cell.setting.size()).ln(), error.value.ln());
        let label = group.label(row, &[Axis::Size, Axis::Distribution]);
        match lines.iter_mut().find(|(known, _)| *known == label) {
            Some((_, points)) => points.push(point),
            None => lines.push((label, vec![point])),
        }
    }
    let powers: Vec<String> = lines
        .iter()
        .filter_map(|(label, points)| Some(format!("{:.2} ({label})", straight_line(points)?.0)))
        .collect();
    let subject = if group.varies(Axis::Distribution) {
        format!("With {distribution} values the relative error")
    } else {
        "The relative error".to_owned()
    };
    (!powers.is_empty()).then(|| {
        format!(
            "{subject} grows with the inner dimension to the power of {}.",
            powers.join(", ")
        )
    })
}
