//! Loss scaling: a constant scale, or a dynamic scale as in `torch.amp.GradScaler`, which shrinks at overflows and
//! grows otherwise.

use mantissa_core::Precision;

use crate::{GradientSum, Optimizer, ParameterSet};

/// Settings of a dynamic scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossScaling {
    /// Scale before the first step.
    pub initial: f64,
    /// Factor applied to the scale after [`LossScaling::growth_interval`] consecutive steps without overflow.
    pub growth_factor: f64,
    /// Factor applied to the scale after an overflow.
    pub backoff_factor: f64,
    /// Number of consecutive steps without overflow before the scale grows.
    pub growth_interval: u32,
}

impl Default for LossScaling {
    /// Returns the defaults of `GradScaler`. The initial scale is small enough not to overflow at once, and large
    /// enough to lift most gradients out of f16's subnormals.
    fn default() -> Self {
        Self {
            initial: 65536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
        }
    }
}

/// Loss scale: a factor that keeps small f16 gradients above zero, and the policy for overflows.
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

/// Effect of an optimizer step on the scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScaleChange {
    /// The step is applied, and the scale is unchanged.
    Kept,
    /// The step is applied, and the scale grew to this value.
    Grew(f64),
    /// A gradient was not finite. The step is skipped, and the scale dropped to this value.
    BackedOff(f64),
    /// A gradient was not finite. The step is skipped. The scale is constant.
    Skipped,
}

impl Default for LossScaler {
    fn default() -> Self {
        Self::new(LossScaling::default())
    }
}

impl LossScaler {
    /// Creates a dynamic scale.
    pub fn new(scaling: LossScaling) -> Self {
        Self::with_policy(scaling.initial, Policy::Dynamic(scaling))
    }

    /// Creates a constant scale.
    pub fn constant(scale: f64) -> Self {
        Self::with_policy(scale, Policy::Constant)
    }

    /// Returns the scaler for a precision: the defaults of `GradScaler` for `16-mixed`; otherwise a scale of 1 without a
    /// check for overflows.
    pub fn of(precision: Precision) -> Self {
        if precision.scales_loss() {
            Self::default()
        } else {
            Self::with_policy(1.0, Policy::Off)
        }
    }

    fn with_policy(scale: f64, policy: Policy) -> Self {
        Self {
            scale,
            good_steps: 0,
            policy,
        }
    }

    /// Returns the factor for the loss of the next step.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Applies an optimizer step with the gradients of scaled losses, from any number of micro-batches: divides by the
    /// scale and updates the parameters, unless a gradient is not finite. This check reads from the device once.
    ///
    /// # Errors
    /// Any error that the device reports.
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

    /// Updates the scale after one optimizer step, with any number of micro-batches. The scale does not grow beyond the
    /// range of f32, because it is multiplied with the loss in f32.
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
    fn only_16_mixed_has_a_dynamic_loss_scale() {
        let scaled: Vec<_> = Precision::ALL
            .iter()
            .filter(|precision| LossScaler::of(**precision).scale() != 1.0)
            .collect();
        assert_eq!(scaled, [&Precision::Mixed16]);
    }
}
