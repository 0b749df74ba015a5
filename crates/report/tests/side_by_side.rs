//! Tests of reports on several runs.

use std::{fs, path::Path};

use crate::support::{RunBuilder, article, cell, invented, record, run, suite, train_metrics, workload};
use mantissa_core::{
    Axis, Cell, ExecutedVerdict, Metric, MetricName, Model, Samples, Series, SeriesName, Status, Task,
};
use mantissa_report::{MAX_RUNS, Run, load_side_by_side, render_side_by_side};

/// Creates a run of one workload with a cell for each precision and a process for each time.
fn run_with_times(name: &str, precisions: &[(&str, &[f64])]) -> Run {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Precision])]);
    run.name = name.into();
    for (precision, times) in precisions {
        let cell = cell("s", &workload("w"), &[(Axis::Precision, precision)]);
        run.plan(&cell, None);
        for (repeat, seconds) in times.iter().enumerate() {
            let mut record = record(&cell, Status::Ok, None);
            record.repeat = repeat as u32;
            train_metrics(&mut record, *seconds, 800, 1e9);
            run.measured(record, None);
        }
    }
    run
}

/// Renders the runs and returns the summary and the page.
fn render_runs(runs: &[Run]) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let rendered = render_side_by_side(runs, folder.path()).unwrap();
    assert!(rendered.files.iter().all(|path| path.exists()));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    (read("side-by-side.md"), read("side-by-side.html"))
}

const FIVE: [f64; 5] = [10.0, 10.1, 10.2, 9.9, 9.8];

#[test]
fn speed_ratios_of_five_processes_have_an_interval() {
    let half = FIVE.map(|seconds| seconds / 2.0);
    let runs = [
        run_with_times("one", &[("32-true", &FIVE), ("bf16-true", &FIVE)]),
        run_with_times("two", &[("bf16-true", &FIVE), ("32-true", &half)]),
    ];
    let (summary, page) = render_runs(&runs);
    // The bounds of the interval are the third smallest and third largest of the 5 × 5 ratios: 2 × 9.9/10.2 and 2 × 10.2/9.9.
    let line = |precision: &str| {
        let start = format!("| {precision} |");
        let found = summary.lines().find(|line| line.starts_with(&start));
        found.unwrap_or_else(|| panic!("{summary}")).to_owned()
    };
    assert!(
        line("32-true").contains("2.00× (1.94–2.06 · faster)"),
        "{summary}"
    );
    assert!(line("bf16-true").contains("1.00× ("), "{summary}");
    assert!(!line("bf16-true").contains("faster"), "{summary}");
    let median = "B is 1.50× as fast as A in the median of 2 settings (1.00× to 2.00×)";
    assert!(summary.contains(median), "{summary}");
    for text in ["regressed", "improved"] {
        assert!(!summary.contains(text) && !page.contains(text), "{text}");
    }
}

/// Creates a training of one process per precision, with the losses of its steps.
fn run_with_losses(name: &str, losses: &[(&str, &[Option<f64>])]) -> Run {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Precision])]);
    run.name = name.into();
    for (precision, losses) in losses {
        let cell = cell("s", &workload("w"), &[(Axis::Precision, precision)]);
        add_losses(&mut run, &cell, losses);
    }
    run
}

/// Adds a process of a cell with the losses of its steps.
fn add_losses(run: &mut Run, cell: &Cell, losses: &[Option<f64>]) {
    run.plan(cell, None);
    let mut series = Series::new(SeriesName::TrainLoss);
    for (step, loss) in (1u32..).zip(losses) {
        series.x.push(step.into());
        series.y.push(*loss);
    }
    let mut record = record(cell, Status::Ok, None);
    train_metrics(&mut record, 10.0, 800, 1e9);
    let samples = Samples {
        series: vec![series],
        ..Samples::default()
    };
    run.measured(record, Some(samples));
}

