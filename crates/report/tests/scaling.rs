//! Tests of the scaling efficiency of several devices.

use mantissa_core::{Axis, Cell, Metric, MetricName, Status};
use mantissa_report::{Budget, Goal, Report, Run, figures, html, markdown, terminal_overview};

use crate::{
    advice::{add_five_processes, fired_rule, first_choice, first_workload, points_budget, set_metric},
    comparisons::figure_and_svg,
    support::{RunBuilder as _, cell, matmul, record, run, suite, train_metrics, workload},
};

/// Training with an effective batch size of 32: micro-batch, devices, threads per device, and seconds per step.
type Training = (&'static str, &'static str, &'static str, f64);

/// Returns the scaling efficiency of each training, from the table of the summary, for a machine with two cores.
fn efficiencies(trainings: &[Training]) -> Vec<String> {
    efficiencies_on("flex", trainings)
}

fn efficiencies_on(backend: &str, trainings: &[Training]) -> Vec<String> {
    let axes = [Axis::Precision, Axis::Batch, Axis::Devices, Axis::Threads];
    let mut run = run(vec![suite("s", "S", &[], &axes)]);
    for (batch, devices, threads, seconds) in trainings {
        let axes = [
            (Axis::Backend, backend),
            (Axis::Batch, *batch),
            (Axis::Devices, *devices),
            (Axis::Threads, *threads),
        ];
        let mut record = record(&cell("s", &workload("w"), &axes), Status::Ok, None);
        record.fingerprint.cores = 2;
        for (name, value) in [
            (MetricName::TrainSeconds, 10.0),
            (MetricName::StepSeconds, *seconds),
        ] {
            let metric = Metric::reading(name, value, "invented");
            record.metrics.insert(name, metric);
        }
        run.add(record, None);
    }
    let summary = markdown(&Report::new(&run).unwrap());
    let mut rows = summary.lines().filter(|line| line.starts_with('|'));
    let fields = |line: &str| -> Vec<String> {
        let fields = line.trim_matches('|').split('|');
        fields.map(|field| field.trim().to_owned()).collect()
    };
    let heads = rows.by_ref().map(fields);
    let head = heads
        .into_iter()
        .find(|head| head.iter().any(|title| title.contains("scaling efficiency")));
    let Some(head) = head else { return vec![] };
    let column = head
        .iter()
        .position(|title| title.contains("scaling efficiency"))
        .unwrap();
    rows.map(fields)
        .skip(1)
        .take(trainings.len())
        .map(|row| row[column].clone())
        .collect()
}

#[test]
fn efficiency_is_the_speed_relative_to_as_many_single_devices() {
    // Two devices need 1.25 s for a step, and one needs 2 s: 2 / (2 × 1.25).
    let trainings = [("32", "1", "1", 2.0), ("16", "2", "1", 1.25)];
    let found = efficiencies(&trainings);
    assert!(found[1].starts_with("80 %"), "{found:?}");
    assert!(!found[0].contains('%'), "{found:?}");
}

#[test]
fn more_threads_than_cores_have_no_efficiency() {
    let found = efficiencies(&[("32", "1", "1", 2.0), ("16", "2", "1", 1.0), ("8", "4", "1", 1.0)]);
    assert!(found[1].starts_with("100 %"), "{found:?}");
    assert!(found[2].starts_with("oversubscribed"), "{found:?}");
}

#[test]
fn efficiency_needs_one_device_with_the_same_batch_and_threads() {
    let other_batch = [("16", "1", "1", 2.0), ("16", "2", "1", 1.0)];
    assert_eq!(efficiencies(&other_batch), Vec::<String>::new());
    // One device then uses all cores.
    let all_threads = [("32", "1", "all", 2.0), ("16", "2", "all", 1.0)];
    assert_eq!(efficiencies(&all_threads), Vec::<String>::new());
    // On GPUs, `threads` has no effect.
    let on_gpus = efficiencies_on("cuda", &all_threads);
    assert!(on_gpus[1].starts_with("100 %"), "{on_gpus:?}");
}

/// Creates a run on two cores with one, two and four devices.
pub fn run_with_several_devices() -> Run {
    let axes = [Axis::Precision, Axis::Batch, Axis::Devices, Axis::ReduceFormat];
    let mut run = run(vec![suite("s", "S", &[], &axes)]);
    let mut add = |axes: &[(Axis, &str)], metrics: &[(MetricName, f64)]| {
        let axes = [axes, &[(Axis::Threads, "1")]].concat();
        let mut record = record(&cell("s", &workload("w"), &axes), Status::Ok, None);
        for (name, value) in metrics {
            let metric = Metric::reading(*name, *value, "invented");
            record.metrics.insert(*name, metric);
        }
        run.add(record, None);
    };
    let times = |seconds| {
        [
            (MetricName::TrainSeconds, 10.0),
            (MetricName::StepSeconds, seconds),
        ]
    };
    add(&[(Axis::Batch, "32")], &times(2.0));
    for (format, error) in [("f32", 1e-8), ("bf16", 2e-3)] {
        let communication = [
            (MetricName::CommunicationShare, 0.125),
            (MetricName::BytesSent, 4e6),
            (MetricName::GradientError, error),
        ];
        let two = [
            (Axis::Batch, "16"),
            (Axis::Devices, "2"),
            (Axis::ReduceFormat, format),
        ];
        add(&two, &[&times(1.25)[..], &communication].concat());
    }
    let four = [
        (Axis::Batch, "8"),
        (Axis::Devices, "4"),
        (Axis::ReduceFormat, "f32"),
    ];
    let communication = [
        (MetricName::CommunicationShare, 0.5),
        (MetricName::BytesSent, 6e6),
        (MetricName::GradientError, 3e-8),
    ];
    add(&four, &[&times(0.5)[..], &communication].concat());
    run
}

#[test]
fn figure_of_several_devices_has_the_efficiency_as_title() {
    let run = run_with_several_devices();
    let figures = figures(&Report::new(&run).unwrap());
    let figure = figures
        .iter()
        .find(|figure| figure.id.ends_with("-devices"))
        .unwrap();
    assert!(
        figure.caption.contains("Oversubscribed: more threads than cores"),
        "{}",
        figure.caption
    );
    let svg = figure.canvas.svg().unwrap();
    for text in [
        "2 devices train 1.60× as fast as one (ring): 80 % efficiency",
        "12.50 %",
        "4.00 MB",
        "batch 16 · devices 2 · reduce format bf16: 2.00×10⁻³",
        "batch 8 · devices 4 · reduce format f32 · oversubscribed: 0.50 s",
    ] {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
}

#[test]
fn title_of_several_devices_names_the_parameter_server() {
    let title = |reduce: &str| {
        let mut run = run_with_several_devices();
        let cells = run.plan.cells.iter_mut().map(|planned| &mut planned.cell);
        let cells = cells.chain(run.records.iter_mut().map(|record| &mut record.cell));
        for cell in cells.filter(|cell| cell.setting.devices() > 1) {
            let (seed, mut setting) = (cell.seed, cell.setting.clone());
            let value = Axis::Reduce.parse(reduce).unwrap();
            setting.set(Axis::Reduce, value).unwrap();
            *cell = Cell::new(
                "s",
                cell.workload.clone(),
                setting.without_ineffective_axes(),
                seed,
            );
        }
        figure_and_svg(&run, "s-devices").unwrap().1
    };
    for (reduce, named) in [
        ("all-reduce", "as fast as one (ring): 80 %"),
        ("parameter-server", "as fast as one (parameter-server): 80 %"),
    ] {
        let svg = title(reduce);
        assert!(svg.contains(named), "{named} is missing in {svg}");
    }
}

/// Creates a run on two cores. The training with four devices appears to be the fastest one with the least memory.
fn run_with_oversubscription() -> Run {
    let axes = [Axis::Precision, Axis::Batch, Axis::Devices, Axis::Threads];
    let mut run = run(vec![suite("s", "S", &[], &axes)]);
    for (batch, devices, seconds, bytes) in [
        ("32", "1", 10.0, 1.0e9),
        ("16", "2", 8.0, 0.7e9),
        ("8", "4", 2.0, 0.4e9),
    ] {
        let axes = [
            (Axis::Batch, batch),
            (Axis::Devices, devices),
            (Axis::Threads, "1"),
        ];
        add_five_processes(&mut run, &axes, seconds, 20, bytes);
    }
    run
}

const ONE: &str = "batch 32 · devices 1";
const TWO: &str = "batch 16 · devices 2";
const FOUR: &str = "batch 8 · devices 4";

#[test]
fn oversubscribed_settings_have_no_speed_up_and_a_mark() {
    let run = run_with_oversubscription();
    let report = Report::new(&run).unwrap();
    let rows = &report.suites[0].groups[0].rows;
    let speed_ups = rows
        .iter()
        .map(|row| row.speed_up.as_ref().map(|ratio| ratio.value));
    let speed_ups: Vec<_> = speed_ups.collect();
    assert_eq!((speed_ups[0], speed_ups[2]), (Some(1.0), None));
    assert!((speed_ups[1].unwrap() - 1.25).abs() < 0.02, "{speed_ups:?}");
    assert_eq!(rows[2].speed_verdict, None);
    let memory = rows
        .iter()
        .map(|row| row.memory_ratio.as_ref().map(|ratio| ratio.value));
    assert_eq!(memory.collect::<Vec<_>>(), [Some(1.0), None, None]);
    let summary = markdown(&report);
    let row = |devices: &str| {
        let mut lines = summary.lines().filter(|line| line.starts_with('|'));
        lines.find(|line| line.contains(devices)).unwrap().to_owned()
    };
    assert!(!row("| 2 |").contains("oversubscribed"), "{summary}");
    assert!(
        row("| 4 |").contains("oversubscribed: 4 threads on 2 cores"),
        "{summary}"
    );
    // The time is shown.
    assert!(row("| 4 |").contains("2.00 s"), "{summary}");
    assert!(!summary.contains("5.00×"), "{summary}");
}

#[test]
fn titles_and_fronts_do_not_contain_oversubscribed_times() {
    let run = run_with_oversubscription();
    let report = Report::new(&run).unwrap();
    let figures = figures(&report);
    let svg = |id: &str| {
        let figure = figures.iter().find(|figure| figure.id == id);
        let figure = figure.unwrap_or_else(|| panic!("no figure {id}"));
        figure.canvas.svg().unwrap()
    };
    let times = svg("s-accumulation");
    assert!(times.contains("8 × 1 × 4 = 32 · oversubscribed"), "{times}");
    assert!(svg("s-speed").contains("1.25×"));
    for id in ["s-speed", "s-pareto"] {
        let drawn = svg(id);
        assert!(!drawn.contains("devices 4"), "{id}: {drawn}");
        assert!(drawn.contains("devices 2"), "{id}: {drawn}");
    }
    let pictures: Vec<_> = figures
        .iter()
        .map(|figure| (figure, figure.canvas.svg().unwrap()))
        .collect();
    let page = html(&report, &pictures).unwrap();
    assert!(!page.contains("5.00×"), "speed of four devices");
    assert!(page.contains("peak memory of rank 0"));
    // Attributes of rows, from which the page computes ratios to another baseline.
    assert_eq!(page.matches(" data-speed=").count(), 2);
    assert_eq!(page.matches(" data-memory=").count(), 1);
    for saving in ["0.70×", "0.40×"] {
        assert!(!page.contains(saving), "{saving}: memory of rank 0");
    }
}

#[test]
fn advice_does_not_name_oversubscribed_settings() {
    let run = run_with_oversubscription();
    let choice = first_choice(&run, &points_budget(1.0));
    assert_eq!(choice.chosen.as_deref(), Some(TWO));
    let evidence = |label: &str| choice.evidence.iter().find(|one| one.setting == label).unwrap();
    assert_eq!(
        evidence(FOUR).reasons,
        ["it has more threads than cores, so its times are not comparable"]
    );
    assert!(evidence(FOUR).speed.is_none() && evidence(FOUR).memory.is_none());
    assert!(evidence(TWO).speed.is_some() && evidence(TWO).memory.is_none());
    let sentences = choice.answer.join(" ");
    assert!(!sentences.contains(FOUR), "{sentences}");
}

#[test]
fn memory_of_rank_0_is_not_the_least_memory() {
    let run = run_with_oversubscription();
    let budget = Budget {
        minimise: Goal::Memory,
        ..points_budget(1.0)
    };
    let choice = first_choice(&run, &budget);
    assert_eq!(choice.chosen.as_deref(), Some(ONE));
    let evidence = choice.evidence.iter().find(|one| one.setting == TWO).unwrap();
    assert_eq!(
        evidence.reasons,
        ["its `host_peak_bytes` is that of rank 0, one of 2 processes"]
    );
    let sentences = choice.answer.join(" ");
    assert!(!sentences.contains("devices 2"), "{sentences}");
}

#[test]
fn memory_is_compared_between_equal_numbers_of_devices() {
    let axes = [Axis::Precision, Axis::Devices];
    let mut run = run(vec![suite("s", "S", &[], &axes)]);
    for (precision, bytes) in [("32-true", 1.0e9), ("bf16-mixed", 0.75e9)] {
        let axes = [(Axis::Precision, precision), (Axis::Devices, "2")];
        add_five_processes(&mut run, &axes, 5.0, 20, bytes);
    }
    let report = Report::new(&run).unwrap();
    let ratio = report.suites[0].groups[0].rows[1].memory_ratio.as_ref();
    assert_eq!(ratio.unwrap().value, 0.75);
}

#[test]
fn memory_is_compared_between_equal_reductions() {
    let axes = [Axis::Precision, Axis::Devices, Axis::Reduce];
    let memory_and_advice = |reduce: &str, devices: &str| {
        let mut run = run(vec![suite("s", "S", &[], &axes)]);
        for (precision, reduce, bytes) in [("32-true", "all-reduce", 1.0e9), ("bf16-mixed", reduce, 0.75e9)] {
            let axes = [
                (Axis::Precision, precision),
                (Axis::Devices, devices),
                (Axis::Reduce, reduce),
            ];
            add_five_processes(&mut run, &axes, 5.0, 20, bytes);
        }
        let budget = Budget {
            minimise: Goal::Memory,
            ..points_budget(1.0)
        };
        let choice = first_choice(&run, &budget);
        let reasons = choice.evidence.iter().flat_map(|one| one.reasons.clone());
        let report = Report::new(&run).unwrap();
        let ratio = report.suites[0].groups[0].rows[1].memory_ratio.as_ref();
        (ratio.map(|ratio| ratio.value), reasons.collect::<Vec<_>>())
    };
    assert_eq!(memory_and_advice("all-reduce", "2"), (Some(0.75), vec![]));
    let reason = "its `host_peak_bytes` is that of rank 0, and the baseline has another `reduce`";
    for server in ["parameter-server", "parameter-server-async"] {
        assert_eq!(
            memory_and_advice(server, "2"),
            (None, vec![reason.to_owned()]),
            "{server}"
        );
    }
    // `reduce` has no effect with one device.
    assert_eq!(memory_and_advice("parameter-server", "1").0, Some(0.75));
}

#[test]
fn the_baseline_is_not_oversubscribed_if_another_is_possible() {
    let mut run = run_with_oversubscription();
    run.plan.cells.reverse();
    let report = Report::new(&run).unwrap();
    let rows = &report.suites[0].groups[0].rows;
    let devices: Vec<u32> = rows.iter().map(|row| row.cell.setting.devices()).collect();
    assert_eq!(devices, [4, 2, 1]);
    assert_eq!(rows[0].baseline, Some(1));
}

#[test]
fn no_setting_is_recommended_if_all_are_oversubscribed() {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Precision, Axis::Threads])]);
    for (precision, seconds) in [("32-true", 10.0), ("bf16-mixed", 5.0)] {
        let axes = [(Axis::Precision, precision), (Axis::Threads, "3")];
        add_five_processes(&mut run, &axes, seconds, 20, 1e9);
    }
    let choice = first_choice(&run, &points_budget(1.0));
    assert_eq!(choice.chosen, None);
    let report = Report::new(&run).unwrap();
    let summary = markdown(&report);
    assert!(
        summary.contains("all have more threads than cores") && !summary.contains("2.00×"),
        "{summary}"
    );
}

