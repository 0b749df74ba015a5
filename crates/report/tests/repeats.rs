//! Tests of cells with several processes, and of comparisons between them.

use crate::support::{RunBuilder, cell, matmul, record, run, suite, synthetic, train_metrics, workload};
use mantissa_analysis::{Doubt, Verdict};
use mantissa_core::{
    Axis, Cell, DatasetKind, EvaluateTask, GenerateTask, LlamaSize, Metric, MetricName, Model, Samples,
    Series, SeriesName, Status, Task, Workload,
};
use mantissa_report::{Budget, Report, Row, Run, advise, html, markdown};

fn add_trainings(run: &mut Run, cell: &Cell, seconds: &[f64]) {
    run.plan(cell, None);
    for (repeat, seconds) in (0..).zip(seconds) {
        let mut record = record(cell, Status::Ok, None);
        train_metrics(&mut record, *seconds, 800, 1e9);
        record.repeat = repeat;
        run.measured(record, Some(predictions(|at| at < 800)));
    }
}

/// Samples with a prediction for each of 1,000 examples, which is correct if `right` returns true.
fn predictions(right: impl Fn(u32) -> bool) -> Samples {
    let bits = (0..1_000).map(|at| if right(at) { '1' } else { '0' });
    Samples {
        series: vec![],
        test_correct: Some(bits.collect()),
        ranges: vec![],
        trials: vec![],
        staleness: vec![],
    }
}

fn run_with_two_settings(baseline: &[f64], candidate: &[f64]) -> Run {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Matmul])]);
    let cell_with = |matmul| cell("s", &workload("w"), &[(Axis::Matmul, matmul)]);
    add_trainings(&mut run, &cell_with("highest"), baseline);
    add_trainings(&mut run, &cell_with("high"), candidate);
    run
}

/// Applies `look` to the second row of the first table and returns the result.
fn with_second_row<T>(run: &Run, look: impl FnOnce(&Row<'_>) -> T) -> T {
    let report = Report::new(run).unwrap();
    look(&report.suites[0].groups[0].rows[1])
}

fn notes(run: &Run) -> String {
    Report::new(run).unwrap().suites[0].groups[0].notes.join(" ")
}

fn headline(run: &Run) -> String {
    Report::new(run).unwrap().suites[0].groups[0].answer.join(" ")
}

#[test]
fn one_process_keeps_its_interval_and_its_speed_is_inconclusive() {
    let run = run_with_two_settings(&[100.0], &[50.0]);
    with_second_row(&run, |row| {
        let time = row.metric(MetricName::TrainSeconds).unwrap();
        assert_eq!((time.value, time.interval.unwrap().low), (50.0, 50.0 * 0.985));
        let speed = row.speed_up.as_ref().unwrap();
        assert_eq!((speed.value, speed.interval), (2.0, None));
        assert_eq!(
            row.speed_verdict,
            Some(Verdict::Inconclusive(Doubt::TooFewRepeats))
        );
    });
    assert!(notes(&run).contains("within that process, not between processes"));
    assert!(notes(&run).contains("Speeds are undecided: too few processes to detect a difference"));
    assert!(
        headline(&run).starts_with(
            "32-true · high has the lowest median cost: 2.00× (measured once) as fast as 32-true · highest"
        ),
        "{}",
        headline(&run)
    );
    assert!(headline(&run).contains(
        "It is not shown to be faster than 32-true · highest (too few processes to detect a difference)"
    ));
    assert!(markdown(&Report::new(&run).unwrap()).contains("2.00× (measured once)"));
}

#[test]
fn the_headline_names_only_significantly_faster_settings() {
    let mut run = run_with_two_settings(
        &[100.0, 101.0, 99.0, 100.5, 99.5, 100.2],
        &[50.0, 52.0, 51.0, 50.5, 51.5, 51.2],
    );
    let noisy = cell("s", &workload("w"), &[(Axis::Matmul, "medium")]);
    add_trainings(&mut run, &noisy, &[20.0, 180.0, 20.0, 170.0, 20.0, 20.0]);
    assert!(
        headline(&run).starts_with("Use 32-true · high: "),
        "{}",
        headline(&run)
    );
}

#[test]
fn a_setting_measured_once_does_not_replace_one_shown_to_be_faster() {
    let slow = [100.0, 101.0, 99.0, 100.5, 99.5];
    let mut run = run_with_two_settings(&slow, &slow.map(|seconds| 0.8 * seconds));
    let once = cell("s", &workload("w"), &[(Axis::Matmul, "medium")]);
    add_trainings(&mut run, &once, &[50.0]);
    let text = headline(&run);
    assert!(text.starts_with("Use 32-true · high: 1.25×"), "{text}");
    assert!(
        text.contains("32-true · high is chosen because it has the lowest median cost of those shown to be faster than 32-true"),
        "{text}"
    );
}

#[test]
fn seeds_that_did_not_run_are_stated() {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Matmul, Axis::Seed])]);
    add_tested_training(&mut run, &[(Axis::Matmul, "highest")], 1, |at| at >= 140);
    add_tested_training(&mut run, &[(Axis::Matmul, "high")], 1, |at| at >= 140);
    let setting = cell("s", &workload("w"), &[(Axis::Matmul, "high")]).setting;
    run.plan(&Cell::new("s", workload("w"), setting, 2), None);
    let table = markdown(&Report::new(&run).unwrap());
    assert!(
        table.contains("| accuracy kept (one seed), 1 of 2 seeds not run |"),
        "{table}"
    );
}

