//! Invented comparison with hostile names.

use std::{fs, path::Path};

use mantissa_core::{
    Axis, AxisValue, Backend, Cell, Executed, ExecutedVerdict, Fingerprint, Gpu, Metric, MetricName, Profile,
    Record, Requested, SCHEMA_VERSION, Setting, Status, Workload,
};
use mantissa_gate::{
    AllowedFailure, BaselineInfo, Change, ChangeVerdict, ComparedCell, Comparison, Day, Failure, Finding,
    FindingKind, GateReport, Mismatch, Part, RunMeasurements, Side,
};
use serde_json::json;

/// Text with the characters that end a string, row, line or command in any of the formats, and with invisible characters.
pub const HOSTILE: &str = "\"<script>alert('x')</script> | `a` ::error::b %0A \\ \u{1b}[31m\0\u{85}\u{202e} 🦀 @all #1\r\n:::MLLOG {}\t]]> </code> \\";

/// Writes and reads a run of seven processes of four cells. One process failed, and one workload has a hostile name of more than 10,000
/// characters.
pub fn run(folder: &Path) -> RunMeasurements {
    let cells = cells();
    let saved = BaselineInfo {
        schema: SCHEMA_VERSION,
        name: "pull-request-17".to_owned(),
        machine: "nvidia-invented".to_owned(),
        profile: Profile::Standard,
        run: "20261122T054956Z-invented".to_owned(),
        started: "2026-11-22T05:49:56.123Z".to_owned(),
        revision: Some("0123456789abcdef".to_owned()),
        cells: cells.len(),
        repeats: 7,
        records: 7 * cells.len(),
    };
    let mut lines = String::new();
    for (index, cell) in cells.iter().enumerate() {
        for repeat in 0..7 {
            let record = record(cell, index, repeat);
            lines += &serde_json::to_string(&record).expect("a record serializes as JSON");
            lines.push('\n');
        }
    }
    fs::create_dir_all(folder).expect("cannot create the folder");
    fs::write(folder.join("records.jsonl"), lines).expect("cannot write to the folder");
    let saved = serde_json::to_string(&saved).expect("the metadata serializes as JSON");
    fs::write(folder.join(BaselineInfo::FILE), saved).expect("cannot write to the folder");
    RunMeasurements::read(folder).expect("cannot read the generated run")
}

fn cells() -> Vec<Cell> {
    let matmul = workload(
        "matmul",
        json!({ "kernel": {
            "kernel": { "matmul": { "batch": 1, "m": null, "n": null, "k": null } },
            "min_samples": 3, "max_samples": 9, "max_seconds": 1.0, "max_noise": 0.01, "cache": "cold",
        }}),
    );
    let model = json!({ "distilbert": {
        "n_layers": 2, "dim": 64, "n_heads": 4, "hidden_dim": 256, "max_position_embeddings": 64, "dropout": 0.1,
        "attention_dropout": 0.1, "seq_classif_dropout": 0.2,
    }});
    let train = json!({ "train": {
        "model": model, "dataset": "synthetic-reviews",
        "split": { "join": false, "train": 500, "validation": 50, "test": 200, "seed": 123 },
        "epochs": 3, "learning_rate": 0.001, "weight_decay": 0.01, "momentum": 0.0, "drop_last": false,
    }});
    let long = format!("{HOSTILE}{}", "é".repeat(10_000));
    vec![
        cell("kernels", &matmul, &[("precision", "bf16-true")]),
        cell(
            "kernels",
            &matmul,
            &[("precision", "32-true"), ("matmul", "high")],
        ),
        cell(
            "smoke",
            &workload("reviews", train.clone()),
            &[("precision", "bf16-mixed")],
        ),
        cell(HOSTILE, &workload(&long, train), &[("precision", "32-true")]),
    ]
}

fn workload(name: &str, task: serde_json::Value) -> Workload {
    serde_json::from_value(json!({ "name": name, "task": task })).expect("the workload must be valid")
}

fn cell(suite: &str, workload: &Workload, values: &[(&str, &str)]) -> Cell {
    let mut setting = Setting::of(workload, Backend::Cuda);
    for (axis, value) in values {
        let axis: Axis = axis.parse().expect("the axis must exist");
        let value = axis.parse(value).expect("the value must be valid for the axis");
        setting
            .set(axis, value)
            .expect("the value must be valid for the axis");
    }
    if setting.get(Axis::KeepF32).is_some() && suite == HOSTILE {
        let patterns = AxisValue::List(vec![HOSTILE.to_owned(), "norm".to_owned()]);
        setting
            .set(Axis::KeepF32, patterns)
            .expect("keep_f32 accepts any patterns");
    }
    Cell::new(suite, workload.clone(), setting, 1)
}

