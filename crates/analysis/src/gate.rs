//! Regression gate: detects relevant changes while bounding the false-positive rate.

use std::collections::BTreeMap;

use mantissa_core::{Better, MetricName, Unit};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{
    Doubt, Floor, Interval, Prior, Sample, Scale, Verdict, Welch, WelchTerms, holm, prior, welch,
    welch::{logarithms, within},
    welch_ratio,
};

/// Maximum share of suites with any finding by chance, if the candidate equals the baseline. The test is two-sided, so half of it is for
/// false regressions. The accepted rate of these is 1 %; the remaining margin is for noise that is not normal.
pub const GATE_LEVEL: f64 = 0.01;

/// Minimum number of processes on either side for a verdict.
pub const GATE_REPEATS: usize = 5;

/// Minimum relative standard deviation of measurements, the same as for labels of outliers. If five measurements agree more closely, that
/// is due to a coarse clock or chance.
pub const GATE_LEAST_DEVIATION: f64 = 0.001;

/// Minimum number of cells for estimating a common shift.
pub const GATE_DRIFT_FROM: usize = 8;

/// Common shifts up to this share are attributed to clocks or other load on the machine, and are subtracted. Floors may be larger.
pub const GATE_MOST_DRIFT: f64 = 0.03;

/// A common shift of more than this multiple of the noise in histories is attributed to the program. In the recorded runs, one in fifty
/// exceeded it.
const GATE_FENCES: f64 = 2.0;

/// A common shift of more than this share is attributed to the program even if the runs were not interleaved. No two recorded runs of the
/// same program differ by as much.
pub const GATE_NO_MACHINE: f64 = 0.5;

/// Power at which [`GateVerdict::catches`] is computed.
pub const GATE_POWER: f64 = 0.95;

/// Requirements for findings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Maximum share of suites with any finding by chance, if the candidate equals the baseline.
    pub level: f64,
    /// Minimum number of processes on either side.
    pub repeats: usize,
    /// Maximum number of looks at the same family, with more processes each time. The level is divided by it because each look is another
    /// chance for a false positive. If processes agree and only the examples are a sample, further looks give nearly the same result, and
    /// the level is not divided.
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

/// Metric of a cell on both sides, with one value per process.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    /// The metric. It determines the better direction, whether processes must agree, and the cells with similar noise.
    pub metric: MetricName,
    /// The baseline's values.
    pub baseline: &'a [f64],
    /// The candidate's values.
    pub candidate: &'a [f64],
    /// Smallest relevant change; by default [`Floor::of`] the metric.
    pub floor: Floor,
    /// Noise of this cell, if there is a history: [`crate::noise_fence`] on the floor's scale.
    pub fence: Option<f64>,
    /// Standard error that more processes do not reduce: [`examples_error`] for accuracies, otherwise 0.
    pub shared_error: f64,
    /// True if the runs of both sides were interleaved, so that both sides saw the same states of the machine.
    pub turns: bool,
}

/// Change from the baseline to the candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Scale of `value`: ratio candidate / baseline, or difference candidate − baseline.
    pub scale: Scale,
    /// The measured change.
    pub value: f64,
    /// Interval at [`crate::CONFIDENCE`]; a single point for values that never vary.
    pub interval: Interval,
}

/// Verdict of the gate on one comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct GateVerdict {
    /// The verdict.
    pub verdict: Verdict,
    /// The change; `None` if it cannot be computed.
    pub change: Option<Change>,
    /// Threshold for findings: the floor or the fence, whichever is larger.
    pub threshold: f64,
    /// Common ratio of all cells of this metric that was subtracted; 1 if none was.
    pub drift: f64,
    /// p-value of the test; `None` without a test.
    pub p: Option<f64>,
    /// p-value adjusted for the family (Holm). For a finding it is at most the level.
    pub adjusted_p: Option<f64>,
    test: Option<Test>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Test {
    welch: Welch,
    scale: Scale,
    /// Largest p-value at which the test would be significant as the only finding of the family.
    least: f64,
}

