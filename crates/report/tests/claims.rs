//! Tests of the claims of articles on invented runs.

use std::collections::BTreeMap;

use crate::support::{RunBuilder, article, loss, record, run, suite, train_metrics, workload};
use mantissa_core::{
    Axis, AxisValue, Bounds, Cell, Claim, ClaimSource, Claimed, Comparison, DatasetKind, EvaluateTask,
    Executed, ExecutedVerdict, LlamaSize, Metric, MetricName, Model, ResNetSize, Samples, Status, Task,
    Workload,
};
use mantissa_report::{Budget, OverallVerdict, Report, Run, advise, figures, html, json, terminal_tables};

fn values(pairs: &[(Axis, &str)]) -> BTreeMap<Axis, AxisValue> {
    pairs
        .iter()
        .map(|(axis, value)| (*axis, axis.parse(value).unwrap()))
        .collect()
}

fn claim(says: &str, of: &[(Axis, &str)], claimed: Claimed) -> Claim {
    Claim {
        says: says.into(),
        source: ClaimSource {
            title: "Author, <An Article> (2023)".into(),
            url: "https://example.org/article".into(),
            hardware: Some("one NVIDIA A100".into()),
        },
        workload: None,
        of: values(of),
        claimed,
    }
}

fn compared(
    metrics: &[MetricName],
    against: &[(Axis, &str)],
    above: Option<f64>,
    below: Option<f64>,
) -> Comparison {
    Comparison {
        against: values(against),
        metrics: metrics.to_vec(),
        within: Bounds { above, below },
    }
}

const F32: (Axis, &str) = (Axis::Precision, "32-true");
const HIGHEST: (Axis, &str) = (Axis::Matmul, "highest");
const MIXED: (Axis, &str) = (Axis::Precision, "bf16-mixed");

/// Creates a run of an invented article's suite, with claims of every kind.
fn run_with_claims() -> Run {
    let mut info = suite(
        "article",
        "DistilBERT under every precision",
        &[],
        &[Axis::Precision],
    );
    let memory = &MetricName::PEAK_MEMORY;
    info.claims = vec![
        claim(
            "mixed keeps f32 weights",
            &[MIXED],
            Claimed::Ratio(compared(
                &[MetricName::WeightsBytes],
                &[F32],
                Some(0.99),
                Some(1.01),
            )),
        ),
        claim(
            "bf16 halves the activations",
            &[(Axis::Precision, "bf16-true")],
            Claimed::Ratio(compared(
                &[MetricName::ActivationsBytes],
                &[F32, HIGHEST],
                None,
                Some(0.45),
            )),
        ),
        claim(
            "mixed is faster",
            &[MIXED],
            Claimed::Ratio(compared(
                &[MetricName::TrainSeconds],
                &[F32, HIGHEST],
                None,
                Some(1.0),
            )),
        ),
        claim(
            "mixed takes less memory",
            &[MIXED],
            Claimed::Ratio(compared(memory, &[F32, HIGHEST], None, Some(1.0))),
        ),
        claim(
            "fewer bits regularise",
            &[MIXED],
            Claimed::Difference(compared(
                &[MetricName::TestAccuracy],
                &[F32, HIGHEST],
                Some(0.0),
                None,
            )),
        ),
        claim(
            "f16 fails",
            &[(Axis::Precision, "16-true")],
            Claimed::Status(vec![Status::Diverged]),
        ),
        claim(
            "everything runs in mixed precision",
            &[(Axis::Precision, "16-true")],
            Claimed::Status(vec![Status::Ok]),
        ),
        claim(
            "f16 is faster than f64",
            &[(Axis::Precision, "16-true")],
            Claimed::Ratio(compared(
                &[MetricName::TrainSeconds],
                &[(Axis::Precision, "64-true")],
                None,
                Some(1.0),
            )),
        ),
        claim(
            "bf16 takes other sizes",
            &[(Axis::Batch, "77")],
            Claimed::Status(vec![Status::Ok]),
        ),
    ];
    let mut run = run(vec![info]);
    article(&mut run, &workload("distilbert-tiny"));
    run
}

