//! Tests of figures that compare settings, on invented runs: texts, omitted figures, and hostile values.

use crate::support::{RunBuilder, cell, kernels, record, run, suite, train_metrics, workload};
use mantissa_analysis::wilson;
use mantissa_core::{
    Axis, Cell, DatasetKind, EvaluateTask, Metric, MetricName, Record, Status, Task, Workload,
};
use mantissa_report::{Figure, Report, Run, figures};

/// Returns a figure with its SVG.
pub fn figure_and_svg(run: &Run, id: &str) -> Option<(Figure, String)> {
    let figure = figures(&Report::new(run).unwrap())
        .into_iter()
        .find(|figure| figure.id == id)?;
    let svg = figure.canvas.svg().unwrap();
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{id}: {svg}");
    figure.canvas.png().unwrap();
    Some((figure, svg))
}

/// Returns the text of an SVG without its line breaks.
fn text_of(svg: &str) -> String {
    let text = svg.lines().filter(|line| !line.starts_with('<'));
    text.collect::<Vec<_>>().join(" ")
}

/// Adds a training under a precision, with one process per training time in `seconds`.
fn add_trainings(run: &mut Run, precision: &str, seconds: &[f64], hits: u64) {
    let cell = cell("s", &workload("w"), &[(Axis::Precision, precision)]);
    run.plan(&cell, None);
    for (repeat, seconds) in (0..).zip(seconds) {
        let mut record = record(&cell, Status::Ok, None);
        train_metrics(&mut record, *seconds, hits, 1e7 * seconds);
        record.repeat = repeat;
        run.measured(record, None);
    }
}

pub fn empty_run(axes: &[Axis]) -> Run {
    run(vec![suite("s", "S", &[], axes)])
}

const SLOW: [f64; 6] = [100.0, 101.0, 102.0, 103.0, 104.0, 105.0];

#[test]
fn launch_bound_settings_are_not_ranked() {
    let with_idle = |idle: f64| {
        let mut run = empty_run(&[Axis::Precision]);
        add_trainings(&mut run, "32-true", &SLOW, 800);
        add_trainings(&mut run, "bf16-mixed", &SLOW.map(|seconds| seconds / 2.0), 801);
        for record in &mut run.records {
            for (name, value) in [
                (MetricName::LaunchesPerStep, 1064.0),
                (MetricName::DeviceIdleShare, idle),
            ] {
                record
                    .metrics
                    .insert(name, Metric::reading(name, value, "invented"));
            }
        }
        let title = figure_and_svg(&run, "s-speed").unwrap().1;
        (
            text_of(&title),
            mantissa_report::markdown(&Report::new(&run).unwrap()),
        )
    };
    let bound = "Launch-bound: the device is idle for 90 % of the time";
    let ranked = "bf16-mixed is 2.00× (1.94–2.06) as fast as 32-true";
    let (svg, text) = with_idle(0.9);
    assert!(!svg.contains(ranked), "{svg}");
    assert!(svg.contains("Launch-bound"), "{svg}");
    assert!(
        text.contains(bound) && text.contains("1,064 kernels per step"),
        "{text}"
    );
    assert!(!text.contains("as fast as"), "{text}");
    let (svg, text) = with_idle(0.1);
    assert!(svg.contains(ranked) && !text.contains("Launch-bound"), "{text}");
}

#[test]
fn titles_name_the_fastest_setting_if_it_is_significantly_faster() {
    let mut run = empty_run(&[Axis::Precision]);
    add_trainings(&mut run, "32-true", &SLOW, 800);
    add_trainings(&mut run, "bf16-mixed", &SLOW.map(|seconds| seconds / 2.0), 801);
    add_trainings(&mut run, "16-mixed", &SLOW.map(|seconds| seconds * 1.001), 801);
    add_trainings(&mut run, "64-true", &SLOW.map(|seconds| seconds * 2.0), 801);
    let (figure, svg) = figure_and_svg(&run, "s-speed").unwrap();
    for text in [
        "bf16-mixed is 2.00× (1.94–2.06) as fast as 32-true; accuracy undecided",
        "faster",
        "slower",
        "baseline",
    ] {
        assert!(svg.contains(&format!(">\n{text}\n<")), "{text}: {svg}");
    }
    // Faster settings are blue, slower ones are orange, and those that do not differ significantly from the baseline are grey.
    for colour in ["#0072B2", "#D55E00", "#8A929E"] {
        assert!(svg.contains(colour), "{colour}");
    }
    assert!(
        figure
            .caption
            .ends_with("6 processes per setting; CPU times; synthetic data."),
        "{}",
        figure.caption
    );
}