/// Returns the sentences about losses in the report of two runs.
fn loss_sentences(runs: &[Run; 2]) -> Vec<String> {
    let (summary, page) = render_runs(runs);
    let sentences = summary.lines().flat_map(|line| line.split_inclusive(". "));
    let of_losses = sentences
        .map(|sentence| sentence.trim().to_owned())
        .filter(|sentence| sentence.to_lowercase().contains("loss"));
    let of_losses: Vec<String> = of_losses.collect();
    for sentence in &of_losses {
        assert!(page.contains(sentence.as_str()), "{sentence}");
    }
    of_losses
}

#[test]
fn loss_differences_are_reported_by_precision() {
    let sentences = |theirs: &[Option<f64>], mine: &[Option<f64>]| {
        let first: Vec<Option<f64>> = (1..=30).map(|step| Some(1.0 / f64::from(step))).collect();
        let here = run_with_losses("one", &[("32-true", &first), ("bf16-mixed", theirs)]);
        let there = run_with_losses("two", &[("32-true", &first), ("bf16-mixed", mine)]);
        loss_sentences(&[here, there])
    };
    // The losses of the third step differ by 1/256 of the larger one. The large difference at step 21 is not compared.
    let mut mine = [Some(2.0); 30];
    (mine[2], mine[20]) = (Some(2.0 - 2.0 / 256.0), Some(9.0));
    assert_eq!(
        sentences(&[Some(2.0); 30], &mine),
        [
            "Losses of B and A differ by at most 0 (32-true), 3.91×10⁻³ (bf16-mixed) in the first 20 steps, relative to the larger one."
        ]
    );
    // Relative to the larger loss, a zero loss differs from a nonzero one by 1 and not by infinity.
    assert_eq!(
        sentences(&[Some(0.0), Some(0.0)], &[Some(0.5), Some(0.0)]),
        [
            "Losses of B and A differ by at most 0 (32-true), 1.00 (bf16-mixed) in the first 2 to 20 steps, relative to the larger one."
        ]
    );
    // Steps after a non-finite loss are not compared. A loss that is non-finite in only one run is reported.
    let lost = [Some(2.0), Some(2.0), None, Some(4.0)];
    let differences = "Losses of B and A differ by at most 0 (32-true), 0 (bf16-mixed) in the first 2 to 20 steps, relative to the larger one.";
    let lost_in = |one: char, other: char| {
        format!("At step 3 of bf16-mixed the loss of {other} is finite and that of {one} is not.")
    };
    assert_eq!(sentences(&lost, &mine), [differences, &lost_in('A', 'B')]);
    assert_eq!(sentences(&mine, &lost), [differences, &lost_in('B', 'A')]);
    assert_eq!(sentences(&lost, &lost), [differences]);
}

#[test]
fn loss_differences_are_reported_by_matmul_precision() {
    let run_of = |name: &str, losses: [f64; 2]| {
        let mut run = run_with_losses(name, &[]);
        for (matmul, loss) in ["high", "highest"].into_iter().zip(losses) {
            let settings = [(Axis::Precision, "32-true"), (Axis::Matmul, matmul)];
            add_losses(&mut run, &cell("s", &workload("w"), &settings), &[Some(loss)]);
        }
        run
    };
    assert_eq!(
        loss_sentences(&[run_of("one", [1.0, 1.0]), run_of("two", [0.75, 1.0])]),
        [
            "Losses of B and A differ by at most 2.50×10⁻¹ (32-true · high), 0 (32-true · highest) in the first step, relative to the larger one."
        ]
    );
}

#[test]
fn losses_with_dropout_of_different_frameworks_are_not_compared() {
    let sentences_with = |dropout: f64| {
        let mut workload = workload("w");
        if let Task::Train(task) = &mut workload.task
            && let Model::Distilbert(size) = &mut task.model
        {
            (size.dropout, size.attention_dropout, size.seq_classif_dropout) = (0.0, 0.0, dropout);
        }
        let run_of = |peer: Option<&str>, loss| {
            let mut run = run_with_losses(peer.unwrap_or("burn"), &[]);
            run.environment.fingerprint.peer = peer.map(str::to_owned);
            let cell = cell("s", &workload, &[(Axis::Precision, "32-true")]);
            add_losses(&mut run, &cell, &[Some(loss)]);
            run
        };
        loss_sentences(&[run_of(None, 1.0), run_of(Some("PyTorch 2.15.0"), 0.5)])
    };
    assert_eq!(
        sentences_with(0.0),
        [
            "Losses of B and A differ by at most 5.00×10⁻¹ (32-true) in the first step, relative to the larger one."
        ]
    );
    assert_eq!(
        sentences_with(0.2),
        ["Losses of 1 setting are not compared: dropout may zero different values in B and A."]
    );
}

