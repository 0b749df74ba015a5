//! Tests of the figure of the staleness of gradients, on invented runs.

use mantissa_core::{Axis, Metric, MetricName, Samples, Status};
use mantissa_report::{Report, Run, figures, load};

use crate::{
    comparisons::figure_and_svg,
    pages::{write_run_folder, write_samples},
    support::{RunBuilder as _, cell, record, run, suite, train_metrics, workload},
};

/// Numbers of gradients by staleness, with a limit of 8 on eight devices: 70 of 1,000 gradients are current, and the mean is 5.17.
const STALE: [u64; 10] = [70, 40, 50, 70, 90, 120, 180, 260, 120, 0];

fn empty_run() -> Run {
    let axes = [Axis::Precision, Axis::Batch, Axis::Devices, Axis::Staleness];
    run(vec![suite("s", "S", &[], &axes)])
}

/// Adds a training with an asynchronous parameter server.
fn add_training(run: &mut Run, (batch, devices): (&str, &str), axes: &[(Axis, &str)], staleness: &[u64]) {
    let server = [
        (Axis::Batch, batch),
        (Axis::Devices, devices),
        (Axis::Reduce, "parameter-server-async"),
        (Axis::Threads, "1"),
    ];
    let cell = cell("s", &workload("w"), &[&server, axes].concat());
    let mut record = record(&cell, Status::Ok, None);
    record.fingerprint.cores = 16;
    train_metrics(&mut record, 10.0, 900, 1e9);
    let gradients: u64 = staleness.iter().sum();
    let steps = (0..).zip(staleness).map(|(steps, count): (u64, _)| steps * count);
    let mean = steps.sum::<u64>() as f64 / gradients as f64;
    let name = MetricName::MeanStaleness;
    record
        .metrics
        .insert(name, Metric::reading(name, mean, "invented"));
    let samples = Samples {
        staleness: staleness.to_vec(),
        ..Samples::default()
    };
    run.add(record, Some(samples));
}

/// Creates a run with two limits of the staleness on several numbers of devices.
pub fn run_with_staleness() -> Run {
    let mut run = empty_run();
    for (batch, devices, stale) in [
        ("16", "2", &[300][..]),
        ("8", "4", &[170, 310, 420, 80, 20][..]),
        ("4", "8", &STALE[..]),
    ] {
        add_training(
            &mut run,
            (batch, devices),
            &[(Axis::Staleness, "0")],
            &[stale.iter().sum()],
        );
        add_training(&mut run, (batch, devices), &[(Axis::Staleness, "8")], stale);
    }
    run
}