#[test]
fn several_gpus_are_not_oversubscribed() {
    let speed_up_of_four = |backend: &str| {
        let axes = [Axis::Precision, Axis::Batch, Axis::Devices];
        let mut run = run(vec![suite("s", "S", &[], &axes)]);
        for (batch, devices, seconds) in [("32", "1", 10.0), ("8", "4", 2.5)] {
            let axes = [
                (Axis::Backend, backend),
                (Axis::Batch, batch),
                (Axis::Devices, devices),
            ];
            add_five_processes(&mut run, &axes, seconds, 20, 1e9);
        }
        let report = Report::new(&run).unwrap();
        let ratio = report.suites[0].groups[0].rows[1].speed_up.as_ref();
        (
            ratio.map(|ratio| ratio.value.round()),
            markdown(&report).contains("oversubscribed"),
        )
    };
    // The machine has two cores.
    assert_eq!(speed_up_of_four("cuda"), (Some(4.0), false));
    assert_eq!(speed_up_of_four("flex"), (None, true));
}

/// Returns the answer for kernels that run with these threads on a machine with two cores.
fn kernel_answer(threads: [&str; 2], goal: Goal) -> String {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Precision])]);
    for ((precision, flops, error), threads) in [("32-true", 1e9, 1e-7), ("bf16-true", 4e9, 2e-3)]
        .iter()
        .zip(threads)
    {
        let axes = [(Axis::Precision, *precision), (Axis::Threads, threads)];
        let mut record = record(&cell("s", &matmul(), &axes), Status::Ok, None);
        set_metric(&mut record, MetricName::FlopsPerSecond, *flops);
        set_metric(&mut record, MetricName::RelativeError, *error);
        set_metric(&mut record, MetricName::HostPeakBytes, 1e9);
        run.add(record, None);
    }
    let budget = Budget {
        minimise: goal,
        ..Budget::default()
    };
    first_choice(&run, &budget).answer.join(" ")
}