#[test]
fn losses_with_dropout_are_compared_if_the_masks_are_equal() {
    let sentence = |masks: [Option<&str>; 2], backends: [&str; 2]| {
        let runs = [0, 1].map(|index| {
            let mut run = run_with_losses(["one", "two"][index], &[]);
            run.environment.fingerprint.dropout_masks = masks[index].map(str::to_owned);
            let axes = [(Axis::Precision, "32-true"), (Axis::Backend, backends[index])];
            add_losses(&mut run, &cell("s", &workload("w"), &axes), &[Some(1.0)]);
            run
        });
        loss_sentences(&runs).concat()
    };
    let hash = Some("pcg4d");
    let is_compared = |masks, backends| !sentence(masks, backends).contains("not compared");
    assert!(is_compared([hash; 2], ["flex", "cuda"]));
    assert!(is_compared([None; 2], ["flex", "flex"]));
    assert!(!is_compared([None; 2], ["flex", "cuda"]));
    assert!(!is_compared([hash, None], ["flex", "flex"]));
    assert!(!is_compared([hash, Some("another")], ["flex", "flex"]));
}

#[test]
fn three_processes_are_too_few_for_an_interval() {
    let slow = [20.0, 21.0, 22.0];
    let runs = [
        run_with_times("one", &[("32-true", &FIVE[..3])]),
        run_with_times("two", &[("32-true", &slow)]),
    ];
    let (summary, _) = render_runs(&runs);
    assert!(summary.contains("0.48× (too few processes)"), "{summary}");
    assert!(
        summary.contains("1 comparison needs 4 from each run"),
        "{summary}"
    );
}

#[test]
fn settings_are_matched_across_backends() {
    let runs = [
        run_with_times("cpu", &[("32-true", &FIVE)]),
        run_with_times("gpu", &[("32-true", &FIVE)]),
    ];
    let [cpu, mut gpu] = runs;
    for (axis, value) in [(Axis::Backend, "cuda"), (Axis::Fusion, "on")] {
        let value = axis.parse(value).unwrap();
        for planned in &mut gpu.plan.cells {
            planned.cell.setting.set(axis, value.clone()).unwrap();
        }
        for record in &mut gpu.records {
            record.cell.setting.set(axis, value.clone()).unwrap();
        }
    }
    gpu.environment.backend = mantissa_core::Backend::Cuda;
    let (summary, page) = render_runs(&[cpu, gpu]);
    assert!(
        summary.contains("**The backends differ.** They differ in: Backend."),
        "{summary}"
    );
    assert!(summary.contains("| Backend | flex | cuda |"), "{summary}");
    assert!(summary.contains("is not a regression") && page.contains("is not a regression"));
    assert!(
        summary.contains("Same in all runs: Profile smoke; CPU Invented CPU 9000;"),
        "{summary}"
    );
    assert!(summary.contains("1.00× ("), "{summary}");
}

#[test]
fn different_work_and_different_data_have_no_ratio() {
    let one = || run_with_times("one", &[("32-true", &FIVE)]);
    let mut longer = run_with_times("longer", &[("32-true", &FIVE)]);
    for cell in longer
        .plan
        .cells
        .iter_mut()
        .map(|planned| &mut planned.cell)
        .chain(longer.records.iter_mut().map(|record| &mut record.cell))
    {
        if let Task::Train(task) = &mut cell.workload.task {
            task.epochs = 7;
        }
    }
    let mut elsewhere = run_with_times("elsewhere", &[("32-true", &FIVE)]);
    for record in &mut elsewhere.records {
        record.data.as_mut().unwrap().hash = "ffff".into();
    }
    let (summary, _) = render_runs(&[one(), longer, elsewhere]);
    assert!(
        summary.contains("different work: \\`epochs\\` is 2 in A, 7 in B"),
        "{summary}"
    );
    assert!(
        summary.contains("different data: synthetic reviews, seed 1 (blake3 00112233445566aa) in A"),
        "{summary}"
    );
    assert!(!summary.contains("× ("), "a ratio is shown: {summary}");
    assert!(summary.contains("nothing can be compared"), "{summary}");
}