#[test]
fn title_states_the_share_of_current_gradients_and_the_mean() {
    let (figure, svg) = figure_and_svg(&run_with_staleness(), "s-staleness").unwrap();
    for text in [
        "With staleness 8 on 8 devices, 7.00 % of the gradients are computed from the current",
        "the mean staleness is 5.2 steps",
        "batch 4 · devices 8 · staleness 8",
        "7.00 % with staleness 0; mean 5.2, at most 8",
        "17.00 % with staleness 0; mean 1.5, at most 4",
        "batch 4 · devices 8 · staleness 8, staleness 7: 26.00 %",
        "4 of 6 settings have no stale gradients",
        "\n40 %\n",
    ] {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
    assert!(
        !svg.contains("devices 2"),
        "settings without stale gradients have no panel: {svg}"
    );
    assert!(!figure.caption.contains("Oversubscribed"), "{}", figure.caption);
    assert!(!figure.caption.contains("missing"), "{}", figure.caption);
}

#[test]
fn bars_are_as_high_as_their_shares() {
    let mut run = empty_run();
    add_training(&mut run, ("8", "4"), &[], &[100, 200, 0, 100]);
    let svg = figure_and_svg(&run, "s-staleness").unwrap().1;
    let heights = svg
        .lines()
        .filter(|line| line.starts_with("<rect") && line.contains("#0072B2"))
        .map(|line| {
            let (_, rest) = line.split_once(" height=\"").unwrap();
            rest.split_once('"').unwrap().0.parse::<f64>().unwrap()
        });
    let heights: Vec<f64> = heights.collect();
    assert_eq!(heights.len(), 3, "an empty bin has no bar: {heights:?}");
    assert!((heights[1] / heights[0] - 2.0).abs() < 0.02, "{heights:?}");
    assert!((heights[0] - heights[2]).abs() <= 1.0, "{heights:?}");
}

#[test]
fn stale_gradients_in_spite_of_the_limit_0_are_shown() {
    let mut run = empty_run();
    add_training(&mut run, ("8", "4"), &[(Axis::Staleness, "0")], &[100]);
    let current = figure_and_svg(&run, "s-staleness").unwrap().1;
    assert!(
        current.contains("All gradients are computed from the current parameters"),
        "{current}"
    );
    add_training(&mut run, ("4", "8"), &[(Axis::Staleness, "0")], &[0, 100]);
    let stale = figure_and_svg(&run, "s-staleness").unwrap().1;
    let title = "With staleness 0 on 8 devices, none of the gradients are computed from the current";
    assert!(stale.contains(title), "{stale}");
}

#[test]
fn gradients_of_all_seeds_are_summed() {
    let mut run = empty_run();
    let axes = [(Axis::Staleness, "8")];
    add_training(&mut run, ("8", "4"), &axes, &[100]);
    add_training(&mut run, ("8", "4"), &axes, &[0, 0, 300]);
    // The records of a cell are distinguished by their number; a second seed is another cell.
    let second = &mut run.records[1];
    let cell = mantissa_core::Cell::new("s", second.cell.workload.clone(), second.cell.setting.clone(), 7);
    second.cell = cell.clone();
    run.plan.cells[1].cell = cell;
    let samples = [vec![100], vec![0, 0, 300]];
    let mantissa_report::Store::Memory(all) = &mut run.samples else {
        panic!("the run was not written")
    };
    all.clear();
    for (record, staleness) in run.records.iter().zip(samples) {
        let samples = Samples {
            staleness,
            ..Samples::default()
        };
        all.insert((record.cell.id.clone(), record.repeat), samples);
    }
    let svg = figure_and_svg(&run, "s-staleness").unwrap().1;
    assert!(
        svg.contains("25.00 % with staleness 0; mean 1.5, at most 2"),
        "{svg}"
    );
}

#[test]
fn settings_that_share_staleness_and_devices_are_named() {
    let mut run = empty_run();
    add_training(&mut run, ("8", "4"), &[(Axis::Precision, "32-true")], &[1, 1]);
    add_training(&mut run, ("8", "4"), &[(Axis::Precision, "bf16-mixed")], &[1, 3]);
    let svg = figure_and_svg(&run, "s-staleness").unwrap().1;
    assert!(
        svg.contains("With bf16-mixed · highest and staleness 8 on 4 devices, 25.00 %"),
        "{svg}"
    );
}

#[test]
fn settings_that_differ_only_in_batch_are_named() {
    let mut run = empty_run();
    add_training(&mut run, ("8", "4"), &[], &[1, 1]);
    add_training(&mut run, ("16", "4"), &[], &[1, 3]);
    let svg = figure_and_svg(&run, "s-staleness").unwrap().1;
    let title = "With batch 16 and staleness 8 on 4 devices, 25.00 %";
    assert!(svg.contains(title), "{svg}");
}

#[test]
fn one_setting_without_samples_is_stated() {
    let mut run = empty_run();
    add_training(&mut run, ("8", "4"), &[], &[1, 1]);
    add_training(&mut run, ("4", "8"), &[], &[1; 1_025]);
    let (figure, _) = figure_and_svg(&run, "s-staleness").unwrap();
    let text = "1 setting is not shown: its samples are missing, or its staleness exceeds 1,023.";
    assert!(figure.caption.contains(text), "{}", figure.caption);
}

#[test]
fn oversubscribed_and_unreadable_settings_are_stated() {
    let mut run = run_with_staleness();
    for record in &mut run.records {
        record.fingerprint.cores = 4;
    }
    let mantissa_report::Store::Memory(all) = &mut run.samples else {
        panic!("the run was not written")
    };
    let four = run
        .records
        .iter()
        .filter(|record| record.cell.setting.devices() == 4);
    for (record, staleness) in four.zip([vec![], vec![1; 5_000]]) {
        let key = (record.cell.id.clone(), record.repeat);
        all.get_mut(&key).unwrap().staleness = staleness;
    }
    let (figure, svg) = figure_and_svg(&run, "s-staleness").unwrap();
    assert!(
        svg.contains("batch 4 · devices 8 · staleness 8 · oversubscribed"),
        "{svg}"
    );
    for text in [
        "2 settings are not shown: their samples are missing, or their staleness exceeds 1,023.",
        "Oversubscribed: more threads than cores",
    ] {
        assert!(figure.caption.contains(text), "{}", figure.caption);
    }
}

#[test]
fn hostile_counts_are_drawn() {
    let mut run = empty_run();
    add_training(&mut run, ("8", "4"), &[], &[1, 1]);
    let mantissa_report::Store::Memory(all) = &mut run.samples else {
        panic!("the run was not written")
    };
    all.values_mut()
        .for_each(|samples| samples.staleness = vec![u64::MAX; 1_024]);
    assert!(figure_and_svg(&run, "s-staleness").is_some());
}

#[test]
fn other_trainings_have_no_figure() {
    let run = crate::scaling::run_with_several_devices();
    assert!(figure_and_svg(&run, "s-staleness").is_none());
}

#[test]
fn figure_of_a_run_folder_is_that_of_the_run() {
    let mut run = run_with_staleness();
    for (index, record) in run.records.iter_mut().enumerate() {
        record.samples = Some(format!("cells/{index}/0-0"));
    }
    let (_keep, folder) = write_run_folder(&run);
    let mantissa_report::Store::Memory(all) = &run.samples else {
        panic!("the run was not written")
    };
    for record in &run.records {
        let samples = &all[&(record.cell.id.clone(), record.repeat)];
        write_samples(&folder.join(record.samples.as_ref().unwrap()), samples);
    }
    let loaded = load(&folder).unwrap();
    let shown = |run: &Run| {
        let figures = figures(&Report::new(run).unwrap());
        let figure = figures.iter().find(|figure| figure.id == "s-staleness")?;
        Some((figure.canvas.svg().unwrap(), figure.caption.clone()))
    };
    assert!(shown(&loaded).is_some());
    assert_eq!(shown(&loaded), shown(&run));
}
