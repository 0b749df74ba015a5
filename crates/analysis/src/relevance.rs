//! Smallest relevant change of each metric.

use mantissa_core::MetricName;

/// Scale on which two values of a metric are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scale {
    /// Ratio of the values: times, bytes, joules, errors.
    Ratio,
    /// Difference of the values: accuracies, losses, shares, counts.
    Difference,
}

/// Smallest relevant change of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Floor {
    /// Scale of `size`.
    pub scale: Scale,
    /// Positive. On a ratio scale, a relative change (0.03 is a factor of 1.03 or its inverse); otherwise a difference in the metric's
    /// unit.
    pub size: f64,
}

/// Times and rates. The drift that all cells of a suite share between two runs on one machine is smaller than this floor.
const TIME: f64 = 0.03;
/// Times of steps that occur once per process, such as file access, cache filling and first launches. The program controls only a small
/// part of them.
const ONCE: f64 = 0.25;
/// Bytes.
const MEMORY: f64 = 0.02;
/// Joules. Sensors are accurate to a few percent.
const ENERGY: f64 = 0.05;
/// Errors relative to float64. Another summation order changes them by a few percent.
const ERROR: f64 = 0.05;
/// Maximum errors; 1.0 is a factor of two. Another summation order changes a maximum by more than a mean.
const MAX_ERROR: f64 = 1.0;
/// Accuracies and shares: one percentage point, the default of `mantissa advise`.
const SHARE: f64 = 0.01;
/// Losses, in nats. Also the relative floor of a perplexity, which is the exponential of a loss.
const LOSS: f64 = 0.02;
/// Skipped steps.
const STEPS: f64 = 1.0;

impl Floor {
    /// Returns the default floor of a metric. Returns `None` for metrics that the gate does not judge by default: idle power and copy
    /// bandwidth of the device, performance of cuBLASLt, memory estimates from shapes, the error of rounding the inputs, the magnitude
    /// bias, and metrics of host overhead.
    pub const fn of(metric: MetricName) -> Option<Self> {
        use MetricName as M;
        Some(match metric {
            M::TrainSeconds
            | M::StepSeconds
            | M::SamplesPerSecond
            | M::TokensPerSecond
            | M::LoadSeconds
            | M::FirstTokenSeconds
            | M::TokenSeconds
            | M::DecodeTokensPerSecond
            | M::FlopsPerSecond
            | M::ValuesPerSecond
            | M::BytesPerSecond => Self::ratio(TIME),
            M::WeightsSeconds | M::WarmupSeconds => Self::ratio(ONCE),
            M::LoadedBytes
            | M::DevicePeakBytes
            | M::ProcessPeakBytes
            | M::AllocatorReservedPeakBytes
            | M::AllocatorInUsePeakBytes
            | M::WeightsBytes
            | M::WeightCopiesBytes
            | M::ActivationsBytes
            | M::GradientsBytes
            | M::OptimizerBytes
            | M::HostPeakBytes => Self::ratio(MEMORY),
            M::EnergyCounterJoules | M::EnergyIntegralJoules | M::EnergyAboveIdleJoules => {
                Self::ratio(ENERGY)
            }
            M::RelativeError | M::AccumulationError | M::RoundingError | M::GradientError => {
                Self::ratio(ERROR)
            }
            M::MaxUlp => Self::ratio(MAX_ERROR),
            M::Perplexity => Self::ratio(LOSS),
            M::TestLoss | M::FinalLoss => Self::difference(LOSS),
            M::TestAccuracy
            | M::ValidationAccuracy
            | M::TrainAccuracy
            | M::Agreement
            | M::OverflowShare
            | M::UnderflowShare
            | M::SubnormalShare
            | M::LostUpdateShare => Self::difference(SHARE),
            M::SkippedSteps | M::NonFiniteSteps | M::ClippedSteps => Self::difference(STEPS),
            M::EstimatedWeightsBytes
            | M::EstimatedWeightCopiesBytes
            | M::EstimatedActivationsBytes
            | M::EstimatedGradientsBytes
            | M::EstimatedOptimizerBytes
            | M::IdleWatts
            | M::CopyBytesPerSecond
            | M::CublasFlopsPerSecond
            | M::QuantisationError
            | M::MagnitudeBias
            | M::LaunchesPerStep
            | M::HostSecondsPerLaunch
            | M::DeviceIdleShare
            | M::CommunicationSeconds
            | M::CommunicationShare
            | M::BytesSent
            | M::Messages
            | M::EqualReductions
            | M::MeanStaleness => return None,
        })
    }

    /// Creates a floor that is a share of the value.
    pub const fn ratio(size: f64) -> Self {
        Self {
            scale: Scale::Ratio,
            size,
        }
    }

    /// Creates a floor that is a difference in the metric's unit.
    pub const fn difference(size: f64) -> Self {
        Self {
            scale: Scale::Difference,
            size,
        }
    }

    /// Converts a change (a ratio or a difference) to its size, which can be compared with [`Floor::size`].
    pub(crate) fn distance(scale: Scale, change: f64) -> f64 {
        match scale {
            Scale::Ratio => change.ln().abs().exp_m1(),
            Scale::Difference => change.abs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learned_metrics_except_perplexity_use_differences() {
        for metric in MetricName::ALL {
            let Some(floor) = Floor::of(*metric) else { continue };
            assert!(floor.size > 0.0);
            if metric.is_learned() && *metric != MetricName::Perplexity {
                assert_eq!(floor.scale, Scale::Difference, "{metric}");
            }
        }
    }

    #[test]
    fn perplexity_floor_matches_the_loss_floor() {
        let (perplexity, loss) = (
            Floor::of(MetricName::Perplexity).unwrap(),
            Floor::of(MetricName::TestLoss).unwrap(),
        );
        assert!((perplexity.size.ln_1p() / loss.size - 1.0).abs() < 0.02);
    }

    #[test]
    fn halving_and_doubling_have_the_same_distance() {
        assert!((Floor::distance(Scale::Ratio, 0.5) - 1.0).abs() < 1e-12);
        assert!((Floor::distance(Scale::Ratio, 2.0) - 1.0).abs() < 1e-12);
        assert_eq!(Floor::distance(Scale::Difference, -0.5), 0.5);
    }
}