fn record(cell: &Cell, index: usize, repeat: u32) -> Record {
    // The TF32 setting computes with bf16 operands, and fails in one process.
    let failed = index == 1 && repeat == 6;
    let requested = Requested::of(&cell.setting);
    let executed = Executed {
        operand_bits: Some(if index == 1 { 8 } else { requested.operand_bits }),
        exponent_bits: Some(requested.exponent_bits),
        accumulator: Some(requested.accumulator.clone()),
        rounding: Some("to nearest, ties to even".to_owned()),
        kernel: Some("simple".to_owned()),
        emulated: false,
        verdict: if index == 1 {
            ExecutedVerdict::Differs
        } else {
            ExecutedVerdict::AsRequested
        },
    };
    let spread = 1.0 + f64::from(repeat * 3 % 7) / 100.0;
    let mut metrics = vec![
        (MetricName::StepSeconds, 1.25e-3 * spread),
        (MetricName::WarmupSeconds, 0.0),
        (MetricName::DevicePeakBytes, 1.5e9),
        (MetricName::EnergyCounterJoules, f64::NAN),
        (MetricName::MagnitudeBias, -1e-9),
    ];
    if index < 2 {
        metrics.push((MetricName::FlopsPerSecond, 2.0e14 / spread));
        metrics.push((MetricName::RelativeError, 3.9e-7));
        metrics.push((MetricName::MaxUlp, 3.0));
    } else {
        metrics.push((MetricName::SamplesPerSecond, 25_600.0 / spread));
        metrics.push((MetricName::TestLoss, 0.3 * spread));
        metrics.push((MetricName::SkippedSteps, f64::from(repeat % 2)));
    }
    let readings = metrics
        .into_iter()
        .map(|(name, value)| (name, Metric::reading(name, value, "invented")));
    let mut metrics: std::collections::BTreeMap<_, _> = readings.collect();
    if index >= 2 {
        let accuracy = Metric::estimate(MetricName::TestAccuracy, 0.92, (0.87, 0.95), 200, "Wilson");
        metrics.insert(MetricName::TestAccuracy, accuracy);
    }
    Record {
        schema: SCHEMA_VERSION,
        cell: cell.clone(),
        repeat,
        attempt: 0,
        status: if failed { Status::Failed } else { Status::Ok },
        reason: failed.then(|| HOSTILE.to_owned()),
        requested,
        executed,
        metrics,
        events: vec![],
        data: None,
        inputs: None,
        samples: None,
        fingerprint: fingerprint(),
        command: format!("mantissa run invented.toml --cell {}", cell.id),
    }
}

fn fingerprint() -> Fingerprint {
    Fingerprint {
        cpu: Some("An invented \"CPU\"".to_owned()),
        cores: 2,
        memory_bytes: None,
        os: "none".to_owned(),
        gpu: Some(Gpu {
            name: "NVIDIA Invented".to_owned(),
            uuid: None,
            memory_bytes: None,
            compute_capability: None,
            driver: Some("580.1".to_owned()),
            cuda: None,
            sm_clock_max_hz: None,
            power_limit_watts: None,
            ecc: None,
            persistence: None,
        }),
        mantissa: "0.1.0".to_owned(),
        revision: Some("0123456789abcdef".to_owned()),
        program: None,
        burn: "0.21.0".to_owned(),
        peer: None,
        dropout_masks: None,
        build: "release".to_owned(),
    }
}

/// Returns a comparison of the run with a main branch, with findings of every kind.
pub fn small_report(run: &RunMeasurements) -> GateReport {
    let mut cells: Vec<ComparedCell> = run
        .cells
        .values()
        .map(|measured| ComparedCell {
            id: measured.cell.id.clone(),
            suite: measured.cell.suite.clone(),
            workload: measured.cell.workload.name.clone(),
            setting: measured.cell.setting.precision().to_string(),
            findings: vec![],
            changes: vec![],
            command: measured.command.clone(),
            cell: measured.cell.clone(),
        })
        .collect();
    cells.sort_by(|a, b| (&a.suite, &a.workload, &a.setting).cmp(&(&b.suite, &b.workload, &b.setting)));
    let finding = |kind, verdict, text: &str| Finding {
        kind,
        verdict,
        text: text.to_owned(),
    };
    let doubt = "the intervals of 5 and 7 processes include both no change and a change of 3 %: about 20 processes per side are needed";
    // The name of the hostile suite sorts first.
    cells[0].changes = vec![
        change(
            MetricName::StepSeconds,
            (1.0e-3, 1.25e-3),
            ChangeVerdict::Regressed,
        ),
        change(MetricName::TestAccuracy, (0.94, 0.92), ChangeVerdict::Regressed),
    ];
    cells[0].findings = vec![finding(FindingKind::Kernel, ChangeVerdict::Changed, HOSTILE)];
    cells[1].changes = vec![change(
        MetricName::FlopsPerSecond,
        (1.5e14, 2.0e14),
        ChangeVerdict::Improved,
    )];
    cells[1].findings = vec![
        finding(
            FindingKind::Executed,
            ChangeVerdict::Regressed,
            "executed 8 significand bits, 8 exponent bits, accumulator f32; before: 11 significand bits, 8 exponent bits, accumulator f32",
        ),
        finding(
            FindingKind::Status,
            ChangeVerdict::Regressed,
            &format!("failed in 1 of 7 processes ({HOSTILE}); before: ok in all 5 processes"),
        ),
    ];
    cells[2].changes = vec![
        change(
            MetricName::FlopsPerSecond,
            (2.0e14, 1.9e14),
            ChangeVerdict::Unchanged,
        ),
        Change {
            doubt: doubt.to_owned(),
            interval: None,
            ..change(
                MetricName::DevicePeakBytes,
                (1.5e9, 1.54e9),
                ChangeVerdict::Inconclusive,
            )
        },
        Change {
            doubt: doubt.to_owned(),
            change: None,
            interval: None,
            p: None,
            adjusted_p: None,
            ..change(
                MetricName::RelativeError,
                (0.0, 3.9e-7),
                ChangeVerdict::Inconclusive,
            )
        },
    ];
    cells[3].changes = vec![change(
        MetricName::SamplesPerSecond,
        (26_000.0, 25_600.0),
        ChangeVerdict::Unchanged,
    )];
    let failure = |cell, metric, text: &str| Failure {
        cell,
        metric,
        finding: None,
        text: text.to_owned(),
    };
    let allowed = |cell: usize, finding: usize, expired| AllowedFailure {
        failure: failure(cell, None, &cells[cell].findings[finding].text),
        until: Day {
            year: 2026,
            month: if expired { 1 } else { 12 },
            day: 31,
        },
        reason: "the driver is at fault, see #17".to_owned(),
        expired,
    };
    let failures = vec![
        failure(0, Some(MetricName::StepSeconds), "step_seconds regressed"),
        failure(0, Some(MetricName::TestAccuracy), "test_accuracy regressed"),
    ];
    let allowed = vec![allowed(1, 0, false), allowed(1, 1, true)];
    GateReport {
        comparison: comparison_of(cells),
        failures,
        allowed,
        inconclusive: 2,
        strict: false,
    }
}

