//! An invented run for tests and benchmarks of the renderers. None of its numbers was measured.

use std::collections::{BTreeMap, HashMap};

use mantissa_core::{
    Axis, Backend, Cell, DataSource, DatasetKind, DistilBertSize, Environment, Event, EventKind, Executed,
    ExecutedVerdict, Fingerprint, Kernel, KernelTask, MatmulShape, Metric, MetricName, Model, Plan,
    PlannedCell, Profile, Record, Requested, SCHEMA_VERSION, Samples, Series, SeriesName, Setting, Split,
    Status, SuiteInfo, Task, TrainTask, Workload,
};
use mantissa_report::{Digest, Run, Store};

pub fn fingerprint() -> Fingerprint {
    Fingerprint {
        cpu: Some("Invented CPU 9000".into()),
        cores: 2,
        memory_bytes: Some(25_000_000_000),
        os: "Linux 6.0".into(),
        gpu: None,
        mantissa: "0.1.0".into(),
        revision: Some("0123456789ab".into()),
        program: None,
        burn: "0.21.0".into(),
        peer: None,
        dropout_masks: None,
        build: "release".into(),
    }
}

pub fn workload(name: &str) -> Workload {
    let task = TrainTask {
        model: Model::Distilbert(DistilBertSize {
            n_layers: 2,
            dim: 128,
            n_heads: 2,
            hidden_dim: 512,
            ..DistilBertSize::BASE
        }),
        dataset: DatasetKind::SyntheticReviews,
        split: Split {
            join: false,
            train: Some(2_000),
            validation: 200,
            test: Some(1_000),
            seed: 1,
        },
        epochs: 2,
        learning_rate: 1e-3,
        weight_decay: 0.0,
        momentum: 0.0,
        drop_last: true,
        observe_every: 0,
        sensitivity: false,
        updates: mantissa_core::Updates::default(),
    };
    Workload {
        name: name.into(),
        task: Task::Train(task),
    }
}

pub fn matmul() -> Workload {
    let task = KernelTask {
        kernel: Kernel::Matmul(MatmulShape::SQUARE),
        min_samples: 5,
        max_samples: 50,
        max_seconds: 2.0,
        max_noise: 0.01,
        cache: mantissa_core::CacheState::Cold,
    };
    Workload {
        name: "matmul".into(),
        task: Task::Kernel(task),
    }
}

pub fn cell(suite: &str, workload: &Workload, axes: &[(Axis, &str)]) -> Cell {
    let mut setting = Setting::of(workload, Backend::Flex);
    for (axis, value) in axes {
        setting.set(*axis, axis.parse(value).unwrap()).unwrap();
    }
    Cell::new(suite, workload.clone(), setting, 123)
}

pub fn record(cell: &Cell, status: Status, reason: Option<&str>) -> Record {
    let command = format!(
        "mantissa run {} -a {}",
        cell.suite,
        cell.setting.to_string().replace(' ', " -a ")
    );
    Record {
        schema: SCHEMA_VERSION,
        cell: cell.clone(),
        repeat: 0,
        attempt: 0,
        status,
        reason: reason.map(str::to_owned),
        requested: Requested::of(&cell.setting),
        executed: Executed::unverified(),
        metrics: BTreeMap::new(),
        events: vec![],
        data: None,
        inputs: None,
        samples: None,
        fingerprint: fingerprint(),
        command,
    }
}

pub fn synthetic() -> DataSource {
    DataSource {
        name: "synthetic reviews, seed 1".into(),
        hash: "00112233445566aa".into(),
        synthetic: true,
        classes: vec![],
        notes: vec![],
    }
}

pub fn suite(name: &str, title: &str, references: &[&str], axes: &[Axis]) -> SuiteInfo {
    SuiteInfo {
        name: name.into(),
        title: title.into(),
        question: "Which precision trains fastest without costing accuracy?".into(),
        analysis: "The first paragraph explains the columns.\n\nThe second one warns of <small> samples & hasty readers.".into(),
        references: references.iter().map(ToString::to_string).collect(),
        axes: axes.to_vec(),
        timeout_seconds: 600.0,
        expectations: vec![],
        claims: vec![],
    }
}

pub fn run(suites: Vec<SuiteInfo>) -> Run {
    Run {
        name: "2026-01-02T03-04-05Z-invented".into(),
        environment: Environment {
            schema: SCHEMA_VERSION,
            started: "2026-01-02T03:04:05Z".into(),
            command: ["mantissa", "run", "suites/"].map(str::to_owned).to_vec(),
            backend: Backend::Flex,
            fingerprint: fingerprint(),
            missing: vec!["NVML: no driver library".into()],
        },
        plan: Plan {
            profile: Profile::Smoke,
            suites,
            cells: vec![],
        },
        records: vec![],
        digests: HashMap::new(),
        samples: Store::Memory(HashMap::new()),
        is_truncated: false,
        missing_samples: vec![],
    }
}

impl RunBuilder for Run {
    fn plan(&mut self, cell: &Cell, skip: Option<&str>) {
        self.plan.cells.push(PlannedCell {
            cell: cell.clone(),
            skip: skip.map(str::to_owned),
        });
    }