impl GateVerdict {
    /// Computes the smallest true change, in the floor's terms, that would be detected with probability [`GATE_POWER`] as the only finding
    /// of the family, for this number of processes and this noise. Detection requires an estimate that is significant and beyond the
    /// threshold. Returns `None` if there was no test, or a common shift that cannot be attributed.
    pub fn catches(&self) -> Option<f64> {
        let Test { welch, scale, least } = self.test?;
        let student = StudentsT::new(0.0, 1.0, welch.freedom).ok()?;
        let significant = student.inverse_cdf(1.0 - least / 2.0) * welch.error;
        let margin = student.inverse_cdf(GATE_POWER) * welch.error;
        Some(match scale {
            Scale::Ratio => (significant.max(self.threshold.ln_1p()) + margin).exp_m1(),
            Scale::Difference => significant.max(self.threshold) + margin,
        })
    }
}

/// Judges a family of comparisons, which is everything that one gate looks at.
///
/// Measurements are compared by Welch's t-test, on logarithms if the floor is a ratio, with a prior on the noise that is learned from all
/// cells of the same metric ([`prior`]). Without the prior, five against five could not be decided among 160 comparisons. *Improved* and
/// *regressed* require an adjusted p-value of at most the level **and** an estimate beyond floor and fence. *Unchanged* requires an
/// interval within them (two one-sided tests, for each comparison by itself). Everything else is inconclusive.
///
/// Interleaved cells are judged without correction because both sides saw the same states of the machine. For times, rates and energies of
/// other cells, the common shift (the median over the cells of a metric) is considered. It is attributed to the machine and subtracted if
/// it is within the floor and [`GATE_MOST_DRIFT`]. It is attributed to the program and kept if it exceeds twice the median of the cells'
/// fences, or [`GATE_NO_MACHINE`]. In between, two runs do not determine its cause or its variation between cells: a finding then requires
/// [`GATE_NO_MACHINE`], and everything else is inconclusive ([`Doubt::Shared`]). A finding must be beyond floor and fence both with and
/// without the subtracted shift, and *unchanged* must be within them both ways.
///
/// Some values are deterministic (requested bytes, errors on seeded inputs, results of training with the same seed). If they agree in all
/// processes, they are not tested: equal values are unchanged, and a change beyond the floor is a finding. If they vary, they are treated
/// as measurements. Accuracies with a shared error are tested unless all are equal, at the whole level regardless of the number of looks.
pub fn gate(family: &[Compared<'_>], rules: Rules) -> Vec<GateVerdict> {
    let drafts: Vec<Draft> = family
        .iter()
        .map(|compared| draft(compared, rules.repeats))
        .collect();
    let priors = priors(family, &drafts);
    let tests: Vec<Option<Welch>> = family
        .iter()
        .zip(&drafts)
        .map(|(compared, draft)| match draft {
            Draft::Test => test(compared, priors.get(&compared.metric)),
            _ => None,
        })
        .collect();
    let commons = commons(family, &tests);
    let common_of = |compared: &Compared<'_>| match compared.turns {
        true => Common::default(),
        false => commons.get(&compared.metric).copied().unwrap_or_default(),
    };
    let p_values: Vec<f64> = family
        .iter()
        .zip(&tests)
        .map(|(compared, test)| match test {
            Some(test) => {
                test.p_of(log_or_self(compared.floor.scale, test.value) - common_of(compared).shift)
            }
            None => f64::NAN,
        })
        .collect();
    let members = tests.iter().flatten().count();
    let adjusted = holm(&p_values);
    family
        .iter()
        .zip(drafts)
        .zip(tests.into_iter().zip(p_values.into_iter().zip(adjusted)))
        .map(|((compared, draft), (test, p))| match (draft, test) {
            (Draft::Doubt(doubt), _) => without_test(compared, Verdict::Inconclusive(doubt), None),
            (Draft::Exact, _) => exact(compared),
            (Draft::Test, Some(welch)) => {
                let looks = match compared.shared_error > 0.0 && agree(compared) {
                    true => 1,
                    false => rules.looks.max(1),
                };
                let level = rules.level / f64::from(looks);
                tested(compared, welch, common_of(compared), p, (level, members))
            }
            (Draft::Test, None) => without_test(compared, Verdict::Inconclusive(Doubt::NoRatio), None),
        })
        .collect()
}