#[test]
fn accuracies_of_trainings_under_one_seed_are_marked() {
    let trained = |seeds: u64| {
        let mut run = run(vec![suite("s", "S", &[], &[Axis::Matmul, Axis::Seed])]);
        for seed in 1..=seeds {
            add_tested_training(&mut run, &[(Axis::Matmul, "highest")], seed, |at| at >= 140);
            add_tested_training(&mut run, &[(Axis::Matmul, "high")], seed, |at| at >= 140);
        }
        markdown(&Report::new(&run).unwrap())
    };
    let note = "Each setting was trained under one seed";
    let once = trained(1);
    assert!(once.contains("(one seed)") && once.contains(note), "{once}");
    let twice = trained(2);
    assert!(twice.contains("accuracy"), "{twice}");
    assert!(!twice.contains("(one seed)") && !twice.contains(note), "{twice}");
}

#[test]
fn only_a_setting_shown_to_be_as_good_as_the_baseline_is_green() {
    let baseline = [100.0, 101.0, 99.0, 100.5, 99.5];
    for (seconds, verdict, class) in [
        (baseline.map(|seconds| 0.5 * seconds), "faster", "ok good"),
        (baseline, "equally fast", "ok good"),
        (baseline.map(|seconds| 2.0 * seconds), "slower", "ok"),
        ([80.0, 120.0, 95.0, 105.0, 99.0], "speed undecided", "ok"),
    ] {
        let run = run_with_two_settings(&baseline, &seconds);
        let page = html(&Report::new(&run).unwrap(), &[]).unwrap();
        let span = |text: &str, class: &str| format!("<span class=\"status {class}\">{text}</span>");
        assert!(
            page.contains(&span(&format!("{verdict}, accuracy kept (one seed)"), class)),
            "{verdict}: {page}"
        );
        assert!(page.contains(&span("baseline", "ok")));
    }
}

#[test]
fn two_cells_with_the_same_setting_and_seed_are_an_error() {
    let mut run = run_with_two_settings(&[100.0], &[50.0]);
    let mut other = workload("w");
    if let Task::Train(task) = &mut other.task {
        task.epochs += 1;
    }
    // A record of another workload with the same name, as in a folder that was put together by hand.
    let first = run.records[0].cell.id.clone();
    let second = cell("s", &other, &[(Axis::Matmul, "highest")]);
    run.records.push(record(&second, Status::Ok, None));
    let error = Report::new(&run).unwrap_err().to_string();
    let text = format!(
        "suite `s`: cells `{first}` and `{}` of workload `w` have the same setting and seed, but different workloads",
        second.id
    );
    assert!(error.starts_with(&text), "{error}");
}

