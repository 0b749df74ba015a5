//! Invented runs: every number here is made up.

use std::{collections::BTreeMap, fs, path::Path};

use mantissa_core::{
    Axis, Backend, CacheState, Cell, Environment, Executed, ExecutedVerdict, Fingerprint, Kernel, KernelTask,
    MatmulShape, Metric, MetricName, Plan, PlannedCell, Profile, Record, Requested, SCHEMA_VERSION, Setting,
    Status, Task, Workload,
};

/// Run of which the tests write a folder.
pub struct InventedRun {
    pub cells: Vec<Cell>,
    pub records: Vec<Record>,
    pub profile: Profile,
    pub fingerprint: Fingerprint,
    pub started: String,
}

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

pub fn matmul() -> Workload {
    Workload {
        name: "matmul".into(),
        task: Task::Kernel(KernelTask {
            kernel: Kernel::Matmul(MatmulShape::SQUARE),
            min_samples: 5,
            max_samples: 50,
            max_seconds: 2.0,
            max_noise: 0.01,
            cache: CacheState::Cold,
        }),
    }
}

pub fn cell(axes: &[(Axis, &str)]) -> Cell {
    let workload = matmul();
    let mut setting = Setting::of(&workload, Backend::Flex);
    for (axis, value) in axes {
        setting.set(*axis, axis.parse(value).unwrap()).unwrap();
    }
    Cell::new("kernels", workload, setting, 123)
}

pub fn record(cell: &Cell, repeat: u32, metrics: &[(MetricName, f64)]) -> Record {
    let requested = Requested::of(&cell.setting);
    Record {
        schema: SCHEMA_VERSION,
        cell: cell.clone(),
        repeat,
        attempt: 0,
        status: Status::Ok,
        reason: None,
        executed: Executed {
            operand_bits: Some(requested.operand_bits),
            exponent_bits: Some(requested.exponent_bits),
            accumulator: Some(requested.accumulator.clone()),
            rounding: None,
            kernel: Some("gemm".into()),
            emulated: false,
            verdict: ExecutedVerdict::AsRequested,
        },
        requested,
        metrics: metrics
            .iter()
            .map(|(name, value)| (*name, Metric::reading(*name, *value, "invented")))
            .collect::<BTreeMap<_, _>>(),
        events: vec![],
        data: None,
        inputs: None,
        samples: Some("cells/x/0-0".into()),
        fingerprint: fingerprint(),
        command: "mantissa run matmul".into(),
    }
}

impl InventedRun {
    /// Creates a run with this many processes per cell. `metrics(cell_index, process)` returns the values.
    pub fn new(
        cells: &[Cell],
        processes: u32,
        metrics: impl Fn(usize, u32) -> Vec<(MetricName, f64)>,
    ) -> Self {
        let records = (0..processes).flat_map(|process| {
            let metrics = &metrics;
            cells
                .iter()
                .enumerate()
                .map(move |(cell_index, cell)| record(cell, process, &metrics(cell_index, process)))
        });
        Self {
            records: records.collect(),
            cells: cells.to_vec(),
            profile: Profile::Smoke,
            fingerprint: fingerprint(),
            started: "2026-01-01T00:00:00Z".into(),
        }
    }

    /// Writes the run folder.
    pub fn write(mut self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        let environment = Environment {
            schema: SCHEMA_VERSION,
            started: self.started,
            command: vec!["mantissa".into(), "run".into()],
            backend: Backend::Flex,
            fingerprint: self.fingerprint.clone(),
            missing: vec![],
        };
        let plan = Plan {
            profile: self.profile,
            suites: vec![],
            cells: self
                .cells
                .into_iter()
                .map(|cell| PlannedCell { cell, skip: None })
                .collect(),
        };
        let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
        write("environment.json", serde_json::to_string(&environment).unwrap());
        write("plan.json", serde_json::to_string(&plan).unwrap());
        let mut lines = String::new();
        for record in &mut self.records {
            record.fingerprint = self.fingerprint.clone();
            lines.push_str(&serde_json::to_string(record).unwrap());
            lines.push('\n');
        }
        write("records.jsonl", lines);
    }
}

/// Returns a deterministic number close to 1, with some thousandths of noise.
pub fn noise(seed: u64) -> f64 {
    let mixed = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    1.0 + ((mixed >> 40) as f64 / (1_u64 << 24) as f64 - 0.5) * 0.008
}
