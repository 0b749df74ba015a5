//! Sets of time intervals.

use std::ops::Range;

/// Disjoint time intervals in ascending order, in seconds since the sampler was started.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Spans(Vec<Range<f64>>);

impl Spans {
    /// Adds an interval, which must not begin before the last one. Merges it with the last one if they touch.
    pub(crate) fn add(&mut self, from: f64, to: f64) {
        match self.0.last_mut() {
            Some(last) if from <= last.end => last.end = last.end.max(to),
            _ => self.0.push(from..to),
        }
    }

    /// Returns the time in seconds that the intervals cover within the window.
    pub(crate) fn seconds_in(&self, window: &Range<f64>) -> f64 {
        let inside = self.overlapping(window).iter();
        inside
            .map(|span| (span.end.min(window.end) - span.start.max(window.start)).max(0.0))
            .fold(0.0, |sum, seconds| sum + seconds)
    }

    /// Returns true if an interval overlaps or touches the window.
    pub(crate) fn overlap(&self, window: &Range<f64>) -> bool {
        !self.overlapping(window).is_empty()
    }

    /// Returns true if one interval contains the whole window.
    pub(crate) fn contain(&self, window: &Range<f64>) -> bool {
        let overlapping = self.overlapping(window);
        overlapping
            .iter()
            .any(|span| span.start <= window.start && window.end <= span.end)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range<f64>> {
        self.0.iter()
    }

    fn overlapping(&self, window: &Range<f64>) -> &[Range<f64>] {
        let first = self.0.partition_point(|span| span.end < window.start);
        let end = self.0.partition_point(|span| span.start <= window.end);
        self.0.get(first..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_intervals_are_merged() {
        let mut spans = Spans::default();
        spans.add(0.0, 1.0);
        spans.add(1.0, 2.0);
        spans.add(1.5, 1.7);
        spans.add(5.0, 6.0);
        assert_eq!(spans.0, [0.0..2.0, 5.0..6.0]);
    }

    #[test]
    fn coverage_containment_and_overlap_of_a_window() {
        let mut spans = Spans::default();
        spans.add(1.0, 2.0);
        spans.add(3.0, 5.0);
        assert_eq!(spans.seconds_in(&(0.0..4.0)), 2.0);
        assert_eq!(spans.seconds_in(&(2.2..2.8)), 0.0);
        assert!(spans.contain(&(3.0..4.0)) && !spans.contain(&(1.5..3.5)));
        assert!(spans.overlap(&(1.5..1.6)) && !spans.overlap(&(2.2..2.8)) && !spans.overlap(&(6.0..7.0)));
        assert!(!Spans::default().overlap(&(0.0..1.0)));
    }
}
