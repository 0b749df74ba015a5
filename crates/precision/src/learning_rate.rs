//! Learning-rate schedules.

use std::f64::consts::PI;

use mantissa_core::{LearningRateScaling, LearningRateSchedule, Updates};

/// Learning rate of each optimizer step, as in transformers' `get_…_schedule_with_warmup`.
///
/// ```
/// use mantissa_precision::{LearningRate, LearningRateScaling, LearningRateSchedule, Updates};
///
/// let updates = Updates {
///     learning_rate_schedule: LearningRateSchedule::Cosine,
///     warmup_steps: 10,
///     ..Updates::default()
/// };
/// let rate = LearningRate::new(1e-3, &updates, LearningRateScaling::None, 32, 110);
/// assert_eq!([0, 5, 10, 60, 110].map(|step| rate.at(step)), [0.0, 5e-4, 1e-3, 5e-4, 0.0]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LearningRate {
    peak: f64,
    schedule: LearningRateSchedule,
    warmup_steps: u64,
    steps: u64,
}

impl LearningRate {
    /// Creates the schedule for `steps` steps with `effective_batch` examples each.
    pub fn new(
        learning_rate: f64,
        updates: &Updates,
        scaling: LearningRateScaling,
        effective_batch: u64,
        steps: u64,
    ) -> Self {
        let batch_ratio = effective_batch as f64 / f64::from(updates.learning_rate_batch);
        let factor = match scaling {
            LearningRateScaling::None => 1.0,
            LearningRateScaling::Linear => batch_ratio,
            LearningRateScaling::Sqrt => batch_ratio.sqrt(),
        };
        Self {
            peak: learning_rate * factor,
            schedule: updates.learning_rate_schedule,
            warmup_steps: updates.warmup_steps.into(),
            steps,
        }
    }

    /// Returns the learning rate of a step, counted from 0. The first step of a warm-up has a rate of 0.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup_steps {
            return self.peak * step as f64 / self.warmup_steps as f64;
        }
        let decay_steps = self.steps.saturating_sub(self.warmup_steps).max(1);
        let progress = ((step - self.warmup_steps) as f64 / decay_steps as f64).min(1.0);
        self.peak
            * match self.schedule {
                LearningRateSchedule::Constant => 1.0,
                LearningRateSchedule::Linear => 1.0 - progress,
                LearningRateSchedule::Cosine => 0.5 * (1.0 + (PI * progress).cos()),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(schedule: LearningRateSchedule, warmup_steps: u32) -> Vec<f64> {
        let updates = Updates {
            learning_rate_schedule: schedule,
            warmup_steps,
            ..Updates::default()
        };
        let rate = LearningRate::new(0.5, &updates, LearningRateScaling::None, 8, 8);
        (0..8).map(|step| rate.at(step)).collect()
    }

    fn assert_close(got: &[f64], want: &[f64]) {
        let close = got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-15);
        assert!(got.len() == want.len() && close, "{got:?} is not {want:?}");
    }

    /// Expected values: transformers 5.23.0's `get_constant_schedule_with_warmup`, `get_linear_…` and `get_cosine_…` for
    /// 8 steps of an optimizer with `lr=0.5`, 2 of them warm-up.
    #[test]
    fn rates_match_transformers() {
        use LearningRateSchedule::{Constant, Cosine, Linear};
        assert_close(&rates(Constant, 2), &[0.0, 0.25, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]);
        let sixth = 0.5 / 6.0;
        let falling = [0.5, 5.0 * sixth, 4.0 * sixth, 3.0 * sixth, 2.0 * sixth, sixth];
        assert_close(&rates(Linear, 2), &[&[0.0, 0.25][..], &falling].concat());
        let cosine = [
            0.0,
            0.25,
            0.5,
            0.4665063509461097,
            0.375,
            0.25,
            0.12500000000000006,
            0.03349364905389032,
        ];
        assert_close(&rates(Cosine, 2), &cosine);
    }

    #[test]
    fn the_rate_is_scaled_with_the_effective_batch() {
        let rate = |scaling| LearningRate::new(0.1, &Updates::default(), scaling, 128, 1).at(0);
        let [none, linear, sqrt] = [
            LearningRateScaling::None,
            LearningRateScaling::Linear,
            LearningRateScaling::Sqrt,
        ]
        .map(rate);
        assert_close(&[none, linear, sqrt], &[0.1, 0.4, 0.2]);
    }
}
