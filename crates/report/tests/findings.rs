//! Tests of the sentences that answer the question of a suite on the overview.

use std::fs;

use mantissa_core::{
    Axis, CacheState, DatasetKind, EvaluateTask, Kernel, KernelTask, LlamaSize, MatmulShape, Metric,
    MetricName, Model, ResNetSize, RowsShape, Status, Task, Workload,
};
use mantissa_report::{Report, Run, figures, markdown, render, terminal_overview};

use crate::support::{
    RunBuilder as _, cell, kernels, memory_parts, record, run, suite, train_metrics, workload,
};

/// Creates a run with an empty suite `s`, which a test fills, and a second suite, so that the summary has an overview.
fn two_suites() -> Run {
    let mut run = run(vec![
        suite("s", "S", &[], &[Axis::Precision]),
        suite("t", "T", &[], &[Axis::Precision]),
    ]);
    add(
        &mut run,
        "t",
        &workload("t"),
        "32-true",
        &[(MetricName::TrainSeconds, 1.0)],
    );
    run
}

fn add(run: &mut Run, suite: &str, workload: &Workload, precision: &str, metrics: &[(MetricName, f64)]) {
    add_setting(run, suite, workload, &[(Axis::Precision, precision)], metrics);
}

fn add_setting(
    run: &mut Run,
    suite: &str,
    workload: &Workload,
    axes: &[(Axis, &str)],
    metrics: &[(MetricName, f64)],
) {
    let cell = cell(suite, workload, axes);
    let mut record = record(&cell, Status::Ok, None);
    for (name, value) in metrics {
        record
            .metrics
            .insert(*name, Metric::reading(*name, *value, "invented"));
    }
    run.add(record, None);
}

/// Returns the result and the effect of the suite `s` on the overview.
fn result(run: &Run) -> (String, String) {
    let summary = markdown(&Report::new(run).unwrap());
    let line = summary.lines().find(|line| line.starts_with("| [s](")).unwrap();
    let fields: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
    (fields[2].to_owned(), fields[3].to_owned())
}

fn evaluation(dataset: DatasetKind) -> Workload {
    let task = EvaluateTask {
        model: Model::Llama(LlamaSize::LLAMA2_7B),
        dataset,
        test: None,
    };
    Workload {
        name: "w".into(),
        task: Task::Evaluate(task),
    }
}

#[test]
fn a_language_model_has_the_range_of_the_changes_of_perplexity() {
    let mut run = two_suites();
    let perplexities = [("32-true", 4.0), ("16-true", 3.998), ("bf16-true", 4.032)];
    for (precision, perplexity) in perplexities {
        let metrics = [
            (MetricName::SamplesPerSecond, 10.0),
            (MetricName::Perplexity, perplexity),
        ];
        add(&mut run, "s", &evaluation(DatasetKind::Text), precision, &metrics);
    }
    let (sentence, _) = result(&run);
    let expected = "The perplexity changes by −0.05 % (16-true) to +0.80 % (bf16-true).";
    assert!(sentence.starts_with(expected), "{sentence}");
}

#[test]
fn a_classifier_has_the_largest_share_of_changed_predictions() {
    let mut run = two_suites();
    let workload = Workload {
        task: Task::Evaluate(EvaluateTask {
            model: Model::Resnet(ResNetSize::RESNET20),
            dataset: DatasetKind::Images,
            test: None,
        }),
        ..evaluation(DatasetKind::Images)
    };
    for (precision, agreement) in [
        ("32-true", None),
        ("16-true", Some(0.999)),
        ("bf16-true", Some(0.9925)),
    ] {
        let mut metrics = vec![
            (MetricName::SamplesPerSecond, 10.0),
            (MetricName::TestAccuracy, 0.9),
        ];
        metrics.extend(agreement.map(|share| (MetricName::Agreement, share)));
        add(&mut run, "s", &workload, precision, &metrics);
    }
    let (sentence, effect) = result(&run);
    let expected = "bf16-true changes the most predictions: 0.75 % differ from f32.";
    assert!(sentence.starts_with(expected), "{sentence}");
    assert!(!effect.contains("tensor memory"), "{effect}");
}

