//! Verdicts on exact comparisons and on tests.

use mantissa_core::{Better, MetricName};

use super::{
    compared::{Compared, log_or_self, threshold},
    drift::{CommonShift, GATE_MIN_PROGRAM_SHIFT},
    verdict::{Change, GateVerdict, Test},
};
use crate::{Doubt, Floor, Interval, Scale, Verdict, Welch};

/// Returns a verdict without a p-value.
pub(super) fn without_test(compared: &Compared<'_>, verdict: Verdict, change: Option<Change>) -> GateVerdict {
    GateVerdict {
        verdict,
        change,
        threshold: threshold(compared),
        drift: 1.0,
        p: None,
        adjusted_p: None,
        test: None,
    }
}

/// Judges deterministic values. A ratio to 0 does not exist, so a change from or to 0 exceeds any floor and is reported as a difference.
pub(super) fn judge_exact(compared: &Compared<'_>) -> GateVerdict {
    let (before, after) = (compared.baseline[0], compared.candidate[0]);
    let no_ratio = before == 0.0 || after == 0.0;
    let (scale, value) = match compared.floor.scale {
        Scale::Ratio if !no_ratio => (Scale::Ratio, after / before),
        _ => (Scale::Difference, after - before),
    };
    let beyond = scale != compared.floor.scale || Floor::distance(scale, value) > threshold(compared);
    let verdict = if before == after || !beyond {
        Verdict::Unchanged
    } else {
        finding(compared.metric, after > before)
    };
    let interval = Interval {
        low: value,
        high: value,
    };
    let change = Change {
        scale,
        value,
        interval,
    };
    without_test(compared, verdict, Some(change))
}

/// Judges a test. `common` is the common shift of the metric, `members` the number of tests in the family.
pub(super) fn judge_test(
    compared: &Compared<'_>,
    welch: Welch,
    common: CommonShift,
    (p, adjusted_p): (f64, f64),
    (level, members): (f64, usize),
) -> GateVerdict {
    let scale = compared.floor.scale;
    let threshold = threshold(compared);
    let limit = match scale {
        Scale::Ratio => threshold.ln_1p(),
        Scale::Difference => threshold,
    };
    let [low, value, high] =
        [welch.interval.low, welch.value, welch.interval.high].map(|change| log_or_self(scale, change));
    let corrected = value - common.shift;
    let min_finding = match common.doubtful {
        true => limit.max(GATE_MIN_PROGRAM_SHIFT.ln_1p()),
        false => limit,
    };
    let is_beyond = corrected.min(value) > min_finding || corrected.max(value) < -min_finding;
    let is_within = -limit <= low - common.shift && high - common.shift <= limit && value.abs() <= limit;
    let verdict = if is_within {
        Verdict::Unchanged
    } else if adjusted_p <= level && is_beyond {
        finding(compared.metric, corrected > 0.0)
    } else if common.doubtful {
        Verdict::Inconclusive(Doubt::Shared)
    } else {
        Verdict::Inconclusive(Doubt::TooNoisy)
    };
    GateVerdict {
        verdict,
        change: Some(Change {
            scale,
            value: welch.value,
            interval: welch.interval,
        }),
        threshold,
        drift: common.shift.exp(),
        p: Some(p),
        adjusted_p: Some(adjusted_p),
        test: (!common.doubtful).then_some(Test {
            welch,
            scale,
            level: level / members as f64,
        }),
    }
}

fn finding(metric: MetricName, larger: bool) -> Verdict {
    if larger == (metric.better() == Better::Higher) {
        Verdict::Improved
    } else {
        Verdict::Regressed
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::MetricName;

    use super::Compared;
    use crate::{
        Doubt, Rules, Scale, Verdict, gate,
        gate::test_data::{QUIET, compared, seconds, verdict},
    };

    #[test]
    fn lower_rate_is_a_regression() {
        let slower = QUIET.map(|value| value * 0.9);
        assert_eq!(
            verdict(compared(MetricName::SamplesPerSecond, &QUIET, &slower)),
            Verdict::Regressed
        );
    }

    #[test]
    fn significant_change_within_floor_or_fence_is_unchanged() {
        let slower = |by: f64| QUIET.map(|value| value * by);
        assert_eq!(verdict(seconds(&QUIET, &slower(1.01))), Verdict::Unchanged);
        let tenth = slower(1.1);
        let fenced = Compared {
            fence: Some(0.3),
            ..seconds(&QUIET, &tenth)
        };
        let ruling = &gate(&[fenced], Rules::default())[0];
        assert_eq!((ruling.verdict, ruling.threshold), (Verdict::Unchanged, 0.3));
    }

    #[test]
    fn equal_requested_bytes_are_judged_without_a_test() {
        let bytes = |candidate| {
            gate(
                &[compared(MetricName::WeightsBytes, &[100.0; 5], candidate)],
                Rules::default(),
            )[0]
            .clone()
        };
        assert_eq!(bytes(&[110.0; 5]).verdict, Verdict::Regressed);
        assert_eq!(bytes(&[90.0; 5]).verdict, Verdict::Improved);
        assert_eq!(bytes(&[101.0; 5]).verdict, Verdict::Unchanged);
        assert_eq!(
            (bytes(&[110.0; 5]).p, bytes(&[110.0; 5]).change.unwrap().value),
            (None, 1.1)
        );
        let varied = bytes(&[110.0, 110.0, 110.0, 110.0, 250.0]);
        assert_eq!(varied.verdict, Verdict::Inconclusive(Doubt::TooNoisy));
        assert!(varied.p.is_some());
    }

    #[test]
    fn change_from_zero_is_reported_as_a_difference() {
        let ruling = &gate(
            &[compared(MetricName::RoundingError, &[0.0; 5], &[1e-4; 5])],
            Rules::default(),
        )[0];
        assert_eq!(ruling.verdict, Verdict::Regressed);
        let change = ruling.change.unwrap();
        assert_eq!((change.scale, change.value), (Scale::Difference, 1e-4));
        assert_eq!(
            verdict(compared(MetricName::RoundingError, &[0.0; 5], &[0.0; 5])),
            Verdict::Unchanged
        );
    }

    #[test]
    fn constant_loss_is_judged_by_its_floor_only() {
        let loss = |after| verdict(compared(MetricName::FinalLoss, &[0.50; 5], &[after; 5]));
        assert_eq!(loss(0.51), Verdict::Unchanged);
        assert_eq!(loss(0.53), Verdict::Regressed);
        assert_eq!(loss(0.47), Verdict::Improved);
    }
}