#[test]
fn fronts_of_kernels_do_not_contain_oversubscribed_speeds() {
    for goal in [Goal::Time, Goal::Memory] {
        assert_eq!(
            kernel_answer(["3", "3"], goal),
            "No setting is recommended: all have more threads than cores, so their times are not comparable."
        );
        let one = kernel_answer(["2", "3"], goal);
        assert!(
            one.contains("Pareto front") && !one.contains("bf16-true"),
            "{one}"
        );
    }
}

#[test]
fn energies_of_unequal_devices_are_not_called_oversubscribed() {
    let answer = |devices: &str| {
        let axes = [Axis::Precision, Axis::Devices];
        let mut run = run(vec![suite("s", "S", &[], &axes)]);
        for (precision, devices) in [("32-true", "4"), ("bf16-mixed", devices)] {
            let axes = [(Axis::Precision, precision), (Axis::Devices, devices)];
            add_five_processes(&mut run, &axes, 10.0, 20, 1e9);
        }
        for record in &mut run.records {
            set_metric(record, MetricName::EnergyCounterJoules, 10.0);
        }
        let budget = Budget {
            minimise: Goal::Energy,
            ..points_budget(1.0)
        };
        first_choice(&run, &budget).answer.join(" ")
    };
    let reason = "all have more threads than cores";
    assert!(answer("4").contains(reason));
    // The energy of one process is not comparable with that of rank 0, but it has enough cores.
    assert!(!answer("1").contains(reason), "{}", answer("1"));
}

