//! Loss scaling: a scale that follows overflows, as `torch.amp.GradScaler` does it, or one that stays.

use mantissa_core::Precision;

use crate::{GradientSum, Optimizer, ParameterSet};

/// How a scale follows overflows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossScaling {
    /// Scale before the first step.
    pub initial: f64,
    /// Factor after [`LossScaling::growth_interval`] good steps in a row.
    pub growth_factor: f64,
    /// Factor after an overflow.
    pub backoff_factor: f64,
    /// Good steps in a row before the scale grows.
    pub growth_interval: u32,
}

impl Default for LossScaling {
    /// `GradScaler`'s. The first scale is small enough to survive, and large enough to lift most gradients out of f16's
    /// subnormals.
    fn default() -> Self {
        Self {
            initial: 65536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
        }
    }
}

/// The factor that lifts small f16 gradients above zero, and how it follows overflows.
///
/// ```
/// use mantissa_precision::{LossScaler, LossScaling, ScaleChange};
///
/// let scaling = LossScaling { growth_interval: 2, ..LossScaling::default() };
/// let mut scaler = LossScaler::new(scaling);
/// assert_eq!(scaler.update(false), ScaleChange::BackedOff(32768.0)); // an overflow: no step
/// assert_eq!(scaler.update(true), ScaleChange::Kept);
/// assert_eq!(scaler.update(true), ScaleChange::Grew(65536.0));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LossScaler {
    scale: f64,
    good_steps: u32,
    policy: Policy,
}

#[derive(Debug, Clone, PartialEq)]
enum Policy {
    Off,
    Constant,
    Dynamic(LossScaling),
}

/// What one optimizer step did to the scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScaleChange {
    /// The step counts, the scale stays.
    Kept,
    /// The step counts, the scale grew to this value.
    Grew(f64),
    /// A gradient was not finite: the step is skipped, the scale fell to this value.
    BackedOff(f64),
    /// A gradient was not finite: the step is skipped, the scale is one that stays.
    Skipped,
}

impl Default for LossScaler {
    fn default() -> Self {
        Self::new(LossScaling::default())
    }
}

impl LossScaler {
    /// A scale that follows overflows.
    pub fn new(scaling: LossScaling) -> Self {
        Self::from(scaling.initial, Policy::Dynamic(scaling))
    }

    /// A scale that stays, whatever overflows.
    pub fn constant(scale: f64) -> Self {
        Self::from(scale, Policy::Constant)
    }

    /// What a precision needs: `GradScaler`'s defaults for `16-mixed`, and for the others a scale of 1 that nobody checks.
    pub fn of(precision: Precision) -> Self {
        if precision.scales_loss() {
            Self::default()
        } else {
            Self::from(1.0, Policy::Off)
        }
    }

    fn from(scale: f64, policy: Policy) -> Self {
        Self {
            scale,
            good_steps: 0,
            policy,
        }
    }

    /// The factor for the loss of the next step.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// One optimizer step with the gradients of scaled losses, whatever number of micro-batches they come from: divides the
    /// scale out and updates the parameters, unless a gradient is not finite, which one reading of the device tells.
    ///
    /// # Errors
    /// What the device reports.
    pub fn step(
        &mut self,
        optimizer: &mut Optimizer,
        parameters: &mut ParameterSet,
        mut gradients: GradientSum,
    ) -> Result<ScaleChange, String> {
        let finite = self.policy == Policy::Off || gradients.all_finite()?;
        if finite {
            if self.scale != 1.0 {
                gradients.unscale(self.scale);
            }
            optimizer.step(parameters, gradients);
        }
        Ok(self.update(finite))
    }

    /// Decides one optimizer step, whatever number of micro-batches it is made of. The scale does not grow out of f32, in
    /// which it meets the loss.
    pub fn update(&mut self, gradients_finite: bool) -> ScaleChange {
        let Policy::Dynamic(scaling) = &self.policy else {
            return if gradients_finite {
                ScaleChange::Kept
            } else {
                ScaleChange::Skipped
            };
        };
        if !gradients_finite {
            self.scale *= scaling.backoff_factor;
            self.good_steps = 0;
            return ScaleChange::BackedOff(self.scale);
        }
        self.good_steps += 1;
        if self.good_steps < scaling.growth_interval {
            return ScaleChange::Kept;
        }
        self.good_steps = 0;
        let grown = self.scale * scaling.growth_factor;
        if grown > f64::from(f32::MAX) {
            return ScaleChange::Kept;
        }
        self.scale = grown;
        ScaleChange::Grew(grown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_doubles_after_two_thousand_good_steps_in_a_row() {
        let mut scaler = LossScaler::default();
        for _ in 0..1999 {
            assert_eq!(scaler.update(true), ScaleChange::Kept);
        }
        assert_eq!(scaler.update(true), ScaleChange::Grew(131_072.0));
        assert_eq!(scaler.update(true), ScaleChange::Kept);
    }

    #[test]
    fn an_overflow_halves_the_scale_and_starts_the_count_again() {
        let mut scaler = LossScaler::default();
        for _ in 0..1999 {
            scaler.update(true);
        }
        assert_eq!(scaler.update(false), ScaleChange::BackedOff(32_768.0));
        for _ in 0..1999 {
            assert_eq!(scaler.update(true), ScaleChange::Kept);
        }
        assert_eq!(scaler.update(true), ScaleChange::Grew(65_536.0));
    }

    #[test]
    fn a_constant_scale_stays_and_still_skips_steps() {
        let mut scaler = LossScaler::constant(128.0);
        assert_eq!(scaler.update(false), ScaleChange::Skipped);
        assert!((0..5000).all(|_| scaler.update(true) == ScaleChange::Kept));
        assert_eq!(scaler.scale(), 128.0);
    }
    #[test]
    fn a_scale_grows_up_to_the_largest_power_of_two_in_f32() {
        let scaling = LossScaling {
            initial: 2f64.powi(126),
            growth_interval: 1,
            ..LossScaling::default()
        };
        let mut scaler = LossScaler::new(scaling);
        assert_eq!(scaler.update(true), ScaleChange::Grew(2f64.powi(127)));
        assert_eq!(scaler.update(true), ScaleChange::Kept);
    }

    #[test]
    fn only_half_gradients_are_scaled() {
        let scaled: Vec<_> = Precision::ALL
            .iter()
            .filter(|precision| LossScaler::of(**precision).scale() != 1.0)
            .collect();
        assert_eq!(scaled, [&Precision::Mixed16]);
    }
}