/// Computes the standard error of the difference of two accuracies due to the finite number of test examples, if it is unknown which
/// examples each side predicts correctly. Both sides see the same examples and mostly agree, so this is an upper estimate;
/// [`crate::paired_accuracy`] detects much smaller differences if the predictions are available. Returns `None` without examples.
pub fn examples_error(baseline: f64, candidate: f64, examples: u64) -> Option<f64> {
    let of = |share: f64| {
        (0.0..=1.0)
            .contains(&share)
            .then(|| share * (1.0 - share) / examples as f64)
    };
    let variance = of(baseline)? + of(candidate)?;
    (examples > 0).then(|| variance.sqrt())
}

/// Returns true if all processes of each side have the same value.
fn agree(compared: &Compared<'_>) -> bool {
    let constant = |values: &[f64]| values.windows(2).all(|two| two[0] == two[1]);
    constant(compared.baseline) && constant(compared.candidate)
}

enum Draft {
    Doubt(Doubt),
    Exact,
    Test,
}

fn draft(compared: &Compared<'_>, repeats: usize) -> Draft {
    let both = || compared.baseline.iter().chain(compared.candidate);
    let sensible = |size: f64| size > 0.0 && size.is_finite();
    let lowest = match compared.floor.scale {
        Scale::Ratio => 0.0,
        Scale::Difference => f64::NEG_INFINITY,
    };
    if !sensible(compared.floor.size) || !both().all(|value| value.is_finite() && *value >= lowest) {
        return Draft::Doubt(Doubt::NoRatio);
    }
    if compared.baseline.len().min(compared.candidate.len()) < repeats {
        return Draft::Doubt(Doubt::TooFewRepeats);
    }
    let sides_agree = agree(compared);
    let same = sides_agree && compared.baseline[0] == compared.candidate[0];
    let must_agree = compared.metric.is_counted()
        || compared.metric.is_learned()
        || compared.floor.scale == Scale::Difference;
    // A ratio to 0 does not exist. An error that changes from 0 to another value is a finding even if it varies.
    let zero = |values: &[f64]| values.iter().all(|value| *value == 0.0);
    let some = |values: &[f64]| values.iter().all(|value| *value > 0.0);
    let from_zero = compared.floor.scale == Scale::Ratio
        && (zero(compared.baseline) && some(compared.candidate)
            || some(compared.baseline) && zero(compared.candidate));
    if must_agree && (sides_agree || from_zero) && (same || compared.shared_error <= 0.0) {
        Draft::Exact
    } else {
        Draft::Test
    }
}

/// Prior of a metric, and the number of cells it was learned from.
type Kin = (Prior, usize);