/// Creates a run with large and small micro-batches of the same effective batch: on four devices, which are oversubscribed, and on two.
fn run_with_oversubscribed_accumulation() -> Run {
    let axes = [Axis::Precision, Axis::Batch, Axis::Accumulate, Axis::Devices];
    let mut run = run(vec![suite("s", "S", &[], &axes)]);
    for (batch, accumulate, devices, seconds, bytes) in [
        ("8", "1", "4", 10.0, 1.0e9),
        ("4", "2", "4", 5.0, 0.5e9),
        ("16", "1", "2", 10.0, 1.0e9),
        ("8", "2", "2", 12.5, 0.9e9),
    ] {
        let axes = [
            (Axis::Batch, batch),
            (Axis::Accumulate, accumulate),
            (Axis::Devices, devices),
        ];
        add_five_processes(&mut run, &axes, seconds, 20, bytes);
    }
    run
}

#[test]
fn oversubscribed_times_are_in_neither_the_title_nor_the_rule_of_accumulation() {
    let run = run_with_oversubscribed_accumulation();
    let figures = figures(&Report::new(&run).unwrap());
    let figure = figures
        .iter()
        .find(|figure| figure.id == "s-accumulation")
        .unwrap();
    let svg = figure.canvas.svg().unwrap();
    assert!(
        svg.contains("8 × 2 × 2 takes 1.25× the time and 0.90× the memory of 16 × 1 × 2"),
        "{svg}"
    );
    assert!(!svg.contains("0.50×") && svg.contains("oversubscribed"), "{svg}");
    assert!(svg.contains("Peak memory of rank 0"), "{svg}");
    let evidence = fired_rule(&run, "accumulation").unwrap().evidence.join(" ");
    assert!(
        evidence.contains("; its time is not comparable: more threads than cores"),
        "{evidence}"
    );
}

