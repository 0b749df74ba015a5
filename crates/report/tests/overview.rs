//! Tests of the overview of a run with several suites: its numbers, its links, its files and its size.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use mantissa_core::{Axis, Cell, Metric, MetricName, Status, SuiteInfo};
use mantissa_report::{
    Budget, EstimateRecord, Report, Row, Run, advise, escape_markdown, html, markdown, render,
    render_single_file, terminal_overview,
};

use crate::advice::{FIVE, samples_with_errors};
use crate::support::{
    RunBuilder, accumulation, cell, invented, kernels, matmul, record, run, suite, train_metrics, workload,
};

/// Processes of a setting in seconds, wrong predictions of 1,000 and bytes.
type Training<'t> = (&'t [(Axis, &'t str)], f64, usize, f64);

fn info(name: &str) -> SuiteInfo {
    suite(
        name,
        &format!("Title of {name}"),
        &[],
        &[Axis::Precision, Axis::Matmul],
    )
}

/// Adds `processes` of each setting of a training, with slightly different times.
fn add_trainings(run: &mut Run, name: &str, settings: &[Training<'_>], processes: usize) {
    for (axes, seconds, wrong, bytes) in settings {
        let cell = cell(name, &workload(&format!("{name}-model")), axes);
        run.plan(&cell, None);
        for (repeat, factor) in (0..).zip(&FIVE[..processes]) {
            let mut record = record(&cell, Status::Ok, None);
            train_metrics(&mut record, seconds * factor, 1000 - *wrong as u64, *bytes);
            record.repeat = repeat;
            run.measured(record, Some(samples_with_errors(*wrong)));
        }
    }
}

const F32: &[(Axis, &str)] = &[(Axis::Precision, "32-true")];
const F32_HIGH: &[(Axis, &str)] = &[(Axis::Precision, "32-true"), (Axis::Matmul, "high")];
const BF16: &[(Axis, &str)] = &[(Axis::Precision, "bf16-mixed")];

/// Returns a run with a training whose fastest setting with the same accuracy is shown to be faster, matmuls that were measured once, and
/// gradient accumulation, which does not vary the format.
fn three_suites() -> Run {
    let mut run = run(vec![info("training"), info("kernels"), info("accumulation")]);
    let settings: [Training<'_>; 3] = [
        (F32, 10.0, 100, 4e9),
        (F32_HIGH, 5.0, 104, 4e9),
        (BF16, 4.0, 200, 2e9),
    ];
    add_trainings(&mut run, "training", &settings, 5);
    kernels(&mut run);
    accumulation(&mut run, &workload("model"));
    run
}

/// Returns the fields of the line of a Markdown table that begins with `first`.
fn fields<'t>(text: &'t str, first: &str) -> Vec<&'t str> {
    let mut lines = text.lines();
    let line = lines.find(|line| line.starts_with(&format!("| {first} |")));
    let line = line.unwrap_or_else(|| panic!("no line {first}: {text}"));
    line.trim_matches(['|', ' ']).split(" | ").collect()
}

fn ratio(estimate: &EstimateRecord) -> String {
    match (estimate.low.zip(estimate.high), estimate.n) {
        (Some((low, high)), _) => format!("{:.2}× ({low:.2}–{high:.2})", estimate.value),
        (None, 1) => format!("{:.2}× (measured once)", estimate.value),
        (None, n) => format!("{:.2}× ({n} processes)", estimate.value),
    }
}

/// Formats a loss of accuracy as a change in points, with a minus sign and the decimals of a narrow or wide interval.
fn change(loss: &EstimateRecord) -> String {
    let (low, high) = loss.low.zip(loss.high).unwrap();
    let decimals = if 100.0 * (high - low) < 1.0 { 2 } else { 1 };
    let points = |share: f64| format!("{:.decimals$}", -100.0 * share).replace('-', "−");
    format!("{} ({} to {})", points(loss.value), points(high), points(low))
}

#[test]
fn the_effect_of_a_suite_is_the_comparison_that_the_advice_is_based_on() {
    let run = three_suites();
    let report = Report::new(&run).unwrap();
    let summary = markdown(&report);
    let advice = advise(&report, &Budget::default());
    let training = &advice.workloads[0].choices[0];
    assert_eq!(training.chosen.as_deref(), Some("32-true · high"));
    let chosen = training
        .evidence
        .iter()
        .find(|one| one.setting == "32-true · high");
    let chosen = chosen.unwrap();
    let line = fields(&summary, "[training](suites/training.html)");
    assert_eq!(line[2], "Use 32-true · high.");
    let loss = change(chosen.accuracy_loss.as_ref().unwrap()).replacen(" (", " points (", 1);
    let effect = format!(
        "{}, {} process memory, accuracy {loss}, one seed",
        ratio(chosen.speed.as_ref().unwrap()),
        ratio(chosen.memory.as_ref().unwrap()),
    );
    assert_eq!(line[3..], [effect.as_str(), "repeated"]);

    let kernels = &report.suites[1].groups[0];
    let fastest = kernels.rows.iter().filter(|row| row.axis(Axis::Size) == "1024");
    let fastest = fastest.max_by(|a, b| speed(a).total_cmp(&speed(b))).unwrap();
    let error = fastest.metric(MetricName::RelativeError).unwrap().value;
    let line = fields(&summary, "[kernels](suites/kernels.html)");
    assert_eq!(fastest.axis(Axis::Precision), "bf16-true");
    assert_eq!(
        line[2],
        "size 1024: bf16-true ran fastest, not shown to be faster."
    );
    let effect = format!("{:.2}×, relative error {}", speed(fastest), mantissa_text(error));
    assert!(line[3].starts_with(&effect), "{line:?}");
    assert_eq!(line[4], "measured once");
    // The baseline is kept, and no other setting is within the budget: the effect is that of the fastest other setting.
    let line = fields(&summary, "[accumulation](suites/accumulation.html)");
    let rows = report.suites[2].groups[0].rows.iter().skip(1);
    let other = rows.max_by(|a, b| speed(a).total_cmp(&speed(b))).unwrap();
    assert_eq!(line[2], "Keep accumulate 1 · batch 16.", "{line:?}");
    let effect = format!(
        "accumulate 2 · batch 8, {:.2}×, {:.2}× process memory",
        speed(other),
        memory(other)
    );
    assert!(line[3].starts_with(&effect), "{line:?}");
}

/// Formats the digits of a number in scientific notation: `2.30×10`.
fn mantissa_text(value: f64) -> String {
    let text = format!("{value:.2e}");
    format!("{}×10", text.split_once('e').unwrap().0)
}

fn speed(row: &Row<'_>) -> f64 {
    row.speed_up.as_ref().unwrap().value
}

fn memory(row: &Row<'_>) -> f64 {
    row.memory_ratio.as_ref().unwrap().value
}

#[test]
fn the_matrix_has_the_values_of_the_rows_of_one_workload_per_column() {
    let run = three_suites();
    let report = Report::new(&run).unwrap();
    let summary = markdown(&report);
    let titles = fields(&summary, "setting | matmul error");
    assert_eq!(
        titles,
        [
            "setting",
            "matmul error",
            "matmul speed",
            "training speed",
            "process memory",
            "accuracy change"
        ]
    );
    assert!(summary.contains(
        "matmul speed: matmul of kernels, size 1024; training speed: training-model of training; "
    ));
    let (trainings, kernels) = (&report.suites[0].groups[0], &report.suites[1].groups[0]);
    let row = |rows: &[Row<'_>], precision: &str, matmul: &str, size: &str| -> Option<usize> {
        rows.iter().position(|row| {
            (row.axis(Axis::Precision), row.axis(Axis::Matmul)) == (precision.into(), matmul.into())
                && (size.is_empty() || row.axis(Axis::Size) == size)
        })
    };
    let evidence = &advise(&report, &Budget::default()).workloads[0].choices[0].evidence;
    let settings = [
        ("64-true", "64-true", "highest"),
        ("32-true · highest", "32-true", "highest"),
        ("32-true · high", "32-true", "high"),
        ("32-true · medium", "32-true", "medium"),
        ("bf16-mixed · highest", "bf16-mixed", "highest"),
        ("16-true", "16-true", "highest"),
        ("bf16-true", "bf16-true", "highest"),
    ];
    let lines = summary
        .lines()
        .skip_while(|line| !line.starts_with("| setting |"));
    assert_eq!(
        lines.skip(2).take_while(|line| !line.is_empty()).count(),
        settings.len()
    );
    for (label, precision, matmul) in settings {
        let line = fields(&summary, label);
        match row(&kernels.rows, precision, matmul, "1024").map(|index| &kernels.rows[index]) {
            None => assert_eq!(line[1..3], ["–", "–"], "{label}"),
            Some(row) => {
                let error = row.metric(MetricName::RelativeError).unwrap().value;
                let error = if error == 0.0 {
                    "0".to_owned()
                } else {
                    mantissa_text(error)
                };
                assert!(line[1].starts_with(&error), "{line:?}");
                let speed = match label {
                    "32-true · highest" => {
                        let rate = row.metric(MetricName::FlopsPerSecond).unwrap().value;
                        format!("{:.1} GFLOP/s", rate / 1e9)
                    }
                    _ => format!("{:.2}× (measured once)", speed(row)),
                };
                assert_eq!(line[2], speed);
            }
        }
        let Some(row) = row(&trainings.rows, precision, matmul, "").map(|index| &trainings.rows[index])
        else {
            assert_eq!(line[3..], ["–", "–", "–"], "{label}");
            continue;
        };
        let one = evidence
            .iter()
            .find(|one| one.cells.contains(&row.cell.id))
            .unwrap();
        if one.baseline {
            assert_eq!(line[3..], ["10.00 s", "4.00 GB", "baseline"]);
            continue;
        }
        let expected = [
            ratio(one.speed.as_ref().unwrap()),
            ratio(one.memory.as_ref().unwrap()),
            format!("{}, one seed", change(one.accuracy_loss.as_ref().unwrap())),
        ];
        assert_eq!(line[3..], expected);
    }
    // The page has the same values.
    let page = decoded(&html(&report, &[]).unwrap());
    for label in ["32-true · high", "bf16-mixed · highest"] {
        for value in fields(&summary, label)[1..].iter().filter(|value| **value != "–") {
            assert!(
                page.contains(&format!("<td class=\"right\">{value}</td>")),
                "{value}"
            );
        }
    }
}

#[test]
fn accuracy_changes_over_several_seeds_are_not_marked_in_the_matrix() {
    let mut run = three_suites();
    let change = |run: &Run| {
        let summary = markdown(&Report::new(run).unwrap());
        fields(&summary, "bf16-mixed · highest")[5].to_owned()
    };
    assert!(change(&run).ends_with(", one seed"));
    for (axes, wrong) in [(F32, 100), (F32_HIGH, 104), (BF16, 200)] {
        let first = cell("training", &workload("training-model"), axes);
        let second = Cell::new("training", first.workload, first.setting, first.seed + 1);
        let mut record = record(&second, Status::Ok, None);
        train_metrics(&mut record, 10.0, 1000 - wrong as u64, 4e9);
        run.add(record, Some(samples_with_errors(wrong)));
    }
    let change = change(&run);
    assert!(change.starts_with('−') && !change.contains("seed"), "{change}");
}

#[test]
fn settings_that_differ_in_another_axis_are_not_in_the_matrix() {
    let mut run = three_suites();
    let of_batch = |batch| [(Axis::Precision, "bf16-true"), (Axis::Batch, batch)];
    let (same, small) = (of_batch("8"), of_batch("2"));
    let training = |run: &Run| fields(&markdown(&Report::new(run).unwrap()), "bf16-true")[3..].join(" ");
    add_trainings(&mut run, "training", &[(&small, 1.0, 100, 1e9)], 5);
    assert_eq!(training(&run), "– – –");
    // With the batch of the baseline, the same setting is in the matrix.
    add_trainings(&mut run, "training", &[(&same, 2.5, 100, 1e9)], 5);
    assert!(training(&run).starts_with("4.00× ("), "{}", training(&run));
}

#[test]
fn advice_on_the_format_counts_suites_and_names_the_certainty() {
    let mut run = three_suites();
    let once: [Training<'_>; 2] = [(F32, 10.0, 100, 4e9), (BF16, 5.0, 100, 2e9)];
    let settings: [Training<'_>; 3] = [
        (F32, 10.0, 100, 4e9),
        (F32_HIGH, 5.0, 104, 4e9),
        (BF16, 20.0, 200, 2e9),
    ];
    let advice = |run: &Run| {
        let summary = markdown(&Report::new(run).unwrap());
        let line = summary.lines().find(|line| line.starts_with("- **Training**"));
        line.unwrap().to_owned()
    };
    let one = advice(&run);
    assert!(one.contains("Use 32-true · high: 2.00× ("), "{one}");
    assert!(
        one.contains(" as fast as 32-true · highest, ") && one.ends_with("(repeated)"),
        "{one}"
    );
    run.plan.suites.extend([info("second"), info("third")]);
    add_trainings(&mut run, "second", &settings, 5);
    add_trainings(&mut run, "third", &once, 1);
    assert_eq!(
        advice(&run),
        "- **Training**: Use 32-true · high (2 suites); bf16-mixed · highest ran fastest, undecided (1). (2 repeated, 1 measured once)"
    );
}

#[test]
fn launch_bound_and_unfinished_suites_are_not_ranked() {
    let mut run = run(vec![info("bound"), info("failed")]);
    add_trainings(
        &mut run,
        "bound",
        &[(F32, 10.0, 100, 4e9), (BF16, 5.0, 100, 2e9)],
        5,
    );
    for record in &mut run.records {
        for (metric, value) in [
            (MetricName::LaunchesPerStep, 1064.0),
            (MetricName::DeviceIdleShare, 0.9),
        ] {
            record
                .metrics
                .insert(metric, Metric::reading(metric, value, "invented"));
        }
    }
    let failed = cell("failed", &workload("failed-model"), F32);
    run.add(record(&failed, Status::Failed, Some("no luck")), None);
    let summary = markdown(&Report::new(&run).unwrap());
    let line = fields(&summary, "[bound](suites/bound.html)");
    assert!(line[2].starts_with("Launch-bound: "), "{line:?}");
    assert_eq!(line[3..], ["", "repeated"]);
    assert!(
        summary.contains("bound-model of bound, launch-bound"),
        "{summary}"
    );
    let line = fields(&summary, "[failed](suites/failed.html)");
    assert_eq!(line[2..], ["No cell finished.", "", "not measured"]);
}

/// Returns a run with many suites, each with two settings in five processes.
fn run_of(suites: usize) -> Run {
    let names: Vec<String> = (0..suites)
        .map(|index| format!("a-suite-with-a-long-name-{index}"))
        .collect();
    let mut run = run(names.iter().map(|name| info(name)).collect());
    for name in &names {
        add_trainings(&mut run, name, &[(F32, 10.0, 100, 4e9), (BF16, 5.0, 100, 2e9)], 5);
    }
    let first = &names[0];
    for precision in ["64-true", "16-mixed", "bf16-true", "16-true"] {
        let matmuls: &[&str] = if precision == "16-mixed" {
            &["highest", "high", "medium"]
        } else {
            &["highest"]
        };
        for matmul in matmuls {
            let axes = [(Axis::Precision, precision), (Axis::Matmul, *matmul)];
            add_trainings(&mut run, first, &[(&axes, 7.0, 100, 2e9)], 1);
        }
    }
    run
}

#[test]
fn the_terminal_shows_at_most_39_lines_of_80_characters() {
    for suites in [2, 16, 60] {
        let run = run_of(suites);
        let text = terminal_overview(&Report::new(&run).unwrap(), 80);
        assert!(text.lines().count() <= 39, "{}: {text}", text.lines().count());
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(
            text.contains("Use bf16-mixed") && text.contains("2.00×"),
            "{text}"
        );
        assert_eq!(text.matches("repeated").count() > 15, suites >= 16, "{text}");
    }
    let text = terminal_overview(&Report::new(&three_suites()).unwrap(), 80);
    // Lines are broken between words instead of cut.
    let unbroken = text.replace("\n  ", " ");
    for whole in [
        "matmul of kernels, size 1024: error (baseline 1.90×10⁻⁷), matmul (baseline 199.2 GFLOP/s)",
        "training-model of training: training (baseline 10.00 s), memory (baseline 4.00 GB), accuracy",
        "2.00× (1.99–2.01) as fast as 32-true · highest, 1.00× (1.00–1.00) process memory, accuracy −0.40 points (−0.88 to 0.08), one seed.",
    ] {
        assert!(unbroken.contains(whole), "{whole}: {text}");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn long_advice_and_many_sources_leave_room_for_suites_and_settings() {
    let mut run = run_of(60);
    let long = "a-workload-with-a-name-that-is-as-long-as-names-of-models-with-their-sizes-and-tokenizers";
    for record in &mut run.records {
        record.cell.workload.name = format!("{long}-{}", record.cell.workload.name);
    }
    for planned in &mut run.plan.cells {
        planned.cell.workload.name = format!("{long}-{}", planned.cell.workload.name);
    }
    for index in 0..4 {
        let name = format!("skipped-{index}");
        run.plan.suites.push(info(&name));
        let reason = format!("a reason that differs, {index}: {}", "and is long ".repeat(30));
        run.plan(&cell(&name, &workload(&name), F32), Some(&reason));
    }
    let text = terminal_overview(&Report::new(&run).unwrap(), 80);
    assert!(text.lines().count() <= 39, "{}: {text}", text.lines().count());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        text.contains("more suites are in the page.") && text.contains("bf16-mixed · highest"),
        "{text}"
    );
}

#[test]
fn suites_without_weights_or_data_are_one_line() {
    let mut run = three_suites();
    let reasons = [
        (
            "a",
            "no weights for `model`: pass `--weights model=PATH`, or `--init random` to measure only times and memory",
        ),
        (
            "b",
            "no weights for `other`: pass `--weights other=PATH`, or `--init random` to measure only times and memory",
        ),
        (
            "c",
            "trained weights cannot be evaluated on `synthetic-images`: pass `--data PATH`, or `--init random`",
        ),
        ("d", "backend `cuda` is not available"),
    ];
    for (name, reason) in reasons {
        run.plan.suites.push(info(name));
        run.plan(&cell(name, &workload(name), F32), Some(reason));
    }
    let report = Report::new(&run).unwrap();
    let page = decoded(&html(&report, &[]).unwrap());
    let line = page
        .lines()
        .find(|line| line.contains("(trained weights are missing: "))
        .unwrap();
    assert!(
        line.contains(">a</a>, <a href=\"#suite-4\">b</a> (trained weights"),
        "{line}"
    );
    assert!(
        line.contains("<code>--weights [WORKLOAD=]PATH</code> (source: page of the suite)"),
        "{line}"
    );
    assert!(page.contains(
        ">c</a> (a data set is missing: pass <code>--data PATH</code> (source: page of the suite));"
    ));
    assert!(page.contains(">d</a> (backend <code>cuda</code> is not available)."));
    assert!(
        page.contains("Suites: 1 repeated, 2 measured once, 4 not measured."),
        "{page}"
    );
    let text = terminal_overview(&report, 200);
    assert!(
        text.contains("\nskipped: a, b (trained weights are missing: pass `--weights"),
        "{text}"
    );
    let summary = markdown(&report);
    assert_eq!(summary.matches("\nSkipped: ").count(), 3, "{summary}");
    assert!(!summary.contains("## Title of b"), "{summary}");
}

const HOSTILE: &str =
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`|*_](x) &amp; </style>\u{1b}[31m\n@all #1";

#[test]
fn hostile_names_are_escaped() {
    let mut run = three_suites();
    for suite in &mut run.plan.suites {
        (suite.title, suite.question) = (HOSTILE.to_owned(), HOSTILE.to_owned());
    }
    run.plan
        .suites
        .extend([info(HOSTILE), info(&format!("{HOSTILE}2"))]);
    let mut hostile = workload(HOSTILE);
    for name in [HOSTILE.to_owned(), format!("{HOSTILE}2")] {
        run.plan(&cell(&name, &hostile, F32), Some(HOSTILE));
    }
    hostile.name = format!("{HOSTILE}-model");
    for (axes, seconds) in [(F32, 9.0), (BF16, 3.0)] {
        let mut record = record(&cell("training", &hostile, axes), Status::Ok, None);
        train_metrics(&mut record, seconds, 900, 1e9);
        run.add(record, None);
    }
    let report = Report::new(&run).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rendered = render(&run, folder.path()).unwrap();
    let pages = rendered
        .files
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "html"));
    for path in pages {
        let page = fs::read_to_string(path).unwrap();
        assert!(
            !page.contains("<script>alert") && !page.contains("<img"),
            "{}",
            path.display()
        );
        assert_eq!(page.matches("</style>").count(), 1, "{}", path.display());
        assert!(path.starts_with(folder.path()) && !path.to_string_lossy().contains(['<', '\n', ' ']));
    }
    let summary = markdown(&report);
    assert!(!summary.contains("<script") && !summary.contains("<img") && !summary.contains("@all"));
    assert!(summary.contains(&escape_markdown(HOSTILE)));
    let text = terminal_overview(&report, 300);
    assert!(
        !text.lines().any(|line| line.contains(char::is_control)),
        "{text:?}"
    );
}

fn names(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        for entry in fs::read_dir(current).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(found.insert(path.strip_prefix(folder).unwrap().display().to_string())),
            }
        }
    }
    found.retain(|name| !name.starts_with("figures/") && name != "results.csv" && name != "summary.md");
    found
}

#[test]
fn several_suites_have_an_overview_and_a_page_each() {
    let folder = tempfile::tempdir().unwrap();
    let run = three_suites();
    let rendered = render(&run, folder.path()).unwrap();
    assert!(rendered.html.ends_with("index.html"));
    let expected = [
        "index.html",
        "suites/accumulation.html",
        "suites/kernels.html",
        "suites/training.html",
    ];
    assert_eq!(names(folder.path()), expected.map(str::to_owned).into());
    let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (index, training) = (page("index.html"), page("suites/training.html"));
    assert!(
        index.contains("Which format should I use on this machine?")
            && !index.contains("<table class=\"results\"")
    );
    assert!(index.contains("id=\"formats\"") && index.contains("id=\"environment\""));
    for page in [&index, &training] {
        assert!(page.contains("These are CPU times."));
    }
    assert!(training.contains("<table class=\"results\"") && !training.contains("id=\"overview\""));
    assert!(decoded(&training).contains("../figures/training-"));
    for record in &run.records {
        let file = format!("suites/{}.html", record.cell.suite);
        assert!(page(&file).contains(record.cell.id.as_str()), "{file}");
    }
    assert!(!training.contains(run.records.last().unwrap().cell.id.as_str()));
    let summary = fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(
        summary.contains("[All tables and figures](suites/training.html)"),
        "{summary}"
    );
}

#[test]
fn one_suite_has_one_page() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = run(vec![info("kernels")]);
    kernels(&mut run);
    assert!(render(&run, folder.path()).unwrap().html.ends_with("report.html"));
    assert_eq!(names(folder.path()), ["report.html".to_owned()].into());
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(!page.contains("id=\"overview\"") && page.contains("id=\"environment\""));
    let summary = fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(
        summary.contains("[All tables and figures](report.html#suite-0)"),
        "{summary}"
    );
    assert!(!summary.contains("| certainty |"), "{summary}");
}

#[test]
fn pages_of_an_earlier_rendering_are_removed_and_other_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let others = [
        "suites/notes.html",
        "suites/kernels.toml",
        "suites/deep/page.html",
        "other.html",
    ];
    fs::create_dir_all(at("suites/deep")).unwrap();
    for name in others {
        fs::write(at(name), "<!doctype html>\n<p>mine</p>").unwrap();
    }
    let with_others = |pages: &[&str]| -> BTreeSet<String> {
        others
            .iter()
            .chain(pages)
            .map(|name| (*name).to_owned())
            .collect()
    };
    let run = three_suites();
    let single = render_single_file(&run, folder.path()).unwrap();
    assert!(single.html.ends_with("report.html"));
    assert_eq!(names(folder.path()), with_others(&["report.html"]));
    let page = fs::read_to_string(&single.html).unwrap();
    assert!(page.contains("id=\"overview\"") && page.contains("id=\"suite-2\""));
    render(&run, folder.path()).unwrap();
    let pages = [
        "index.html",
        "suites/training.html",
        "suites/kernels.html",
        "suites/accumulation.html",
    ];
    assert_eq!(names(folder.path()), with_others(&pages));
    // A run without the last suite.
    let mut two = three_suites();
    two.plan.suites.pop();
    two.plan
        .cells
        .retain(|planned| planned.cell.suite != "accumulation");
    two.records.retain(|record| record.cell.suite != "accumulation");
    render(&two, folder.path()).unwrap();
    assert_eq!(names(folder.path()), with_others(&pages[..3]));
    render_single_file(&run, folder.path()).unwrap();
    assert_eq!(names(folder.path()), with_others(&["report.html"]));
}

#[cfg(unix)]
#[test]
fn stale_pages_are_not_removed_through_symbolic_links() {
    let (folder, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    render(&three_suites(), theirs.path()).unwrap();
    let before = names(theirs.path());
    std::os::unix::fs::symlink(theirs.path().join("suites"), folder.path().join("suites")).unwrap();
    std::os::unix::fs::symlink(theirs.path().join("index.html"), folder.path().join("index.html")).unwrap();
    render_single_file(&three_suites(), folder.path()).unwrap();
    assert_eq!(names(theirs.path()), before);
    assert!(folder.path().join("index.html").is_symlink());
}

/// Replaces the character references of a page by their characters.
fn decoded(page: &str) -> String {
    let references = [
        ("&#x2f;", "/"),
        ("&#x27;", "'"),
        ("&quot;", "\""),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ];
    references
        .iter()
        .fold(page.to_owned(), |page, (reference, text)| {
            page.replace(reference, text)
        })
}

/// Returns the links of a page that do not lead to a web site.
fn links(page: &str) -> Vec<String> {
    let page = decoded(page);
    let values = page.split(" href=\"").skip(1);
    let values = values.map(|rest| rest.split('"').next().unwrap().to_owned());
    values.filter(|link| !link.starts_with("http")).collect()
}

#[test]
fn every_link_leads_to_a_file_and_an_element() {
    let run = invented();
    for single in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let rendered = match single {
            true => render_single_file(&run, folder.path()).unwrap(),
            false => render(&run, folder.path()).unwrap(),
        };
        let pages: Vec<&PathBuf> = rendered
            .files
            .iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "html"))
            .collect();
        assert_eq!(pages.len(), if single { 1 } else { 4 });
        for path in pages {
            let links = links(&fs::read_to_string(path).unwrap());
            assert!(links.len() > 3, "{links:?}");
            for link in &links {
                let (file, id) = link.split_once('#').unwrap_or((link, ""));
                let target = match file {
                    "" => path.clone(),
                    file => path.parent().unwrap().join(file),
                };
                assert!(target.is_file(), "{link} of {}", path.display());
                let has_id = || {
                    fs::read_to_string(&target)
                        .unwrap()
                        .contains(&format!("id=\"{id}\""))
                };
                assert!(id.is_empty() || has_id(), "{link}");
            }
            let overview = links.iter().any(|link| link == "../index.html");
            assert_eq!(
                overview,
                path.parent() != Some(folder.path()),
                "{}",
                path.display()
            );
        }
        let summary = fs::read_to_string(folder.path().join("summary.md")).unwrap();
        for (_, rest) in summary
            .match_indices("](")
            .map(|(at, _)| summary.split_at(at + 2))
        {
            let link = rest.split(')').next().unwrap();
            let (file, _) = link.split_once('#').unwrap_or((link, ""));
            assert!(
                file.starts_with("http") || folder.path().join(file).is_file(),
                "{link}"
            );
        }
    }
}

#[test]
fn a_matmul_of_one_format_is_not_a_column() {
    let mut run = run(vec![info("one"), info("two")]);
    for (name, axes) in [("one", F32), ("two", BF16)] {
        let mut record = record(&cell(name, &matmul(), axes), Status::Ok, None);
        for (metric, value) in [
            (MetricName::FlopsPerSecond, 1e9),
            (MetricName::RelativeError, 1e-3),
        ] {
            record
                .metrics
                .insert(metric, Metric::reading(metric, value, "invented"));
        }
        run.add(record, None);
    }
    let summary = markdown(&Report::new(&run).unwrap());
    assert!(!summary.contains("matmul error"), "{summary}");
    let line = fields(&summary, "[one](suites/one.html)");
    assert!(line[2].starts_with("Only 32-true finished"), "{line:?}");
    assert_eq!(line[3..], ["", "measured once"]);
}