#[test]
fn reasons_of_a_setting_name_every_status() {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Matmul, Axis::Seed])]);
    let setting = |matmul| cell("s", &workload("w"), &[(Axis::Matmul, matmul)]).setting;
    for (seed, status, why) in [
        (1, Status::Diverged, "not finite"),
        (2, Status::Oom, "17 GB"),
        (3, Status::Diverged, "not finite"),
    ] {
        let cell = |matmul| Cell::new("s", workload("w"), setting(matmul), seed);
        let mut base = record(&cell("highest"), Status::Ok, None);
        train_metrics(&mut base, 100.0, 800, 1e9);
        run.add(base, None);
        run.add(record(&cell("high"), status, Some(why)), None);
    }
    let advice = advise(&Report::new(&run).unwrap(), &Budget::default());
    let evidence = &advice.workloads[0].choices[0].evidence;
    assert_eq!(
        evidence[1].reasons,
        ["diverged for 2 of 3 seeds: not finite; oom for 1 of 3 seeds: 17 GB"]
    );
}

#[test]
fn texts_on_launch_bound_settings_have_the_values_of_the_table() {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Matmul, Axis::Seed])]);
    let idle_shares = [[0.97, 0.94, 0.96], [0.89, 0.85, 0.88], [0.77, 0.76, 0.71]];
    for (seed, idle_shares) in (1..).zip(idle_shares) {
        for matmul in ["highest", "high"] {
            let setting = cell("s", &workload("w"), &[(Axis::Matmul, matmul)]).setting;
            let cell = Cell::new("s", workload("w"), setting, seed);
            run.plan(&cell, None);
            for (repeat, idle) in (0..).zip(idle_shares) {
                let mut record = record(&cell, Status::Ok, None);
                train_metrics(&mut record, 100.0, 800, 1e9);
                for (metric, value) in [
                    (MetricName::DeviceIdleShare, idle),
                    (MetricName::LaunchesPerStep, 1_000.0 * idle),
                ] {
                    let reading = Metric::reading(metric, value, "invented");
                    record.metrics.insert(metric, reading);
                }
                record.repeat = repeat;
                run.measured(record, None);
            }
        }
    }
    // The median over the seeds of the medians over the processes is 88 %, and that of the launches 880.
    let text = headline(&run);
    assert!(text.contains("the device is idle for 88 % of the time"), "{text}");
    assert!(text.contains("the host launches 880 kernels per step"), "{text}");
    let report = Report::new(&run).unwrap();
    let notes: Vec<&str> = report
        .rows()
        .flat_map(|(_, row)| &row.notes)
        .map(String::as_str)
        .collect();
    assert_eq!(
        notes[0],
        "launch-bound: 960 launches per step, device idle for 96 % of the time"
    );
    assert!(
        markdown(&report).contains("| 88.00 % (76.00–96.00 over 3 seeds) |"),
        "{}",
        markdown(&report)
    );
}

#[test]
fn every_sequence_length_has_its_own_headline() {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Sequence, Axis::Matmul])]);
    for (sequence, matmul, seconds) in [
        ("64", "highest", 100.0),
        ("64", "high", 50.0),
        ("128", "highest", 300.0),
        ("128", "high", 200.0),
    ] {
        let axes = [(Axis::Sequence, sequence), (Axis::Matmul, matmul)];
        let cell = cell("s", &workload("w"), &axes);
        add_trainings(
            &mut run,
            &cell,
            &[
                seconds,
                seconds * 1.01,
                seconds * 0.99,
                seconds * 1.005,
                seconds * 0.995,
                seconds,
            ],
        );
    }
    let report = Report::new(&run).unwrap();
    let sentences = &report.suites[0].groups[0].answer;
    for (sequence, ratio) in [("64", "2.00×"), ("128", "1.50×")] {
        let start = format!("sequence {sequence}: ");
        let first = sentences.iter().find(|sentence| sentence.starts_with(&start));
        assert!(
            first.is_some_and(|sentence| sentence.contains(ratio)),
            "{sentences:?}"
        );
    }
    // With one setting per sequence length, no settings can be compared, which the headline reports.
    run.records
        .retain(|record| record.cell.setting.to_string().contains("matmul=highest"));
    run.plan
        .cells
        .retain(|planned| planned.cell.setting.to_string().contains("matmul=highest"));
    assert!(
        headline(&run).starts_with("No two settings did the same work"),
        "{}",
        headline(&run)
    );
}

