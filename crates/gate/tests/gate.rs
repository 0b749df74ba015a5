//! Tests of the gate, from run folders to the verdict.

use std::{collections::BTreeSet, fs, path::Path};

use crate::support::{Invented, cell, fingerprint, noise};
use mantissa_core::{Axis, Backend, Cell, Gpu, MetricName, Profile, Setting, Status, Unit};
use mantissa_gate::{
    Baselines, ChangeVerdict, Comparison, Day, Fences, FindingKind, Gate, GateError, GateReport, History,
    Mismatch, Part, Policy, RunMeasurements, compare,
};

const TODAY: Day = Day {
    year: 2026,
    month: 6,
    day: 15,
};

fn cells() -> Vec<Cell> {
    let sizes = ["64", "128", "256"];
    let pairs = ["32-true", "bf16-true"]
        .into_iter()
        .flat_map(|precision| sizes.map(|size| cell(&[(Axis::Precision, precision), (Axis::Size, size)])));
    pairs.collect()
}

/// Creates a run of six cells in five processes. `factor` depends on the index of the cell and the metric; `seed` selects the noise.
fn run(seed: u64, factor: impl Fn(usize, MetricName) -> f64) -> Invented {
    Invented::new(&cells(), 5, |place, process| {
        let number = |metric: MetricName, value: f64, noisy: bool| {
            let key = seed * 10_000 + place as u64 * 100 + u64::from(process) * 7 + metric as u64 * 1_000_003;
            (
                metric,
                value * factor(place, metric) * if noisy { noise(key) } else { 1.0 },
            )
        };
        vec![
            number(MetricName::FlopsPerSecond, 1e11, true),
            number(MetricName::HostPeakBytes, 5e7, true),
            number(MetricName::AllocatorInUsePeakBytes, 1e7, false),
            number(MetricName::RelativeError, 3e-4, false),
        ]
    })
}

fn same(_: usize, _: MetricName) -> f64 {
    1.0
}

fn measured(run: Invented) -> RunMeasurements {
    let folder = tempfile::tempdir().unwrap();
    run.write(folder.path());
    RunMeasurements::read(folder.path()).unwrap()
}

fn compared(before: Invented, after: Invented) -> Comparison {
    let (before, after) = (measured(before), measured(after));
    compare(
        &before,
        &after,
        &Policy::default(),
        &BTreeSet::new(),
        &Fences::new(),
    )
    .unwrap()
}

fn gated(before: Invented, after: Invented) -> GateReport {
    GateReport::new(compared(before, after), &Policy::default(), TODAY, false)
}

#[test]
fn the_same_program_twice_passes() {
    let gated = gated(run(1, same), run(2, same));
    assert_eq!(gated.gate(), Gate::Passed, "{:?}", gated.failures);
    assert_eq!(gated.comparison.cells.len(), 6);
    assert_eq!(gated.comparison.outcomes().count(), 6 * 4);
    assert!(
        gated
            .comparison
            .outcomes()
            .all(|outcome| outcome == ChangeVerdict::Unchanged)
    );
}

#[test]
fn what_got_worse_fails_with_its_cell_metric_and_ratio() {
    for (metric, factor) in [
        (MetricName::FlopsPerSecond, 1.0 / 1.05),
        (MetricName::HostPeakBytes, 1.10),
        (MetricName::AllocatorInUsePeakBytes, 1.10),
        (MetricName::RelativeError, 2.0),
    ] {
        let worse = |place, found| {
            if (place, found) == (3, metric) {
                factor
            } else {
                1.0
            }
        };
        let gated = gated(run(1, same), run(2, worse));
        assert_eq!(gated.gate(), Gate::Failed, "{metric}");
        let [failure] = gated.failures.as_slice() else {
            panic!("{metric}: {:?}", gated.failures);
        };
        assert_eq!(failure.metric, Some(metric));
        let cell = &gated.comparison.cells[failure.cell];
        assert!(cell.setting.contains("bf16-true"), "{}", cell.setting);
        assert!(failure.text.contains(metric.name()), "{}", failure.text);
    }
}