#[test]
fn devices_of_an_asynchronous_server_are_not_a_factor_of_the_batch() {
    let drawn = |all_reduce: bool| {
        let axes = [Axis::Precision, Axis::Batch, Axis::Devices, Axis::Reduce];
        let mut run = run(vec![suite("s", "S", &[], &axes)]);
        let asynchronous = [("8", "2"), ("4", "4"), ("4", "2")].map(|axes| (axes, "parameter-server-async"));
        let synchronous = [(("8", "2"), "all-reduce")];
        let others = synchronous.iter().filter(|_| all_reduce);
        for ((batch, devices), reduce) in asynchronous.iter().chain(others) {
            let axes = [
                (Axis::Batch, *batch),
                (Axis::Devices, *devices),
                (Axis::Reduce, *reduce),
            ];
            add_five_processes(&mut run, &axes, 10.0, 20, 1e9);
        }
        figure_and_svg(&run, "s-accumulation").unwrap().1
    };
    let asynchronous = drawn(false);
    for text in [
        "micro-batch × accumulation steps = effective batch",
        "8 × 1 = 8 · devices 2",
        "4 × 1 = 4 · devices 4",
    ] {
        assert!(asynchronous.contains(text), "{text} is missing in {asynchronous}");
    }
    let both = drawn(true);
    for text in [
        "micro-batch × accumulation steps × devices = effective batch",
        "8 × 1 = 8 · devices 2 · reduce parameter-server-async",
        "8 × 1 × 2 = 16 · reduce all-reduce",
    ] {
        assert!(both.contains(text), "{text} is missing in {both}");
    }
}

