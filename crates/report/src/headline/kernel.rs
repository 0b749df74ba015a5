//! Speed and errors of a kernel at its largest size, and the growth of errors with the size.

use mantissa_analysis::Verdict;
use mantissa_core::{Axis, MetricName};

use crate::{
    Group, Row,
    least_squares::straight_line,
    setting::{SettingResult, ratio_text},
    shape, units,
};

/// Settings of a kernel at the largest size that finished.
#[derive(Debug)]
pub(crate) struct LargestSize<'g, 'a> {
    /// The size.
    pub size: u32,
    /// Settings with a finished cell of this size, in plan order.
    pub settings: Vec<SettingResult<'g, 'a>>,
    /// Fastest setting relative to its baseline (see [`fastest`]).
    pub fastest: SettingResult<'g, 'a>,
    /// Baseline of the fastest setting; `None` if it is the baseline itself.
    pub base: Option<SettingResult<'g, 'a>>,
}

impl<'g, 'a> LargestSize<'g, 'a> {
    /// Finds the largest size of a kernel with a finished cell; `None` if no cell of it has a speed.
    pub fn of(group: &'g Group<'a>) -> Option<Self> {
        let measured = group.ok().filter(|row| row.metrics.contains_key(&group.speed));
        let size = measured.map(|row| row.cell.setting.size()).max()?;
        let settings = SettingResult::all(group, |row| row.is_ok() && row.cell.setting.size() == size);
        let fastest = fastest(&settings)?.clone();
        let is_base = |other: &&SettingResult<'_, '_>| other.is_baseline() && other.work() == fastest.work();
        let base = settings.iter().find(is_base).filter(|_| !fastest.is_baseline());
        Some(Self {
            size,
            base: base.cloned(),
            fastest,
            settings,
        })
    }
}

/// Returns the sentences about the fastest setting of a kernel at its largest size, and about its errors.
pub(super) fn sentences(group: &Group<'_>) -> Vec<String> {
    let Some(kernel) = group
        .rows
        .first()
        .and_then(|row| shape::kernel(&row.cell.workload))
    else {
        return Vec::new();
    };
    let Some(largest) = LargestSize::of(group) else {
        return Vec::new();
    };
    let LargestSize {
        size,
        settings,
        fastest,
        base,
    } = &largest;
    let base = base.as_ref();
    let at_size = shape::at_size(kernel, *size);
    let label = |row: &Row<'_>| group.label(row, &[Axis::Size, Axis::Seed]);
    let shown = |metric: MetricName, setting: &SettingResult<'_, '_>| {
        let value = setting.value(metric);
        value.map_or_else(
            || units::ABSENT.to_owned(),
            |value| group.scale(metric, value).text(value),
        )
    };
    let speed = |setting: &SettingResult<'_, '_>| shown(group.speed, setting);
    let error = |setting: &SettingResult<'_, '_>| shown(MetricName::RelativeError, setting);
    let ratio = fastest.speed_up().map(ratio_text).unwrap_or_default();
    let mut sentences = vec![match base {
        Some(base) if fastest.speed_up().is_some_and(|ratio| ratio.value > 1.0) => format!(
            "{at_size}, {} {}: {}, {ratio} the speed of {} ({}), at a relative error of {} instead of {}.",
            label(fastest.row()),
            match fastest.speed_verdict() {
                Some(Verdict::Improved) => "is fastest",
                _ => "ran fastest",
            },
            speed(fastest),
            label(base.row()),
            speed(base),
            error(fastest),
            error(base),
        ),
        Some(base) => format!(
            "{at_size}, {} ran fastest ({}, relative error {}); the closest other setting is {} at {ratio}, relative error {}.",
            label(base.row()),
            speed(base),
            error(base),
            label(fastest.row()),
            error(fastest),
        ),
        None => format!(
            "{at_size}, no setting is faster than {} ({}, relative error {}).",
            label(fastest.row()),
            speed(fastest),
            error(fastest),
        ),
    }];
    let largest = |setting: &SettingResult<'_, '_>| setting.maximum(MetricName::RelativeError);
    let with_error = settings
        .iter()
        .filter(|setting| setting.failure().is_none())
        .filter_map(|setting| Some((setting, largest(setting)?)));
    if let Some((worst, value)) = with_error.max_by(|a, b| a.1.total_cmp(&b.1)) {
        sentences.push(format!(
            "The largest relative error at this size is {}, for {}.",
            units::scientific(value),
            label(worst.row())
        ));
    }
    let ran_fastest = match base {
        Some(base) if fastest.speed_up().is_some_and(|ratio| ratio.value <= 1.0) => base,
        _ => fastest,
    };
    if let Some(share) = ran_fastest.copy_share() {
        sentences.push(format!(
            "The fastest setting moves {}, {:.0} % of the rate of a copy of the same size.",
            shown(MetricName::BytesPerSecond, ran_fastest),
            100.0 * share
        ));
    }
    if shape::sums_grow(kernel) {
        sentences.extend(growth(group));
    }
    sentences
}