#[test]
fn titles_mark_single_measurements_and_skip_settings_of_lower_accuracy() {
    let mut run = empty_run(&[Axis::Precision]);
    add_trainings(&mut run, "32-true", &[100.0], 800);
    add_trainings(&mut run, "bf16-true", &[50.0], 300);
    add_trainings(&mut run, "bf16-mixed", &[80.0], 790);
    let svg = figure_and_svg(&run, "s-speed").unwrap().1;
    assert!(
        text_of(&svg).contains("bf16-mixed ran 1.25× (measured once) as fast as 32-true; accuracy undecided"),
        "{svg}"
    );
    assert!(svg.contains("too few processes"));
}

#[test]
fn a_title_does_not_call_the_baseline_fastest_if_a_setting_that_lost_accuracy_ran_faster() {
    let mut run = empty_run(&[Axis::Precision]);
    add_trainings(&mut run, "32-true", &[100.0], 800);
    add_trainings(&mut run, "bf16-true", &[50.0], 300);
    add_trainings(&mut run, "bf16-mixed", &[125.0], 790);
    let svg = figure_and_svg(&run, "s-speed").unwrap().1;
    let title = "Only settings that fail or lose accuracy ran faster than 32-true; the closest other is bf16-mixed at 0.80×";
    assert!(text_of(&svg).contains(title), "{svg}");
}

#[test]
fn one_setting_is_not_compared() {
    let mut run = empty_run(&[Axis::Precision]);
    add_trainings(&mut run, "32-true", &SLOW, 800);
    for id in ["s-speed", "s-pareto", "s-ladder", "s-quality"] {
        assert!(figure_and_svg(&run, id).is_none(), "{id}");
    }
}

#[test]
fn dominated_settings_are_grey_and_overlapping_intervals_are_not_ranked() {
    let mut run = empty_run(&[Axis::Precision]);
    add_trainings(&mut run, "32-true", &[100.0], 900);
    add_trainings(&mut run, "bf16-mixed", &[50.0], 800);
    add_trainings(&mut run, "64-true", &[200.0], 850);
    let (_, svg) = figure_and_svg(&run, "s-pareto").unwrap();
    let title = "Pareto front of test accuracy and training time: bf16-mixed and 32-true (point estimates)";
    assert!(svg.contains(title), "{svg}");
    // Each of the two panels has one grey point, the dominated setting.
    let grey = svg.matches("<circle").count();
    assert_eq!((grey, svg.matches("fill=\"#8A929E\"").count()), (6, 2), "{svg}");
    add_trainings(&mut run, "16-mixed", &[40.0], 890);
    add_trainings(&mut run, "bf16-true", &[60.0], 890);
    run.records
        .retain(|record| record.cell.setting.precision().name() != "bf16-mixed");
    run.records
        .retain(|record| record.cell.setting.precision().name() != "64-true");
    let (_, svg) = figure_and_svg(&run, "s-pareto").unwrap();
    assert!(
        svg.contains("The intervals of test accuracy all overlap; 16-mixed has the lowest training time (point estimate)"),
        "{svg}"
    );
}

fn evaluation() -> Workload {
    let Task::Train(training) = workload("w").task else {
        unreachable!("the workload is a training");
    };
    let (model, dataset) = (training.model, DatasetKind::SyntheticReviews);
    let task = EvaluateTask {
        model,
        dataset,
        test: None,
    };
    Workload {
        name: "tested".into(),
        task: Task::Evaluate(task),
    }
}

fn add_evaluation(run: &mut Run, precision: &str, hits: u64, agreeing: Option<u64>) {
    let cell = cell("s", &evaluation(), &[(Axis::Precision, precision)]);
    let mut record = record(&cell, Status::Ok, None);
    let mut put = |name, hits| {
        record
            .metrics
            .insert(name, wilson(hits, 1_000).unwrap().metric(name))
    };
    put(MetricName::TestAccuracy, hits);
    agreeing.map(|agreeing| put(MetricName::Agreement, agreeing));
    let rate = Metric::reading(MetricName::SamplesPerSecond, 1e6 / hits as f64, "invented");
    record.metrics.insert(MetricName::SamplesPerSecond, rate);
    run.add(record, None);
}

#[test]
fn evaluations_show_accuracy_and_agreement_intervals() {
    let mut run = empty_run(&[Axis::Precision]);
    add_evaluation(&mut run, "32-true", 900, None);
    add_evaluation(&mut run, "bf16-true", 895, Some(970));
    add_evaluation(&mut run, "16-true", 901, Some(995));
    let (figure, svg) = figure_and_svg(&run, "s-quality").unwrap();
    for text in [
        "bf16-true changes the most predictions: 3.00 % differ from f32",
        "90.00 %",
        "97.00 %",
        "Agreement with f32, %",
        "reference",
        "1,000 test examples",
    ] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    assert!(figure.caption.contains("95 % intervals"), "{}", figure.caption);
    let (_, svg) = figure_and_svg(&run, "s-pareto").unwrap();
    assert!(
        svg.contains("Time per sample, µs") && svg.contains("Agreement with f32, %"),
        "{svg}"
    );
}