#[test]
fn metrics_of_every_kind_are_held_to_what_matters_of_them() {
    use MetricName as M;
    // Baseline value, a relevant change, and an irrelevant one.
    for (metric, was, worse, alike) in [
        (M::StepSeconds, 0.5, 0.55, 0.505),
        (M::FirstTokenSeconds, 0.1, 0.11, 0.101),
        (M::WarmupSeconds, 2.0, 2.8, 2.1),
        (M::EnergyCounterJoules, 300.0, 340.0, 303.0),
        (M::DevicePeakBytes, 5e9, 5.3e9, 5.02e9),
        (M::AllocatorReservedPeakBytes, 5e9, 5.3e9, 5.02e9),
        (M::TestAccuracy, 0.92, 0.90, 0.918),
        (M::Agreement, 0.99, 0.97, 0.989),
        (M::Perplexity, 4.0, 4.2, 4.02),
        (M::FinalLoss, 0.3, 0.35, 0.305),
        (M::MaxUlp, 3.0, 9.0, 4.0),
    ] {
        let varies = metric.unit() == Unit::Seconds || metric == M::EnergyCounterJoules;
        let run = |seed: u64, value: f64| {
            let mut run = Invented::new(&cells(), 5, |place, process| {
                let key = seed * 10_000 + place as u64 * 100 + u64::from(process) * 7;
                vec![(metric, value * if varies { noise(key) } else { 1.0 })]
            });
            for record in &mut run.records {
                // With this many examples, the sampling error of the examples is negligible.
                record.metrics.get_mut(&metric).unwrap().n = Some(1_000_000);
            }
            run
        };
        let passes = gated(run(1, was), run(2, alike));
        assert_eq!(passes.gate(), Gate::Passed, "{metric}: {:?}", passes.failures);
        let fails = gated(run(1, was), run(2, worse));
        assert_eq!(fails.gate(), Gate::Failed, "{metric}");
        assert_eq!(fails.failures[0].metric, Some(metric));
    }
}

#[test]
fn an_accuracy_of_few_examples_takes_a_large_loss() {
    let of = |accuracy: f64| {
        let mut run = Invented::new(&cells()[..1], 5, |_, _| {
            vec![(MetricName::TestAccuracy, accuracy)]
        });
        for record in &mut run.records {
            record.metrics.get_mut(&MetricName::TestAccuracy).unwrap().n = Some(1000);
        }
        run
    };
    // With 1,000 examples, a difference of three points can be sampling error; ten points cannot.
    for (accuracy, outcome) in [
        (0.89, ChangeVerdict::Inconclusive),
        (0.82, ChangeVerdict::Regressed),
    ] {
        let comparison = compared(of(0.92), of(accuracy));
        let outcomes: Vec<_> = comparison.outcomes().collect();
        assert_eq!(outcomes, [outcome], "{accuracy}");
    }
}

/// Rounds to this many bits of significand, ties to even.
fn rounded(value: f64, bits: i32) -> f64 {
    let unit = f64::exp2(value.abs().log2().floor() + 1.0 - f64::from(bits));
    (value / unit).round_ties_even() * unit
}

/// Computes the relative error (Frobenius norm) of a matmul of random matrices whose operands are rounded to this many bits.
fn error_of_a_product(seed: u64, bits: i32) -> f64 {
    const SIZE: usize = 24;
    let value = |key: usize| (noise(seed * 100_000 + key as u64) - 1.0) * std::f64::consts::PI;
    let (mut error, mut norm) = (0.0, 0.0);
    for row in 0..SIZE {
        for column in 0..SIZE {
            let terms =
                (0..SIZE).map(|inner| (value(row * SIZE + inner), value(50_000 + inner * SIZE + column)));
            let exact: f64 = terms.clone().map(|(a, b)| a * b).sum();
            let found: f64 = terms.map(|(a, b)| rounded(a, bits) * rounded(b, bits)).sum();
            error += (found - exact).powi(2);
            norm += exact.powi(2);
        }
    }
    (error / norm).sqrt()
}

#[test]
fn a_product_that_loses_a_bit_of_significand_is_caught_in_every_try() {
    for bits in [8, 11, 24] {
        for seed in 0..20 {
            let error = |lost| {
                move |place, metric| match (place, metric) {
                    (3, MetricName::RelativeError) => error_of_a_product(seed, bits - lost),
                    _ => 1.0,
                }
            };
            let gated = gated(run(2 * seed, error(0)), run(2 * seed + 1, error(1)));
            let failed: Vec<_> = gated.failures.iter().map(|failure| failure.metric).collect();
            assert_eq!(
                failed,
                [Some(MetricName::RelativeError)],
                "{bits} bits, seed {seed}"
            );
        }
    }
}