/// Returns a report on three thousand cells with hostile names, all of which regressed.
pub fn large_report() -> GateReport {
    let workload = workload(
        "matmul",
        json!({ "kernel": {
            "kernel": { "matmul": { "batch": 1, "m": null, "n": null, "k": null } },
            "min_samples": 3, "max_samples": 9, "max_seconds": 1.0, "max_noise": 0.01, "cache": "cold",
        }}),
    );
    let setting = Setting::of(&workload, Backend::Cuda);
    let cell = |index: u64| ComparedCell {
        id: Cell::new("many", workload.clone(), setting.clone(), index).id,
        suite: format!("many {}", index % 3),
        workload: HOSTILE.repeat(20),
        setting: format!("seed {index}"),
        findings: vec![Finding {
            kind: FindingKind::Kernel,
            verdict: ChangeVerdict::Changed,
            text: HOSTILE.repeat(20),
        }],
        changes: vec![
            change(MetricName::StepSeconds, (1.0, 1.25), ChangeVerdict::Regressed),
            change(
                MetricName::HostPeakBytes,
                (1.25e9, 1.0e9),
                ChangeVerdict::Improved,
            ),
            Change {
                doubt: format!("doubt {index}: {HOSTILE}"),
                ..change(MetricName::MaxUlp, (1.0, 2.0), ChangeVerdict::Inconclusive)
            },
        ],
        command: HOSTILE.repeat(20),
        cell: Cell::new("many", workload.clone(), setting.clone(), index),
    };
    let cells: Vec<ComparedCell> = (0..3000).map(cell).collect();
    let failure = |cell| Failure {
        cell,
        metric: Some(MetricName::StepSeconds),
        finding: None,
        text: HOSTILE.to_owned(),
    };
    GateReport {
        failures: (0..3000).map(failure).collect(),
        allowed: vec![],
        inconclusive: 3000,
        strict: true,
        comparison: comparison_of(cells),
    }
}

fn comparison_of(cells: Vec<ComparedCell>) -> Comparison {
    let side = |name: &str, revision: &str, repeats| Side {
        name: name.to_owned(),
        started: "2026-11-22T05:49:56.123Z".to_owned(),
        machine: "NVIDIA Invented".to_owned(),
        profile: Profile::Standard,
        revision: Some(revision.to_owned()),
        repeats,
    };
    Comparison {
        schema: 1,
        baseline: side("main", "fedcba9876543210", 5),
        candidate: side("pull-request-17", "0123456789abcdef-dirty", 7),
        mismatches: vec![Mismatch {
            part: Part::Driver,
            baseline: Some("570".to_owned()),
            candidate: Some("580".to_owned()),
        }],
        cells,
    }
}

fn change(metric: MetricName, (baseline, candidate): (f64, f64), verdict: ChangeVerdict) -> Change {
    let by = if metric.is_learned() {
        candidate - baseline
    } else {
        candidate / baseline
    };
    Change {
        metric,
        baseline,
        candidate,
        processes: (5, 7),
        difference: metric.is_learned(),
        floor: 0.03,
        threshold: 0.03,
        verdict,
        doubt: String::new(),
        change: Some(by),
        interval: Some((by - 0.01, by + 0.01)),
        p: Some(0.000_2),
        adjusted_p: Some(0.001_4),
        drift: 1.0,
        catches: None,
    }
}