#[test]
fn tensors_of_rank_0_are_not_compared_with_those_of_one_process() {
    let mut run = run_with_oversubscription();
    for record in &mut run.records {
        let devices = f64::from(record.cell.setting.devices());
        for name in [
            MetricName::WeightsBytes,
            MetricName::OptimizerBytes,
            MetricName::GradientsBytes,
            MetricName::WeightCopiesBytes,
            MetricName::ActivationsBytes,
        ] {
            let metric = Metric::reading(name, 1e8 / devices, "invented");
            record.metrics.insert(name, metric);
        }
    }
    let report = Report::new(&run).unwrap();
    let page = html(&report, &[]).unwrap();
    assert!(page.contains(TWO), "the advice compares two devices with one");
    assert!(!page.contains("tensor memory"));
}

#[test]
fn a_selection_of_the_fastest_settings_leaves_out_oversubscribed_ones() {
    let axes = [Axis::Precision, Axis::Batch, Axis::Devices];
    let mut run = run(vec![suite("s", "S", &[], &axes)]);
    for (devices, batches, seconds) in [("4", 1..4, 1.0), ("1", 1..43, 10.0)] {
        for batch in batches {
            let batch = batch.to_string();
            let axes = [(Axis::Batch, batch.as_str()), (Axis::Devices, devices)];
            add_five_processes(&mut run, &axes, seconds, 20, 1e9);
        }
    }
    let figures = figures(&Report::new(&run).unwrap());
    let figure = figures
        .iter()
        .find(|figure| figure.id == "s-accumulation")
        .unwrap();
    let svg = figure.canvas.svg().unwrap();
    assert!(
        svg.contains("fastest") && !svg.contains("oversubscribed"),
        "{svg}"
    );
}