/// Compares twelve cells that are all 10 % slower in the candidate. Each side has five runs of `processes` processes, begun at these
/// seconds.
fn all_slower(before: [u32; 5], after: [u32; 5], processes: u32) -> Comparison {
    let sizes = ["16", "32", "64", "128", "256", "512"];
    let cells: Vec<Cell> = ["32-true", "bf16-true"]
        .into_iter()
        .flat_map(|precision| sizes.map(|size| cell(&[(Axis::Precision, precision), (Axis::Size, size)])))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let side = |name: &str, seconds: [u32; 5], factor: f64| {
        let runs = seconds.map(|second| {
            let path = folder.path().join(format!("{name}-{second}"));
            let value = |place: usize, _| {
                let noise = noise(u64::from(second) * 1_000 + place as u64);
                vec![(MetricName::FlopsPerSecond, factor * 1e11 * noise)]
            };
            let mut run = Invented::new(&cells, processes, value);
            run.started = format!("2026-01-01T00:00:{second:02}Z");
            run.write(&path);
            path
        });
        RunMeasurements::read_all(&runs).unwrap()
    };
    let (before, after) = (side("before", before, 1.0), side("after", after, 1.0 / 1.1));
    compare(
        &before,
        &after,
        &Policy::default(),
        &BTreeSet::new(),
        &Fences::new(),
    )
    .unwrap()
}

#[test]
fn whether_all_cells_are_slower_or_the_machine_takes_turns_to_tell() {
    let outcomes = |comparison: &Comparison| comparison.outcomes().collect::<BTreeSet<_>>();
    let turns = all_slower([1, 3, 5, 7, 9], [2, 4, 6, 8, 10], 1);
    assert_eq!(outcomes(&turns), BTreeSet::from([ChangeVerdict::Regressed]));
    let one_after_another = all_slower([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], 1);
    assert_eq!(
        outcomes(&one_after_another),
        BTreeSet::from([ChangeVerdict::Inconclusive])
    );
    let change = &one_after_another.cells[0].changes[0];
    assert!(
        change
            .text()
            .ends_with("(all cells changed alike, and the runs were not interleaved)"),
        "{}",
        change.text()
    );
    assert!((change.drift - 1.0 / 1.1).abs() < 0.01, "{}", change.drift);
    assert!(turns.cells.iter().all(|cell| cell.changes[0].drift == 1.0));
}

#[test]
fn processes_of_one_run_count_once_where_there_are_runs_enough() {
    let several = all_slower([1, 3, 5, 7, 9], [2, 4, 6, 8, 10], 3);
    for change in several.cells.iter().flat_map(|cell| &cell.changes) {
        assert_eq!(change.processes, (5, 5));
    }
}

#[test]
fn what_got_better_passes_and_is_told() {
    let faster = |_, metric| {
        if metric == MetricName::FlopsPerSecond {
            1.2
        } else {
            1.0
        }
    };
    let gated = gated(run(1, same), run(2, faster));
    assert_eq!(gated.gate(), Gate::Passed);
    assert!(gated.comparison.any(ChangeVerdict::Improved));
}

#[test]
fn a_cell_that_fails_or_vanishes_has_regressed() {
    let mut after = run(2, same);
    let ids: Vec<_> = after.cells.iter().map(|cell| cell.id.clone()).collect();
    for record in after.records.iter_mut().filter(|record| record.cell.id == ids[0]) {
        record.status = Status::Oom;
        record.reason = Some("out of memory".into());
    }
    after.records.retain(|record| record.cell.id != ids[1]);
    for record in after.records.iter_mut().filter(|record| record.cell.id == ids[2]) {
        record.status = Status::Skipped;
        record.reason = Some("no such backend".into());
    }
    let gated = gated(run(1, same), after);
    let texts: Vec<&str> = gated
        .failures
        .iter()
        .map(|failure| failure.text.as_str())
        .collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(
        texts
            .iter()
            .any(|text| text.contains("oom in 5 of 5 processes (out of memory)")),
        "{texts:?}"
    );
    assert!(
        texts.iter().any(|text| text.contains("not in the candidate")),
        "{texts:?}"
    );
    assert!(
        texts.iter().any(|text| text.contains("skipped: no such backend")),
        "{texts:?}"
    );
}