/// Learns a prior of the noise of each metric from the variances within both sides of all cells.
fn priors(family: &[Compared<'_>], drafts: &[Draft]) -> BTreeMap<MetricName, Kin> {
    let mut variances: BTreeMap<MetricName, (Vec<f64>, f64)> = BTreeMap::new();
    let tested = family
        .iter()
        .zip(drafts)
        .filter(|(_, draft)| matches!(draft, Draft::Test));
    for (compared, _) in tested {
        if let Some((variance, freedom)) = within_sides(compared) {
            let (of, total) = variances.entry(compared.metric).or_default();
            of.push(variance);
            *total += freedom;
        }
    }
    variances
        .into_iter()
        .filter_map(|(metric, (of, freedom))| {
            let learned = prior(&of, freedom / of.len() as f64)?;
            Some((metric, (learned, of.len())))
        })
        .collect()
}

/// Returns the variance within both sides, and its degrees of freedom.
fn within_sides(compared: &Compared<'_>) -> Option<(f64, f64)> {
    let levels = |values: &[f64]| match compared.floor.scale {
        Scale::Ratio => logarithms(values),
        Scale::Difference => Some(values.to_vec()),
    };
    within(&levels(compared.baseline)?, &levels(compared.candidate)?)
}

/// Common shift of the cells of a metric.
#[derive(Debug, Clone, Copy, Default)]
struct Common {
    /// Shift to subtract, as a logarithm.
    shift: f64,
    /// True if the shift cannot be attributed to either the machine or the program.
    doubtful: bool,
}

/// Computes the common shift of each metric over the cells that were not interleaved, unless it is attributed to the program. Memory does
/// not drift.
fn commons(family: &[Compared<'_>], tests: &[Option<Welch>]) -> BTreeMap<MetricName, Common> {
    let mut tested: BTreeMap<MetricName, Vec<(&Compared<'_>, f64)>> = BTreeMap::new();
    for (compared, test) in family.iter().zip(tests) {
        let drifts = !compared.turns
            && compared.floor.scale == Scale::Ratio
            && !compared.metric.is_learned()
            && !compared.metric.is_counted()
            && compared.metric.unit() != Unit::Bytes;
        if let (true, Some(test)) = (drifts, test) {
            let of = tested.entry(compared.metric).or_default();
            of.push((compared, test.value.ln()));
        }
    }
    tested
        .into_iter()
        .filter(|(_, cells)| cells.len() >= GATE_DRIFT_FROM)
        .filter_map(|(metric, cells)| Some((metric, common(&cells)?)))
        .collect()
}

fn common(cells: &[(&Compared<'_>, f64)]) -> Option<Common> {
    let shift = Sample::new(cells.iter().map(|(_, shift)| *shift))?.median();
    let floors = cells.iter().map(|(compared, _)| compared.floor.size);
    let within = |share: f64| shift.abs() <= share.ln_1p();
    if within(floors.fold(GATE_MOST_DRIFT, f64::min)) {
        let doubtful = false;
        return Some(Common { shift, doubtful });
    }
    let fences: Vec<f64> = cells.iter().filter_map(|(compared, _)| compared.fence).collect();
    let enough = fences.len() >= GATE_DRIFT_FROM;
    let usual = Sample::new(fences).filter(|_| enough);
    let usual = usual.map_or(GATE_NO_MACHINE, |fences| GATE_FENCES * fences.median());
    let doubtful = within(usual.min(GATE_NO_MACHINE));
    doubtful.then_some(Common { shift, doubtful })
}

fn log_or_self(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Ratio => value.ln(),
        Scale::Difference => value,
    }
}

fn test(compared: &Compared<'_>, kin: Option<&Kin>) -> Option<Welch> {
    let of_this = |(prior, kin): &Kin| {
        let (variance, freedom) = within_sides(compared)?;
        Some(prior.for_one(variance, freedom, *kin))
    };
    let terms = WelchTerms {
        prior: kin.and_then(of_this),
        shared_error: compared.shared_error,
        ..WelchTerms::default()
    };
    match compared.floor.scale {
        Scale::Ratio => {
            let least_deviation = GATE_LEAST_DEVIATION;
            welch_ratio(
                compared.baseline,
                compared.candidate,
                &WelchTerms {
                    least_deviation,
                    ..terms
                },
            )
        }
        Scale::Difference => welch(compared.baseline, compared.candidate, &terms),
    }
}

fn threshold(compared: &Compared<'_>) -> f64 {
    compared.floor.size.max(compared.fence.unwrap_or(0.0))
}

fn without_test(compared: &Compared<'_>, verdict: Verdict, change: Option<Change>) -> GateVerdict {
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

/// Judges values that never vary. There is no ratio to 0, so a change from 0 is beyond any floor and reported as a difference.
fn exact(compared: &Compared<'_>) -> GateVerdict {
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

fn tested(
    compared: &Compared<'_>,
    welch: Welch,
    common: Common,
    (p, adjusted_p): (f64, f64),
    (level, members): (f64, usize),
) -> GateVerdict {
    let scale = compared.floor.scale;
    let threshold = threshold(compared);
    let most = match scale {
        Scale::Ratio => threshold.ln_1p(),
        Scale::Difference => threshold,
    };
    let [low, value, high] =
        [welch.interval.low, welch.value, welch.interval.high].map(|change| log_or_self(scale, change));
    let own = value - common.shift;
    let least = match common.doubtful {
        true => most.max(GATE_NO_MACHINE.ln_1p()),
        false => most,
    };
    let is_shown = own.min(value) > least || own.max(value) < -least;
    let is_within = -most <= low - common.shift && high - common.shift <= most && value.abs() <= most;
    let verdict = if is_within {
        Verdict::Unchanged
    } else if adjusted_p <= level && is_shown {
        finding(compared.metric, own > 0.0)
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
            least: level / members as f64,
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
    use super::*;

    const QUIET: [f64; 5] = [1.000, 1.004, 0.997, 1.002, 0.998];

    fn compared<'a>(metric: MetricName, baseline: &'a [f64], candidate: &'a [f64]) -> Compared<'a> {
        Compared {
            metric,
            baseline,
            candidate,
            floor: Floor::of(metric).unwrap(),
            fence: None,
            shared_error: 0.0,
            turns: true,
        }
    }

    fn seconds<'a>(baseline: &'a [f64], candidate: &'a [f64]) -> Compared<'a> {
        compared(MetricName::StepSeconds, baseline, candidate)
    }

    fn verdict(compared: Compared<'_>) -> Verdict {
        gate(&[compared], Rules::default())[0].verdict
    }

    #[test]
    fn five_against_five_decide_among_a_hundred_and_sixty() {
        let slower = QUIET.map(|value| value * 1.05);
        let mut family = vec![seconds(&QUIET, &QUIET); 160];
        family[7] = seconds(&QUIET, &slower);
        family[8] = seconds(&slower, &QUIET);
        let rulings = gate(&family, Rules::default());
        assert_eq!(rulings[7].verdict, Verdict::Regressed);
        assert_eq!(rulings[8].verdict, Verdict::Improved);
        assert!(rulings[7].adjusted_p.unwrap() < GATE_LEVEL);
        let others = rulings.iter().enumerate().filter(|(at, _)| ![7, 8].contains(at));
        assert!(
            others
                .map(|(_, ruling)| ruling.verdict)
                .all(|verdict| verdict == Verdict::Unchanged)
        );
    }

    #[test]
    fn a_shift_that_all_cells_share_is_the_machines_unless_it_is_large() {
        let by = |factor: f64| QUIET.map(|value| value * factor);
        let all = |turns: bool, common: f64, one: f64| {
            let (common, one) = (by(common), by(one));
            let of = |candidate| Compared {
                turns,
                ..seconds(&QUIET, candidate)
            };
            let mut family = vec![of(&common); 20];
            family[3] = of(&one);
            let rulings = gate(&family, Rules::default());
            (rulings[0].clone(), rulings[3].clone())
        };
        let (others, one) = all(false, 1.018, 1.07);
        assert_eq!(
            (others.verdict, one.verdict),
            (Verdict::Unchanged, Verdict::Regressed)
        );
        assert!((others.drift - 1.018).abs() < 1e-12 && (one.change.unwrap().value - 1.07).abs() < 1e-12);
        let (others, one) = all(true, 1.05, 1.05);
        assert_eq!(
            (others.verdict, one.verdict),
            (Verdict::Regressed, Verdict::Regressed)
        );
        assert_eq!(others.drift, 1.0);
        let (others, one) = all(true, 1.018, 1.0);
        assert_eq!(
            (others.drift, one.drift, one.verdict),
            (1.0, 1.0, Verdict::Unchanged),
            "interleaved runs are not corrected"
        );
        let (_, one) = all(false, 1.025, 0.995);
        assert_eq!(
            one.verdict,
            Verdict::Inconclusive(Doubt::TooNoisy),
            "an unchanged cell is not an improvement, and is inconclusive"
        );
        let heavier = by(1.018);
        let memory = Compared {
            turns: false,
            ..compared(MetricName::HostPeakBytes, &QUIET, &heavier)
        };
        assert_eq!(
            gate(&[memory; 20], Rules::default())[0].drift,
            1.0,
            "memory does not drift"
        );
    }

    #[test]
    fn whose_a_large_common_shift_is_takes_turns_or_a_history_to_tell() {
        let by = |factor: f64| QUIET.map(|value| value * factor);
        let all = |common: f64, one: f64, fence: Option<f64>| {
            let (common, one) = (by(common), by(one));
            let of = |candidate| Compared {
                turns: false,
                fence,
                ..seconds(&QUIET, candidate)
            };
            let mut family = vec![of(&common); 20];
            family[3] = of(&one);
            let rulings = gate(&family, Rules::default());
            (rulings[0].verdict, rulings[3].verdict)
        };
        let shared = Verdict::Inconclusive(Doubt::Shared);
        let (regressed, unchanged) = (Verdict::Regressed, Verdict::Unchanged);
        assert_eq!(all(1.10, 1.10, None), (shared, shared));
        assert_eq!(
            all(1.10, 1.25, None),
            (shared, shared),
            "the machine does not affect all cells alike"
        );
        assert_eq!(
            all(1.10, 1.80, None),
            (shared, regressed),
            "the machine does not affect a cell that much"
        );
        assert_eq!(
            all(0.90, 1.40, None),
            (shared, shared),
            "up to 1.40 of the change can be the cell's own"
        );
        assert_eq!(
            all(0.90, 1.0, None),
            (shared, shared),
            "the cell can be a tenth slower than the machine on that day"
        );
        assert_eq!(
            all(1.60, 1.60, None),
            (regressed, regressed),
            "no machine drifts that far"
        );
        assert_eq!(
            all(1.10, 1.10, Some(0.04)),
            (regressed, regressed),
            "this machine does not drift that far"
        );
        assert_eq!(
            all(1.10, 1.10, Some(0.2)),
            (unchanged, unchanged),
            "this machine drifts that far"
        );
        assert_eq!(all(1.02, 1.02, None), (unchanged, unchanged), "below the floor");
    }

    #[test]
    fn cells_in_turns_are_judged_whatever_befell_the_others() {
        let (slower, same) = (QUIET.map(|value| value * 1.1), QUIET);
        let serial = |candidate| Compared {
            turns: false,
            ..seconds(&QUIET, candidate)
        };
        let mut family = vec![serial(&slower); 20];
        family[0] = seconds(&QUIET, &slower);
        family[1] = seconds(&QUIET, &same);
        let verdicts: Vec<_> = gate(&family, Rules::default())
            .iter()
            .map(|ruling| ruling.verdict)
            .collect();
        assert_eq!(
            verdicts[..3],
            [
                Verdict::Regressed,
                Verdict::Unchanged,
                Verdict::Inconclusive(Doubt::Shared)
            ]
        );
    }

    #[test]
    fn a_history_never_makes_a_machine_of_what_no_machine_does_and_need_not_be_complete() {
        let (slower, much_slower) = (QUIET.map(|value| value * 1.1), QUIET.map(|value| value * 1.7));
        let verdicts = |candidate, fence| {
            let of = |fence| Compared {
                turns: false,
                fence,
                ..seconds(&QUIET, candidate)
            };
            let mut family = vec![of(Some(fence)); 20];
            family[7] = of(None);
            let rulings = gate(&family, Rules::default());
            [rulings[0].verdict, rulings[7].verdict]
        };
        assert_eq!(verdicts(&much_slower, 0.4), [Verdict::Regressed; 2]);
        assert_eq!(verdicts(&slower, 0.03), [Verdict::Regressed; 2]);
    }

    #[test]
    fn a_rate_that_falls_has_regressed() {
        let slower = QUIET.map(|value| value * 0.9);
        assert_eq!(
            verdict(compared(MetricName::SamplesPerSecond, &QUIET, &slower)),
            Verdict::Regressed
        );
    }

    #[test]
    fn a_sure_change_within_the_floor_or_the_fence_is_none() {
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
    fn four_processes_pass_nothing_and_find_nothing_even_of_what_never_varies() {
        for candidate in [&[9.0; 5], &[1.0; 5]] {
            for metric in [MetricName::StepSeconds, MetricName::WeightsBytes] {
                assert_eq!(
                    verdict(compared(metric, &[1.0; 4], candidate)),
                    Verdict::Inconclusive(Doubt::TooFewRepeats)
                );
            }
        }
    }

    #[test]
    fn bytes_that_were_asked_for_need_no_test() {
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
    fn an_error_that_appears_where_there_was_none_is_told_as_a_difference() {
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
    fn readings_that_happen_to_agree_are_still_readings() {
        let ruling = &gate(&[seconds(&[1.0; 5], &[1.05; 5])], Rules::default())[0];
        assert_eq!(ruling.verdict, Verdict::Regressed);
        assert!(ruling.p.unwrap() > 0.0 && ruling.change.unwrap().interval.low < 1.05);
    }

    #[test]
    fn an_accuracy_is_as_sure_as_its_examples_are_many() {
        let accuracy = |examples: u64| {
            let fewer = Compared {
                shared_error: examples_error(0.80, 0.77, examples).unwrap(),
                ..compared(MetricName::TestAccuracy, &[0.80; 5], &[0.77; 5])
            };
            verdict(fewer)
        };
        assert_eq!(accuracy(1_000), Verdict::Inconclusive(Doubt::TooNoisy));
        assert_eq!(accuracy(100_000), Verdict::Regressed);
        let same = Compared {
            shared_error: 0.1,
            ..compared(MetricName::TestAccuracy, &[0.80; 5], &[0.80; 5])
        };
        assert_eq!(
            verdict(same),
            Verdict::Unchanged,
            "equal accuracies are unchanged"
        );
        assert_eq!(examples_error(0.5, 0.5, 0), None);
        assert_eq!(examples_error(1.5, 0.5, 10), None);
    }

    #[test]
    fn every_look_takes_its_share_of_the_level_but_where_all_that_varies_is_the_examples() {
        let looked_at = |compared: Compared<'_>, looks| {
            let rules = Rules {
                looks,
                ..Rules::default()
            };
            gate(&[compared], rules).remove(0).verdict
        };
        // Five points of 1,000 examples: p is between a third of the level and the level.
        let accuracy = Compared {
            shared_error: examples_error(0.80, 0.75, 1_000).unwrap(),
            ..compared(MetricName::TestAccuracy, &[0.80; 5], &[0.75; 5])
        };
        let varying = Compared {
            candidate: &[0.75, 0.75, 0.75, 0.75, 0.751],
            ..accuracy
        };
        for (compared, of_three) in [
            (accuracy, Verdict::Regressed),
            (varying, Verdict::Inconclusive(Doubt::TooNoisy)),
        ] {
            assert_eq!(looked_at(compared, 1), Verdict::Regressed);
            assert_eq!(looked_at(compared, 3), of_three);
        }
    }

    #[test]
    fn a_loss_that_seeds_do_not_move_has_its_floor_alone() {
        let loss = |after| verdict(compared(MetricName::FinalLoss, &[0.50; 5], &[after; 5]));
        assert_eq!(loss(0.51), Verdict::Unchanged);
        assert_eq!(loss(0.53), Verdict::Regressed);
        assert_eq!(loss(0.47), Verdict::Improved);
    }

    #[test]
    fn what_cannot_be_compared_is_inconclusive_and_no_member_of_the_family() {
        let none = Verdict::Inconclusive(Doubt::NoRatio);
        assert_eq!(verdict(seconds(&[0.0, 1.0, 1.0, 1.0, 1.0], &QUIET)), none);
        assert_eq!(verdict(seconds(&[f64::NAN; 5], &QUIET)), none);
        assert_eq!(verdict(seconds(&[-1.0; 5], &QUIET)), none);
        let slower = QUIET.map(|value| value * 1.05);
        let senseless = Compared {
            floor: Floor::ratio(f64::NAN),
            ..seconds(&QUIET, &slower)
        };
        assert_eq!(verdict(senseless), none);
        let rulings = gate(&[senseless, seconds(&QUIET, &slower)], Rules::default());
        assert_eq!(rulings[1].p, rulings[1].adjusted_p);
        assert!(gate(&[], Rules::default()).is_empty());
    }

    #[test]
    fn what_would_be_caught_grows_with_noise_and_with_the_family() {
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