#[test]
fn the_overview_does_not_contain_oversubscribed_speeds() {
    let axes = [Axis::Precision, Axis::Matmul];
    let overview = |threads: &str| {
        let mut run = run(["s", "t"].map(|name| suite(name, "S", &[], &axes)).to_vec());
        for (name, precision) in [("s", "32-true"), ("s", "bf16-mixed"), ("t", "32-true")] {
            let axes = [(Axis::Precision, precision), (Axis::Threads, threads)];
            let mut record = record(&cell(name, &workload("w"), &axes), Status::Ok, None);
            train_metrics(&mut record, 10.0, 900, 1e9);
            let rate = MetricName::SamplesPerSecond;
            record
                .metrics
                .insert(rate, Metric::reading(rate, 321.0, "invented"));
            run.add(record, None);
        }
        let report = Report::new(&run).unwrap();
        markdown(&report) + &terminal_overview(&report, 100)
    };
    let comparable = overview("2");
    let oversubscribed = overview("3");
    for text in ["trains on 321.0 samples/s", "training (baseline 10.00 s)"] {
        assert!(comparable.contains(text), "{text} is missing in {comparable}");
        assert!(!oversubscribed.contains(text), "{oversubscribed}");
    }
}

#[test]
fn the_rule_of_tf32_needs_comparable_times() {
    let fired = |threads: &str| {
        let mut run = run(vec![suite("s", "S", &[], &[Axis::Precision, Axis::Matmul])]);
        for (matmul, seconds, bytes) in [("highest", 10.0, 1.0e9), ("high", 5.0, 0.5e9)] {
            let axes = [(Axis::Matmul, matmul), (Axis::Threads, threads)];
            add_five_processes(&mut run, &axes, seconds, 20, bytes);
        }
        let budget = Budget {
            minimise: Goal::Memory,
            ..points_budget(1.0)
        };
        let rules = first_workload(&run, &budget).rules;
        rules.iter().any(|fired| fired.rule == "matmul-high")
    };
    assert!(fired("2"));
    assert!(!fired("3"));
}