#[test]
fn fewer_bits_than_before_have_regressed_and_another_kernel_is_told() {
    let mut after = run(2, same);
    let id = after.cells[0].id.clone();
    for record in after.records.iter_mut().filter(|record| record.cell.id == id) {
        record.executed.operand_bits = Some(11);
        record.executed.kernel = Some("tf32 gemm".into());
    }
    let gated = gated(run(1, same), after);
    assert_eq!(gated.failures.len(), 1, "{:?}", gated.failures);
    assert!(
        gated.failures[0].text.contains("11 significand bits"),
        "{}",
        gated.failures[0].text
    );
    let kinds: Vec<_> = gated
        .comparison
        .cells
        .iter()
        .flat_map(|cell| &cell.findings)
        .map(|finding| finding.kind)
        .collect();
    assert_eq!(kinds, [FindingKind::Executed, FindingKind::Kernel]);
}

#[test]
fn what_is_allowed_passes_until_its_day_and_fails_after_it() {
    let slower = |_, metric| {
        if metric == MetricName::FlopsPerSecond {
            0.8
        } else {
            1.0
        }
    };
    let judged = |policy: &str| {
        let policy = Policy::parse(policy).unwrap();
        GateReport::new(compared(run(1, same), run(2, slower)), &policy, TODAY, false)
    };
    let allowed =
        judged("[[allow]]\nmetric = \"flops_per_second\"\nuntil = 2026-06-15\nreason = \"new allocator\"");
    assert_eq!(allowed.gate(), Gate::Passed);
    assert_eq!(allowed.allowed.len(), 6);
    let expired = judged("[[allow]]\nuntil = 2026-06-14\nreason = \"new allocator\"");
    assert_eq!(expired.gate(), Gate::Failed);
    assert!(expired.allowed.iter().all(|allowed| allowed.expired));
    let another =
        judged("[[allow]]\nsetting = { precision = \"bf16-true\" }\nuntil = 2999-01-01\nreason = \"known\"");
    assert_eq!(another.failures.len(), 3);
}

#[test]
fn too_few_processes_decide_nothing_and_fail_only_where_that_is_asked_for() {
    let few = || {
        let mut run = run(1, |_, metric| {
            if metric == MetricName::FlopsPerSecond {
                0.5
            } else {
                1.0
            }
        });
        run.records.retain(|record| record.repeat < 4);
        run
    };
    let comparison = compared(run(1, same), few());
    assert!(comparison.any(ChangeVerdict::Inconclusive));
    assert!(!comparison.any(ChangeVerdict::Regressed));
    let strict = GateReport::new(comparison.clone(), &Policy::default(), TODAY, true);
    assert_eq!(strict.gate(), Gate::Undecided);
    assert_eq!(
        GateReport::new(comparison, &Policy::default(), TODAY, false).gate(),
        Gate::Passed
    );
}

#[test]
fn a_cell_that_fails_alike_on_both_sides_decides_nothing_of_fewer_processes_than_a_verdict_takes() {
    let failing_first_cell = |seed, processes| {
        let mut run = run(seed, same);
        let first = run.records[0].cell.id.clone();
        for record in run.records.iter_mut().filter(|record| record.cell.id == first) {
            record.status = Status::Diverged;
            record.reason = Some("the loss is NaN".into());
        }
        run.records.retain(|record| record.repeat < processes);
        run
    };
    for (processes, verdict) in [
        (1, ChangeVerdict::Inconclusive),
        (4, ChangeVerdict::Inconclusive),
        (5, ChangeVerdict::Unchanged),
    ] {
        let gated = gated(failing_first_cell(1, processes), failing_first_cell(2, processes));
        let mut findings = gated.comparison.cells.iter().flat_map(|cell| &cell.findings);
        let finding = findings
            .find(|finding| finding.kind == FindingKind::Status)
            .unwrap();
        assert_eq!(finding.verdict, verdict, "{}", finding.text);
        assert_eq!(gated.decides(), processes == 5, "{processes}");
    }
}

