//! Headline sentences about the suite's question, derived only from its rows.

use mantissa_analysis::{CONFIDENCE, Doubt, Estimate, Verdict};
use mantissa_core::{Axis, MetricName, Status, TaskKind};

use crate::{Group, Row, baseline::SPEED_MATTERS, launches, memory_parts, shape, units};

/// Returns the sentences that summarize the results of a group.
pub(crate) fn answer(group: &Group<'_>) -> Vec<String> {
    let mut sentences = match group.kind {
        TaskKind::Train | TaskKind::Evaluate | TaskKind::Generate => train(group),
        TaskKind::Kernel => kernel(group),
    };
    if sentences.is_empty() {
        sentences.push(match group.skipped_alike() {
            Some(why) => format!(
                "All {} settings were skipped for the same reason: {why}.",
                units::count(group.rows.len() as u64)
            ),
            None => "No cell finished, so there is nothing to compare.".to_owned(),
        });
    }
    sentences.extend(memory_parts::saving(group));
    sentences.extend(seeds(group));
    sentences.extend(endings(group));
    sentences.extend(unexpected(group));
    sentences
}

/// Reports the settings that differ from the suite's expectations.
fn unexpected(group: &Group<'_>) -> Option<String> {
    let rows: Vec<&Row<'_>> = group
        .rows
        .iter()
        .filter(|row| !row.unexpected.is_empty())
        .collect();
    match rows.as_slice() {
        [] => None,
        [row] => Some(format!("{}: {}.", group.label(row, &[]), row.remark())),
        rows => Some(format!(
            "{} settings violate expectations of the suite; the table shows the reasons.",
            rows.len()
        )),
    }
}

/// Returns the main baseline for each sequence length: that of the first finished row. Each length is separate work.
fn main_baselines(group: &Group<'_>) -> Vec<usize> {
    let mut known: Vec<(String, usize)> = Vec::new();
    for row in group.ok() {
        let sequence = row.axis(Axis::Sequence);
        if let Some(baseline) = row.baseline
            && known.iter().all(|(other, _)| *other != sequence)
        {
            known.push((sequence, baseline));
        }
    }
    known.into_iter().map(|(_, baseline)| baseline).collect()
}

/// Returns the rows that are compared with a baseline.
fn rivals<'g, 'a>(group: &'g Group<'a>, baseline: usize) -> Vec<&'g Row<'a>> {
    let base = &group.rows[baseline].cell.id;
    let compared = |row: &&Row<'_>| row.baseline == Some(baseline) && row.cell.id != *base;
    group.ok().filter(compared).collect()
}

fn train(group: &Group<'_>) -> Vec<String> {
    let baselines = main_baselines(group);
    if let [baseline, ..] = baselines[..]
        && baselines
            .iter()
            .all(|baseline| rivals(group, *baseline).is_empty())
    {
        return vec![match group.ok().count() {
            1 => only_finished(group, &group.rows[baseline]),
            _ => "No two settings did the same work, so there is nothing to compare.".to_owned(),
        }];
    }
    let of_each = baselines.iter().flat_map(|baseline| {
        let mut sentences = compare_with_baseline(group, *baseline);
        if let (Some(first), true) = (sentences.first_mut(), baselines.len() > 1) {
            *first = format!(
                "At sequence length {}: {first}",
                group.rows[*baseline].axis(Axis::Sequence)
            );
        }
        sentences
    });
    of_each.collect()
}

fn only_finished(group: &Group<'_>, row: &Row<'_>) -> String {
    let name = group.label(row, &[]);
    format!("Only {name} finished, so there is nothing to compare.")
}