#[test]
fn three_processes_have_their_median_and_no_interval() {
    let run = run_with_two_settings(&[100.0, 101.0, 99.0], &[50.0, 52.0, 51.0]);
    with_second_row(&run, |row| {
        let time = row.metric(MetricName::TrainSeconds).unwrap();
        assert_eq!((time.value, time.interval, time.n), (51.0, None, 3));
        assert_eq!(row.speed_up.as_ref().unwrap().interval, None);
        assert_eq!(
            row.speed_verdict,
            Some(Verdict::Inconclusive(Doubt::TooFewRepeats))
        );
    });
    assert!(notes(&run).contains("Medians over 3 processes, too few for an interval between processes"));
}

#[test]
fn five_processes_have_an_interval_and_can_differ_significantly() {
    let run = run_with_two_settings(
        &[100.0, 101.0, 99.0, 100.5, 99.5],
        &[50.0, 52.0, 51.0, 50.5, 51.5],
    );
    with_second_row(&run, |row| {
        let time = row.metric(MetricName::TrainSeconds).unwrap();
        let interval = time.interval.unwrap();
        assert_eq!(
            (time.value, interval.low, interval.high, time.n),
            (51.0, 50.0, 52.0, 5)
        );
        let speed = row.speed_up.as_ref().unwrap();
        assert!((speed.value - 1.96).abs() < 0.01 && speed.interval.unwrap().low > 1.9);
        assert_eq!(row.speed_verdict, Some(Verdict::Improved));
    });
    assert!(notes(&run).contains("Medians over 5 processes; intervals are between processes"));
    assert!(
        headline(&run).starts_with("Use 32-true · high: "),
        "{}",
        headline(&run)
    );
    assert!(markdown(&Report::new(&run).unwrap()).contains("| faster, accuracy kept (one seed) |"));
}

#[test]
fn nearly_equal_times_are_unchanged_and_noisy_times_are_inconclusive() {
    let run = run_with_two_settings(&[100.0; 5], &[100.1; 5]);
    with_second_row(&run, |row| {
        assert_eq!(row.speed_verdict, Some(Verdict::Unchanged));
    });
    let noisy = run_with_two_settings(
        &[100.0, 101.0, 99.0, 100.5, 99.5],
        &[80.0, 120.0, 95.0, 105.0, 99.0],
    );
    with_second_row(&noisy, |row| {
        assert_eq!(row.speed_verdict, Some(Verdict::Inconclusive(Doubt::TooNoisy)));
    });
}

/// Adds one process with launches of 1 GFLOP. Its record has the throughput of the median launch.
fn add_launches(run: &mut Run, cell: &Cell, repeat: u32, seconds: &[f64]) {
    let mut series = Series::new(SeriesName::LaunchSeconds);
    for (launch, seconds) in (1..).zip(seconds) {
        series.push(f64::from(launch), *seconds);
    }
    let median = mantissa_analysis::median(seconds.iter().copied()).unwrap().value;
    let mut record = record(cell, Status::Ok, None);
    record.repeat = repeat;
    let name = MetricName::FlopsPerSecond;
    record.metrics.insert(
        name,
        Metric::reading(name, 1e9 / median, "from the median launch"),
    );
    let samples = Samples {
        series: vec![series],
        test_correct: None,
        ranges: vec![],
        trials: vec![],
        staleness: vec![],
    };
    run.measured(record, Some(samples));
}

fn run_with_launches(processes: &[&[f64]]) -> Run {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Size])]);
    let cell = cell("s", &matmul(), &[(Axis::Size, "64")]);
    run.plan(&cell, None);
    for (repeat, seconds) in (0..).zip(processes) {
        add_launches(&mut run, &cell, repeat, seconds);
    }
    run
}