/// Creates the first settings of the article's ladder, in which each setting changes the previous one, with its published numbers.
fn ladder_run(rungs: usize) -> Run {
    const RUNGS: [[&str; 5]; 6] = [
        ["32-true", "highest", "64", "1", "adam"],
        ["16-mixed", "high", "64", "1", "adam"],
        ["bf16-true", "highest", "64", "1", "adam"],
        ["bf16-true", "highest", "16", "1", "adam"],
        ["bf16-true", "highest", "4", "4", "adam"],
        ["bf16-true", "highest", "4", "4", "sgd"],
    ];
    const AXES: [Axis; 5] = [
        Axis::Precision,
        Axis::Matmul,
        Axis::Batch,
        Axis::Accumulate,
        Axis::Optimizer,
    ];
    let mut run = run(vec![suite("s", "S", &["vit-cifar10"], &AXES)]);
    for (index, values) in RUNGS.iter().enumerate().take(rungs) {
        let axes: Vec<(Axis, &str)> = AXES.into_iter().zip(*values).collect();
        let mut record = record(&cell("s", &workload("w"), &axes), Status::Ok, None);
        let rung = index as f64;
        train_metrics(&mut record, 100.0 + 10.0 * rung, 800, 1e9 / (rung + 1.0));
        run.add(record, None);
    }
    run
}

#[test]
fn ladders_name_each_change_and_show_published_values() {
    let run = ladder_run(6);
    let (figure, svg) = figure_and_svg(&run, "s-ladder").unwrap();
    for text in [
        "All techniques together take 0.17× the memory and 1.50× the time (point estimates)",
        "→ 16-mixed · high",
        "→ bf16-true",
        "→ batch 16",
        "+ accumulate 4 · batch 4",
        "→ sgd",
        "another memory metric (allocator, reserved; here: host, worker process)",
        "26.84 GB",
        "2.88 min",
        "97.34 %",
    ] {
        assert!(text_of(&svg).contains(text), "{text}: {svg}");
    }
    assert!(figure.caption.contains("Raschka"), "{}", figure.caption);
    assert!(
        figure_and_svg(&run, "s-accumulation").is_none(),
        "the ladder already shows these values"
    );
}

#[test]
fn the_spread_of_the_first_rung_widens_all_whiskers() {
    let whiskers = |first: [f64; 6]| {
        let mut run = empty_run(&[Axis::Precision, Axis::Optimizer]);
        for (precision, optimizer, seconds) in [
            ("32-true", "adam", first),
            ("bf16-true", "adam", [80.0; 6]),
            ("bf16-true", "sgd", [70.0; 6]),
        ] {
            let cell = cell(
                "s",
                &workload("w"),
                &[(Axis::Precision, precision), (Axis::Optimizer, optimizer)],
            );
            run.plan(&cell, None);
            for (repeat, seconds) in (0..).zip(seconds) {
                let mut record = record(&cell, Status::Ok, None);
                record.repeat = repeat;
                let time = Metric::reading(MetricName::TrainSeconds, seconds, "invented");
                record.metrics.insert(MetricName::TrainSeconds, time);
                run.measured(record, None);
            }
        }
        let svg = figure_and_svg(&run, "s-ladder").unwrap().1;
        let ink = |line: &&str| line.starts_with("<polyline") && line.contains("#1B1F24");
        svg.lines().filter(ink).count()
    };
    // Each of the two whiskers consists of a line and two ends. Equal times are drawn without whiskers.
    assert_eq!((whiskers([100.0; 6]), whiskers(SLOW)), (0, 6));
}

#[test]
fn two_rungs_grids_and_recurring_techniques_are_not_ladders() {
    assert!(figure_and_svg(&ladder_run(2), "s-ladder").is_none());
    let mut grid = empty_run(&[Axis::Precision, Axis::Batch]);
    for precision in ["32-true", "bf16-true"] {
        for batch in ["8", "4"] {
            let cell = cell(
                "s",
                &workload("w"),
                &[(Axis::Precision, precision), (Axis::Batch, batch)],
            );
            let mut record = record(&cell, Status::Ok, None);
            train_metrics(&mut record, 100.0, 800, 1e9);
            grid.add(record, None);
        }
    }
    assert!(figure_and_svg(&grid, "s-ladder").is_none());
    let mut back = ladder_run(6);
    back.plan.cells.swap(3, 5);
    assert!(figure_and_svg(&back, "s-ladder").is_none());
}