    fn add(&mut self, record: Record, samples: Option<Samples>) {
        self.plan(&record.cell.clone(), None);
        self.measured(record, samples);
    }

    fn measured(&mut self, record: Record, samples: Option<Samples>) {
        if let (Some(samples), Store::Memory(all)) = (samples, &mut self.samples) {
            let key = (record.cell.id.clone(), record.repeat);
            self.digests.insert(key.clone(), Digest::new(&samples));
            all.insert(key, samples);
        }
        self.records.push(record);
    }
}

/// Methods that add cells to a run.
pub trait RunBuilder {
    /// Adds a planned cell without a record.
    fn plan(&mut self, cell: &Cell, skip: Option<&str>);
    /// Adds a planned cell with its record.
    fn add(&mut self, record: Record, samples: Option<Samples>);
    /// Adds a record of a cell that is already planned.
    fn measured(&mut self, record: Record, samples: Option<Samples>);
}

/// Sets time, accuracy (over 1,000 examples) and memory of a training cell.
pub fn train_metrics(record: &mut Record, seconds: f64, hits: u64, bytes: f64) {
    let accuracy = mantissa_analysis::wilson(hits, 1_000).unwrap();
    let time = (seconds * 0.985, seconds * 1.015);
    record.metrics.extend([
        (
            MetricName::TrainSeconds,
            Metric::estimate(MetricName::TrainSeconds, seconds, time, 3, "invented"),
        ),
        (
            MetricName::TestAccuracy,
            accuracy.metric(MetricName::TestAccuracy),
        ),
        (
            MetricName::HostPeakBytes,
            Metric::reading(MetricName::HostPeakBytes, bytes, "invented"),
        ),
        (
            MetricName::FinalLoss,
            Metric::reading(MetricName::FinalLoss, 0.3 + 5.0 / hits as f64, "invented"),
        ),
    ]);
    record.data = Some(synthetic());
}

/// Sets the memory breakdown of a training with 60 MB of f32 weights and the two moments of Adam.
pub fn memory_parts(record: &mut Record, precision: &str) {
    let (weight, copies, activations) = match precision {
        "64-true" => (120e6, 0.0, 800e6),
        "16-mixed" | "bf16-mixed" => (60e6, 26e6, 250e6),
        "16-true" | "bf16-true" => (30e6, 0.0, 200e6),
        _ => (60e6, 0.0, 400e6),
    };
    let parts = [
        (MetricName::WeightsBytes, weight),
        (MetricName::WeightCopiesBytes, copies),
        (MetricName::ActivationsBytes, activations),
        (MetricName::GradientsBytes, weight),
        (MetricName::OptimizerBytes, 2.0 * weight),
    ];
    let reading = |(name, bytes)| (name, Metric::reading(name, bytes, "invented"));
    record.metrics.extend(parts.map(reading));
}

/// Creates a noisy falling loss over 1,000 steps, which stops being finite at `lost_at`.
pub fn loss(seed: u32, lost_at: Option<u32>) -> Samples {
    let mut series = Series::new(SeriesName::TrainLoss);
    for step in 1..=1_000_u32 {
        let noise = f64::from((step * 7_919 + seed * 104_729) % 1_000) / 1_000.0 - 0.5;
        let value =
            0.25 + 0.5 * (-f64::from(step) / 260.0).exp() + 0.22 * noise + 0.012 * f64::from(seed % 5);
        let lost = lost_at.is_some_and(|at| step >= at);
        series.push(f64::from(step), if lost { f64::NAN } else { value });
    }
    Samples {
        series: vec![series],
        test_correct: None,
        ranges: vec![],
        trials: vec![],
        staleness: vec![],
    }
}

const MATRIX: [(&str, &str, f64, u64, f64); 12] = [
    ("64-true", "highest", 310.4, 858, 1.71e9),
    ("32-true", "highest", 171.2, 861, 0.92e9),
    ("32-true", "high", 176.9, 859, 0.93e9),
    ("32-true", "medium", 181.3, 852, 0.93e9),
    ("16-mixed", "highest", 205.6, 860, 0.81e9),
    ("16-mixed", "high", 208.3, 860, 0.81e9),
    ("16-mixed", "medium", 207.7, 860, 0.81e9),
    ("bf16-mixed", "highest", 149.5, 855, 0.78e9),
    ("bf16-mixed", "high", 149.9, 855, 0.78e9),
    ("bf16-mixed", "medium", 151.0, 855, 0.78e9),
    ("16-true", "highest", 98.2, 500, 0.51e9),
    ("bf16-true", "highest", 92.6, 768, 0.51e9),
];