fn with_first_row<T>(run: &Run, look: impl FnOnce(&Row<'_>) -> T) -> T {
    let report = Report::new(run).unwrap();
    look(&report.suites[0].groups[0].rows[0])
}

#[test]
fn a_rate_is_computed_from_the_median_time() {
    let run = run_with_launches(&[&[1.0, 1.0, 1.0], &[3.0, 3.0, 3.0]]);
    with_first_row(&run, |row| {
        let rate = row.metric(MetricName::FlopsPerSecond).unwrap();
        assert!(
            (rate.value - 1e9 / 2.0).abs() < 1.0,
            "the median time is 2 s: {rate:?}"
        );
        assert_eq!(rate.interval, None);
    });
}

#[test]
fn noisy_samples_widen_the_interval_of_five_processes() {
    let wide: Vec<f64> = (0..9).map(|i| 0.6 + 0.1 * f64::from(i)).collect();
    let flat = [1.0; 9];
    let interval = |samples: &[f64]| {
        let run = run_with_launches(&[samples; 5]);
        with_first_row(&run, |row| {
            let rate = row.metric(MetricName::FlopsPerSecond).unwrap();
            assert!((rate.value - 1e9).abs() < 1.0);
            let interval = rate.interval.unwrap();
            interval.high - interval.low
        })
    };
    assert!(
        interval(&flat) < 1.0,
        "five equal processes with equal samples have a wide interval"
    );
    assert!(interval(&wide) > 1e8, "{}", interval(&wide));
    assert_eq!(
        interval(&wide),
        interval(&wide),
        "the bootstrap is not deterministic"
    );
}

#[test]
fn drift_and_outliers_are_noted_in_the_row() {
    let mut drifting: Vec<f64> = (0..40)
        .map(|i| 1.0 + 0.01 * f64::from(i) + 0.001 * f64::from(i * 7 % 5))
        .collect();
    let run = run_with_launches(&[&drifting]);
    with_first_row(&run, |row| {
        assert!(row.notes[0].starts_with("drift +18."), "{:?}", row.notes);
        assert!(
            row.notes[1].starts_with("effective sample size "),
            "{:?}",
            row.notes
        );
    });
    assert!(notes(&run).contains("Times within a process: drift: the second half"));
    drifting.sort_by(|a, b| (a * 1e3 % 7.0).total_cmp(&(b * 1e3 % 7.0)));
    drifting[5] = 30.0;
    let run = run_with_launches(&[&drifting, &drifting]);
    with_first_row(&run, |row| {
        assert_eq!(row.notes, ["outliers: 2 of 80 times"]);
    });
    assert!(markdown(&Report::new(&run).unwrap()).contains("outliers: 2 of 80 times"));
}

/// Adds a training whose prediction for each of 1,000 examples is correct if `right` returns true.
fn add_tested_training(run: &mut Run, axes: &[(Axis, &str)], seed: u64, right: impl Fn(u32) -> bool) {
    let setting = cell("s", &workload("w"), axes).setting;
    let cell = Cell::new("s", workload("w"), setting, seed);
    let samples = predictions(right);
    let hits = samples.test_correct.as_ref().unwrap().matches('1').count() as u64;
    let mut record = record(&cell, Status::Ok, None);
    train_metrics(&mut record, 100.0, hits, 1e9);
    run.add(record, Some(samples));
}

#[test]
fn accuracies_on_the_same_examples_are_compared_one_by_one() {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Matmul])]);
    // Accuracies of 86.0 %, 84.5 % and 84.9 %, whose intervals overlap.
    add_tested_training(&mut run, &[(Axis::Matmul, "highest")], 1, |at| at >= 140);
    add_tested_training(&mut run, &[(Axis::Matmul, "high")], 1, |at| at >= 155);
    add_tested_training(&mut run, &[(Axis::Matmul, "medium")], 1, |at| {
        (151..1_000 - 140).contains(&at) || at < 140
    });
    let table = markdown(&Report::new(&run).unwrap());
    // 15 examples were correct only with the baseline and none only with `high`: the loss is 1.5 points, Bonett and Price's interval is
    // (16 − 1)/1002 ± 1.96 · √((17/1002 − (15/1002)²)/1002) = 0.75 to 2.31 points.
    let line = |matmul: &str| {
        let mut lines = table.lines();
        lines
            .find(|line| line.starts_with(&format!("| 32-true | {matmul} |")))
            .unwrap()
            .to_owned()
    };
    assert!(
        line("high").contains("| −1.5 (−2.3 to −0.7) |"),
        "{}",
        line("high")
    );
    assert!(
        line("high").contains("accuracy undecided"),
        "the interval contains losses of more than 1 point"
    );
    // 151 examples were correct only with `medium`, and 140 only with the baseline.
    assert!(
        line("medium").contains("accuracy undecided"),
        "{}",
        line("medium")
    );
    run.records[1].data.as_mut().unwrap().hash = "another".into();
    let table = markdown(&Report::new(&run).unwrap());
    assert!(
        !table.contains("−1.5 (−2.3 to −0.7)"),
        "predictions on different test examples are compared one by one"
    );
}