/// Returns the setting with the highest speed relative to its baseline. Settings shown to be faster take precedence, then settings other than
/// baselines. Skips settings with a seed that did not finish.
fn fastest<'s, 'g, 'a>(settings: &'s [SettingResult<'g, 'a>]) -> Option<&'s SettingResult<'g, 'a>> {
    let key = |setting: &SettingResult<'_, '_>| {
        let speed = setting.speed_up()?.value;
        Some((
            setting.speed_verdict() == Some(Verdict::Improved),
            !setting.is_baseline(),
            speed,
        ))
    };
    let finished = settings.iter().filter(|setting| setting.failure().is_none());
    let known = finished.filter_map(|setting| Some((key(setting)?, setting)));
    let best = known.max_by(|((a_shown, a_other, a), _), ((b_shown, b_other, b), _)| {
        (a_shown, a_other).cmp(&(b_shown, b_other)).then(a.total_cmp(b))
    });
    best.map(|(_, setting)| setting)
}

/// Describes the growth of the error with the inner dimension, one sentence per distribution of input values. The exponent is the slope of
/// a straight line fitted to the logarithms of both.
fn growth(group: &Group<'_>) -> Vec<String> {
    let kinds = distributions(group);
    kinds.iter().filter_map(|kind| growth_of(group, kind)).collect()
}

/// Returns the exponents of the growth for every distribution and setting.
pub(crate) fn error_exponents(group: &Group<'_>) -> Vec<f64> {
    let kinds = distributions(group);
    let exponents = kinds.iter().flat_map(|kind| exponents_of(group, kind));
    exponents.map(|(_, exponent)| exponent).collect()
}

/// Returns the distributions of the input values, in alphabetical order.
fn distributions(group: &Group<'_>) -> Vec<String> {
    let mut kinds: Vec<String> = group.ok().map(|row| row.axis(Axis::Distribution)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Returns the exponent of each setting for a distribution, with the label of the setting.
fn exponents_of(group: &Group<'_>, distribution: &str) -> Vec<(String, f64)> {
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
        let label = group.label(row, &[Axis::Size, Axis::Distribution, Axis::Seed]);
        match lines.iter_mut().find(|(known, _)| *known == label) {
            Some((_, points)) => points.push(point),
            None => lines.push((label, vec![point])),
        }
    }
    let fitted = lines
        .into_iter()
        .filter_map(|(label, points)| Some((label, straight_line(&points)?.0)));
    fitted.collect()
}

fn growth_of(group: &Group<'_>, distribution: &str) -> Option<String> {
    let powers: Vec<String> = exponents_of(group, distribution)
        .iter()
        .map(|(label, exponent)| format!("{} ({label})", units::with_minus(&format!("{exponent:.2}"))))
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
