//! How much does sampling slow what it watches, on this machine? A fixed loop of arithmetic, on one core and on all of
//! them, and the steps of a small training run with and without a sampler, in turn; the median of the ratios is printed
//! with the sampler's own account of its time, and with the time that its thread spent on a core, which a busy machine
//! blurs less.
//!
//! `cargo run --release -p mantissa-runner --example disturbance [ROUNDS] [DEVICE [LIBRARY]]`: a device by UUID or
//! PCI bus id is sampled too, through the NVML of this machine or of a file (the stand-in of `tests/nvml`).

use std::{
    env, fs,
    hint::black_box,
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use mantissa_core::{Backend, Cell, DatasetKind, Profile};
use mantissa_suite::{PlanOptions, parse, plan};
use mantissa_telemetry::{GpuSource, HostMemory, Sampler, Source};
use mantissa_workloads::{Inputs, Observer, Progress};

/// Pairs of one piece of work without and one with a sampler.
const ROUNDS: usize = 100;

/// Length of one piece of work: long enough for some fifty readings, short enough that whatever else disturbs the
/// machine disturbs few pairs.
const WORK: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let rounds = match arguments.first().map(|text| text.parse()) {
        None => ROUNDS,
        Some(Ok(rounds)) if rounds > 0 => rounds,
        Some(_) => {
            eprintln!("usage: disturbance [ROUNDS] [DEVICE [LIBRARY]]");
            return ExitCode::from(2);
        }
    };
    let (device, library) = (arguments.get(1), arguments.get(2));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let iterations = iterations_of(WORK);
    let sources = || sources(device, library);
    for threads in [1, cores] {
        let work = || work_on(threads, iterations);
        compare(&format!("arithmetic, {threads} threads"), rounds, work, sources);
    }
    let cell = training();
    let cache = env::temp_dir().join(format!("mantissa-disturbance-{}", std::process::id()));
    compare(
        "median training step",
        rounds,
        || median_step(&cell, &cache),
        sources,
    );
    // Left behind, it costs a few kilobytes.
    let _ = fs::remove_dir_all(cache);
    ExitCode::SUCCESS
}

fn compare(what: &str, rounds: usize, work: impl Fn() -> f64, sources: impl Fn() -> Vec<Box<dyn Source>>) {
    let (mut ratios, mut shares) = (vec![], vec![]);
    let mut last = None;
    for round in 0..rounds {
        // The order changes from round to round, so that a drift of the clock favours neither.
        let before = round.is_multiple_of(2).then(&work);
        let sampler = Sampler::start(sources());
        let (start, spent) = (sampler.seconds(), sampler_seconds());
        let with = work();
        let window = start..sampler.seconds();
        let spent = sampler_seconds().zip(spent).map(|(after, before)| after - before);
        shares.extend(spent.map(|seconds| seconds / (window.end - window.start)));
        let trace = sampler.stop();
        let without = before.unwrap_or_else(&work);
        ratios.push(with / without);
        last = Some((trace.rate(window), trace.missing().to_vec()));
    }
    let mut at = |share: f64| 100.0 * (quantile(&mut ratios, share).unwrap_or(f64::NAN) - 1.0);
    println!(
        "{what}, {rounds} rounds: {:+.3} % with the sampler (quartiles {:+.3} % and {:+.3} %)",
        at(0.5),
        at(0.25),
        at(0.75)
    );
    if let Some(share) = quantile(&mut shares, 0.5) {
        println!("  its thread was on a core {:.3} % of the time", 100.0 * share);
    }
    if let Some((rate, missing)) = last {
        println!("  last round: {rate}");
        missing.iter().for_each(|reason| println!("  missing: {reason}"));
    }
}

fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * share).round() as usize).copied()
}

/// How long the sampler's thread has been on a core so far, seconds: the first number of its `schedstat`, in
/// nanoseconds, where the system has one.
fn sampler_seconds() -> Option<f64> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let mut folders = tasks.filter_map(|task| Some(task.ok()?.path()));
    let folder = folders.find(|folder| {
        fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.trim() == "telemetry")
    })?;
    let line = fs::read_to_string(folder.join("schedstat")).ok()?;
    let nanoseconds: f64 = line.split(' ').next()?.parse().ok()?;
    Some(nanoseconds / 1e9)
}

fn sources(device: Option<&String>, library: Option<&String>) -> Vec<Box<dyn Source>> {
    let mut sources: Vec<Box<dyn Source>> = vec![Box::new(HostMemory::default())];
    if let Some(device) = device {
        sources.push(Box::new(match library {
            Some(library) => GpuSource::open_with(Path::new(library), device),
            None => GpuSource::open(device),
        }));
    }
    sources
}

/// A training that takes about as long, twelve steps to an epoch.
const TRAINING: &str = r#"
title = "Disturbance"
question = "Does a sampler slow a training step?"

[axes]
batch = [8]
sequence = [64]

[[workload]]
name = "encoder"
task = "train"
model = "distilbert"
dataset = "synthetic-reviews"
epochs = 2
learning_rate = 1e-3

[workload.model_size]
n_layers = 2
dim = 64
n_heads = 4
hidden_dim = 256
max_position_embeddings = 64

[workload.split]
train = 96
validation = 8
test = 8
"#;

fn training() -> Cell {
    let suite = parse("disturbance", "disturbance.toml", TRAINING).expect("the suite above is one");
    let options = PlanOptions {
        profile: Profile::Smoke,
        backend: Backend::Flex,
        overrides: vec![],
        dataset: DatasetKind::SyntheticReviews,
        filter: None,
    };
    let plan = plan(&[suite], &options).expect("it has a plan");
    plan.cells.into_iter().next().expect("of one cell").cell
}

/// Median of the steps of a training, seconds.
fn median_step(cell: &Cell, cache: &Path) -> f64 {
    struct Nobody;
    impl Observer for Nobody {
        fn progress(&mut self, _: Progress) {}
    }
    let inputs = Inputs {
        cache: cache.to_owned(),
        ..Inputs::default()
    };
    let outcome = mantissa_workloads::run(cell, &inputs, &mut Nobody).expect("it trains on the CPU");
    let steps = outcome.samples.get("step_seconds").expect("it has steps");
    quantile(&mut steps.values().collect::<Vec<f64>>(), 0.5).expect("at least one")
}

/// How many iterations take about this long on one core.
fn iterations_of(length: Duration) -> u64 {
    const TRIAL: u64 = 50_000_000;
    let seconds = (0..3).map(|_| work_on(1, TRIAL)).fold(f64::INFINITY, f64::min);
    (TRIAL as f64 * length.as_secs_f64() / seconds) as u64
}

/// Seconds until every thread has done its iterations.
fn work_on(threads: usize, iterations: u64) -> f64 {
    let start = Instant::now();
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| work(iterations)))));
    start.elapsed().as_secs_f64()
}

/// A chain of operations each of which waits for the one before: Marsaglia's 64-bit xorshift.
fn work(iterations: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..iterations {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}