#[test]
fn machines_that_differ_are_compared_only_if_that_part_may() {
    let gpu = |name: &str, driver: &str| Gpu {
        name: name.into(),
        driver: Some(driver.into()),
        uuid: None,
        memory_bytes: None,
        compute_capability: None,
        cuda: None,
        sm_clock_max_hz: None,
        power_limit_watts: None,
        ecc: None,
        persistence: None,
    };
    let on = |backend: Backend, gpu: Option<Gpu>| {
        let mut run = run(1, same);
        for cell in run
            .cells
            .iter_mut()
            .chain(run.records.iter_mut().map(|record| &mut record.cell))
        {
            let mut setting = Setting::of(&cell.workload, backend);
            for axis in [Axis::Precision, Axis::Size] {
                setting.set(axis, cell.setting.get(axis).unwrap()).unwrap();
            }
            *cell = Cell::new("kernels", cell.workload.clone(), setting, 123);
        }
        run.fingerprint.gpu = gpu;
        run
    };
    let mut other = run(2, same);
    other.fingerprint.cpu = Some("Another CPU".into());
    let mut profile = run(2, same);
    profile.profile = Profile::Full;
    let card = || on(Backend::Cuda, Some(gpu("H200", "580.65.06")));
    for (before, after, part) in [
        (run(1, same), other, Part::Cpu),
        (run(1, same), profile, Part::Profile),
        (
            card(),
            on(Backend::Cuda, Some(gpu("H100", "580.65.06"))),
            Part::Gpu,
        ),
        (
            card(),
            on(Backend::Cuda, Some(gpu("H200", "570.65.06"))),
            Part::Driver,
        ),
    ] {
        let (before, after) = (measured(before), measured(after));
        let refused =
            |allowed: &BTreeSet<Part>| compare(&before, &after, &Policy::default(), allowed, &Fences::new());
        let error = refused(&BTreeSet::new()).unwrap_err().to_string();
        assert!(
            error.contains(part.name()) && error.contains("--allow-mismatch"),
            "{error}"
        );
        assert!(refused(&BTreeSet::from([Part::Build])).is_err());
        assert_eq!(refused(&BTreeSet::from([part])).unwrap().mismatches.len(), 1);
    }
    // A change of a driver's minor version is not a mismatch.
    let before = measured(card());
    let after = measured(on(Backend::Cuda, Some(gpu("H200", "580.95.05"))));
    assert!(Mismatch::between(&before, &after).is_empty());
    // Cells of another backend are different cells.
    let vulkan = measured(on(Backend::Vulkan, Some(gpu("H200", "580.65.06"))));
    let mismatches = Mismatch::between(&before, &vulkan);
    assert_eq!(
        mismatches
            .iter()
            .map(|mismatch| mismatch.part)
            .collect::<Vec<_>>(),
        [Part::Backend]
    );
}

fn written(folder: &Path, run: Invented) -> RunMeasurements {
    run.write(folder);
    RunMeasurements::read(folder).unwrap()
}