/// Compares the settings that did the same work as a baseline.
fn compare_with_baseline(group: &Group<'_>, baseline: usize) -> Vec<String> {
    let base = &group.rows[baseline];
    let rivals = rivals(group, baseline);
    if rivals.is_empty() {
        return vec![only_finished(group, base)];
    }
    if let Some(bound) = launches::answer(group, base, &rivals) {
        return std::iter::once(bound)
            .chain(least_memory(group, &rivals))
            .collect();
    }
    if !rivals.iter().any(|row| is_compared(row, base)) {
        return by_speed(group, &rivals, base);
    }
    let (equal, worse): (Vec<&Row<'_>>, Vec<&Row<'_>>) = rivals
        .iter()
        .copied()
        .partition(|row| !accuracy_differs(row, base));
    let mut sentences = Vec::new();
    match fastest(&equal) {
        Some(row) => sentences.extend(fastest_equal(group, row, base)),
        None => sentences.push(format!(
            "The test accuracy of every other setting differs from that of the baseline, {}{}.",
            group.label(base, &[]),
            accuracy_of(base)
                .map(|text| format!(" ({text})"))
                .unwrap_or_default(),
        )),
    }
    if let Some(row) = fastest(&worse).filter(|row| beats(row, fastest(&equal))) {
        let accuracy = accuracy_of(row)
            .map(|text| format!(" of {text}"))
            .unwrap_or_default();
        sentences.push(format!(
            "{} {} faster still, at {}, but its test accuracy{accuracy} differs from the baseline's.",
            group.label(row, &[]),
            if is_faster(row) { "is" } else { "ran" },
            ratio(row.speed_up.as_ref()),
        ));
    }
    let named = fastest(&equal).map(|row| &row.cell.id);
    if let Some(row) = leanest(&equal).filter(|row| Some(&row.cell.id) != named) {
        sentences.push(format!(
            "Without a significant change of accuracy, {} needs the least memory: {} of the baseline's{}.",
            group.label(row, &[]),
            ratio(row.memory_ratio.as_ref()),
            row.speed_up
                .as_ref()
                .map(|e| format!(", at {} its speed", units::times(e.value)))
                .unwrap_or_default(),
        ));
    }
    sentences.extend(indistinct(group, &equal));
    sentences
}

/// Returns `true` if the accuracies of two rows can be compared. Intervals of models that predict tokens cannot: they vary with the
/// passages, which are the same in both rows.
fn is_compared(row: &Row<'_>, base: &Row<'_>) -> bool {
    if row.cell.workload.predicts_tokens() {
        return false;
    }
    let interval = |row: &Row<'_>| row.metric(MetricName::TestAccuracy).and_then(|e| e.interval);
    row.accuracy_p.is_some() || (interval(row).is_some() && interval(base).is_some())
}

/// Names the fastest setting and the one with the least memory if the accuracies cannot be compared.
fn by_speed(group: &Group<'_>, rivals: &[&Row<'_>], base: &Row<'_>) -> Vec<String> {
    let base_name = group.label(base, &[]);
    let seconds = |row: &Row<'_>| group.value(group.speed, row);
    let mut sentences = vec![];
    let fastest = fastest(rivals);
    if let Some(row) = fastest {
        let (name, speed) = (group.label(row, &[]), row.speed_up.as_ref());
        sentences.push(match is_faster(row) {
            false => format!(
                "No setting is significantly faster than the baseline, {base_name} ({}); {}.",
                seconds(base),
                nearest(group, &name, row)
            ),
            true => format!(
                "{name} is the fastest setting: {} as fast as the baseline ({base_name}), {} instead of {}.",
                ratio(speed),
                seconds(row),
                seconds(base)
            ),
        });
        sentences.extend(row.speed_verdict.map(|verdict| certainty(verdict, row)));
    }
    sentences.extend(least_memory(group, rivals));
    let fastest = fastest.and_then(|row| Some((row, with_interval(row, MetricName::Perplexity)?)));
    sentences.push(match (fastest, with_interval(base, MetricName::Perplexity)) {
        (Some((row, mine)), Some(theirs)) => format!(
            "Perplexity is {mine} for {} and {theirs} for the baseline; the uncertainty of the difference was not estimated.",
            group.label(row, &[]),
        ),
        (_, theirs) => perplexities(group, rivals, (base_name.as_str(), theirs))
            .unwrap_or_else(|| "The quality of their results was not compared.".to_owned()),
    });
    sentences
}

