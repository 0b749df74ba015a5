//! Distance of a kernel's results from float64 in units in the last place, one histogram per setting.

use mantissa_core::{Axis, Series, SeriesName, TaskKind};
use mantissa_run_folder::SampleSelection;

use super::{
    Canvas,
    histogram::{self, Axes, Histogram, MAX_PANELS, ShareAxis},
    shown_of,
};
use crate::{Group, Row, Run, setting::SettingResult, units};

/// Maximum number of bins. Larger distances are too large for a meaningful comparison.
const MAX_BINS: usize = 1_024;

/// Draws the distances of each setting at the largest size; `None` if fewer than two settings have them.
pub fn draw(run: &Run, group: &Group<'_>) -> Option<(Canvas, String)> {
    if group.kind != TaskKind::Kernel {
        return None;
    }
    let size = group.ok().map(|row| row.cell.setting.size()).max()?;
    let first = group.ok().next()?.axis(Axis::Distribution);
    let shown = |row: &Row<'_>| {
        row.is_ok() && row.cell.setting.size() == size && row.axis(Axis::Distribution) == first
    };
    let all = SettingResult::all(group, shown);
    let known = all.iter().filter_map(|setting| {
        let record = setting.row().records.first()?;
        let samples = run
            .samples
            .read(record, SampleSelection::series(&[SeriesName::UlpDistance]))
            .ok()??;
        panel(&setting.label, samples.get(SeriesName::UlpDistance)?)
    });
    let panels: Vec<Histogram> = known.take(MAX_PANELS).collect();
    if panels.len() < 2 {
        return None;
    }
    // The title does not compare settings, because the units of different formats differ in size.
    let farthest = panels.iter().filter_map(|panel| Some(panel.bars.last()?.0));
    let title = format!(
        "Results differ from float64 by up to {} ULP of their own formats",
        edge(farthest.max()?)
    );
    let at = match group.varies(Axis::Size) {
        true => format!(" · size {} (largest)", units::count(size.into())),
        false => String::new(),
    };
    let values = if group.varies(Axis::Distribution) {
        format!(" · {first} values")
    } else {
        String::new()
    };
    let capped = shown_of(panels.len(), all.len()).map(|text| format!(" · {text} settings"));
    let subtitle = format!(
        "{}{at}{values} · share of results by upper bound of the distance in units in the last place (ULP){}",
        group.workload,
        capped.unwrap_or_default()
    );
    let caption = format!(
        "Distances of the results of {} from those in float64, in units in the last place (ULP) of the output format, in the \
         first process of each setting. A result that is rounded once is within 0.5 ULP.",
        group.workload
    );
    let axes = Axes {
        name: "distance up to",
        unit: "ULP",
        position: |exponent| (exponent as f64).exp2(),
        format: edge,
        shares: ShareAxis::Log,
    };
    Some((histogram::draw(&title, &subtitle, &panels, axes), caption))
}

fn panel(label: &str, series: &Series) -> Option<Histogram> {
    // Bins have the upper edges 0.5, 1, 2, 4, …
    let counts: Vec<f64> = series
        .y
        .iter()
        .take(MAX_BINS)
        .map(|count| count.unwrap_or(0.0).max(0.0))
        .collect();
    let bars = Histogram::shares(-1, &counts)?;
    // The first bin ends at 0.5. An empty sum of f64 would be −0.
    let within = bars.first().filter(|bar| bar.0 == -1).map_or(0.0, |bar| bar.1);
    let farthest = bars.last()?.0;
    Some(Histogram {
        title: label.to_owned(),
        note: format!(
            "{} within 0.5 ULP, all within {}",
            histogram::percent(within),
            edge(farthest)
        ),
        bars,
        out_of_range: (None, None),
    })
}

/// Formats the bin edge of an exponent: `0.5`, `1`, `2`, …; long numbers as powers of two.
fn edge(exponent: i64) -> String {
    match exponent {
        -1 => "0.5".to_owned(),
        0..=13 => units::count(1 << exponent),
        _ => units::power_of_two(exponent),
    }
}
