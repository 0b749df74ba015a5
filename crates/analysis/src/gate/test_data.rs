//! Comparisons for the tests of the gate.

use mantissa_core::MetricName;

use super::{Compared, Rules, gate};
use crate::{Floor, Verdict};

pub(super) const QUIET: [f64; 5] = [1.000, 1.004, 0.997, 1.002, 0.998];

pub(super) fn compared<'a>(metric: MetricName, baseline: &'a [f64], candidate: &'a [f64]) -> Compared<'a> {
    Compared {
        metric,
        baseline,
        candidate,
        floor: Floor::of(metric).unwrap(),
        fence: None,
        shared_error: 0.0,
        turns: true,
    }
}

pub(super) fn seconds<'a>(baseline: &'a [f64], candidate: &'a [f64]) -> Compared<'a> {
    compared(MetricName::StepSeconds, baseline, candidate)
}

pub(super) fn verdict(compared: Compared<'_>) -> Verdict {
    gate(&[compared], Rules::default())[0].verdict
}