fn least_memory(group: &Group<'_>, rivals: &[&Row<'_>]) -> Option<String> {
    let row = leanest(rivals)?;
    Some(format!(
        "{} needs the least memory: {} of the baseline's.",
        group.label(row, &[]),
        ratio(row.memory_ratio.as_ref())
    ))
}

/// Reports the lowest, the highest and the baseline's perplexity, if the fastest setting cannot be compared by perplexity.
fn perplexities(
    group: &Group<'_>,
    rivals: &[&Row<'_>],
    (base_name, base): (&str, Option<String>),
) -> Option<String> {
    let metric = MetricName::Perplexity;
    let value = |row: &Row<'_>| row.metric(metric).map(|estimate| estimate.value);
    let mut known: Vec<&Row<'_>> = rivals
        .iter()
        .copied()
        .filter(|row| value(row).is_some())
        .collect();
    known.sort_by(|a, b| value(a).unwrap_or(0.0).total_cmp(&value(b).unwrap_or(0.0)));
    let of = |row: &Row<'_>| {
        Some(format!(
            "{} for {}",
            with_interval(row, metric)?,
            group.label(row, &[])
        ))
    };
    let others = match known.as_slice() {
        [] => return None,
        [row] => of(row)?,
        [lowest, .., highest] => format!("from {} to {}", of(lowest)?, of(highest)?),
    };
    let base = base.unwrap_or_else(|| units::ABSENT.to_owned());
    Some(format!(
        "Perplexity is {others}; the baseline's ({base_name}) is {base}. The uncertainty of the difference was not estimated."
    ))
}

fn fastest_equal(group: &Group<'_>, row: &Row<'_>, base: &Row<'_>) -> Vec<String> {
    let (name, base_name) = (group.label(row, &[]), group.label(base, &[]));
    let seconds = |row: &Row<'_>| group.value(group.speed, row);
    let speed = row.speed_up.as_ref();
    let mut sentences = vec![if is_faster(row) {
        format!(
            "{name} is the fastest setting whose test accuracy does not differ significantly from the baseline's \
             ({base_name}): {} as fast, {} instead of {}.",
            ratio(speed),
            seconds(row),
            seconds(base),
        )
    } else {
        format!(
            "No setting of equal test accuracy is significantly faster than the baseline, {base_name} ({}); {}.",
            seconds(base),
            nearest(group, &name, row),
        )
    }];
    sentences.extend(row.speed_verdict.map(|verdict| certainty(verdict, row)));
    if let (Some(mine), Some(theirs)) = (accuracy_of(row), accuracy_of(base)) {
        sentences.push(format!(
            "Its test accuracy is {mine}; the baseline's is {theirs}."
        ));
    }
    if let Some(memory) = &row.memory_ratio {
        sentences.push(format!(
            "It needs {} of the baseline's peak memory.",
            units::times(memory.value)
        ));
    }
    sentences
}

/// Returns `true` if the row is significantly faster than its baseline.
fn is_faster(row: &Row<'_>) -> bool {
    row.speed_verdict == Some(Verdict::Improved)
}

/// Names the setting closest to being faster, by the point estimate alone.
fn nearest(group: &Group<'_>, name: &str, row: &Row<'_>) -> String {
    let speed = row.speed_up.as_ref();
    match speed.is_some_and(|speed| speed.value > 1.0) {
        true => format!(
            "the highest point estimate is that of {name}: {} the baseline's speed, {}",
            ratio(speed),
            group.value(group.speed, row)
        ),
        false => format!("the closest is {name} at {}", ratio(speed)),
    }
}

/// Describes the significance of a difference in speed.
fn certainty(verdict: Verdict, row: &Row<'_>) -> String {
    let processes = match row.processes() {
        1 => "one process".to_owned(),
        count => format!("{count} processes"),
    };
    match verdict {
        Verdict::Improved | Verdict::Regressed => {
            format!("The difference is significant ({processes}).")
        }
        Verdict::Unchanged => format!(
            "Both are equally fast within {:.0} % ({processes}).",
            100.0 * SPEED_MATTERS
        ),
        Verdict::Inconclusive(Doubt::TooNoisy) => {
            "The difference is within the variation between processes: inconclusive.".to_owned()
        }
        Verdict::Inconclusive(_) => {
            format!("With {processes}, the difference may be chance: inconclusive.")
        }
    }
}