#[test]
fn claims_match_the_snapshot() {
    let run = run_with_claims();
    let report = json(&Report::new(&run).unwrap()).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let claims = &report["suites"][0]["claims"];
    insta::assert_snapshot!(serde_json::to_string_pretty(claims).unwrap());
}

#[test]
fn failed_oom_and_timeout_leave_a_claim_about_divergence_untested() {
    for status in [Status::Failed, Status::Oom, Status::Timeout] {
        let mut run = run_with_claims();
        let f16 = run
            .records
            .iter_mut()
            .filter(|record| record.cell.setting.precision().name() == "16-true");
        f16.for_each(|record| record.status = status);
        let tables = terminal_tables(&Report::new(&run).unwrap());
        let rows = &tables[1].rows[5..7];
        assert_eq!(rows[0], ["f16 fails", "not tested", ""], "{status}");
        assert_eq!(rows[1][1], "not tested", "{status}");
    }
}

#[test]
fn the_terminal_has_a_table_of_claims_no_wider_than_110_columns() {
    let run = run_with_claims();
    let tables = terminal_tables(&Report::new(&run).unwrap());
    let [_, table] = tables.as_slice() else {
        panic!("expected a table of the workload and one of the claims");
    };
    assert_eq!(table.rows.len(), 9);
    for row in &table.rows {
        assert!(
            row.iter().map(|field| field.chars().count() + 3).sum::<usize>() < 110,
            "{row:?}"
        );
    }
    assert_eq!(
        table.rows[5],
        ["f16 fails", "inconclusive", "exact binomial over 1 seed"]
    );
}