#[test]
fn the_accuracy_of_several_seeds_is_their_mean() {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Seed])]);
    for (seed, wrong) in [(1, 140), (2, 150), (3, 220)] {
        add_tested_training(&mut run, &[], seed, |at| at >= wrong);
    }
    let table = markdown(&Report::new(&run).unwrap());
    // The mean of 86, 85 and 78 %; their median is 85 %.
    assert!(table.contains("83.00 % (78.00–86.00 over 3 seeds)"), "{table}");
}

#[test]
fn the_variation_between_seeds_is_reported() {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Seed])]);
    for (seed, wrong) in [(1, 140), (2, 150), (3, 160)] {
        add_tested_training(&mut run, &[], seed, |at| at >= wrong);
    }
    assert!(
        headline(&run)
            .contains("The standard deviation of the test accuracy between 3 seeds is 1.00 points."),
        "{}",
        headline(&run)
    );
}

#[test]
fn repeats_keep_the_interval_over_test_examples() {
    let mut run = run_with_two_settings(&[100.0, 101.0, 99.0], &[50.0, 52.0, 51.0]);
    for record in &mut run.records {
        let agreement = mantissa_analysis::wilson(990, 1_000).unwrap();
        let metric = agreement.metric(MetricName::Agreement);
        record.metrics.insert(MetricName::Agreement, metric);
    }
    with_second_row(&run, |row| {
        for (metric, hits) in [(MetricName::TestAccuracy, 800), (MetricName::Agreement, 990)] {
            let share = row.metric(metric).unwrap();
            let wilson = mantissa_analysis::wilson(hits, 1_000).unwrap();
            assert_eq!((share.interval, share.n), (wilson.interval, 1_000), "{metric}");
        }
    });
    assert_eq!(run.records[0].data, Some(synthetic()));
}

/// Creates a run of a model that predicts tokens under two settings.
fn token_run(task: Task, metrics: &[(MetricName, [f64; 2])]) -> Run {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Precision])]);
    let workload = Workload {
        name: "w".into(),
        task,
    };
    for (index, precision) in ["32-true", "bf16-true"].into_iter().enumerate() {
        let cell = cell("s", &workload, &[(Axis::Precision, precision)]);
        run.plan(&cell, None);
        let mut record = record(&cell, Status::Ok, None);
        for (name, values) in metrics {
            let metric = Metric::reading(*name, values[index], "invented");
            record.metrics.insert(*name, metric);
        }
        run.measured(record, None);
    }
    run
}

#[test]
fn the_headline_mentions_quality_that_was_not_compared() {
    let size = LlamaSize::LLAMA2_7B;
    let generation = GenerateTask {
        model: Model::Llama(size.clone()),
        prompt_tokens: 64,
        new_tokens: 64,
        temperature: 0.0,
        min_samples: 3,
        max_samples: 20,
        max_seconds: 60.0,
        max_noise: 0.05,
    };
    let rate = (MetricName::DecodeTokensPerSecond, [20.0, 30.0]);
    let text = headline(&token_run(Task::Generate(generation), &[rate]));
    assert!(
        text.contains("Fastest by median: bf16-true, 1.50× (measured once) as fast as 32-true · highest"),
        "{text}"
    );
    assert!(
        text.contains("The quality of the results was not measured (generated text is timed, not evaluated)"),
        "{text}"
    );
    assert!(!text.contains("accuracy"), "{text}");

    let evaluation = EvaluateTask {
        model: Model::Llama(size),
        dataset: DatasetKind::Text,
        test: None,
    };
    let metrics = [
        (MetricName::SamplesPerSecond, [20.0, 30.0]),
        (MetricName::TestAccuracy, [0.641, 0.64]),
        (MetricName::Perplexity, [3.5482, 3.5601]),
    ];
    let text = headline(&token_run(Task::Evaluate(evaluation), &metrics));
    assert!(
        text.contains(
            "Perplexity is 3.5601 for bf16-true, and 3.5482 for 32-true · highest; the uncertainty of the differences was not estimated."
        ),
        "{text}"
    );
}

