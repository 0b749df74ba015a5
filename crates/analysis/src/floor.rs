//! Which changes of a metric matter.

use mantissa_core::MetricName;

/// How two values of a metric are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scale {
    /// One over the other: times, bytes, joules, errors.
    Ratio,
    /// One less the other: accuracies, losses, shares, counts.
    Difference,
}

/// The smallest change of a metric that matters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Floor {
    /// What it is a size of.
    pub scale: Scale,
    /// Above 0. Of a ratio a share: 0.03 is a change by a factor of 1.03, either way. Of a difference in the metric's unit.
    pub size: f64,
}

/// Times and rates: a suite's common drift between two runs on one machine stays within it.
const TIME: f64 = 0.03;
/// What happens once a process, and mostly outside of what the program decides: files, caches, the first launches.
const ONCE: f64 = 0.25;
/// Bytes.
const MEMORY: f64 = 0.02;
/// Joules: sensors are good to some percent.
const ENERGY: f64 = 0.05;
/// Errors against float64: another order of the same sums moves them by some percent.
const ERROR: f64 = 0.05;
/// The largest error of many, which another order of the same sums moves by more than their mean.
const LARGEST: f64 = 1.0;
/// Accuracies and shares: one point, what `mantissa advise` allows unless told otherwise.
const POINT: f64 = 0.01;
/// Losses, in nats. Of a perplexity, the exponential of one, it is the share that makes the same difference.
const LOSS: f64 = 0.02;
/// Skipped steps.
const STEP: f64 = 1.0;

impl Floor {
    /// The gate's floor for a metric unless a suite says otherwise; absent for what a change of the program does not make better or
    /// worse: what the device does when idle or when it copies, what shapes foretell, what rounding the inputs costs, and a bias about 0.
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
            M::RelativeError | M::AccumulationError | M::RoundingError => Self::ratio(ERROR),
            M::MaxUlp => Self::ratio(LARGEST),
            M::Perplexity => Self::ratio(LOSS),
            M::TestLoss | M::FinalLoss => Self::difference(LOSS),
            M::TestAccuracy
            | M::ValidationAccuracy
            | M::TrainAccuracy
            | M::Agreement
            | M::OverflowShare
            | M::UnderflowShare
            | M::SubnormalShare
            | M::LostUpdateShare => Self::difference(POINT),
            M::SkippedSteps | M::NonFiniteSteps | M::ClippedSteps => Self::difference(STEP),
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
            | M::DeviceIdleShare => return None,
        })
    }

    /// A share of the value.
    pub const fn ratio(size: f64) -> Self {
        Self {
            scale: Scale::Ratio,
            size,
        }
    }

    /// A difference in the metric's unit.
    pub const fn difference(size: f64) -> Self {
        Self {
            scale: Scale::Difference,
            size,
        }
    }

    /// How far a change on this scale is from none, given as a ratio or a difference: the size that a floor must have to hold it.
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
    fn what_is_learned_differs_by_so_much_but_for_perplexity_and_all_else_that_is_positive_is_so_many_times_as_large()
     {
        for metric in MetricName::ALL {
            let Some(floor) = Floor::of(*metric) else { continue };
            assert!(floor.size > 0.0);
            if metric.is_learned() && *metric != MetricName::Perplexity {
                assert_eq!(floor.scale, Scale::Difference, "{metric}");
            }
        }
    }

    #[test]
    fn a_perplexity_that_passes_its_floor_is_a_loss_that_does() {
        let (perplexity, loss) = (
            Floor::of(MetricName::Perplexity).unwrap(),
            Floor::of(MetricName::TestLoss).unwrap(),
        );
        assert!((perplexity.size.ln_1p() / loss.size - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_half_is_as_far_from_the_whole_as_the_double() {
        assert!((Floor::distance(Scale::Ratio, 0.5) - 1.0).abs() < 1e-12);
        assert!((Floor::distance(Scale::Ratio, 2.0) - 1.0).abs() < 1e-12);
        assert_eq!(Floor::distance(Scale::Difference, -0.5), 0.5);
    }
}