#[test]
fn a_baseline_is_found_again_for_its_machine_and_holds_what_the_run_did() {
    let folder = tempfile::tempdir().unwrap();
    let (root, runs) = (folder.path().join("baselines"), folder.path().join("runs"));
    let baselines = Baselines::new(&root);
    let first = written(&runs.join("first"), run(1, same));
    let saved = baselines.save("main", &first).unwrap();
    assert_eq!(saved.machine, "invented-cpu-9000-2-cores-flex-smoke");
    assert_eq!((saved.cells, saved.repeats), (6, 5));
    let file = root.join("main").join(&saved.machine).join("records.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let ids: Vec<_> = text.lines().map(|line| line[..60].to_owned()).collect();
    assert!(ids.is_sorted(), "one line per process, sorted by cell");
    // Saving the same run again writes the same text, so there is no diff.
    baselines.save("main", &first).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    let found = baselines.find("main", &first, &BTreeSet::new()).unwrap();
    assert_eq!(found.name, "main");
    let comparison = compare(
        &found,
        &first,
        &Policy::default(),
        &BTreeSet::new(),
        &Fences::new(),
    )
    .unwrap();
    assert!(
        comparison
            .outcomes()
            .all(|outcome| outcome == ChangeVerdict::Unchanged)
    );
    // Another machine has a separate baseline under the same name.
    let mut elsewhere = run(1, same);
    elsewhere.fingerprint = mantissa_core::Fingerprint {
        cpu: Some("Another".into()),
        ..fingerprint()
    };
    let elsewhere = written(&runs.join("elsewhere"), elsewhere);
    baselines.save("main", &elsewhere).unwrap();
    assert_eq!(baselines.list().unwrap().len(), 2);
    // A third machine has no baseline, unless its differences are allowed.
    let mut third = run(1, same);
    third.fingerprint.cpu = Some("Third".into());
    let mut cores = third.fingerprint.clone();
    cores.cores = 4;
    third.fingerprint = cores;
    let third = written(&runs.join("third"), third);
    let find = |parts: &[Part]| baselines.find("main", &third, &parts.iter().copied().collect());
    assert!(matches!(find(&[]), Err(GateError::NoMachine { .. })));
    assert!(
        matches!(find(&[Part::Cpu, Part::Cores]), Err(GateError::NoMachine { .. })),
        "two baselines are comparable"
    );
    assert_eq!(
        baselines
            .find("main", &elsewhere, &BTreeSet::new())
            .unwrap()
            .fingerprint
            .cpu,
        elsewhere.fingerprint.cpu
    );
    assert_eq!(
        baselines.drop("main", Some(&saved.machine)).unwrap(),
        [saved.machine]
    );
    assert_eq!(baselines.drop("main", None).unwrap().len(), 1);
    assert!(baselines.list().unwrap().is_empty());
    assert!(matches!(
        baselines.drop("main", None),
        Err(GateError::NoBaseline { .. })
    ));
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = written(&folder.path().join("run"), run(1, same));
    let baselines = Baselines::new(&folder.path().join("baselines"));
    for name in [
        "",
        "..",
        ".hidden",
        "a/b",
        "a\\b",
        "a b",
        "é",
        "a\0b",
        &"x".repeat(101),
    ] {
        assert!(
            matches!(baselines.save(name, &run), Err(GateError::BaselineName { .. })),
            "{name:?}"
        );
        assert!(baselines.find(name, &run, &BTreeSet::new()).is_err());
        assert!(baselines.drop(name, None).is_err());
    }
    assert!(!folder.path().join("baselines").exists());
}

#[test]
fn damaged_files_are_errors_that_say_where() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let whole = written(&path, run(1, same));
    let root = folder.path().join("baselines");
    let saved = Baselines::new(&root).save("main", &whole).unwrap();
    let records = root.join("main").join(&saved.machine).join("records.jsonl");
    let text = fs::read_to_string(&records).unwrap();
    let refused = |text: &str, part: &str| {
        fs::write(&records, text).unwrap();
        let error = RunMeasurements::read(records.parent().unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{part}: {error}");
    };
    refused("", "contains no records");
    refused("\n\n", "contains no records");
    refused("{}\n", "line 1");
    refused("not json\n", "line 1");
    refused(&text[..text.len() - 10], "truncated");
    let first = text.lines().next().unwrap();
    refused(&format!("{text}{first}\n"), "occurs twice");
    refused(&text.replacen("\"schema\":1", "\"schema\":99", 1), "schema 99");
    refused(
        &text.replacen("Invented CPU 9000", "Another", 1),
        "another machine",
    );
    let last = text.trim_end().rfind('\n').unwrap() + 1;
    refused(&text[..last], "30 records");
    let described = records.with_file_name("baseline.json");
    let newer =
        fs::read_to_string(&described)
            .unwrap()
            .replacen("\"schema\": 1", "\"schema\": 9, \"x\": 1", 1);
    fs::write(&described, newer.replacen("\"name\"", "\"title\"", 1)).unwrap();
    refused(&text, "schema 9");
    assert!(matches!(
        Baselines::new(&root).list(),
        Err(GateError::NewerSchema { .. })
    ));
    fs::write(&described, "{").unwrap();
    refused(&text, "baseline.json");
    // A truncated run is rejected; it must be completed first.
    let records = path.join("records.jsonl");
    let text = fs::read_to_string(&records).unwrap();
    fs::write(&records, &text[..text.len() - 10]).unwrap();
    assert!(matches!(RunMeasurements::read(&path), Err(GateError::Cut { .. })));
    let first = text.lines().next().unwrap();
    fs::write(&records, format!("{text}{first}\n")).unwrap();
    assert!(
        RunMeasurements::read(&path)
            .unwrap_err()
            .to_string()
            .contains("occurs twice")
    );
    let again = first.replacen("\"attempt\":0", "\"attempt\":1", 1);
    fs::write(&records, format!("{text}{again}\n")).unwrap();
    assert_eq!(
        RunMeasurements::read(&path).unwrap().records(),
        30,
        "a later attempt replaces the earlier one"
    );
}

#[test]
fn runs_count_once_and_only_with_those_of_the_same_program() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, other] = ["one", "two", "other"].map(|name| folder.path().join(name));
    run(1, same).write(&one);
    run(2, same).write(&two);
    let mut changed = run(3, same);
    changed.fingerprint.revision = Some("fedcba".into());
    changed.write(&other);
    let read = |folders: &[&Path]| {
        RunMeasurements::read_all(&folders.iter().map(|path| path.to_path_buf()).collect::<Vec<_>>())
    };
    assert_eq!(read(&[&one, &two]).unwrap().repeats(), 10);
    let through = folder.path().join("two/../one");
    assert!(matches!(
        read(&[&one, &two, &through]),
        Err(GateError::Twice { .. })
    ));
    assert!(matches!(read(&[&one, &other]), Err(GateError::Programs { .. })));
    // The same revision, but a different build.
    for (path, program) in [(&one, "0011"), (&two, "0022")] {
        let mut built = run(1, same);
        built.fingerprint.program = Some(program.into());
        built.write(path);
    }
    assert!(matches!(read(&[&one, &two]), Err(GateError::Programs { .. })));
}