fn perplexity_task() -> Task {
    Task::Evaluate(EvaluateTask {
        model: Model::Llama(LlamaSize::LLAMA2_7B),
        dataset: DatasetKind::Text,
        test: None,
    })
}

#[test]
fn the_headline_compares_perplexities_if_no_speed_was_measured() {
    let metrics = [(MetricName::Perplexity, [3.5482, 3.5601])];
    let mut run = token_run(perplexity_task(), &metrics);
    let text = headline(&run);
    assert!(
        text.contains("Perplexity is 3.5601 for bf16-true, and 3.5482 for 32-true"),
        "{text}"
    );

    // With several settings besides the baseline, the lowest and the highest perplexity are named.
    let workload = run.plan.cells[0].cell.workload.clone();
    let third = cell("s", &workload, &[(Axis::Precision, "16-true")]);
    run.plan(&third, None);
    let mut record = record(&third, Status::Ok, None);
    let name = MetricName::Perplexity;
    record
        .metrics
        .insert(name, Metric::reading(name, 3.5455, "invented"));
    run.measured(record, None);
    let text = headline(&run);
    assert!(
        text.contains(
            "Perplexity is from 3.5455 for 16-true to 3.5601 for bf16-true, and 3.5482 for 32-true"
        ),
        "{text}"
    );
}

/// Adds intervals to the metrics, as records with enough passages have them.
fn set_intervals(run: &mut Run, intervals: [Option<(f64, f64)>; 2]) {
    for (record, interval) in run.records.iter_mut().zip(intervals) {
        for (name, metric) in &mut record.metrics {
            let value = metric.value.unwrap();
            *metric = match interval {
                Some((low, high)) => Metric::estimate(*name, value, (low, high), 400, "cluster bootstrap"),
                None => Metric {
                    n: Some(400),
                    ..Metric::reading(*name, value, "invented")
                },
            };
        }
    }
}

#[test]
fn intervals_over_passages_are_shown_but_not_used_to_test_differences() {
    let metrics = [
        (MetricName::TestAccuracy, [0.64, 0.5]),
        (MetricName::Perplexity, [0.64, 0.5]),
    ];
    let mut run = token_run(perplexity_task(), &metrics);
    let none = markdown(&Report::new(&run).unwrap());
    assert!(!none.contains("95 % interval)"), "{none}");
    assert!(notes(&run).contains("shares of tokens have no interval"));
    set_intervals(&mut run, [Some((0.6, 0.7)), Some((0.45, 0.55))]);
    let text = headline(&run);
    assert!(text.contains("0.5000 (0.4500–0.5500) for bf16-true"), "{text}");
    assert!(notes(&run).contains("does not test a difference") && !notes(&run).contains("Wilson"));
    let all = markdown(&Report::new(&run).unwrap());
    assert!(all.contains("test accuracy (95 % interval)"), "{all}");
    assert!(all.contains("perplexity (95 % interval)"), "{all}");
    assert!(all.contains("64.00 % (60.00–70.00 · n 400)"), "{all}");
    // One of the settings has no interval.
    set_intervals(&mut run, [Some((0.6, 0.7)), None]);
    let some = markdown(&Report::new(&run).unwrap());
    assert!(some.contains("50.00 % (– · n 400)"), "{some}");
}

#[test]
fn processes_that_predict_the_same_passages_are_not_pooled() {
    let metrics = [(MetricName::TestAccuracy, [0.64, 0.5])];
    let mut run = token_run(perplexity_task(), &metrics);
    set_intervals(&mut run, [Some((0.6, 0.7)), Some((0.45, 0.55))]);
    for repeat in 1..5 {
        let mut again = run.records[1].clone();
        again.repeat = repeat;
        run.measured(again, None);
    }
    with_second_row(&run, |row| {
        let accuracy = row.metric(MetricName::TestAccuracy).unwrap();
        let interval = accuracy.interval.unwrap();
        assert_eq!(
            (accuracy.value, interval.low, interval.high, accuracy.n),
            (0.5, 0.45, 0.55, 400)
        );
    });
}
