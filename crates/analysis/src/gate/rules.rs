//! Requirements for findings: level, processes and looks.

/// Probability of any finding in a suite by chance, if the candidate equals the baseline. The test is two-sided, so the rate of false
/// regressions is half of it, 0.5 %. A rate of up to 1 % is accepted because noise that is not normal can raise the rate.
pub const GATE_LEVEL: f64 = 0.01;

/// Minimum number of processes on either side for a verdict.
pub const GATE_REPEATS: usize = 5;

/// Requirements for findings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Maximum probability of any finding in a suite by chance, if the candidate equals the baseline.
    pub level: f64,
    /// Minimum number of processes on either side.
    pub repeats: usize,
    /// Maximum number of times that the same cells are judged (looks), each time with more processes. The level is divided by this number
    /// because each look is another chance for a false positive. Accuracies that agree in all processes of a side keep the whole level:
    /// their only error is that of the test examples, so further looks give nearly the same result.
    pub looks: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            level: GATE_LEVEL,
            repeats: GATE_REPEATS,
            looks: 1,
        }
    }
}
