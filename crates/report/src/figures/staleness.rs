//! Staleness of the gradients that an asynchronous parameter server applied, one histogram per setting.

use mantissa_core::{Axis, MetricName};
use mantissa_run_folder::SampleSelection;

use super::{
    Canvas,
    histogram::{self, Axes, Histogram, MAX_PANELS, ShareAxis},
    shown_of,
};
use crate::{Group, Row, Run, setting::SettingResult, units};

/// Maximum staleness with its own bar. A wider histogram does not fit into a panel.
const MAX_STALENESS: usize = 1_023;

/// Gradients of a setting, over all its seeds and processes.
struct Staleness<'s, 'g, 'r> {
    setting: &'s SettingResult<'g, 'r>,
    /// Share of the gradients by staleness.
    bars: Vec<(i64, f64)>,
    /// Mean staleness.
    mean: f64,
}

/// Draws the staleness of each setting with an asynchronous parameter server; `None` without such settings.
pub fn draw(run: &Run, group: &Group<'_>) -> Option<(Canvas, String)> {
    let has_staleness = |row: &Row<'_>| row.metric(MetricName::MeanStaleness).is_some();
    let settings = SettingResult::all(group, has_staleness);
    let mut known: Vec<Staleness<'_, '_, '_>> = settings
        .iter()
        .filter_map(|setting| Staleness::of(run, setting))
        .collect();
    let title = finding(group, &known)?;
    let unknown = match settings.len() - known.len() {
        0 => String::new(),
        1 => format!(
            " 1 setting is not shown: its samples are missing, or its staleness exceeds {}.",
            units::count(MAX_STALENESS as u64)
        ),
        several => format!(
            " {several} settings are not shown: their samples are missing, or their staleness exceeds {}.",
            units::count(MAX_STALENESS as u64)
        ),
    };
    // A panel with a single bar at 0 is redundant and would flatten the other panels.
    let all = known.len();
    if known.iter().any(|staleness| staleness.mean > 0.0) {
        known.retain(|staleness| staleness.mean > 0.0);
    }
    let current = all - known.len();
    let stale = known.len();
    known.truncate(MAX_PANELS);
    let suffixes = [
        (current > 0).then(|| format!("{current} of {all} settings have no stale gradients")),
        shown_of(known.len(), stale).map(|text| format!("{text} settings")),
    ];
    let suffixes = suffixes.iter().flatten().map(|text| format!(" · {text}"));
    let subtitle = format!(
        "{} · share of gradients by staleness in optimizer steps{}",
        group.workload,
        suffixes.collect::<String>()
    );
    let oversubscribed = match settings.iter().any(SettingResult::is_oversubscribed) {
        true => {
            " Oversubscribed: more threads than cores, so the operating system decides which worker computes, and the staleness differs \
             from that on more cores."
        }
        false => "",
    };
    let caption = format!(
        "Staleness of the gradients of {}: the number of optimizer steps that the parameter server made between sending the parameters and \
         applying their gradient, over all seeds and processes of each setting.{unknown}{oversubscribed}",
        group.workload
    );
    let panels: Vec<Histogram> = known.iter().map(Staleness::panel).collect();
    let axes = Axes {
        name: "staleness",
        unit: "1",
        position: |steps| steps as f64,
        format: |steps| units::count(steps.unsigned_abs()),
        shares: ShareAxis::Linear,
    };
    Some((histogram::draw(&title, &subtitle, &panels, axes), caption))
}

impl<'s, 'g, 'r> Staleness<'s, 'g, 'r> {
    /// Reads the samples of a setting; `None` if they contain no gradients.
    fn of(run: &Run, setting: &'s SettingResult<'g, 'r>) -> Option<Self> {
        let mut counts: Vec<f64> = Vec::new();
        for record in setting.effective_seeds().flat_map(|row| &row.records) {
            let Ok(Some(samples)) = run.samples.read(record, SampleSelection::STALENESS) else {
                continue;
            };
            counts.resize(counts.len().max(samples.staleness.len()), 0.0);
            for (sum, count) in counts.iter_mut().zip(samples.staleness) {
                *sum += count as f64;
            }
        }
        let bars = Histogram::shares(0, &counts)?;
        let is_narrow = bars.last()?.0 <= MAX_STALENESS as i64;
        let mean = bars.iter().map(|(steps, share)| *steps as f64 * share).sum();
        is_narrow.then_some(Self { setting, bars, mean })
    }

    /// Returns the share of gradients that were computed from the current parameters.
    fn current(&self) -> f64 {
        let bar = self.bars.first().filter(|(steps, _)| *steps == 0);
        bar.map_or(0.0, |(_, share)| *share)
    }

    fn panel(&self) -> Histogram {
        Histogram {
            title: self.setting.label_of_times(),
            note: format!(
                "{} with staleness 0; mean {:.1}, at most {}",
                histogram::percent(self.current()),
                self.mean,
                self.bars.last().map_or(0, |bar| bar.0)
            ),
            bars: self.bars.clone(),
            out_of_range: (None, None),
        }
    }
}

/// Returns the title: the share of current gradients and the mean staleness of the setting with the largest mean.
fn finding(group: &Group<'_>, all: &[Staleness<'_, '_, '_>]) -> Option<String> {
    let stalest = all.iter().max_by(|a, b| a.mean.total_cmp(&b.mean))?;
    if stalest.mean <= 0.0 {
        return Some("All gradients are computed from the current parameters".to_owned());
    }
    let row = stalest.setting.row();
    let [limit, devices] = [Axis::Staleness, Axis::Devices].map(|axis| row.axis(axis));
    let named_elsewhere = [Axis::Staleness, Axis::Devices, Axis::Reduce, Axis::Seed];
    let same = |other: &&Staleness<'_, '_, '_>| {
        let other = other.setting.row();
        other.axis(Axis::Staleness) == limit && other.axis(Axis::Devices) == devices
    };
    let name = match group.label(row, &named_elsewhere) {
        label if label.is_empty() || all.iter().filter(same).count() == 1 => String::new(),
        label => format!("{label} and "),
    };
    let share = match stalest.current() {
        0.0 => "none".to_owned(),
        share => histogram::percent(share),
    };
    Some(format!(
        "With {name}staleness {limit} on {devices} devices, {share} of the gradients are computed from the current parameters; the mean \
         staleness is {:.1} steps",
        stalest.mean
    ))
}
