//! Loss scaling: a scale that follows overflows, as `torch.amp.GradScaler` does it by default, or one that stays.

/// Scale before the first step: small enough to survive, large enough to lift most gradients out of f16's subnormals.
pub const INITIAL_SCALE: f64 = 65536.0;
/// Factor after [`GROWTH_INTERVAL`] good steps in a row.
pub const GROWTH_FACTOR: f64 = 2.0;
/// Factor after an overflow.
pub const BACKOFF_FACTOR: f64 = 0.5;
/// Good steps in a row before the scale grows.
pub const GROWTH_INTERVAL: u32 = 2000;

/// The factor that lifts small f16 gradients above zero, and how it follows overflows.
#[derive(Debug, Clone, PartialEq)]
pub struct LossScaler {
    scale: f64,
    good_steps: u32,
    stays: bool,
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
        Self {
            scale: INITIAL_SCALE,
            good_steps: 0,
            stays: false,
        }
    }
}

impl LossScaler {
    /// A scale that stays, whatever overflows.
    pub fn constant(scale: f64) -> Self {
        Self {
            scale,
            good_steps: 0,
            stays: true,
        }
    }

    /// The factor for the loss of the next step.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Decides one optimizer step, whatever number of micro-batches it is made of.
    pub fn update(&mut self, gradients_finite: bool) -> ScaleChange {
        if self.stays {
            return if gradients_finite {
                ScaleChange::Kept
            } else {
                ScaleChange::Skipped
            };
        }
        if !gradients_finite {
            self.scale *= BACKOFF_FACTOR;
            self.good_steps = 0;
            return ScaleChange::BackedOff(self.scale);
        }
        self.good_steps += 1;
        if self.good_steps < GROWTH_INTERVAL {
            return ScaleChange::Kept;
        }
        self.good_steps = 0;
        self.scale *= GROWTH_FACTOR;
        ScaleChange::Grew(self.scale)
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
}