#[test]
fn a_cell_of_which_nothing_is_left_has_regressed_though_some_of_it_failed_before() {
    let failing = |seed, fails: fn(u32) -> bool| {
        let mut run = run(seed, same);
        let id = run.cells[0].id.clone();
        for record in run
            .records
            .iter_mut()
            .filter(|record| record.cell.id == id && fails(record.repeat))
        {
            record.status = Status::Timeout;
        }
        run
    };
    let gated = gated(failing(1, |repeat| repeat == 0), failing(2, |_| true));
    assert_eq!(gated.failures.len(), 1, "{:?}", gated.failures);
    assert!(
        gated.failures[0].text.contains("timeout in 5 of 5"),
        "{:?}",
        gated.failures
    );
}

#[test]
fn what_is_no_longer_measured_or_seen_is_undecided_and_named() {
    let mut after = run(2, same);
    let id = after.cells[0].id.clone();
    for record in after.records.iter_mut().filter(|record| record.cell.id == id) {
        record.metrics.remove(&MetricName::RelativeError);
        record.executed.operand_bits = None;
    }
    let comparison = compared(run(1, same), after);
    let findings: Vec<_> = comparison.cells.iter().flat_map(|cell| &cell.findings).collect();
    let [finding] = findings.as_slice() else {
        panic!("{findings:?}");
    };
    assert_eq!(
        (finding.kind, finding.verdict),
        (FindingKind::Lost, ChangeVerdict::Inconclusive)
    );
    assert_eq!(
        finding.text,
        "no longer measured: relative_error, the executed precision"
    );
}

#[test]
fn sums_in_bf16_are_fewer_bits_than_sums_in_f16() {
    let sums = |seed, accumulator: &str| {
        let mut run = run(seed, same);
        let id = run.cells[0].id.clone();
        for record in run.records.iter_mut().filter(|record| record.cell.id == id) {
            record.executed.accumulator = Some(accumulator.into());
        }
        run
    };
    assert_eq!(gated(sums(1, "f16"), sums(2, "bf16")).failures.len(), 1);
    assert_eq!(gated(sums(1, "bf16"), sums(2, "7 bits")).failures.len(), 1);
    assert!(gated(sums(1, "7 bits"), sums(2, "f16")).failures.is_empty());
}

#[test]
fn a_cell_that_is_worse_is_not_measured_again_for_what_else_is_undecided() {
    let mut after = run(2, same);
    let id = after.cells[0].id.clone();
    let one = after
        .records
        .iter_mut()
        .find(|record| record.cell.id == id)
        .unwrap();
    one.status = Status::Failed;
    let gated = gated(run(1, same), after);
    assert_eq!(gated.failures.len(), 1);
    assert!(gated.undecided > 0, "four processes are too few for a verdict");
    assert_eq!(gated.undecided_cells().count(), 0);
    assert!(gated.decides());
}

#[test]
fn runs_with_nothing_in_common_are_no_comparison() {
    let other = Invented::new(&[cell(&[(Axis::Size, "512")])], 5, |_, _| {
        vec![(MetricName::FlopsPerSecond, 1.0)]
    });
    let (before, after) = (measured(run(1, same)), measured(other));
    let error = compare(
        &before,
        &after,
        &Policy::default(),
        &BTreeSet::new(),
        &Fences::new(),
    )
    .unwrap_err();
    assert!(matches!(error, GateError::NothingInCommon { .. }));
}

