//! Throughput and error of a kernel by size.

mod limits;
mod lines;
mod panel;

use mantissa_core::{Axis, MetricName};

use self::{
    lines::{Line, describe_exact, lines},
    panel::{PANEL_HEIGHT, Panel, panels},
};
use super::{
    canvas::{Canvas, MARGIN, WIDTH},
    finding, key, shown_of,
};
use crate::{Group, Suite, shape, units};

pub(super) const MAX_LINES: usize = 16;
const GAP: f64 = 76.0;

/// Draws throughput and error or, if the distribution of the input values varies, the error per distribution. `None` for other tasks,
/// if all cells have the same size, or if no cell has an error or a throughput.
pub fn draw(suite: &Suite<'_>, group: &Group<'_>) -> Option<(Canvas, String)> {
    let kernel = shape::kernel(&group.rows.first()?.cell.workload)?;
    let edge = shape::free_edge(kernel)?;
    if !group.varies(Axis::Size) || !(group.has(MetricName::RelativeError) || group.has(group.speed)) {
        return None;
    }
    let mut lines = lines(group);
    let all = lines.len();
    lines.truncate(MAX_LINES);
    let labels: Vec<&str> = lines.iter().map(|line| line.label.as_str()).collect();
    let capped = shown_of(lines.len(), all)
        .map(|text| format!(" · {text} settings"))
        .unwrap_or_default();
    let exact = describe_exact(&lines)
        .map(|text| format!(" · {text}"))
        .unwrap_or_default();
    let fitted = shape::sums_grow(kernel);
    let fit = match fitted {
        true => " · bands: power-law fits with their exponents",
        false => "",
    };
    let subtitle = format!(
        "{} · errors against float64 on the same quantised inputs{fit}{exact}{capped}",
        group.workload
    );
    let panels = panels(group, fitted);
    let shown = if group.varies(Axis::Distribution) {
        "error by size and input values"
    } else {
        "throughput and error by size"
    };
    let title = finding(group, &panels, &lines).unwrap_or_else(|| format!("{}: {shown}", suite.info.title));
    let top = Canvas::CONTENT_TOP + key::height(&labels) + 40.0;
    let height = panels.len().div_ceil(2) as f64 * PANEL_HEIGHT;
    let mut canvas = Canvas::titled(top + height - 44.0, &title, &subtitle);
    key::draw(&mut canvas, &labels);
    let width = (WIDTH - 2.0 * MARGIN - GAP - 46.0) / 2.0;
    for (index, panel) in panels.iter().enumerate() {
        let left = MARGIN + 46.0 + (index % 2) as f64 * (width + GAP);
        let top = top + (index / 2) as f64 * PANEL_HEIGHT;
        panel.draw(&mut canvas, &lines, &edge, (left, top, width));
    }
    Some((canvas, format!("{}, {shown}.", group.workload)))
}

/// Returns the title: the growth of the errors with the size if the input distribution varies, else the fastest setting at the largest size.
fn finding(group: &Group<'_>, panels: &[Panel], lines: &[Line<'_, '_>]) -> Option<String> {
    if !group.varies(Axis::Distribution) {
        return finding::speed_at_largest(group);
    }
    let laws = panels
        .iter()
        .flat_map(|panel| lines.iter().filter_map(|line| panel.law(line)));
    let mut exponents: Vec<f64> = laws.map(|law| law.exponent).collect();
    exponents.sort_by(f64::total_cmp);
    let (least, most) = (exponents.first()?, exponents.last()?);
    Some(format!(
        "The relative error grows with the size to the power of {} to {}",
        units::with_minus(&format!("{least:.2}")),
        units::with_minus(&format!("{most:.2}"))
    ))
}
