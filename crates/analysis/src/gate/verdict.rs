//! Verdict of the gate on one comparison, with the change and its significance.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{Interval, Scale, Verdict, Welch};

/// Power at which [`GateVerdict::catches`] is computed.
pub const GATE_POWER: f64 = 0.95;

/// Change from the baseline to the candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Scale of `value`: ratio candidate / baseline, or difference candidate − baseline.
    pub scale: Scale,
    /// The measured change.
    pub value: f64,
    /// Interval at [`crate::CONFIDENCE`]; a single point for deterministic values.
    pub interval: Interval,
}

/// Verdict of the gate on one comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct GateVerdict {
    /// The verdict.
    pub verdict: Verdict,
    /// The change; `None` if it cannot be computed.
    pub change: Option<Change>,
    /// Threshold for *improved* and *regressed*: the floor (smallest relevant change) or the fence (run-to-run noise), whichever is larger.
    pub threshold: f64,
    /// Common shift that was subtracted, as a ratio; 1 without a correction.
    pub drift: f64,
    /// p-value of the test; `None` without a test.
    pub p: Option<f64>,
    /// p-value adjusted for all comparisons of the gate (Holm). For *improved* and *regressed*, it is at most the significance level.
    pub adjusted_p: Option<f64>,
    pub(super) test: Option<Test>,
}

/// Test behind a verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Test {
    pub welch: Welch,
    pub scale: Scale,
    /// Significance level of this test if no other test is significant: the level of the gate divided by the number of tests.
    pub level: f64,
}

impl GateVerdict {
    /// Computes the smallest true change that is detected with probability [`GATE_POWER`], for this number of processes and this noise.
    /// A change is detected if its estimate is beyond the threshold and significant even if no other test is. The unit is that of the
    /// floor. Returns `None` without a test, or if the cause of a common shift is unknown.
    pub fn catches(&self) -> Option<f64> {
        let Test { welch, scale, level } = self.test?;
        let student = StudentsT::new(0.0, 1.0, welch.freedom).ok()?;
        let significant = student.inverse_cdf(1.0 - level / 2.0) * welch.error;
        let margin = student.inverse_cdf(GATE_POWER) * welch.error;
        Some(match scale {
            Scale::Ratio => (significant.max(self.threshold.ln_1p()) + margin).exp_m1(),
            Scale::Difference => significant.max(self.threshold) + margin,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Rules, gate,
        gate::test_data::{QUIET, seconds},
    };

    #[test]
    fn detectable_change_grows_with_noise_and_family_size() {
        let noisy = QUIET.map(|value: f64| value.powi(10));
        let catches = |values: &[f64], members| {
            gate(&vec![seconds(values, values); members], Rules::default())[0]
                .catches()
                .unwrap()
        };
        assert!(catches(&QUIET, 1) > 0.03, "at least the floor");
        assert!(catches(&noisy, 1) > 2.0 * catches(&QUIET, 1));
        assert!(catches(&noisy, 7) > catches(&noisy, 2));
        assert!(
            catches(&noisy, 8) < catches(&noisy, 7),
            "from this number of cells on, there is a prior"
        );
    }
}
