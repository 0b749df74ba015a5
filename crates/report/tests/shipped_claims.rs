//! Tests of the claims of the shipped suites for several devices, on invented results.

use std::path::Path;

use mantissa_analysis::wilson;
use mantissa_core::{Axis, Backend, Cell, Metric, MetricName, Profile, Samples, Status, SuiteInfo};
use mantissa_report::{Report, Run};
use mantissa_suite::{PlanOptions, StartingWeights, load, parse_override, plan};

use crate::support::{RunBuilder as _, record, run, synthetic};

const EXAMPLES: u64 = 10_000;

/// Results of a cell.
#[derive(Default)]
struct Results {
    gradient_error: Option<f64>,
    bytes_sent: Option<f64>,
    /// Number of wrong predictions.
    wrong: Option<u64>,
}

/// Plans a suite of `suites/parallel` under several seeds and creates a run with the results of each cell.
fn run_of(suite: &str, profile: Profile, seeds: u64, results: impl Fn(&Cell) -> Results) -> Run {
    let path = format!("../../suites/parallel/{suite}.toml");
    let suite = load(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let seeds: Vec<String> = (1..=seeds).map(|seed| seed.to_string()).collect();
    let options = PlanOptions {
        profile,
        backend: Backend::Flex,
        overrides: vec![parse_override(&format!("seed={}", seeds.join(","))).unwrap()],
        suite_inputs: false,
        data: vec![],
        weights: StartingWeights::Random,
        models: Default::default(),
        filter: None,
    };
    let planned = plan(&[suite], &options).unwrap();
    let mut run = run(planned.suites.clone());
    for cell in planned.runnable() {
        let mut record = record(cell, Status::Ok, None);
        record.fingerprint.cores = 16;
        let Results {
            gradient_error,
            bytes_sent,
            wrong,
        } = results(cell);
        for (name, value) in [
            (MetricName::GradientError, gradient_error),
            (MetricName::BytesSent, bytes_sent),
        ] {
            let reading = value.map(|value| (name, Metric::reading(name, value, "invented")));
            record.metrics.extend(reading);
        }
        let samples = wrong.map(|wrong| {
            let name = MetricName::TestAccuracy;
            let accuracy = wilson(EXAMPLES - wrong, EXAMPLES).unwrap();
            record.metrics.insert(name, accuracy.metric(name));
            record.data = Some(synthetic());
            // Other numbers of devices predict 200 other examples incorrectly, because the order of additions differs.
            let first = if cell.setting.devices() > 1 { 200 } else { 0 };
            let is_wrong = |example| (first..first + wrong).contains(&example);
            let text = (0..EXAMPLES).map(|example| if is_wrong(example) { '0' } else { '1' });
            Samples {
                test_correct: Some(text.collect()),
                ..Samples::default()
            }
        });
        run.add(record, samples);
    }
    run
}

/// Returns the verdicts on the claims of a run, with their evidence.
fn verdicts(run: &Run) -> Vec<(&'static str, String)> {
    let report = Report::new(run).unwrap();
    let claims = report.suites[0].claims.iter();
    let verdict = |claim: &mantissa_report::ClaimVerdict<'_>| {
        let text = format!("{}: {}", claim.claim.says, claim.evidence.join("; "));
        (claim.standing.name(), text)
    };
    claims.map(verdict).collect()
}

fn names(run: &Run) -> Vec<&'static str> {
    verdicts(run).into_iter().map(|(name, _)| name).collect()
}

/// Returns an error that grows with a power of the number of additions on the path of a value.
fn error(cell: &Cell, exponent: f64) -> f64 {
    let setting = &cell.setting;
    let devices = f64::from(setting.devices());
    let additions = match setting.reduce_algorithm().name() {
        "ring" | "linear" => devices - 1.0,
        _ => devices.log2(),
    };
    1e-3 * additions.powf(exponent)
}