/// Adds the article's suite: twelve settings, of which one diverges, plus an undefined and a failed one.
pub fn article(run: &mut Run, workload: &Workload) {
    for (index, (precision, matmul, seconds, hits, bytes)) in MATRIX.into_iter().enumerate() {
        let cell = cell(
            "article",
            workload,
            &[(Axis::Precision, precision), (Axis::Matmul, matmul)],
        );
        let diverges = precision == "16-true";
        let status = if diverges { Status::Diverged } else { Status::Ok };
        let mut record = record(
            &cell,
            status,
            diverges.then_some("the loss was not finite from step 412"),
        );
        train_metrics(&mut record, seconds, hits, bytes);
        memory_parts(&mut record, precision);
        if precision == "16-mixed" {
            let event = |step, value| Event {
                kind: EventKind::LossScale,
                step: Some(step),
                value: Some(value),
                detail: "overflow".into(),
            };
            record
                .events
                .extend([event(3, 32_768.0), event(7, 16_384.0), event(520, 8_192.0)]);
        }
        if precision == "32-true" {
            record.executed = Executed {
                operand_bits: Some(if matmul == "high" {
                    24
                } else {
                    record.requested.operand_bits
                }),
                exponent_bits: Some(8),
                accumulator: Some("f32".into()),
                rounding: Some("nearest even".into()),
                kernel: Some("gemm".into()),
                emulated: matmul != "highest",
                verdict: if matmul == "high" {
                    ExecutedVerdict::Differs
                } else {
                    ExecutedVerdict::AsRequested
                },
            };
        }
        run.add(record, Some(loss(index as u32, diverges.then_some(412))));
    }
    let undefined = cell(
        "article",
        workload,
        &[(Axis::Precision, "64-true"), (Axis::Matmul, "high")],
    );
    run.plan(
        &undefined,
        Some("`matmul=high` is not defined under `64-true`: it concerns f32 operands only"),
    );
    let failed = cell(
        "article",
        workload,
        &[(Axis::Precision, "bf16-true"), (Axis::Matmul, "medium")],
    );
    run.add(
        record(&failed, Status::Failed, Some("the worker was ended by signal 9")),
        None,
    );
}

/// Adds the suite of micro-batch × accumulation steps.
pub fn accumulation(run: &mut Run, workload: &Workload) {
    let grid = [
        (16, 1, 88.0, 861, 1.3e9),
        (8, 2, 96.3, 862, 0.84e9),
        (4, 4, 118.9, 858, 0.61e9),
        (1, 16, 240.1, 859, 0.42e9),
        (4, 1, 121.0, 866, 0.6e9),
    ];
    for (index, (batch, steps, seconds, hits, bytes)) in grid.into_iter().enumerate() {
        let (batch, steps) = (batch.to_string(), steps.to_string());
        let cell = cell(
            "accumulation",
            workload,
            &[(Axis::Batch, &batch), (Axis::Accumulate, &steps)],
        );
        let mut record = record(&cell, Status::Ok, None);
        train_metrics(&mut record, seconds, hits, bytes);
        run.add(record, Some(loss(20 + index as u32, None)));
    }
}

/// Adds the suite of matmuls by size.
pub fn kernels(run: &mut Run) {
    let settings = [
        ("64-true", "highest", 92e9, 0.0),
        ("32-true", "highest", 206e9, 1.9e-7),
        ("32-true", "high", 190e9, 3.1e-4),
        ("32-true", "medium", 185e9, 2.4e-3),
        ("16-true", "highest", 187e9, 2.9e-4),
        ("bf16-true", "highest", 221e9, 2.3e-3),
    ];
    for (precision, matmul, flops, error) in settings {
        for size in [64_u32, 128, 256, 512, 1024] {
            let text = size.to_string();
            let axes = [
                (Axis::Precision, precision),
                (Axis::Matmul, matmul),
                (Axis::Size, &text),
            ];
            let cell = cell("kernels", &self::matmul(), &axes);
            let mut record = record(&cell, Status::Ok, None);
            let share = 1.0 - (-f64::from(size) / 300.0).exp();
            let (rate, error) = (flops * share, error * (f64::from(size) / 1024.0).powf(0.12));
            record.metrics.extend([
                (
                    MetricName::FlopsPerSecond,
                    Metric::estimate(
                        MetricName::FlopsPerSecond,
                        rate,
                        (rate * 0.95, rate * 1.04),
                        50,
                        "invented",
                    ),
                ),
                (
                    MetricName::RelativeError,
                    Metric::reading(MetricName::RelativeError, error, "invented"),
                ),
                (
                    MetricName::MaxUlp,
                    Metric::reading(MetricName::MaxUlp, (error * 2e7).round(), "invented"),
                ),
            ]);
            run.add(record, None);
        }
    }
}

/// Creates the run with all three suites.
pub fn invented() -> Run {
    let mut run = run(vec![
        suite(
            "article",
            "DistilBERT on IMDb under every precision",
            &["distilbert-imdb"],
            &[Axis::Precision, Axis::Matmul],
        ),
        suite(
            "accumulation",
            "Gradient accumulation",
            &["accumulation-bloom"],
            &[Axis::Batch, Axis::Accumulate],
        ),
        suite(
            "kernels",
            "Matrix products",
            &["matmul-accuracy-pytorch"],
            &[Axis::Precision, Axis::Matmul, Axis::Size],
        ),
    ]);
    article(&mut run, &workload("distilbert-tiny"));
    accumulation(&mut run, &workload("distilbert-tiny"));
    kernels(&mut run);
    run
}