#[test]
fn another_executed_precision_is_flagged_next_to_its_ratio() {
    let set_executed = |run: &mut Run, bits: u32, verdict| {
        for record in &mut run.records {
            record.executed.operand_bits = Some(bits);
            record.executed.exponent_bits = Some(8);
            record.executed.accumulator = Some("f32".into());
            record.executed.verdict = verdict;
        }
    };
    let [mut one, mut two] = [
        run_with_times("one", &[("32-true", &FIVE)]),
        run_with_times("two", &[("32-true", &FIVE)]),
    ];
    set_executed(&mut one, 24, ExecutedVerdict::AsRequested);
    set_executed(&mut two, 11, ExecutedVerdict::Differs);
    let (summary, page) = render_runs(&[one, two]);
    assert!(
        summary.contains("B executed tf32 → f32, A f32 → f32"),
        "{summary}"
    );
    assert!(summary.contains("another precision)"), "{summary}");
    assert!(page.contains("In 1 setting B executed another precision than A"));
}

#[test]
fn unmatched_and_failed_settings_are_listed_with_reasons() {
    let one = run_with_times("one", &[("32-true", &FIVE), ("bf16-true", &FIVE)]);
    let mut two = run_with_times("two", &[("32-true", &FIVE), ("16-true", &FIVE)]);
    two.records[0].status = Status::Oom;
    two.records[0].reason = Some("no memory left".into());
    let (summary, _) = render_runs(&[one, two]);
    assert!(
        summary.contains("- w bf16-true: only in A (not in B)"),
        "{summary}"
    );
    assert!(summary.contains("- w 16-true: only in B (not in A)"), "{summary}");
    assert!(
        summary.contains("B oom: 4 of 5 repeats ok; no memory left"),
        "{summary}"
    );
    assert!(summary.contains("nothing can be compared"), "{summary}");
}

#[test]
fn copied_runs_and_records_of_other_machines_are_reported() {
    let mut moved = run_with_times("moved", &[("32-true", &FIVE)]);
    moved.records[1].fingerprint.cpu = Some("Another CPU".into());
    let (summary, _) = render_runs(&[
        run_with_times("one", &[("32-true", &FIVE)]),
        run_with_times("copy", &[("32-true", &FIVE)]),
        moved,
    ]);
    assert!(summary.contains("A and B contain the same records."), "{summary}");
    assert!(!summary.contains("and C contain the same"), "{summary}");
    assert!(
        summary.contains("C was not recorded in one environment.** 1 of 5 records"),
        "{summary}"
    );
}

#[test]
fn missing_values_have_no_ratio() {
    let mut one = invented();
    let two = invented();
    for record in &mut one.records {
        for metric in record.metrics.values_mut() {
            (metric.value, metric.low, metric.high, metric.n) = (None, None, None, None);
        }
    }
    for runs in [[one.clone(), two.clone()], [two, one]] {
        let (summary, page) = render_runs(&runs);
        for text in ["NaN", "inf", "× ("] {
            assert!(!summary.contains(text), "{text}: {summary}");
        }
        assert!(!page.contains("NaN"));
    }
    let mut zero = run_with_times("zero", &[("32-true", &FIVE)]);
    for record in &mut zero.records {
        let metric = Metric::reading(MetricName::TrainSeconds, 0.0, "invented");
        record.metrics.insert(MetricName::TrainSeconds, metric);
    }
    let (summary, _) = render_runs(&[run_with_times("one", &[("32-true", &FIVE)]), zero]);
    assert!(summary.contains("– (no ratio)"), "{summary}");
}