#[test]
fn the_memory_of_the_tensors_takes_precedence_over_that_of_the_process() {
    let mut run = two_suites();
    for (precision, seconds, bytes) in [("32-true", 10.0, 2.0e9), ("bf16-mixed", 5.0, 1.5e9)] {
        let cell = cell("s", &workload("w"), &[(Axis::Precision, precision)]);
        let mut record = record(&cell, Status::Ok, None);
        train_metrics(&mut record, seconds, 900, bytes);
        memory_parts(&mut record, precision);
        run.add(record, None);
    }
    // (60 + 26 + 250 + 60 + 120) MB of (60 + 400 + 60 + 120) MB.
    let (_, effect) = result(&run);
    assert!(effect.contains("0.81× tensor memory"), "{effect}");
    assert!(!effect.contains("process memory"), "{effect}");
    let summary = markdown(&Report::new(&run).unwrap());
    let row = summary
        .lines()
        .find(|line| line.starts_with("| bf16-mixed"))
        .unwrap();
    assert!(
        summary.contains("| tensor memory |") && row.contains("| 0.81× |"),
        "{summary}"
    );
}

/// Returns the Pareto figure of trainings on reviews of two classes, each with its seconds and its correct predictions of 1,000.
fn pareto(trainings: &[(&str, f64, u64)]) -> String {
    let mut run = two_suites();
    for (precision, seconds, hits) in trainings {
        let cell = cell("s", &workload("w"), &[(Axis::Precision, *precision)]);
        let mut record = record(&cell, Status::Ok, None);
        train_metrics(&mut record, *seconds, *hits, 2e9);
        run.add(record, None);
    }
    let report = Report::new(&run).unwrap();
    let figures = figures(&report);
    let pareto = figures.iter().find(|figure| figure.id == "s-pareto").unwrap();
    pareto.canvas.svg().unwrap()
}

#[test]
fn guessing_settings_are_not_on_the_pareto_front() {
    let (f32, mixed) = (("32-true", 10.0, 900), ("bf16-mixed", 8.0, 880));
    let guess = ("bf16-true", 4.0, 500);
    let titles = [
        (
            &[f32, mixed, guess][..],
            "Pareto front of test accuracy and training time: bf16-mixed and 32-true (point estimates)",
        ),
        (
            &[f32, guess],
            "32-true · highest is best in both test accuracy and training time of the settings above chance",
        ),
        (
            &[guess, ("16-true", 5.0, 501)],
            "No setting predicts better than chance",
        ),
    ];
    for (trainings, title) in titles {
        let svg = pareto(trainings);
        assert!(
            svg.contains("and those whose accuracy is not above chance"),
            "{svg}"
        );
        assert!(svg.contains(title.split(" · ").next().unwrap()), "{title}: {svg}");
    }
    assert!(!pareto(&[f32, mixed]).contains("above chance"));
}

#[test]
fn the_overview_page_names_the_data_and_what_would_decide_its_comparisons() {
    let mut run = two_suites();
    for (precision, seconds) in [("32-true", 10.0), ("bf16-mixed", 8.0)] {
        let cell = cell("s", &workload("w"), &[(Axis::Precision, precision)]);
        let mut record = record(&cell, Status::Ok, None);
        train_metrics(&mut record, seconds, 900, 2e9);
        run.add(record, None);
    }
    let folder = tempfile::tempdir().unwrap();
    render(&run, folder.path()).unwrap();
    let page = fs::read_to_string(folder.path().join("index.html")).unwrap();
    assert!(
        page.contains("<strong>Undecided comparisons.</strong> 1 of 1 speed comparison"),
        "{page}"
    );
    assert!(page.contains("s, data: synthetic reviews"), "{page}");
    let text = terminal_overview(&Report::new(&run).unwrap(), 100);
    assert!(
        text.contains(
            "1 of 1 speeds have too few processes. Command for enough repeats:\nmantissa run --resume"
        ),
        "{text}"
    );
}

#[test]
fn square_matmuls_have_no_exponent_of_the_inner_dimension() {
    let mut run = two_suites();
    run.plan.suites.push(suite("kernels", "K", &[], &[Axis::Size]));
    kernels(&mut run);
    let summary = markdown(&Report::new(&run).unwrap());
    let line = summary
        .lines()
        .find(|line| line.starts_with("| [kernels]("))
        .unwrap();
    assert!(line.contains("size 1024: bf16-true ran fastest"), "{line}");
    assert!(!line.contains("inner dimension"), "{line}");
}