#[test]
fn a_history_grows_run_by_run_and_makes_fences() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let mut last = None;
    for day in 1..=9 {
        let mut invented = run(day, |_, metric| match metric {
            // A cell that jumps by 10 % from run to run.
            MetricName::FlopsPerSecond if day % 2 == 0 => 1.1,
            _ => 1.0,
        });
        invented.started = format!("2026-01-{day:02}T00:00:00Z");
        let name = folder.path().join(format!("run-{day}"));
        let measured = written(&name, invented);
        assert_eq!(History::append(&path, &measured, Gate::Passed).unwrap(), 6);
        last = Some(measured);
    }
    let history = History::read(&path).unwrap();
    assert_eq!(history.entries().len(), 9 * 6);
    let fences = history.fences(last.as_ref().unwrap());
    let fence = fences
        .iter()
        .find(|((_, metric), _)| *metric == MetricName::FlopsPerSecond)
        .unwrap()
        .1;
    assert!(*fence > 0.08, "{fence}");
    // Runs that did not pass do not contribute to the noise.
    let failed: String = fs::read_to_string(&path)
        .unwrap()
        .replace("\"gate\":\"passed\"", "\"gate\":\"failed\"");
    fs::write(folder.path().join("failed.jsonl"), failed).unwrap();
    let failed = History::read(&folder.path().join("failed.jsonl")).unwrap();
    assert!(failed.fences(last.as_ref().unwrap()).is_empty());
    // A change within the fence is not a regression, even if it exceeds the floor.
    let slower = |_, metric| {
        if metric == MetricName::FlopsPerSecond {
            1.0 / 1.08
        } else {
            1.0
        }
    };
    let (before, after) = (measured(run(1, same)), measured(run(2, slower)));
    let look =
        |fences: &Fences| compare(&before, &after, &Policy::default(), &BTreeSet::new(), fences).unwrap();
    assert!(look(&Fences::new()).any(ChangeVerdict::Regressed));
    assert!(!look(&fences).any(ChangeVerdict::Regressed));
}

#[test]
fn a_history_that_is_damaged_or_goes_back_in_time_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let at = |name: &str, started: &str| {
        let mut invented = run(1, same);
        invented.started = started.into();
        written(&folder.path().join(name), invented)
    };
    let append = |run: &RunMeasurements| History::append(&path, run, Gate::Passed);
    append(&at("one", "2026-01-02T00:00:00Z")).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(matches!(
        append(&at("one", "2026-01-02T00:00:00Z")),
        Err(GateError::KnownRun { .. })
    ));
    let error = append(&at("two", "2026-01-01T00:00:00Z"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("the clock was set back"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    // The same folder measured again is another run. Merged branches can leave the lines in any order.
    append(&at("one", "2026-01-03T00:00:00Z")).unwrap();
    let both = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        both.lines()
            .rev()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
    .unwrap();
    let started: Vec<_> = History::read(&path)
        .unwrap()
        .entries()
        .iter()
        .map(|entry| entry.started.clone())
        .collect();
    assert!(started.is_sorted() && started.len() == 12, "{started:?}");
    let refused = |text: &str, part: &str| {
        fs::write(&path, text).unwrap();
        let error = History::read(&path).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    };
    refused("", "is empty");
    refused("\n", "is empty");
    refused(&text[..text.len() - 5], "truncated");
    refused("{}\n", "line 1");
    refused(&format!("{text}{text}"), "occurs twice");
    refused(&text.replacen("\"schema\":1", "\"schema\":7", 1), "schema 7");
    let later = at("three", "2026-01-04T00:00:00Z");
    fs::write(&path, "").unwrap();
    assert!(matches!(append(&later), Err(GateError::EmptyHistory { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "", "the file must not change");
}

#[test]
fn a_history_names_the_first_bad_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    for day in 1..=20_u64 {
        let mut invented = run(day, |place, metric| match metric {
            MetricName::FlopsPerSecond if place == 2 && day > 11 => 0.93,
            _ => 1.0,
        });
        invented.started = format!("2026-01-{day:02}T00:00:00Z");
        let measured = written(&folder.path().join(format!("run-{day:02}")), invented);
        History::append(&path, &measured, Gate::Passed).unwrap();
    }
    let policy = Policy::default();
    let trends = History::read(&path)
        .unwrap()
        .trends(|metric| policy.floors.get(&metric).copied());
    let turned: Vec<_> = trends
        .iter()
        .flat_map(|trend| trend.changes.iter().map(move |turn| (trend, turn)))
        .filter(|(_, turn)| turn.outcome == ChangeVerdict::Regressed)
        .collect();
    let [(trend, turn)] = turned.as_slice() else {
        panic!("{turned:?}");
    };
    assert_eq!(trend.runs[turn.first].run, "run-12");
    assert_eq!(trend.metric, MetricName::FlopsPerSecond);
    assert!((turn.after / turn.before - 0.93).abs() < 0.01, "{turn:?}");
}