#[test]
fn claims_about_the_gradient_error_are_confirmed_by_random_signs_and_refuted_by_others() {
    let with = |error: &dyn Fn(&Cell) -> f64| {
        let results = |cell: &Cell| Results {
            gradient_error: Some(error(cell)),
            ..Results::default()
        };
        names(&run_of("reduction", Profile::Full, 1, results))
    };
    assert_eq!(with(&|cell| error(cell, 0.5)), ["confirmed", "confirmed"]);
    // All rounding errors have the same sign: the error grows by a factor of 7.
    assert_eq!(with(&|cell| error(cell, 1.0)), ["confirmed", "refuted"]);
    // A tree whose error is that of a longer chain.
    let reversed = |cell: &Cell| match cell.setting.reduce_algorithm().name() {
        "tree" => 10.0 * error(cell, 0.5),
        _ => error(cell, 0.5),
    };
    assert_eq!(with(&reversed), ["refuted", "confirmed"]);
    // The order of the additions does not matter.
    assert_eq!(with(&|_| 1e-3), ["refuted", "refuted"]);
}

/// Returns results with 1,500 and `lost` wrong predictions.
fn accuracy(cell: &Cell, lost: u64) -> Results {
    Results {
        wrong: Some(1_500 + 3 * cell.seed + lost),
        ..Results::default()
    }
}

#[test]
fn a_wrong_division_of_the_batch_refutes_the_claim_about_the_accuracy() {
    let with = |seeds, lost| {
        let results = |cell: &Cell| accuracy(cell, if cell.setting.devices() > 1 { lost } else { 0 });
        let run = run_of("data-parallel", Profile::Full, seeds, results);
        verdicts(&run).pop().unwrap()
    };
    let (name, evidence) = with(8, 2);
    assert_eq!(name, "confirmed", "{evidence}");
    for algorithm in ["ring", "tree", "linear", "recursive-doubling"] {
        assert!(evidence.contains(algorithm), "{evidence}");
    }
    let (name, evidence) = with(8, 500);
    assert_eq!(name, "refuted", "{evidence}");
    // The correction for four pairs requires more than six seeds.
    assert_eq!(with(7, 2).0, "inconclusive");
}

#[test]
fn claims_about_large_batches_need_seven_seeds() {
    let with = |seeds, lost| {
        let results = |cell: &Cell| {
            let is_unscaled = cell
                .setting
                .iter()
                .any(|(axis, value)| axis == Axis::LearningRateScaling && value.to_string() == "none");
            let is_large = cell.setting.accumulate() > 1;
            accuracy(cell, if is_unscaled && is_large { lost } else { 0 })
        };
        names(&run_of("large-batch", Profile::Standard, seeds, results))
    };
    assert_eq!(with(7, 500), ["confirmed"; 3]);
    assert_eq!(with(7, 0), ["refuted", "confirmed", "confirmed"]);
    assert_eq!(with(6, 500), ["inconclusive", "confirmed", "confirmed"]);
}

#[test]
fn stale_gradients_cost_accuracy_or_not() {
    let with = |lost| {
        let results = |cell: &Cell| Results {
            bytes_sent: Some(match cell.setting.reduce().name() {
                "all-reduce" => 1e6,
                _ => 4e6,
            }),
            ..accuracy(cell, if cell.setting.staleness() > 0 { lost } else { 0 })
        };
        names(&run_of("parameter-server", Profile::Standard, 6, results))
    };
    assert_eq!(with(500), ["confirmed", "confirmed"]);
    assert_eq!(with(0), ["confirmed", "refuted"]);
}

#[test]
fn every_claim_is_tested_and_the_analysis_names_profiles_that_do_not_test_it() {
    let results = |cell: &Cell| Results {
        gradient_error: Some(error(cell, 0.5)),
        bytes_sent: Some(1e6),
        wrong: Some(1_500 + cell.seed),
    };
    for suite in ["data-parallel", "large-batch", "parameter-server", "reduction"] {
        for &profile in Profile::ALL {
            let run = run_of(suite, profile, 8, results);
            let info: &SuiteInfo = &run.plan.suites[0];
            let untested = verdicts(&run)
                .into_iter()
                .filter(|(name, _)| *name == "not tested")
                .map(|(_, evidence)| evidence)
                .collect::<Vec<_>>();
            assert!(!info.claims.is_empty(), "{suite}");
            let analysis: Vec<&str> = info.analysis.split_whitespace().collect();
            let analysis = analysis.join(" ");
            let named = analysis
                .split(". ")
                .any(|sentence| sentence.contains("smoke profile") && sentence.contains("not test"));
            assert!(
                untested.is_empty() || (profile == Profile::Smoke && named),
                "{suite}, {profile}: {untested:?}"
            );
        }
    }
}