/// Reports how many settings have indistinguishable accuracies, to discourage ranking them.
fn indistinct(group: &Group<'_>, equal: &[&Row<'_>]) -> Option<String> {
    let known = equal
        .iter()
        .filter(|row| row.metrics.contains_key(&MetricName::TestAccuracy))
        .count();
    let what = if equal.iter().any(|row| row.accuracy_p.is_some()) {
        "does not differ significantly from the baseline's on the same examples"
    } else {
        "has an interval that overlaps the baseline's"
    };
    let n = group
        .ok()
        .filter_map(|row| row.metric(MetricName::TestAccuracy))
        .map(|e| e.n)
        .min()?;
    (known > 1).then(|| {
        format!(
            "The test accuracy of {known} settings {what} ({} test examples); their ranking by accuracy is not meaningful.",
            units::count(n)
        )
    })
}

/// Returns `true` if the accuracies of two rows differ significantly: example by example if the examples are known, or else if their
/// intervals do not overlap. Returns `false` if either accuracy is missing.
pub(crate) fn accuracy_differs(row: &Row<'_>, base: &Row<'_>) -> bool {
    let interval = |row: &Row<'_>| row.metric(MetricName::TestAccuracy).and_then(|e| e.interval);
    match (row.accuracy_p, interval(row), interval(base)) {
        (Some(p), ..) => p <= 1.0 - CONFIDENCE,
        (None, Some(mine), Some(theirs)) => !mine.overlaps(theirs),
        _ => false,
    }
}

/// Reports the variation of accuracy between seeds, which intervals over test examples do not cover.
fn seeds(group: &Group<'_>) -> Option<String> {
    if !group.varies(Axis::Seed) {
        return None;
    }
    let mut settings: Vec<(String, Vec<f64>)> = Vec::new();
    for row in group.ok() {
        let Some(accuracy) = row.metric(MetricName::TestAccuracy) else {
            continue;
        };
        let label = group.label(row, &[Axis::Seed]);
        match settings.iter_mut().find(|(known, _)| *known == label) {
            Some((_, values)) => values.push(accuracy.value),
            None => settings.push((label, vec![accuracy.value])),
        }
    }
    settings.retain(|(_, values)| values.len() > 1);
    let seeds = settings.iter().map(|(_, values)| values.len()).max()?;
    let points: Vec<f64> = settings
        .iter()
        .map(|(_, values)| 100.0 * deviation(values))
        .collect();
    let (least, most) = points.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), x| {
        (least.min(*x), most.max(*x))
    });
    let spread = if settings.len() == 1 {
        format!("{most:.2} points")
    } else {
        format!("{least:.2} to {most:.2} points, depending on the setting")
    };
    Some(format!(
        "The standard deviation of the test accuracy between {seeds} seeds is {spread}."
    ))
}

/// Computes the standard deviation of a sample with Bessel's correction.
fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (n - 1.0)).sqrt()
}

fn accuracy_of(row: &Row<'_>) -> Option<String> {
    with_interval(row, MetricName::TestAccuracy)
}

/// Formats a metric of a row with its interval, if there is one.
fn with_interval(row: &Row<'_>, metric: MetricName) -> Option<String> {
    let estimate = row.metric(metric)?;
    let interval = units::interval(metric, estimate);
    let value = units::value(metric, Some(estimate));
    Some(interval.map_or_else(|| value.clone(), |interval| format!("{value} ({interval})")))
}

fn fastest<'r, 'a>(rows: &[&'r Row<'a>]) -> Option<&'r Row<'a>> {
    let speed = |row: &Row<'_>| row.speed_up.as_ref().map(|e| e.value);
    let known = || rows.iter().copied().filter(|row| speed(row).is_some());
    let first = |a: &&Row<'_>, b: &&Row<'_>| speed(a).unwrap_or(0.0).total_cmp(&speed(b).unwrap_or(0.0));
    // Rows that are significantly faster take precedence over rows that only may be faster.
    let sure = known().filter(|row| is_faster(row)).max_by(first);
    sure.or_else(|| known().max_by(first))
}