fn kernel(name: &str, kernel: Kernel) -> Workload {
    let task = KernelTask {
        kernel,
        min_samples: 5,
        max_samples: 50,
        max_seconds: 2.0,
        max_noise: 0.01,
        cache: CacheState::Cold,
    };
    Workload {
        name: name.into(),
        task: Task::Kernel(task),
    }
}

#[test]
fn kernels_without_sums_have_the_range_of_their_shares_of_a_copy() {
    let mut run = two_suites();
    run.plan.suites[0].axes.push(Axis::Size);
    let rows = RowsShape {
        rows: None,
        width: 768,
    };
    let [gelu, softmax] = [
        kernel("gelu", Kernel::Gelu(rows)),
        kernel("softmax", Kernel::Softmax(rows)),
    ];
    // GB/s of the kernel. A copy moves 10 GB/s.
    let bandwidths = [
        (&gelu, "64", "32-true", 9.9),
        (&gelu, "1024", "32-true", 4.0),
        (&gelu, "1024", "bf16-true", 4.5),
        (&softmax, "1024", "32-true", 9.8),
        (&softmax, "1024", "bf16-true", 9.0),
    ];
    for (workload, size, precision, bandwidth) in bandwidths {
        let axes = [(Axis::Precision, precision), (Axis::Size, size)];
        let metrics = [
            (MetricName::ValuesPerSecond, bandwidth * 1e9),
            (MetricName::BytesPerSecond, bandwidth * 1e9),
            (MetricName::CopyBytesPerSecond, 10e9),
        ];
        add_setting(&mut run, "s", workload, &axes, &metrics);
    }
    let (sentence, _) = result(&run);
    let expected = "The kernels reach at most 45 % (gelu) to 98 % (softmax) of the bandwidth of a copy.";
    assert!(sentence.starts_with(expected), "{sentence}");
}

/// Returns the result of a matmul of 64 × K × 64 whose error grows with the given powers of K.
fn inner_dimension(powers: &[(&str, f64)]) -> String {
    let mut run = two_suites();
    run.plan.suites[0].axes.push(Axis::Size);
    let shape = MatmulShape {
        m: Some(64),
        n: Some(64),
        ..MatmulShape::SQUARE
    };
    let workload = kernel("matmul", Kernel::Matmul(shape));
    for (precision, power) in powers {
        for size in ["64", "256", "4096"] {
            let axes = [(Axis::Precision, *precision), (Axis::Size, size)];
            let metrics = [
                (MetricName::FlopsPerSecond, 1e9),
                (
                    MetricName::RelativeError,
                    1e-7 * size.parse::<f64>().unwrap().powf(*power),
                ),
            ];
            add_setting(&mut run, "s", &workload, &axes, &metrics);
        }
    }
    result(&run).0
}

#[test]
fn matmuls_with_long_sums_have_the_range_of_the_exponents_of_their_errors() {
    let several = inner_dimension(&[("32-true", 0.5), ("bf16-true", -0.25), ("16-true", 0.3)]);
    let expected = "The relative error grows with the inner dimension to the power of −0.25 to 0.50, depending on the setting.";
    assert!(several.starts_with(expected), "{several}");
    let one = inner_dimension(&[("32-true", 0.5), ("bf16-true", 0.5)]);
    let expected = "The relative error grows with the inner dimension to the power of 0.50.";
    assert!(one.starts_with(expected), "{one}");
}

#[test]
fn training_has_the_rate_of_the_baseline_if_only_the_precision_varies() {
    let sentence = |axis: Axis, values: [&str; 2]| {
        let mut run = two_suites();
        run.plan.suites[0].axes.push(axis);
        for (value, seconds) in values.iter().zip([10.0, 12.0]) {
            let cell = cell("s", &workload("w"), &[(axis, *value)]);
            let mut record = record(&cell, Status::Ok, None);
            train_metrics(&mut record, seconds, 900, 2e9);
            let rate = Metric::reading(MetricName::SamplesPerSecond, 6783.0 / seconds, "invented");
            record.metrics.insert(MetricName::SamplesPerSecond, rate);
            run.add(record, None);
        }
        result(&run).0
    };
    let precision = sentence(Axis::Precision, ["32-true", "bf16-mixed"]);
    assert!(
        precision.starts_with("32-true · highest trains on 678.3 samples/s."),
        "{precision}"
    );
    let batch = sentence(Axis::Batch, ["8", "16"]);
    assert!(!batch.contains("trains on"), "{batch}");
}