#[test]
fn hostile_names_are_escaped_side_by_side() {
    let hostile = "<script>alert(1)</script>\"'|`*_&";
    let one = || {
        let mut run = run(vec![suite("article", hostile, &[], &[Axis::Precision])]);
        run.name = hostile.into();
        run.environment.fingerprint.cpu = Some(hostile.into());
        run.environment.command = vec![hostile.into()];
        article(&mut run, &workload(hostile));
        run.records[0].status = Status::Failed;
        run.records[0].reason = Some(hostile.into());
        run
    };
    let mut other = one();
    other.environment.fingerprint.os = hostile.into();
    let (summary, page) = render_runs(&[one(), other]);
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
    assert!(!summary.contains("<script>"));
    let rows = summary.lines().filter(|line| line.starts_with("| ")).count();
    assert_eq!(rows, 3 + 2 + 13, "a name added rows");
    for loading in ["src=", "@import", "<link", "<iframe", "fetch("] {
        assert!(!page.contains(loading), "{loading}");
    }
}

#[test]
fn rendering_is_deterministic() {
    let runs = [invented(), invented()];
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, second] = folders.each_ref().map(|folder| {
        let rendered = render_side_by_side(&runs, folder.path()).unwrap();
        assert_eq!(rendered.html, folder.path().join("side-by-side.html"));
        let named = |path: &std::path::PathBuf| {
            let name = path.strip_prefix(folder.path()).unwrap().to_owned();
            (name, fs::read(path).unwrap())
        };
        rendered.files.iter().map(named).collect::<Vec<_>>()
    });
    assert_eq!(
        first.len(),
        2 + 3 * 3,
        "a summary, a page, and three figures as SVG, PNG and CSV"
    );
    assert!(first == second);
}

#[test]
fn runs_that_cannot_be_compared_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, run: &Run| {
        let path = folder.path().join(name);
        write_run(&path, run);
        path
    };
    let one = write("one", &run_with_times("one", &[("32-true", &FIVE)]));
    let two = write("two", &run_with_times("two", &[("32-true", &FIVE)]));
    let mut newer = run_with_times("newer", &[("32-true", &FIVE)]);
    newer.environment.schema = 99;
    let newer = write("newer", &newer);
    let error = |folders: &[std::path::PathBuf]| load_side_by_side(folders).unwrap_err().to_string();
    assert!(
        error(std::slice::from_ref(&one)).starts_with("`--side-by-side` needs at least two runs\n  hint: ")
    );
    assert!(error(&vec![one.clone(); MAX_RUNS + 1]).contains("cannot show 9 runs side by side"));
    let again = folder.path().join("two/../one");
    assert!(error(&[one.clone(), two.clone(), again]).contains("one` is given twice"));
    assert!(error(&[one.clone(), newer]).contains("schema 99"));
    assert!(error(&[one.clone(), folder.path().join("gone")]).contains("does not exist"));
    let runs = load_side_by_side(&[one, two]).unwrap();
    assert_eq!((runs[0].name.as_str(), runs[1].name.as_str()), ("one", "two"));

    let out = folder.path().join("out");
    let others = [
        run_with_times("one", &[("32-true", &FIVE)]),
        run_with_times("two", &[("bf16-true", &FIVE)]),
    ];
    let error = render_side_by_side(&others, &out).unwrap_err().to_string();
    assert!(
        error.starts_with("the runs have no cell in common\n  hint: "),
        "{error}"
    );
    assert!(!out.exists(), "a folder was created");
}

fn write_run(folder: &Path, run: &Run) {
    fs::create_dir_all(folder).unwrap();
    let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    write(
        "environment.json",
        serde_json::to_string(&run.environment).unwrap(),
    );
    write("plan.json", serde_json::to_string(&run.plan).unwrap());
    let lines = run.records.iter();
    let lines = lines.map(|record| serde_json::to_string(record).unwrap() + "\n");
    write("records.jsonl", lines.collect());
}