fn beats(row: &Row<'_>, other: Option<&Row<'_>>) -> bool {
    let speed = |row: &Row<'_>| row.speed_up.as_ref().map_or(0.0, |e| e.value);
    speed(row) > other.map_or(1.0, speed).max(1.0)
}

/// Returns the row with the least memory if it needs clearly less than the baseline.
fn leanest<'r, 'a>(rows: &[&'r Row<'a>]) -> Option<&'r Row<'a>> {
    /// Memory ratio below which a saving is reported.
    const REPORTED_BELOW: f64 = 0.95;
    let ratio = |row: &Row<'_>| row.memory_ratio.as_ref().map_or(f64::INFINITY, |e| e.value);
    rows.iter()
        .copied()
        .min_by(|a, b| ratio(a).total_cmp(&ratio(b)))
        .filter(|row| ratio(row) < REPORTED_BELOW)
}

fn ratio(estimate: Option<&Estimate>) -> String {
    let Some(estimate) = estimate else {
        return units::ABSENT.to_owned();
    };
    let value = units::times(estimate.value);
    match estimate.interval {
        Some(interval) => format!("{value} ({:.2}–{:.2})", interval.low, interval.high),
        None => value,
    }
}

fn kernel(group: &Group<'_>) -> Vec<String> {
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
    let place = shape::place(kernel, size);
    let label = |row: &Row<'_>| group.label(row, &[Axis::Size]);
    let error =
        |row: &Row<'_>| units::value(MetricName::RelativeError, row.metric(MetricName::RelativeError));
    let speed = |row: &Row<'_>| group.value(group.speed, row);
    let mut sentences = Vec::new();
    match base.filter(|base| base.cell.id != fastest.cell.id) {
        Some(base) if !is_faster(fastest) => sentences.push(format!(
            "{place}, no setting is significantly faster than the baseline, {} ({}, relative error {}); {}, at a relative error of {}.",
            label(base),
            speed(base),
            error(base),
            nearest(group, &label(fastest), fastest),
            error(fastest),
        )),
        Some(base) => sentences.push(format!(
            "{place}, {} is fastest: {}, {} the speed of the baseline ({}, {}), at a relative error of {} instead of {}.",
            label(fastest),
            speed(fastest),
            ratio(fastest.speed_up.as_ref()),
            label(base),
            speed(base),
            error(fastest),
            error(base),
        )),
        None => sentences.push(format!(
            "{place}, no setting is faster than the baseline, {} ({}, relative error {}).",
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

/// Describes how the error grows with the inner dimension: the slope of a log–log regression line, one sentence per distribution of input
/// values.
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

/// Fits a straight line by least squares and returns slope and intercept. `None` for fewer than three points, which do not test a linear
/// relationship.
pub(crate) fn straight_line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = points.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / n;
    let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let together: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let slope = together / spread;
    (points.len() >= 3 && spread > 0.0).then_some((slope, mean_y - slope * mean_x))
}

/// Reports the settings that did not finish, by status.
fn endings(group: &Group<'_>) -> Vec<String> {
    let ended = |status: Status| group.rows.iter().filter(move |row| row.status == Some(status));
    let mut sentences = Vec::new();
    for status in [Status::Diverged, Status::Oom, Status::Failed, Status::Timeout] {
        let rows: Vec<_> = ended(status).collect();
        let verb = match status {
            Status::Diverged => "diverged",
            Status::Oom => "ran out of memory",
            Status::Timeout => "timed out",
            _ => "failed",
        };
        match rows.as_slice() {
            [] => {}
            [row] => {
                let why = row
                    .reason
                    .as_ref()
                    .map(|why| format!(": {why}"))
                    .unwrap_or_default();
                sentences.push(format!("{} {verb}{why}.", group.label(row, &[])));
            }
            [first, .., last] => sentences.push(format!(
                "{} settings {verb}, from {} to {}; the table lists the reasons.",
                rows.len(),
                group.label(first, &[]),
                group.label(last, &[]),
            )),
        }
    }
    sentences
}
