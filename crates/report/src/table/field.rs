//! A field of a table: its text, its smaller text and its sort key.

use mantissa_analysis::{Estimate, Interval};
use mantissa_core::MetricName;
use serde::Serialize;

use crate::{
    setting::Spot,
    units::{self, Scale},
};

/// A field of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Field {
    /// Main text.
    pub text: String,
    /// Smaller text: interval and n, or a reason.
    pub detail: String,
    /// Sort key in the page. Absent values sort last.
    pub sort: Option<f64>,
    /// `true` if the text is a status, which the page colours.
    pub status: bool,
}

impl Field {
    pub(crate) fn absent() -> Self {
        Self {
            text: units::ABSENT.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn axis(value: String) -> Self {
        Self {
            sort: value.parse().ok(),
            text: value,
            ..Self::default()
        }
    }

    pub(super) fn reading(metric: MetricName, value: f64) -> Self {
        Self {
            text: Scale::of(metric, value).text(value),
            sort: Some(value),
            ..Self::default()
        }
    }

    /// Creates the field of an estimate. Its n is the number of processes if `of_processes`, else of samples.
    pub(crate) fn estimate(estimate: &Estimate, scale: Scale, of_processes: bool) -> Self {
        let interval = estimate.interval.map(|interval| scale.range(interval));
        let count = units::count(estimate.n);
        let n = if of_processes {
            format!("{count} processes")
        } else {
            format!("n {count}")
        };
        let n = (estimate.n > 1).then_some(n);
        let detail = interval.into_iter().chain(n).collect::<Vec<_>>().join(" · ");
        Self {
            text: scale.text(estimate.value),
            detail,
            sort: Some(estimate.value),
            ..Self::default()
        }
    }

    /// Creates the field of a value over several seeds, with the range over the seeds.
    pub(super) fn over_seeds(spot: Spot, scale: Scale, seeds: usize) -> Self {
        let range = spot
            .whiskers
            .map(|(low, high)| format!("{} over ", scale.range(Interval { low, high })));
        Self {
            text: scale.text(spot.value),
            detail: format!("{}{seeds} seeds", range.unwrap_or_default()),
            sort: Some(spot.value),
            ..Self::default()
        }
    }

    /// Marks the interval as absent, for a column in which other fields have one.
    pub(super) fn without_interval(self) -> Self {
        let absent = Self {
            detail: units::ABSENT.to_owned(),
            ..Self::default()
        };
        let detail = absent.append_detail(&self.detail).detail;
        Self { detail, ..self }
    }

    /// Returns the field without its smaller text.
    pub(crate) fn without_detail(self) -> Self {
        let detail = String::new();
        Self { detail, ..self }
    }

    /// Appends to the smaller text, unless `detail` is empty.
    pub(crate) fn append_detail(mut self, detail: &str) -> Self {
        if !(self.detail.is_empty() || detail.is_empty()) {
            self.detail += " · ";
        }
        self.detail += detail;
        self
    }

    pub(crate) fn ratio(estimate: Option<&Estimate>) -> Self {
        let Some(estimate) = estimate else {
            return Self::absent();
        };
        let interval = estimate.interval.map(|i| format!("{:.2}–{:.2}", i.low, i.high));
        Self {
            text: units::times(estimate.value),
            detail: interval.unwrap_or_default(),
            sort: Some(estimate.value),
            ..Self::default()
        }
    }
}