#[test]
fn a_failed_rung_shows_its_status() {
    let mut run = ladder_run(6);
    run.records[3].status = Status::Oom;
    run.records[3].metrics.clear();
    let svg = figure_and_svg(&run, "s-ladder").unwrap().1;
    assert!(svg.contains("oom"), "{svg}");
}

#[test]
fn a_power_law_is_fitted_to_the_errors_of_growing_sums() {
    let mut run = run(vec![suite("kernels", "K", &[], &[Axis::Precision, Axis::Size])]);
    kernels(&mut run);
    let svg = figure_and_svg(&run, "kernels-kernel").unwrap().1;
    assert!(
        svg.contains("bands: power-law fits") && svg.contains(">\n0.12\n<"),
        "{svg}"
    );
}

/// Sets every metric of a record to a value that a valid run does not have.
fn set_hostile_values(record: &mut Record, index: usize) {
    const HOSTILE: [f64; 8] = [
        f64::MIN_POSITIVE,
        0.0,
        -1.0,
        1e308,
        f64::NAN,
        f64::INFINITY,
        -0.0,
        1.0,
    ];
    for (at, metric) in record.metrics.values_mut().enumerate() {
        let value = |shift: usize| Some(HOSTILE[(index + at + shift) % HOSTILE.len()]);
        (metric.value, metric.low, metric.high) = (value(0), value(1), value(3));
    }
}

#[test]
fn hostile_values_and_names_do_not_stop_the_report() {
    let name = "a very long name of a workload ".repeat(40);
    let mut runs = vec![ladder_run(6)];
    for rows in [2_u32, 3, 200] {
        let mut many = empty_run(&[Axis::Precision, Axis::Batch]);
        for batch in 1..=rows {
            let batch = batch.to_string();
            let long = Workload {
                name: name.clone(),
                ..workload("w")
            };
            let mut trained = record(&cell("s", &long, &[(Axis::Batch, &batch)]), Status::Ok, None);
            train_metrics(&mut trained, 100.0, 800, 1e9);
            many.add(trained, None);
            let long = Workload {
                name: format!("{name} tested"),
                ..evaluation()
            };
            let tested = cell(
                "s",
                &long,
                &[(Axis::Batch, &batch), (Axis::Precision, "bf16-true")],
            );
            let mut tested = record(&tested, Status::Ok, None);
            train_metrics(&mut tested, 100.0, 800, 1e9);
            let rate = Metric::reading(MetricName::SamplesPerSecond, 1.0, "invented");
            tested.metrics.insert(MetricName::SamplesPerSecond, rate);
            tested.metrics.insert(
                MetricName::Agreement,
                Metric::reading(MetricName::Agreement, 0.5, "invented"),
            );
            many.add(tested, None);
        }
        runs.push(many);
    }
    let mut sized = run(vec![suite("kernels", "K", &[], &[Axis::Precision, Axis::Size])]);
    kernels(&mut sized);
    runs.push(sized);
    for mut run in runs {
        for pass in 0..9 {
            for (index, record) in run.records.iter_mut().enumerate().filter(|_| pass > 0) {
                set_hostile_values(record, index + pass);
            }
            for figure in figures(&Report::new(&run).unwrap()) {
                let svg = figure.canvas.svg().unwrap();
                let odd = svg
                    .lines()
                    .find(|line| line.contains("NaN") || line.starts_with("inf"));
                assert_eq!(odd, None, "{}", figure.id);
                assert!(svg.len() < 400_000, "{}: {} bytes", figure.id, svg.len());
            }
        }
    }
}

#[test]
fn a_figure_that_omits_settings_states_their_total_number() {
    let mut run = empty_run(&[Axis::Batch]);
    for batch in 1..=200_u32 {
        let cell: Cell = cell("s", &workload("w"), &[(Axis::Batch, &batch.to_string())]);
        let mut record = record(&cell, Status::Ok, None);
        train_metrics(&mut record, 100.0 + f64::from(batch), 800, 1e9);
        run.add(record, None);
    }
    for id in ["s-speed", "s-pareto", "s-accumulation"] {
        let (figure, svg) = figure_and_svg(&run, id).unwrap();
        assert!(
            text_of(&svg).contains("the baseline and the 39 fastest others of 200 settings"),
            "{id}"
        );
        assert!(
            figure.caption.contains("40 of 200 settings"),
            "{}",
            figure.caption
        );
    }
}
