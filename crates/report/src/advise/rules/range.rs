//! Rules about the range and precision of formats.

use mantissa_core::{
    Axis, Event, EventKind, ExecutedVerdict, Format, MatmulPrecision, MetricName, Precision, Status,
    TensorClass,
};
use mantissa_run_folder::SampleSelection;

use super::{Context, Finding, alike};
use crate::Row;

/// Share of underflowed gradients above which the underflow rule fires. Micikevicius et al. found this share of weight gradients below the
/// smallest f16 value.
const UNDERFLOW_THRESHOLD: f64 = 0.05;

/// Share of lost weight updates above which the rule fires. An update is lost if it is too small to change its 16-bit weight.
const LOST_UPDATES_THRESHOLD: f64 = 0.5;

/// Returns the rows that ran.
fn rows_that_ran<'r, 'a>(context: &Context<'_, 'r, 'a>) -> impl Iterator<Item = &'r Row<'a>> {
    let rows = context.group.rows.iter();
    rows.filter(|row| row.status.is_some_and(|status| status != Status::Skipped))
}

fn share(row: &Row<'_>, metric: MetricName) -> Option<f64> {
    row.metric(metric).map(|estimate| estimate.value)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn events<'a>(row: &Row<'a>, kind: EventKind) -> impl Iterator<Item = &'a Event> {
    let events = row.records.clone().into_iter().flat_map(|record| &record.events);
    events.filter(move |event| event.kind == kind)
}

/// Returns the warning that a training recorded about Adam's epsilon.
fn epsilon_warning<'a>(row: &Row<'a>) -> Option<&'a Event> {
    events(row, EventKind::Warning).find(|event| event.detail.starts_with("`adam_eps="))
}

pub(super) fn executed_differs<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    let rows = rows_that_ran(context).filter(|row| row.verdict() == Some(ExecutedVerdict::Differs));
    rows.map(|row| {
        let executed = row.executed().unwrap_or_default();
        (row, format!("requested {}, {executed}", row.requested()))
    })
    .collect()
}

pub(super) fn vanishing_epsilon<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    let finding = |row: &'r Row<'a>| {
        let warning = &epsilon_warning(row)?.detail;
        let failure = (!row.is_ok()).then(|| format!("; status {}", status_and_reason(row)));
        Some((row, format!("{warning}{}", failure.unwrap_or_default())))
    };
    rows_that_ran(context).filter_map(finding).collect()
}

fn status_and_reason(row: &Row<'_>) -> String {
    let why = row.reason.as_deref().map(|why| format!(": {why}"));
    format!("{}{}", row.status_name(), why.unwrap_or_default())
}

/// Finds rows whose values overflow f16.
///
/// Dynamic loss scaling makes gradients overflow on purpose. Under 16-mixed, only a loss scale below 1 indicates that values are too large.
/// Rows that also overflow under f32 are skipped, because the format is not the cause.
pub(super) fn overflow<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    let finding = |row: &'r Row<'a>| {
        let precision = row.cell.setting.precision();
        if precision.compute() != Format::F16 || epsilon_warning(row).is_some() {
            return None;
        }
        let f32_rows: Vec<&Row<'_>> = under_f32(context, row).collect();
        if f32_rows.iter().any(|row| overflows(row)) {
            return None;
        }
        let scale = events(row, EventKind::LossScale)
            .filter_map(|event| event.value)
            .min_by(f64::total_cmp)
            .filter(|scale| *scale < 1.0);
        if let Some(scale) = scale {
            return Some((row, format!("the loss scale fell to {scale}")));
        }
        let overflow = share(row, MetricName::OverflowShare).filter(|share| *share > 0.0);
        if let Some(overflow) = overflow.filter(|_| !precision.scales_loss()) {
            return Some((
                row,
                format!("{} of observed values are not finite", percent(overflow)),
            ));
        }
        // A divergence is attributed to the format only if the same training finished under f32.
        let finished = f32_rows.into_iter().find(|row| row.is_ok())?;
        let reference = context.group.setting_label(finished);
        (row.status == Some(Status::Diverged))
            .then(|| (row, format!("{}; {reference} finished", status_and_reason(row))))
    };
    rows_that_ran(context).filter_map(finding).collect()
}

/// Returns the 32-true/highest rows that differ from `row` only in axes of the number format.
fn under_f32<'r, 'a>(context: &Context<'_, 'r, 'a>, row: &'r Row<'a>) -> impl Iterator<Item = &'r Row<'a>> {
    const FORMAT_AXES: [Axis; 4] = [Axis::Precision, Axis::Matmul, Axis::Accumulator, Axis::KeepF32];
    rows_that_ran(context).filter(move |other| {
        let setting = &other.cell.setting;
        setting.precision() == Precision::True32
            && setting.matmul() == MatmulPrecision::Highest
            && alike(row, other, &FORMAT_AXES)
    })
}

fn overflows(row: &Row<'_>) -> bool {
    row.status == Some(Status::Diverged)
        || share(row, MetricName::OverflowShare).is_some_and(|share| share > 0.0)
}

pub(super) fn underflow<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    // Leave out rows with an overflow, because their training continued with invalid values.
    let has_no_overflow =
        |row: &Row<'_>| share(row, MetricName::OverflowShare).is_none_or(|share| share == 0.0);
    let unscaled = rows_that_ran(context)
        .filter(|row| row.cell.setting.precision() == Precision::True16 && has_no_overflow(row));
    let finding = |row: &'r Row<'a>| {
        let share = underflowed_gradient_share(context, row).filter(|share| *share > UNDERFLOW_THRESHOLD)?;
        Some((
            row,
            format!("{} of observed gradients underflowed to 0", percent(share)),
        ))
    };
    unscaled.filter_map(finding).collect()
}

/// Returns the share of a row's observed gradients that are 0 in f16 but not in a wider format. The metric `underflow_share` also counts
/// layer outputs and optimizer state, which loss scaling does not affect. `None` if nothing underflowed or no gradient could be read.
fn underflowed_gradient_share(context: &Context<'_, '_, '_>, row: &Row<'_>) -> Option<f64> {
    // Skip reading the samples if nothing underflowed.
    share(row, MetricName::UnderflowShare).filter(|share| *share > 0.0)?;
    let (mut zero, mut all) = (0, 0);
    for (record, _) in &row.measured {
        let samples = context
            .run
            .samples
            .read(record, SampleSelection::RANGES)
            .ok()
            .flatten();
        let ranges = samples.into_iter().flat_map(|samples| samples.ranges);
        let gradients = ranges.filter(|range| {
            range.class == TensorClass::Gradient
                && range.format == Format::F16
                && range.reference != Format::F16
        });
        for gradient in gradients {
            zero += gradient.counts.underflow;
            all += gradient.counts.elements;
        }
    }
    (all > 0).then(|| zero as f64 / all as f64)
}

/// Finds rows with 16-bit weights that lost most of their updates. Rows that ended early are skipped.
pub(super) fn lost_updates<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    let has_16_bit_weights = |row: &&Row<'_>| {
        let parameters = row.cell.setting.precision().parameters();
        row.is_ok() && matches!(parameters, Format::F16 | Format::Bf16)
    };
    let finding = |row: &'r Row<'a>| {
        let share =
            share(row, MetricName::LostUpdateShare).filter(|share| *share > LOST_UPDATES_THRESHOLD)?;
        Some((row, format!("{} of the weight updates were lost", percent(share))))
    };
    rows_that_ran(context)
        .filter(has_16_bit_weights)
        .filter_map(finding)
        .collect()
}