#[test]
fn the_page_links_to_the_sources_and_escapes_the_claims() {
    let run = run_with_claims();
    let report = Report::new(&run).unwrap();
    let drawn = figures(&report);
    let pictures: Vec<_> = drawn
        .iter()
        .map(|figure| (figure, figure.canvas.svg().unwrap()))
        .collect();
    let page = html(&report, &pictures).unwrap().replace("&#x2f;", "/");
    assert!(page.contains("Claims of the articles, tested here"));
    assert!(
        page.contains(r#"<a href="https://example.org/article" rel="noreferrer">Author, &lt;An Article&gt;"#)
    );
    assert!(page.contains("Test: signed ranks over 1 seed."));
    assert!(page.contains(r#"<span class="verdict not-tested">not tested</span>"#));
    assert!(page.contains(r#"<summary><span class="verdict inconclusive">inconclusive</span> "#));
}

/// Returns the verdict on the only claim of a run, and its evidence.
fn claim_verdict(run: &Run) -> (OverallVerdict, String) {
    let report = Report::new(run).unwrap();
    let verdict = &report.suites[0].claims[0];
    (
        verdict.standing,
        format!("{}; {}", verdict.verdict, verdict.evidence.join("; ")),
    )
}

fn cell(precision: &str, matmul: &str, seed: u64) -> Cell {
    let axes = [(Axis::Precision, precision), (Axis::Matmul, matmul)];
    let cell = crate::support::cell("article", &workload("w"), &axes);
    Cell::new("article", cell.workload, cell.setting, seed)
}

/// Creates a run of two settings with one accuracy per seed, in which mixed precision takes `factor` times as long.
fn run_with_seeds(claimed: Claimed, seeds: u64, factor: f64) -> Run {
    let mut info = suite("article", "t", &[], &[Axis::Precision]);
    info.claims = vec![claim("so it is", &[MIXED], claimed)];
    let mut run = run(vec![info]);
    for seed in 1..=seeds {
        for (precision, seconds, hits) in [("32-true", 100.0, 800), ("bf16-mixed", 100.0 * factor, 830)] {
            let mut record = record(&cell(precision, "highest", seed), Status::Ok, None);
            train_metrics(
                &mut record,
                seconds + seed as f64,
                hits + seed * (seed % 2),
                1e9 * factor,
            );
            run.add(record, None);
        }
    }
    run
}

#[test]
fn times_are_compared_within_seeds_and_need_six_seeds() {
    let faster = || Claimed::Ratio(compared(&[MetricName::TrainSeconds], &[F32], None, Some(0.9)));
    let (few, why) = claim_verdict(&run_with_seeds(faster(), 5, 0.5));
    assert_eq!(few.name(), "inconclusive");
    assert!(
        why.contains(
            "5 processes each, spread over 5 seeds and compared within each seed; too few for an interval"
        ),
        "{why}"
    );
    assert_eq!(
        claim_verdict(&run_with_seeds(faster(), 6, 0.5)).0.name(),
        "confirmed"
    );
    assert_eq!(
        claim_verdict(&run_with_seeds(faster(), 6, 1.5)).0.name(),
        "refuted"
    );
}

#[test]
fn the_memory_of_a_small_process_does_not_test_a_claim() {
    let equal = || Claimed::Ratio(compared(&MetricName::PEAK_MEMORY, &[F32], Some(0.9), Some(1.1)));
    // Both settings peak at 0.5 GB, then at 0.4 GB.
    assert_eq!(
        claim_verdict(&run_with_seeds(equal(), 6, 0.5)).0.name(),
        "confirmed"
    );
    let (small, why) = claim_verdict(&run_with_seeds(equal(), 6, 0.4));
    assert_eq!(small.name(), "not tested");
    assert!(
        why.contains("a process peaks at 400.0 MB: below 500.0 MB, the program itself"),
        "{why}"
    );
}

/// Adds repeats of all records, each slightly longer than the one before.
fn add_repeats(run: &mut Run, repeats: u32) {
    for mut record in run.records.clone() {
        for repeat in 1..repeats {
            record.repeat = repeat;
            let seconds = record.metrics[&MetricName::TrainSeconds].value.unwrap() + 0.01;
            let reading = Metric::reading(MetricName::TrainSeconds, seconds, "invented");
            record.metrics.insert(MetricName::TrainSeconds, reading);
            run.measured(record.clone(), None);
        }
    }
}

#[test]
fn four_processes_of_one_seed_or_three_of_each_of_two_seeds_suffice_for_times() {
    let faster = || Claimed::Ratio(compared(&[MetricName::TrainSeconds], &[F32], None, Some(0.9)));
    let verdict_with = |seeds, repeats| {
        let mut run = run_with_seeds(faster(), seeds, 0.5);
        for record in run.records.iter_mut().filter(|record| record.cell.seed == 2) {
            let seconds = 100.0 * record.metrics[&MetricName::TrainSeconds].value.unwrap();
            let reading = Metric::reading(MetricName::TrainSeconds, seconds, "invented");
            record.metrics.insert(MetricName::TrainSeconds, reading);
        }
        add_repeats(&mut run, repeats);
        claim_verdict(&run)
    };
    let (few, why) = verdict_with(1, 3);
    assert_eq!(few.name(), "inconclusive");
    assert!(why.contains("3 processes each; too few for an interval"), "{why}");
    assert_eq!(verdict_with(1, 4).0.name(), "confirmed");
    assert_eq!(verdict_with(2, 3).0.name(), "confirmed");
}

#[test]
fn a_verdict_on_the_accuracy_of_a_training_needs_six_seeds() {
    let better = || Claimed::Difference(compared(&[MetricName::TestAccuracy], &[F32], Some(0.0), None));
    let (few, why) = claim_verdict(&run_with_examples(better(), 5, 800, 830));
    assert_eq!(few.name(), "inconclusive");
    assert!(why.contains("5 seeds; a verdict needs 6 seeds"), "{why}");
    let (found, why) = claim_verdict(&run_with_examples(better(), 6, 800, 830));
    assert_eq!(found.name(), "confirmed", "{why}");
    assert!(why.contains("+3.00 ("), "{why}");
}

#[test]
fn shared_test_examples_widen_the_interval_over_seeds() {
    // The difference is half a point under each of twelve seeds, but all seeds share the same 1,000 examples.
    let better = || Claimed::Difference(compared(&[MetricName::TestAccuracy], &[F32], Some(0.0), None));
    let (open, why) = claim_verdict(&run_with_examples(better(), 12, 800, 805));
    assert_eq!(open.name(), "inconclusive", "{why}");
    // Without predictions by example, the difference has a wider interval, which comes from the intervals of both accuracies.
    assert_eq!(
        claim_verdict(&run_with_seeds(better(), 6, 1.0)).0.name(),
        "inconclusive"
    );
}

#[test]
fn advice_and_claims_agree_on_the_same_accuracies() {
    let better = Claimed::Difference(compared(&[MetricName::TestAccuracy], &[F32], Some(0.0), None));
    let run = run_with_examples(better, 7, 800, 805);
    let report = Report::new(&run).unwrap();
    let advice = advise(&report, &Budget::default());
    let mixed = advice.workloads[0].choices[0]
        .evidence
        .iter()
        .find(|evidence| evidence.setting.contains("bf16-mixed"));
    let loss = mixed.unwrap().accuracy_loss.as_ref().unwrap();
    let points = |value: f64| {
        format!(
            "{}{:.2}",
            if value < 0.0 { '−' } else { '+' },
            100.0 * value.abs()
        )
    };
    let ends = format!(
        "({} to {})",
        points(-loss.high.unwrap()),
        points(-loss.low.unwrap())
    );
    let (_, why) = claim_verdict(&run);
    assert!(why.contains(&ends), "{ends} in {why}");
}

/// Creates a run in which `32-true` predicts `hits_f32` of 1,000 examples correctly under every seed. `bf16-mixed` predicts `hits_mixed`
/// examples correctly, including all of those. The wrong examples differ between the seeds.
fn run_with_examples(claimed: Claimed, seeds: u64, hits_f32: u64, hits_mixed: u64) -> Run {
    let mut run = run_with_seeds(claimed, 0, 1.0);
    for seed in 1..=seeds {
        for (precision, hits) in [("32-true", hits_f32), ("bf16-mixed", hits_mixed)] {
            let mut record = record(&cell(precision, "highest", seed), Status::Ok, None);
            train_metrics(&mut record, 100.0, hits, 1e9);
            let right = (0..1_000).map(|at| if (at + seed) % 1_000 < hits { '1' } else { '0' });
            let samples = Samples {
                test_correct: Some(right.collect()),
                ..loss(1, None)
            };
            run.add(record, Some(samples));
        }
    }
    run
}

#[test]
fn equal_accuracy_at_chance_level_is_inconclusive() {
    let same = || {
        Claimed::Difference(compared(
            &[MetricName::TestAccuracy],
            &[F32],
            Some(-0.05),
            Some(0.05),
        ))
    };
    assert_eq!(
        claim_verdict(&run_with_examples(same(), 6, 800, 802)).0.name(),
        "confirmed"
    );
    let (guessed, why) = claim_verdict(&run_with_examples(same(), 6, 502, 504));
    assert_eq!(guessed.name(), "inconclusive");
    assert!(
        why.contains("neither setting is more accurate than chance"),
        "{why}"
    );
    // A setting above chance level differs from one at chance level.
    assert_eq!(
        claim_verdict(&run_with_examples(same(), 6, 502, 802)).0.name(),
        "refuted"
    );
}

#[test]
fn always_predicting_the_most_frequent_class_is_chance_level() {
    let same = || {
        Claimed::Difference(compared(
            &[MetricName::TestAccuracy],
            &[F32],
            Some(-0.05),
            Some(0.05),
        ))
    };
    let mut run = run_with_examples(same(), 6, 700, 700);
    assert_eq!(claim_verdict(&run).0.name(), "confirmed");
    for digest in run.digests.values_mut() {
        let most = "1".repeat(700) + &"0".repeat(300);
        digest.correct = Some(mantissa_report::Correct::new(&most));
    }
    let (guessed, why) = claim_verdict(&run);
    assert_eq!(guessed.name(), "inconclusive");
    assert!(
        why.contains("neither setting is more accurate than chance"),
        "{why}"
    );
}

/// Returns the verdict on the claim that mixed precision diverges. In the run, it diverges under the first `diverged` of `seeds` seeds.
fn divergence_verdict(seeds: u64, diverged: u64) -> (OverallVerdict, String) {
    let mut run = run_with_seeds(Claimed::Status(vec![Status::Diverged]), seeds, 1.0);
    let mixed = run
        .records
        .iter_mut()
        .filter(|record| record.cell.setting.precision().name() == "bf16-mixed");
    for record in mixed.filter(|record| record.cell.seed <= diverged) {
        record.status = Status::Diverged;
    }
    claim_verdict(&run)
}

#[test]
fn a_verdict_on_divergence_needs_six_seeds() {
    let (one, why) = divergence_verdict(1, 1);
    assert_eq!(one.name(), "inconclusive");
    assert!(
        why.contains("diverged in 1 of 1 process") && why.contains("a verdict needs 6 seeds"),
        "{why}"
    );
    assert_eq!(divergence_verdict(5, 5).0.name(), "inconclusive");
    assert_eq!(divergence_verdict(6, 6).0.name(), "confirmed");
    assert_eq!(divergence_verdict(6, 0).0.name(), "refuted");
    let (split, why) = divergence_verdict(6, 3);
    assert_eq!(split.name(), "inconclusive");
    assert!(
        why.contains("as claimed in 3 of 6 seeds (interval of the share: 12 to 88 %)"),
        "{why}"
    );
}

#[test]
fn repeats_of_a_seed_count_once() {
    let mut run = run_with_seeds(Claimed::Status(vec![Status::Diverged]), 1, 1.0);
    add_repeats(&mut run, 8);
    run.records
        .iter_mut()
        .for_each(|record| record.status = Status::Diverged);
    let (found, why) = claim_verdict(&run);
    assert_eq!(found.name(), "inconclusive");
    assert!(
        why.contains("diverged in 8 of 8 processes; as claimed in 1 of 1 seed"),
        "{why}"
    );
}

#[test]
fn every_verdict_names_its_test() {
    let test_names = |run: &Run| {
        let report = Report::new(run).unwrap();
        report.suites[0].claims[0].tests.join("; ")
    };
    let ratio = |metric| Claimed::Ratio(compared(&[metric], &[F32], None, Some(0.9)));
    let better = Claimed::Difference(compared(&[MetricName::TestAccuracy], &[F32], Some(0.0), None));
    assert_eq!(
        test_names(&run_with_seeds(ratio(MetricName::TrainSeconds), 1, 0.5)),
        "Mann–Whitney"
    );
    assert_eq!(
        test_names(&run_with_seeds(ratio(MetricName::TrainSeconds), 6, 0.5)),
        "Mann–Whitney within seeds"
    );
    assert_eq!(
        test_names(&run_with_seeds(better, 6, 0.5)),
        "signed ranks over 6 seeds"
    );
    let status = Claimed::Status(vec![Status::Ok]);
    assert_eq!(
        test_names(&run_with_seeds(status, 6, 0.5)),
        "exact binomial over 6 seeds"
    );
    assert_eq!(
        test_names(&run_with_seeds(ratio(MetricName::WeightsBytes), 6, 0.5)),
        ""
    );
}

#[test]
fn evaluations_are_paired_by_example_and_ignore_seeds() {
    let better = |metric| Claimed::Difference(compared(&[metric], &[F32], Some(0.0), None));
    let evaluated = |metric, right: [&str; 2]| {
        let mut run = run_with_seeds(better(metric), 0, 1.0);
        let task = Task::Evaluate(EvaluateTask {
            model: Model::Resnet(ResNetSize { depth: 20, width: 16 }),
            dataset: DatasetKind::SyntheticImages,
            test: None,
        });
        let workload = Workload {
            name: "w".into(),
            task,
        };
        for seed in 1..=6 {
            for (precision, right) in ["32-true", "bf16-mixed"].into_iter().zip(right) {
                let cell = crate::support::cell("article", &workload, &[(Axis::Precision, precision)]);
                let cell = Cell::new("article", cell.workload, cell.setting, seed);
                let mut record = record(&cell, Status::Ok, None);
                train_metrics(&mut record, 100.0, right.matches('1').count() as u64, 1e9);
                let samples = Samples {
                    test_correct: Some(right.to_owned()),
                    ..loss(1, None)
                };
                run.add(record, Some(samples));
            }
        }
        claim_verdict(&run)
    };
    let (few, many) = (
        "10".repeat(400) + &"0".repeat(200),
        "10".repeat(400) + &"1".repeat(200),
    );
    let (found, why) = evaluated(MetricName::TestAccuracy, [few.as_str(), many.as_str()]);
    assert_eq!(found.name(), "confirmed");
    assert!(
        why.contains("+20.00 (+17.") && why.contains(" points, 1,000 examples"),
        "{why}"
    );
    // The loss of the same weights on the same data does not depend on the seed, so six seeds are one observation.
    let (open, why) = evaluated(MetricName::FinalLoss, [few.as_str(), many.as_str()]);
    assert_eq!(open.name(), "inconclusive");
    assert!(why.contains("the uncertainty was not estimated"), "{why}");
}

#[test]
fn agreement_of_token_predictions_limits_the_accuracy_difference() {
    let as_good = Claimed::Difference(compared(&[MetricName::TestAccuracy], &[F32], Some(-0.02), None));
    let agreed = |low: f64| {
        let mut run = run_with_seeds(as_good.clone(), 0, 1.0);
        let task = Task::Evaluate(EvaluateTask {
            model: Model::Llama(LlamaSize::LLAMA2_7B),
            dataset: DatasetKind::Text,
            test: None,
        });
        let workload = Workload {
            name: "w".into(),
            task,
        };
        for precision in ["32-true", "bf16-mixed"] {
            let cell = crate::support::cell("article", &workload, &[(Axis::Precision, precision)]);
            let mut record = record(&cell, Status::Ok, None);
            let wide = Metric::estimate(MetricName::TestAccuracy, 0.63, (0.58, 0.67), 20, "invented");
            let agreement = Metric::estimate(MetricName::Agreement, 0.99, (low, 0.995), 20, "invented");
            record.metrics.insert(MetricName::TestAccuracy, wide);
            if precision == "bf16-mixed" {
                record.metrics.insert(MetricName::Agreement, agreement);
            }
            run.add(record, None);
        }
        claim_verdict(&run)
    };
    let (found, why) = agreed(0.985);
    assert_eq!(found.name(), "confirmed", "{why}");
    assert!(why.contains("from the share of predictions that differ"), "{why}");
    assert_eq!(agreed(0.975).0.name(), "inconclusive");
}

#[test]
fn failed_cells_and_other_precisions_are_excluded() {
    let faster = || Claimed::Ratio(compared(&[MetricName::TrainSeconds], &[F32], None, Some(0.9)));
    let mut run = run_with_seeds(faster(), 4, 0.5);
    for record in &mut run.records {
        record.executed = Executed {
            verdict: ExecutedVerdict::Differs,
            ..Executed::unverified()
        };
    }
    let (verdict, why) = claim_verdict(&run);
    assert_eq!(verdict, OverallVerdict::NotTested);
    assert!(why.contains("executed another precision than requested"), "{why}");
    let mut run = run_with_seeds(faster(), 7, 0.5);
    run.records[1].status = Status::Oom;
    let (verdict, why) = claim_verdict(&run);
    assert_eq!(verdict.name(), "confirmed");
    assert!(
        why.contains("; 6 of 7 seeds, the others did not finish or executed another precision"),
        "{why}"
    );
}

#[test]
fn pairs_that_differ_are_counted() {
    let mut run = run_with_seeds(
        Claimed::Ratio(compared(&[MetricName::WeightsBytes], &[F32], None, Some(0.6))),
        0,
        1.0,
    );
    for (precision, matmul, bytes) in [
        ("32-true", "highest", 100.0),
        ("32-true", "high", 100.0),
        ("32-true", "medium", 100.0),
        ("bf16-mixed", "highest", 50.0),
        ("bf16-mixed", "high", 50.0),
        ("bf16-mixed", "medium", 70.0),
    ] {
        let mut record = record(&cell(precision, matmul, 1), Status::Ok, None);
        let reading = Metric::reading(MetricName::WeightsBytes, bytes, "invented");
        record.metrics.insert(MetricName::WeightsBytes, reading);
        run.add(record, None);
    }
    let (mixed, why) = claim_verdict(&run);
    assert_eq!(mixed, OverallVerdict::Mixed);
    insta::assert_snapshot!(why);
}

#[test]
fn counts_that_differ_between_processes_are_inconclusive() {
    let counted = Claimed::Ratio(compared(&[MetricName::ActivationsBytes], &[F32], None, Some(0.9)));
    let mut run = run_with_seeds(counted, 2, 1.0);
    for (index, record) in run.records.iter_mut().enumerate() {
        let reading = Metric::reading(MetricName::ActivationsBytes, 100.0 + index as f64, "invented");
        record.metrics.insert(MetricName::ActivationsBytes, reading);
    }
    assert_eq!(claim_verdict(&run).0.name(), "inconclusive");
}

/// Trainings with several devices under one seed: axes, and values of metrics.
type Training<'t> = (&'t [(Axis, &'t str)], &'t [(MetricName, f64)]);

/// Creates a run on a machine with `cores` cores, with four processes per training.
fn run_with_devices(claimed: Claim, cores: u32, trainings: &[Training<'_>]) -> Run {
    let mut info = suite("article", "t", &[], &[Axis::Devices, Axis::ReduceAlgorithm]);
    info.claims = vec![claimed];
    let mut run = run(vec![info]);
    for (axes, metrics) in trainings {
        let cell = crate::support::cell("article", &workload("w"), axes);
        let mut record = record(&cell, Status::Ok, None);
        record.fingerprint.cores = cores;
        for (name, value) in *metrics {
            record
                .metrics
                .insert(*name, Metric::reading(*name, *value, "invented"));
        }
        run.add(record, None);
    }
    add_device_repeats(&mut run);
    run
}

/// Adds three repeats of all records, each with slightly longer times than the one before.
fn add_device_repeats(run: &mut Run) {
    for mut record in run.records.clone() {
        for repeat in 1..4 {
            record.repeat = repeat;
            let times = record.metrics.iter_mut().filter(|(name, _)| !name.is_counted());
            for (_, metric) in times {
                metric.value = metric.value.map(|value| value * 1.001);
            }
            run.measured(record.clone(), None);
        }
    }
}

const TWO: &[(Axis, &str)] = &[(Axis::Batch, "16"), (Axis::Devices, "2"), (Axis::Threads, "1")];
const EIGHT: &[(Axis, &str)] = &[(Axis::Batch, "4"), (Axis::Devices, "8"), (Axis::Threads, "1")];

fn ratio_claim(
    of: &[(Axis, &str)],
    against: &[(Axis, &str)],
    metric: MetricName,
    (above, below): (Option<f64>, Option<f64>),
) -> Claim {
    let claimed = Claimed::Ratio(compared(&[metric], against, above, below));
    claim("so it is", of, claimed)
}

#[test]
fn bytes_of_a_ring_are_compared_even_with_more_ranks_than_cores() {
    let bytes = |eight| {
        let claim = ratio_claim(EIGHT, TWO, MetricName::BytesSent, (None, Some(2.0)));
        let trainings: [Training<'_>; 2] = [
            (TWO, &[(MetricName::BytesSent, 4e6)]),
            (EIGHT, &[(MetricName::BytesSent, eight)]),
        ];
        claim_verdict(&run_with_devices(claim, 2, &trainings))
    };
    // A ring sends 2 (N − 1) / N times the gradient.
    assert_eq!(bytes(7e6).0.name(), "confirmed");
    assert_eq!(bytes(28e6).0.name(), "refuted");
}

#[test]
fn times_of_more_threads_than_cores_do_not_test_a_claim() {
    for metric in [
        MetricName::CommunicationSeconds,
        MetricName::StepSeconds,
        MetricName::CommunicationShare,
    ] {
        let verdict = |cores| {
            let claim = ratio_claim(EIGHT, TWO, metric, (Some(1.5), None));
            let trainings: [Training<'_>; 2] = [(TWO, &[(metric, 0.25)]), (EIGHT, &[(metric, 0.75)])];
            claim_verdict(&run_with_devices(claim, cores, &trainings))
        };
        assert_eq!(verdict(8).0.name(), "confirmed", "{metric}");
        let (untested, why) = verdict(2);
        assert_eq!(untested.name(), "not tested", "{metric}");
        assert!(why.contains("more threads than cores"), "{why}");
    }
}

#[test]
fn memory_and_energy_of_unequal_devices_or_reductions_do_not_test_a_claim() {
    let server = [EIGHT, &[(Axis::Reduce, "parameter-server")]].concat();
    let bf16 = [EIGHT, &[(Axis::ReduceFormat, "bf16")]].concat();
    for metric in [MetricName::WeightsBytes, MetricName::EnergyCounterJoules] {
        let verdict = |of: &[(Axis, &str)], against: &[(Axis, &str)]| {
            let claim = ratio_claim(of, against, metric, (None, Some(0.5)));
            let trainings: [Training<'_>; 2] = [(against, &[(metric, 4e6)]), (of, &[(metric, 1e6)])];
            let run = run_with_devices(claim, 8, &trainings);
            let report = Report::new(&run).unwrap();
            let claim = &report.suites[0].claims[0];
            (
                claim.standing.name(),
                claim.evidence.join(" "),
                claim.remarks.join(" "),
            )
        };
        let all_reduce = [EIGHT, &[(Axis::Reduce, "all-reduce")]].concat();
        for (of, against) in [(EIGHT, TWO), (&server, &all_reduce)] {
            let (standing, evidence, remarks) = verdict(of, against);
            assert_eq!(standing, "not tested", "{metric}");
            let reason =
                "those of rank 0, which are not comparable between settings with other `devices` or `reduce`";
            assert!(evidence.contains(reason), "{evidence}");
            assert!(!remarks.contains("rank 0"), "{remarks}");
        }
        let f32 = [EIGHT, &[(Axis::ReduceFormat, "f32")]].concat();
        let (standing, _, remarks) = verdict(&bf16, &f32);
        assert_eq!(standing, "confirmed", "{metric}");
        assert!(
            remarks.contains("Memory and energy are those of rank 0"),
            "{remarks}"
        );
    }
}

#[test]
fn axes_without_effect_in_one_setting_do_not_prevent_a_pair() {
    let metric = MetricName::BytesSent;
    let server = [EIGHT, &[(Axis::Reduce, "parameter-server")]].concat();
    let with = |algorithm| [EIGHT, &[(Axis::ReduceAlgorithm, algorithm)]].concat();
    let (ring, tree) = (with("ring"), with("tree"));
    let bf16 = [&ring[..], &[(Axis::ReduceFormat, "bf16")]].concat();
    // The format has an effect only with several devices.
    let one = [(Axis::Batch, "32"), (Axis::Threads, "1")];
    let trainings: [Training<'_>; 5] = [
        (&one, &[]),
        (&server, &[(metric, 28e6)]),
        (&ring, &[(metric, 7e6)]),
        (&tree, &[(metric, 8e6)]),
        (&bf16, &[(metric, 3.5e6)]),
    ];
    let of = [(Axis::Reduce, "parameter-server")];
    let all_reduce = [(Axis::Reduce, "all-reduce")];
    let verdict = |against: &[(Axis, &str)]| {
        let claim = ratio_claim(&of, against, metric, (Some(2.0), None));
        claim_verdict(&run_with_devices(claim, 2, &trainings))
    };
    let (standing, text) = verdict(&all_reduce);
    assert_eq!(standing.name(), "confirmed");
    // The setting with bf16 has another format than the server.
    assert!(text.starts_with("confirmed in both pairs"), "{text}");
    let ring_only = [&all_reduce[..], &[(Axis::ReduceAlgorithm, "ring")]].concat();
    let (_, text) = verdict(&ring_only);
    assert!(text.starts_with("confirmed;"), "{text}");
}

#[test]
fn one_device_is_paired_with_several_and_other_threads_are_not() {
    let metric = MetricName::BytesSent;
    let one = [(Axis::Batch, "32"), (Axis::Devices, "1"), (Axis::Threads, "1")];
    let all_threads = [(Axis::Batch, "32"), (Axis::Devices, "1"), (Axis::Threads, "all")];
    let trainings: [Training<'_>; 3] = [
        (TWO, &[(metric, 4e6)]),
        (&one, &[(metric, 4e6)]),
        (&all_threads, &[(metric, 8e6)]),
    ];
    let claim = ratio_claim(&TWO[..2], &one[..2], metric, (Some(0.9), Some(1.1)));
    let (standing, text) = claim_verdict(&run_with_devices(claim, 2, &trainings));
    assert_eq!(standing.name(), "confirmed", "{text}");
    assert!(text.starts_with("confirmed;"), "{text}");
}
