//! Measures the overhead of a cell: starting and ending a process, and the parent's bookkeeping, disk writes included.
//! For comparison, it also times whole worker processes: one that runs a kernel and one that trains for a single step. The time of the
//! training worker is an upper bound on the time until its first step.

use std::{
    collections::BTreeMap,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use criterion::{Criterion, criterion_group, criterion_main};
use mantissa_core::{Backend, Environment, Plan, Profile, SCHEMA_VERSION, Status};
use mantissa_inputs::Inputs;
use mantissa_runner::{
    CellResult, Executor, Finished, Policy, Progress, ProgressEvent, ProgressUpdate, Request, RunError,
    RunFolder, RunSettings, Schedule, Stop, fingerprint,
};
use mantissa_suite::{PlanOptions, StartingWeights, parse, plan};

const SUITE: &str = r#"
title = "Small matrix products"
question = "What does the harness cost?"
axes = { size = [16], seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }
[[workload]]
name = "matmul"
task = "kernel"
kernel = "matmul"
min_samples = 3
max_samples = 3
max_seconds = 0.01
"#;

/// Suite whose worker creates data, tokens and weights, runs one step and tests one example.
const TRAINING: &str = r#"
title = "One training step"
question = "When does a training begin?"
axes = { batch = [8], sequence = [32] }
[[workload]]
name = "step"
task = "train"
model = "distilbert"
dataset = "synthetic-reviews"
epochs = 1
learning_rate = 1e-3
model_size = { n_layers = 1, dim = 16, n_heads = 2, hidden_dim = 32, max_position_embeddings = 32 }
split = { train = 8, validation = 0, test = 1 }
"#;

fn plan_suite(suite: &str) -> Plan {
    let options = PlanOptions {
        profile: Profile::Smoke,
        backend: Backend::Flex,
        overrides: vec![],
        suite_inputs: false,
        data: vec![],
        weights: StartingWeights::None,
        models: Default::default(),
        filter: None,
    };
    plan(
        &[parse("harness", "harness.toml", suite).expect("a suite")],
        &options,
    )
    .expect("a plan")
}

/// Executor that finishes every cell immediately.
struct InstantExecutor;

impl Executor for InstantExecutor {
    fn execute(
        &mut self,
        _: &Request,
        _: Duration,
        _: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<(CellResult, Vec<u8>), RunError> {
        let finished = Finished::without_result(Status::Ok, "");
        Ok((CellResult::Finished(Box::new(finished)), vec![]))
    }
}

struct NoProgress;

impl Progress for NoProgress {
    fn on_event(&mut self, _: ProgressEvent<'_>) {}
}

/// Returns the time per cell of a run whose cells finish immediately.
fn bookkeeping(folder: &Path) -> Duration {
    let settings = RunSettings {
        backend: Backend::Flex,
        inputs: Inputs::default(),
        suite_inputs: [].into(),
        save_weights: false,
        repeats: 1,
        suite_repeats: [].into(),
        suites: BTreeMap::new(),
        peer: vec![],
        mpirun: vec![],
        directory: None,
        policy: Policy::default(),
    };
    let environment = Environment {
        schema: SCHEMA_VERSION,
        started: String::new(),
        command: vec![],
        backend: Backend::Flex,
        fingerprint: fingerprint(None),
        missing: vec![],
    };
    let fingerprints = [(Backend::Flex, fingerprint(None))].into();
    let mut folder = RunFolder::create(folder, plan_suite(SUITE), settings, &BTreeMap::new(), environment)
        .expect("a run folder");
    let count = folder.plan.cells.len() as u32;
    let start = Instant::now();
    Schedule::new(&mut folder, fingerprints, Stop::default())
        .run(&mut InstantExecutor, &mut NoProgress)
        .expect("a run");
    start.elapsed() / count
}

/// Runs a worker with this request until it exits.
fn worker(request: &[u8]) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mantissa"))
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a worker");
    let stdin = child.stdin.take().expect("a pipe");
    // The write fails if the worker exits without reading its request.
    let _ = { stdin }.write_all(request);
    child.wait().expect("an end");
}

fn harness(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("harness");
    group.sample_size(20);
    group.bench_function("process without work", |bencher| bencher.iter(|| worker(b"")));
    group.bench_function("bookkeeping of a cell", |bencher| {
        bencher.iter_custom(|iterations| {
            let measure_once = |_| bookkeeping(tempfile::tempdir().expect("a folder").path());
            (0..iterations).map(measure_once).sum()
        });
    });
    let folder = tempfile::tempdir().expect("a folder");
    let mut number = 0;
    for (name, suite) in [
        ("whole tiny kernel worker", SUITE),
        ("whole tiny training worker", TRAINING),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                number += 1;
                let path = |kind: &str| folder.path().join(format!("{kind}-{number}"));
                let request = Request {
                    job: Default::default(),
                    cell: plan_suite(suite).cells[0].cell.clone(),
                    inputs: Inputs {
                        cache: path("cache"),
                        ..Inputs::default()
                    },
                    save_weights: false,
                    peer: vec![],
                    samples: path("samples"),
                    gpu: None,
                    own_gpu: None,
                    idle_watts: Err("no GPU is sampled".into()),
                };
                worker(&serde_json::to_vec(&request).expect("plain data"));
            });
        });
    }
}

criterion_group!(benches, harness);
criterion_main!(benches);
